//! What an agent asks of whatever runs containers, and what it is told: the edge between a node and its runtime.
//!
//! All calls return at once. A runtime that needs time says [`Container::Created`] or `Running` meanwhile, and when to look
//! again; one that learns of changes by itself wakes the pod's key instead.

use crate::pod::Pod;

/// Unix milliseconds of the world's clock.
pub type Millis = i64;

/// Runs the pods of one node.
pub trait Runtime: Send {
    /// How the node is, and what its object asks of the runtime; called whenever the object changed.
    fn node_changed(&mut self, node: &object::Value) -> Health;

    /// A pod that this process sees for the first time though it was started before: the runtime may know it still.
    fn recover(&mut self, pod: &Pod<'_>);
    /// What runs; `None`: nothing was set up for the pod, or it was removed.
    fn look(&mut self, pod: &Pod<'_>, now: Millis) -> Option<Sandbox>;
    /// Sets up what the containers share: the address above all.
    fn create(&mut self, pod: &Pod<'_>, now: Millis);
    /// Whether the image of a container is there, or could be brought; else why not, in the runtime's words.
    fn pull(&mut self, pod: &Pod<'_>, container: usize) -> Result<(), String>;
    /// Starts a container, by its place in [`Pod::containers`]; `attempt` counts restarts. One that
    /// still runs is ended first.
    fn start(&mut self, pod: &Pod<'_>, container: usize, attempt: u32, now: Millis);
    /// Ends one container at once.
    fn kill(&mut self, pod: &Pod<'_>, container: usize, now: Millis);
    /// Ends all containers, those that do not end by themselves within the grace by force. May be asked again, with less.
    fn stop(&mut self, pod: &Pod<'_>, grace_seconds: i64, now: Millis);
    /// Gives back whatever the pod had. Nothing of it runs any more.
    fn remove(&mut self, uid: u128);
}

/// How a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Ready,
    NotReady(String),
    /// Not a word to anybody: no lease, no status, no pods. Only a simulated node can be that.
    Unreachable,
}

/// A pod as the runtime sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sandbox {
    /// Empty: none of its own.
    pub ip: String,
    /// In the order of [`Pod::containers`]; `None`: never started.
    pub containers: Vec<Option<Running>>,
    /// Something will have changed then.
    pub next: Option<Millis>,
}

/// A container that was started at least once.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    pub id: String,
    pub image_id: String,
    /// Its image is not the one the pod asks for any more.
    pub outdated: bool,
    /// How often it was restarted.
    pub attempt: u32,
    pub state: Container,
    /// How the run before this one ended.
    pub last: Option<Exit>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Container {
    /// Asked for, not there yet.
    Created,
    Running {
        since: Millis,
        ready: bool,
    },
    Exited(Exit),
}

/// How a run of a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    pub code: i32,
    pub started: Millis,
    pub finished: Millis,
    /// Of the run that ended.
    pub id: String,
}

impl Exit {
    /// In kubelet's words.
    pub fn reason(&self) -> &'static str {
        if self.code == 0 { "Completed" } else { "Error" }
    }
}

impl Sandbox {
    pub fn container(&self, index: usize) -> Option<&Running> {
        self.containers.get(index)?.as_ref()
    }

    /// Is anything running, or about to?
    pub fn is_alive(&self) -> bool {
        self.containers.iter().flatten().any(|c| !matches!(c.state, Container::Exited(_)))
    }
}
