//! A kind that is data and one function: its rules of writing as a row, its rules of content as code.

use catalog::Storage;
use object::Value;

use crate::check::Errors;
use crate::equal::Spot;
use crate::kind::{Context, Kind};
use crate::metadata;
use crate::rules::Rules;
use crate::scale::ScalePaths;

pub(crate) struct Checked {
    rules: Rules,
    scale: Option<&'static ScalePaths>,
    check: fn(&Write<'_>, &mut Errors),
    /// What the kind drops or keeps when an object, not its status, changes.
    update: Option<fn(&mut Value, &Value)>,
    create: Option<fn(&mut Value)>,
    undeletable: Option<fn(&str) -> Option<&'static str>>,
    blank: Option<fn(&mut Value)>,
}

impl Checked {
    pub(crate) const fn new(rules: Rules, check: fn(&Write<'_>, &mut Errors)) -> Checked {
        Checked { rules, scale: None, check, update: None, create: None, undeletable: None, blank: None }
    }
    pub(crate) const fn with_scale(mut self, scale: &'static ScalePaths) -> Checked {
        self.scale = Some(scale);
        self
    }
    pub(crate) const fn with_create(mut self, create: fn(&mut Value)) -> Checked {
        self.create = Some(create);
        self
    }
    pub(crate) const fn with_undeletable(mut self, why: fn(&str) -> Option<&'static str>) -> Checked {
        self.undeletable = Some(why);
        self
    }
    pub(crate) const fn with_blank(mut self, blank: fn(&mut Value)) -> Checked {
        self.blank = Some(blank);
        self
    }
    pub(crate) const fn with_update(mut self, update: fn(&mut Value, &Value)) -> Checked {
        self.update = Some(update);
        self
    }
}

impl Kind for Checked {
    fn rules(&self) -> &Rules {
        &self.rules
    }
    fn scale(&self) -> Option<&'static ScalePaths> {
        self.scale
    }
    fn undeletable(&self, name: &str) -> Option<&'static str> {
        self.undeletable.and_then(|why| why(name))
    }
    fn fill_blank(&self, blank: &mut Value) {
        if let Some(fill) = self.blank {
            fill(blank);
        }
    }
    fn prepare_create(&self, new: &mut Value, _: &Context<'_>) {
        if let Some(create) = self.create {
            create(new);
        }
    }
    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        if let Some(update) = self.update
            && ctx.is_object()
        {
            update(new, old);
        }
    }
    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        (self.check)(write, errors);
    }
}

/// A write that is being judged.
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
        Spot::of(self.storage, path).same(a, b)
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
