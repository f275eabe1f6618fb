//! Which containers the kernel ends first when the machine has no memory left.

use object::Value;
use object::quantity::Quantity;

use crate::generate::read::{int, list, qos_class, text};
use crate::generate::resources::{amount, amount_of_pod, bytes, container_amounts, has_pod_level};

const GUARANTEED: i64 = -997;
const BEST_EFFORT: i64 = 1000;
const SYSTEM_CRITICAL_PRIORITY: i64 = 2_000_000_000;

/// From -1000, never, to 1000, first. In between, those that use more than they asked for go first.
pub fn oom_score_adj(pod: &Value, container: &Value, memory_capacity: i64) -> i64 {
    if is_node_critical(pod) {
        return GUARANTEED;
    }
    match qos_class(pod) {
        "Guaranteed" => return GUARANTEED,
        "BestEffort" => return BEST_EFFORT,
        _ => {}
    }
    let memory = |container: &Value| amount(container, "requests", "memory").as_i64();
    let unclaimed = unclaimed_share(pod);
    let score = |request: i64| {
        let part = 1000 * (i128::from(request) + i128::from(unclaimed)) / i128::from(memory_capacity.max(1));
        i64::try_from(1000 - part).unwrap_or(i64::MIN)
    };
    let mut adjust = score(memory(container));
    if is_sidecar(pod, container) {
        // A sidecar lives at least as long as those it serves.
        let least = list(pod, &["spec", "containers"]).iter().map(memory).min().unwrap_or(0);
        adjust = adjust.min(score(least));
    }
    // Always after the guaranteed and before the best-effort ones.
    adjust.clamp(1000 + GUARANTEED, BEST_EFFORT - 1)
}

/// Static pods, their mirrors, and those of a system priority.
pub fn is_critical(pod: &Value) -> bool {
    let annotation = |name: &str| pod.str_at(&["metadata", "annotations", name]);
    let source = annotation("kubernetes.io/config.source");
    source.is_some_and(|source| source != "api")
        || annotation("kubernetes.io/config.mirror").is_some()
        || int(pod, &["spec", "priority"]).is_some_and(|priority| priority >= SYSTEM_CRITICAL_PRIORITY)
}

fn is_node_critical(pod: &Value) -> bool {
    is_critical(pod) && text(pod, &["spec", "priorityClassName"]) == "system-node-critical"
}

/// Of what the pod asks for as a whole, and none of its containers does: each one's part.
fn unclaimed_share(pod: &Value) -> i64 {
    if !has_pod_level(pod, "requests") {
        return 0;
    }
    let whole = amount_of_pod(pod, "requests", "memory");
    let count = list(pod, &["spec", "containers"]).len() + list(pod, &["spec", "initContainers"]).len();
    if whole == Quantity::ZERO || count == 0 {
        return 0;
    }
    let claimed = bytes(&container_amounts(pod, "requests"), "memory").unwrap_or(0);
    whole.as_i64().saturating_sub(claimed) / count as i64
}

fn is_sidecar(pod: &Value, container: &Value) -> bool {
    let named = |other: &Value| text(other, &["name"]) == text(container, &["name"]);
    text(container, &["restartPolicy"]) == "Always"
        && list(pod, &["spec", "initContainers"]).iter().any(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::testing::{pod, value};

    const CAPACITY: i64 = 4_000_000_000;

    fn scores(spec: &str) -> Vec<i64> {
        let pod = pod(spec);
        let of = |member: &str| list(&pod, &["spec", member]).to_vec();
        let all = of("initContainers").into_iter().chain(of("containers"));
        all.map(|container| oom_score_adj(&pod, &container, CAPACITY)).collect()
    }

    #[test]
    fn those_who_ask_for_more_are_kept_longer() {
        let with = |requests: &str| format!(r#"{{"containers":[{{"name":"c","resources":{requests}}}]}}"#);
        for (resources, expected) in [
            ("{}", 1000),
            (r#"{"requests":{"memory":"2000000000"}}"#, 500),
            (r#"{"requests":{"memory":"1000000000"}}"#, 750),
            (r#"{"requests":{"memory":"4000000000"}}"#, 3),
            (r#"{"requests":{"memory":"5000000000"}}"#, 3),
            (r#"{"requests":{"memory":"1"}}"#, 999),
            (r#"{"requests":{"cpu":"5m"}}"#, 999),
            (r#"{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}}"#, -997),
        ] {
            assert_eq!(scores(&with(resources)), [expected], "{resources}");
        }
    }

    #[test]
    fn what_only_the_pod_asks_for_is_shared() {
        let spec = r#"{"resources":{"requests":{"memory":"2000000000"}},
                       "containers":[{"name":"a","resources":{"requests":{"memory":"1000000000"}}},{"name":"b"}]}"#;
        assert_eq!(scores(spec), [625, 875]);
    }

    #[test]
    fn a_sidecar_is_kept_as_long_as_the_containers() {
        let spec = r#"{"initContainers":[{"name":"s","restartPolicy":"Always"},{"name":"i"}],
                       "containers":[{"name":"a","resources":{"requests":{"memory":"2000000000"}}},
                                     {"name":"b","resources":{"requests":{"memory":"1000000000"}}}]}"#;
        assert_eq!(scores(spec), [750, 999, 500, 750]);
    }

    #[test]
    fn critical_pods_of_the_node_go_last() {
        let critical = r#"{"priorityClassName":"system-node-critical","priority":2000001000,"containers":[{"name":"c"}]}"#;
        assert_eq!(scores(critical), [-997]);
        let cluster = r#"{"priorityClassName":"system-cluster-critical","priority":2000000000,"containers":[{"name":"c"}]}"#;
        assert_eq!(scores(cluster), [1000]);
        let file = value(r#"{"metadata":{"annotations":{"kubernetes.io/config.source":"file"}}}"#);
        assert!(is_critical(&file));
        assert!(!is_critical(&value(
            r#"{"metadata":{"annotations":{"kubernetes.io/config.source":"api"}}}"#
        )));
        // A machine of which nothing is known must not be divided by.
        let burstable = pod(r#"{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}"#);
        assert_eq!(oom_score_adj(&burstable, &value(r#"{"name":"c"}"#), 0), 999);
    }
}
