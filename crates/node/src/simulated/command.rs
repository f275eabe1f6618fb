//! What a container's command would do, as far as a simulation cares: how long it runs and how it ends.
//!
//! Known are `true`, `false`, `exit N`, `sleep N`, commands that end at once (`echo`), and scripts of these for a shell, joined by
//! `;`, `&&`, `||` or new lines. Everything else is taken for a server and runs for ever, unless its pod is one that is to end:
//! then only what is known to be a server is one ([`serves`]).

#[cfg(test)]
mod tests;

use object::Value;

/// How a run ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub after_millis: i64,
    pub code: i32,
}

/// `None`: it does not end. A container without a command does whatever its image does: it serves.
pub fn end_of(container: &Value) -> Option<End> {
    run(&words_of(container))
}

fn words_of(container: &Value) -> Vec<String> {
    let words = |name: &str| {
        let list = container.get(name).and_then(Value::as_list).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut all = words("command");
    all.extend(words("args"));
    all
}

/// Programs that go on until they are stopped, with those of Kubernetes' test image.
const SERVERS: [&str; 14] = [
    "agnhost",
    "cat",
    "httpd",
    "netexec",
    "nettest",
    "nginx",
    "pause",
    "porter",
    "serve-hostname",
    "sleep",
    "tail",
    "test-webserver",
    "top",
    "watch",
];

/// Whether a container that [does not end](end_of) is known to be one that does not, by its command or its image.
pub fn serves(container: &Value) -> bool {
    let words = words_of(container);
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let mut programs = words.iter().map(|word| word.rsplit('/').next().unwrap_or_default());
    let named = programs.find(|program| *program != "agnhost");
    // A script that does not end loops, or ends in a server.
    named.is_some_and(is_shell)
        || SERVERS.contains(&named.unwrap_or_else(|| {
            let image = image.rsplit('/').next().unwrap_or_default();
            image.split([':', '@']).next().unwrap_or_default()
        }))
}

/// One command with its arguments.
fn run(words: &[String]) -> Option<End> {
    let (program, arguments) = words.split_first()?;
    if is_shell(program) {
        let flag = arguments.iter().position(|word| word.starts_with('-') && word.contains('c'))?;
        return script(arguments.get(flag + 1)?);
    }
    match simple(words) {
        Outcome::Ends { after_millis, code } | Outcome::Exits { after_millis, code } => {
            Some(End { after_millis, code })
        }
        Outcome::Serves => None,
    }
}

fn is_shell(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("sh" | "bash" | "ash" | "dash"))
}

enum Outcome {
    Ends {
        after_millis: i64,
        code: i32,
    },
    /// Ends the whole script.
    Exits {
        after_millis: i64,
        code: i32,
    },
    Serves,
}

fn simple(words: &[String]) -> Outcome {
    let ends = |code| Outcome::Ends { after_millis: 0, code };
    let mut words = words;
    // However many: a user writes them.
    while let [program, rest @ ..] = words
        && matches!(program.rsplit('/').next(), Some("exec" | "nohup" | "command"))
    {
        words = rest;
    }
    let Some((program, arguments)) = words.split_first() else { return ends(0) };
    let first = arguments.first().map(String::as_str);
    match program.rsplit('/').next().unwrap_or("") {
        "true" | ":" | "echo" | "printf" | "set" | "trap" | "export" | "cd" | "date" | "mkdir" | "touch"
        | "rm" | "hostname" | "env" | "ls" | "pwd" | "test" | "find" => ends(0),
        "false" => ends(1),
        "exit" => {
            let code = first.map_or(Some(0), |code| code.parse().ok()).unwrap_or(2);
            // As a shell has it: modulo 256.
            Outcome::Exits { after_millis: 0, code: i32::rem_euclid(code, 256) }
        }
        "sleep" => match total_millis(arguments) {
            Some(after_millis) if !arguments.is_empty() => Outcome::Ends { after_millis, code: 0 },
            _ if arguments.iter().any(|word| word == "infinity" || word == "inf") => Outcome::Serves,
            _ => ends(1),
        },
        program if is_shell(program) => match run(words) {
            Some(End { after_millis, code }) => Outcome::Ends { after_millis, code },
            None => Outcome::Serves,
        },
        _ => Outcome::Serves,
    }
}

/// `sleep` takes several times and adds them up.
fn total_millis(words: &[String]) -> Option<i64> {
    words.iter().try_fold(0i64, |sum, word| Some(sum.saturating_add(duration_millis(word)?)))
}

/// How the next command depends on the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joint {
    Always,
    IfWell,
    IfNot,
}

fn script(text: &str) -> Option<End> {
    let (mut after_millis, mut code) = (0i64, 0);
    for (joint, words) in commands(text) {
        let skipped = match joint {
            Joint::Always => false,
            Joint::IfWell => code != 0,
            Joint::IfNot => code == 0,
        };
        if skipped || words.is_empty() {
            continue;
        }
        match simple(&words) {
            Outcome::Ends { after_millis: more, code: its } => {
                after_millis = after_millis.saturating_add(more);
                code = its;
            }
            Outcome::Exits { after_millis: more, code: its } => {
                // A bare `exit` keeps what was.
                let code = if words.len() == 1 { code } else { its };
                return Some(End { after_millis: after_millis.saturating_add(more), code });
            }
            // Loops are taken for servers too: their keywords are no command that is known.
            Outcome::Serves => return None,
        }
    }
    Some(End { after_millis, code })
}

/// A script cut into commands, quotes undone.
fn commands(text: &str) -> Vec<(Joint, Vec<String>)> {
    let mut all = Vec::new();
    let (mut joint, mut words) = (Joint::Always, Vec::new());
    let (mut word, mut in_word, mut quote) = (String::new(), false, None);
    let mut chars = text.chars().peekable();
    let end_word = |word: &mut String, in_word: &mut bool, words: &mut Vec<String>| {
        if std::mem::take(in_word) {
            words.push(std::mem::take(word));
        }
    };
    while let Some(c) = chars.next() {
        if let Some(open) = quote {
            if c == open {
                quote = None;
            } else {
                word.push(c);
            }
            continue;
        }
        match c {
            '\'' | '"' => {
                quote = Some(c);
                in_word = true;
            }
            ';' | '\n' | '&' | '|' => {
                end_word(&mut word, &mut in_word, &mut words);
                let twice = matches!(c, '&' | '|') && chars.next_if_eq(&c).is_some();
                all.push((joint, std::mem::take(&mut words)));
                joint = match (c, twice) {
                    ('&', true) => Joint::IfWell,
                    ('|', true) => Joint::IfNot,
                    _ => Joint::Always,
                };
            }
            c if c.is_whitespace() => end_word(&mut word, &mut in_word, &mut words),
            c => {
                word.push(c);
                in_word = true;
            }
        }
    }
    end_word(&mut word, &mut in_word, &mut words);
    all.push((joint, words));
    all
}

/// `5`, `0.5`, `5s`, `2m`, `1h`, `1d`.
fn duration_millis(word: &str) -> Option<i64> {
    let (number, unit) = match word.strip_suffix(['s', 'm', 'h', 'd']) {
        Some(number) => (number, &word[number.len()..]),
        None => (word, "s"),
    };
    let seconds = match unit {
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => 1.0,
    };
    millis(number, seconds)
}

/// A decimal number of units; nothing negative, nothing that is no number.
pub(super) fn millis(number: &str, seconds: f64) -> Option<i64> {
    let value: f64 = number.trim().parse().ok()?;
    (value.is_finite() && value >= 0.0).then(|| (value * seconds * 1000.0).min(1e15) as i64)
}
