//! Regular expressions as Go reads them, compiled when first used and shared by all schemas.

mod go;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use parking_lot::Mutex;
use regex::{Regex, RegexBuilder};

/// Patterns by their text. Guards nothing but itself; held for one lookup or one sweep.
static PATTERNS: LazyLock<Mutex<Patterns>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Patterns {
    known: HashMap<Box<str>, Arc<Pattern>>,
    sweep_at: usize,
}

const SWEEP_FROM: usize = 1024;
/// A compiled expression has at most so many bytes; Go allows some more, and nobody writes them.
const MAX_COMPILED_BYTES: usize = 32 * 1024 * 1024;
/// Go's limit.
const MAX_NESTING: u32 = 1000;

/// A `pattern`.
#[derive(Debug)]
pub struct Pattern {
    text: Box<str>,
    compiled: OnceLock<Result<Regex, PatternError>>,
}

/// Why an expression is none, as Go says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    code: &'static str,
    part: String,
}

impl std::fmt::Display for PatternError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.code, self.part)
    }
}
impl std::error::Error for PatternError {}

impl Pattern {
    /// Checks an expression without compiling it.
    pub fn parse(text: &str) -> Result<(), PatternError> {
        go::translate(text).map(|_| ())
    }

    /// The pattern of that text.
    pub fn shared(text: &str) -> Arc<Pattern> {
        let mut patterns = PATTERNS.lock();
        if let Some(pattern) = patterns.known.get(text) {
            return pattern.clone();
        }
        if patterns.known.len() >= patterns.sweep_at.max(SWEEP_FROM) {
            patterns.known.retain(|_, pattern| Arc::strong_count(pattern) > 1);
            patterns.sweep_at = 2 * patterns.known.len();
        }
        let pattern = Arc::new(Pattern { text: text.into(), compiled: OnceLock::new() });
        patterns.known.insert(text.into(), pattern.clone());
        pattern
    }

    /// Whether it matches somewhere in the text. One that is no expression matches nothing.
    pub fn is_match(&self, text: &str) -> bool {
        self.compiled().as_ref().is_ok_and(|regex| regex.is_match(text))
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The compiled expression, for those who need more than [`Pattern::is_match`].
    pub fn compiled(&self) -> &Result<Regex, PatternError> {
        self.compiled.get_or_init(|| compile(&self.text))
    }

    /// As errors show it.
    pub(crate) fn shown(&self) -> String {
        match self.compiled() {
            Ok(_) => self.text.to_string(),
            Err(error) => format!("{}, but pattern is invalid: {error}", self.text),
        }
    }
}

fn compile(text: &str) -> Result<Regex, PatternError> {
    let translated = go::translate(text)?;
    RegexBuilder::new(&translated)
        .size_limit(MAX_COMPILED_BYTES)
        .nest_limit(2 * MAX_NESTING)
        .build()
        .map_err(|_| PatternError { code: "expression too large", part: text.to_owned() })
}
