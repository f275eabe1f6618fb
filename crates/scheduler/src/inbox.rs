//! What informers told and the scheduler has not taken in yet: the newest state of each object that changed.
//!
//! Handlers run on the informers' tasks and only write here. Changes of one object become one, so that no more waits here
//! than there are objects, however busy the scheduler is.

use std::collections::HashMap;
use std::sync::Arc;

use object::Obj;
use parking_lot::Mutex;
use runtime::{Informer, InformerEvent, Key};
use tokio::sync::Notify;

#[derive(Default)]
pub struct Inbox {
    /// Guards the changes; held for a few instructions.
    waiting: Mutex<Waiting>,
    wake: Notify,
}

#[derive(Default)]
struct Waiting {
    changes: Vec<Change>,
    by_key: HashMap<(Watched, Key), usize>,
}

/// Everything the scheduler looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Watched {
    Namespaces,
    Services,
    ReplicationControllers,
    ReplicaSets,
    StatefulSets,
    PodDisruptionBudgets,
    StorageClasses,
    CsiDrivers,
    CsiStorageCapacities,
    PersistentVolumes,
    PersistentVolumeClaims,
    CsiNodes,
    VolumeAttachments,
    DeviceClasses,
    ResourceSlices,
    ResourceClaims,
    Nodes,
    Pods,
}

impl Watched {
    /// What pods with volumes and claims are about.
    pub fn is_storage(self) -> bool {
        use Watched::*;
        matches!(
            self,
            StorageClasses
                | CsiDrivers
                | CsiStorageCapacities
                | PersistentVolumes
                | PersistentVolumeClaims
                | CsiNodes
                | VolumeAttachments
                | DeviceClasses
                | ResourceSlices
                | ResourceClaims
        )
    }
}

/// An object that came, changed or went.
pub struct Change {
    pub resource: Watched,
    /// Its last state; `None` when it is gone.
    pub new: Option<Arc<Obj>>,
    /// Objects of the same name that went before, one after another.
    pub gone: Vec<Arc<Obj>>,
}

impl Inbox {
    /// Hears of everything an informer knows and learns.
    pub fn listen(self: &Arc<Inbox>, resource: Watched, informer: &Informer) {
        let inbox = self.clone();
        informer.add_handler(
            None,
            Box::new(move |event| {
                match event {
                    InformerEvent::Deleted { obj, .. } => inbox.put(resource, Some(obj), None),
                    _ => inbox.put(resource, None, Some(event.obj())),
                }
                inbox.wake.notify_one();
            }),
        );
    }

    /// All changes since the last time, in the order the objects first changed.
    pub fn take(&self) -> Vec<Change> {
        let mut waiting = self.waiting.lock();
        waiting.by_key.clear();
        std::mem::take(&mut waiting.changes)
    }

    /// Waits for a change.
    pub async fn changed(&self) {
        self.wake.notified().await
    }

    fn put(&self, resource: Watched, gone: Option<&Arc<Obj>>, new: Option<&Arc<Obj>>) {
        let key = Key::of(gone.or(new).expect("a notice is about an object"));
        let mut waiting = self.waiting.lock();
        let Waiting { changes, by_key } = &mut *waiting;
        let at = *by_key.entry((resource, key)).or_insert_with(|| {
            changes.push(Change { resource, new: None, gone: Vec::new() });
            changes.len() - 1
        });
        changes[at].gone.extend(gone.cloned());
        changes[at].new = new.cloned();
    }
}
