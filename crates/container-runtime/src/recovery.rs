//! Finds again what is written down: pods that went on without the agent, those that ended, and what was left half done.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use container::wire::Request;
use parking_lot::Mutex;

use crate::containers::new_container;
use crate::helper::{self, Connection};
use crate::pods::{Phase, Sandbox, SandboxState, UNKNOWN_END, container_name, sandbox_name};
use crate::records::{self, ContainerRecord, FailureRecord, SandboxRecord};
use crate::sandbox::{addresses_of, end_helper};
use crate::{Inner, OpenError};

impl Inner {
    pub fn recover(self: &Arc<Inner>) -> Result<(), OpenError> {
        let mut half_done = Vec::new();
        for directory in entries(&records::sandboxes(&self.settings.directory))? {
            match records::read::<SandboxRecord>(&directory, records::RECORD) {
                Some(record) if records::is_marked(&directory, records::READY) => {
                    self.recover_sandbox(record, directory);
                }
                record => half_done.push((record.unwrap_or_default(), directory)),
            }
        }
        for directory in entries(&records::containers(&self.settings.directory))? {
            if !self.recover_container(&directory) {
                remove(&directory);
            }
        }
        let sandboxes: Vec<Arc<Sandbox>> = self.pods.lock().sandboxes.values().cloned().collect();
        let living = sandboxes.iter().filter(|sandbox| !sandbox.state.lock().stopped);
        for sandbox in living {
            let (ports, addresses) = (sandbox.record.config().port_mappings, addresses_of(&sandbox.record));
            self.network.keep_ports(&sandbox.record.id, &ports, &addresses);
            self.network.keep(&addresses);
        }
        self.network.set_ranges(&self.settings.pod_ranges)?;
        for (record, directory) in half_done {
            // Nobody else's, unless a process before this one thought that they were free.
            let mut addresses = addresses_of(&record);
            addresses.retain(|address| !self.network.is_in_use(*address));
            self.network.keep(&addresses);
            if let Err(error) = self.take_down(&record.id, &directory, &addresses) {
                tracing::warn!(directory = %directory.display(), %error, "half a sandbox stays");
            }
        }
        for sandbox in &sandboxes {
            self.meet(sandbox);
        }
        Ok(())
    }

    fn recover_sandbox(&self, record: SandboxRecord, directory: PathBuf) {
        let stopped = records::is_marked(&directory, records::STOPPED);
        let state =
            SandboxState { ready: !stopped, stopping: stopped, disconnected: stopped, stopped, pid: 0 };
        let mut pods = self.pods.lock();
        // Its own name: nobody else can have it yet.
        let _ = pods.reserve("sandbox", &sandbox_name(&record.config()), &record.id);
        let id = record.id.clone();
        let sandbox = Sandbox {
            record,
            directory,
            state: Mutex::new(state),
            operation: Mutex::default(),
            task: Mutex::default(),
        };
        pods.sandboxes.insert(id, Arc::new(sandbox));
    }

    /// One without a record or sandbox is none.
    fn recover_container(&self, directory: &Path) -> bool {
        let Some(record) = records::read::<ContainerRecord>(directory, records::RECORD) else { return false };
        let Ok(sandbox) = self.sandbox(&record.sandbox_id) else { return false };
        if directory.extension().is_some() {
            return false;
        }
        let failure = records::read::<FailureRecord>(directory, records::FAILED);
        let phase = failure.map_or(Phase::Created, Phase::from);
        let mut pods = self.pods.lock();
        let name = container_name(&record.config.clone().unwrap_or_default(), &sandbox.record.config());
        let _ = pods.reserve("container", &name, &record.id);
        let container = new_container(record, directory.to_owned(), sandbox, phase);
        pods.containers.insert(container.id.clone(), Arc::new(container));
        true
    }

    /// Asks the helper, or what it left, how the containers are.
    fn meet(self: &Arc<Inner>, sandbox: &Arc<Sandbox>) {
        let stopped = sandbox.state.lock().stopped;
        if !stopped && self.attend(sandbox).is_ok() {
            self.forget_removed(sandbox);
            return;
        }
        let state = helper::saved_state(&sandbox.directory);
        self.learn(&state);
        self.end_containers(sandbox, UNKNOWN_END);
        sandbox.state.lock().ready = false;
        if !stopped {
            tracing::warn!(sandbox = sandbox.record.id, "the helper of a pod died while nobody was there");
        }
    }

    /// Containers whose removal did not get to the helper.
    fn forget_removed(&self, sandbox: &Sandbox) {
        let Ok(connection) = Connection::open(&sandbox.directory) else { return };
        let Ok(state) = connection.watch() else { return };
        for told in state.containers.iter().filter(|told| self.container(&told.id).is_err()) {
            let (container, signal) = (told.id.clone(), 9);
            if told.ended.is_none() {
                let _ = connection.ask(&Request::Signal { container, signal, all: true }, &[]);
            } else {
                let _ = Connection::open(&sandbox.directory)
                    .map(|connection| drop(connection.ask(&Request::Remove { container }, &[])));
            }
        }
    }
}

pub fn entries(directory: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let failed = |error| OpenError::File { path: directory.to_owned(), error };
    let read = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(failed)?,
    };
    read.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
}

fn remove(directory: &Path) {
    let _ = end_helper(directory);
    if let Err(error) = container::tree::remove(directory) {
        tracing::warn!(directory = %directory.display(), %error, "what is left of a container stays");
    }
}
