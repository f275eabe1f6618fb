//! Which pod goes first: one that uses more than it asked for, the least important, the one furthest above its request.

use std::cmp::Ordering;
use std::sync::Arc;

use node::pod::{Pod, Requests};
use object::Value;

use super::signal::{Resource, Signal};
use super::threshold::Disks;
use crate::server::stats::{FsStats, PodStats};

/// A pod that could be ended.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub pod: Arc<Value>,
    /// `None`: nothing is known of what it uses.
    pub stats: Option<PodStats>,
}

/// What of a pod is on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    roots: bool,
    logs: bool,
    volumes: bool,
}

/// The first is the first to go.
pub fn rank(candidates: &mut [Candidate], signal: Signal, disks: Disks) {
    match signal.resource() {
        Resource::Memory => by(candidates, &memory, |requests| requests.memory, |r| r.memory),
        Resource::Pids => {
            let processes = |of: &Candidate| of.stats.as_ref().map(|stats| stats.process_count.unwrap_or(0));
            candidates.sort_by(|a, b| {
                priority(a).cmp(&priority(b)).then_with(|| descending(processes(a), processes(b)))
            });
        }
        Resource::EphemeralStorage => {
            let parts = parts(signal, disks);
            by(candidates, &|of| disk(of, parts, false), |r| r.ephemeral_storage, |r| r.ephemeral_storage);
        }
        Resource::Inodes => {
            let parts = parts(signal, disks);
            // Nobody asks for inodes; kubelet takes bytes off all the same.
            by(candidates, &|of| disk(of, parts, true), |_| 0, |r| r.ephemeral_storage);
        }
    }
}

/// `asked` is what a pod may use and be left in peace, `taken_off` what its use is compared without.
fn by(
    candidates: &mut [Candidate],
    used: &dyn Fn(&Candidate) -> Option<i64>,
    asked: fn(&Requests) -> i64,
    taken_off: fn(&Requests) -> i64,
) {
    candidates.sort_by_cached_key(|of| {
        let requests = Requests::asked_for(&Pod::read(&of.pod));
        let used = used(of);
        // One of which nothing is known goes before all others.
        let exceeds = used.map(|used| used > asked(&requests));
        let over = used.map(|used| used.saturating_sub(taken_off(&requests)));
        let place = match exceeds {
            None => 0,
            Some(true) => 1,
            Some(false) => 2,
        };
        (place, priority(of), over.map(std::cmp::Reverse))
    });
}

fn descending(a: Option<u64>, b: Option<u64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.cmp(&a),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

fn priority(of: &Candidate) -> i64 {
    of.pod.at(&["spec", "priority"]).and_then(Value::as_int).unwrap_or(0)
}

fn memory(of: &Candidate) -> Option<i64> {
    let stats = of.stats.as_ref()?;
    let used = stats.memory.as_ref().and_then(|memory| memory.working_set_bytes.as_ref());
    Some(signed(used.map_or(0, |used| used.value)))
}

fn disk(of: &Candidate, parts: Parts, inodes: bool) -> Option<i64> {
    let stats = of.stats.as_ref()?;
    let of_fs = |fs: &FsStats| {
        let used = if inodes { fs.inodes_used } else { fs.used_bytes };
        used.unwrap_or(0)
    };
    let containers = stats.containers.iter().flat_map(|container| {
        let root = container.rootfs.as_ref().filter(|_| parts.roots);
        root.into_iter().chain(container.logs.as_ref().filter(|_| parts.logs))
    });
    let volumes = stats.volumes.iter().filter(|volume| parts.volumes && volume.is_ephemeral);
    let own = stats.own_files.iter().filter(|_| parts.volumes);
    let all = containers.chain(volumes.map(|volume| &volume.fs)).chain(own).map(of_fs);
    Some(signed(all.fold(0, u64::saturating_add)))
}

fn parts(signal: Signal, disks: Disks) -> Parts {
    let of_images = matches!(signal, Signal::ImageFsAvailable | Signal::ImageFsInodesFree);
    let of_containers = matches!(signal, Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree);
    match (disks.own_image_fs, disks.split_container_fs) {
        (true, false) if of_images || of_containers => Parts { roots: true, logs: false, volumes: false },
        (true, false) => Parts { roots: false, logs: true, volumes: true },
        (true, true) if of_images => Parts { roots: false, logs: false, volumes: false },
        _ => Parts { roots: true, logs: true, volumes: true },
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What may be removed before pods are ended: dead containers, unused images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaim {
    pub containers: bool,
    pub images: bool,
}

pub fn reclaim(signal: Signal, disks: Disks) -> Reclaim {
    let none = Reclaim { containers: false, images: false };
    let of_images = matches!(signal, Signal::ImageFsAvailable | Signal::ImageFsInodesFree);
    let of_node = matches!(signal, Signal::NodeFsAvailable | Signal::NodeFsInodesFree);
    match (signal.resource(), disks.own_image_fs, disks.split_container_fs) {
        (Resource::Memory | Resource::Pids, ..) => none,
        (_, true, false) if of_node => none,
        (_, true, true) => Reclaim { containers: !of_images, images: of_images },
        _ => Reclaim { containers: true, images: true },
    }
}
