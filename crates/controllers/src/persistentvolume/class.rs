//! Storage classes, and who provisions and deletes volumes.

use kinds::persistentvolume::view::{ReclaimPolicy, VolumeSource, VolumeView};
use kinds::persistentvolumeclaim::view::annotation;
use object::Value;

const DEFAULT_MARKS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// Names of what was once built into Kubernetes.
const BUILT_IN: &str = "kubernetes.io/";
const HOST_PATH: &str = "kubernetes.io/host-path";
const NFS: &str = "kubernetes.io/nfs";

/// Volumes of these are looked after by drivers of their own.
const MIGRATED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// The driver that took over from a built-in provisioner.
pub fn migrated_to(provisioner: &str) -> Option<&'static str> {
    MIGRATED.iter().find(|(old, _)| *old == provisioner).map(|(_, driver)| *driver)
}

pub fn is_built_in(provisioner: &str) -> bool {
    provisioner.starts_with(BUILT_IN)
}

/// What matters of a StorageClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    pub provisioner: String,
    /// Claims wait for their first consumer.
    pub delayed: bool,
    pub is_default: bool,
    created: String,
}

impl Class {
    pub fn read(class: &Value) -> Class {
        Class {
            provisioner: class.str_at(&["provisioner"]).unwrap_or_default().to_owned(),
            delayed: class.str_at(&["volumeBindingMode"]) == Some("WaitForFirstConsumer"),
            is_default: DEFAULT_MARKS.iter().any(|mark| annotation(class, mark) == Some("true")),
            created: class.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default().to_owned(),
        }
    }
}

/// The newest default; of equally new ones the first by name. `classes` are in the order of names.
pub fn default_class<'a>(classes: impl Iterator<Item = (&'a str, Class)>) -> Option<String> {
    let mut newest: Option<(&str, Class)> = None;
    for (name, class) in classes.filter(|(_, class)| class.is_default) {
        if newest.as_ref().is_none_or(|(_, than)| class.created > than.created) {
            newest = Some((name, class));
        }
    }
    newest.map(|(name, _)| name.to_owned())
}

/// Who makes a volume of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provisioner {
    /// Somebody who watches for claims with this name on them.
    External(String),
    /// The claim gets its name, and nothing else happens.
    Disabled {
        name: String,
        why: String,
    },
    None {
        why: String,
    },
}

pub fn provisioner(class_name: &str, class: Option<&Class>) -> Provisioner {
    let Some(class) = class else {
        return Provisioner::None { why: format!("storageclass.storage.k8s.io \"{class_name}\" not found") };
    };
    let name = &class.provisioner;
    if let Some(driver) = migrated_to(name) {
        return Provisioner::External(driver.to_owned());
    }
    match name.as_str() {
        HOST_PATH => Provisioner::Disabled {
            name: name.clone(),
            why: format!(
                "Failed to create provisioner: provisioning in volume plugin \"{name}\" is disabled"
            ),
        },
        NFS => Provisioner::None { why: "no provisionable volume plugin matched".to_owned() },
        name if is_built_in(name) => {
            Provisioner::None { why: format!("no volume plugin matched name: {name}") }
        }
        name => Provisioner::External(name.to_owned()),
    }
}

/// What becomes of a volume whose claim is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// It stays, or somebody else looks after it.
    Leave,
    Delete,
    Recycle,
    Fail {
        reason: &'static str,
        why: String,
    },
}

pub fn reclaim(name: &str, view: &VolumeView) -> Reclaim {
    if view.migrated {
        return Reclaim::Leave;
    }
    match view.policy {
        ReclaimPolicy::Retain => Reclaim::Leave,
        ReclaimPolicy::Recycle => Reclaim::Recycle,
        ReclaimPolicy::Delete => match deleter(name, view) {
            Ok(true) => Reclaim::Delete,
            Ok(false) => Reclaim::Leave,
            Err(why) => Reclaim::Fail { reason: "VolumeFailedDelete", why },
        },
        ReclaimPolicy::Other => Reclaim::Fail {
            reason: "VolumeUnknownReclaimPolicy",
            why: "Volume has unrecognized PersistentVolumeReclaimPolicy".to_owned(),
        },
    }
}

/// Is it ours to delete? `Err`: nobody's.
fn deleter(name: &str, view: &VolumeView) -> Result<bool, String> {
    match view.provisioned_by.as_deref() {
        None | Some("") => {}
        Some(HOST_PATH) => return host_path(view),
        Some(NFS) => return Err("no deletable volume plugin matched".to_owned()),
        Some(by) if is_built_in(by) => return Err(format!("no volume plugin matched name: {by}")),
        Some(_) => return Ok(false),
    }
    let none = |why: &str| Err(format!("error getting deleter volume plugin for volume \"{name}\": {why}"));
    match view.source {
        VolumeSource::Csi => Ok(false),
        VolumeSource::HostPath(_) => host_path(view),
        VolumeSource::Nfs => none("no deletable volume plugin matched"),
        VolumeSource::Other => none("no volume plugin matched"),
    }
}

fn host_path(view: &VolumeView) -> Result<bool, String> {
    let VolumeSource::HostPath(path) = &view.source else {
        let why = "spec.PersistentVolumeSource.HostPath is nil";
        return Err(format!("failed to create deleter for volume: {why}"));
    };
    let below_tmp = path.split_once("/tmp/").is_some_and(|(_, rest)| !rest.is_empty());
    if below_tmp {
        return Ok(true);
    }
    Err(format!("host_path deleter only supports /tmp/.+ but received provided {path}"))
}
