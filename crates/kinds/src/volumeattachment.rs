//! Volume attachments: one volume and one node, both immutable; the attacher reports the result.

mod columns;
mod defaults;

use object::Value;

use crate::check::internal::{Field, Go, NULL, TEXT, internal};
use crate::check::{Errors, IMMUTABLE, Path, Raw, entries, int, member, text};
use crate::generic::GenericKind;
use crate::persistentvolume::check_volume_spec;
use crate::pod::validation::csi_driver_name;
use crate::rules::{Rules, StatusMeta};
use crate::workload::{SPEC, STATUS};
use crate::write::Write;

pub(crate) static KIND: GenericKind = GenericKind::new(Rules::PLAIN.with_status(StatusMeta::KeepAll), check)
    .with_defaults(defaults::apply)
    .with_printer(&columns::PRINTER);

const METADATA_MAX_BYTES: usize = 256 * 1024;
const MESSAGE_MAX_BYTES: usize = 1024;
const ATTACHMENT: [Field; 3] = [
    ("attacher", "Attacher", TEXT),
    ("source", "Source", Go::Struct(&SOURCE)),
    ("nodeName", "NodeName", TEXT),
];
const SOURCE: [Field; 2] = [
    ("persistentVolumeName", "PersistentVolumeName", NULL),
    ("inlineVolumeSpec", "InlineVolumeSpec", Go::Pointer(&VOLUME)),
];
/// An inline volume is one of CSI; what is not shown field by field is never valid there.
#[rustfmt::skip]
const VOLUME: [Field; 31] = [
    ("capacity", "Capacity", NULL), ("gcePersistentDisk", "GCEPersistentDisk", NULL),
    ("awsElasticBlockStore", "AWSElasticBlockStore", NULL), ("hostPath", "HostPath", NULL),
    ("glusterfs", "Glusterfs", NULL), ("nfs", "NFS", NULL), ("rbd", "RBD", NULL), ("quobyte", "Quobyte", NULL),
    ("iscsi", "ISCSI", NULL), ("flexVolume", "FlexVolume", NULL), ("cinder", "Cinder", NULL),
    ("cephfs", "CephFS", NULL), ("fc", "FC", NULL), ("flocker", "Flocker", NULL), ("azureFile", "AzureFile", NULL),
    ("vsphereVolume", "VsphereVolume", NULL), ("azureDisk", "AzureDisk", NULL),
    ("photonPersistentDisk", "PhotonPersistentDisk", NULL), ("portworxVolume", "PortworxVolume", NULL),
    ("scaleIO", "ScaleIO", NULL), ("local", "Local", NULL), ("storageos", "StorageOS", NULL),
    ("csi", "CSI", Go::Pointer(&CSI)), ("accessModes", "AccessModes", NULL), ("claimRef", "ClaimRef", NULL),
    ("persistentVolumeReclaimPolicy", "PersistentVolumeReclaimPolicy", TEXT),
    ("storageClassName", "StorageClassName", TEXT), ("mountOptions", "MountOptions", NULL),
    ("volumeMode", "VolumeMode", NULL), ("nodeAffinity", "NodeAffinity", NULL),
    ("volumeAttributesClassName", "VolumeAttributesClassName", NULL),
];
const CSI: [Field; 10] = [
    ("driver", "Driver", TEXT),
    ("volumeHandle", "VolumeHandle", TEXT),
    ("readOnly", "ReadOnly", Go::Leaf("false")),
    ("fsType", "FSType", TEXT),
    ("volumeAttributes", "VolumeAttributes", NULL),
    ("controllerPublishSecretRef", "ControllerPublishSecretRef", Go::Pointer(&SECRET)),
    ("nodeStageSecretRef", "NodeStageSecretRef", Go::Pointer(&SECRET)),
    ("nodePublishSecretRef", "NodePublishSecretRef", Go::Pointer(&SECRET)),
    ("controllerExpandSecretRef", "ControllerExpandSecretRef", Go::Pointer(&SECRET)),
    ("nodeExpandSecretRef", "NodeExpandSecretRef", Go::Pointer(&SECRET)),
];
const SECRET: [Field; 2] = [("name", "Name", TEXT), ("namespace", "Namespace", TEXT)];

fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    let (spec, status) = (write.spec(), write.status());
    csi_driver_name(text(spec, "attacher"), &SPEC.child("attacher"), errors);
    let source = spec.get("source").unwrap_or(&Value::Null);
    check_source(source, &SPEC.child("source"), errors);
    errors.subdomain(&SPEC.child("nodeName"), text(spec, "nodeName"));
    let bytes: usize = entries(status, "attachmentMetadata")
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if bytes > METADATA_MAX_BYTES {
        errors.too_long(&STATUS.child("attachmentMetadata"), METADATA_MAX_BYTES);
    }
    for name in ["attachError", "detachError"] {
        if let Some(error) = member(status, name) {
            check_error(error, &STATUS.child(name), errors);
        }
    }
    if let Some(name) = member(source, "persistentVolumeName").and_then(Value::as_str) {
        errors.subdomain(&Path::Root("spec.source.persistentVolumeName"), name);
    }
    if let Some(old) = write.old_spec()
        && !write.same(&["spec"], Some(spec), Some(old))
    {
        errors.invalid(&SPEC, Raw(&internal(Some(spec), &ATTACHMENT)), IMMUTABLE);
    }
}

fn check_source(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (member(source, "inlineVolumeSpec"), member(source, "persistentVolumeName")) {
        (None, None) => errors.required(at, one),
        (Some(_), Some(_)) => errors.forbidden(at, one),
        (None, Some(name)) => {
            if name.as_str() == Some("") {
                errors.required(
                    &at.child("persistentVolumeName"),
                    "must specify non empty persistentVolumeName",
                );
            }
        }
        (Some(inline), None) => {
            check_volume_spec(inline, "", None, true, &at.child("inlineVolumeSpec"), errors);
        }
    }
}

fn check_error(error: &Value, at: &Path<'_>, errors: &mut Errors) {
    if text(error, "message").len() > MESSAGE_MAX_BYTES {
        // Upstream names the larger bound here.
        errors.too_long(&at.child("message"), METADATA_MAX_BYTES);
    }
    if let Some(code) = int(error, "errorCode").filter(|code| *code < 0) {
        let detail = format!("must be between 0 and {}, inclusive", i32::MAX);
        errors.invalid(&at.child("errorCode"), code, detail);
    }
}
