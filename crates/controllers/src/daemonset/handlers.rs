//! From changes of sets, pods, revisions and nodes to keys of work.

use std::sync::Arc;
use std::time::Duration;

use client::Gvr;
use client::resources::{CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS};
use object::Obj;
use runtime::owners::controller_of;
use runtime::queue::{LOW, NORMAL};
use runtime::{Cause, InformerEvent, Key, WorkQueue};

use super::DaemonSets;
use super::view::daemon_set_view;
use crate::claim::{matches, selecting};
use crate::pod_view;

/// The names by which pods and nodes that changed are kept.
const POD: &str = "pod/";
const NODE: &str = "node/";

pub(super) fn pod_part(part: &str) -> Option<&str> {
    part.strip_prefix(POD)
}

pub(super) fn node_part(part: &str) -> Option<&str> {
    part.strip_prefix(NODE)
}

struct Handlers {
    state: Arc<DaemonSets>,
    queue: Arc<WorkQueue<Key>>,
}

pub(super) fn add(state: &Arc<DaemonSets>, queue: Arc<WorkQueue<Key>>) {
    let handlers = Arc::new(Handlers { state: state.clone(), queue });
    let (pods, nodes, revisions) = (handlers.clone(), handlers.clone(), handlers.clone());
    state.sets.add_resyncing_handler(Box::new(move |event| handlers.set(event)));
    state.pods.add_handler(None, Box::new(move |event| pods.pod(event)));
    state.nodes.add_handler(None, Box::new(move |event| nodes.node(event)));
    state.history.informer().add_handler(None, Box::new(move |event| revisions.revision(event)));
}

impl Handlers {
    fn ask(&self, key: Key, resource: &Gvr, obj: &Obj, what: &'static str) {
        if resource == &PODS {
            self.state.changed.note(&key, &[POD, obj.name()].concat());
        }
        self.queue.add(key, NORMAL, Some(Cause::new(resource, obj, what)));
    }

    fn set(&self, event: &InformerEvent<'_>) {
        let obj = event.obj();
        let key = Key::of(obj);
        let (what, priority) = match event {
            InformerEvent::Added { initial, .. } => ("added", if *initial { LOW } else { NORMAL }),
            InformerEvent::Updated { sync: true, .. } => {
                self.state.changed.forget(&key);
                ("resync", LOW)
            }
            InformerEvent::Updated { .. } => ("updated", NORMAL),
            InformerEvent::Deleted { .. } => {
                self.state.forget(&key);
                ("deleted", NORMAL)
            }
        };
        self.queue.add(key, priority, Some(Cause::new(&DAEMON_SETS, obj, what)));
    }

    fn pod(&self, event: &InformerEvent<'_>) {
        match event {
            InformerEvent::Updated { sync: true, .. } => {}
            InformerEvent::Deleted { obj, .. } => self.pod_goes(obj, "deleted"),
            InformerEvent::Added { obj, .. } if obj.deleting() => self.pod_goes(obj, "terminating"),
            InformerEvent::Added { obj, .. } => match self.owner(obj) {
                Some(set) => {
                    self.state.expectations.creation_seen(&Key::of(&set));
                    self.ask(Key::of(&set), &PODS, obj, "added");
                }
                None => self.orphan(obj, &PODS),
            },
            InformerEvent::Updated { new, .. } if new.deleting() => self.pod_goes(new, "terminating"),
            InformerEvent::Updated { old, new, .. } => {
                if old.owners() != new.owners()
                    && let Some(set) = self.owner(old)
                {
                    self.ask(Key::of(&set), &PODS, new, "released");
                }
                match self.owner(new) {
                    Some(set) => self.pod_changed(&set, old, new),
                    None if is_news(old, new) => self.orphan(new, &PODS),
                    None => {}
                }
            }
        }
    }

    fn pod_changed(&self, set: &Obj, old: &Obj, new: &Obj) {
        let key = Key::of(set);
        let wait = daemon_set_view(set).min_ready_seconds;
        if wait > 0 && pod_view(new).ready && !pod_view(old).ready {
            // A second more: clocks are read in milliseconds.
            let wait = Duration::from_secs(wait.unsigned_abs() + 1);
            self.queue.add_after(key.clone(), wait, Some(Cause::new(&PODS, new, "available")));
        }
        self.ask(key, &PODS, new, "updated");
    }

    fn pod_goes(&self, pod: &Obj, what: &'static str) {
        let Some(set) = self.owner(pod) else { return };
        self.state.expectations.deletion_seen(&Key::of(&set), &Key::of(pod));
        self.ask(Key::of(&set), &PODS, pod, what);
    }

    fn revision(&self, event: &InformerEvent<'_>) {
        match event {
            InformerEvent::Updated { sync: true, .. } => {}
            InformerEvent::Added { obj, .. } if controller_of(obj).is_none() => {
                self.orphan(obj, &CONTROLLER_REVISIONS);
            }
            InformerEvent::Added { .. } => {}
            InformerEvent::Updated { old, new, .. } => {
                if old.owners() != new.owners()
                    && let Some(set) = self.owner(old)
                {
                    self.ask(Key::of(&set), &CONTROLLER_REVISIONS, new, "released");
                }
                match self.owner(new) {
                    Some(set) => self.ask(Key::of(&set), &CONTROLLER_REVISIONS, new, "updated"),
                    None if is_news(old, new) => self.orphan(new, &CONTROLLER_REVISIONS),
                    None => {}
                }
            }
            InformerEvent::Deleted { obj, .. } => {
                if let Some(set) = self.owner(obj) {
                    self.ask(Key::of(&set), &CONTROLLER_REVISIONS, obj, "deleted");
                }
            }
        }
    }

    /// A node matters to a set that wants another thing of it than before.
    fn node(&self, event: &InformerEvent<'_>) {
        let (old, new) = match event {
            InformerEvent::Added { obj, .. } => (None, Some(*obj)),
            InformerEvent::Updated { sync: true, .. } => return,
            InformerEvent::Updated { old, new, .. } => (Some(*old), Some(*new)),
            // Differs from kube-controller-manager, which counts a node that is gone until something else changes.
            InformerEvent::Deleted { obj, .. } => (Some(*obj), None),
        };
        for set in self.state.sets.store().list() {
            let placement = &daemon_set_view(&set).placement;
            let fit = |node: Option<&Arc<Obj>>| node.map(|node| placement.fit(node)).unwrap_or_default();
            let (key, matters) = (Key::of(&set), fit(old) != fit(new));
            if matters || old.is_none() || new.is_none() {
                self.state.changed.note(&key, &[NODE, event.obj().name()].concat());
            }
            if matters {
                self.ask(key, &NODES, event.obj(), "node");
            }
        }
    }

    /// Sets that would adopt it.
    fn orphan(&self, obj: &Obj, resource: &Gvr) {
        if controller_of(obj).is_some() {
            return;
        }
        for set in selecting(&self.state.sets, obj) {
            if matches(&daemon_set_view(&set).selector, obj) {
                self.ask(Key::of(&set), resource, obj, "free");
            }
        }
    }

    /// The set that controls it, if it is the one there.
    fn owner(&self, obj: &Obj) -> Option<Arc<Obj>> {
        let owner = controller_of(obj).filter(|owner| owner.kind == "DaemonSet")?;
        let set = self.state.sets.store().get(obj.namespace(), &owner.name)?;
        (set.uid() == owner.uid).then_some(set)
    }
}

/// Whether somebody may want to adopt it who did not before.
fn is_news(old: &Obj, new: &Obj) -> bool {
    old.owners() != new.owners() || !old.labels().eq(new.labels())
}
