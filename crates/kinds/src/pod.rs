//! Pods: created pending, deleted gracefully, and updated in few fields or through subresources.

mod api_reference;
pub(crate) mod apparmor;
pub mod binding;
mod columns;
pub(crate) mod defaults;
pub mod eviction;
mod label_keys;
pub mod qos;
pub(crate) mod validation;
pub mod view;
pub(crate) mod warnings;

#[cfg(test)]
mod tests;

use catalog::Storage;
use object::{DeleteOptions, FieldError, Map, Value};

use crate::columns::Printer;
use crate::gates::DisabledFeature;
use crate::kind::{Context, Defaults, Kind};
use crate::rules::{Generation, Rules, StatusMeta};
use crate::strategy::{map_mut, restore};
use crate::warnings::{Accepted, Warnings};

pub use api_reference::api_reference;

pub(crate) struct Pod;
pub(crate) static KIND: Pod = Pod;

const RULES: Rules = Rules::PLAIN.with_generation(Generation::SPEC).with_status(StatusMeta::KeepOwners);
const DISABLED: &[DisabledFeature] = &[
    DisabledFeature::new(
        "ImageVolumeWithDigest",
        &[
            "status.containerStatuses[].volumeMounts[].volumeStatus",
            "status.initContainerStatuses[].volumeMounts[].volumeStatus",
            "status.ephemeralContainerStatuses[].volumeMounts[].volumeStatus",
        ],
    ),
    DisabledFeature::new("DRANodeAllocatableResources", &["status.nodeAllocatableResourceClaimStatuses"]),
];
/// The default grace period.
const DEFAULT_GRACE_SECONDS: i64 = 30;

impl Kind for Pod {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn defaults(&self, _version: &str) -> Option<&Defaults> {
        Some(&defaults::apply)
    }

    fn warn(&self, write: &Accepted<'_>, warnings: &mut Warnings) {
        warnings::warn(write, warnings);
    }

    fn warn_status(&self, write: &Accepted<'_>, warnings: &mut Warnings) {
        warnings::warn_status(write, warnings);
    }

    fn warn_before_create(&self, new: &Value) -> Vec<String> {
        apparmor::warnings(new)
    }

    fn printer(&self, _version: &str) -> &dyn Printer {
        &columns::PRINTER
    }

    fn pod_spec_path(&self) -> Option<&[&str]> {
        Some(&["spec"])
    }

    fn disabled_features(&self) -> &[DisabledFeature] {
        DISABLED
    }

    fn prepare_create(&self, new: &mut Value, ctx: &Context<'_>) {
        let class = qos::class(new);
        let gated = list(new, &["spec", "schedulingGates"]).is_some_and(|gates| !gates.is_empty());
        let status = new.map_at(&["status"]);
        status.set("phase", "Pending");
        if gated {
            let mut condition = Map::default();
            condition.set("type", "PodScheduled");
            condition.set("status", "False");
            condition.set("lastProbeTime", Value::Null);
            condition.set("lastTransitionTime", ctx.timestamp());
            condition.set("reason", "SchedulingGated");
            condition.set("message", "Scheduling is blocked due to non-empty scheduling gates");
            status.set("conditions", vec![Value::Map(condition)]);
        }
        status.set("qosClass", class);
        label_keys::merge(new);
        apparmor::copy_to_fields(new);
    }

    /// Pod-level requests default to those of the containers.
    fn depends_on_admission(&self, new: &Value) -> bool {
        new.at(&["spec", "resources"]).and_then(Value::as_map).is_some_and(|own| !own.is_empty())
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        match ctx.subresource {
            Some("status") => keep_observations(new, old),
            Some("ephemeralcontainers") => keep_all_but_ephemeral_containers(new, old),
            Some("resize") => keep_all_but_resources(new, old),
            _ => {}
        }
    }

    fn validate(
        &self,
        storage: &Storage,
        new: &Value,
        old: Option<&Value>,
        ctx: &Context<'_>,
    ) -> Vec<FieldError> {
        validation::validate(&RULES, storage, new, old, ctx)
    }

    /// A pod that never reached a node, or has finished, has nothing to wind down.
    fn grace_seconds(&self, object: &Value, options: &DeleteOptions) -> Option<i64> {
        let own = || object.at(&["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_int);
        let seconds = options.grace_period_seconds.or_else(own).unwrap_or(DEFAULT_GRACE_SECONDS);
        let unscheduled = object.str_at(&["spec", "nodeName"]).unwrap_or_default().is_empty();
        let finished = matches!(object.str_at(&["status", "phase"]), Some("Failed" | "Succeeded"));
        match seconds {
            _ if unscheduled || finished => Some(0),
            // A negative grace period is one second.
            negative if negative < 0 => Some(1),
            seconds => Some(seconds),
        }
    }
}

fn list<'a>(value: &'a Value, path: &[&str]) -> Option<&'a [Value]> {
    value.at(path).and_then(Value::as_list)
}

/// Status fields that an older client omits are kept.
fn keep_observations(new: &mut Value, old: &Value) {
    let unset =
        |v: Option<&Value>| v.is_none_or(|v| v.is_null() || v.as_str() == Some("") || v.as_int() == Some(0));
    for member in ["qosClass", "observedGeneration"] {
        if unset(new.at(&["status", member])) {
            restore(new, old, &["status"], member);
        }
    }
    let mut before: Vec<&Value> = list(old, &["status", "conditions"]).unwrap_or_default().iter().collect();
    let Some(Value::List(conditions)) = map_mut(new, &["status"]).and_then(|m| m.get_mut("conditions"))
    else {
        return;
    };
    for condition in conditions {
        // A condition type may occur twice: the first old one belongs to the first new one.
        let Some(at) = before.iter().position(|o| o.get("type") == condition.get("type")) else { continue };
        let was = before.remove(at);
        if unset(condition.get("observedGeneration")) {
            restore(condition, was, &[], "observedGeneration");
        }
    }
}

fn keep_metadata(new: &mut Value, old: &Value) {
    for member in ["labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp"] {
        restore(new, old, &["metadata"], member);
    }
}

fn keep_all_but_ephemeral_containers(new: &mut Value, old: &Value) {
    let wanted = new.at(&["spec", "ephemeralContainers"]).cloned();
    restore(new, old, &[], "spec");
    restore(new, old, &[], "status");
    keep_metadata(new, old);
    put(new, "ephemeralContainers", wanted);
}

/// Adding, removing, renaming or reordering containers is left for validation to refuse.
fn keep_all_but_resources(new: &mut Value, old: &Value) {
    let count = |v: &Value, member| list(v, &["spec", member]).map_or(0, <[Value]>::len);
    if ["containers", "initContainers"].iter().any(|m| count(new, m) != count(old, m)) {
        return;
    }
    let merged = ["containers", "initContainers"].map(|member| merged_containers(new, old, member));
    let of_pod = new.at(&["spec", "resources"]).cloned();
    restore(new, old, &[], "spec");
    put(new, "resources", of_pod);
    restore(new, old, &[], "status");
    keep_metadata(new, old);
    let [containers, init] = merged;
    put(new, "containers", containers);
    put(new, "initContainers", init);
}

/// The old containers with the new resources and resize policies.
fn merged_containers(new: &Value, old: &Value, member: &str) -> Option<Value> {
    let wanted = list(new, &["spec", member])?;
    let mut merged = list(old, &["spec", member])?.to_vec();
    for (was, now) in merged.iter_mut().zip(wanted) {
        if was.get("name") != now.get("name") {
            return Some(Value::List(wanted.to_vec()));
        }
        restore(was, now, &[], "resources");
        restore(was, now, &[], "resizePolicy");
    }
    Some(Value::List(merged))
}

fn put(new: &mut Value, member: &'static str, value: Option<Value>) {
    let spec = new.map_at(&["spec"]);
    match value {
        Some(value) => spec.set(member, value),
        None => {
            spec.remove(member);
        }
    }
}
