//! A shell, as far as scripts of tests and examples go: commands in a row, `if`, `[ ... ]`, variables, files that were touched,
//! functions, and what a trap does when the container is to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{End, Outcome, Run, simple};

/// What a place begins with that is a volume itself: it is always there.
pub const MOUNT: &str = "mount:";

/// So many commands are followed, and so deep: functions may call themselves, and variables name shells.
const MOST_COMMANDS: usize = 1000;
const MOST_DEPTH: usize = 20;
/// Bytes of a word, before its next variable is put in.
const MOST_WORD: usize = 64 << 10;
/// So many files are remembered on a node.
const MOST_FILES: usize = 100_000;

/// What a script finds around it.
pub struct World<'a> {
    /// The value of a variable; empty if there is none.
    pub variable: &'a dyn Fn(&str) -> String,
    /// What tells the file of a path apart from those of other containers.
    pub place: &'a dyn Fn(&str) -> String,
    pub files: &'a mut BTreeSet<String>,
    followed: usize,
    depth: usize,
}

impl<'a> World<'a> {
    pub fn new(
        variable: &'a dyn Fn(&str) -> String,
        place: &'a dyn Fn(&str) -> String,
        files: &'a mut BTreeSet<String>,
    ) -> World<'a> {
        World { variable, place, files, followed: 0, depth: 0 }
    }
}

/// How the next command depends on the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joint {
    Always,
    IfWell,
    IfNot,
}

/// A `$` that means itself.
const DOLLAR: char = '\u{e000}';

enum Flow {
    GoesOn,
    Exits,
    /// It does not end, or does what is not known.
    Serves,
}

struct Shell<'a, 'w> {
    commands: &'a [(Joint, Vec<String>)],
    world: &'a mut World<'w>,
    functions: BTreeMap<String, Range<usize>>,
    after_millis: i64,
    code: i32,
    on_term: Option<End>,
}

pub(super) fn script(text: &str, world: &mut World<'_>) -> Run {
    let commands = commands(text);
    let mut shell = Shell {
        commands: &commands,
        world,
        functions: BTreeMap::new(),
        after_millis: 0,
        code: 0,
        on_term: None,
    };
    let flow = shell.block(0..commands.len());
    let end = End { after_millis: shell.after_millis, code: shell.code };
    Run { end: (!matches!(flow, Flow::Serves)).then_some(end), on_term: shell.on_term }
}

impl Shell<'_, '_> {
    fn block(&mut self, range: Range<usize>) -> Flow {
        self.world.depth += 1;
        let flow = if self.world.depth > MOST_DEPTH { Flow::Serves } else { self.follow(range) };
        self.world.depth -= 1;
        flow
    }

    fn follow(&mut self, range: Range<usize>) -> Flow {
        let (all, mut at) = (self.commands, range.start);
        while at < range.end {
            let (joint, words) = &all[at];
            at += 1;
            let skipped = match joint {
                Joint::Always => false,
                Joint::IfWell => self.code != 0,
                Joint::IfNot => self.code == 0,
            };
            let Some(first) = words.first() else { continue };
            self.world.followed += 1;
            if self.world.followed > MOST_COMMANDS {
                return Flow::Serves;
            }
            if let Some(name) = defines(words) {
                let Some(end) = (at..range.end).find(|at| is(&all[*at].1, "}")) else { return Flow::Serves };
                self.functions.insert(name.to_owned(), at..end);
                at = end + 1;
                continue;
            }
            if first == "if" {
                let Some(branches) = self.branches(at..range.end) else { return Flow::Serves };
                at = branches.end + 1;
                if skipped {
                    continue;
                }
                let flow = self.command(&words[1..]);
                if !matches!(flow, Flow::GoesOn) {
                    return flow;
                }
                let chosen = if self.code == 0 { branches.well } else { branches.not };
                self.code = 0;
                match self.block(chosen) {
                    Flow::GoesOn => continue,
                    flow => return flow,
                }
            }
            if skipped {
                continue;
            }
            match self.command(words) {
                Flow::GoesOn => {}
                flow => return flow,
            }
        }
        Flow::GoesOn
    }

    fn command(&mut self, words: &[String]) -> Flow {
        let negations = words.iter().take_while(|word| *word == "!").count();
        let flow = self.plain_command(&words[negations..]);
        if negations % 2 == 1 {
            self.code = i32::from(self.code == 0);
        }
        flow
    }

    fn plain_command(&mut self, words: &[String]) -> Flow {
        let words: Vec<String> = words.iter().map(|word| self.expand(word)).collect();
        let Some((first, arguments)) = words.split_first() else { return Flow::GoesOn };
        match first.as_str() {
            "[" | "[[" | "test" => self.code = i32::from(!self.test(arguments)),
            "touch" => {
                for path in arguments.iter().filter(|word| !word.starts_with('-')) {
                    if self.world.files.len() < MOST_FILES {
                        self.world.files.insert((self.world.place)(path));
                    }
                }
                self.code = 0;
            }
            "trap" => {
                self.trap(arguments);
                self.code = 0;
            }
            name if self.functions.contains_key(name) => {
                return self.block(self.functions[name].clone());
            }
            _ => match simple(&words, self.world) {
                Outcome::Ends { after_millis, code } => {
                    self.after_millis = self.after_millis.saturating_add(after_millis);
                    self.code = code;
                }
                Outcome::Exits { code } => {
                    // A bare `exit` keeps what was.
                    self.code = if words.len() == 1 { self.code } else { code };
                    return Flow::Exits;
                }
                // Loops are taken for servers too: their keywords are no command that is known.
                Outcome::Serves => return Flow::Serves,
            },
        }
        Flow::GoesOn
    }

    /// What is done on SIGTERM: a function that was defined, or commands.
    fn trap(&mut self, arguments: &[String]) {
        let Some((action, signals)) = arguments.split_first() else { return };
        if !signals.iter().any(|signal| matches!(signal.as_str(), "TERM" | "SIGTERM" | "15")) {
            return;
        }
        let before = (self.after_millis, self.code);
        (self.after_millis, self.code) = (0, 0);
        let flow = match self.functions.get(action) {
            Some(body) => self.block(body.clone()),
            None => {
                let end = script(action, self.world).end;
                let ends = end.is_some();
                (self.after_millis, self.code) = end.map_or((0, 0), |end| (end.after_millis, end.code));
                if ends { Flow::Exits } else { Flow::Serves }
            }
        };
        // What goes on afterwards does so until it is killed.
        let exits = matches!(flow, Flow::Exits);
        self.on_term = exits.then_some(End { after_millis: self.after_millis, code: self.code });
        (self.after_millis, self.code) = before;
    }

    fn test(&self, arguments: &[String]) -> bool {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let words = match words.as_slice() {
            [inner @ .., "]" | "]]"] => inner,
            all => all,
        };
        let number = |word: &str| word.parse::<i64>().ok();
        let negations = words.iter().take_while(|word| **word == "!").count();
        let holds = match &words[negations..] {
            ["-r" | "-e" | "-f" | "-w" | "-d", path] => {
                let place = (self.world.place)(path);
                place.starts_with(MOUNT) || self.world.files.contains(&place)
            }
            ["-n", text] | [text] => !text.is_empty(),
            ["-z", text] => text.is_empty(),
            [a, "=" | "==", b] => a == b,
            [a, "!=", b] => a != b,
            [a, relation, b] => number(a).zip(number(b)).is_some_and(|(a, b)| match *relation {
                "-eq" => a == b,
                "-ne" => a != b,
                "-lt" => a < b,
                "-le" => a <= b,
                "-gt" => a > b,
                "-ge" => a >= b,
                _ => false,
            }),
            _ => false,
        };
        holds != (negations % 2 == 1)
    }

    /// Variables and sums are put in; what else stands behind a `$` stays. Of a word that grows too long its beginning is enough.
    fn expand(&self, word: &str) -> String {
        let (mut out, mut rest) = (String::new(), word);
        while let Some(at) = rest.find('$').filter(|_| out.len() < MOST_WORD) {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let name_length =
                rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            if let Some((name, after)) = rest.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
                out.push_str(&(self.world.variable)(name));
                rest = after;
            } else if let Some((sum, after)) = self.sum(rest) {
                out.push_str(&sum);
                rest = after;
            } else if let Some((_, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
                // Other commands print nothing here.
                rest = after;
            } else if name_length > 0 && !rest.starts_with(|c: char| c.is_ascii_digit()) {
                out.push_str(&(self.world.variable)(&rest[..name_length]));
                rest = &rest[name_length..];
            } else {
                out.push('$');
            }
        }
        out.push_str(rest);
        out.replace(DOLLAR, "$")
    }

    /// `(expr A + B)`, and what comes after it.
    fn sum<'t>(&self, text: &'t str) -> Option<(String, &'t str)> {
        let (inner, after) = text.strip_prefix("(expr ")?.split_once(')')?;
        // Words of a single command have no further `$(`.
        let words: Vec<String> = inner.split_whitespace().map(|word| self.expand(word)).collect();
        let [a, operator, b] = words.as_slice() else { return None };
        let (a, b) = (a.parse::<i64>().ok()?, b.parse::<i64>().ok()?);
        let value = match operator.as_str() {
            "+" => a.checked_add(b),
            "-" => a.checked_sub(b),
            "*" => a.checked_mul(b),
            "/" => a.checked_div(b),
            "%" => a.checked_rem(b),
            _ => None,
        };
        Some((value?.to_string(), after))
    }

    /// The two ways an `if` may go, from what follows its condition.
    fn branches(&self, range: Range<usize>) -> Option<Branches> {
        // The condition is one command.
        let start = range.clone().find(|at| !self.commands[*at].1.is_empty())?;
        if !is(&self.commands[start].1, "then") {
            return None;
        }
        let (mut depth, mut other) = (0, None);
        for at in start + 1..range.end {
            match self.commands[at].1.first().map(String::as_str) {
                Some("if") => depth += 1,
                Some("fi") if depth > 0 => depth -= 1,
                Some("else") if depth == 0 => other = Some(at),
                Some("elif") if depth == 0 => return None,
                Some("fi") => {
                    let well = start + 1..other.unwrap_or(at);
                    return Some(Branches {
                        well,
                        not: other.map_or(at..at, |other| other + 1..at),
                        end: at,
                    });
                }
                _ => {}
            }
        }
        None
    }
}

struct Branches {
    well: Range<usize>,
    not: Range<usize>,
    /// Where the `fi` is.
    end: usize,
}

fn is(words: &[String], keyword: &str) -> bool {
    matches!(words, [word] if word == keyword)
}

/// The name of a function whose body begins after these words.
fn defines(words: &[String]) -> Option<&str> {
    match words {
        [word] => word.strip_suffix("(){"),
        [word, brace] if brace == "{" => word.strip_suffix("()"),
        _ => None,
    }
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
            match c {
                c if c == open => quote = None,
                '$' if open == '\'' => word.push(DOLLAR),
                c => word.push(c),
            }
            continue;
        }
        match c {
            '\'' | '"' => {
                quote = Some(c);
                in_word = true;
            }
            // What a command prints is one word.
            '$' if chars.peek() == Some(&'(') => {
                word.push(c);
                in_word = true;
                for c in chars.by_ref() {
                    word.push(c);
                    if c == ')' {
                        break;
                    }
                }
            }
            ';' | '\n' | '&' | '|' => {
                end_word(&mut word, &mut in_word, &mut words);
                let twice = matches!(c, '&' | '|') && chars.next_if_eq(&c).is_some();
                push(&mut all, joint, std::mem::take(&mut words));
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
    push(&mut all, joint, words);
    all
}

/// Keywords that other commands may follow in the same line stand for themselves.
fn push(all: &mut Vec<(Joint, Vec<String>)>, mut joint: Joint, words: Vec<String>) {
    let (mut left, mut words) = (words.len(), words.into_iter().peekable());
    while left > 1
        && let Some(keyword) = words.next_if(|word| matches!(word.as_str(), "then" | "else"))
    {
        all.push((std::mem::replace(&mut joint, Joint::Always), vec![keyword]));
        left -= 1;
    }
    all.push((joint, words.collect()));
}
