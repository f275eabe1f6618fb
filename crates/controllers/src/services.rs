//! Services as the endpoints controllers see them, which pods they select, and what of a pod matters to them.

mod slices;
mod target;
mod trigger;

#[cfg(test)]
pub mod tests;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use kinds::pod::view::PodView;
use object::selector::LabelSelector;
use object::{Obj, Value, time};
use runtime::{Informer, InformerEvent, Key};

pub use slices::{MANAGED_BY, SERVICE_NAME, Slices};
pub use target::Target;
pub use trigger::TriggerTimes;

use crate::claim::{index_selectors, selecting};
use crate::pod_view;

pub const HEADLESS: &str = "service.kubernetes.io/headless";
pub const LAST_CHANGE: &str = "endpoints.kubernetes.io/last-change-trigger-time";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub fn as_str(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum TargetPort {
    Number(i64),
    Name(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ServicePort {
    pub name: String,
    pub protocol: String,
    pub target: TargetPort,
    pub app_protocol: Option<String>,
}

/// What a Service wants of its endpoints.
#[derive(Clone, Debug)]
pub struct ServiceView {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    /// `None`: no selector, the endpoints are somebody else's affair.
    pub selector: Option<LabelSelector>,
    pub external_name: bool,
    /// Empty, "None", or an address.
    pub cluster_ip: String,
    pub families: Vec<Family>,
    pub ports: Vec<ServicePort>,
    pub publish_not_ready: bool,
    pub traffic_distribution: Option<String>,
    /// The annotation for topology-aware hints says "Auto".
    pub topology_auto: bool,
    pub created: i64,
    pub deleting: bool,
}

/// The view of a Service's object, made once per revision for all controllers.
pub fn service_view(service: &Obj) -> Arc<ServiceView> {
    service.view(|service| ServiceView::read(&runtime::tree(service)))
}

impl ServiceView {
    pub fn read(service: &Value) -> ServiceView {
        let text = |path: &[&str]| service.str_at(path).unwrap_or("").to_owned();
        let list = |path: &[&str]| service.at(path).and_then(Value::as_list).unwrap_or_default();
        let pairs = |path: &[&str]| -> BTreeMap<String, String> {
            let map = service.at(path).and_then(Value::as_map).into_iter().flat_map(|m| m.iter());
            map.filter_map(|(k, v)| Some((k.to_string(), v.as_str()?.to_owned()))).collect()
        };
        let selector = pairs(&["spec", "selector"]);
        let annotations = pairs(&["metadata", "annotations"]);
        let mode = annotations
            .get("service.kubernetes.io/topology-aware-hints")
            .or_else(|| annotations.get("service.kubernetes.io/topology-mode"));
        let families = list(&["spec", "ipFamilies"]).iter().filter_map(|family| match family.as_str() {
            Some("IPv4") => Some(Family::V4),
            Some("IPv6") => Some(Family::V6),
            _ => None,
        });
        ServiceView {
            namespace: text(&["metadata", "namespace"]),
            name: text(&["metadata", "name"]),
            uid: text(&["metadata", "uid"]),
            labels: pairs(&["metadata", "labels"]),
            selector: (!selector.is_empty())
                .then(|| LabelSelector::from_labels(selector.iter().map(|(k, v)| (k.as_str(), v.as_str())))),
            external_name: service.str_at(&["spec", "type"]) == Some("ExternalName"),
            cluster_ip: text(&["spec", "clusterIP"]),
            families: families.collect(),
            ports: list(&["spec", "ports"]).iter().map(port).collect(),
            publish_not_ready: service
                .at(&["spec", "publishNotReadyAddresses"])
                .and_then(Value::as_bool)
                .unwrap_or(false),
            traffic_distribution: service.str_at(&["spec", "trafficDistribution"]).map(str::to_owned),
            topology_auto: mode.is_some_and(|mode| mode == "Auto" || mode == "auto"),
            created: service
                .str_at(&["metadata", "creationTimestamp"])
                .and_then(time::parse)
                .map_or(0, |(seconds, _)| seconds),
            deleting: service.at(&["metadata", "deletionTimestamp"]).is_some(),
        }
    }

    /// It has an address of its own.
    pub fn has_ip(&self) -> bool {
        !self.cluster_ip.is_empty() && self.cluster_ip != "None"
    }
    /// The controllers here fill its endpoints.
    pub fn is_ours(&self) -> bool {
        !self.external_name && self.selector.is_some()
    }
    pub fn selects(&self, pod: &Obj) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(&|name| pod.label(name)))
    }
    /// The pod's port a service port leads to.
    pub fn find_port(port: &ServicePort, pod: &PodView) -> Option<i64> {
        match &port.target {
            TargetPort::Number(number) => Some(*number),
            TargetPort::Name(name) => {
                let named =
                    |p: &&kinds::pod::view::PortView| *p.name == **name && *p.protocol == *port.protocol;
                pod.ports.iter().find(named).map(|p| p.number)
            }
        }
    }
    /// Should the endpoint carry the pod's host name?
    pub fn names(&self, pod: &PodView) -> bool {
        !pod.hostname.is_empty() && *pod.subdomain == *self.name
    }
}

fn port(port: &Value) -> ServicePort {
    let number = || port.get("port").and_then(Value::as_int).unwrap_or(0);
    ServicePort {
        name: port.str_at(&["name"]).unwrap_or("").to_owned(),
        protocol: port.str_at(&["protocol"]).unwrap_or("TCP").to_owned(),
        target: match port.get("targetPort") {
            Some(Value::Str(name)) => TargetPort::Name(name.clone()),
            Some(Value::Int(number)) => TargetPort::Number(*number),
            _ => TargetPort::Number(number()),
        },
        app_protocol: port.str_at(&["appProtocol"]).map(str::to_owned),
    }
}

/// Can the pod be an endpoint at all?
pub fn may_be_endpoint(pod: &PodView, with_terminating: bool) -> bool {
    !pod.is_terminal() && !pod.ips.is_empty() && (with_terminating || pod.deletion == 0)
}

/// The pod's addresses of a family, in the usual spelling.
pub fn addresses(pod: &PodView, family: Family) -> Vec<String> {
    let parsed = pod.ips.iter().filter_map(|ip| parse_ip(ip));
    parsed.filter(|ip| ip.is_ipv6() == (family == Family::V6)).map(|ip| ip.to_string()).collect()
}

/// Also takes IPv4 addresses with leading zeros; an IPv4 address in IPv6 clothes is IPv4.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = parts.next()?.parse().ok()?;
    }
    parts.next().is_none().then(|| IpAddr::V4(Ipv4Addr::from(octets)))
}

/// The services whose endpoints a change of a pod may change.
pub fn services_to_update(services: &Informer, event: &InformerEvent<'_>) -> Vec<Key> {
    let (old, new) = match event {
        InformerEvent::Added { obj, .. } | InformerEvent::Deleted { obj, .. } => (*obj, *obj),
        InformerEvent::Updated { sync: true, .. } => return Vec::new(),
        InformerEvent::Updated { old, new, .. } => (*old, *new),
    };
    let mut all = selecting(services, new);
    if !old.labels().eq(new.labels()) {
        all.extend(selecting(services, old));
        all.sort_by(|a, b| a.path().cmp(b.path()));
        all.dedup_by(|a, b| a.path() == b.path());
    }
    // Most pods are of no service: then it does not matter what changed.
    if all.is_empty() {
        return Vec::new();
    }
    let changed = !matches!(event, InformerEvent::Updated { .. }) || matters(&pod_view(old), &pod_view(new));
    let concerned = |service: &ServiceView| match (service.selects(old), service.selects(new)) {
        (true, true) => changed,
        (false, false) => false,
        _ => true,
    };
    all.iter().filter(|service| concerned(&service_view(service))).map(|service| Key::of(service)).collect()
}

/// Has to be called before [`services_to_update`].
pub fn index_services(services: &Informer) {
    index_selectors(services, |service| {
        service_view(service).selector.clone().ok_or_else(|| "there is none".to_owned())
    });
}

/// Did anything of the pod change that endpoints show?
fn matters(old: &PodView, new: &PodView) -> bool {
    (old.deletion != 0) != (new.deletion != 0)
        || old.ready != new.ready
        || old.ips != new.ips
        || old.is_terminal() != new.is_terminal()
        || old.hostname != new.hostname
        || old.subdomain != new.subdomain
        || old.node != new.node
}
