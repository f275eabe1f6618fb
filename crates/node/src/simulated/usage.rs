//! What a simulated pod uses: what it requests, unless annotations say otherwise.
//!
//! | annotation | on | meaning |
//! |---|---|---|
//! | `sim.setpoint.dev/cpu-usage` | pod, node | CPU of each container: `250m`, or `80%` of what it requests; `none`: nothing is reported |
//! | `sim.setpoint.dev/memory-usage` | pod, node | the same of memory |
//!
//! `app=500m,sidecar=10%` speaks of containers by name. What cannot be read counts as absent.

use object::quantity::{Format, Quantity};
use object::{Map, Value, time};

const PREFIX: &str = "sim.setpoint.dev/";
const RESOURCES: [(&str, &str, Format); 2] =
    [("cpu", "cpu-usage", Format::DecimalSi), ("memory", "memory-usage", Format::BinarySi)];

/// Containers of a pod on this node that were running at that time, with what they use: `containers` of its PodMetrics. `None`: nothing
/// is reported of the pod.
pub fn containers(pod: &Value, node: &Value, at_seconds: i64) -> Option<Vec<Value>> {
    if !reports(node) || pod.str_at(&["status", "phase"]) != Some("Running") {
        return None;
    }
    let list = |path: &[&str]| pod.at(path).and_then(Value::as_list).unwrap_or_default();
    let specs = list(&["spec", "containers"]).iter();
    let sidecars =
        list(&["spec", "initContainers"]).iter().filter(|c| c.str_at(&["restartPolicy"]) == Some("Always"));
    let statuses =
        [list(&["status", "containerStatuses"]), list(&["status", "initContainerStatuses"])].concat();
    let runs = |name: &str| {
        let status = statuses.iter().find(|status| status.str_at(&["name"]) == Some(name));
        let started = status.and_then(|status| status.str_at(&["state", "running", "startedAt"]));
        started.and_then(time::parse).is_some_and(|(started, _)| started <= at_seconds)
    };
    let mut used = Vec::new();
    for spec in specs.chain(sidecars) {
        let name = spec.str_at(&["name"]).unwrap_or("");
        if !runs(name) {
            continue;
        }
        let mut usage = Map::default();
        for (resource, annotation, format) in RESOURCES {
            let request = quantity(spec.str_at(&["resources", "requests", resource]));
            if let Some(amount) = amount(pod, node, annotation, name, request) {
                usage.set(resource, amount.with_format(format).to_string());
            }
        }
        let mut container = Map::default();
        container.set("name", name);
        container.set("usage", usage);
        used.push(Value::Map(container));
    }
    (!used.is_empty()).then_some(used)
}

/// Whether a node is simulated, and heard of.
pub fn reports(node: &Value) -> bool {
    let conditions = node.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.str_at(&["type"]) == Some("Ready"));
    if ready.and_then(|ready| ready.str_at(&["status"])) == Some("Unknown") {
        return false;
    }
    let runtime = node.str_at(&["status", "nodeInfo", "containerRuntimeVersion"]).unwrap_or("");
    runtime.starts_with("simulated://")
        && super::behaviour::Behaviour::read(node.at(&["metadata", "annotations"])).health()
            != crate::container_runtime::Health::Unreachable
}

fn amount(
    pod: &Value,
    node: &Value,
    annotation: &str,
    container: &str,
    request: Option<Quantity>,
) -> Option<Quantity> {
    let requested = request.unwrap_or(Quantity::from_i64(0, Format::DecimalSi));
    for object in [pod, node] {
        let annotations = object.at(&["metadata", "annotations"]).and_then(Value::as_map);
        let says = annotations.and_then(|all| {
            all.iter().find(|(key, _)| key.strip_prefix(PREFIX) == Some(annotation)).map(|(_, value)| value)
        });
        let Some(text) = says.and_then(Value::as_str).and_then(|text| of_container(text, container)) else {
            continue;
        };
        if text == "none" {
            return None;
        }
        let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        let share = percent.filter(|percent| percent.is_finite()).map(|percent| {
            let milli = requested.as_milli() as f64 * percent / 100.0;
            Quantity::from_milli(milli as i64, Format::DecimalSi)
        });
        if let Some(said) = share.or_else(|| quantity(Some(text))) {
            return Some(said);
        }
    }
    Some(requested)
}

/// What `a=1,b=2` or `1` says of a container.
fn of_container<'a>(text: &'a str, container: &str) -> Option<&'a str> {
    if !text.contains('=') {
        return Some(text.trim());
    }
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| name.trim() == container).map(|(_, amount)| amount.trim()).next_back()
}

fn quantity(text: Option<&str>) -> Option<Quantity> {
    Quantity::parse(text?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        codec::json::parse(text.as_bytes(), None).unwrap()
    }

    fn node(annotations: &str) -> Value {
        json(&format!(
            r#"{{"metadata":{{"annotations":{{{annotations}}}}},"status":{{"nodeInfo":{{"containerRuntimeVersion":"simulated://1"}}}}}}"#
        ))
    }

    fn pod(annotations: &str) -> Value {
        json(&format!(
            r#"{{"metadata":{{"annotations":{{{annotations}}}}},
            "spec":{{"containers":[{{"name":"app","resources":{{"requests":{{"cpu":"200m","memory":"64Mi"}}}}}},{{"name":"idle"}}]}},
            "status":{{"phase":"Running","containerStatuses":[
                {{"name":"app","state":{{"running":{{"startedAt":"1970-01-01T00:00:10Z"}}}}}},
                {{"name":"idle","state":{{"running":{{"startedAt":"1970-01-01T00:00:20Z"}}}}}}]}}}}"#
        ))
    }

    fn used(pod: &Value, node: &Value) -> Vec<(String, String, String)> {
        let text = |container: &Value, path: &[&str]| container.str_at(path).unwrap_or("-").to_owned();
        let all = containers(pod, node, 100).unwrap_or_default();
        all.iter()
            .map(|of| (text(of, &["name"]), text(of, &["usage", "cpu"]), text(of, &["usage", "memory"])))
            .collect()
    }

    fn owned(rows: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
        rows.iter().map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned())).collect()
    }

    #[test]
    fn a_container_uses_what_it_requests() {
        assert_eq!(used(&pod(""), &node("")), owned(&[("app", "200m", "64Mi"), ("idle", "0", "0")]));
        assert_eq!(containers(&pod(""), &node(""), 15).unwrap().len(), 1, "the other had not started");
        assert_eq!(containers(&pod(""), &node(""), 5), None);
    }

    #[test]
    fn annotations_of_pods_come_before_those_of_nodes() {
        let busy = node(r#""sim.setpoint.dev/cpu-usage":"150%""#);
        assert_eq!(used(&pod(""), &busy), owned(&[("app", "300m", "64Mi"), ("idle", "0", "0")]));
        let own =
            pod(r#""sim.setpoint.dev/cpu-usage":"app=1,idle=50m","sim.setpoint.dev/memory-usage":"none""#);
        assert_eq!(used(&own, &busy), owned(&[("app", "1", "-"), ("idle", "50m", "-")]));
        let odd = pod(r#""sim.setpoint.dev/cpu-usage":"NaN%","sim.setpoint.dev/memory-usage":"-1Mi""#);
        assert_eq!(used(&odd, &node("")), owned(&[("app", "200m", "-1Mi"), ("idle", "0", "-1Mi")]));
    }

    #[test]
    fn a_silent_node_and_one_that_is_not_simulated_report_nothing() {
        assert_eq!(used(&pod(""), &node(r#""sim.setpoint.dev/silent":"true""#)), owned(&[]));
        assert_eq!(used(&pod(""), &json("{}")), owned(&[]));
    }
}
