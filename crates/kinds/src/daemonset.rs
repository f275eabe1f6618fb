//! Daemon sets: an annotation of the v1 API still carries the old template generation.

mod columns;
mod defaults;
mod validation;
mod warnings;

use object::Value;

use crate::check::Errors;
use crate::columns::Printer;
use crate::equal::FieldType;
use crate::kind::{Context, Defaults, Kind};
use crate::rules::{Generation, Rules, StatusMeta};
use crate::warnings::{Accepted, Warnings};
use crate::workload::POD_SPEC;
use crate::write::Write;

pub(crate) struct DaemonSet;
pub(crate) static KIND: DaemonSet = DaemonSet;

const RULES: Rules = Rules::PLAIN.with_generation(Generation::SPEC).with_status(StatusMeta::Free);
/// A field of upstream's internal form, which only the versioned object shows as an annotation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

impl Kind for DaemonSet {
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

    fn pod_spec_path(&self) -> Option<&[&str]> {
        Some(POD_SPEC)
    }

    fn field_annotation(&self) -> Option<&'static str> {
        Some(TEMPLATE_GENERATION)
    }

    fn unconvertible(&self, sent: &Value) -> Option<String> {
        object::parse_int(sent.str_at(&["metadata", "annotations", TEMPLATE_GENERATION])?).err()
    }

    fn prepare_create(&self, new: &mut Value, _ctx: &Context<'_>) {
        let generation = template_generation(new).max(1);
        set(new, generation);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        let before = template_generation(old);
        let path = ["spec", "template"];
        let moved = ctx.is_object() && !FieldType::of(ctx.storage, &path).same(new.at(&path), old.at(&path));
        set(new, if moved { before.saturating_add(1) } else { before });
    }

    fn fill_blank(&self, blank: &mut Value) {
        set(blank, 0);
    }

    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        validation::check(write, errors);
    }
}

fn template_generation(object: &Value) -> i64 {
    object.str_at(&["metadata", "annotations", TEMPLATE_GENERATION]).and_then(|t| t.parse().ok()).unwrap_or(0)
}

fn set(object: &mut Value, generation: i64) {
    object.map_at(&["metadata", "annotations"]).set(TEMPLATE_GENERATION, generation.to_string());
}
