//! What is wrong with a value, in upstream's words.

use std::fmt;

use object::patch::go_text;
use object::{Value, deep, quote};

use crate::path::PathElement;

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// Empty for the whole value.
    pub path: String,
    pub message: String,
}

/// All that is wrong; at least one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationErrors(pub Vec<ValidationError>);

impl std::error::Error for ValidationErrors {}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl fmt::Display for ValidationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = &self.0[..] {
            return fmt::Display::fmt(one, f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

/// Errors while they are collected, from the inside out.
#[derive(Default)]
pub(super) struct Errors(Vec<ValidationError>);

impl Errors {
    pub(super) fn add(&mut self, message: impl Into<String>) {
        self.0.push(ValidationError { path: String::new(), message: message.into() });
    }

    /// Runs `f`; what it finds is below `element`.
    pub(super) fn below<R>(&mut self, element: impl fmt::Display, f: impl FnOnce(&mut Errors) -> R) -> R {
        let before = self.0.len();
        let out = f(self);
        if self.0.len() > before {
            let prefix = element.to_string();
            self.0[before..].iter_mut().for_each(|error| error.path.insert_str(0, &prefix));
        }
        out
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn append(&mut self, mut more: Errors) {
        self.0.append(&mut more.0);
    }

    pub(super) fn finish(self) -> Result<(), ValidationErrors> {
        if self.0.is_empty() { Ok(()) } else { Err(ValidationErrors(self.0)) }
    }
}

/// A path element that is only made if there is something to say.
pub(super) struct Lazy<'a>(pub(super) &'a dyn Fn() -> PathElement);

impl fmt::Display for Lazy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)().fmt(f)
    }
}

/// `%v` of upstream's value.
pub(super) fn plain(value: &Value) -> String {
    format!("&{{{}}}", go_text(value))
}

/// `%#v` of upstream's value.
pub(super) fn in_go(value: &Value) -> String {
    let mut out = "&value.valueUnstructured{Value:".to_owned();
    write_in_go(value, &mut out);
    out.push('}');
    out
}

fn write_in_go(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::Str(text) => out.push_str(&quote(text)),
        Value::List(items) => {
            out.push_str("[]interface {}{");
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                deep(|| write_in_go(item, out));
            }
            out.push('}');
        }
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            out.push_str("map[string]interface {}{");
            for (i, (name, value)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                out.push_str(&quote(name));
                out.push(':');
                deep(|| write_in_go(value, out));
            }
            out.push('}');
        }
        scalar => out.push_str(&go_text(scalar)),
    }
}
