//! The pods of a Job, counted as they change: one of a million costs as much as one of ten.

use std::collections::{BTreeMap, BTreeSet};

use kinds::pod::view::{Phase, PodView};
use object::Obj;
use object::selector::LabelSelector;
use runtime::{Key, Tally};

use super::indexes::IndexCounts;
use super::pods::{INDEX, is_tracked};
use crate::pods::{mentions, pod_view};

/// What a Job knows of its pods without looking at them one by one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    pub active: i64,
    /// Active ones.
    pub ready: i64,
    /// Being deleted, and not over yet.
    pub terminating: i64,
    /// Of containers, in pods that run or are about to.
    pub restarts: i64,
    /// Active ones that have none.
    pub without_index: i64,
    pub active_indexes: IndexCounts,
    pub terminating_indexes: IndexCounts,
    /// Over or going, and still with the finalizer: each of them has to be looked at.
    pub ended: BTreeSet<Key>,
    /// Failed, and without it: failure policies have a say about these, too.
    pub failed: BTreeSet<Key>,
}

impl Counts {
    /// Counts a pod, or takes it out again.
    pub fn count(&mut self, pod: &Obj, view: &PodView, by: i64) {
        let index = |indexes: &mut IndexCounts| match view.completion_index {
            Some(index) if by > 0 => indexes.add(index),
            Some(index) => indexes.remove(index),
            None => {}
        };
        if view.is_active() {
            self.active += by;
            self.ready += if view.ready { by } else { 0 };
            self.without_index += if view.completion_index.is_none() { by } else { 0 };
            index(&mut self.active_indexes);
        } else if !view.is_terminal() {
            self.terminating += by;
            index(&mut self.terminating_indexes);
        }
        if matches!(view.phase, Phase::Running | Phase::Pending) {
            self.restarts += by * (view.restarts + view.init_restarts);
        }
        let keys = match is_tracked(pod) {
            true if !view.is_active() => &mut self.ended,
            false if view.phase == Phase::Failed => &mut self.failed,
            _ => return,
        };
        if by > 0 {
            keys.insert(Key::of(pod));
        } else {
            keys.remove(pod.path());
        }
    }

    fn add(&mut self, other: &Counts, judged: bool) {
        self.active += other.active;
        self.ready += other.ready;
        self.terminating += other.terminating;
        self.restarts += other.restarts;
        self.without_index += other.without_index;
        self.active_indexes.merge(&other.active_indexes);
        self.terminating_indexes.merge(&other.terminating_indexes);
        self.ended.extend(other.ended.iter().cloned());
        if judged {
            self.failed.extend(other.failed.iter().cloned());
        }
    }
}

/// Pods of one controller, by what Jobs tell them apart by: their labels but the one with the index, of which every pod has its
/// own, and their namespace (anyone may write our uid into a pod elsewhere).
#[derive(Default)]
pub struct PodTally {
    /// By namespace and labels as text.
    groups: BTreeMap<String, Group>,
}

#[derive(Default)]
struct Group {
    namespace: String,
    labels: Vec<(String, String)>,
    counts: Counts,
    /// All pods, also those that are over.
    pods: usize,
}

impl PodTally {
    pub fn count(&mut self, pod: &Obj, view: &PodView, by: i64) {
        let labels = || pod.labels().filter(|(name, _)| *name != INDEX);
        let mut key = pod.namespace().to_owned();
        for (name, value) in labels() {
            key.extend(["\n", name, "=", value]);
        }
        let group = self.groups.entry(key.clone()).or_insert_with(|| Group {
            namespace: pod.namespace().to_owned(),
            labels: labels().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            ..Group::default()
        });
        group.pods = group.pods.saturating_add_signed(by as isize);
        group.counts.count(pod, view, by);
        if group.pods == 0 {
            self.groups.remove(&key);
        }
    }

    /// All of them together, `failed` only if a policy judges them; `None`: some have to be released, or only a look at each
    /// can tell.
    pub fn counts(&self, namespace: &str, selector: &LabelSelector, judged: bool) -> Option<Counts> {
        if selector.requirements().iter().any(|requirement| requirement.key == INDEX) {
            return None;
        }
        let mut all = Counts::default();
        for group in self.groups.values().filter(|group| group.namespace == namespace) {
            if !group.matches(selector) {
                return None;
            }
            all.add(&group.counts, judged);
        }
        Some(all)
    }
}

impl Group {
    fn matches(&self, selector: &LabelSelector) -> bool {
        let find = |name: &str| self.labels.iter().find(|(known, _)| known == name);
        selector.matches(&|name| find(name).map(|(_, value)| value.as_str()))
    }
}

fn is_of_a_job(pod: &Obj) -> bool {
    mentions(pod.owners(), "Job")
}

impl Tally for PodTally {
    fn prepare(pod: &Obj) {
        if is_of_a_job(pod) {
            pod_view(pod);
        }
    }
    fn add(&mut self, pod: &Obj) {
        if is_of_a_job(pod) {
            self.count(pod, &pod_view(pod), 1);
        }
    }
    fn remove(&mut self, pod: &Obj) {
        if is_of_a_job(pod) {
            self.count(pod, &pod_view(pod), -1);
        }
    }
}
