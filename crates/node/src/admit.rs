//! A node's own word on a pod that was bound to it: what does not fit is refused, whoever bound it.

mod affinity;
pub mod preemption;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use object::Value;
use object::quantity::Quantity;

use crate::pod::resources::HUGEPAGES;
use crate::pod::{Pod, Requests, Role, short_uid};

pub use affinity::no_execute;

/// What a node has to give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    pub amounts: Requests,
    pub pods: i64,
}

/// What is taken of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub amounts: Requests,
    pub pods: i64,
    /// Host ports and whose they are; few pods have any.
    ports: Vec<(u128, Port)>,
    /// Huge pages and extended resources, and whose they are; few pods have any.
    scalars: Vec<(u128, Box<str>, i64)>,
}

/// Protocol, address ("" for all) and number.
type Port = (Box<str>, Box<str>, i64);

/// Why a pod may not stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub reason: String,
    pub message: String,
}

impl Taken {
    /// By one pod.
    pub fn of(pod: &Pod<'_>, amounts: Requests) -> Taken {
        let mut taken = Taken::default();
        taken.add(pod, amounts);
        taken
    }

    pub fn add(&mut self, pod: &Pod<'_>, amounts: Requests) {
        let uid = short_uid(pod.uid);
        self.amounts = self.amounts.plus(amounts);
        self.pods += 1;
        self.ports.extend(host_ports(pod).into_iter().map(|port| (uid, port)));
        self.scalars.extend(scalars(pod).into_iter().map(|(name, amount)| (uid, name.into(), amount)));
    }

    pub fn merge(&mut self, other: &Taken) {
        self.amounts = self.amounts.plus(other.amounts);
        self.pods += other.pods;
        self.ports.extend_from_slice(&other.ports);
        self.scalars.extend_from_slice(&other.scalars);
    }

    pub fn remove(&mut self, uid: u128, amounts: Requests) {
        self.amounts = self.amounts.minus(amounts);
        self.pods -= 1;
        self.ports.retain(|(whose, _)| *whose != uid);
        self.scalars.retain(|(whose, ..)| *whose != uid);
    }

    pub fn scalars_of(&self, uid: u128) -> Vec<(&str, i64)> {
        let own = self.scalars.iter().filter(|(whose, ..)| *whose == uid);
        own.map(|(_, name, amount)| (&**name, *amount)).collect()
    }
}

/// `Err`: the first thing that speaks against it, in kubelet's order and words. `node` is asked for only where the pod or
/// the node is choosy.
pub fn admit(
    pod: &Pod<'_>,
    requests: Requests,
    capacity: &Capacity,
    taken: &Taken,
    node: Option<&Value>,
) -> Result<(), Rejection> {
    check_os(pod)?;
    if let Some((short, used, capacity)) = shortages(pod, requests, capacity, taken, node).into_iter().next()
    {
        return Err(Rejection::out_of(short.resource, short.requested, used, capacity));
    }
    check_place(pod, taken, node)
}

/// What has to be freed for a critical pod, if nothing else speaks against it.
pub fn missing(
    pod: &Pod<'_>,
    requests: Requests,
    capacity: &Capacity,
    taken: &Taken,
    node: Option<&Value>,
) -> Result<Vec<preemption::Missing>, Rejection> {
    check_os(pod)?;
    check_place(pod, taken, node)?;
    let short = shortages(pod, requests, capacity, taken, node).into_iter();
    let missing = |(short, used, capacity): (Shortage<'_>, i64, i64)| preemption::Missing {
        resource: short.resource.to_owned(),
        amount: short.requested.saturating_sub(capacity - used),
    };
    Ok(short.map(missing).collect())
}

/// Is so much left of what every node has?
pub fn has_room(capacity: &Capacity, used: Requests, requests: Requests) -> bool {
    let amounts = |of: Requests| [of.cpu_milli, of.memory, of.ephemeral_storage];
    let all = amounts(capacity.amounts).into_iter().zip(amounts(used)).zip(amounts(requests));
    all.into_iter().all(|((has, used), requested)| !is_short(requested, used, has))
}

fn is_short(requested: i64, used: i64, has: i64) -> bool {
    requested > 0 && requested > has - used
}

fn check_os(pod: &Pod<'_>) -> Result<(), Rejection> {
    let label = pod.tree.at(&["metadata", "labels"]).and_then(|labels| labels.str_at(&[OS_LABEL]));
    if label.is_some_and(|os| os != "linux") {
        return Err(Rejection {
            reason: "PodOSSelectorNodeLabelDoesNotMatch".to_owned(),
            message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
                .to_owned(),
        });
    }
    if pod.tree.str_at(&["spec", "os", "name"]).is_some_and(|os| os != "linux") {
        return Err(Rejection {
            reason: "PodOSNotSupported".to_owned(),
            message: "Failed to admit pod as the OS field doesn't match node OS".to_owned(),
        });
    }
    Ok(())
}

struct Shortage<'a> {
    resource: &'a str,
    requested: i64,
}

/// Each with what is used and what there is.
fn shortages<'a>(
    pod: &Pod<'a>,
    requests: Requests,
    capacity: &Capacity,
    taken: &Taken,
    node: Option<&Value>,
) -> Vec<(Shortage<'a>, i64, i64)> {
    let (has, used) = (capacity.amounts, taken.amounts);
    let mut all = vec![
        ("pods", 1, taken.pods, capacity.pods),
        ("cpu", requests.cpu_milli, used.cpu_milli, has.cpu_milli),
        ("memory", requests.memory, used.memory, has.memory),
        ("ephemeral-storage", requests.ephemeral_storage, used.ephemeral_storage, has.ephemeral_storage),
    ];
    for (resource, requested) in node.map(|_| scalars(pod)).unwrap_or_default() {
        let capacity = node.and_then(|node| node.at(&["status", "allocatable", resource])).and_then(amount);
        // An extended resource that the node does not have at all is not the node's to give: whoever bound the pod knows where it
        // comes from. Huge pages come from nowhere else.
        let capacity = capacity.or_else(|| is_hugepages(resource).then_some(0));
        let used = taken.scalars.iter().filter(|(_, name, _)| **name == *resource);
        let used: i64 = used.fold(0_i64, |sum, (.., amount)| sum.saturating_add(*amount));
        all.extend(capacity.map(|capacity| (resource, requested, used, capacity)));
    }
    let short =
        all.into_iter().filter(|(_, requested, used, capacity)| is_short(*requested, *used, *capacity));
    short
        .map(|(resource, requested, used, capacity)| (Shortage { resource, requested }, used, capacity))
        .collect()
}

/// Labels, ports and taints.
fn check_place(pod: &Pod<'_>, taken: &Taken, node: Option<&Value>) -> Result<(), Rejection> {
    let failed = |name: &str, why: &str| {
        let message = format!("Predicate {name} failed: {why}");
        Err(Rejection { reason: name.to_owned(), message })
    };
    if let Some(node) = node
        && !affinity::matches(pod.tree, node)
    {
        return failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector");
    }
    if host_ports(pod).iter().any(|wanted| taken.ports.iter().any(|(_, there)| clash(wanted, there))) {
        return failed("NodePorts", "node(s) didn't have free ports for the requested pod ports");
    }
    if let Some(node) = node
        && !pod.is_static()
        && !affinity::tolerates(pod.tree, node)
    {
        return failed("TaintToleration", "node(s) had taints that the pod didn't tolerate");
    }
    Ok(())
}

/// Must the node's labels be looked at?
pub fn is_choosy(pod: &Pod<'_>) -> bool {
    let spec = |path: &[&str]| pod.tree.at(path).is_some();
    spec(&["spec", "nodeSelector"]) || spec(&["spec", "affinity", "nodeAffinity"]) || !scalars(pod).is_empty()
}

impl Rejection {
    fn out_of(resource: &str, requested: i64, used: i64, capacity: i64) -> Rejection {
        Rejection {
            reason: format!("OutOf{resource}"),
            message: format!(
                "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
            ),
        }
    }
}

const OS_LABEL: &str = "kubernetes.io/os";

/// What a pod asks for beyond what every node has: huge pages, also for the pod as a whole, and extended resources.
fn scalars<'a>(pod: &Pod<'a>) -> BTreeMap<&'a str, i64> {
    let (mut sidecars, mut init, mut main) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let add = |sum: &mut BTreeMap<&'a str, i64>, name, amount| {
        let sum = sum.entry(name).or_insert(0_i64);
        *sum = sum.saturating_add(amount);
        *sum
    };
    for container in &pod.containers {
        let requests = container.spec.at(&["resources", "requests"]).and_then(Value::as_map);
        for (name, value) in requests.into_iter().flat_map(|requests| requests.iter()) {
            let name = name.as_str();
            let Some(own) = amount(value).filter(|own| *own > 0 && is_scalar(name)) else { continue };
            let at_once = match container.role {
                Role::Main => {
                    add(&mut main, name, own);
                    continue;
                }
                Role::Sidecar => add(&mut sidecars, name, own),
                Role::Init => sidecars.get(name).copied().unwrap_or(0_i64).saturating_add(own),
                Role::Ephemeral => continue,
            };
            let most = init.entry(name).or_insert(0_i64);
            *most = (*most).max(at_once);
        }
    }
    for (name, amount) in sidecars {
        add(&mut main, name, amount);
    }
    for (name, amount) in init {
        let most = main.entry(name).or_insert(0);
        *most = (*most).max(amount);
    }
    let of_pod = |path: &[&str]| {
        let amounts = pod.tree.at(path).and_then(Value::as_map);
        let amounts = amounts.into_iter().flat_map(|amounts| amounts.iter());
        amounts.filter_map(|(name, value)| Some((name.as_str(), amount(value).filter(|own| *own > 0)?)))
    };
    main.extend(of_pod(&["spec", "resources", "requests"]).filter(|(name, _)| is_hugepages(name)));
    for (name, own) in of_pod(&["spec", "overhead"]).filter(|(name, _)| is_scalar(name)) {
        add(&mut main, name, own);
    }
    main
}

fn is_scalar(name: &str) -> bool {
    name.contains('/') || is_hugepages(name)
}

fn is_hugepages(name: &str) -> bool {
    name.starts_with(HUGEPAGES)
}

fn amount(value: &Value) -> Option<i64> {
    match value {
        Value::Int(amount) => Some(*amount),
        value => Quantity::parse(value.as_str()?).ok().map(|amount| amount.as_i64()),
    }
}

/// The ports of the node a pod takes for itself.
fn host_ports(pod: &Pod<'_>) -> Vec<Port> {
    let mut found = Vec::new();
    for container in pod.containers.iter().filter(|c| c.role != Role::Init) {
        for port in container.spec.get("ports").and_then(Value::as_list).unwrap_or_default() {
            let number = port.get("hostPort").and_then(Value::as_int).unwrap_or(0);
            if number > 0 {
                let protocol = port.str_at(&["protocol"]).unwrap_or("TCP");
                let address = port.str_at(&["hostIP"]).filter(|ip| *ip != "0.0.0.0").unwrap_or("");
                found.push((protocol.into(), address.into(), number));
            }
        }
    }
    found
}

fn clash(a: &Port, b: &Port) -> bool {
    a.2 == b.2 && a.0 == b.0 && (a.1 == b.1 || a.1.is_empty() || b.1.is_empty())
}
