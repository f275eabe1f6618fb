//! The volumes of pods: made before their containers, kept up to date, removed after them.
//!
//! ```text
//! pod ── source ── payload (config maps, secrets, tokens), claim ── setup, on a thread that may block ── MountedVolume
//!
//! pods/UID/volumes/kubernetes.io~PLUGIN/NAME      as kubelet has it; a tmpfs for what must not reach the disk
//! pods/UID/volume-subpaths/VOLUME/CONTAINER/N     what a subPath means, bound once
//! pods/UID/plugins/kubernetes.io~empty-dir/NAME   that an emptyDir was made
//! ```
//! Nothing about a mount is kept in memory: after a crash the directories and `/proc/self/mountinfo` tell what there is.

mod atomic;
mod claim;
pub mod downward;
mod empty_dir;
mod error;
mod host_path;
mod local;
mod ownership;
mod payload;
mod ready;
mod removal;
mod setup;
pub(crate) mod source;
mod stats;
mod sub_path;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use client::{Client, Value};
use container::disk_usage::DiskUsage;
use env::Env;
use futures_util::future::join_all;
use image::Blocking;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::config::Config;
use crate::objects::Objects;
use error::{failure, step_failure};
use local::LocalVolume;
use ownership::{ChangePolicy, Ownership};
use payload::{Gather, Readers};
use setup::{Ready, SetUp};
use source::{EMPTY_DIR, LOCAL_VOLUME, Source};

pub use error::{VolumeError, VolumeFailure};
pub use local::DIRECTORY as PROVISIONED;
pub(crate) use payload::aggregate;
pub use removal::{VolumeUsage, provisioned, remove_provisioned};
pub use stats::KeptStats;

/// `status.allocatable` of the node, as it is now.
pub type Allocatable = Arc<dyn Fn() -> Value + Send + Sync>;

pub struct Volumes {
    env: Env,
    config: Arc<Config>,
    client: Arc<dyn Client>,
    objects: Arc<Objects>,
    blocking: Blocking,
    allocatable: Allocatable,
    /// Where volumes of the provisioner are.
    provisioned: PathBuf,
    /// Of the volumes that count.
    disk: DiskUsage,
    /// Guards the locks of pods: one pod's volumes are worked on by one caller at a time. Held to look a lock up.
    turns: Mutex<BTreeMap<Box<str>, Arc<tokio::sync::Mutex<()>>>>,
}

/// A volume that containers can have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountedVolume {
    /// Empty if it is an image.
    pub host_path: PathBuf,
    /// Whatever the container's mount says.
    pub read_only: bool,
    /// All processes of the pod are in it: `pv.beta.kubernetes.io/gid` of the PersistentVolume.
    pub group: Option<i64>,
    /// The runtime mounts an image itself, once it is pulled.
    pub image: Option<ImageVolume>,
    /// What people should know, once: its files are those of another group.
    pub warning: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageVolume {
    pub reference: String,
    pub pull_policy: Option<String>,
}

/// The volumes a container mounts that are images, by name.
pub fn image_volumes<'a>(pod: &'a Value, container: &Value) -> Vec<(&'a str, ImageVolume)> {
    let list = |tree: &'a Value, path: &[&str]| tree.at(path).and_then(Value::as_list).unwrap_or_default();
    let mounts = container.at(&["volumeMounts"]).and_then(Value::as_list).unwrap_or_default();
    let is_mounted = |name: &str| mounts.iter().any(|mount| mount.str_at(&["name"]) == Some(name));
    let images = list(pod, &["spec", "volumes"]).iter().filter_map(|volume| {
        let name = volume.str_at(&["name"]).filter(|name| is_mounted(name))?;
        let Source::Image { reference, pull_policy } = Source::read(pod, volume) else { return None };
        let (reference, pull_policy) = (reference.to_owned(), pull_policy.map(str::to_owned));
        Some((name, ImageVolume { reference, pull_policy }))
    });
    images.collect()
}

/// Which volumes of a pod are meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// Those whose files follow something else.
    Refreshed,
}

/// A volume that is ready to be set up, or needs nothing.
enum Step {
    SetUp { set_up: SetUp, read_only: bool, group: Option<i64>, spec_name: String },
    Image(ImageVolume),
}

impl Volumes {
    pub fn new(
        env: Env,
        config: Arc<Config>,
        client: Arc<dyn Client>,
        objects: Arc<Objects>,
        blocking: Blocking,
        allocatable: Allocatable,
    ) -> Volumes {
        let (provisioned, turns) = (PathBuf::from(local::DIRECTORY), Mutex::default());
        let disk = DiskUsage::default();
        Volumes { env, config, client, objects, blocking, allocatable, provisioned, disk, turns }
    }

    /// Looks for volumes of the provisioner elsewhere.
    pub fn provisioned_at(self, directory: PathBuf) -> Volumes {
        Volumes { provisioned: directory, ..self }
    }

    /// Makes all volumes the pod's containers use; those that are there are left, and their files brought up to date. The pod must be
    /// registered with [`Objects`].
    pub async fn mount(&self, pod: &Value) -> Result<BTreeMap<String, MountedVolume>, VolumeError> {
        self.set_up(pod, Which::All).await
    }

    /// Brings the files of config maps, secrets, the downward API and tokens up to date, each volume by one swap.
    pub async fn refresh(&self, pod: &Value) -> Result<(), VolumeError> {
        self.set_up(pod, Which::Refreshed).await.map(drop)
    }

    async fn set_up(
        &self,
        pod: &Value,
        which: Which,
    ) -> Result<BTreeMap<String, MountedVolume>, VolumeError> {
        let uid = pod.str_at(&["metadata", "uid"]).unwrap_or_default();
        let turn = self.turn(uid).lock_owned().await;
        let (mounts, devices) = source::used(pod);
        let allocatable = (self.allocatable)();
        let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default();
        let wanted = volumes.iter().filter_map(|volume| {
            let name = volume.str_at(&["name"])?;
            let used = mounts.contains(name) || devices.contains(name);
            let source = Source::read(pod, volume);
            let wanted = used && (which == Which::All || source.is_refreshed());
            wanted.then_some((name, source))
        });
        // Their objects come from watches and the server: one wait for all.
        let (allocatable, devices) = (&allocatable, &devices);
        let steps = join_all(wanted.map(|(name, source)| async move {
            (name, self.step(pod, name, &source, allocatable, devices.contains(name)).await)
        }));
        let mut mounted = BTreeMap::new();
        let mut failures = Vec::new();
        let mut work = Vec::new();
        for (name, step) in steps.await {
            match step {
                Ok(Step::Image(image)) => {
                    let volume = MountedVolume { image: Some(image), read_only: true, ..Default::default() };
                    mounted.insert(name.to_owned(), volume);
                }
                Ok(Step::SetUp { set_up, read_only, group, spec_name }) => {
                    work.push((name.to_owned(), spec_name, (read_only, group), set_up));
                }
                Err(failure) => failures.push(failure),
            }
        }
        let names: Vec<String> = work.iter().map(|(name, ..)| name.clone()).collect();
        let env = self.env.clone();
        let done = self.blocking(move || {
            // Kept to the end of the work, also if nobody waits for it any more: a removal waits for it.
            let _turn = turn;
            let run = |(name, spec_name, of, set_up): (String, String, _, SetUp)| {
                (name, spec_name, of, set_up.run(&env))
            };
            work.into_iter().map(run).collect::<Vec<_>>()
        });
        match done.await {
            Ok(done) => {
                for (name, spec_name, (read_only, group), result) in done {
                    match result {
                        Ok(Ready { path: host_path, warning }) => {
                            let volume = MountedVolume { host_path, read_only, group, image: None, warning };
                            mounted.insert(name, volume);
                        }
                        Err(cause) => failures.push(failure(&name, &spec_name, cause)),
                    }
                }
            }
            Err(error) => failures.extend(names.iter().map(|name| failure(name, name, error.to_string()))),
        }
        if failures.is_empty() { Ok(mounted) } else { Err(VolumeError { failures }) }
    }

    async fn step(
        &self,
        pod: &Value,
        name: &str,
        source: &Source<'_>,
        allocatable: &Value,
        device: bool,
    ) -> Result<Step, VolumeFailure> {
        let failed = |cause: String| failure(name, name, cause);
        let uid = pod.str_at(&["metadata", "uid"]).unwrap_or_default();
        if !local::is_name(uid) || !local::is_name(name) {
            return Err(failed("the names of pod and volume are no names of directories".to_owned()));
        }
        let group = fs_group(pod);
        let directory = self.pod_directory(uid).join("volumes").join(source.directory()).join(name);
        let ready = self.pod_directory(uid).join("plugins").join(EMPTY_DIR).join(name);
        let step = |set_up, read_only| {
            Ok(Step::SetUp { set_up, read_only, group: None, spec_name: name.to_owned() })
        };
        let gather = Gather {
            objects: &self.objects,
            pod,
            allocatable,
            readers: Readers { user: fs_user(pod), fs_group: group },
        };
        let payload = match source {
            Source::ConfigMap(map) => gather.config_map(map).await,
            Source::Secret(secret) => gather.secret(secret).await,
            Source::DownwardApi(downward) => gather.downward(downward),
            Source::Projected(projected) => gather.projected(projected).await,
            Source::EmptyDir(source) => {
                let medium = empty_dir::medium(source, pod, allocatable).map_err(failed)?;
                return step(SetUp::EmptyDir { directory, ready, medium, group }, false);
            }
            Source::HostPath { path, kind } => {
                let (path, kind) = ((*path).to_owned(), (*kind).to_owned());
                return step(SetUp::HostPath { path, kind }, false);
            }
            Source::Image { reference, pull_policy } => {
                let (reference, pull_policy) = ((*reference).to_owned(), pull_policy.map(str::to_owned));
                return Ok(Step::Image(ImageVolume { reference, pull_policy }));
            }
            Source::Claim { name: claim, read_only, ephemeral } => {
                let unprocessed =
                    |cause: String| VolumeFailure { volume: name.to_owned(), event: None, cause };
                let volume =
                    claim::volume(&*self.client, pod, claim, *ephemeral).await.map_err(unprocessed)?;
                let node = &self.config.node_name;
                claim::check_node(&*self.client, node, &volume).await.map_err(|cause| {
                    let spec_name = volume.str_at(&["metadata", "name"]).unwrap_or_default();
                    step_failure("MountVolume.NodeAffinity check failed", name, spec_name, cause)
                })?;
                return self.claimed(pod, name, &volume, *read_only, device);
            }
            Source::Unsupported(kind) => {
                let why = format!("no volume plugin matched: {kind} volumes are not supported by this node");
                return Err(failed(why));
            }
        };
        let payload = payload.map_err(failed)?;
        // What came from a Secret, or says who somebody is, never reaches the disk.
        let medium = match source {
            Source::ConfigMap(_) => empty_dir::Medium::Disk,
            _ => empty_dir::Medium::Memory(empty_dir::memory_size(None, pod, allocatable)),
        };
        let nested = source::nested_mount_points(name, pod).map_err(failed)?;
        step(SetUp::Files { directory, medium, payload, nested, group }, true)
    }

    /// What is to be done for a volume behind a claim.
    fn claimed(
        &self,
        pod: &Value,
        name: &str,
        volume: &Value,
        read_only: bool,
        device: bool,
    ) -> Result<Step, VolumeFailure> {
        let spec_name = volume.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
        let found = local::read(volume, &self.provisioned, name, !device, device);
        let found = found.map_err(|cause| failure(name, &spec_name, cause))?;
        let uid = pod.str_at(&["metadata", "uid"]).unwrap_or_default();
        let policy = match pod.str_at(&["spec", "securityContext", "fsGroupChangePolicy"]) {
            Some("OnRootMismatch") => ChangePolicy::OnRootMismatch,
            _ => ChangePolicy::Always,
        };
        let owner = fs_group(pod).map(|group| Ownership { group, read_only, policy });
        let set_up = match found {
            LocalVolume::HostPath { path, kind } => SetUp::HostPath { path, kind },
            LocalVolume::Local { path, options } => {
                let below =
                    |part: &str| self.pod_directory(uid).join(part).join(LOCAL_VOLUME).join(&spec_name);
                let (target, ready, pods) = (below("volumes"), below("plugins"), self.pods_directory());
                SetUp::Local { path, options, target, ready, pods, read_only, owner }
            }
            LocalVolume::Provisioned { path } => {
                let owner = owner.filter(|_| !read_only);
                SetUp::Provisioned { path: PathBuf::from(path), records: self.records(), owner }
            }
        };
        Ok(Step::SetUp { set_up, read_only, group: claim::group(volume), spec_name })
    }

    /// The directory of a `subPath` of a volume that is mounted, made if it is missing, and bound to a place of its own: whatever the
    /// pod does to the volume afterwards, the container gets what was found here. `index` is that of the container's mount.
    pub async fn prepare_sub_path(
        &self,
        uid: &str,
        volume: (&str, &MountedVolume),
        sub_path: &str,
        container: &str,
        index: usize,
    ) -> Result<PathBuf, String> {
        sub_path::check(sub_path)?;
        let (name, mounted) = volume;
        if !local::is_name(uid) || !local::is_name(name) || !local::is_name(container) {
            return Err(format!(
                "failed to prepare subPath for volumeMount {name:?} of container {container:?}"
            ));
        }
        let place = self.pod_directory(uid).join("volume-subpaths").join(name).join(container);
        let (target, from) = (place.join(index.to_string()), mounted.host_path.clone());
        let wanted = sub_path.to_owned();
        let bound = target.clone();
        let made = self.blocking(move || {
            let open = sub_path::make(&from, &wanted).map_err(|error| ("create", error))?;
            sub_path::bind(&open, &bound).map_err(|error| ("prepare", error))
        });
        // What went wrong in detail says something about the machine's files, and is nothing for the pod.
        match made.await.unwrap_or_else(|error| Err(("prepare", error))) {
            Ok(()) => Ok(target),
            Err((step, error)) => {
                tracing::warn!(pod = uid, volume = name, container, %error, "failed to {step} subPath");
                let directory = if step == "create" { "subPath directory" } else { "subPath" };
                Err(format!(
                    "failed to {step} {directory} for volumeMount {name:?} of container {container:?}"
                ))
            }
        }
    }

    pub fn pods_directory(&self) -> PathBuf {
        self.config.root_directory.join("pods")
    }

    pub fn pod_directory(&self, uid: &str) -> PathBuf {
        self.pods_directory().join(uid)
    }

    fn records(&self) -> PathBuf {
        self.config.root_directory.join(local::RECORDS)
    }

    fn turn(&self, uid: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock();
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry(uid.into()).or_default().clone()
    }

    async fn blocking<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let (sender, receiver) = oneshot::channel();
        (self.blocking)(Box::new(move || drop(sender.send(job()))));
        receiver.await.map_err(|_| io::Error::other("the thread that works on volumes ended"))
    }
}

fn fs_group(pod: &Value) -> Option<u32> {
    let group = pod.at(&["spec", "securityContext", "fsGroup"]).and_then(Value::as_int)?;
    u32::try_from(group).ok()
}

/// The user that all containers run as; `None`: they differ, or leave it to their images.
fn fs_user(pod: &Value) -> Option<u32> {
    let user = |of: &Value| of.at(&["securityContext", "runAsUser"]).and_then(Value::as_int);
    let of_pod = pod.get("spec").and_then(user);
    let mut users = source::containers(pod).map(|container| user(container).or(of_pod));
    let first = users.next()??;
    users.all(|user| user == Some(first)).then(|| u32::try_from(first).ok())?
}

#[cfg(test)]
mod tests;
