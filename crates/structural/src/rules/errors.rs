//! The list of broken rules.

use object::{FieldError, Value, quote};

use crate::at::At;
use crate::show::show;

/// See [`Errors::add`].
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// All broken rules so far, in the order they were found.
#[derive(Default)]
pub(super) struct Errors {
    pub(super) list: Vec<FieldError>,
    bytes: usize,
}

/// A value as an error message shows it.
pub(super) trait Shown {
    fn shown(self) -> String;
}
impl Shown for &str {
    fn shown(self) -> String {
        quote(self)
    }
}
impl Shown for bool {
    fn shown(self) -> String {
        self.to_string()
    }
}
impl Shown for &Value {
    fn shown(self) -> String {
        show(self)
    }
}
impl Shown for Option<&Value> {
    fn shown(self) -> String {
        self.map_or_else(|| "null".to_owned(), show)
    }
}
/// Text that is already what the message shows.
pub(super) struct Raw<'a>(pub(super) &'a str);
impl Shown for Raw<'_> {
    fn shown(self) -> String {
        self.0.to_owned()
    }
}

impl Errors {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
    pub(super) fn required(&mut self, at: &At<'_>, detail: &str) {
        self.add(|| FieldError::required(at.to_string(), detail));
    }
    pub(super) fn forbidden(&mut self, at: &At<'_>, detail: impl Into<String>) {
        self.add(|| FieldError::forbidden(at.to_string(), detail));
    }
    pub(super) fn invalid(&mut self, at: &At<'_>, bad: impl Shown, detail: impl Into<String>) {
        self.add(|| FieldError::invalid(at.to_string(), bad.shown(), detail));
    }
    pub(super) fn one_of(&mut self, at: &At<'_>, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.add(|| FieldError::not_supported(at.to_string(), quote(value), supported));
        }
    }
    pub(super) fn extend(&mut self, more: Vec<FieldError>) {
        more.into_iter().for_each(|error| self.add(|| error));
    }

    /// A path has thousands of steps in schemas that go deep, and there may be many thousands of errors: after some megabytes
    /// no more are told.
    fn add(&mut self, error: impl FnOnce() -> FieldError) {
        if self.bytes <= MAX_BYTES {
            let error = error();
            self.bytes += error.field.len() + error.bad_value.len() + error.detail.len();
            self.list.push(error);
        }
    }
}
