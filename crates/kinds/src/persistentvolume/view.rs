//! What controllers read of a volume: made once per revision and shared.

use object::Value;
use object::quantity::Quantity;

use crate::persistentvolumeclaim::view::{
    AccessModes, BOUND_BY_CONTROLLER, MIGRATED_TO, annotation, class_of_volume, names, quantity,
};

pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The size a volume had before it was grown, until its file system has grown, too.
pub const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumePhase {
    #[default]
    Pending,
    Available,
    Bound,
    Released,
    Failed,
}

impl VolumePhase {
    pub fn as_str(self) -> &'static str {
        match self {
            VolumePhase::Pending => "Pending",
            VolumePhase::Available => "Available",
            VolumePhase::Bound => "Bound",
            VolumePhase::Released => "Released",
            VolumePhase::Failed => "Failed",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReclaimPolicy {
    Retain,
    Recycle,
    Delete,
    /// Of a later version.
    #[default]
    Other,
}

/// Where a volume's data is, as far as controllers tell sources apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VolumeSource {
    HostPath(Box<str>),
    Nfs,
    Csi,
    #[default]
    Other,
}

/// The claim a volume is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    pub namespace: Box<str>,
    pub name: Box<str>,
    /// Empty: whichever claim has that name, as the user who wrote it wants.
    pub uid: Box<str>,
}

impl ClaimRef {
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Is it for this very claim?
    pub fn is_for(&self, namespace: &str, name: &str, uid: &str) -> bool {
        *self.namespace == *namespace && *self.name == *name && (self.uid.is_empty() || *self.uid == *uid)
    }
}

/// The state of a volume. Labels, uid and deletion are in the object's header already.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeView {
    pub claim: Option<ClaimRef>,
    /// Empty: no class.
    pub class: Box<str>,
    pub attributes_class: Box<str>,
    pub modes: AccessModes,
    /// The same as they stand there.
    pub mode_names: Box<[Box<str>]>,
    pub block: bool,
    pub capacity: Quantity,
    pub phase: VolumePhase,
    pub policy: ReclaimPolicy,
    pub source: VolumeSource,
    pub bound_by_controller: bool,
    pub provisioned_by: Option<Box<str>>,
    /// Another, external driver looks after it.
    pub migrated: bool,
}

impl VolumeView {
    pub fn read(volume: &Value) -> VolumeView {
        let text = |path: &[&str]| Box::<str>::from(volume.str_at(path).unwrap_or(""));
        let reference = volume.at(&["spec", "claimRef"]).filter(|reference| reference.as_map().is_some());
        let part = |name: &str| text(&["spec", "claimRef", name]);
        VolumeView {
            claim: reference.map(|_| ClaimRef {
                namespace: part("namespace"),
                name: part("name"),
                uid: part("uid"),
            }),
            class: class_of_volume(volume).into(),
            attributes_class: text(&["spec", "volumeAttributesClassName"]),
            modes: AccessModes::read(volume.at(&["spec", "accessModes"])),
            mode_names: names(volume.at(&["spec", "accessModes"])),
            block: volume.str_at(&["spec", "volumeMode"]) == Some("Block"),
            capacity: quantity(volume, &["spec", "capacity", "storage"]),
            phase: match volume.str_at(&["status", "phase"]) {
                Some("Available") => VolumePhase::Available,
                Some("Bound") => VolumePhase::Bound,
                Some("Released") => VolumePhase::Released,
                Some("Failed") => VolumePhase::Failed,
                _ => VolumePhase::Pending,
            },
            policy: match volume.str_at(&["spec", "persistentVolumeReclaimPolicy"]) {
                Some("Retain") => ReclaimPolicy::Retain,
                Some("Recycle") => ReclaimPolicy::Recycle,
                Some("Delete") => ReclaimPolicy::Delete,
                _ => ReclaimPolicy::Other,
            },
            source: source(volume),
            bound_by_controller: annotation(volume, BOUND_BY_CONTROLLER).is_some(),
            provisioned_by: annotation(volume, PROVISIONED_BY).map(Box::from),
            migrated: annotation(volume, MIGRATED_TO).is_some_and(|driver| !driver.is_empty()),
        }
    }
}

fn source(volume: &Value) -> VolumeSource {
    if let Some(path) = volume.str_at(&["spec", "hostPath", "path"]) {
        return VolumeSource::HostPath(path.into());
    }
    match volume.get("spec") {
        Some(spec) if spec.get("nfs").is_some() => VolumeSource::Nfs,
        Some(spec) if spec.get("csi").is_some() => VolumeSource::Csi,
        _ => VolumeSource::Other,
    }
}
