//! The container runtime inside this program: CRI's services over `container`, `network` and `image`.
//!
//! ```text
//!  kubelet ── cri::Runtime ── Embedded ──┬── sandbox, containers ── spawner, helper of each pod (crate `container`)
//!                                        ├── pod_network ── bridge, addresses, host ports (crate `network`)
//!                                        ├── images ── store, pulls (crate `image`)
//!                                        └── records: what a killed agent finds again
//! ```
//! * Everything is written down before it is done, and found again by [`Embedded::open`]: helpers that go on, those that died, and
//!   how their containers ended.
//! * Logic is synchronous and runs on threads that may block; each call to its end, whoever waits. Only what waits for time or
//!   for a stream is async.
//! * Nothing of all pods is locked while a file, a process or a socket is waited for, except by those who write the same thing: the
//!   spawner's socket, the table of host ports.
//!
//! What kubelet can see (messages, reasons, exit codes, defaults) is containerd's.

mod apparmor;
mod attend;
mod blocking;
mod cgroups;
mod containers;
mod error;
mod events;
mod forward;
mod helper;
mod images;
mod pod_network;
mod pods;
mod records;
mod recovery;
mod reset;
mod sandbox;
mod seccomp;
mod service;
mod spawner;
mod spec;
mod stats;
mod status;
mod streams;
mod update;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use env::Env;
use image::{Platform, PullOptions, Puller, Store, StoreError};
use network::addresses::Cidr;
use network::rules::Protocol;
use parking_lot::Mutex;
use tokio::sync::broadcast;

pub use reset::ResetError;
pub use spawner::{Spawner, serve_if_spawner};

use error::Context as _;
use pod_network::PodNetwork;
use pods::Pods;

/// Events that wait for one who does not listen in time; those before are lost to him, as with containerd.
const EVENTS: usize = 1000;
/// The longest directory in which a helper's socket still has a path that the kernel takes.
const LONGEST_DIRECTORY: usize = 64;

/// Where everything is, and how it is named on this machine. Each agent of a machine has its own of all of them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sandboxes, containers with their file systems, and images.
    pub directory: PathBuf,
    pub bridge: String,
    /// Of nftables.
    pub table: String,
    /// The node's own: addresses of its pods. They may come later, by `update_runtime_config`.
    pub pod_ranges: Vec<Cidr>,
    /// Pods and services of the cluster, which see a pod under its own address.
    pub cluster_ranges: Vec<Cidr>,
    /// Addresses that are nowhere, such as that of the `kubernetes` Service; `Embedded::set_redirects` changes them.
    pub redirects: Vec<(Protocol, SocketAddr, SocketAddr)>,
    pub mtu: u32,
    /// Like `/etc/containerd/certs.d`.
    pub registry_hosts: PathBuf,
    /// Pulls at the same time; 1 is `serializeImagePulls`.
    pub parallel_pulls: usize,
    /// Below the root of the cgroups: the helpers, and containers whose pod names no parent.
    pub cgroup: PathBuf,
    /// Where the machine's devices for containers are described, the one that counts most last.
    pub cdi_directories: Vec<PathBuf>,
    /// Holds the machine's `sys`, `etc` and `sbin`, as far as AppArmor goes.
    pub machine_root: PathBuf,
}

/// Of CDI, on every machine.
pub const CDI_DIRECTORIES: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{0} is too long: sockets below it could not be named")]
    TooLong(PathBuf),
    #[error("{path}: {error}")]
    File { path: PathBuf, error: std::io::Error },
    #[error("failed to open the images: {0}")]
    Images(#[from] StoreError),
    #[error("failed to set up the network: {0}")]
    Network(#[from] network::Error),
    #[error("failed to set up the cgroup of the pods' helpers: {0}")]
    Cgroup(std::io::Error),
}

/// The runtime. Cheap to clone.
#[derive(Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    settings: Settings,
    spawner: Spawner,
    images: Store,
    puller: Puller,
    network: PodNetwork,
    filters: seccomp::Filters,
    apparmor: apparmor::AppArmor,
    /// Guards which sandboxes and containers there are; held for a few instructions.
    pods: Mutex<Pods>,
    events: broadcast::Sender<cri::ContainerEventResponse>,
    stats: stats::Cache,
    exec_output: Arc<streams::OutputBudget>,
    has_mqueue: bool,
}

impl Embedded {
    /// Finds everything that is there, and makes what is missing. To be called within the runtime, as it starts tasks.
    pub fn open(env: &Env, settings: Settings, spawner: Spawner) -> Result<Embedded, OpenError> {
        if settings.directory.as_os_str().len() > LONGEST_DIRECTORY {
            return Err(OpenError::TooLong(settings.directory));
        }
        for path in [records::sandboxes(&settings.directory), records::containers(&settings.directory)] {
            make_private(&path).map_err(|error| OpenError::File { path, error })?;
        }
        let helpers = container::cgroup::Cgroup::at_host(&settings.cgroup.join("helpers"));
        helpers.create().and_then(|()| spawner.join(helpers)).map_err(OpenError::Cgroup)?;
        let images = Store::open(&settings.directory.join("images"), env, image::Limits::default())?;
        let options = PullOptions {
            certs: vec![settings.registry_hosts.clone()],
            platform: Platform::current(),
            parallel: settings.parallel_pulls,
        };
        let puller = Puller::new(&images, env, image::blocking_pool(), options);
        let filesystems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let inner = Arc::new(Inner {
            env: env.clone(),
            network: PodNetwork::new(&settings),
            apparmor: apparmor::AppArmor::at(&settings.machine_root, &settings.directory),
            settings,
            spawner,
            images,
            puller,
            filters: seccomp::Filters::default(),
            pods: Mutex::default(),
            events: broadcast::Sender::new(EVENTS),
            stats: stats::Cache::default(),
            exec_output: Arc::default(),
            has_mqueue: filesystems.lines().any(|line| line.ends_with("\tmqueue")),
        });
        inner.recover()?;
        Ok(Embedded { inner })
    }

    /// The images, for those who import or decide about them.
    pub fn images(&self) -> &Store {
        &self.inner.images
    }

    /// Other redirects than those of the settings. To be tried again after an error.
    pub async fn set_redirects(
        &self,
        redirects: Vec<(Protocol, SocketAddr, SocketAddr)>,
    ) -> Result<(), cri::Error> {
        let inner = self.inner.clone();
        let set = move || inner.network.set_redirects(redirects);
        blocking::block(move || set().context(|| "failed to redirect".to_owned())).await
    }

    /// The agent stops: pods stay, and nobody listens to them any more.
    pub async fn shutdown(&self) {
        let sandboxes: Vec<_> = self.inner.pods.lock().sandboxes.values().cloned().collect();
        let tasks: Vec<_> = sandboxes.iter().filter_map(|sandbox| sandbox.task.lock().take()).collect();
        for task in tasks {
            task.abort();
            // Cancelled, which is what was wanted.
            let _ = task.await;
        }
    }

    /// Ends all containers, before what they use is taken away. No agent may be using it.
    pub async fn end_pods(settings: Settings) -> Result<(), ResetError> {
        reset::end(settings).await
    }

    /// Leaves nothing: processes, cgroups, interfaces, rules, files. No agent may be using it.
    pub async fn reset(settings: Settings) -> Result<(), ResetError> {
        reset::reset(settings, true).await
    }

    /// The same where bridge, table and cgroup of these names are another agent's by now: they stay.
    pub async fn reset_beside_another(settings: Settings) -> Result<(), ResetError> {
        reset::reset(settings, false).await
    }
}

/// How many pods of a directory run, whether or not there is an agent.
pub fn running_pods(directory: &std::path::Path) -> usize {
    let sandboxes = recovery::entries(&records::sandboxes(directory)).unwrap_or_default();
    let runs = |sandbox: &&PathBuf| {
        let is_marked = |name: &str| records::is_marked(sandbox, name);
        is_marked(records::READY) && !is_marked(records::STOPPED) && helper::process(sandbox).is_some()
    };
    sandboxes.iter().filter(runs).count()
}

/// Files of containers are nobody's business on this machine.
fn make_private(path: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}

impl Drop for Inner {
    fn drop(&mut self) {
        for sandbox in self.pods.get_mut().sandboxes.values() {
            if let Some(task) = sandbox.task.lock().take() {
                task.abort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_whose_helper_is_gone_do_not_run() {
        let directory = tempfile::tempdir().unwrap();
        let make = |name: &str, helper: &str, marks: &[&str]| {
            let sandbox = records::sandboxes(directory.path()).join(name);
            std::fs::create_dir_all(&sandbox).unwrap();
            std::fs::write(sandbox.join("helper.pid"), helper).unwrap();
            marks.iter().for_each(|mark| records::mark(&sandbox, mark).unwrap());
            std::os::unix::net::UnixListener::bind(sandbox.join(helper::SOCKET)).unwrap()
        };
        // By its name, this thread is one.
        std::fs::write("/proc/thread-self/comm", "setpoint-pod").unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().to_string();
        let _listen = [
            make("runs", &own, &[records::READY]),
            make("stopped", &own, &[records::READY, records::STOPPED]),
            make("half-made", &own, &[]),
            // Its number is another's.
            make("gone", &std::process::id().to_string(), &[records::READY]),
            make("none", "4294967295", &[records::READY]),
        ];
        // Its number is that of another agent's helper since the machine was started.
        drop(make("before", &own, &[records::READY]));
        assert_eq!(running_pods(directory.path()), 1);
    }
}
