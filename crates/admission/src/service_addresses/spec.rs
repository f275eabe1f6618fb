//! The part of a service that allotting reads and writes.

use std::net::IpAddr;

use object::Value;

use super::Family;

pub(super) const NONE: &str = "None";
pub(super) const EXTERNAL_NAME: &str = "ExternalName";
const LOAD_BALANCER: &str = "LoadBalancer";

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spec {
    pub kind: String,
    pub cluster_ip: String,
    pub cluster_ips: Vec<String>,
    pub families: Vec<String>,
    pub policy: Option<String>,
    pub has_selector: bool,
    pub ports: Vec<Port>,
    pub health_check: i64,
    allocate_ports: Option<bool>,
    traffic_is_local: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Port {
    pub name: String,
    pub protocol: String,
    pub port: i64,
    pub node_port: i64,
}

impl Spec {
    pub(super) fn of(service: &Value) -> Spec {
        let none = Value::Null;
        let spec = service.get("spec").unwrap_or(&none);
        let text = |v: &Value, name: &str| v.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        let int = |v: &Value, name: &str| v.get(name).and_then(Value::as_int).unwrap_or(0);
        let list = |name: &str| spec.get(name).and_then(Value::as_list).unwrap_or_default();
        let texts = |name: &str| -> Vec<String> {
            list(name).iter().map(|v| v.as_str().unwrap_or("").to_owned()).collect()
        };
        let port = |p: &Value| Port {
            name: text(p, "name"),
            protocol: text(p, "protocol"),
            port: int(p, "port"),
            node_port: int(p, "nodePort"),
        };
        Spec {
            kind: text(spec, "type"),
            cluster_ip: text(spec, "clusterIP"),
            cluster_ips: texts("clusterIPs"),
            families: texts("ipFamilies"),
            policy: spec.get("ipFamilyPolicy").and_then(Value::as_str).map(str::to_owned),
            has_selector: spec.get("selector").and_then(Value::as_map).is_some_and(|m| !m.is_empty()),
            ports: list("ports").iter().map(port).collect(),
            health_check: int(spec, "healthCheckNodePort"),
            allocate_ports: spec.get("allocateLoadBalancerNodePorts").and_then(Value::as_bool),
            traffic_is_local: text(spec, "externalTrafficPolicy") == "Local",
        }
    }

    pub(super) fn write_into(&self, service: &mut Value) {
        let spec = service.map_at(&["spec"]);
        let mut put = |name: &'static str, value: Value| {
            let empty = match &value {
                Value::Str(s) => s.is_empty(),
                Value::List(l) => l.is_empty(),
                Value::Int(i) => *i == 0,
                other => other.is_null(),
            };
            if empty {
                spec.remove(name);
            } else {
                spec.set(name, value);
            }
        };
        let list = |texts: &[String]| Value::List(texts.iter().map(|t| Value::from(t.as_str())).collect());
        put("clusterIP", self.cluster_ip.as_str().into());
        put("clusterIPs", list(&self.cluster_ips));
        put("ipFamilies", list(&self.families));
        put("healthCheckNodePort", self.health_check.into());
        // A policy that is there and empty is a mistake, and must stay one.
        match &self.policy {
            Some(policy) => spec.set("ipFamilyPolicy", policy.as_str()),
            None => {
                spec.remove("ipFamilyPolicy");
            }
        }
        let Some(Value::List(ports)) = spec.get_mut("ports") else { return };
        for (port, allocated) in ports.iter_mut().filter_map(Value::as_map_mut).zip(&self.ports) {
            if allocated.node_port == 0 {
                port.remove("nodePort");
            } else {
                port.set("nodePort", allocated.node_port);
            }
        }
    }

    pub(super) fn needs_address(&self) -> bool {
        self.kind != EXTERNAL_NAME
    }
    pub(super) fn is_headless(&self) -> bool {
        self.cluster_ips.first().is_some_and(|ip| ip == NONE)
    }
    pub(super) fn may_have_node_ports(&self) -> bool {
        matches!(self.kind.as_str(), "NodePort" | LOAD_BALANCER)
    }
    /// Do ports without a node port get one?
    pub(super) fn gets_node_ports(&self) -> bool {
        self.kind == "NodePort" || (self.kind == LOAD_BALANCER && self.allocate_ports.unwrap_or(true))
    }
    pub(super) fn needs_health_check(&self) -> bool {
        self.kind == LOAD_BALANCER && self.traffic_is_local
    }
    pub(super) fn node_ports(&self) -> impl Iterator<Item = i64> {
        self.ports.iter().map(|p| p.node_port).filter(|port| *port != 0)
    }
    /// The addresses that were allocated, with their families.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let held = self.needs_address() && !self.is_headless();
        self.cluster_ips.iter().filter(move |_| held).filter_map(|ip| ip.parse().ok())
    }

    /// A client that sends what it once sent, without what it was given, keeps what it was given.
    pub(super) fn keep_allocated(&mut self, old: &Spec) {
        if old.needs_address() && self.needs_address() {
            if self.cluster_ip.is_empty() {
                self.cluster_ip.clone_from(&old.cluster_ip);
            }
            if self.cluster_ips.is_empty() {
                self.cluster_ips.clone_from(&old.cluster_ips);
            }
        }
        if old.gets_node_ports() && self.gets_node_ports() {
            let named: Vec<i64> = self.node_ports().collect();
            let taken: Vec<i64> = old.node_ports().filter(|port| named.contains(port)).collect();
            for port in self.ports.iter_mut().filter(|p| p.node_port == 0) {
                // Of two old ports with one name the last counts, as in upstream's map.
                let before = old.ports.iter().rev().find(|p| p.name == port.name).map_or(0, |p| p.node_port);
                if !taken.contains(&before) {
                    port.node_port = before;
                }
            }
        }
        if old.needs_health_check() && self.needs_health_check() && self.health_check == 0 {
            self.health_check = old.health_check;
        }
    }

    /// Old clients know the one address only: what do they mean for the list?
    pub(super) fn pair_cluster_ips(&mut self, old: Option<&Spec>) {
        let Some(old) = old else {
            if !self.cluster_ip.is_empty() && self.cluster_ips.is_empty() {
                self.cluster_ips = vec![self.cluster_ip.clone()];
            }
            return;
        };
        let same_ip = old.cluster_ip == self.cluster_ip;
        if !old.cluster_ips.is_empty() && self.cluster_ips.is_empty() && same_ip {
            self.cluster_ips.clone_from(&old.cluster_ips);
        }
        if !same_ip && self.cluster_ips == old.cluster_ips {
            let cleared = !old.cluster_ip.is_empty() && self.cluster_ip.is_empty();
            self.cluster_ips = if cleared { Vec::new() } else { vec![self.cluster_ip.clone()] };
        }
    }
}

pub(super) fn family_of(ip: &str) -> Option<Family> {
    ip.parse().ok().map(|ip: IpAddr| Family::of(&ip))
}
