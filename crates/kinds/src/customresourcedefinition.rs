//! Custom resource definitions: named after what they define; the versions ever stored are remembered.

pub mod approval;
mod conversion;
mod defaults;
mod selectable;
mod validation;
mod warnings;

use catalog::Resource;
use object::{Status, Value};

use crate::check::Errors;
use crate::kind::{Context, Defaults, Kind};
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
