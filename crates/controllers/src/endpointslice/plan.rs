//! Which slices of a service to make, change and delete, touching as few as possible.
//!
//! ```text
//! pods ─ by ports ─ endpoints ──┐
//!                               ├─ 1. keep them where they are  2. fill slices that change anyway
//! slices of the service ────────┘   3. fill the one that becomes fullest, else a new one
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kinds::pod::view::PodView;

use super::draft::{self, Draft};
use super::hints::Distribution;
use super::placed;
use super::slice::{Endpoint, Identity, Port, SliceView, port_key};
use super::topology::{self, Hinted, News, Ratios};
use crate::services::{
    Family, HEADLESS, MANAGED_BY, SERVICE_NAME, ServiceView, Target, addresses, may_be_endpoint, parse_ip,
};

pub const CONTROLLER: &str = "endpointslice-controller.k8s.io";

/// A pod the service selects.
pub struct Member<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub pod: Arc<PodView>,
    pub node: NodeOfPod,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeOfPod {
    Missing,
    /// Its zone, if it has one.
    There(Option<String>),
}

pub type Plan = draft::Plan<Notes>;

#[derive(Debug, Default, PartialEq)]
pub struct Notes {
    /// Pods left out because their node is not known: look again later.
    pub skipped: Vec<String>,
    /// What to tell people of the hints by zone.
    pub news: Vec<News>,
    /// How many endpoints fitted into no slice that changes anyway.
    pub left: Vec<(placed::Group, usize)>,
    /// So many slices hold nothing any more, whatever becomes of them.
    pub deleted: usize,
}

/// `most`: endpoints in one slice. `more`: the service has other slices besides, that stay as they are. `ratios` and `hinted` are for services that ask for hints by zone.
pub fn plan(
    service: &ServiceView,
    members: &[Member<'_>],
    slices: &[Arc<SliceView>],
    most: usize,
    more: bool,
    ratios: Option<&Ratios>,
    hinted: &mut Hinted,
) -> Plan {
    let mut plan = Plan::default();
    let families = families(service);
    for family in &families {
        let typed = |i: &usize| slices[*i].address_type == family.as_str();
        let there: Vec<usize> = (0..slices.len()).filter(typed).collect();
        let mut part = plan_family(service, members, slices, &there, *family, most);
        if more && part.notes.deleted == 0 {
            // The slice every service has is one of the others.
            part.create.retain(|draft| !draft.endpoints.is_empty());
        }
        if service.topology_auto {
            topology::hint(&mut part, slices, &there, *family, ratios, hinted);
        } else {
            if hinted.on {
                let why = "Topology Aware Hints has been disabled".to_owned();
                part.notes.news.push(News::Disabled(*family, why));
            }
            hinted.remove(*family);
            let distribution = Distribution::of(service.traffic_distribution.as_deref());
            distribute(&mut part, slices, &there, *family, distribution);
        }
        reuse(&mut part, service, slices);
        plan.create.extend(part.create);
        plan.update.extend(part.update);
        plan.delete.extend(part.delete);
        plan.notes.news.extend(part.notes.news);
        plan.notes.left.extend(part.notes.left);
        plan.notes.deleted += part.notes.deleted;
        for skipped in part.notes.skipped {
            if !plan.notes.skipped.contains(&skipped) {
                plan.notes.skipped.push(skipped);
            }
        }
    }
    let unsupported = |i: &usize| families.iter().all(|family| slices[*i].address_type != family.as_str());
    plan.delete.extend((0..slices.len()).filter(unsupported));
    for family in [Family::V4, Family::V6].into_iter().filter(|family| !families.contains(family)) {
        if hinted.zones.contains_key(&family) {
            hinted.remove(family);
        } else {
            hinted.denied.remove(&family);
        }
    }
    plan
}

/// Labels of every slice of the service.
pub fn labels(service: &ServiceView) -> BTreeMap<String, String> {
    let mut labels = own_labels(&service.labels);
    if !service.has_ip() {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(SERVICE_NAME.to_owned(), service.name.clone());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    labels
}

/// Without those that are the controller's own.
fn own_labels(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let reserved = |name: &str| [SERVICE_NAME, MANAGED_BY, HEADLESS].contains(&name);
    labels.iter().filter(|(name, _)| !reserved(name)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// Both, while nobody has said which: a slice too many does no harm.
fn families(service: &ServiceView) -> Vec<Family> {
    if !service.families.is_empty() {
        let set: BTreeSet<Family> = service.families.iter().copied().collect();
        return set.into_iter().collect();
    }
    if service.has_ip() {
        let v6 = parse_ip(&service.cluster_ip).is_some_and(|ip| ip.is_ipv6());
        return vec![if v6 { Family::V6 } else { Family::V4 }];
    }
    vec![Family::V4, Family::V6]
}

/// One group: endpoints with the same ports.
struct Group {
    ports: Vec<Port>,
    endpoints: BTreeMap<Identity, Endpoint>,
}

fn plan_family(
    service: &ServiceView,
    members: &[Member<'_>],
    slices: &[Arc<SliceView>],
    there: &[usize],
    family: Family,
    most: usize,
) -> Plan {
    let mut plan = Plan::default();
    let owned = |i: usize| slices[i].owners.contains(&service.uid);
    let mut by_ports: BTreeMap<Vec<Port>, Vec<usize>> = BTreeMap::new();
    for i in there.iter().copied() {
        if owned(i) {
            by_ports.entry(port_key(&slices[i].ports)).or_default().push(i);
        } else {
            plan.delete.push(i);
        }
    }
    let (groups, skipped) = groups(service, members, family);
    plan.notes.skipped = skipped;
    let labels = labels(service);
    let draft = |ports: Vec<Port>| Draft {
        annotations: None,
        address_type: family,
        ports,
        endpoints: Vec::new(),
        labels: labels.clone(),
    };
    for (key, group) in &groups {
        let there = by_ports.get(key).map(Vec::as_slice).unwrap_or_default();
        pack(&mut plan, service, slices, there, group, &|| draft(group.ports.clone()), most);
    }
    let unwanted = by_ports.iter().filter(|(key, _)| !groups.contains_key(*key));
    plan.delete.extend(unwanted.flat_map(|(_, there)| there.iter().copied()));
    plan.notes.deleted = plan.delete.len();

    // A service always has a slice, if only an empty one: so people see that somebody looks after it.
    if there.len() == plan.delete.len() && plan.create.is_empty() {
        let is_placeholder = |slice: &SliceView| {
            slice.endpoints.is_empty() && slice.ports.is_empty() && slice.labels == labels
        };
        match plan.delete.as_slice() {
            [only] if is_placeholder(&slices[*only]) => plan.delete.clear(),
            _ => plan.create.push(draft(Vec::new())),
        }
    }
    plan
}

/// What would be deleted can as well become what would be made.
fn reuse(plan: &mut Plan, service: &ServiceView, slices: &[Arc<SliceView>]) {
    let mut delete = Vec::new();
    for i in std::mem::take(&mut plan.delete) {
        match plan.create.last() {
            Some(_) if slices[i].owners.contains(&service.uid) => {
                plan.update.extend(plan.create.pop().map(|draft| (i, draft)));
            }
            _ => delete.push(i),
        }
    }
    plan.delete = delete;
    // Not while it goes: the garbage collector would have to chase what is made.
    if service.deleting {
        plan.create.clear();
    }
}

/// The endpoints there should be, by their ports; and pods that cannot be placed.
fn groups(
    service: &ServiceView,
    members: &[Member<'_>],
    family: Family,
) -> (BTreeMap<Vec<Port>, Group>, Vec<String>) {
    let mut groups: BTreeMap<Vec<Port>, Group> = BTreeMap::new();
    let mut skipped = Vec::new();
    for member in members.iter().filter(|member| may_be_endpoint(&member.pod, true)) {
        let ports = port_key(&ports(service, &member.pod));
        let group =
            groups.entry(ports.clone()).or_insert_with(|| Group { ports, endpoints: BTreeMap::new() });
        if member.node == NodeOfPod::Missing && !service.publish_not_ready {
            skipped.push(format!(
                "skipping Pod {} for Service {}/{}: Node {} Not Found",
                member.name, service.namespace, service.name, member.pod.node
            ));
            continue;
        }
        let endpoint = endpoint(service, member, family);
        if !endpoint.addresses.is_empty() {
            group.endpoints.insert(endpoint.identity(), endpoint);
        }
    }
    (groups, skipped)
}

fn endpoint(service: &ServiceView, member: &Member<'_>, family: Family) -> Endpoint {
    let pod = &member.pod;
    let terminating = pod.deletion != 0;
    let mut addresses = addresses(pod, family);
    addresses.sort();
    let zone = match &member.node {
        NodeOfPod::There(zone) => zone.clone(),
        NodeOfPod::Missing => None,
    };
    Endpoint {
        addresses,
        ready: Some(service.publish_not_ready || (pod.ready && !terminating)),
        serving: Some(pod.ready),
        terminating: Some(terminating),
        hostname: service.names(pod).then(|| pod.hostname.to_string()),
        node: (!pod.node.is_empty()).then(|| pod.node.to_string()),
        zone,
        target: Some(Target::pod(member.namespace, member.name, member.uid)),
        hints: Default::default(),
    }
}

/// Ports the pod does not have are left out.
fn ports(service: &ServiceView, pod: &PodView) -> Vec<Port> {
    let found = |port: &crate::services::ServicePort| {
        Some(Port {
            name: port.name.clone(),
            port: ServiceView::find_port(port, pod)?,
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        })
    };
    service.ports.iter().filter_map(found).collect()
}

/// Places one group's endpoints in its slices.
fn pack(
    plan: &mut Plan,
    service: &ServiceView,
    slices: &[Arc<SliceView>],
    there: &[usize],
    group: &Group,
    new: &dyn Fn() -> Draft,
    most: usize,
) {
    let mut wanted = group.endpoints.clone();
    let mut changed: Vec<(usize, Draft)> = Vec::new();
    let mut unchanged: Vec<usize> = Vec::new();
    for i in there.iter().copied() {
        let slice = &slices[i];
        let mut endpoints = Vec::with_capacity(slice.endpoints.len());
        let mut differs = false;
        for endpoint in &slice.endpoints {
            if let Some(desired) = wanted.remove(&endpoint.identity()) {
                differs |= !desired.says_the_same(endpoint);
                endpoints.push(desired);
            }
        }
        differs |= endpoints.len() != slice.endpoints.len();
        let labels_differ = own_labels(&slice.labels) != own_labels(&service.labels);
        if differs && endpoints.is_empty() {
            plan.delete.push(i);
        } else if differs {
            changed.push((i, Draft { endpoints, ..new() }));
        } else if labels_differ {
            changed.push((i, Draft { endpoints: slice.endpoints.clone(), ..new() }));
        } else {
            unchanged.push(i);
        }
    }
    let mut left = wanted.into_values();
    // The fullest first.
    changed.sort_by_key(|(i, draft)| (std::cmp::Reverse(draft.endpoints.len()), *i));
    for (_, draft) in &mut changed {
        let room = most.saturating_sub(draft.endpoints.len());
        draft.endpoints.extend(left.by_ref().take(room));
    }
    if left.len() > 0 {
        let group = placed::Group {
            address_type: new().address_type.as_str().to_owned(),
            ports: port_key(&group.ports),
        };
        plan.notes.left.push((group, left.len()));
    }
    while left.len() > 0 {
        let count = left.len();
        let room = |i: &usize| most.checked_sub(count + slices[*i].endpoints.len());
        let best =
            unchanged.iter().copied().filter(|i| count < most && room(i).is_some()).min_by_key(|i| room(i));
        let mut draft = new();
        match best {
            Some(i) => {
                unchanged.retain(|other| *other != i);
                draft.endpoints.extend(slices[i].endpoints.iter().cloned().chain(left.by_ref()));
                changed.push((i, draft));
            }
            None => {
                draft.endpoints.extend(left.by_ref().take(most));
                plan.create.push(draft);
            }
        }
    }
    plan.update.extend(changed);
}

/// Hints of all slices that stay, as the traffic shall be distributed.
pub fn distribute(
    plan: &mut Plan,
    slices: &[Arc<SliceView>],
    there: &[usize],
    family: Family,
    distribution: Distribution,
) {
    for i in plan.untouched(there) {
        if distribution.needs_update(&slices[i].endpoints) {
            plan.update.push((i, Draft::of(&slices[i], family)));
        }
    }
    for draft in plan.drafts_mut() {
        distribution.update(&mut draft.endpoints);
    }
}
