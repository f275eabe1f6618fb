//! The pods of a set, counted as they change: a set of ten thousand does not look at all of them for each.

use std::collections::BTreeMap;
use std::time::Duration;

use kinds::pod::view::PodView;
use object::Obj;
use object::selector::LabelSelector;
use runtime::Tally;

use crate::pod_view;
use crate::pods::mentions;

/// Pods of one controller, by what sets tell them apart by: their labels, and their namespace (anyone may write our uid into a
/// pod elsewhere).
#[derive(Default)]
pub(crate) struct PodTally {
    /// By namespace and labels as text.
    groups: BTreeMap<String, Group>,
}

#[derive(Default)]
pub(crate) struct Group {
    namespace: String,
    labels: Vec<(String, String)>,
    pub active: i64,
    /// Being deleted, and not over yet.
    pub terminating: i64,
    /// Active ones.
    pub ready: i64,
    /// How many of these since when, in Unix seconds; 0: unknown.
    ready_since: BTreeMap<i64, i64>,
    /// All pods, also those that are over.
    pods: usize,
}

impl PodTally {
    /// Counts a pod, or takes it out again.
    pub fn count(&mut self, pod: &Obj, view: &PodView, by: i64) {
        let mut key = pod.namespace().to_owned();
        for (name, value) in pod.labels() {
            key.extend(["\n", name, "=", value]);
        }
        let group = self.groups.entry(key.clone()).or_insert_with(|| Group {
            namespace: pod.namespace().to_owned(),
            labels: pod.labels().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            ..Group::default()
        });
        group.pods = group.pods.saturating_add_signed(by as isize);
        if view.is_active() {
            group.active += by;
            if view.ready {
                group.ready += by;
                let since = group.ready_since.entry(view.ready_since).or_default();
                *since += by;
                if *since == 0 {
                    group.ready_since.remove(&view.ready_since);
                }
            }
        } else if view.deletion != 0 && !view.is_terminal() {
            group.terminating += by;
        }
        if group.pods == 0 {
            self.groups.remove(&key);
        }
    }

    pub fn groups<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Group> {
        self.groups.values().filter(move |group| group.namespace == namespace)
    }
}

impl Group {
    pub fn matches(&self, selector: &LabelSelector) -> bool {
        let find = |name: &str| self.labels.iter().find(|(known, _)| known == name);
        selector.matches(&|name| find(name).map(|(_, value)| value.as_str()))
    }

    /// Ready for at least that long at `now`.
    pub fn available(&self, min_ready_seconds: i64, now: i64) -> i64 {
        if min_ready_seconds == 0 {
            return self.ready;
        }
        let latest = now - min_ready_seconds;
        let later: i64 = self.ready_since.range(latest + 1..).map(|(_, count)| count).sum();
        let unknown = self.ready_since.get(&0).filter(|_| latest >= 0);
        self.ready - later - unknown.copied().unwrap_or(0)
    }

    /// Until the next of them is available, of those whose time is known and yet to come.
    pub fn next_available(&self, min_ready_seconds: i64, now_nanos: i128) -> Option<Duration> {
        let now = (now_nanos / 1_000_000_000) as i64;
        let due = |since: &i64| {
            let at = i128::from(since + min_ready_seconds) * 1_000_000_000;
            u64::try_from(at - now_nanos).ok().filter(|wait| *since != 0 && *wait > 0)
        };
        let waiting = self.ready_since.range(now - min_ready_seconds..);
        waiting.map(|(since, _)| since).find_map(due).map(Duration::from_nanos)
    }
}

/// Jobs and others count their pods themselves.
fn is_of_a_set(pod: &Obj) -> bool {
    mentions(pod.owners(), "ReplicaSet") || mentions(pod.owners(), "ReplicationController")
}

impl Tally for PodTally {
    fn prepare(pod: &Obj) {
        if is_of_a_set(pod) {
            pod_view(pod);
        }
    }
    fn add(&mut self, pod: &Obj) {
        if is_of_a_set(pod) {
            self.count(pod, &pod_view(pod), 1);
        }
    }
    fn remove(&mut self, pod: &Obj) {
        if is_of_a_set(pod) {
            self.count(pod, &pod_view(pod), -1);
        }
    }
}
