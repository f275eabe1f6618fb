//! What is wrong with an expression before it runs, printed as cel-go prints it.

use std::fmt;
use std::sync::Arc;

use crate::ast::{Location, Source};

/// More are counted, not kept.
const MOST: usize = 100;
/// Longer lines are not shown.
const LONGEST_LINE: usize = 16_384;

/// Errors of an expression, with the places they are at.
#[derive(Clone, Debug)]
pub struct Issues {
    source: Arc<Source>,
    issues: Vec<Issue>,
    count: usize,
}

#[derive(Clone, Debug)]
pub struct Issue {
    pub location: Location,
    pub message: String,
}

impl Issues {
    pub fn new(source: Arc<Source>) -> Issues {
        Issues { source, issues: Vec::new(), count: 0 }
    }
    pub fn report(&mut self, location: Location, message: impl Into<String>) {
        self.count += 1;
        if self.issues.len() < MOST {
            self.issues.push(Issue { location, message: message.into() });
        }
    }
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    pub fn iter(&self) -> impl Iterator<Item = &Issue> {
        self.issues.iter()
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<&Issue> = self.issues.iter().collect();
        sorted.sort_by_key(|issue| issue.location);
        for (i, issue) in sorted.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            let Location { line, column } = issue.location;
            write!(f, "ERROR: <input>:{line}:{}: {}", column + 1, issue.message)?;
            if let Some(text) = self.source.line(line)
                && text.iter().map(|c| c.len_utf8()).sum::<usize>() <= LONGEST_LINE
            {
                write!(
                    f,
                    "\n | {}\n | {}",
                    text.iter().map(untabbed).collect::<String>(),
                    caret(text, column)
                )?;
            }
        }
        if self.count > self.issues.len() {
            write!(f, "\n{} more errors were truncated", self.count - self.issues.len())?;
        }
        Ok(())
    }
}

impl std::error::Error for Issues {}

fn untabbed(c: &char) -> char {
    if *c == '\t' { ' ' } else { *c }
}

/// Dots up to the place, as wide as the characters above them.
fn caret(line: &[char], column: i32) -> String {
    let column = usize::try_from(column).unwrap_or(0);
    let wide = |c: Option<&char>| c.is_some_and(|c| c.len_utf8() > 1);
    let mut out: String =
        line.iter().take(column).map(|c| if wide(Some(c)) { '\u{ff0e}' } else { '.' }).collect();
    out.push(if wide(line.get(column)) { '\u{ff3e}' } else { '^' });
    out
}
