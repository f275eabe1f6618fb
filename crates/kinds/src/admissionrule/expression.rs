//! Expressions of webhooks and policies, compiled when they are written: what upstream says of those that do not.

#[cfg(test)]
mod tests;

pub(crate) use admission_policy::Use;
use admission_policy::{Failure, Scope as Compiler};

use crate::check::{Errors, Path};

/// What the expressions of one object may use.
#[derive(Default)]
pub(crate) struct Scope(Compiler);

impl Scope {
    pub(crate) fn with_params(has_params: bool) -> Scope {
        Scope(Compiler::with_params(has_params))
    }
    /// With `variables`, of which there are none yet.
    pub(crate) fn composed(self) -> Scope {
        Scope(self.0.composed())
    }

    /// Compiles an expression that is new, or `stored` already.
    pub(crate) fn check(&self, of: Use, text: &str, stored: bool, at: &Path<'_>, errors: &mut Errors) {
        self.check_shown(of, text, text, stored, at, errors);
    }

    /// As [`check`](Scope::check); errors show the expression as it was written.
    pub(crate) fn check_shown(
        &self,
        of: Use,
        text: &str,
        shown: &str,
        stored: bool,
        at: &Path<'_>,
        errors: &mut Errors,
    ) {
        report(self.0.compile(of, text, stored).err(), shown, at, errors);
    }

    /// Compiles the expression of a variable, which those after it may use, whatever came of it.
    pub(crate) fn add(&mut self, name: &str, text: &str, stored: bool, at: &Path<'_>, errors: &mut Errors) {
        report(self.0.add(name, text, stored).err(), text, at, errors);
    }
}

fn report(failure: Option<Failure>, shown: &str, at: &Path<'_>, errors: &mut Errors) {
    match failure {
        None => {}
        Some(Failure::Invalid(detail)) => errors.invalid(at, shown, detail),
        Some(Failure::Internal(detail)) => errors.internal(at, detail),
    }
}
