//! A write as validation sees it.

use catalog::Storage;
use object::Value;

use crate::check::Errors;
use crate::equal::FieldType;
use crate::kind::Context;
use crate::metadata;
use crate::rules::Rules;

/// A write that is being validated.
pub struct Write<'a> {
    pub rules: &'a Rules,
    pub storage: &'a Storage,
    pub new: &'a Value,
    /// What is stored; `None` for a create.
    pub old: Option<&'a Value>,
    pub ctx: &'a Context<'a>,
}

static NULL: Value = Value::Null;

impl<'a> Write<'a> {
    /// The metadata as most kinds check it: in full on create, what may change on update.
    pub(crate) fn check_metadata(&self, errors: &mut Errors) {
        match self.old {
            None => self.check_whole_metadata(errors),
            Some(old) => errors.list.extend(metadata::check_update(self.rules, self.new, old)),
        }
    }
    /// In full, whatever the write.
    pub(crate) fn check_whole_metadata(&self, errors: &mut Errors) {
        errors.list.extend(metadata::check(self.rules, self.storage, self.new));
    }
    /// Whether two values that stand at `path` in objects of the kind are equal to upstream. `[]` is an element of a list.
    pub(crate) fn same(&self, path: &[&str], a: Option<&Value>, b: Option<&Value>) -> bool {
        FieldType::of(self.storage, path).same(a, b)
    }
    pub(crate) fn is_status(&self) -> bool {
        self.ctx.is_status()
    }
    pub(crate) fn spec(&self) -> &'a Value {
        self.new.get("spec").unwrap_or(&NULL)
    }
    pub(crate) fn status(&self) -> &'a Value {
        self.new.get("status").unwrap_or(&NULL)
    }
    pub(crate) fn old_spec(&self) -> Option<&'a Value> {
        self.old.map(|old| old.get("spec").unwrap_or(&NULL))
    }
    pub(crate) fn old_status(&self) -> Option<&'a Value> {
        self.old.map(|old| old.get("status").unwrap_or(&NULL))
    }
}
