//! What a container's command would do, as far as a simulation cares: how long it runs and how it ends.
//!
//! Known are `true`, `false`, `exit N`, `sleep N`, commands that end at once (`echo`), and scripts of these for a shell
//! (`script.rs`). Everything else is taken for a server and runs for ever, unless its pod is one that is to end:
//! then only what is known to be a server is one ([`serves`]).

mod script;
#[cfg(test)]
mod tests;

use object::Value;

use script::script;

pub use script::{MOUNT, World};

/// How a run ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub after_millis: i64,
    pub code: i32,
}

/// What a container does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// `None`: it does not end.
    pub end: Option<End>,
    /// What it makes of being told to stop, if it has an opinion.
    pub on_term: Option<End>,
}

/// A container without a command does whatever its image does: it serves.
pub fn run_of(container: &Value, world: &mut World<'_>) -> Run {
    run(&words_of(container), world)
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

/// Whether a container that [does not end](Run::end) is known to be one that does not, by its command or its image.
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
fn run(words: &[String], world: &mut World<'_>) -> Run {
    let Some((program, arguments)) = words.split_first() else { return Run::default() };
    if is_shell(program) {
        let flag = arguments.iter().position(|word| word.starts_with('-') && word.contains('c'));
        let text = flag.and_then(|flag| arguments.get(flag + 1));
        return text.map_or_else(Run::default, |text| script(text, world));
    }
    let end = match simple(words, world) {
        Outcome::Ends { after_millis, code } => Some(End { after_millis, code }),
        Outcome::Exits { code } => Some(End { after_millis: 0, code }),
        Outcome::Serves => None,
    };
    Run { end, on_term: None }
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
        code: i32,
    },
    Serves,
}

fn simple(words: &[String], world: &mut World<'_>) -> Outcome {
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
            Outcome::Exits { code: i32::rem_euclid(code, 256) }
        }
        "sleep" => match total_millis(arguments) {
            Some(after_millis) if !arguments.is_empty() => Outcome::Ends { after_millis, code: 0 },
            _ if arguments.iter().any(|word| word == "infinity" || word == "inf") => Outcome::Serves,
            _ => ends(1),
        },
        program if is_shell(program) => match run(words, world).end {
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
