//! Sandboxes and containers in memory, and what the helpers say about them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use container::wire::PodState;
use cri::{ContainerEventType, Error};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::{no_container, no_sandbox, unknown};
use crate::records::{ContainerRecord, SandboxRecord};
use crate::{Inner, status};

pub struct Sandbox {
    pub record: SandboxRecord,
    pub directory: PathBuf,
    /// Guards what is known of its helper; held for a few instructions.
    pub state: Mutex<SandboxState>,
    /// Held by who takes it down: one at a time.
    pub operation: Mutex<()>,
    /// Guards the task that hears of its containers; held to put it in or to take it out.
    pub task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct SandboxState {
    pub ready: bool,
    /// The helper is told to end: that it does is no news.
    pub stopping: bool,
    /// Addresses and ports are given back, and may be another's by now.
    pub disconnected: bool,
    /// That is written down.
    pub stopped: bool,
    /// Of the helper.
    pub pid: i32,
}

pub struct Container {
    pub id: String,
    pub sandbox: Arc<Sandbox>,
    pub directory: PathBuf,
    /// Guards what was asked for, which an update of its resources changes; held for a few instructions.
    pub record: Mutex<ContainerRecord>,
    pub phase: watch::Sender<Phase>,
    /// Held by who starts, updates or removes it: one at a time.
    pub operation: Mutex<()>,
    /// It was sent its signal to stop.
    pub is_signaled: AtomicBool,
}

/// How far a container is. Times are Unix nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    Created,
    Running { pid: i32, started: i64 },
    Exited(Exit),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exit {
    /// 0: it never did.
    pub started: i64,
    pub finished: i64,
    pub code: i32,
    pub reason: String,
    pub message: String,
}

impl Phase {
    pub fn is_running(&self) -> bool {
        matches!(self, Phase::Running { .. })
    }

    pub fn is_exited(&self) -> bool {
        matches!(self, Phase::Exited(_))
    }

    pub fn to_cri(&self) -> cri::ContainerState {
        match self {
            Phase::Created => cri::ContainerState::Created,
            Phase::Running { .. } => cri::ContainerState::Running,
            Phase::Exited(_) => cri::ContainerState::Exited,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Phase::Created => "CONTAINER_CREATED",
            Phase::Running { .. } => "CONTAINER_RUNNING",
            Phase::Exited(_) => "CONTAINER_EXITED",
        }
    }
}

/// Of a container whose end nobody saw, as containerd has it.
pub const UNKNOWN_END: (i32, &str) = (255, "Unknown");
/// Of a container that ended with its helper.
pub const KILLED_END: (i32, &str) = (137, "Error");

#[derive(Default)]
pub struct Pods {
    pub sandboxes: BTreeMap<String, Arc<Sandbox>>,
    pub containers: BTreeMap<String, Arc<Container>>,
    /// Who has which name: a sandbox or container of one name and attempt is made once.
    names: BTreeMap<String, String>,
}

impl Pods {
    pub fn reserve(&mut self, kind: &str, name: &str, id: &str) -> Result<(), Error> {
        if let Some(owner) = self.names.get(name) {
            return Err(unknown(format!(
                "failed to reserve {kind} name {name:?}: name {name:?} is reserved for {owner:?}"
            )));
        }
        self.names.insert(name.to_owned(), id.to_owned());
        Ok(())
    }

    pub fn release(&mut self, id: &str) {
        self.names.retain(|_, owner| owner != id);
    }

    pub fn containers_of(&self, sandbox: &str) -> Vec<Arc<Container>> {
        self.containers.values().filter(|one| one.sandbox.record.id == sandbox).cloned().collect()
    }
}

pub fn sandbox_name(config: &cri::PodSandboxConfig) -> String {
    let metadata = config.metadata.clone().unwrap_or_default();
    format!("{}_{}_{}_{}", metadata.name, metadata.namespace, metadata.uid, metadata.attempt)
}

pub fn container_name(config: &cri::ContainerConfig, sandbox: &cri::PodSandboxConfig) -> String {
    let metadata = config.metadata.clone().unwrap_or_default();
    let pod = sandbox.metadata.clone().unwrap_or_default();
    format!("{}_{}_{}_{}_{}", metadata.name, pod.name, pod.namespace, pod.uid, metadata.attempt)
}

impl Inner {
    pub fn sandbox(&self, id: &str) -> Result<Arc<Sandbox>, Error> {
        self.pods.lock().sandboxes.get(id).cloned().ok_or_else(|| no_sandbox(id))
    }

    pub fn container(&self, id: &str) -> Result<Arc<Container>, Error> {
        self.pods.lock().containers.get(id).cloned().ok_or_else(|| no_container(id))
    }

    /// Takes over what a helper says. What it said before may come later: a container that ended stays so.
    pub fn learn(&self, state: &PodState) {
        for told in &state.containers {
            let Ok(container) = self.container(&told.id) else { continue };
            let started = i64::try_from(told.started).unwrap_or_default();
            let new = match &told.ended {
                None => Phase::Running { pid: told.pid, started },
                Some(ended) => Phase::Exited(Exit {
                    started,
                    finished: i64::try_from(ended.finished).unwrap_or_default(),
                    code: ended.code,
                    reason: match (ended.oom_killed, ended.code) {
                        (true, _) => "OOMKilled",
                        (false, 0) => "Completed",
                        (false, _) => "Error",
                    }
                    .to_owned(),
                    message: String::new(),
                }),
            };
            self.advance(&container, new);
        }
    }

    /// Brings a container further, and tells about it.
    pub fn advance(&self, container: &Arc<Container>, new: Phase) {
        let mut news = Vec::new();
        container.phase.send_if_modified(|phase| {
            match (&*phase, &new) {
                (Phase::Created, Phase::Running { .. }) => news.push(ContainerEventType::StartedEvent),
                (Phase::Created, Phase::Exited(exit)) if exit.started == 0 => {}
                (Phase::Created, Phase::Exited(_)) => {
                    news.extend([ContainerEventType::StartedEvent, ContainerEventType::StoppedEvent]);
                }
                (Phase::Running { .. }, Phase::Exited(_)) => news.push(ContainerEventType::StoppedEvent),
                _ => return false,
            }
            *phase = new;
            true
        });
        for kind in news {
            self.tell(&container.id, kind, Some(&container.sandbox));
        }
    }

    /// All containers of a sandbox whose helper is gone have ended, and this is what is known of how.
    pub fn end_containers(&self, sandbox: &Sandbox, (code, reason): (i32, &str)) {
        let now = self.now();
        let containers = self.pods.lock().containers_of(&sandbox.record.id);
        for container in containers {
            let running = match *container.phase.borrow() {
                Phase::Running { started, .. } => started,
                _ => continue,
            };
            let exit = Exit {
                started: running,
                finished: now,
                code,
                reason: reason.to_owned(),
                message: String::new(),
            };
            self.advance(&container, Phase::Exited(exit));
        }
    }

    /// Unix nanoseconds.
    pub fn now(&self) -> i64 {
        i64::try_from(self.env.now_nanos()).unwrap_or(i64::MAX)
    }

    /// Sends an event to who listens. Those of a sandbox have its id as the container's, as containerd's have.
    pub fn tell(&self, id: &str, kind: ContainerEventType, sandbox: Option<&Arc<Sandbox>>) {
        if self.events.receiver_count() == 0 {
            return;
        }
        let containers = sandbox.map(|one| self.pods.lock().containers_of(&one.record.id));
        let event = cri::ContainerEventResponse {
            container_id: id.to_owned(),
            container_event_type: kind.into(),
            created_at: self.now(),
            pod_sandbox_status: sandbox.map(|sandbox| status::of_sandbox(sandbox)),
            containers_statuses: containers.iter().flatten().map(|one| status::of_container(one)).collect(),
        };
        // Those who do not listen any more miss nothing.
        let _ = self.events.send(event);
    }
}
