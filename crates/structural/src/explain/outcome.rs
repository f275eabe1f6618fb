//! Failures, merged from level to level.

use std::collections::HashSet;
use std::rc::Rc;

use object::{FieldError, FieldErrorKind};

/// From so many failures on, messages are looked up and not compared.
const FEW: usize = 32;

/// What validating one value came to.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) failures: Vec<Failure>,
    /// Messages, once there are more than a few.
    told: HashSet<Rc<str>>,
    /// How many checks passed.
    pub(super) passed: usize,
}

#[derive(Clone)]
pub(super) struct Failure {
    pub(super) message: Rc<str>,
    /// Where; `None` for a failure of no field in particular.
    pub(super) name: Option<String>,
    pub(super) kind: FieldErrorKind,
    /// As shown; what has no value shows an empty string.
    pub(super) value: Option<String>,
    /// Instead of the message.
    pub(super) detail: Option<String>,
}

impl Failure {
    pub(super) fn into_error(self, prefix: Option<&str>) -> FieldError {
        let nowhere = || prefix.unwrap_or("<nil>").to_owned();
        let field = match self.name.as_deref() {
            None | Some("" | ".") => nowhere(),
            Some(name) => {
                let name = name.strip_prefix('.').unwrap_or(name);
                prefix.map_or_else(|| name.to_owned(), |prefix| format!("{prefix}.{name}"))
            }
        };
        let shows_none = matches!(self.kind, FieldErrorKind::Required | FieldErrorKind::TooLong);
        let bad_value = match self.value {
            _ if shows_none => String::new(),
            Some(value) => value,
            None => "\"\"".to_owned(),
        };
        let detail = self.detail.unwrap_or_else(|| self.message.to_string());
        FieldError { kind: self.kind, field, bad_value, detail }
    }
}

impl Outcome {
    pub(super) fn is_valid(&self) -> bool {
        self.failures.is_empty()
    }
    /// Forgets the failures.
    pub(super) fn forgive(&mut self) {
        self.failures.clear();
        self.told.clear();
    }
    pub(super) fn add(&mut self, failure: Failure) {
        if self.failures.len() < FEW {
            if self.failures.iter().any(|other| other.message == failure.message) {
                return;
            }
        } else {
            if self.told.is_empty() {
                self.told.extend(self.failures.iter().map(|failure| failure.message.clone()));
            }
            if !self.told.insert(failure.message.clone()) {
                return;
            }
        }
        self.failures.push(failure);
    }
    pub(super) fn merge(&mut self, other: Outcome) {
        self.passed += other.passed;
        if self.failures.is_empty() {
            (self.failures, self.told) = (other.failures, other.told);
        } else {
            other.failures.into_iter().for_each(|failure| self.add(failure));
        }
    }
}
