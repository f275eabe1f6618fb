//! Who sleeps, and which change wakes them: a change wakes only the cursors it concerns.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::task::AtomicWaker;

use crate::Obj;

/// What a sleeping cursor waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Interest {
    All,
    Namespace(Box<str>),
    /// `namespace/name`, or `name`.
    Path(Box<str>),
    /// Objects of one name in every namespace.
    Name(Box<str>),
    /// A value of the storage's indexed field.
    Indexed(Box<str>),
}

/// One cursor's bell.
#[derive(Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    waker: AtomicWaker,
}

impl Bell {
    pub fn ring(&self) {
        // Only the first ring since the cursor last looked has to wake it.
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }
    /// Arms the bell; true when it rang since the last call, so the caller must look again.
    pub fn listen(&self, cx: &std::task::Context<'_>) -> bool {
        self.waker.register(cx.waker());
        self.rung.swap(false, Ordering::AcqRel)
    }
}

/// The sleepers of one shard.
#[derive(Default)]
pub(crate) struct Sleepers {
    by_interest: HashMap<Interest, Vec<Arc<Bell>>>,
    all: usize,
    namespaces: usize,
    paths: usize,
    names: usize,
    indexed: usize,
}

impl Sleepers {
    pub fn add(&mut self, interest: Interest, bell: Arc<Bell>) {
        *self.count(&interest) += 1;
        self.by_interest.entry(interest).or_default().push(bell);
    }

    pub fn remove(&mut self, interest: &Interest, bell: &Arc<Bell>) {
        if let Some(bells) = self.by_interest.get_mut(interest)
            && let Some(at) = bells.iter().position(|b| Arc::ptr_eq(b, bell))
        {
            bells.swap_remove(at);
            if bells.is_empty() {
                self.by_interest.remove(interest);
            }
            *self.count(interest) -= 1;
        }
    }

    /// Rings for one changed object (its old and its new state).
    pub fn ring(&self, obj: &Obj, indexed: Option<usize>) {
        if self.namespaces > 0 {
            self.ring_one(&Interest::Namespace(obj.namespace().into()));
        }
        if self.paths > 0 {
            self.ring_one(&Interest::Path(obj.path().into()));
        }
        if self.names > 0 {
            self.ring_one(&Interest::Name(obj.name().into()));
        }
        if let Some(field) = indexed
            && self.indexed > 0
        {
            self.ring_one(&Interest::Indexed(obj.field(field).into()));
        }
    }

    /// Rings for those who want every change of the shard.
    pub fn ring_all_interested(&self) {
        self.ring_one(&Interest::All);
    }

    /// Rings for everyone: the table was reset, or time passed.
    pub fn ring_everyone(&self) {
        #[allow(clippy::iter_over_hash_type)] // waking order reaches no output: each cursor only looks again
        for bells in self.by_interest.values() {
            bells.iter().for_each(|b| b.ring());
        }
    }

    fn ring_one(&self, interest: &Interest) {
        self.by_interest.get(interest).into_iter().flatten().for_each(|b| b.ring());
    }

    fn count(&mut self, interest: &Interest) -> &mut usize {
        match interest {
            Interest::Namespace(_) => &mut self.namespaces,
            Interest::Path(_) => &mut self.paths,
            Interest::Name(_) => &mut self.names,
            Interest::Indexed(_) => &mut self.indexed,
            Interest::All => &mut self.all,
        }
    }
}
