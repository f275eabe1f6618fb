//! How long a Job waits before it replaces pods that failed: 10 s, twice as long each time, at most ten minutes.

use object::{Value, time};

const FIRST_MS: i64 = 10_000;
const MOST_MS: i64 = 600_000;

/// What is remembered of a Job's failures, in memory only: after a restart it begins anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Failures since the last success.
    pub failures: u32,
    /// Unix seconds.
    pub last_failure: i64,
}

impl Record {
    /// With pods that finished since, given by their times in Unix seconds.
    pub fn after(self, succeeded: &[i64], failed: &[i64]) -> Record {
        let Some(last_success) = succeeded.iter().max() else {
            let Some(last_failure) = failed.iter().max() else { return self };
            let more = u32::try_from(failed.len()).unwrap_or(u32::MAX);
            return Record { failures: self.failures.saturating_add(more), last_failure: *last_failure };
        };
        // A success clears what was before it.
        let later = failed.iter().filter(|at| *at > last_success);
        Record {
            failures: u32::try_from(later.clone().count()).unwrap_or(u32::MAX),
            last_failure: later.max().copied().unwrap_or(0),
        }
    }

    /// How long no pod may be made yet.
    pub fn remaining_ms(self, now_ms: i64) -> i64 {
        if self.failures == 0 {
            return 0;
        }
        let doublings = (self.failures - 1).min(6);
        let wait = (FIRST_MS << doublings).min(MOST_MS);
        (wait - (now_ms - self.last_failure * 1000)).max(0)
    }
}

/// When a pod finished, in Unix seconds: when its last container did; or when it ceased to be ready; or when its deletion
/// began; or, knowing nothing, when it was made.
pub fn finished_at(pod: &Value) -> i64 {
    let moment = |text: Option<&str>| text.and_then(time::parse).map(|(seconds, _)| seconds);
    let not_ready = || {
        let ready = kinds::conditions::find(pod, "Ready")?;
        let since = moment(ready.str_at(&["lastTransitionTime"]));
        since.filter(|_| ready.str_at(&["status"]) == Some("False"))
    };
    let deleted = || {
        let grace = pod.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_int);
        Some(moment(pod.str_at(&["metadata", "deletionTimestamp"]))? - grace.unwrap_or(0))
    };
    containers_finished(pod)
        .or_else(not_ready)
        .or_else(deleted)
        .or_else(|| moment(pod.str_at(&["metadata", "creationTimestamp"])))
        .unwrap_or(0)
}

/// The latest time over containers, if all of them finished, and sidecars, all of which must have.
fn containers_finished(pod: &Value) -> Option<i64> {
    let list = |path: &[&str]| pod.at(path).and_then(Value::as_list).unwrap_or_default();
    let is_sidecar = |status: &&Value| {
        let named = |c: &&Value| c.str_at(&["name"]) == status.str_at(&["name"]);
        let container = list(&["spec", "initContainers"]).iter().find(named);
        container.is_some_and(|c| c.str_at(&["restartPolicy"]) == Some("Always"))
    };
    let finished =
        |status: &Value| status.str_at(&["state", "terminated", "finishedAt"]).and_then(time::parse);
    let all = |statuses: &mut dyn Iterator<Item = &Value>| {
        statuses.map(|status| Some(finished(status)?.0)).collect::<Option<Vec<i64>>>()
    };
    let containers = all(&mut list(&["status", "containerStatuses"]).iter()).unwrap_or_default();
    let sidecars = all(&mut list(&["status", "initContainerStatuses"]).iter().filter(is_sidecar))?;
    containers.into_iter().chain(sidecars).max()
}
