//! The `pattern` of a schema, compiled when first used and shared by all schemas.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use parking_lot::Mutex;
use regexp::Regexp;

/// Patterns by their text. Guards nothing but itself; held for one lookup or one sweep.
static PATTERNS: LazyLock<Mutex<Patterns>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Patterns {
    known: HashMap<Box<str>, Arc<Pattern>>,
    sweep_at: usize,
}

const SWEEP_FROM: usize = 1024;
/// A `pattern`.
#[derive(Debug)]
pub struct Pattern {
    text: Box<str>,
    compiled: OnceLock<Result<Regexp, regexp::Error>>,
}

impl Pattern {
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

    fn compiled(&self) -> &Result<Regexp, regexp::Error> {
        self.compiled.get_or_init(|| Regexp::new(&self.text))
    }

    /// As errors show it.
    pub(crate) fn shown(&self) -> String {
        match self.compiled() {
            Ok(_) => self.text.to_string(),
            Err(error) => format!("{}, but pattern is invalid: {error}", self.text),
        }
    }
}
