//! Persistent volumes: created pending; the time of the last phase transition is recorded.

mod columns;
mod defaults;
mod validation;
pub mod view;
mod warnings;

pub(crate) use validation::check_spec as check_volume_spec;

use object::Value;

use crate::check::Errors;
use crate::columns::Printer;
use crate::kind::{Context, Defaults, Kind};
use crate::rules::{Rules, StatusMeta};
use crate::warnings::{Accepted, Warnings};
use crate::write::Write;

pub(crate) struct PersistentVolume;
pub(crate) static KIND: PersistentVolume = PersistentVolume;

const RULES: Rules = Rules::PLAIN.with_status(StatusMeta::Free);
const SINCE: &str = "lastPhaseTransitionTime";

impl Kind for PersistentVolume {
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

    fn prepare_create(&self, new: &mut Value, ctx: &Context<'_>) {
        let status = new.map_at(&["status"]);
        status.set("phase", "Pending");
        status.set(SINCE, ctx.timestamp());
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        if !ctx.is_status() {
            return;
        }
        let since = |v: &Value| v.at(&["status", SINCE]).filter(|v| !v.is_null()).cloned();
        let (before, after) = (since(old), since(new));
        let phase = |v: &Value| v.str_at(&["status", "phase"]).unwrap_or_default().to_owned();
        if phase(old) == phase(new) {
            if let (None, Some(before)) = (after, before) {
                new.map_at(&["status"]).set(SINCE, before);
            }
        } else if after.is_none() || after == before {
            new.map_at(&["status"]).set(SINCE, ctx.timestamp());
        }
    }

    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        validation::check(write, errors);
    }
}
