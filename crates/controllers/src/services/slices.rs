//! The EndpointSlices a controller answers for, and what it wrote of them: so that it neither wakes itself nor plans on a view older
//! than its own writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use object::{Obj, Revision};
use parking_lot::Mutex;
use runtime::{Failure, Informer, InformerEvent, Key, WorkQueue};

pub use client::resources::SERVICE_NAME_LABEL as SERVICE_NAME;
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// How long a reconcile waits for what the controller itself wrote.
const PATIENCE: Duration = Duration::from_secs(1);
const BY_SERVICE: &str = "service";

/// The slices one controller answers for, as its informer shows them, and its notes about them.
pub struct Slices {
    env: Env,
    informer: Arc<Informer>,
    /// The value of the managed-by label.
    manager: &'static str,
    /// Guards the notes; a few per service.
    notes: Mutex<BTreeMap<Key, Notes>>,
}

#[derive(Default)]
struct Notes {
    newest: Revision,
    slices: BTreeMap<String, Revision>,
    /// uids.
    deleted: BTreeSet<String>,
}

impl Slices {
    pub fn new(env: &Env, informer: Arc<Informer>, manager: &'static str) -> Slices {
        informer.store().add_index(BY_SERVICE, |slice| {
            service_of(slice).map(|key| key.to_string()).into_iter().collect()
        });
        Slices { env: env.clone(), informer, manager, notes: Mutex::default() }
    }

    /// Slices somebody else changed or took away make work, after `wait`, and are told at once; the controller's own writes do not.
    pub fn follow(
        self: &Arc<Slices>,
        queue: Arc<WorkQueue<Key>>,
        wait: Duration,
        told: impl Fn(&Key) + Send + Sync + 'static,
    ) {
        let slices = self.clone();
        let handler = move |event: &InformerEvent<'_>| {
            let queue = |slice: &Obj| {
                if let Some(service) = service_of(slice) {
                    told(&service);
                    queue.add_after(service, wait, None);
                }
            };
            match event {
                InformerEvent::Added { obj, .. } => {
                    if slices.are_ours(obj) && !slices.know(obj) {
                        queue(obj);
                    }
                }
                InformerEvent::Updated { sync: true, .. } => {}
                InformerEvent::Updated { old, new, .. } => {
                    if service_of(old) != service_of(new) || slices.are_ours(old) != slices.are_ours(new) {
                        queue(old);
                        queue(new);
                    } else if slices.are_ours(new) && !slices.know(new) {
                        queue(new);
                    }
                }
                InformerEvent::Deleted { obj, .. } => {
                    if slices.are_ours(obj) && !slices.saw_deletion(obj) {
                        queue(obj);
                    }
                }
            }
        };
        self.informer.add_handler(None, Box::new(handler));
    }

    /// Those of a service that stay; without what the controller itself deleted, seen or not.
    pub fn of(&self, service: &Key) -> Vec<Arc<Obj>> {
        let there = self.informer.store().by_index(BY_SERVICE, service.as_str());
        let notes = self.notes.lock();
        let deleted =
            |slice: &Obj| notes.get(service).is_some_and(|notes| notes.deleted.contains(slice.uid()));
        there
            .into_iter()
            .filter(|slice| self.are_ours(slice) && !slice.deleting() && !deleted(slice))
            .collect()
    }

    /// One of them.
    pub fn get(&self, service: &Key, name: &str) -> Option<Arc<Obj>> {
        let slice = self.informer.store().get(service.namespace(), name)?;
        let notes = self.notes.lock();
        let deleted = notes.get(service).is_some_and(|notes| notes.deleted.contains(slice.uid()));
        let stays = self.are_ours(&slice) && !slice.deleting() && !deleted;
        (stays && service_of(&slice).as_ref() == Some(service)).then_some(slice)
    }

    /// Waits a moment for what was written last.
    pub async fn see_own_writes(&self, service: &Key) -> Result<(), Failure> {
        let newest = self.notes.lock().get(service).map_or(Revision(0), |notes| notes.newest);
        if self.informer.revision() >= newest {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = self.informer.reached(newest) => Ok(()),
            () = self.env.sleep(PATIENCE) => Err(Failure::Other("EndpointSlice informer cache is out of date".to_owned())),
        }
    }

    pub fn wrote(&self, service: &Key, slice: &Obj) {
        let mut all = self.notes.lock();
        let notes = all.entry(service.clone()).or_default();
        notes.newest = notes.newest.max(slice.revision());
        notes.slices.insert(slice.uid().to_owned(), slice.revision());
    }

    /// Said before the delete: the informer may hear of it before the answer comes.
    pub fn deletes(&self, service: &Key, slice: &Obj) {
        let mut all = self.notes.lock();
        let notes = all.entry(service.clone()).or_default();
        notes.slices.remove(slice.uid());
        notes.deleted.insert(slice.uid().to_owned());
    }

    /// It went, or its deletion failed. Was it expected to go?
    pub fn saw_deletion(&self, slice: &Obj) -> bool {
        let mut all = self.notes.lock();
        let notes = service_of(slice).and_then(|service| all.get_mut(&service));
        notes.is_some_and(|notes| {
            notes.slices.remove(slice.uid());
            notes.deleted.remove(slice.uid())
        })
    }

    pub fn forget(&self, service: &Key) {
        self.notes.lock().remove(service);
    }

    fn know(&self, slice: &Obj) -> bool {
        let all = self.notes.lock();
        let notes = service_of(slice).and_then(|service| all.get(&service));
        notes.and_then(|notes| notes.slices.get(slice.uid())).is_some_and(|known| *known >= slice.revision())
    }

    fn are_ours(&self, slice: &Obj) -> bool {
        slice.label(MANAGED_BY) == Some(self.manager)
    }
}

fn service_of(slice: &Obj) -> Option<Key> {
    slice.label(SERVICE_NAME).filter(|name| !name.is_empty()).map(|name| Key::new(slice.namespace(), name))
}
