//! What the node says of its pods, before the API shows it; and whether the agent still looks after them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use node::agent::Observer;
use node::pod::{Pod, short_uid};
use object::Value;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::node_metrics::NodeMetrics;
use crate::runtime_state::RuntimeState;

/// An agent without a turn for so long is stuck.
const STUCK: Duration = Duration::from_secs(300);

pub struct Statuses {
    env: Env,
    metrics: Arc<NodeMetrics>,
    runtime_state: Arc<RuntimeState>,
    /// Guards what is known; held for a look.
    inner: Mutex<Inner>,
}

struct Inner {
    /// What was decided last, by uid, as long as the API does not show it.
    newest: BTreeMap<u128, Arc<Value>>,
    /// Since when pods are known that were not seen running; `None`: it was, which is counted once.
    first_seen: BTreeMap<u128, Option<Instant>>,
    turn: Instant,
}

impl Statuses {
    pub fn new(env: &Env, metrics: Arc<NodeMetrics>, runtime_state: Arc<RuntimeState>) -> Statuses {
        let inner = Inner { newest: BTreeMap::new(), first_seen: BTreeMap::new(), turn: env.monotonic() };
        Statuses { env: env.clone(), metrics, runtime_state, inner: Mutex::new(inner) }
    }

    /// The pod with the newest status there is.
    pub fn newest(&self, pod: Arc<Value>) -> Arc<Value> {
        let uid = short_uid(pod.str_at(&["metadata", "uid"]).unwrap_or(""));
        let Some(status) = self.inner.lock().newest.get(&uid).cloned() else { return pod };
        let mut pod = (*pod).clone();
        pod.make_map().set("status", (*status).clone());
        Arc::new(pod)
    }

    /// Why nobody looks after the pods.
    pub fn stuck(&self) -> Result<(), String> {
        let since = self.env.monotonic().saturating_duration_since(self.inner.lock().turn);
        if since > STUCK { Err("sync Loop took longer than expected".to_owned()) } else { Ok(()) }
    }
}

impl Observer for Statuses {
    fn turn(&self) {
        // As kubelet, which does nothing while its runtime is down.
        if !self.runtime_state.is_down() {
            self.inner.lock().turn = self.env.monotonic();
        }
    }

    fn decided(&self, pod: &Pod<'_>, status: &Value) {
        let (uid, now) = (short_uid(pod.uid), self.env.monotonic());
        let mut inner = self.inner.lock();
        inner.newest.insert(uid, Arc::new(status.clone()));
        let is_pending = |phase: &str| phase.is_empty() || phase == "Pending";
        let first_seen = inner.first_seen.entry(uid).or_insert(Some(now));
        let since = match status.str_at(&["phase"]).unwrap_or_default() {
            phase if is_pending(phase) => return,
            "Running" if is_pending(pod.phase) => first_seen.take(),
            _ => {
                *first_seen = None;
                return;
            }
        };
        // Decided again, as the API did not take it the first time, it is no other start.
        if let Some(since) = since {
            self.metrics.pod_started(now.saturating_duration_since(since));
        }
    }

    fn shown(&self, uid: u128) {
        self.inner.lock().newest.remove(&uid);
    }

    fn forgotten(&self, uid: u128) {
        let mut inner = self.inner.lock();
        inner.newest.remove(&uid);
        inner.first_seen.remove(&uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(status: &str) -> Value {
        let text = format!(
            "{{metadata: {{name: p, namespace: d, uid: 6ba7b810-9dad-11d1-80b4-00c04fd430c8}}, spec: {{}}, status: {status}}}"
        );
        runtime::parse(&text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_counts_from_when_it_was_decided_until_the_api_shows_it() {
        let env = Env::simulated(1);
        let metrics = Arc::new(NodeMetrics::default());
        let statuses = Statuses::new(&env, metrics.clone(), crate::runtime_state::tests::ready(&env));
        let of_api = Arc::new(pod("{phase: Pending}"));
        let seen = Pod::read(&of_api);
        let phase = || statuses.newest(of_api.clone()).str_at(&["status", "phase"]).unwrap().to_owned();
        statuses.decided(&seen, &runtime::parse("{phase: Pending, startTime: now}").unwrap());
        env.sleep(Duration::from_millis(700)).await;
        statuses.decided(&seen, &runtime::parse("{phase: Running}").unwrap());
        assert_eq!(phase(), "Running", "the watch may be slow, or down");
        statuses.shown(short_uid(seen.uid));
        assert_eq!(phase(), "Pending", "whatever the API shows");
        let mut out = String::new();
        metrics.write(&mut out);
        assert!(out.contains("kubelet_pod_start_duration_seconds_bucket{le=\"0.5\"} 0\n"), "{out}");
        assert!(out.contains("kubelet_pod_start_duration_seconds_bucket{le=\"1\"} 1\n"), "{out}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_starts_once_however_often_its_status_has_to_be_written() {
        let env = Env::simulated(3);
        let metrics = Arc::new(NodeMetrics::default());
        let statuses = Statuses::new(&env, metrics.clone(), crate::runtime_state::tests::ready(&env));
        let (of_api, running) = (pod("{phase: Pending}"), runtime::parse("{phase: Running}").unwrap());
        let seen = Pod::read(&of_api);
        let count = || {
            let mut out = String::new();
            metrics.write(&mut out);
            let name = "kubelet_pod_start_duration_seconds_count ";
            out.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok())
        };
        for _ in 0..3 {
            statuses.decided(&seen, &running);
            assert_eq!(count(), Some(1));
        }
        statuses.forgotten(short_uid(seen.uid));
        statuses.decided(&seen, &running);
        assert_eq!(count(), Some(2), "another pod");
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_without_a_turn_for_five_minutes_is_stuck() {
        let env = Env::simulated(2);
        let statuses = Statuses::new(&env, Arc::default(), crate::runtime_state::tests::ready(&env));
        env.sleep(Duration::from_secs(20)).await;
        statuses.turn();
        env.sleep(Duration::from_secs(299)).await;
        assert_eq!(statuses.stuck(), Ok(()));
        // The runtime has said nothing for so long that this is none.
        statuses.turn();
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(statuses.stuck(), Err("sync Loop took longer than expected".to_owned()));
    }
}
