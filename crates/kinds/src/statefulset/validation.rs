//! The rules of stateful sets: claim templates and pod names are immutable, the rest may be updated.

use object::{Map, Value};

use crate::check::internal::{Field, Go, NULL, ZERO, internal};
use crate::check::text::{count_or_percent, selects};
use crate::check::{Errors, Path, Raw, Seen, items, member, text};
use crate::equal::FieldType;
use crate::persistentvolumeclaim::check_spec as check_claim;
use crate::pod::validation::{self, Options};
use crate::workload::{
    SPEC, check_always, check_at_most, check_collisions, check_counts, check_selected, check_selector,
    options,
};
use crate::write::Write;

/// What may change once the set is there.
const ROLLING: &[Field] = &[("partition", "Partition", ZERO), ("maxUnavailable", "MaxUnavailable", NULL)];
const MUTABLE: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];
const IMMUTABLE: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    if write.is_status() {
        check_status(write, errors);
        write.check_metadata(errors);
        return check_collisions(write, errors);
    }
    write.check_metadata(errors);
    let options = options(write);
    let Some(old) = write.old_spec() else {
        return check_spec(write.spec(), &options, Tolerance::default(), errors);
    };
    let mut tolerance = Tolerance { immutable_parts: true, template: false };
    // A template that newer rules refuse does not block updates of the set.
    let mut of_old = Errors::default();
    check_spec(old, &options, tolerance, &mut of_old);
    tolerance.template = !of_old.is_empty();
    check_spec(write.spec(), &options, tolerance, errors);
    if !FieldType::of(write.storage, &["spec"]).same_but(write.spec(), old, &MUTABLE) {
        errors.forbidden(&SPEC, IMMUTABLE);
    }
}

#[derive(Clone, Copy, Default)]
struct Tolerance {
    /// Service name and claim templates: they cannot change, so what is stored is taken as it is.
    immutable_parts: bool,
    template: bool,
}

fn check_spec(spec: &Value, options: &Options, tolerance: Tolerance, errors: &mut Errors) {
    match text(spec, "podManagementPolicy") {
        "" => errors.required(&SPEC.child("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        other => {
            let at = SPEC.child("podManagementPolicy");
            errors.invalid(&at, other, "must be 'OrderedReady' or 'Parallel'");
        }
    }
    let none = Value::Null;
    check_strategy(spec.get("updateStrategy").unwrap_or(&none), &SPEC.child("updateStrategy"), errors);
    if let Some(policy) = member(spec, "persistentVolumeClaimRetentionPolicy") {
        let at = SPEC.child("persistentVolumeClaimRetentionPolicy");
        for name in ["whenDeleted", "whenScaled"] {
            errors.one_of(&at.child(name), text(policy, name), &["Retain", "Delete"]);
        }
    }
    let claims = items(spec, "volumeClaimTemplates");
    if !tolerance.immutable_parts {
        for (i, claim) in claims.iter().enumerate() {
            let at = SPEC.child("volumeClaimTemplates");
            check_claim(claim.get("spec").unwrap_or(&none), None, &at.index(i).child("spec"), errors);
        }
    }
    errors.nonnegative(&SPEC, spec, "replicas");
    errors.nonnegative(&SPEC, spec, "minReadySeconds");
    if let Some(ordinals) = member(spec, "ordinals") {
        errors.nonnegative(&SPEC.child("ordinals"), ordinals, "start");
    }
    let service = text(spec, "serviceName");
    if !tolerance.immutable_parts && !service.is_empty() {
        errors.dns_label(&SPEC.child("serviceName"), service);
    }
    check_selector(spec, "statefulset", &SPEC, errors);
    let selector = member(spec, "selector");
    let template = spec.get("template").unwrap_or(&none);
    let at = SPEC.child("template");
    if selects(selector, None).is_none() {
        errors.invalid(&SPEC.child("selector"), selector, "");
    } else {
        check_selected(selector, template, &at, errors);
        check_template(template, claims, &at, options, tolerance, errors);
    }
    check_always(template, &at, "StatefulSet", errors);
}

/// Hostname and subdomain are the set's to give, and its claims are volumes of the pod.
fn check_template(
    template: &Value,
    claims: &[Value],
    at: &Path<'_>,
    options: &Options,
    tolerance: Tolerance,
    errors: &mut Errors,
) {
    let own = ["hostname", "subdomain"];
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let changed = !claims.is_empty() || own.iter().any(|name| !text(spec, name).is_empty());
    let copy = changed.then(|| as_pod(template, claims));
    let template = copy.as_ref().unwrap_or(template);
    if !tolerance.template {
        validation::template(template, at, options, errors);
    }
    // Upstream checks these once more, so their errors come twice.
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    errors.labels(&at.child("labels"), metadata.get("labels"));
    errors.annotations(&at.child("annotations"), metadata.get("annotations"));
    let spec = template.get("spec").unwrap_or(&Value::Null);
    validation::pod_annotations(metadata.get("annotations"), spec, &at.child("annotations"), options, errors);
}

fn as_pod(template: &Value, claims: &[Value]) -> Value {
    let mut copy = template.clone();
    let spec = copy.map_at(&["spec"]);
    spec.remove("hostname");
    spec.remove("subdomain");
    if claims.is_empty() {
        return copy;
    }
    let name = |claim: &Value| claim.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
    let mut volumes: Vec<Value> = Vec::new();
    let mut seen = Seen::default();
    for claim in claims {
        if seen.again(name(claim)) {
            continue;
        }
        let (mut volume, mut source) = (Map::default(), Map::default());
        source.set("claimName", name(claim));
        volume.set("name", name(claim));
        volume.set("persistentVolumeClaim", source);
        volumes.push(Value::Map(volume));
    }
    let own = spec.get("volumes").and_then(Value::as_list).unwrap_or_default().to_vec();
    for volume in own {
        if !seen.has(&text(&volume, "name").to_owned()) {
            volumes.push(volume);
        }
    }
    spec.set("volumes", volumes);
    copy
}

fn check_strategy(strategy: &Value, at: &Path<'_>, errors: &mut Errors) {
    let rolling = member(strategy, "rollingUpdate");
    let rolling_at = at.child("rollingUpdate");
    match (text(strategy, "type"), rolling) {
        ("", _) => errors.required(at, ""),
        ("OnDelete", Some(rolling)) => {
            let shown = internal(Some(rolling), ROLLING);
            errors.invalid(&rolling_at, Raw(&shown), "only allowed for updateStrategy 'RollingUpdate'");
        }
        ("RollingUpdate", Some(rolling)) => {
            errors.nonnegative(&rolling_at, rolling, "partition");
            if let Some(most) = member(rolling, "maxUnavailable") {
                let at = rolling_at.child("maxUnavailable");
                errors.count_or_percent(&at, Some(most));
                if count_or_percent(Some(most)) == 0 {
                    errors.invalid(&at, most, "cannot be 0");
                }
                errors.at_most_100_percent(&at, Some(most));
            }
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        (other, rolling) => {
            let rolling = Go::Pointer(ROLLING).show(rolling);
            let shown = format!(r#"{{"Type":{},"RollingUpdate":{rolling}}}"#, object::quote(other));
            errors.invalid(at, Raw(&shown), "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

fn check_status(write: &Write<'_>, errors: &mut Errors) {
    let status = write.status();
    let counts = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    check_counts(status, &counts, errors);
    check_at_most(status, &counts[1..5], "replicas", "status.replicas", errors);
    check_at_most(status, &["availableReplicas"], "readyReplicas", "status.readyReplicas", errors);
}
