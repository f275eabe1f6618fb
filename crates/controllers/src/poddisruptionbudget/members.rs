//! The pods of a budget, counted as they change: one of ten thousand is looked at alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use object::Obj;
use runtime::owners::{Owner, controller_of};

use crate::pod_view;

/// What matters of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub deleting: bool,
    pub ready: bool,
    /// Shared by all pods of one.
    pub controller: Option<Arc<Owner>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    pods: BTreeMap<String, Seen>,
    /// Ready, and not being deleted.
    healthy: i64,
    unmanaged: usize,
    /// Who controls them, by uid, and how many of them.
    controllers: BTreeMap<String, (Arc<Owner>, usize)>,
}

impl Seen {
    pub fn of(pod: &Obj) -> Seen {
        Seen {
            deleting: pod.deleting(),
            ready: pod_view(pod).ready,
            controller: controller_of(pod).map(Arc::new),
        }
    }

    fn is_healthy(&self) -> bool {
        self.ready && !self.deleting
    }
}

impl Members {
    /// A pod as it is now; `None`: it is gone, or the budget is not about it any more.
    pub fn set(&mut self, name: &str, pod: Option<Seen>) {
        if let Some(old) = self.pods.remove(name) {
            self.healthy -= i64::from(old.is_healthy());
            match old.controller {
                None => self.unmanaged -= 1,
                Some(owner) => {
                    if let Some((_, count)) = self.controllers.get_mut(&owner.uid) {
                        *count -= 1;
                        if *count == 0 {
                            self.controllers.remove(&owner.uid);
                        }
                    }
                }
            }
        }
        let Some(mut pod) = pod else { return };
        self.healthy += i64::from(pod.is_healthy());
        match &mut pod.controller {
            None => self.unmanaged += 1,
            Some(owner) => {
                let known = self.controllers.entry(owner.uid.clone());
                let (shared, count) = known.or_insert_with(|| (owner.clone(), 0));
                *owner = shared.clone();
                *count += 1;
            }
        }
        self.pods.insert(name.to_owned(), pod);
    }

    pub fn get(&self, name: &str) -> Option<&Seen> {
        self.pods.get(name)
    }
    pub fn len(&self) -> usize {
        self.pods.len()
    }
    pub fn healthy(&self) -> i64 {
        self.healthy
    }
    pub fn unmanaged(&self) -> usize {
        self.unmanaged
    }
    pub fn controllers(&self) -> impl Iterator<Item = &Owner> {
        self.controllers.values().map(|(owner, _)| &**owner)
    }
    /// The first pod of a controller: to be named where something is wrong with it.
    pub fn first_of(&self, controller: &Owner) -> Option<&str> {
        let is_of = |pod: &Seen| pod.controller.as_ref().is_some_and(|owner| owner.uid == controller.uid);
        self.pods.iter().find(|(_, pod)| is_of(pod)).map(|(name, _)| name.as_str())
    }
}
