//! When the change happened that endpoints are about to show: the `last-change-trigger-time` annotation.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use runtime::Key;

/// What was known of each service at its last reconcile.
#[derive(Default)]
pub struct TriggerTimes {
    /// Guards the states; one service is never worked on twice at once.
    states: Mutex<BTreeMap<Key, State>>,
}

#[derive(Default)]
struct State {
    service: i64,
    pods: BTreeMap<String, i64>,
}

impl TriggerTimes {
    /// The earliest change since the last reconcile, in Unix seconds; for a service never seen, when it was made.
    /// `pods`: names, and when their readiness changed (0: never).
    pub fn next<'a>(
        &self,
        service: &Key,
        created: i64,
        pods: impl Iterator<Item = (&'a str, i64)>,
    ) -> Option<i64> {
        let mut states = self.states.lock();
        let known = states.get(service);
        let was_known = known.is_some();
        let mut first: Option<i64> = None;
        let mut note = |at: i64, before: i64| {
            if at > before {
                first = Some(first.map_or(at, |first| first.min(at)));
            }
        };
        let mut now = State { service: created, pods: BTreeMap::new() };
        for (name, at) in pods.filter(|(_, at)| *at != 0) {
            note(at, known.and_then(|state| state.pods.get(name)).copied().unwrap_or(i64::MIN));
            now.pods.insert(name.to_owned(), at);
        }
        note(created, known.map_or(i64::MIN, |state| state.service));
        states.insert(service.clone(), now);
        if was_known { first } else { Some(created) }
    }

    /// The same where only some pods changed since; `None`: the pod is none of the service's any more.
    pub fn next_of<'a>(
        &self,
        service: &Key,
        pods: impl Iterator<Item = (&'a str, Option<i64>)>,
    ) -> Option<i64> {
        let mut states = self.states.lock();
        let known = &mut states.entry(service.clone()).or_default().pods;
        let mut first: Option<i64> = None;
        for (name, at) in pods {
            let before = match at.filter(|at| *at != 0) {
                None => {
                    known.remove(name);
                    continue;
                }
                Some(at) => known.insert(name.to_owned(), at).unwrap_or(i64::MIN),
            };
            if let Some(at) = at.filter(|at| *at > before) {
                first = Some(first.map_or(at, |first| first.min(at)));
            }
        }
        first
    }

    pub fn forget(&self, service: &Key) {
        self.states.lock().remove(service);
    }
}
