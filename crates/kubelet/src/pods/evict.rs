//! Pods that the node ends by itself, and those it does not take meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;

use node::admit::Rejection;
use node::container_runtime::Evicted;
use node::pod::{Pod, short_uid};
use object::Value;

use super::cache::Release;
use super::{Parts, Pods};
use crate::eviction::{Condition, REASON, refused};
use crate::generate::groups::node_groups;
use crate::generate::oom::is_critical;
use crate::generate::qos_class;

const MEMORY_PRESSURE_TAINT: &str = "node.kubernetes.io/memory-pressure";

impl Pods {
    pub(crate) fn parts(&self) -> &Parts {
        &self.shared.parts
    }

    /// The pods that could be ended.
    pub(crate) fn active(&self) -> Vec<Arc<Value>> {
        let tasks = self.shared.tasks();
        let active = tasks.iter().filter(|task| !task.is_stopping()).filter_map(|task| {
            let cache = task.cache.lock();
            let known = cache.evicted.is_none() && cache.pod.as_map().is_some();
            known.then(|| cache.pod.clone())
        });
        active.filter(|pod| !Pod::read(pod).is_over()).collect()
    }

    /// Has the pod end. `false`: it is not here any more.
    pub(crate) fn evict(&self, uid: &str, evicted: Evicted) -> bool {
        let Some(task) = self.shared.task(short_uid(uid)) else { return false };
        task.cache.lock().evicted.get_or_insert(evicted);
        self.shared.wake(&task);
        true
    }

    /// Nothing of it is left but what it said.
    pub(crate) fn is_cleaned_up(&self, uid: &str) -> bool {
        let task = self.shared.task(short_uid(uid));
        task.is_none_or(|task| task.cache.lock().release == Release::Done)
    }

    /// As if the agent had asked for it, without anything being made.
    #[cfg(test)]
    pub(crate) fn know(&self, tree: &Value) {
        let pod = Pod::read(tree);
        let task = self.shared.ensure(runtime::Key::new(pod.namespace, pod.name), pod.uid);
        task.cache.lock().pod = Arc::new(tree.clone());
    }

    pub(crate) fn set_pressure(&self, conditions: &BTreeSet<Condition>) {
        self.shared.pressure.lock().clone_from(conditions);
    }

    /// What all pods together may have, in bytes; `None`: no limit is set.
    pub(crate) fn allocatable_memory(&self) -> Option<u64> {
        let groups = node_groups(&self.shared.node_view(&self.shared.moment()), []);
        groups.first().and_then(|(_, root)| root.memory).and_then(|memory| u64::try_from(memory).ok())
    }
}

/// Short of memory, a node takes pods that asked for theirs; short of anything else, critical ones only.
pub fn refusal(conditions: &BTreeSet<Condition>, pod: &Pod<'_>) -> Option<Rejection> {
    if conditions.is_empty() || is_critical(pod.tree) {
        return None;
    }
    let only_memory = conditions.iter().all(|condition| *condition == Condition::MemoryPressure);
    if only_memory && (qos_class(pod.tree) != "BestEffort" || tolerates_memory_pressure(pod.tree)) {
        return None;
    }
    Some(Rejection { reason: REASON.to_owned(), message: refused(conditions) })
}

fn tolerates_memory_pressure(pod: &Value) -> bool {
    let tolerations = pod.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap_or_default();
    tolerations.iter().any(|toleration| {
        let text = |name: &str| toleration.str_at(&[name]).unwrap_or("");
        let exists = text("operator") == "Exists";
        let key = text("key");
        matches!(text("effect"), "" | "NoSchedule")
            && (key == MEMORY_PRESSURE_TAINT || key.is_empty() && exists)
            && (exists || matches!(text("operator"), "" | "Equal") && text("value").is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_short_of_memory_takes_pods_that_asked_for_theirs() {
        let refuses = |conditions: &[Condition], spec: &str| {
            let tree = runtime::parse(&format!("{{metadata: {{uid: u}}, spec: {spec}}}")).unwrap();
            refusal(&conditions.iter().copied().collect(), &Pod::read(&tree)).map(|refusal| refusal.message)
        };
        let memory = [Condition::MemoryPressure];
        let both = [Condition::DiskPressure, Condition::MemoryPressure];
        let plain = "{containers: [{name: a}]}";
        let burstable = "{containers: [{name: a, resources: {requests: {memory: 1Mi}}}]}";
        let tolerant = "{containers: [{name: a}], tolerations: [{key: node.kubernetes.io/memory-pressure, operator: Exists, effect: NoSchedule}]}";
        let critical = "{containers: [{name: a}], priority: 2000000000}";
        assert_eq!(refuses(&[], plain), None);
        let message = "The node had condition: [MemoryPressure]. ".to_owned();
        assert_eq!(refuses(&memory, plain), Some(message));
        for taken in [burstable, tolerant, critical] {
            assert_eq!(refuses(&memory, taken), None, "{taken}");
        }
        let message = "The node had condition: [MemoryPressure DiskPressure]. ".to_owned();
        assert_eq!(refuses(&both, burstable), Some(message.clone()));
        assert_eq!(refuses(&both, tolerant), Some(message));
        assert_eq!(refuses(&both, critical), None);
    }
}
