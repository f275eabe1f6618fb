//! Whether the parts that lead from this process are alive: their tasks end only when they are told to.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use runtime::Stop;
use tokio::task::{AbortHandle, JoinHandle};

/// The tasks of the parts that lead now, by lease.
#[derive(Default)]
pub(crate) struct Leading {
    /// Guards the tasks of each part since it last became leader.
    parts: Mutex<BTreeMap<&'static str, LeaderTasks>>,
}

struct LeaderTasks {
    tasks: Vec<AbortHandle>,
    /// Once it fires the tasks may end, and another may lead.
    stop: Stop,
}

impl Leading {
    pub fn set(&self, lease: &'static str, tasks: &[JoinHandle<()>], stop: &Stop) {
        let tasks = tasks.iter().map(JoinHandle::abort_handle).collect();
        self.parts.lock().insert(lease, LeaderTasks { tasks, stop: stop.clone() });
    }

    /// `None` while it does not lead.
    pub fn health(&self, lease: &str) -> Option<Result<(), String>> {
        let parts = self.parts.lock();
        let part = parts.get(lease).filter(|part| !part.stop.is_stopped())?;
        let ended = part.tasks.iter().filter(|task| task.is_finished()).count();
        Some(match (part.tasks.len(), ended) {
            (0, _) => Err("all its controllers are disabled".to_owned()),
            (_, 0) => Ok(()),
            (all, ended) => Err(format!("{ended} of its {all} tasks ended unexpectedly; see the log")),
        })
    }
}
