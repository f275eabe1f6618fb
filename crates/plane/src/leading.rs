//! Whether the parts that lead from this process are alive: their tasks end only when they are told to.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use runtime::Stop;
use tokio::task::{AbortHandle, JoinHandle};

/// The present terms, by lease.
#[derive(Default)]
pub(crate) struct Leading {
    /// Guards the last term of each part; a new one takes its place.
    terms: Mutex<BTreeMap<&'static str, Term>>,
}

struct Term {
    tasks: Vec<AbortHandle>,
    /// Once it fires the tasks may end, and another may lead.
    stop: Stop,
}

impl Leading {
    pub fn set(&self, lease: &'static str, tasks: &[JoinHandle<()>], stop: &Stop) {
        let tasks = tasks.iter().map(JoinHandle::abort_handle).collect();
        self.terms.lock().insert(lease, Term { tasks, stop: stop.clone() });
    }

    /// `None` where no term is under way.
    pub fn health(&self, lease: &str) -> Option<Result<(), String>> {
        let terms = self.terms.lock();
        let term = terms.get(lease).filter(|term| !term.stop.is_stopped())?;
        let ended = term.tasks.iter().filter(|task| task.is_finished()).count();
        Some(match (term.tasks.len(), ended) {
            (0, _) => Err("all its controllers are disabled".to_owned()),
            (_, 0) => Ok(()),
            (all, ended) => Err(format!("{ended} of its {all} tasks ended unexpectedly; see the log")),
        })
    }
}
