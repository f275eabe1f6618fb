//! The informers of a process: one per resource, shared by all who look at it.

use std::sync::Arc;

use catalog::Catalog;
use client::{Client, Gvr};
use env::Env;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::informer::{Informer, Loss, QueueKind};
use crate::reflector::Scope;
use crate::{Stop, owners};

/// The index of dependents by the uid of the controller that owns them.
pub const BY_CONTROLLER: &str = "controller";

pub struct Informers {
    env: Env,
    client: Arc<dyn Client>,
    stop: Stop,
    /// Guards the list; few, and asked for at start only.
    started: Mutex<Started>,
    loss: Option<Arc<Loss>>,
}

#[derive(Default)]
struct Started {
    informers: Vec<Arc<Informer>>,
    tasks: Vec<JoinHandle<()>>,
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
    pub fn catalog(&self) -> &Catalog {
        self.client.catalog()
    }

    /// The informer of all objects of a resource, running.
    pub fn of(&self, resource: Gvr) -> Arc<Informer> {
        self.scoped(Scope::all(resource))
    }

    pub fn scoped(&self, scope: Scope) -> Arc<Informer> {
        let mut started = self.started.lock();
        if let Some(there) = started.informers.iter().find(|i| *i.scope() == scope) {
            return there.clone();
        }
        let (env, client, loss) = (self.env.clone(), self.client.clone(), self.loss.clone());
        let informer = Informer::losing(env, client, scope, QueueKind::default(), loss);
        informer
            .store()
            .add_index(BY_CONTROLLER, |obj| owners::controller_of(obj).into_iter().map(|o| o.uid).collect());
        started.tasks.extend(informer.start(self.stop.clone()));
        started.informers.push(informer.clone());
        informer
    }

    /// Waits until everything asked for so far has its first state.
    pub async fn synced(&self) {
        let informers = self.started.lock().informers.clone();
        for informer in informers {
            informer.synced().await;
        }
    }

    /// The tasks started so far, to be joined after a stop.
    pub fn take_tasks(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.started.lock().tasks)
    }
}
