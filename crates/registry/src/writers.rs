//! Who wrote the latest revisions: for people who ask why a control loop did something.

use std::collections::VecDeque;

use auth::UserInfo;
use catalog::Name;
use parking_lot::Mutex;
use store::Revision;

/// How many revisions are remembered; the writers of older ones are unknown.
const REMEMBERED: usize = 16 * 1024;

#[derive(Default)]
pub(crate) struct Writers {
    /// Guards the ring, nearly in order of revisions; held for a push or a short search.
    ring: Mutex<VecDeque<(Revision, Name)>>,
}

impl Writers {
    pub fn note(&self, revision: Revision, user: &UserInfo) {
        let mut ring = self.ring.lock();
        // Most writes come in runs of one writer: its name is shared.
        let name = match ring.back() {
            Some((_, last)) if *last == *user.name => last.clone(),
            _ => Name::from(user.name.clone()),
        };
        if ring.len() == REMEMBERED {
            ring.pop_front();
        }
        ring.push_back((revision, name));
    }

    pub fn of(&self, revision: Revision) -> Option<Name> {
        let ring = self.ring.lock();
        // Writers may record in another order than they committed: nearly sorted is not sorted.
        ring.iter().rev().find(|(noted, _)| *noted == revision).map(|(_, name)| name.clone())
    }
}
