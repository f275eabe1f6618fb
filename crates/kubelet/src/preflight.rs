//! What must hold before a node starts: its swap, its cgroups, the settings of its kernel.

use std::path::Path;
use std::time::Duration;

use container::mounts;
use cri::{CgroupDriver, Code, RuntimeConfigRequest};
use env::Env;
use rustix::mount::{MountFlags, mount};

use crate::config::Config;
use crate::{directories, machine};

#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    #[error(
        "running with swap on is not supported, please disable swap or set failSwapOn to false in the configuration; /proc/swaps: {0}"
    )]
    Swap(String),
    #[error("memorySwap.swapBehavior LimitedSwap needs cgroup v2, and this machine has v1; choose NoSwap")]
    LimitedSwap,
    #[error(
        "kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and will be removed in a future \
         release; set failCgroupV1 to false in the configuration to run on it with a warning"
    )]
    CgroupV1,
    #[error(
        "the container runtime has the cgroup driver systemd, and this node only cgroupfs: set SystemdCgroup = false in containerd's \
         configuration (cgroup_manager = \"cgroupfs\" in CRI-O's) and restart it"
    )]
    RuntimeBySystemd,
    #[error(
        "cgroupDriver systemd is not supported: set cgroupDriver to cgroupfs in the configuration, and SystemdCgroup = false in \
         containerd's"
    )]
    ConfiguredSystemd,
    #[error("runtime returned an unknown cgroup driver {0}")]
    UnknownDriver(i32),
    #[error("the container runtime does not answer: {0}")]
    Runtime(#[from] cri::Error),
    #[error("protectKernelDefaults: {}", .0.join(", "))]
    Kernel(Vec<String>),
}

/// In kubelet's words, for the Node's events, too.
pub const CGROUP_V1_WARNING: &str = "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. \
     Please migrate to cgroup v2. More information at https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1";

pub fn swap(root: &Path, config: &Config) -> Result<(), PreflightError> {
    let swaps = std::fs::read_to_string(root.join("proc/swaps")).unwrap_or_default();
    let devices = machine::swap_devices(&swaps);
    if devices.is_empty() {
        return Ok(());
    }
    if config.fail_swap_on {
        return Err(PreflightError::Swap(devices.join(", ")));
    }
    tracing::warn!(
        devices = devices.join(", "),
        "this machine swaps: limits of memory are not what they seem"
    );
    Ok(())
}

/// In kubelet's words, for the Node's events, too.
pub const MEMORY_VOLUMES_WARNING: &str = "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, \
     etc.) might be swapped to disk and should no longer be considered secure.";

/// Whether what is only to be in memory may come to the disk: the machine swaps, and its kernel (before 6.4) cannot keep a file system
/// out of that. `keeps_out` tries.
pub fn swaps_memory_volumes(root: &Path, keeps_out: impl FnOnce() -> bool) -> bool {
    let swaps = std::fs::read_to_string(root.join("proc/swaps")).unwrap_or_default();
    let swaps = !machine::swap_devices(&swaps).is_empty() && !keeps_out();
    if swaps {
        tracing::warn!("{MEMORY_VOLUMES_WARNING}");
    }
    swaps
}

/// Mounts a file system that is to stay out of swap below that directory, and removes it. Whether it could be mounted counts, not what
/// a process that was killed left there.
pub fn keeps_tmpfs_out_of_swap(directory: &Path) -> bool {
    let place = directory.join("tmpfs-noswap-test");
    let attempt = || -> std::io::Result<()> {
        mounts::unmount_below(&place)?;
        directories::make(&place)?;
        Ok(mount(c"tmpfs", &place, c"tmpfs", MountFlags::empty(), c"noswap")?)
    };
    let done = attempt();
    if let Err(error) = &done {
        tracing::debug!(%error, "failed to mount a tmpfs that stays out of swap");
    }
    if let Err(error) = mounts::unmount_below(&place).and_then(|()| std::fs::remove_dir(&place)) {
        tracing::debug!(%error, "failed to remove a tmpfs");
    }
    done.is_ok()
}

/// Whether it is cgroup v2: v1 is warned of, where it is not refused.
pub fn cgroup_v2(root: &Path, config: &Config) -> Result<bool, PreflightError> {
    let v2 = root.join("sys/fs/cgroup/cgroup.controllers").exists();
    if !v2 && config.fail_cgroup_v1 {
        return Err(PreflightError::CgroupV1);
    }
    if !v2 && config.swap_behavior == "LimitedSwap" {
        return Err(PreflightError::LimitedSwap);
    }
    if !v2 {
        tracing::warn!("{CGROUP_V1_WARNING}");
    }
    Ok(v2)
}

const CAP_SYS_RESOURCE: u32 = 24;

/// Warns where the kernel lets this process make nothing less likely to be ended than itself: containers get such scores silently or
/// not at all.
pub fn oom_scores(root: &Path, config: &Config) {
    // Another runtime sets them with capabilities of its own.
    if config.container_runtime_endpoint.is_none() && !may_lower_oom_scores(root) {
        tracing::warn!(
            "this process lacks the capability CAP_SYS_RESOURCE of the machine, so that Guaranteed and critical pods have no \
             protection from the OOM killer; run it as root outside of a user namespace, or with that capability"
        );
    }
}

/// What cannot be read speaks against nothing.
fn may_lower_oom_scores(root: &Path) -> bool {
    let read = |file: &str| std::fs::read_to_string(root.join("proc/self").join(file)).unwrap_or_default();
    let status = read("status");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    // The machine's own users are mapped to themselves, all of them; a capability of other namespaces does not count.
    let map = read("uid_map");
    let is_machines = map.is_empty() || map.split_whitespace().eq(["0", "0", "4294967295"]);
    is_machines && effective.is_none_or(|set| set & 1 << CAP_SYS_RESOURCE != 0)
}

/// How often a runtime is asked that fails, and after what pause: it may not be ready yet.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(2);

/// The cgroup driver in force: the runtime's, or the configuration's where the runtime does not say. Only `cgroupfs` is supported: names
/// like `kubepods-burstable-podUID.slice` need systemd to make them.
pub async fn cgroup_driver(
    env: &Env,
    runtime: &dyn cri::Runtime,
    configured: &str,
) -> Result<&'static str, PreflightError> {
    let mut attempt = 1;
    let answer = loop {
        match runtime.runtime_config(RuntimeConfigRequest {}).await {
            Ok(answer) => break answer.linux,
            Err(error) if error.code == Code::Unimplemented => break None,
            Err(error) if attempt == ATTEMPTS => return Err(error.into()),
            Err(_) => {
                attempt += 1;
                env.sleep(PAUSE).await;
            }
        }
    };
    match answer.map(|linux| (linux.cgroup_driver, CgroupDriver::try_from(linux.cgroup_driver))) {
        Some((_, Ok(CgroupDriver::Systemd))) => Err(PreflightError::RuntimeBySystemd),
        Some((number, Err(_))) => Err(PreflightError::UnknownDriver(number)),
        None if configured == "systemd" => Err(PreflightError::ConfiguredSystemd),
        None => Ok("cgroupfs"),
        Some((_, Ok(CgroupDriver::Cgroupfs))) => {
            if configured != "cgroupfs" {
                tracing::warn!(configured, "cgroupDriver has no effect: the container runtime's is cgroupfs");
            }
            Ok("cgroupfs")
        }
    }
}

/// What kubelet wants of the kernel.
const KERNEL: [(&str, i64); 6] = [
    ("vm/overcommit_memory", 1),
    ("vm/panic_on_oom", 0),
    ("kernel/panic", 10),
    ("kernel/panic_on_oops", 1),
    ("kernel/keys/root_maxkeys", 1_000_000),
    ("kernel/keys/root_maxbytes", 25_000_000),
];

/// Differs from kubelet, which without `protectKernelDefaults` sets them itself: they are of the whole machine, and left as they are.
pub fn kernel(root: &Path, config: &Config) -> Result<(), PreflightError> {
    if !config.protect_kernel_defaults {
        return Ok(());
    }
    let wrong = KERNEL.iter().filter_map(|(flag, expected)| {
        match std::fs::read_to_string(root.join("proc/sys").join(flag)) {
            Err(error) => Some(format!("{flag}: {error}")),
            Ok(text) if text.trim().parse() == Ok(*expected) => None,
            Ok(text) => Some(format!(
                "invalid kernel flag: {flag}, expected value: {expected}, actual value: {}",
                text.trim()
            )),
        }
    });
    let wrong: Vec<String> = wrong.collect();
    if wrong.is_empty() { Ok(()) } else { Err(PreflightError::Kernel(wrong)) }
}

#[cfg(test)]
mod tests;
