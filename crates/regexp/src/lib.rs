//! Regular expressions in Go's syntax, for schemas and CEL.
//!
//! ```text
//! Go's pattern ──translate──> the `regex` crate's pattern ──> automaton
//!                   └─ what Go refuses is refused here, in Go's words
//! ```

mod class;
mod translate;

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// A compiled expression has at most so many bytes, which take a quarter of a second to make. Go counts otherwise: it allows
/// hundreds of large Unicode classes.
const MAX_COMPILED_BYTES: usize = 10 * 1024 * 1024;
/// Go's limit for groups. The other engine counts what is in them too.
const MAX_DEPTH: usize = 1000;

/// A compiled expression. Groups capture nothing.
#[derive(Clone, Debug)]
pub struct Regexp(Regex);

/// Why a text is no expression, as Go says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    what: &'static str,
    part: String,
}

impl Regexp {
    pub fn new(text: &str) -> Result<Regexp, Error> {
        let translated = translate::translate(text)?;
        RegexBuilder::new(&translated)
            .size_limit(MAX_COMPILED_BYTES)
            .nest_limit(2 * MAX_DEPTH as u32)
            .build()
            .map(Regexp)
            .map_err(|_| Error { what: "expression too large", part: text.to_owned() })
    }

    /// Checks an expression without compiling it.
    pub fn check(text: &str) -> Result<(), Error> {
        translate::translate(text)?;
        Ok(())
    }
}

/// An expression that is compiled when it is first used: an automaton takes a thousand times as long to make as its text to check.
#[derive(Debug)]
pub struct LazyRegexp {
    text: Box<str>,
    compiled: OnceLock<Result<Regexp, Error>>,
}

impl LazyRegexp {
    pub fn new(text: &str) -> Result<LazyRegexp, Error> {
        Regexp::check(text)?;
        Ok(LazyRegexp { text: text.into(), compiled: OnceLock::new() })
    }

    /// Fails only if it is too large.
    pub fn get(&self) -> Result<&Regexp, Error> {
        self.compiled.get_or_init(|| Regexp::new(&self.text)).as_ref().map_err(Error::clone)
    }
}

impl Deref for Regexp {
    type Target = Regex;
    fn deref(&self) -> &Regex {
        &self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.what, self.part)
    }
}

impl std::error::Error for Error {}

impl From<translate::Problem<'_>> for Error {
    fn from(problem: translate::Problem<'_>) -> Error {
        Error { what: problem.what, part: problem.part.to_owned() }
    }
}
