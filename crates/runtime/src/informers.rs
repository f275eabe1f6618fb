//! The informers of a process: one per resource, shared by all who look at it.

use std::sync::Arc;

use catalog::Catalog;
use client::{Aggregated, Client, Gvr};
use env::Env;
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinHandle};

use crate::informer::{Informer, Loss, QueueKind};
use crate::reflector::Scope;
use crate::{Stop, owners};

/// The index of dependents by the uid of the controller that owns them.
pub const BY_CONTROLLER: &str = "controller";

pub struct Informers {
    env: Env,
    client: Arc<dyn Client>,
    stop: Stop,
    /// Guards the list; few, and asked for seldom.
    started: Mutex<Started>,
    loss: Option<Arc<Loss>>,
}

#[derive(Default)]
struct Started {
    informers: Vec<Running>,
    tasks: Vec<JoinHandle<()>>,
}

struct Running {
    informer: Arc<Informer>,
    tasks: Vec<AbortHandle>,
}

impl Informers {
    /// `client` is who lists and watches; it must be allowed to.
    pub fn new(env: Env, client: Arc<dyn Client>, stop: Stop) -> Arc<Informers> {
        Arc::new(Informers { env, client, stop, started: Mutex::default(), loss: None })
    }

    /// For tests: informers whose handlers do not hear of everything.
    pub fn losing(env: Env, client: Arc<dyn Client>, stop: Stop, loss: Loss) -> Arc<Informers> {
        Arc::new(Informers { env, client, stop, started: Mutex::default(), loss: Some(Arc::new(loss)) })
    }

    /// What is served, as those who read it know it.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.client.catalog()
    }

    /// What other servers serve, as far as they told.
    pub fn aggregated(&self) -> Aggregated {
        self.client.aggregated()
    }

    /// The informer of all objects of a resource, running.
    pub fn of(&self, resource: &Gvr) -> Arc<Informer> {
        self.scoped(Scope::all(resource))
    }

    /// The same with nothing but their metadata.
    pub fn metadata_of(&self, resource: &Gvr) -> Arc<Informer> {
        self.scoped(Scope::metadata(resource))
    }

    pub fn scoped(&self, scope: Scope) -> Arc<Informer> {
        let mut started = self.started.lock();
        if let Some(there) = started.informers.iter().find(|running| *running.informer.scope() == scope) {
            return there.informer.clone();
        }
        let (env, client, loss) = (self.env.clone(), self.client.clone(), self.loss.clone());
        let informer = Informer::losing(env, client, scope, QueueKind::default(), loss);
        informer
            .store()
            .add_index(BY_CONTROLLER, |obj| owners::controller_of(obj).into_iter().map(|o| o.uid).collect());
        let tasks = informer.start(self.stop.clone());
        let running = Running {
            informer: informer.clone(),
            tasks: tasks.iter().map(JoinHandle::abort_handle).collect(),
        };
        started.informers.push(running);
        started.tasks.extend(tasks);
        informer
    }

    /// A resource is not served any more: its informers end, and whoever asks for one again gets another.
    pub fn stop(&self, resource: &Gvr) {
        let mut started = self.started.lock();
        let Started { informers, tasks } = &mut *started;
        for stopped in informers.extract_if(.., |running| running.informer.scope().resource == *resource) {
            stopped.tasks.iter().for_each(AbortHandle::abort);
            tasks.retain(|task| stopped.tasks.iter().all(|aborted| aborted.id() != task.id()));
        }
    }

    /// How many objects readers were given so far, of all resources: see [`crate::Indexer::given`].
    pub fn given(&self) -> u64 {
        self.started.lock().informers.iter().map(|running| running.informer.store().given()).sum()
    }

    /// Waits until everything asked for so far has its first state.
    pub async fn synced(&self) {
        let informers: Vec<Arc<Informer>> =
            self.started.lock().informers.iter().map(|running| running.informer.clone()).collect();
        for informer in informers {
            informer.synced().await;
        }
    }

    /// The tasks started so far, to be joined after a stop.
    pub fn take_tasks(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.started.lock().tasks)
    }
}
