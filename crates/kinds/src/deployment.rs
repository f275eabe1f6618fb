//! Deployments: an annotation of the v1 API still carries the revision an old client wants to go back to.

mod columns;
mod defaults;
mod validation;
mod warnings;

use catalog::Resource;
use object::{Status, Value};

use crate::check::Errors;
use crate::columns::Printer;
use crate::kind::{Context, Defaults, Kind};
use crate::rules::{Generation, Rules, StatusMeta};
use crate::scale::{ScalePaths, WORKLOAD};
use crate::warnings::{Accepted, Warnings};
use crate::workload;
use crate::workload::POD_SPEC;
use crate::write::Write;

pub(crate) struct Deployment;
pub(crate) static KIND: Deployment = Deployment;

const RULES: Rules =
    Rules::PLAIN.with_generation(Generation::SpecOrAnnotations).with_status(StatusMeta::KeepLabels);
/// A field of the spec in upstream's internal form, which only the versioned object shows as an annotation.
const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

impl Kind for Deployment {
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
        Some(ROLLBACK_TO)
    }

    fn scale_paths(&self, _version: &str) -> Option<&ScalePaths> {
        Some(&WORKLOAD)
    }

    fn fill_blank(&self, blank: &mut Value) {
        workload::without_replicas(blank);
    }

    fn unconvertible(&self, sent: &Value) -> Option<String> {
        let revision = rollback_to(sent)?;
        let why = object::parse_int(revision).err()?;
        Some(format!("failed to parse annotation[{ROLLBACK_TO}]={revision} as int64: {why}"))
    }

    /// Normalised as by upstream's internal field: a number in canonical form, and no empty value.
    fn to_storage(&self, value: &mut Value, _from: &Resource) -> Result<(), Status> {
        if value.str_at(&["metadata", "annotations", ROLLBACK_TO]) == Some("") {
            value.map_at(&["metadata", "annotations"]).remove(ROLLBACK_TO);
        }
        if let Some(revision) = rollback_to(value).and_then(|text| object::parse_int(text).ok()) {
            value.map_at(&["metadata", "annotations"]).set(ROLLBACK_TO, revision.to_string());
        }
        Ok(())
    }

    /// A status write keeps the spec, and with it the field the annotation stands for.
    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        if !ctx.is_status() {
            return;
        }
        match rollback_to(old) {
            Some(kept) => new.map_at(&["metadata", "annotations"]).set(ROLLBACK_TO, kept),
            None if rollback_to(new).is_some() => {
                new.map_at(&["metadata", "annotations"]).remove(ROLLBACK_TO);
            }
            None => {}
        }
    }

    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        validation::check(write, errors);
    }
}

fn rollback_to(object: &Value) -> Option<&str> {
    object.str_at(&["metadata", "annotations", ROLLBACK_TO]).filter(|revision| !revision.is_empty())
}
