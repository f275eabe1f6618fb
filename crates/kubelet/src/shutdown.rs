//! Graceful node shutdown: pods end in groups by priority, the least important first, each group with its own time.
//!
//! ```text
//! config ── Periods ── groups(pods) ── [0 s .. 20 s: ordinary] ── [20 s .. 30 s: critical] ── the machine goes down
//! ```
//! Pure: who ends pods, and waits, is the node ([`run`] drives it through a trait).

use std::time::Duration;

use env::Env;
use futures_util::future::BoxFuture;

use crate::config::Config;

/// Pods of this priority and above are critical.
pub const SYSTEM_CRITICAL: i32 = 2_000_000_000;
pub const REASON: &str = "Terminated";
pub const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";
pub const NOT_ADMITTED_REASON: &str = "NodeShutdown";
pub const NOT_ADMITTED_MESSAGE: &str = "Pod was rejected as the node is shutting down.";
/// Of the Ready condition meanwhile.
pub const NODE_MESSAGE: &str = "node is shutting down";

/// How long pods have from this priority on, lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Periods(Vec<(i32, i64)>);

/// A pod that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningPod<K> {
    pub key: K,
    pub priority: i32,
    /// Its own `terminationGracePeriodSeconds`.
    pub grace_seconds: i64,
}

/// Pods that end together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<K> {
    pub priority: i32,
    /// The next group begins after this, or as soon as all are gone.
    pub period: Duration,
    /// With the seconds each is given.
    pub pods: Vec<(K, i64)>,
}

impl Periods {
    /// Empty: nothing is ended, the machine just goes down.
    pub fn of(config: &Config) -> Periods {
        let mut periods = config.shutdown_grace_period_by_pod_priority.clone();
        let (all, critical) = (config.shutdown_grace_period, config.shutdown_grace_period_critical_pods);
        if periods.is_empty() && !all.is_zero() && critical <= all {
            let seconds = |period: Duration| i64::try_from(period.as_secs()).unwrap_or(i64::MAX);
            periods = vec![(0, seconds(all - critical)), (SYSTEM_CRITICAL, seconds(critical))];
        }
        periods.sort_by_key(|(priority, _)| *priority);
        Periods(periods)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How long it takes at most.
    pub fn total(&self) -> Duration {
        let seconds = self.0.iter().map(|(_, seconds)| u64::try_from(*seconds).unwrap_or(0));
        Duration::from_secs(seconds.fold(0, u64::saturating_add))
    }

    /// Groups that have pods, in the order they end. A pod belongs to the highest priority that is not above its own; one below all of
    /// them to the lowest.
    pub fn groups<K>(&self, pods: Vec<RunningPod<K>>) -> Vec<Group<K>> {
        let mut groups: Vec<Group<K>> = self
            .0
            .iter()
            .map(|(priority, seconds)| Group {
                priority: *priority,
                period: Duration::from_secs(u64::try_from(*seconds).unwrap_or(0)),
                pods: Vec::new(),
            })
            .collect();
        for pod in pods {
            let at = groups.iter().rposition(|group| group.priority <= pod.priority).unwrap_or(0);
            let Some(group) = groups.get_mut(at) else { continue };
            let most = i64::try_from(group.period.as_secs()).unwrap_or(i64::MAX);
            group.pods.push((pod.key, pod.grace_seconds.clamp(0, most)));
        }
        groups.retain(|group| !group.pods.is_empty());
        groups
    }
}

/// Who ends pods.
pub trait EndPods<K>: Send + Sync {
    /// Ends a pod within so many seconds, and comes back when it is gone: Failed with [`REASON`] and [`MESSAGE`], and the condition
    /// DisruptionTarget.
    fn end<'a>(&'a self, pod: K, grace_seconds: i64) -> BoxFuture<'a, ()>;
}

/// Ends all groups, one after the other. New pods must not be admitted any more, and the node says it is not ready ([`NODE_MESSAGE`]).
pub async fn run<K>(env: &Env, periods: &Periods, pods: Vec<RunningPod<K>>, ends: &dyn EndPods<K>) {
    for group in periods.groups(pods) {
        tracing::info!(priority = group.priority, pods = group.pods.len(), "shutting down: ending pods");
        let all = group.pods.into_iter().map(|(pod, grace)| ends.end(pod, grace));
        if env.timeout(group.period, futures_util::future::join_all(all)).await.is_err() {
            tracing::warn!(priority = group.priority, "shutting down: some pods did not end in time");
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    fn config(change: impl FnOnce(&mut Config)) -> Periods {
        let mut config = Config::new("n", "/".into());
        change(&mut config);
        Periods::of(&config)
    }

    fn pod(key: &'static str, priority: i32, grace_seconds: i64) -> RunningPod<&'static str> {
        RunningPod { key, priority, grace_seconds }
    }

    fn usual() -> Periods {
        config(|config| {
            config.shutdown_grace_period = Duration::from_secs(30);
            config.shutdown_grace_period_critical_pods = Duration::from_secs(10);
        })
    }

    #[test]
    fn critical_pods_end_last_and_have_their_own_time() {
        let groups = usual().groups(vec![
            pod("critical", SYSTEM_CRITICAL + 1000, 60),
            pod("web", 0, 5),
            pod("slow", 100, 90),
            pod("least", -5, 30),
        ]);
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].pods, [("web", 5), ("slow", 20), ("least", 20)], "no more than the group has");
        assert_eq!((groups[1].priority, groups[1].pods.clone()), (SYSTEM_CRITICAL, vec![("critical", 10)]));
        assert_eq!(usual().total(), Duration::from_secs(30));
    }

    #[test]
    fn priorities_between_two_bounds_belong_to_the_lower() {
        let periods = config(|config| {
            config.shutdown_grace_period_by_pod_priority = vec![(1000, 120), (0, 10), (10_000, 180)];
        });
        let groups = periods.groups(vec![
            pod("a", 999, 60),
            pod("b", 1000, 60),
            pod("c", 99_999, 60),
            pod("d", -1, 60),
        ]);
        let named: Vec<(i32, Vec<&str>)> =
            groups.iter().map(|g| (g.priority, g.pods.iter().map(|(key, _)| *key).collect())).collect();
        assert_eq!(named, [(0, vec!["a", "d"]), (1000, vec!["b"]), (10_000, vec!["c"])]);
    }

    #[test]
    fn without_periods_nothing_is_ended() {
        let none = config(|_| {});
        assert!(none.is_empty() && none.groups(vec![pod("a", 0, 1)]).is_empty());
        let odd = config(|config| config.shutdown_grace_period_critical_pods = Duration::from_secs(5));
        assert!(odd.is_empty());
    }

    struct Node {
        env: Env,
        ended: Mutex<Vec<(&'static str, u64)>>,
        began: u64,
    }

    impl EndPods<&'static str> for Node {
        fn end<'a>(&'a self, pod: &'static str, grace_seconds: i64) -> BoxFuture<'a, ()> {
            Box::pin(async move {
                // One ignores its signal.
                let needs = if pod == "stubborn" { 9999 } else { grace_seconds.unsigned_abs() };
                self.env.sleep(Duration::from_secs(needs)).await;
                self.ended.lock().push((pod, self.env.now_seconds() - self.began));
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_waits_for_the_one_before_no_longer_than_its_time() {
        let env = Env::simulated(1);
        let node = Node { env: env.clone(), ended: Mutex::default(), began: env.now_seconds() };
        let pods = vec![pod("web", 0, 5), pod("stubborn", 0, 5), pod("critical", SYSTEM_CRITICAL, 3)];
        run(&env, &usual(), pods, &node).await;
        assert_eq!(*node.ended.lock(), [("web", 5), ("critical", 23)]);
        let node = Node { env: env.clone(), ended: Mutex::default(), began: env.now_seconds() };
        run(&env, &usual(), vec![pod("web", 0, 5), pod("critical", SYSTEM_CRITICAL, 3)], &node).await;
        assert_eq!(*node.ended.lock(), [("web", 5), ("critical", 8)], "sooner when all are gone");
    }
}
