//! A kind made of data and functions: rules as data, and optional functions for everything else.

use object::{Map, Value};

use crate::check::Errors;
use crate::columns::{self, Printer};
use crate::gates::DisabledFeature;
use crate::kind::{Context, Defaults, Kind};
use crate::rules::Rules;
use crate::scale::ScalePaths;
use crate::warnings::{Accepted, Warnings};
use crate::write::Write;

type Warn = fn(&Accepted<'_>, &mut Warnings);

pub(crate) struct GenericKind {
    rules: Rules,
    defaults: Option<fn(&mut Map)>,
    warn: Option<Warn>,
    warn_status: Option<Warn>,
    printer: &'static dyn Printer,
    status_has_table: bool,
    scale: Option<&'static ScalePaths>,
    pod_spec_path: Option<&'static [&'static str]>,
    disabled_features: &'static [DisabledFeature],
    check: fn(&Write<'_>, &mut Errors),
    /// What the kind drops or keeps when an object, not its status, changes.
    update: Option<fn(&mut Value, &Value)>,
    /// The same when its status changes.
    status_update: Option<fn(&mut Value, &Value)>,
    create: Option<fn(&mut Value)>,
    undeletable: Option<fn(&str) -> Option<&'static str>>,
    blank: Option<fn(&mut Value)>,
}

impl GenericKind {
    /// Nothing beyond the rules.
    pub(crate) const fn plain(rules: Rules) -> GenericKind {
        GenericKind::new(rules, |write, errors| write.check_metadata(errors))
    }
    pub(crate) const fn new(rules: Rules, check: fn(&Write<'_>, &mut Errors)) -> GenericKind {
        GenericKind {
            rules,
            defaults: None,
            warn: None,
            warn_status: None,
            printer: &columns::GENERIC,
            status_has_table: true,
            scale: None,
            pod_spec_path: None,
            disabled_features: &[],
            check,
            create: None,
            update: None,
            status_update: None,
            undeletable: None,
            blank: None,
        }
    }
    /// The same in every served version.
    pub(crate) const fn with_defaults(mut self, defaults: fn(&mut Map)) -> GenericKind {
        self.defaults = Some(defaults);
        self
    }
    /// Of writes to the object itself.
    pub(crate) const fn with_warnings(mut self, warn: Warn) -> GenericKind {
        self.warn = Some(warn);
        self
    }
    pub(crate) const fn with_status_warnings(mut self, warn: Warn) -> GenericKind {
        self.warn_status = Some(warn);
        self
    }
    /// The same in every served version.
    pub(crate) const fn with_printer(mut self, printer: &'static dyn Printer) -> GenericKind {
        self.printer = printer;
        self
    }
    pub(crate) const fn without_status_table(mut self) -> GenericKind {
        self.status_has_table = false;
        self
    }
    pub(crate) const fn with_scale(mut self, scale: &'static ScalePaths) -> GenericKind {
        self.scale = Some(scale);
        self
    }
    pub(crate) const fn with_pod_spec_path(mut self, path: &'static [&'static str]) -> GenericKind {
        self.pod_spec_path = Some(path);
        self
    }
    pub(crate) const fn with_disabled_features(
        mut self,
        features: &'static [DisabledFeature],
    ) -> GenericKind {
        self.disabled_features = features;
        self
    }
    pub(crate) const fn with_create(mut self, create: fn(&mut Value)) -> GenericKind {
        self.create = Some(create);
        self
    }
    pub(crate) const fn with_undeletable(mut self, why: fn(&str) -> Option<&'static str>) -> GenericKind {
        self.undeletable = Some(why);
        self
    }
    pub(crate) const fn with_blank(mut self, blank: fn(&mut Value)) -> GenericKind {
        self.blank = Some(blank);
        self
    }
    pub(crate) const fn with_update(mut self, update: fn(&mut Value, &Value)) -> GenericKind {
        self.update = Some(update);
        self
    }
    pub(crate) const fn with_status_update(mut self, update: fn(&mut Value, &Value)) -> GenericKind {
        self.status_update = Some(update);
        self
    }
}

impl Kind for GenericKind {
    fn rules(&self) -> &Rules {
        &self.rules
    }
    fn defaults(&self, _version: &str) -> Option<&Defaults> {
        self.defaults.as_ref().map(|apply| apply as &Defaults)
    }
    fn warn(&self, write: &Accepted<'_>, warnings: &mut Warnings) {
        if let Some(warn) = self.warn {
            warn(write, warnings);
        }
    }
    fn warn_status(&self, write: &Accepted<'_>, warnings: &mut Warnings) {
        if let Some(warn) = self.warn_status {
            warn(write, warnings);
        }
    }
    fn printer(&self, _version: &str) -> &dyn Printer {
        self.printer
    }
    fn status_has_table(&self) -> bool {
        self.status_has_table
    }
    fn pod_spec_path(&self) -> Option<&[&str]> {
        self.pod_spec_path
    }
    fn disabled_features(&self) -> &[DisabledFeature] {
        self.disabled_features
    }
    fn scale_paths(&self, _version: &str) -> Option<&ScalePaths> {
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
        let update = match (ctx.is_object(), ctx.is_status()) {
            (true, _) => self.update,
            (_, true) => self.status_update,
            _ => None,
        };
        if let Some(update) = update {
            update(new, old);
        }
    }
    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        (self.check)(write, errors);
    }
}
