//! What the containers of a pod ask for and may use, added up.

use std::collections::BTreeMap;

use object::quantity::Quantity;
use object::{Map, Value};

fn list<'a>(tree: &'a Value, path: &[&str]) -> &'a [Value] {
    tree.at(path).and_then(Value::as_list).unwrap_or_default()
}

/// Amounts by the names of what they are of.
pub type Amounts = BTreeMap<String, Quantity>;

pub const HUGEPAGES: &str = "hugepages-";

/// Of a map of quantities; what is none is left out.
pub fn amounts(map: Option<&Value>) -> Amounts {
    let members = map.and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
    members.filter_map(|(name, value)| Some((name.as_str().to_owned(), quantity(value)?))).collect()
}

/// One amount; nothing said is zero.
pub fn amount(resources: &Value, list: &str, name: &str) -> Quantity {
    resources.at(&["resources", list, name]).and_then(quantity).unwrap_or(Quantity::ZERO)
}

pub fn milli(amounts: &Amounts, name: &str) -> Option<i64> {
    amounts.get(name).map(Quantity::as_milli)
}

pub fn bytes(amounts: &Amounts, name: &str) -> Option<i64> {
    amounts.get(name).map(Quantity::as_i64)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overhead {
    Included,
    Excluded,
}

/// `status.resources` and `status.allocatedResources` of a pod: what it has as a whole. While it runs that is what its cgroup has,
/// before and afterwards the sum of what its containers ask for.
pub fn of_status(pod: &Value) -> (Map, Map) {
    let (requests, limits) = (pod_requests(pod, Overhead::Included), pod_limits(pod, Overhead::Included));
    let allocated = shown(&requests);
    let mut resources = pod.at(&["spec", "resources"]).and_then(Value::as_map).cloned().unwrap_or_default();
    if pod.str_at(&["status", "phase"]) != Some("Running") {
        set(&mut resources, "requests", shown(&requests));
        set(&mut resources, "limits", shown(&limits));
        return (resources, allocated);
    }
    let said = |list: &str| amounts(pod.at(&["spec", "resources", list]));
    let (mut of_requests, mut of_limits) = (said("requests"), said("limits"));
    for name in ["cpu", "memory"] {
        // A cgroup always has some shares: so few that nobody asked for them.
        let counts = |amount: &&Quantity| name != "cpu" || amount.as_milli() > LEAST_SHARES;
        if let Some(amount) = requests.get(name).filter(counts) {
            of_requests.entry(name.to_owned()).or_insert(*amount);
        }
        if let Some(limit) = limits.get(name).filter(|_| all_limited(pod, name)) {
            of_limits.entry(name.to_owned()).or_insert(*limit);
        }
    }
    set(&mut resources, "requests", shown(&of_requests));
    set(&mut resources, "limits", shown(&of_limits));
    (resources, allocated)
}

const LEAST_SHARES: i64 = 2;

fn set(resources: &mut Map, list: &'static str, amounts: Map) {
    match amounts.is_empty() {
        true => drop(resources.remove(list)),
        false => resources.set(list, amounts),
    }
}

fn shown(amounts: &Amounts) -> Map {
    amounts.iter().map(|(name, amount)| (name.clone().into(), Value::Str(amount.to_string()))).collect()
}

/// What the pod needs at the worst moment of its life: while it runs, or while one of its init containers does.
pub fn pod_requests(pod: &Value, overhead: Overhead) -> Amounts {
    let mut requests = container_amounts(pod, "requests");
    pod_level(pod, "requests", &mut requests);
    if overhead == Overhead::Included {
        add(&mut requests, &amounts(pod.at(&["spec", "overhead"])));
    }
    requests
}

pub fn pod_limits(pod: &Value, overhead: Overhead) -> Amounts {
    let mut limits = container_amounts(pod, "limits");
    pod_level(pod, "limits", &mut limits);
    if overhead == Overhead::Included {
        for (name, more) in amounts(pod.at(&["spec", "overhead"])) {
            // What is not limited does not become so.
            if let Some(limit) = limits.get_mut(&name).filter(|limit| !limit.is_zero()) {
                *limit = *limit + more;
            }
        }
    }
    limits
}

/// The sum of the containers, without what the pod as a whole says.
pub fn container_amounts(pod: &Value, list_name: &str) -> Amounts {
    let mut sum = Amounts::new();
    for container in list(pod, &["spec", "containers"]) {
        add(&mut sum, &amounts(container.at(&["resources", list_name])));
    }
    let mut most = Amounts::new();
    for_each_init(pod, list_name, |sidecar, with_earlier_sidecars, own| {
        if sidecar {
            add(&mut sum, own);
        }
        max(&mut most, with_earlier_sidecars);
    });
    max(&mut sum, &most);
    sum
}

/// Does every container, at its moment, have a limit of this?
pub fn all_limited(pod: &Value, name: &str) -> bool {
    let limited = |amounts: &Amounts| amounts.get(name).is_some_and(|limit| !limit.is_zero());
    let containers = list(pod, &["spec", "containers"]).iter();
    let mut all = containers.map(|c| amounts(c.at(&["resources", "limits"]))).all(|limits| limited(&limits));
    for_each_init(pod, "limits", |_, with_earlier_sidecars, _| all &= limited(with_earlier_sidecars));
    all || !amount_of_pod(pod, "limits", name).is_zero()
}

/// What the pod as a whole says.
pub fn amount_of_pod(pod: &Value, list: &str, name: &str) -> Quantity {
    pod.get("spec").map_or(Quantity::ZERO, |spec| amount(spec, list, name))
}

/// Does the pod as a whole say anything about what can be said so?
pub fn has_pod_level(pod: &Value, list: &str) -> bool {
    let said = pod.at(&["spec", "resources", list]).and_then(Value::as_map);
    said.is_some_and(|map| map.iter().any(|(name, _)| is_pod_level(name.as_str())))
}

/// Bytes of a page, of `hugepages-2Mi`; `None` for any other name.
pub fn hugepage_bytes(name: &str) -> Option<i64> {
    let size = Quantity::parse(name.strip_prefix(HUGEPAGES)?).ok()?.as_i64();
    Some(size).filter(|size| *size > 0)
}

/// As the kernel names it in cgroups: `2MB`.
pub fn hugepage_name(mut size: i64) -> Option<String> {
    const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];
    let mut unit = 0;
    while size > 0 && size % 1024 == 0 && unit < UNITS.len() - 1 {
        size /= 1024;
        unit += 1;
    }
    let whole = size > 0 && (size <= 1024 || unit == UNITS.len() - 1);
    whole.then(|| format!("{size}{}", UNITS[unit]))
}

pub fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::Str(text) => Quantity::parse(text).ok(),
        Value::Int(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

pub fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        to.entry(name.clone()).and_modify(|sum| *sum = *sum + *amount).or_insert(*amount);
    }
}

/// Tells of each init container: whether it stays, what runs while it begins, and what it has itself.
fn for_each_init(pod: &Value, list_name: &str, mut tell: impl FnMut(bool, &Amounts, &Amounts)) {
    let mut sidecars = Amounts::new();
    for container in list(pod, &["spec", "initContainers"]) {
        let own = amounts(container.at(&["resources", list_name]));
        let sidecar = container.str_at(&["restartPolicy"]) == Some("Always");
        let mut at_once = sidecars.clone();
        add(&mut at_once, &own);
        if sidecar {
            sidecars.clone_from(&at_once);
        }
        tell(sidecar, &at_once, &own);
    }
}

fn pod_level(pod: &Value, list: &str, to: &mut Amounts) {
    let said = amounts(pod.at(&["spec", "resources", list]));
    to.extend(said.into_iter().filter(|(name, _)| is_pod_level(name)));
}

fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGEPAGES)
}

fn max(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        to.entry(name.clone()).and_modify(|most| *most = (*most).max(*amount)).or_insert(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: &str) -> Value {
        codec::json::parse(format!(r#"{{"spec":{spec}}}"#).as_bytes(), None).expect("the tests write JSON")
    }

    fn text(amounts: &Amounts) -> String {
        amounts.iter().map(|(name, amount)| format!("{name}={amount} ")).collect()
    }

    #[test]
    fn the_status_tells_what_the_pod_has_in_sum_and_while_it_runs_what_its_cgroup_has() {
        let said = |status: &str, spec: &str| {
            let text = format!(r#"{{"spec":{spec},"status":{{"phase":"{status}"}}}}"#);
            let (resources, allocated) = of_status(&codec::json::parse(text.as_bytes(), None).unwrap());
            let shown = |map: Map| String::from_utf8(codec::json::to_vec(&Value::Map(map))).unwrap();
            (shown(resources), shown(allocated))
        };
        let none = r#"{"containers":[{"name":"c"}]}"#;
        assert_eq!(said("Running", none), ("{}".to_owned(), "{}".to_owned()));
        let some = r#"{"containers":[{"resources":{"requests":{"cpu":"1","memory":"2Mi"},"limits":{"cpu":"2"}}},
            {"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1","memory":"4Mi"}}}]}"#;
        let requests = r#"{"cpu":"2","memory":"2Mi"}"#;
        assert_eq!(
            said("Pending", some),
            (
                format!(r#"{{"requests":{requests},"limits":{{"cpu":"3","memory":"4Mi"}}}}"#),
                requests.to_owned()
            )
        );
        assert_eq!(
            said("Running", some),
            (format!(r#"{{"requests":{requests},"limits":{{"cpu":"3"}}}}"#), requests.to_owned())
        );
    }

    #[test]
    fn a_pod_needs_its_containers_or_its_largest_init_container() {
        let pod = pod(r#"{"containers":[{"resources":{"requests":{"cpu":"100m","memory":"1Gi"}}},
                              {"resources":{"requests":{"cpu":"200m"}}}],
                "initContainers":[{"resources":{"requests":{"cpu":"50m"}}},
                                  {"restartPolicy":"Always","resources":{"requests":{"cpu":"300m"}}},
                                  {"resources":{"requests":{"cpu":"500m","memory":"2Gi"}}}],
                "overhead":{"cpu":"10m"}}"#);
        assert_eq!(text(&pod_requests(&pod, Overhead::Excluded)), "cpu=800m memory=2Gi ");
        assert_eq!(text(&pod_requests(&pod, Overhead::Included)), "cpu=810m memory=2Gi ");
    }

    #[test]
    fn what_the_pod_says_as_a_whole_counts() {
        let pod = pod(
            r#"{"containers":[{"resources":{"requests":{"cpu":"100m","x/y":"1"},"limits":{"memory":"1Gi"}}}],
                "resources":{"requests":{"cpu":"1","x/y":"9"},"limits":{"cpu":"2","memory":"3Gi"}},
                "overhead":{"cpu":"1","pods":"1"}}"#,
        );
        assert_eq!(text(&pod_requests(&pod, Overhead::Excluded)), "cpu=1 x/y=1 ");
        assert_eq!(text(&pod_limits(&pod, Overhead::Included)), "cpu=3 memory=3Gi ");
        assert!(all_limited(&pod, "cpu") && all_limited(&pod, "memory"));
        assert!(has_pod_level(&pod, "requests") && has_pod_level(&pod, "limits"));
    }

    #[test]
    fn one_container_without_a_limit_is_enough() {
        let pod = pod(
            r#"{"containers":[{"resources":{"limits":{"cpu":"1","memory":"1"}}},{"resources":{"limits":{"cpu":"1"}}}]}"#,
        );
        assert!(all_limited(&pod, "cpu"));
        assert!(!all_limited(&pod, "memory"));
    }

    #[test]
    fn pages_have_the_kernels_names() {
        for (name, expected) in [
            ("hugepages-2Mi", Some("2MB")),
            ("hugepages-1Gi", Some("1GB")),
            ("hugepages-64Ki", Some("64KB")),
            ("hugepages-3000", None),
            ("hugepages-0", None),
            ("hugepages-x", None),
            ("memory", None),
        ] {
            assert_eq!(hugepage_bytes(name).and_then(hugepage_name).as_deref(), expected, "{name}");
        }
    }
}
