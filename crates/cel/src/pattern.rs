//! Regular expressions in Go's syntax.

use std::ops::Deref;

use crate::error::Error;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern(regex::Regex);

impl Pattern {
    /// Fails with the message Go has for it: "error parsing regexp: missing closing ): `(`".
    pub fn new(text: &str) -> Result<Pattern, Error> {
        regex::Regex::new(text)
            .map(Pattern)
            .map_err(|error| Error::new(format!("error parsing regexp: {error}")))
    }
}

impl Deref for Pattern {
    type Target = regex::Regex;
    fn deref(&self) -> &regex::Regex {
        &self.0
    }
}
