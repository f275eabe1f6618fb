//! Warnings about a pod, and about the template that workloads make pods from.

mod containers;
mod paths;

use object::{Value, quote};

use crate::check::{Path, Seen, entries, int, items, member, text, texts};
use crate::node::labels;
use crate::persistentvolumeclaim;
use crate::warnings::{Accepted, Warnings};

const NAME: &str = "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; \
                    a DNS label is recommended";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(crate) const NO_SECCOMP: &str = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
    ),
    ("security.alpha.kubernetes.io/sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        r#"non-functional in v1.11+; use the "sysctls" field instead"#,
    ),
];

/// Volumes whose driver went away; claims of ephemeral volumes stand between `glusterfs` and `cephfs`.
const GONE: [(&str, &str); 7] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
];
const GONE_LATER: [(&str, &str); 2] = [
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// People seldom update pods, and kubelets do it all the time: only creates get warnings.
pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    if write.is_create() {
        warnings.dns_label(write.new, NAME);
        template(write.new, None, warnings);
    }
}

pub(crate) fn warn_status(write: &Accepted<'_>, warnings: &mut Warnings) {
    let none = Value::Null;
    let status = write.new.get("status").unwrap_or(&none);
    for list in ["podIPs", "hostIPs"] {
        for (i, address) in items(status, list).iter().enumerate() {
            let at = Path::Root("status");
            warnings.ip(&at.child(list).index(i).child("ip"), text(address, "ip"));
        }
    }
}

/// A template at `at`, or a pod itself, which has no path.
pub(crate) fn template(template: &Value, at: Option<&Path<'_>>, warnings: &mut Warnings) {
    let none = Value::Null;
    let spec = template.get("spec").unwrap_or(&none);
    let below = |name| at.map_or(Path::Root(name), |at| at.child(name));
    let (at_spec, at_metadata) = (below("spec"), below("metadata"));
    let at_annotations = at_metadata.child("annotations");
    let annotation = |key: &str| template.at(&["metadata", "annotations", key]).is_some();

    nodes(spec, &at_spec, warnings);
    spread(spec, &at_spec, warnings);
    for (key, message) in ANNOTATIONS {
        if annotation(key) {
            warnings.push_at(&at_annotations.key(key), message);
        }
    }
    volumes(spec, &at_spec, warnings);
    paths::overlaps(items(spec, "volumes"), warnings);
    names(spec, &at_spec, warnings);
    for name in ["memory", "ephemeral-storage"] {
        warnings.whole_bytes(&at_spec.child("overhead"), spec.get("overhead"), name);
    }
    let profile = spec.at(&["securityContext", "seccompProfile"]).is_some_and(|p| !p.is_null());
    if !profile && annotation(SECCOMP_POD) {
        warnings.push_at(&at_annotations.key(SECCOMP_POD), NO_SECCOMP);
    }
    containers::containers(template, spec, &at_spec, at.map(|_| &at_annotations), warnings);
    containers::ports(spec, &at_spec, warnings);
    if int(spec, "terminationGracePeriodSeconds").is_some_and(|s| s < 0) {
        let text = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push_at(&at_spec.child("terminationGracePeriodSeconds"), text);
    }
    affinity(spec, &at_spec, warnings);
    addresses(spec, &at_spec, warnings);
}

/// Deprecated node labels in node selection.
fn nodes(spec: &Value, at: &Path<'_>, warnings: &mut Warnings) {
    for (label, _) in entries(spec, "nodeSelector") {
        if let Some(message) = labels::deprecated(label) {
            warnings.push_at(&at.child("nodeSelector").key(label), message);
        }
    }
    let Some(affinity) = spec.at(&["affinity", "nodeAffinity"]).filter(|a| !a.is_null()) else { return };
    let at = at.child("affinity");
    let at = at.child("nodeAffinity");
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    if let Some(required_terms) = member(affinity, required) {
        let at = at.child(required);
        let at = at.child("nodeSelectorTerms");
        for (i, term) in items(required_terms, "nodeSelectorTerms").iter().enumerate() {
            labels::selector_term(term, false, &at.index(i), warnings);
        }
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let at = at.child(preferred);
    for (i, term) in items(affinity, preferred).iter().enumerate() {
        if let Some(preference) = term.get("preference") {
            labels::selector_term(preference, true, &at.index(i).child("preference"), warnings);
        }
    }
}

fn spread(spec: &Value, at: &Path<'_>, warnings: &mut Warnings) {
    let at = at.child("topologySpreadConstraints");
    for (i, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        let at = at.index(i);
        let key = text(constraint, "topologyKey");
        if let Some(message) = labels::deprecated(key) {
            warnings.push_at(&at.child("topologyKey"), format!("{key} is {message}"));
        }
        if member(constraint, "labelSelector").is_none() {
            warnings.push_at(&at.child("labelSelector"), NO_SELECTOR);
        }
    }
}

fn volumes(spec: &Value, at: &Path<'_>, warnings: &mut Warnings) {
    let at = at.child("volumes");
    for (i, volume) in items(spec, "volumes").iter().enumerate() {
        let at = at.index(i);
        gone(volume, &GONE, &at, warnings);
        let claim = volume.at(&["ephemeral", "volumeClaimTemplate"]).filter(|t| !t.is_null());
        if let Some(spec) = claim.and_then(|claim| claim.get("spec")) {
            let at = at.child("ephemeral");
            let at = at.child("volumeClaimTemplate");
            persistentvolumeclaim::warnings::spec(spec, &at.child("spec"), warnings);
        }
        gone(volume, &GONE_LATER, &at, warnings);
    }
}

/// Volumes of removed drivers.
pub(crate) fn gone(of: &Value, drivers: &[(&str, &str)], at: &Path<'_>, warnings: &mut Warnings) {
    for (driver, message) in drivers {
        if member(of, driver).is_some() {
            warnings.push_at(&at.child(driver), message);
        }
    }
}

/// Entries with the same merge key.
fn names(spec: &Value, at: &Path<'_>, warnings: &mut Warnings) {
    for (list, key) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = Seen::default();
        for (i, item) in items(spec, list).iter().enumerate() {
            let name = text(item, key);
            if seen.again(name) {
                warnings
                    .push_at(&at.child(list).index(i).child(key), format!("duplicate {key} {}", quote(name)));
            }
        }
    }
    for (i, item) in items(spec, "imagePullSecrets").iter().enumerate() {
        if text(item, "name").is_empty() {
            warnings.push_at(&at.child("imagePullSecrets").index(i).child("name"), "invalid empty name \"\"");
        }
    }
}

fn affinity(spec: &Value, at: &Path<'_>, warnings: &mut Warnings) {
    let at = at.child("affinity");
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.at(&["affinity", kind]).filter(|a| !a.is_null()) else { continue };
        let at = at.child(kind);
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in items(affinity, required).iter().enumerate() {
            if member(term, "labelSelector").is_none() {
                warnings.push_at(&at.child(required).index(i).child("labelSelector"), NO_SELECTOR);
            }
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (i, weighted) in items(affinity, preferred).iter().enumerate() {
            if weighted.at(&["podAffinityTerm", "labelSelector"]).is_none_or(Value::is_null) {
                let term = at.child(preferred);
                let term = term.index(i);
                warnings.push_at(&term.child("podAffinityTerm").child("labelSelector"), NO_SELECTOR);
            }
        }
    }
}

fn addresses(spec: &Value, at: &Path<'_>, warnings: &mut Warnings) {
    if let Some(config) = member(spec, "dnsConfig") {
        for (i, server) in texts(config, "nameservers").enumerate() {
            warnings.ip(&at.child("dnsConfig").child("nameservers").index(i), server);
        }
    }
    for (i, alias) in items(spec, "hostAliases").iter().enumerate() {
        warnings.ip(&at.child("hostAliases").index(i).child("ip"), text(alias, "ip"));
    }
}
