//! The subsets of a service's Endpoints: which addresses serve which ports, packed into the fewest subsets.

use std::collections::BTreeMap;

use kinds::pod::view::PodView;
use object::{Map, Value};

use crate::port_order;
use crate::services::{Family, HEADLESS, ServiceView, Target, addresses, may_be_endpoint, parse_ip};

/// More addresses than this are cut off.
pub const CAPACITY: usize = 1000;
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
pub const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
pub const CONTROLLER: &str = "endpoint-controller";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    pub ip: String,
    pub hostname: String,
    pub node: String,
    pub target: Target,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    pub name: String,
    pub port: i64,
    pub protocol: String,
    pub app_protocol: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subset {
    pub addresses: Vec<Address>,
    pub not_ready: Vec<Address>,
    pub ports: Vec<Port>,
}

/// A pod the service selects.
pub struct Member<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub pod: &'a PodView,
}

/// The whole truth, packed; not yet cut.
pub fn subsets(service: &ServiceView, members: &[Member<'_>]) -> Vec<Subset> {
    let mut loose = Vec::new();
    for member in members.iter().filter(|member| may_be_endpoint(member.pod, service.publish_not_ready)) {
        let Some(address) = address(service, member) else { continue };
        let ready = service.publish_not_ready || member.pod.ready;
        let mut add = |ports: Vec<Port>| {
            let one = vec![address.clone()];
            let (addresses, not_ready) = if ready { (one, Vec::new()) } else { (Vec::new(), one) };
            loose.push(Subset { addresses, not_ready, ports });
        };
        if service.ports.is_empty() {
            // Only a headless service may do without ports.
            if service.cluster_ip == "None" {
                add(Vec::new());
            }
            continue;
        }
        for port in &service.ports {
            if let Some(number) = ServiceView::find_port(port, member.pod) {
                let (name, protocol) = (port.name.clone(), port.protocol.clone());
                add(vec![Port { name, port: number, protocol, app_protocol: port.app_protocol.clone() }]);
            }
        }
    }
    repack(&loose)
}

fn address(service: &ServiceView, member: &Member<'_>) -> Option<Address> {
    let v6 = |ip: &str| parse_ip(ip).is_some_and(|ip| ip.is_ipv6());
    let family = match service.families.first() {
        Some(family) => *family,
        None if service.has_ip() && v6(&service.cluster_ip) => Family::V6,
        None if !service.has_ip() && member.pod.ips.first().is_some_and(|ip| v6(ip)) => Family::V6,
        None => Family::V4,
    };
    Some(Address {
        ip: addresses(member.pod, family).into_iter().next()?,
        hostname: if service.names(member.pod) { member.pod.hostname.to_string() } else { String::new() },
        node: member.pod.node.to_string(),
        target: Target::pod(member.namespace, member.name, member.uid),
    })
}

/// By address and uid: two pods of one host network share an address.
type AddressKey = (String, String);

/// The same associations of addresses and ports in the one canonical layout.
pub fn repack(subsets: &[Subset]) -> Vec<Subset> {
    let mut all: BTreeMap<AddressKey, &Address> = BTreeMap::new();
    let mut by_port: BTreeMap<Option<&Port>, BTreeMap<AddressKey, bool>> = BTreeMap::new();
    for subset in subsets {
        let ready = subset.addresses.iter().map(|address| (address, true));
        let not_ready = subset.not_ready.iter().map(|address| (address, false));
        for (address, ready) in ready.chain(not_ready) {
            let key = (address.ip.clone(), address.target.uid.clone());
            all.entry(key.clone()).or_insert(address);
            let ports = subset.ports.iter().map(Some).chain(subset.ports.is_empty().then_some(None));
            for port in ports {
                // Who is not ready once is not ready.
                *by_port.entry(port).or_default().entry(key.clone()).or_insert(ready) &= ready;
            }
        }
    }
    let mut by_addresses: BTreeMap<Vec<(AddressKey, bool)>, Vec<Port>> = BTreeMap::new();
    for (port, addresses) in by_port {
        by_addresses.entry(addresses.into_iter().collect()).or_default().extend(port.cloned());
    }
    let subset = |(addresses, ports): (Vec<(AddressKey, bool)>, Vec<Port>)| {
        let mut subset = Subset { ports, ..Subset::default() };
        subset.ports.sort_by_key(|port| {
            port_order::in_endpoints(&port.name, port.port, &port.protocol, port.app_protocol.as_deref())
        });
        for (key, ready) in addresses {
            let list = if ready { &mut subset.addresses } else { &mut subset.not_ready };
            list.extend(all.get(&key).map(|address| (*address).clone()));
        }
        subset
    };
    let mut packed: Vec<Subset> = by_addresses.into_iter().map(subset).collect();
    packed.sort_by_cached_key(port_order::of_subset);
    packed
}

/// Cuts to the capacity, each subset in proportion, ready ones before the others. `true`: something was cut.
pub fn truncate(subsets: &mut [Subset]) -> bool {
    let ready: usize = subsets.iter().map(|s| s.addresses.len()).sum();
    let not_ready: usize = subsets.iter().map(|s| s.not_ready.len()).sum();
    if ready + not_ready <= CAPACITY {
        return false;
    }
    let cut_ready = ready > CAPACITY;
    let (most, total) = if cut_ready { (CAPACITY, ready) } else { (CAPACITY - ready, not_ready) };
    let mut left = most;
    for subset in subsets {
        let list = if cut_ready { &mut subset.addresses } else { &mut subset.not_ready };
        // Rounded up: the last subset gets a little less.
        let share = (list.len() * most).div_ceil(total.max(1)).min(left);
        list.truncate(share);
        left -= list.len();
        if cut_ready {
            subset.not_ready.clear();
        }
    }
    true
}

/// Are the labels what this controller would set? The headless one is not looked at.
pub fn labels_are_right(labels: &BTreeMap<String, String>, service: &ServiceView) -> bool {
    let others = labels.iter().filter(|(name, _)| *name != HEADLESS && *name != MANAGED_BY);
    labels.get(MANAGED_BY).is_some_and(|by| by == CONTROLLER) && others.eq(service.labels.iter())
}

pub fn labels(service: &ServiceView) -> BTreeMap<String, String> {
    let mut labels = service.labels.clone();
    labels.remove(HEADLESS);
    if !service.has_ip() {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    labels
}

impl Subset {
    pub fn read_all(endpoints: &Value) -> Vec<Subset> {
        let subsets = endpoints.get("subsets").and_then(Value::as_list).unwrap_or_default();
        subsets.iter().map(Subset::read).collect()
    }

    fn read(subset: &Value) -> Subset {
        let list = |name: &str| subset.get(name).and_then(Value::as_list).unwrap_or_default();
        let address = |address: &Value| {
            let text = |path: &[&str]| address.str_at(path).unwrap_or("").to_owned();
            Address {
                ip: text(&["ip"]),
                hostname: text(&["hostname"]),
                node: text(&["nodeName"]),
                target: address.get("targetRef").map(Target::read).unwrap_or_default(),
            }
        };
        let port = |port: &Value| Port {
            name: port.str_at(&["name"]).unwrap_or("").to_owned(),
            port: port.get("port").and_then(Value::as_int).unwrap_or(0),
            protocol: port.str_at(&["protocol"]).unwrap_or("TCP").to_owned(),
            app_protocol: port.str_at(&["appProtocol"]).map(str::to_owned),
        };
        Subset {
            addresses: list("addresses").iter().map(address).collect(),
            not_ready: list("notReadyAddresses").iter().map(address).collect(),
            ports: list("ports").iter().map(port).collect(),
        }
    }

    pub fn to_value(&self) -> Value {
        let mut subset = Map::default();
        let lists = [("addresses", &self.addresses), ("notReadyAddresses", &self.not_ready)];
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            subset.set(name, Value::List(list.iter().map(Address::to_value).collect()));
        }
        if !self.ports.is_empty() {
            subset.set("ports", Value::List(self.ports.iter().map(Port::to_value).collect()));
        }
        Value::Map(subset)
    }
}

impl Address {
    fn to_value(&self) -> Value {
        let mut address = Map::default();
        set_texts(&mut address, &[("ip", &self.ip), ("hostname", &self.hostname), ("nodeName", &self.node)]);
        address.set("targetRef", self.target.to_value());
        Value::Map(address)
    }
}

impl Port {
    fn to_value(&self) -> Value {
        let mut port = Map::default();
        set_texts(&mut port, &[("name", &self.name)]);
        port.set("port", self.port);
        port.set("protocol", self.protocol.clone());
        if let Some(app) = &self.app_protocol {
            port.set("appProtocol", app.clone());
        }
        Value::Map(port)
    }
}

fn set_texts(map: &mut Map, texts: &[(&'static str, &String)]) {
    for (name, text) in texts.iter().filter(|(_, text)| !text.is_empty()) {
        map.set(*name, (*text).clone());
    }
}
