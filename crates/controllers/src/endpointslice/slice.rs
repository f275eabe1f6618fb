//! An EndpointSlice as plain data: read from an object, compared, written into a tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use object::{Map, Obj, Value};

use crate::port_order;
use crate::services::Target;

/// One line of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Sorted.
    pub addresses: Vec<String>,
    pub ready: Option<bool>,
    pub serving: Option<bool>,
    pub terminating: Option<bool>,
    pub hostname: Option<String>,
    pub node: Option<String>,
    pub zone: Option<String>,
    pub target: Option<Target>,
    pub hints: Hints,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    pub zones: Vec<String>,
    pub nodes: Vec<String>,
}

/// What makes two endpoints the same one; the rest may change in place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    addresses: Vec<String>,
    hostname: String,
    namespace: String,
    name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    pub name: String,
    pub port: i64,
    pub protocol: String,
    pub app_protocol: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SliceView {
    pub name: String,
    pub address_type: String,
    pub ports: Vec<Port>,
    pub endpoints: Vec<Endpoint>,
    pub labels: BTreeMap<String, String>,
    /// uids of the Services that own it.
    pub owners: Vec<String>,
}

/// The view of a slice's object, made once per revision.
pub fn slice_view(slice: &Obj) -> Arc<SliceView> {
    slice.view(|slice| SliceView::read(&runtime::tree(slice)))
}

/// Slices with the same ports hold endpoints of one group, in whatever order the ports stand. New ones have them in this.
pub fn port_key(ports: &[Port]) -> Vec<Port> {
    let mut key = ports.to_vec();
    key.sort_by_key(|port| {
        port_order::in_slice(&port.name, port.port, &port.protocol, port.app_protocol.as_deref())
    });
    key
}

impl SliceView {
    pub fn read(slice: &Value) -> SliceView {
        let list = |path: &[&str]| slice.at(path).and_then(Value::as_list).unwrap_or_default();
        let labels =
            slice.at(&["metadata", "labels"]).and_then(Value::as_map).into_iter().flat_map(|m| m.iter());
        let service = |owner: &&Value| {
            owner.str_at(&["kind"]) == Some("Service") && owner.str_at(&["apiVersion"]) == Some("v1")
        };
        SliceView {
            name: slice.str_at(&["metadata", "name"]).unwrap_or("").to_owned(),
            address_type: slice.str_at(&["addressType"]).unwrap_or("").to_owned(),
            ports: list(&["ports"]).iter().map(read_port).collect(),
            endpoints: list(&["endpoints"]).iter().map(Endpoint::read).collect(),
            labels: labels.filter_map(|(k, v)| Some((k.to_string(), v.as_str()?.to_owned()))).collect(),
            owners: list(&["metadata", "ownerReferences"])
                .iter()
                .filter(service)
                .filter_map(|owner| owner.str_at(&["uid"]).map(str::to_owned))
                .collect(),
        }
    }
}

fn read_port(port: &Value) -> Port {
    Port {
        name: port.str_at(&["name"]).unwrap_or("").to_owned(),
        port: port.get("port").and_then(Value::as_int).unwrap_or(0),
        protocol: port.str_at(&["protocol"]).unwrap_or("TCP").to_owned(),
        app_protocol: port.str_at(&["appProtocol"]).map(str::to_owned),
    }
}

impl Endpoint {
    fn read(endpoint: &Value) -> Endpoint {
        let text = |name: &str| endpoint.str_at(&[name]).map(str::to_owned);
        let flag = |name: &str| endpoint.at(&["conditions", name]).and_then(Value::as_bool);
        let names = |name: &str| {
            let hints = endpoint.at(&["hints", name]).and_then(Value::as_list).unwrap_or_default();
            hints.iter().filter_map(|hint| hint.str_at(&["name"]).map(str::to_owned)).collect()
        };
        let addresses = endpoint.get("addresses").and_then(Value::as_list).unwrap_or_default();
        let mut addresses: Vec<String> =
            addresses.iter().filter_map(|a| a.as_str().map(str::to_owned)).collect();
        addresses.sort();
        Endpoint {
            addresses,
            ready: flag("ready"),
            serving: flag("serving"),
            terminating: flag("terminating"),
            hostname: text("hostname"),
            node: text("nodeName"),
            zone: text("zone"),
            target: endpoint.get("targetRef").map(Target::read),
            hints: Hints { zones: names("forZones"), nodes: names("forNodes") },
        }
    }

    pub fn identity(&self) -> Identity {
        let target = |of: fn(&Target) -> &String| self.target.as_ref().map(of).cloned().unwrap_or_default();
        Identity {
            addresses: self.addresses.clone(),
            hostname: self.hostname.clone().unwrap_or_default(),
            namespace: target(|t| &t.namespace),
            name: target(|t| &t.name),
        }
    }

    /// Equal in everything but hints, which are judged by themselves.
    pub fn says_the_same(&self, other: &Endpoint) -> bool {
        Endpoint { hints: Hints::default(), ..self.clone() }
            == Endpoint { hints: Hints::default(), ..other.clone() }
    }

    pub fn to_value(&self) -> Value {
        let mut endpoint = Map::default();
        endpoint.set("addresses", texts(&self.addresses));
        let mut conditions = Map::default();
        for (name, flag) in
            [("ready", self.ready), ("serving", self.serving), ("terminating", self.terminating)]
        {
            if let Some(flag) = flag {
                conditions.set(name, flag);
            }
        }
        endpoint.set("conditions", Value::Map(conditions));
        if let Some(hostname) = &self.hostname {
            endpoint.set("hostname", hostname.clone());
        }
        if let Some(target) = &self.target {
            endpoint.set("targetRef", target.to_value());
        }
        if let Some(node) = &self.node {
            endpoint.set("nodeName", node.clone());
        }
        if let Some(zone) = &self.zone {
            endpoint.set("zone", zone.clone());
        }
        let mut hints = Map::default();
        for (name, names) in [("forZones", &self.hints.zones), ("forNodes", &self.hints.nodes)] {
            if !names.is_empty() {
                let named = |name: &String| {
                    let mut hint = Map::default();
                    hint.set("name", name.clone());
                    Value::Map(hint)
                };
                hints.set(name, Value::List(names.iter().map(named).collect()));
            }
        }
        if !hints.is_empty() {
            endpoint.set("hints", Value::Map(hints));
        }
        Value::Map(endpoint)
    }
}

impl Port {
    pub fn to_value(&self) -> Value {
        let mut port = Map::default();
        port.set("name", self.name.clone());
        port.set("port", self.port);
        port.set("protocol", self.protocol.clone());
        if let Some(app) = &self.app_protocol {
            port.set("appProtocol", app.clone());
        }
        Value::Map(port)
    }
}

fn texts(list: &[String]) -> Value {
    Value::List(list.iter().map(|text| Value::Str(text.clone())).collect())
}
