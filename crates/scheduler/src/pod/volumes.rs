//! The volumes of a pod that matter where it goes: claims, and disks that only one node may write to.

use std::sync::Arc;

use object::Value;

use crate::read::{list, strings, text};

/// A volume, in the pod's order: the first that is missing is the one that is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PodVolume {
    /// By the name of the claim.
    Claim(Arc<str>),
    /// By the name of the volume: its claim's name begins with the pod's.
    Ephemeral(Arc<str>),
    Disk(Disk),
}

/// A disk that is not mounted twice unless all who do only read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Disk {
    Gce { name: String, read_only: bool },
    Aws { volume: String },
    Iscsi { iqn: String, read_only: bool },
    Rbd { monitors: Vec<String>, pool: String, image: String, read_only: bool },
}

impl PodVolume {
    pub fn parse_all(spec: Option<&Value>) -> Vec<PodVolume> {
        list(spec, "volumes").iter().filter_map(PodVolume::parse).collect()
    }

    fn parse(volume: &Value) -> Option<PodVolume> {
        let source = |name: &str| volume.get(name).filter(|v| !v.is_null());
        let read_only = |v: &Value| v.get("readOnly").and_then(Value::as_bool).unwrap_or(false);
        let string = |v: &Value, name: &str| text(v, name).to_owned();
        if let Some(claim) = source("persistentVolumeClaim") {
            return Some(PodVolume::Claim(text(claim, "claimName").into()));
        }
        if source("ephemeral").is_some() {
            return Some(PodVolume::Ephemeral(text(volume, "name").into()));
        }
        let disk = if let Some(gce) = source("gcePersistentDisk") {
            Disk::Gce { name: string(gce, "pdName"), read_only: read_only(gce) }
        } else if let Some(aws) = source("awsElasticBlockStore") {
            Disk::Aws { volume: string(aws, "volumeID") }
        } else if let Some(iscsi) = source("iscsi") {
            Disk::Iscsi { iqn: string(iscsi, "iqn"), read_only: read_only(iscsi) }
        } else {
            let rbd = source("rbd")?;
            Disk::Rbd {
                monitors: strings(rbd, "monitors"),
                pool: string(rbd, "pool"),
                image: string(rbd, "image"),
                read_only: read_only(rbd),
            }
        };
        Some(PodVolume::Disk(disk))
    }

    /// The name of its claim, if it has one and belongs to a pod of this name.
    pub fn claim_name(&self, pod: &str) -> Option<Arc<str>> {
        match self {
            PodVolume::Claim(name) => Some(name.clone()),
            PodVolume::Ephemeral(volume) => Some(ephemeral_claim(pod, volume).into()),
            PodVolume::Disk(_) => None,
        }
    }

    /// As [`PodVolume::claim_name`], for comparing only.
    pub fn is_claim(&self, pod: &str, claim: &str) -> bool {
        match self {
            PodVolume::Claim(name) => **name == *claim,
            PodVolume::Ephemeral(volume) => {
                let rest = claim.strip_prefix(pod).and_then(|rest| rest.strip_prefix('-'));
                rest == Some(volume)
            }
            PodVolume::Disk(_) => false,
        }
    }
}

pub fn ephemeral_claim(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

/// Whether a disk of one pod must not be on a node together with one of another.
pub fn disks_conflict(ours: &[PodVolume], theirs: &[PodVolume]) -> bool {
    disks(ours).any(|disk| disks(theirs).any(|other| disk.conflicts(other)))
}

fn disks(volumes: &[PodVolume]) -> impl Iterator<Item = &Disk> {
    volumes.iter().filter_map(|volume| match volume {
        PodVolume::Disk(disk) => Some(disk),
        _ => None,
    })
}

impl Disk {
    fn conflicts(&self, other: &Disk) -> bool {
        match (self, other) {
            (Disk::Gce { name, read_only }, Disk::Gce { name: other, read_only: too }) => {
                name == other && !(*read_only && *too)
            }
            (Disk::Aws { volume }, Disk::Aws { volume: other }) => volume == other,
            (Disk::Iscsi { iqn, read_only }, Disk::Iscsi { iqn: other, read_only: too }) => {
                iqn == other && !(*read_only && *too)
            }
            (
                Disk::Rbd { monitors, pool, image, read_only },
                Disk::Rbd { monitors: m, pool: p, image: i, read_only: too },
            ) => {
                monitors.iter().any(|monitor| m.contains(monitor))
                    && (pool, image) == (p, i)
                    && !(*read_only && *too)
            }
            _ => false,
        }
    }
}
