//! Volumes: a name of their own and exactly one source.

use std::collections::BTreeMap;

use object::{Value, validate_text};

use super::container::check_pull_policy;
use super::volume_sources::{self, iscsi_name_too_long};
use super::{Options, projected};
use crate::check::{Errors, Path, Seen, items, member, quantity, text};

/// A source's member; its name in the error about a second source; the path of errors in the source itself. They differ where
/// upstream's do.
#[rustfmt::skip]
const SOURCES: [(&str, &str, &str); 29] = [
    ("hostPath", "hostPath", "hostPath"),
    ("gitRepo", "gitRepo", "gitRepo"),
    ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret", "secret"),
    ("nfs", "nfs", "nfs"),
    ("iscsi", "iscsi", "iscsi"),
    ("glusterfs", "glusterfs", "glusterfs"),
    ("flocker", "flocker", "flocker"),
    ("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd", "rbd"),
    ("cinder", "cinder", "cinder"),
    ("cephfs", "cephFS", "cephfs"),
    ("quobyte", "quobyte", "quobyte"),
    ("downwardAPI", "downwarAPI", "downwardAPI"),
    ("fc", "fc", "fc"),
    ("flexVolume", "flexVolume", "flexVolume"),
    ("configMap", "configMap", "configMap"),
    ("azureFile", "azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk", "azureDisk"),
    ("storageos", "storageos", "storageos"),
    ("projected", "projected", "projected"),
    ("scaleIO", "scaleIO", "scaleIO"),
    ("csi", "csi", "csi"),
    ("ephemeral", "ephemeral", "ephemeral"),
    ("image", "image", "image"),
];

/// The volumes that may be mounted: those without a fault.
pub(super) struct Volumes<'a> {
    good: BTreeMap<&'a str, &'a Value>,
}

impl<'a> Volumes<'a> {
    pub(super) fn find(&self, name: &str) -> Option<&'a Value> {
        self.good.get(name).copied()
    }
}

pub(super) fn check<'a>(
    volumes: &'a [Value],
    metadata: Option<&Value>,
    at: &Path<'_>,
    options: &Options,
    errors: &mut Errors,
) -> Volumes<'a> {
    let pod = metadata.map(|m| text(m, "name")).unwrap_or_default();
    let mut found = Volumes { good: BTreeMap::new() };
    let made: Seen<&str> =
        volumes.iter().filter(|v| member(v, "ephemeral").is_some()).map(|v| text(v, "name")).collect();
    for (i, volume) in volumes.iter().enumerate() {
        let at = at.index(i);
        let before = errors.len();
        check_source(volume, pod, &at, options, errors);
        let name = text(volume, "name");
        errors.need_label(&at.child("name"), name);
        if found.find(name).is_some() {
            errors.duplicate(&at.child("name"), name);
        }
        if errors.len() == before {
            found.good.insert(name, volume);
        }
        let claim = volume.at(&["persistentVolumeClaim", "claimName"]).and_then(Value::as_str);
        if let Some(claim) = claim.filter(|claim| is_created_for(&made, pod, claim)) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(&at.child("persistentVolumeClaim").child("claimName"), claim, detail);
        }
    }
    found
}

/// Whether the claim is one that an ephemeral volume of this pod will make.
fn is_created_for(made: &Seen<&str>, pod: &str, claim: &str) -> bool {
    let Some(rest) = claim.strip_prefix(pod).and_then(|rest| rest.strip_prefix('-')) else { return false };
    !pod.is_empty() && made.has(&rest)
}

fn check_source(volume: &Value, pod: &str, at: &Path<'_>, options: &Options, errors: &mut Errors) {
    let mut count = 0;
    if let Some(dir) = member(volume, "emptyDir") {
        count += 1;
        if member(dir, "sizeLimit").is_some_and(|size| quantity(size).sign() < 0) {
            let detail = "SizeLimit field must be a valid resource quantity";
            errors.forbidden(&at.child("emptyDir").child("sizeLimit"), detail);
        }
    }
    let name = text(volume, "name");
    for (kind, second, path) in &SOURCES {
        let Some(source) = member(volume, kind) else { continue };
        if count > 0 {
            errors.forbidden(&at.child(second), "may not specify more than 1 volume type");
        } else {
            count += 1;
            let source_at = at.child(path);
            match *kind {
                "projected" => projected::check(source, &source_at, options, errors),
                "downwardAPI" => projected::check_downward(source, &source_at, errors),
                "ephemeral" => check_ephemeral(source, name, pod, at, errors),
                "image" => {
                    if options.is_pod && text(source, "reference").is_empty() {
                        errors.required(&source_at.child("reference"), "");
                    }
                    check_pull_policy(text(source, "pullPolicy"), &source_at.child("pullPolicy"), errors);
                }
                _ => volume_sources::check(kind, source, &source_at, errors),
            }
        }
        if *kind == "iscsi" && iscsi_name_too_long(name, source) {
            errors.invalid(&at.child("name"), name, volume_sources::ISCSI_NAME);
        }
    }
    if count == 0 {
        errors.required(at, "must specify a volume type");
    }
}

fn check_ephemeral(source: &Value, name: &str, pod: &str, at: &Path<'_>, errors: &mut Errors) {
    let ephemeral = at.child("ephemeral");
    let template_at = ephemeral.child("volumeClaimTemplate");
    match member(source, "volumeClaimTemplate") {
        None => errors.required(&template_at, ""),
        Some(template) => {
            let metadata = template.get("metadata").unwrap_or(&Value::Null);
            let metadata_at = template_at.child("metadata");
            errors.annotations(&metadata_at.child("annotations"), metadata.get("annotations"));
            errors.labels(&metadata_at.child("labels"), metadata.get("labels"));
            for (field, value) in metadata.as_map().into_iter().flat_map(|m| m.iter()) {
                let set = !crate::same(Some(value), None) && value.as_str() != Some("");
                if set && !matches!(&**field, "annotations" | "labels") {
                    // By the name of the member in Go.
                    let field = if &**field == "uid" { "uID" } else { field };
                    errors.forbidden(&metadata_at.child(field), "cannot be set");
                }
            }
            let spec = template.get("spec").unwrap_or(&Value::Null);
            crate::persistentvolumeclaim::check_spec(spec, None, &template_at.child("spec"), errors);
        }
    }
    if !pod.is_empty() && !name.is_empty() {
        let claim = format!("{pod}-{name}");
        for problem in validate_text::dns1123_subdomain(&claim) {
            let detail = format!("PVC name {}: {problem}", object::quote(&claim));
            errors.invalid(&at.child("name"), name, detail);
        }
    }
}

/// Keys of a config map or a secret and the files they become.
pub(super) fn check_items(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    for (i, item) in items(source, "items").iter().enumerate() {
        let list = at.child("items");
        check_item(item, &list.index(i), errors);
    }
}

pub(super) fn check_item(item: &Value, at: &Path<'_>, errors: &mut Errors) {
    errors.need(at, item, "key");
    errors.need(at, item, "path");
    volume_sources::local_path(text(item, "path"), &at.child("path"), errors);
    volume_sources::check_mode(item, "mode", at, errors);
}
