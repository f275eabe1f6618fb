//! Regular expressions in Go's syntax.
//!
//! ```text
//! Go's pattern ──translate──> the `regex` crate's pattern ──> automaton
//!                   └─ what Go refuses is refused here, in Go's words
//! ```

mod class;
mod translate;

#[cfg(test)]
mod tests;

use std::ops::Deref;

use crate::error::Error;

/// A compiled pattern. Groups capture nothing.
#[derive(Clone, Debug)]
pub struct Pattern(regex::Regex);

impl Pattern {
    /// Fails with the message Go has for it: "error parsing regexp: missing closing ): `(`".
    pub fn new(text: &str) -> Result<Pattern, Error> {
        let translated = translate::translate(text).map_err(|problem| {
            Error::new(format!("error parsing regexp: {}: `{}`", problem.what, problem.part))
        })?;
        // What only the automaton's size is against is too large for Go as well, give or take.
        regex::Regex::new(&translated)
            .map(Pattern)
            .map_err(|_| Error::new(format!("error parsing regexp: expression too large: `{text}`")))
    }
}

impl Deref for Pattern {
    type Target = regex::Regex;
    fn deref(&self) -> &regex::Regex {
        &self.0
    }
}
