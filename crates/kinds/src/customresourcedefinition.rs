//! Custom resource definitions: named after what they define; the versions ever stored are remembered.
//!
//! ```text
//! DELETE ─> deletionTimestamp, Terminating, a finalizer ─ custom resources go ─ the finalizer goes ─> gone
//! ```

pub mod approval;
mod conversion;
mod defaults;
mod selectable;
mod shown;
mod validation;
mod warnings;

#[cfg(test)]
mod tests;

use catalog::{Resource, Storage};
use object::{DeleteOptions, Status, Value, time};

use crate::check::Errors;
use crate::conditions::{self, Condition};
use crate::deletion::{Decision, check_preconditions_first, decide_generally, set_finalizers};
use crate::kind::{Context, Defaults, Kind};
use crate::metadata::{meta, strings};
use crate::rules::{Finalizers, Generation, NameRule, Rules, StatusMeta};
use crate::warnings::{Accepted, Warnings};
use crate::write::Write;

/// Keeps a deleted definition until its objects are gone.
pub const CUSTOM_RESOURCE_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

pub(crate) struct CustomResourceDefinition;
pub(crate) static KIND: CustomResourceDefinition = CustomResourceDefinition;

const RULES: Rules = Rules::PLAIN
    .with_name(NameRule::PluralAndGroup)
    .with_finalizers(Finalizers::Qualified)
    .with_generation(Generation::SPEC)
    .with_status(StatusMeta::Free);

impl Kind for CustomResourceDefinition {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn defaults(&self, _version: &str) -> Option<&Defaults> {
        Some(&defaults::apply)
    }

    fn warn(&self, write: &Accepted<'_>, warnings: &mut Warnings) {
        warnings::warn(write, warnings);
    }

    fn status_has_table(&self) -> bool {
        false
    }
    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        validation::check(write, errors);
    }
    fn to_storage(&self, value: &mut Value, _from: &Resource) -> Result<(), Status> {
        conversion::drop_empty_webhook(value);
        Ok(())
    }
    fn prepare_create(&self, new: &mut Value, _ctx: &Context<'_>) {
        remember_storage_version(new);
    }
    fn prepare_update(&self, new: &mut Value, _old: &Value, ctx: &Context<'_>) {
        if ctx.is_object() {
            remember_storage_version(new);
        }
    }

    // Differs from kube-apiserver: a delete of the collection goes this way too. There it leaves the custom resources behind,
    // where nobody sees them until the definition is created again.
    fn delete(
        &self,
        storage: &Storage,
        old: &Value,
        version: &str,
        options: &DeleteOptions,
        now: i64,
    ) -> Option<Result<Decision, Status>> {
        Some(delete(storage, old, version, options, now))
    }
}

fn delete(
    storage: &Storage,
    old: &Value,
    version: &str,
    options: &DeleteOptions,
    now: i64,
) -> Result<Decision, Status> {
    check_preconditions_first(storage, old, version, options)?;
    if meta(old, "deletionTimestamp").is_some() {
        return decide_generally(&KIND, storage, old, version, options, now);
    }
    let mut new = old.clone();
    new.map_at(&["metadata"]).set("deletionTimestamp", time::format_seconds(now));
    let mut finalizers = strings(old, "finalizers");
    if !finalizers.contains(&CUSTOM_RESOURCE_CLEANUP) {
        finalizers.push(CUSTOM_RESOURCE_CLEANUP);
    }
    set_finalizers(&mut new, finalizers.into_iter().map(str::to_owned).collect());
    let pending = Condition {
        kind: "Terminating",
        status: "True",
        reason: "InstanceDeletionPending",
        message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        observed_generation: None,
    };
    conditions::set(&mut new, &pending, now);
    Ok(Decision::Keep(new))
}

fn remember_storage_version(new: &mut Value) {
    let versions = new.at(&["spec", "versions"]).and_then(Value::as_list).unwrap_or_default();
    let stored = versions.iter().find(|v| v.get("storage").and_then(Value::as_bool) == Some(true));
    let Some(name) = stored.and_then(|v| v.get("name")).and_then(Value::as_str).map(Value::from) else {
        return;
    };
    let known = new.map_at(&["status"]).entry("storedVersions".into());
    match known {
        Value::List(list) if list.contains(&name) => {}
        Value::List(list) => list.push(name),
        other => *other = Value::List(vec![name]),
    }
}
