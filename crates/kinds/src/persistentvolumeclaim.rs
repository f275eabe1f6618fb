//! Persistent volume claims: created pending.

mod columns;
mod data_source;
pub(crate) mod defaults;
mod validation;
pub mod view;
pub(crate) mod warnings;

use object::Value;

use crate::check::{Errors, Path};
use crate::columns::Printer;
use crate::kind::{Context, Defaults, Kind};
use crate::rules::{Rules, StatusMeta};
use crate::warnings::{Accepted, Warnings};
use crate::write::Write;

pub(crate) use validation::{check_access_modes, check_basic, check_spec};

pub(crate) struct PersistentVolumeClaim;
pub(crate) static KIND: PersistentVolumeClaim = PersistentVolumeClaim;

const RULES: Rules = Rules::PLAIN.with_status(StatusMeta::Free);

impl Kind for PersistentVolumeClaim {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn defaults(&self, _version: &str) -> Option<&Defaults> {
        Some(&defaults::apply)
    }

    fn warn(&self, write: &Accepted<'_>, warnings: &mut Warnings) {
        warnings::warn(write, warnings);
    }

    fn printer(&self, _version: &str) -> &dyn Printer {
        &columns::PRINTER
    }

    /// Upstream stores no phase and fills it in on every read; what is stored here is what is read.
    fn prepare_create(&self, new: &mut Value, _ctx: &Context<'_>) {
        new.map_at(&["status"]).set("phase", "Pending");
        data_source::prepare(new, None);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        if ctx.is_object() {
            data_source::prepare(new, Some(old));
        }
    }

    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        check(write, errors);
    }
}

fn check(write: &Write<'_>, errors: &mut Errors) {
    if write.old.is_some() {
        write.check_metadata(errors);
    }
    if write.is_status() {
        return validation::check_status(write.new, errors);
    }
    write.check_whole_metadata(errors);
    check_spec(write.spec(), write.old_spec(), &Path::Root("spec"), errors);
    if let Some(old) = write.old {
        validation::check_update(write, old, errors);
    }
}
