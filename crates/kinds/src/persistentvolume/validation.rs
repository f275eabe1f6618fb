//! The rules of persistent volumes: one source, an amount, and a source that stays.

use object::Value;

use crate::check::difference::difference;
use crate::check::internal::Go;
use crate::check::internal::pod::NODE_SELECTOR;
use crate::check::internal::volume::PERSISTENT_VOLUME_SOURCE;
use crate::check::{Errors, Path, Raw, entries, items, member, quantity, quantity_text, text};
use crate::persistentvolumeclaim::{check_access_modes, check_basic};
use crate::pod::validation::{
    csi_driver_name, has_bad_values, iscsi_name_too_long, no_backsteps, node_selector, source,
};
use crate::workload::SPEC;
use crate::write::Write;

/// Member, its name in the refusal of a second one, and where its own faults stand.
#[rustfmt::skip]
const SOURCES: [(&str, &str, &str); 21] = [
    ("hostPath", "hostPath", "hostPath"), ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore"), ("glusterfs", "glusterfs", "glusterfs"),
    ("flocker", "flocker", "flocker"), ("nfs", "nfs", "nfs"), ("rbd", "rbd", "rbd"), ("quobyte", "quobyte", "quobyte"),
    ("cephfs", "cephFS", "cephfs"), ("iscsi", "iscsi", "iscsi"), ("cinder", "cinder", "cinder"), ("fc", "fc", "fc"),
    ("flexVolume", "flexVolume", "flexVolume"), ("azureFile", "azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume", "portworxVolume"), ("azureDisk", "azureDisk", "azureDisk"),
    ("scaleIO", "scaleIO", "scaleIO"), ("local", "local", "local"), ("storageos", "storageos", "storageos"),
];
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
#[rustfmt::skip]
const MOUNTED: [&str; 13] = [
    "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder", "cephfs",
    "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk",
];
const AFFINITY: Go = Go::Pointer(&[("required", "Required", Go::Pointer(NODE_SELECTOR))]);
const BETA_TO_STABLE: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    if write.is_status() {
        return write.check_metadata(errors);
    }
    check_whole(write, errors);
    check_mount_options(write, errors);
    if let Some(old) = write.old_spec() {
        // Upstream's rules of updates validate the whole volume once more, so its errors come twice.
        check_whole(write, errors);
        check_update(write, old, errors);
    }
}

fn check_whole(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    let name = write.new.str_at(&["metadata", "name"]).unwrap_or_default();
    check_spec(write.spec(), name, write.old_spec(), false, &SPEC, errors);
}

/// The annotation from before there was `spec.mountOptions` holds for sources that are mounted with options.
fn check_mount_options(write: &Write<'_>, errors: &mut Errors) {
    let given = write.new.at(&["metadata", "annotations", MOUNT_OPTIONS]).is_some();
    if given && MOUNTED.iter().all(|kind| member(write.spec(), kind).is_none()) {
        let at = Path::Root("metadata.annotations");
        errors.forbidden(&at.child(MOUNT_OPTIONS), "may not specify mount options for this volume type");
    }
}

/// The volume itself; one that a VolumeAttachment spells out when `inline`.
pub(crate) fn check_spec(
    spec: &Value,
    name: &str,
    old: Option<&Value>,
    inline: bool,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let unfit = "may not be specified in the context of inline volumes";
    if inline {
        if member(spec, "claimRef").is_some() {
            errors.forbidden(&at.child("claimRef"), unfit);
        }
        if entries(spec, "capacity").next().is_some() {
            errors.forbidden(&at.child("capacity"), unfit);
        }
        if member(spec, "csi").is_none() {
            errors.required(&at.child("csi"), "has to be specified in the context of inline volumes");
        }
    }
    if items(spec, "accessModes").is_empty() {
        errors.required(&at.child("accessModes"), "");
    }
    check_access_modes(spec, at, errors);
    if !inline {
        check_capacity(spec, at, errors);
    }
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    let policy_at = at.child("persistentVolumeReclaimPolicy");
    match policy {
        "" => {}
        "Retain" => {}
        _ if inline => errors.forbidden(&policy_at, "may only be Retain in the context of inline volumes"),
        _ => errors.one_of(&policy_at, policy, &["Delete", "Recycle", "Retain"]),
    }
    if let Some(affinity) = member(spec, "nodeAffinity") {
        let at = at.child("nodeAffinity");
        if inline {
            errors.forbidden(&at, unfit);
        } else {
            let at = at.child("required");
            let bad = old.and_then(|old| old.at(&["nodeAffinity", "required"])).is_some_and(has_bad_values);
            match member(affinity, "required") {
                Some(required) => node_selector(required, bad, &at, errors),
                None => errors.required(&at, "must specify required node constraints"),
            }
        }
    }
    check_sources(spec, name, inline, at, errors);
    let root = spec.at(&["hostPath", "path"]).and_then(Value::as_str).is_some_and(is_root);
    if root && policy == "Recycle" {
        errors.forbidden(&policy_at, "may not be 'recycle' for a hostPath mount of '/'");
    }
    let class = text(spec, "storageClassName");
    match class {
        "" => {}
        _ if inline => errors.forbidden(&at.child("storageClassName"), unfit),
        _ => errors.subdomain(&at.child("storageClassName"), class),
    }
    match member(spec, "volumeMode").and_then(Value::as_str) {
        Some(mode) if inline && mode != "Filesystem" => {
            let detail = "may not specify volumeMode other than Filesystem in the context of inline volumes";
            errors.forbidden(&at.child("volumeMode"), detail);
        }
        _ if inline => {}
        _ => errors.one_of_member(at, spec, "volumeMode", &["Block", "Filesystem"]),
    }
    // Upstream does not look at the class of an inline volume.
    if let Some(class) = member(spec, "volumeAttributesClassName").and_then(Value::as_str).filter(|_| !inline)
    {
        let class_at = at.child("volumeAttributesClassName");
        match class {
            "" => errors.required(&class_at, "an empty string is disallowed"),
            _ => errors.subdomain(&class_at, class),
        }
        if member(spec, "csi").is_none() {
            let detail = "has to be specified when using volumeAttributesClassName";
            errors.required(&at.child("csi"), detail);
        }
    }
}

/// `/`, `//`, `/.`, `/a/..`: all the root.
fn is_root(path: &str) -> bool {
    let mut depth = 0usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

fn check_capacity(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("capacity");
    let count = entries(spec, "capacity").count();
    if count == 0 {
        errors.required(&at, "");
    }
    if count != 1 || spec.at(&["capacity", "storage"]).is_none() {
        errors.not_supported(&at, spec.get("capacity"), &["storage"]);
    }
    for (name, value) in entries(spec, "capacity") {
        check_basic(value, &at.key(name), errors);
        if quantity(value).sign() <= 0 {
            errors.invalid(&at.key(name), quantity_text(value).as_str(), "must be greater than zero");
        }
    }
}

fn check_sources(spec: &Value, name: &str, inline: bool, spec_at: &Path<'_>, errors: &mut Errors) {
    let mut count = 0;
    let all = SOURCES.iter().copied().chain([("csi", "csi", "csi")]);
    for (kind, second, path) in all {
        let Some(own) = member(spec, kind) else { continue };
        // Upstream does not report a second flexVolume.
        if count > 0 && kind != "flexVolume" {
            errors.forbidden(&spec_at.child(second), "may not specify more than 1 volume type");
            continue;
        }
        count += 1;
        let at = spec_at.child(path);
        match kind {
            "glusterfs" => {
                source::check(kind, own, &at, errors);
                check_endpoints_namespace(own, &at, errors);
            }
            "iscsi" => check_iscsi(own, name, &at, errors),
            "cinder" | "storageos" => {
                source::check(kind, own, &at, errors);
                if let Some(secret) = member(own, "secretRef") {
                    errors.need(&at.child("secretRef"), secret, "namespace");
                }
            }
            "azureFile" => {
                source::check(kind, own, &at, errors);
                if member(own, "secretNamespace").and_then(Value::as_str) == Some("") {
                    errors.required(&at.child("secretNamespace"), "");
                }
            }
            "local" => {
                let path = text(own, "path");
                match path {
                    "" => errors.required(&at.child("path"), ""),
                    _ => no_backsteps(path, &at.child("path"), errors),
                }
                if inline || member(spec, "nodeAffinity").is_none() {
                    let detail = "Local volume requires node affinity";
                    errors.required(&spec_at.child("nodeAffinity"), detail);
                }
            }
            "csi" => check_csi(own, &at, errors),
            _ => source::check(kind, own, &at, errors),
        }
    }
    if count == 0 {
        errors.required(spec_at, "must specify a volume type");
    }
}

fn check_endpoints_namespace(own: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(namespace) = member(own, "endpointsNamespace").and_then(Value::as_str) else { return };
    let at = at.child("endpointsNamespace");
    match namespace {
        "" => {
            let detail = "if the endpointnamespace is set, it must be a valid namespace name";
            errors.invalid(&at, namespace, detail);
        }
        _ => errors.dns_label(&at, namespace),
    }
}

fn check_iscsi(own: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    if iscsi_name_too_long(name, own) {
        errors.invalid(&at.child("targetportal"), text(own, "targetPortal"), source::ISCSI_NAME);
    }
    source::check_iscsi(own, "must be valid format", at, errors);
    if let Some(secret) = member(own, "secretRef") {
        errors.need(&at.child("secretRef"), secret, "name");
    }
    source::check_iscsi_initiator(own, "must be valid format", at, errors);
}

fn check_csi(own: &Value, at: &Path<'_>, errors: &mut Errors) {
    csi_driver_name(text(own, "driver"), &at.child("driver"), errors);
    errors.need(at, own, "volumeHandle");
    for name in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let Some(secret) = member(own, name) else { continue };
        let at = at.child(name);
        errors.need_subdomain(&at.child("name"), text(secret, "name"));
        errors.need_label(&at.child("namespace"), text(secret, "namespace"));
    }
}

const AFFINITY_PATH: &[&str] = &["spec", "nodeAffinity"];

fn check_update(write: &Write<'_>, old: &Value, errors: &mut Errors) {
    let spec = write.spec();
    let expand = "controllerExpandSecretRef";
    let has = |spec: &Value, name: &str| spec.at(&["csi", name]).is_some_and(|v| !v.is_null());
    // The secret for growing may be given later.
    let mut now = std::borrow::Cow::Borrowed(spec);
    if member(old, "csi").is_some() && !has(old, expand) && has(spec, expand) {
        now.to_mut().map_at(&["csi"]).remove(expand);
    }
    let sources = SOURCES.iter().map(|(kind, _, _)| *kind).chain(["csi"]);
    if sources.into_iter().any(|kind| !write.same(&["spec", kind], now.get(kind), old.get(kind))) {
        let changed = difference(old, &now, PERSISTENT_VOLUME_SOURCE);
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{changed}");
        errors.forbidden(&SPEC.child("persistentvolumesource"), detail);
    }
    errors.immutable(&Path::Root("volumeMode"), spec.get("volumeMode"), old.get("volumeMode"));
    if let Some(before) = member(old, "nodeAffinity") {
        let now = member(spec, "nodeAffinity");
        if !write.same(AFFINITY_PATH, now, Some(before)) && !only_newer_labels(write, now, before) {
            let detail = "field is immutable, except for updating from beta label to GA";
            errors.invalid(&Path::Root("nodeAffinity"), Raw(&AFFINITY.show(now)), detail);
        }
    }
    let class = "volumeAttributesClassName";
    if member(old, class).is_some() && member(spec, class).is_none() {
        errors.forbidden(&SPEC.child(class), "update from non-nil value to nil is forbidden");
    }
}

/// Whether nothing changed but labels that got their final names.
fn only_newer_labels(write: &Write<'_>, now: Option<&Value>, before: &Value) -> bool {
    let Some(now) = now else { return false };
    let mut renamed = before.clone();
    let terms = |v: &mut Value| -> Option<Vec<Value>> {
        v.at(&["required", "nodeSelectorTerms"]).and_then(Value::as_list).map(<[Value]>::to_vec)
    };
    let (Some(mut old_terms), Some(new_terms)) = (terms(&mut renamed), terms(&mut now.clone())) else {
        return false;
    };
    for (old, new) in old_terms.iter_mut().zip(&new_terms) {
        for list in ["matchExpressions", "matchFields"] {
            let wanted = items(new, list).to_vec();
            let Some(Value::List(requirements)) = old.as_map_mut().and_then(|m| m.get_mut(list)) else {
                continue;
            };
            for (requirement, new) in requirements.iter_mut().zip(&wanted) {
                let key = text(requirement, "key").to_owned();
                // Upstream's look-up of other labels finds no GA name, which it treats as a match.
                let newer =
                    BETA_TO_STABLE.iter().find(|(beta, _)| *beta == key).map_or("", |(_, stable)| *stable);
                if let Some(stable) = Some(newer).filter(|s| *s == text(new, "key")) {
                    requirement.make_map().set("key", stable);
                }
            }
        }
    }
    renamed.map_at(&["required"]).set("nodeSelectorTerms", old_terms);
    write.same(AFFINITY_PATH, Some(now), Some(&renamed))
}
