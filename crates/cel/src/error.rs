//! What evaluation fails with: a text, as cel-go words it.

use std::fmt;

/// A failed evaluation. `&&`, `||` and the macros built on them absorb it where the other operand decides, unless it is fatal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Repr>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Repr {
    text: String,
    /// Ends the evaluation at once: nothing absorbs it.
    fatal: bool,
}

impl Error {
    pub fn new(text: impl Into<String>) -> Error {
        Error(Box::new(Repr { text: text.into(), fatal: false }))
    }
    pub fn no_such_overload() -> Error {
        Error::new("no such overload")
    }
    /// The budget is used up.
    pub(crate) fn cost_limit_exceeded() -> Error {
        Error::fatal("operation cancelled: actual cost limit exceeded")
    }
    /// Nobody waits for the answer any more.
    pub fn interrupted() -> Error {
        Error::fatal("operation interrupted")
    }
    /// What upstream panics over and recovers from at the very top.
    pub fn internal(text: impl fmt::Display) -> Error {
        Error::fatal(&format!("internal error: {text}"))
    }
    fn fatal(text: &str) -> Error {
        Error(Box::new(Repr { text: text.to_owned(), fatal: true }))
    }
    /// Whether evaluation ends with it, whatever it is an operand of.
    pub fn is_fatal(&self) -> bool {
        self.0.fatal
    }
    pub fn text(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl std::error::Error for Error {}

impl From<regexp::Error> for Error {
    fn from(error: regexp::Error) -> Error {
        Error::new(error.to_string())
    }
}
