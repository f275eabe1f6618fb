//! Volumes, inline and persistent: file modes, and the old drivers' settings.

use object::Map;

use super::image;
use crate::defaults::fill::Literal::{Bool, Empty, Int, Text};
use crate::defaults::fill::{self, Default, at, each, fill, pointer};
use crate::persistentvolumeclaim;

/// 0644.
const MODE: &[Default] = &[pointer("defaultMode", Int(0o644))];
const TOKEN: &[Default] = &[pointer("expirationSeconds", Int(3600))];
const FIELD: &[Default] = &[fill::plain("apiVersion", Text("v1"))];

/// The sources that hold nothing but settings to fill in.
const SOURCES: &[(&str, &[Default])] = &[
    ("hostPath", &[pointer("type", Text(""))]),
    (
        "rbd",
        &[
            fill::plain("pool", Text("rbd")),
            fill::plain("user", Text("admin")),
            fill::plain("keyring", Text("/etc/ceph/keyring")),
        ],
    ),
    ("iscsi", &[fill::plain("iscsiInterface", Text("default"))]),
    (
        "azureDisk",
        &[
            pointer("cachingMode", Text("ReadWrite")),
            pointer("fsType", Text("ext4")),
            pointer("readOnly", Bool(false)),
            pointer("kind", Text("Shared")),
        ],
    ),
    ("scaleIO", &[fill::plain("storageMode", Text("ThinProvisioned")), fill::plain("fsType", Text("xfs"))]),
];

/// What only pods can mount.
const POD_SOURCES: &[(&str, &[Default])] =
    &[("secret", MODE), ("configMap", MODE), ("downwardAPI", MODE), ("projected", MODE)];

/// A volume of a pod. One that names no source is an empty directory.
pub(crate) fn volume(volume: &mut Map) {
    if volume.iter().all(|(member, value)| member == "name" || value.is_null()) {
        fill(volume, &[pointer("emptyDir", Empty)]);
        return;
    }
    persistent_source(volume);
    fill_sources(volume, POD_SOURCES);
    if let Some(image) = at(volume, "image") {
        image::pull_policy(image, "reference", "pullPolicy");
    }
    if let Some(downward) = at(volume, "downwardAPI") {
        each(downward, "items", field_ref);
    }
    if let Some(projected) = at(volume, "projected") {
        each(projected, "sources", |source| {
            if let Some(downward) = at(source, "downwardAPI") {
                each(downward, "items", field_ref);
            }
            if let Some(token) = at(source, "serviceAccountToken") {
                fill(token, TOKEN);
            }
        });
    }
    if let Some(template) = at(volume, "ephemeral").and_then(|source| at(source, "volumeClaimTemplate")) {
        persistentvolumeclaim::defaults::spec(template);
    }
}

/// The sources that persistent volumes have too.
pub(crate) fn persistent_source(holder: &mut Map) {
    fill_sources(holder, SOURCES);
}

/// The field of the pod that `fieldRef` of this struct names.
pub(crate) fn field_ref(holder: &mut Map) {
    if let Some(field) = at(holder, "fieldRef") {
        fill(field, FIELD);
    }
}

fn fill_sources(holder: &mut Map, sources: &[(&str, &[Default])]) {
    for (name, defaults) in sources {
        if let Some(source) = at(holder, name) {
            fill(source, defaults);
        }
    }
}
