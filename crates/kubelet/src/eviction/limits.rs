//! Pods that keep more on the node's disk than they said they would.

use object::Value;
use object::quantity::{Format, Quantity};

use crate::generate::resources::{Overhead, amount, pod_limits};
use crate::server::stats::{FsStats, PodStats};

const STORAGE: &str = "ephemeral-storage";

/// What has to be measured of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limited {
    pub volumes: bool,
    /// Also what containers write, and their logs.
    pub containers: bool,
}

pub fn limited(pod: &Value) -> Limited {
    let containers = pod_limits(pod, Overhead::Included).contains_key(STORAGE);
    let volumes = list(pod, "volumes").iter().any(|volume| size_limit(volume).is_some());
    Limited { volumes: volumes || containers, containers }
}

/// Why the pod is to end; the first reason, in kubelet's order. `own_image_fs`: what containers write is not on the node's disk.
pub fn exceeded(pod: &Value, stats: &PodStats, own_image_fs: bool) -> Option<Exceeded> {
    let of = |signal| move |message| Exceeded { signal, message };
    let empty_dir = empty_dir(pod, stats).map(of("emptydirfs.limit"));
    let pod_limit = || of_pod(pod, stats).map(of("ephemeralpodfs.limit"));
    let container_limit = || of_container(pod, stats, own_image_fs).map(of("ephemeralcontainerfs.limit"));
    empty_dir.or_else(pod_limit).or_else(container_limit)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// What evictions are counted by.
    pub signal: &'static str,
    pub message: String,
}

fn empty_dir(pod: &Value, stats: &PodStats) -> Option<String> {
    for volume in list(pod, "volumes") {
        let Some(limit) = size_limit(volume) else { continue };
        let name = volume.str_at(&["name"]).unwrap_or("");
        let Some(used) = stats.volumes.iter().find(|of| of.name == name) else { continue };
        if used_bytes(Some(&used.fs)) > limit {
            let (name, limit) = (object::quote(name), object::quote(&limit.to_string()));
            return Some(format!("Usage of EmptyDir volume {name} exceeds the limit {limit}. "));
        }
    }
    None
}

fn of_pod(pod: &Value, stats: &PodStats) -> Option<String> {
    let limit = *pod_limits(pod, Overhead::Included).get(STORAGE)?;
    (used_bytes(stats.ephemeral_storage.as_ref()) > limit)
        .then(|| format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "))
}

fn of_container(pod: &Value, stats: &PodStats, own_image_fs: bool) -> Option<String> {
    for of in &stats.containers {
        let mut all = list(pod, "containers").iter();
        let Some(container) = all.find(|container| container.str_at(&["name"]) == Some(of.name.as_str()))
        else {
            continue;
        };
        let limit = amount(container, "limits", STORAGE);
        let mut used = used_bytes(of.logs.as_ref());
        if !own_image_fs {
            used = used + used_bytes(of.rootfs.as_ref());
        }
        if !limit.is_zero() && used > limit {
            let limit = object::quote(&limit.to_string());
            return Some(format!(
                "Container {} exceeded its local ephemeral storage limit {limit}. ",
                of.name
            ));
        }
    }
    None
}

fn list<'a>(pod: &'a Value, name: &str) -> &'a [Value] {
    pod.at(&["spec", name]).and_then(Value::as_list).unwrap_or_default()
}

fn size_limit(volume: &Value) -> Option<Quantity> {
    let text = volume.str_at(&["emptyDir", "sizeLimit"])?;
    Quantity::parse(text).ok().filter(|limit| limit.sign() > 0)
}

fn used_bytes(fs: Option<&FsStats>) -> Quantity {
    let bytes = fs.and_then(|fs| fs.used_bytes).unwrap_or(0);
    Quantity::from_i64(i64::try_from(bytes).unwrap_or(i64::MAX), Format::BinarySi)
}
