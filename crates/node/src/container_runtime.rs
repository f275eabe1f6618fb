//! What an agent asks of whatever runs containers, and what it is told: the edge between a node and its runtime.
//!
//! All calls return at once. What takes time goes on by itself, whatever happens to other pods meanwhile: [`Runtime::look`] shows
//! how far it is and what it came to, and the pod's key is woken ([`Wake`]) when that changes.

use std::borrow::Cow;
use std::sync::Arc;

use runtime::{Key, Severity};

use crate::admit::Rejection;
use crate::allocation::Allocation;
use crate::pod::Pod;

/// Unix milliseconds of the world's clock.
pub type Millis = i64;

/// Asks for a reconcile of a pod, or of the node by its name alone; from any thread, but not from within a call of [`Runtime`].
pub type Wake = Arc<dyn Fn(&Key) + Send + Sync>;

/// Runs the pods of one node.
pub trait Runtime: Send {
    /// Whom to tell that something happened; before anything else is asked.
    fn wake_by(&mut self, wake: Wake);
    /// How the node is, and what its object asks of the runtime; called whenever the object changed.
    fn node_changed(&mut self, node: &object::Value) -> Health;

    /// How the node is before it has an object.
    fn health(&self) -> Health {
        Health::Ready
    }

    /// What speaks against a new pod, before anything else is asked: the machine is short of something.
    fn refuses(&self, _pod: &Pod<'_>) -> Option<Rejection> {
        None
    }

    /// Why what a pod asks for now cannot take the place of what it was given, however much room there is.
    fn infeasible(&self, _pod: &Pod<'_>, _given: &Pod<'_>) -> Option<String> {
        None
    }

    /// Whether it can make mounts of the pod read-only with all that is mounted below them.
    fn recursive_read_only(&self, _pod: &Pod<'_>) -> bool {
        true
    }

    /// Does it know what pods were given when it is asked by another process?
    fn keeps_allocations(&self) -> bool {
        false
    }
    /// What the pod was given last, also by a process before this one; `None`: that is not known.
    fn allocated(&self, _pod: &Pod<'_>) -> Option<Allocation> {
        None
    }
    /// Writes down what a pod is given, before anything goes by it. `Err`: it was not, and may not be given.
    fn allocate(&mut self, _pod: &Pod<'_>, _to: &Allocation) -> Result<(), String> {
        Ok(())
    }

    /// Every pod it holds something of, also from before this process.
    fn list(&self) -> Vec<Held>;
    /// A pod that this process sees for the first time though it was started before: the runtime may know it still.
    fn recover(&mut self, pod: &Pod<'_>);
    /// What runs; `None`: nothing was set up for the pod, or it was removed.
    fn look(&mut self, pod: &Pod<'_>, now: Millis) -> Option<Sandbox>;
    /// What people may want to know of a pod, since they were last told.
    fn take_events(&mut self, uid: u128) -> Vec<PodEvent>;

    /// Sets up what the containers share: the address and the volumes above all. Tried again by itself until it is there.
    fn create(&mut self, pod: &Pod<'_>, now: Millis);
    /// The pod's object, as it is now: some of it may change while the pod runs.
    fn update(&mut self, _pod: &Pod<'_>, _now: Millis) {}
    /// Starts a container, by its place in [`Pod::containers`], once its image is there; `attempt` counts restarts. One that
    /// still runs is ended first.
    fn start(&mut self, pod: &Pod<'_>, container: usize, attempt: u32, now: Millis);
    /// Ends one container at once, without asking it. One that is on its way comes first, and is to be ended then.
    fn kill(&mut self, pod: &Pod<'_>, container: usize, now: Millis);
    /// Ends all containers, those that do not end by themselves within the grace by force. May be asked again, with less.
    fn stop(&mut self, pod: &Pod<'_>, grace_seconds: i64, now: Millis);
    /// Gives back what a pod does not need in which nothing will ever run again: its address, its volumes. How its containers
    /// ended, and what they said, stays. `false`: not all yet; the pod is woken when it is.
    fn release(&mut self, uid: u128) -> bool;
    /// Forgets a pod that nobody knows any more, with all it has; what still runs is ended.
    fn remove(&mut self, uid: u128);
}

/// A pod that the runtime knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub key: Key,
    pub uid: u128,
}

/// Something people may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    pub severity: Severity,
    pub reason: String,
    pub message: String,
    /// The place of the container it is about; `None`: the pod.
    pub container: Option<usize>,
}

/// How a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Ready,
    NotReady(String),
    /// Not a word to anybody: no lease, no status, no pods. Only a simulated node can be that.
    Unreachable,
}

/// How long a resize that failed waits for the next attempt, as in kubelet.
pub const RESIZE_RETRY_MILLIS: Millis = 10_000;

/// A pod as the runtime sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sandbox {
    /// Containers can be started in it.
    pub ready: bool,
    /// None: none of its own.
    pub ips: Vec<String>,
    /// In the order of [`Pod::containers`]; `None`: never started.
    pub containers: Vec<Option<Running>>,
    /// Something will have changed then.
    pub next: Option<Millis>,
    /// The node ends the pod, whatever its containers do.
    pub evicted: Option<Evicted>,
    /// What the pod may use is being set anew.
    pub resizing: bool,
    /// Why that failed; it is tried again with the first update after [`RESIZE_RETRY_MILLIS`].
    pub resize_error: Option<String>,
    /// The places of containers that last ran in a sandbox before this one: what has to come first comes first again.
    pub outlived: Vec<usize>,
    /// The places of those that are started in the sandbox that is new, or being made, whatever their policy.
    pub starts_again: Vec<usize>,
}

/// Why a node ends a pod by itself, in kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    pub reason: Cow<'static, str>,
    pub message: String,
    pub grace_seconds: i64,
    /// The message of its condition `DisruptionTarget`; `None`: the pod has only itself to blame.
    pub disruption: Option<String>,
}

/// A container that was started at least once, or was to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// Empty until it ran once.
    pub id: String,
    pub image_id: String,
    /// The image's name as the runtime has it; empty: as the pod has it.
    pub image: String,
    /// Its image is not the one the pod asks for any more.
    pub outdated: bool,
    /// It gets what the pod was given only by a restart, and none was asked for since.
    pub needs_restart: bool,
    /// As whom it runs; `None`: the runtime does not say.
    pub user: Option<Box<LinuxUser>>,
    /// How often it was restarted.
    pub attempt: u32,
    pub state: Container,
    /// How the run before this one ended.
    pub last: Option<Exit>,
    /// The node ended it because a probe failed, to start it anew.
    pub replaced: bool,
    /// The hook after its start failed, and it was ended for that.
    pub hook_error: Option<Box<StartError>>,
}

/// The user and groups a container's first process has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxUser {
    pub uid: i64,
    pub gid: i64,
    pub supplemental_groups: Vec<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Container {
    /// Asked for, not there yet.
    Created,
    /// Ended, and its successor was asked for and is not there yet.
    Restarting(Exit),
    /// It could not be started, and is to be asked for again.
    Failed(StartError),
    /// Made and never started, as whoever was at it was interrupted, or the runtime cannot tell whether it runs: another run takes
    /// its place, whatever the pod's policy.
    Interrupted {
        /// The runtime cannot tell.
        may_run: bool,
    },
    Running {
        since: Millis,
        /// Its startup probe succeeded, or there is none.
        started: bool,
        ready: bool,
    },
    Exited(Exit),
}

/// The reason of a container whose hook after its start failed.
pub const HOOK_FAILED: &str = "PostStartHookError";

/// Why a container could not be started, in kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    pub reason: Cow<'static, str>,
    pub message: String,
    pub at: Millis,
    /// The image that is missing, if it is not the container's own but that of a volume.
    pub volume_image: Option<String>,
}

impl StartError {
    /// The image could not be pulled, and is not asked for again at once.
    pub fn is_pull(&self) -> bool {
        matches!(&*self.reason, "ErrImagePull" | "RegistryUnavailable" | "SignatureValidationFailed")
    }
}

/// How a run of a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    pub code: i32,
    /// 0: it was not ended by one.
    pub signal: i32,
    pub reason: Cow<'static, str>,
    pub message: String,
    pub started: Millis,
    pub finished: Millis,
    /// Of the run that ended.
    pub id: String,
}

impl Exit {
    /// With the reason that follows from the code.
    pub fn new(code: i32, started: Millis, finished: Millis, id: String) -> Exit {
        let reason = Cow::Borrowed(if code == 0 { "Completed" } else { "Error" });
        Exit { code, signal: 0, reason, message: String::new(), started, finished, id }
    }
}

impl Sandbox {
    pub fn container(&self, index: usize) -> Option<&Running> {
        self.containers.get(index)?.as_ref()
    }

    /// Is anything running, or about to, as far as is known?
    pub fn is_alive(&self) -> bool {
        self.containers.iter().flatten().any(|c| c.state.is_alive())
    }
}

impl Container {
    pub fn is_alive(&self) -> bool {
        match self {
            Container::Exited(_) | Container::Failed(_) | Container::Interrupted { may_run: false } => false,
            Container::Created
            | Container::Restarting(_)
            | Container::Running { .. }
            | Container::Interrupted { may_run: true } => true,
        }
    }
}
