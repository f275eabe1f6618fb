//! Which slices mirror an Endpoints object: one for each of its subsets and address family.

use std::collections::BTreeMap;

use object::{Map, Value};

use crate::endpoints::{Address, Subset, repack};
use crate::endpointslice::{Draft, Endpoint, Identity, Port, SlicePlan, SliceView, port_key};
use crate::services::{Family, LAST_CHANGE, MANAGED_BY, SERVICE_NAME, Target, parse_ip};

pub const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
pub const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";

const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Do Endpoints like these ask for mirrors? Whether their service does is another question.
pub fn is_mirrored(endpoints: &Value) -> bool {
    endpoints.str_at(&["metadata", "labels", SKIP]) != Some("true")
        && endpoints.at(&["metadata", "annotations", LEADER]).is_none()
}

/// What is mirrored.
pub struct EndpointsView {
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub subsets: Vec<Subset>,
    pub deleting: bool,
}

impl EndpointsView {
    pub fn read(endpoints: &Value) -> EndpointsView {
        let text = |name: &str| endpoints.str_at(&["metadata", name]).unwrap_or("").to_owned();
        EndpointsView {
            name: text("name"),
            uid: text("uid"),
            labels: pairs(endpoints, "labels"),
            annotations: pairs(endpoints, "annotations"),
            subsets: repack(&Subset::read_all(endpoints)),
            deleting: endpoints.at(&["metadata", "deletionTimestamp"]).is_some(),
        }
    }
}

/// A slice that is there.
#[derive(Clone, Debug)]
pub struct Mirror {
    pub slice: SliceView,
    pub annotations: BTreeMap<String, String>,
    /// (name, uid) of Endpoints.
    pub owners: Vec<(String, String)>,
}

impl Mirror {
    pub fn read(slice: &Value) -> Mirror {
        let owners = slice.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
        let owners = owners.iter().filter(|owner| owner.str_at(&["kind"]) == Some("Endpoints"));
        let text = |owner: &Value, name: &str| owner.str_at(&[name]).unwrap_or("").to_owned();
        Mirror {
            slice: SliceView::read(slice),
            annotations: pairs(slice, "annotations"),
            owners: owners.map(|owner| (text(owner, "name"), text(owner, "uid"))).collect(),
        }
    }
}

pub type Plan = SlicePlan<Notes>;

#[derive(Debug, Default, PartialEq)]
pub struct Notes {
    /// Addresses that are none.
    pub invalid: usize,
    /// Addresses left out, the invalid ones among them.
    pub skipped: usize,
}

/// One slice to be: what it is for, and its endpoints.
type Groups = BTreeMap<(Family, Vec<Port>), BTreeMap<Identity, Endpoint>>;

/// `most`: addresses of one subset.
pub fn plan(endpoints: &EndpointsView, there: &[Mirror], most: usize) -> Plan {
    let mut plan = Plan::default();
    let groups = groups(endpoints, most, &mut plan);
    let mut by_group: BTreeMap<(&str, Vec<Port>), Vec<usize>> = BTreeMap::new();
    for (i, mirror) in there.iter().enumerate() {
        by_group.entry((&mirror.slice.address_type, port_key(&mirror.slice.ports))).or_default().push(i);
    }
    let (labels, annotations) = (labels(endpoints), annotations(endpoints));
    for ((family, ports), endpoints_there) in groups {
        let places = by_group.remove(&(family.as_str(), ports.clone())).unwrap_or_default();
        let draft = Draft {
            address_type: family,
            ports,
            endpoints: endpoints_there.into_values().collect(),
            labels: labels.clone(),
            annotations: Some(annotations.clone()),
        };
        match places.split_first() {
            None => plan.create.push(draft),
            Some((first, others)) => {
                if !is_right(&there[*first], &draft, endpoints) {
                    plan.update.push((*first, draft));
                }
                plan.delete.extend(others);
            }
        }
    }
    plan.delete.extend(by_group.into_values().flatten());
    reuse(&mut plan, there);
    // Not while they go: the garbage collector would have to chase what is made.
    if endpoints.deleting {
        plan.create.clear();
    }
    plan
}

/// Only groups that have endpoints.
fn groups(endpoints: &EndpointsView, most: usize, plan: &mut Plan) -> Groups {
    let mut groups = Groups::new();
    for subset in &endpoints.subsets {
        let ports: Vec<Port> = subset.ports.iter().map(port).collect();
        let ports = port_key(&ports);
        let mut added = 0;
        let ready = subset.addresses.iter().map(|address| (address, true));
        for (address, ready) in ready.chain(subset.not_ready.iter().map(|address| (address, false))) {
            if added == most {
                break;
            }
            let Some((family, endpoint)) = endpoint(address, ready) else {
                plan.notes.invalid += 1;
                continue;
            };
            groups.entry((family, ports.clone())).or_default().insert(endpoint.identity(), endpoint);
            added += 1;
        }
        plan.notes.skipped += subset.addresses.len() + subset.not_ready.len() - added;
    }
    groups
}

fn endpoint(address: &Address, ready: bool) -> Option<(Family, Endpoint)> {
    let ip = parse_ip(&address.ip)?;
    let family = if ip.is_ipv6() { Family::V6 } else { Family::V4 };
    let some = |text: &String| (!text.is_empty()).then(|| text.clone());
    let endpoint = Endpoint {
        addresses: vec![ip.to_string()],
        ready: Some(ready),
        hostname: some(&address.hostname),
        node: some(&address.node),
        target: (address.target != Target::default()).then(|| address.target.clone()),
        ..Endpoint::default()
    };
    Some((family, endpoint))
}

fn port(port: &crate::endpoints::Port) -> Port {
    Port {
        name: port.name.clone(),
        port: port.port,
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
    }
}

fn labels(endpoints: &EndpointsView) -> BTreeMap<String, String> {
    let mut labels = endpoints.labels.clone();
    labels.insert(SERVICE_NAME.to_owned(), endpoints.name.clone());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    labels
}

fn annotations(endpoints: &EndpointsView) -> BTreeMap<String, String> {
    let mut annotations = endpoints.annotations.clone();
    annotations.retain(|name, _| name != LAST_CHANGE && name != LAST_APPLIED);
    annotations
}

/// Says the slice all of it already? In whatever order.
fn is_right(there: &Mirror, draft: &Draft, endpoints: &EndpointsView) -> bool {
    let slice = &there.slice;
    let wanted: BTreeMap<Identity, &Endpoint> = draft.endpoints.iter().map(|e| (e.identity(), e)).collect();
    let stays = |endpoint: &Endpoint| {
        wanted.get(&endpoint.identity()).is_some_and(|wanted| wanted.says_the_same(endpoint))
    };
    let of_others = |(name, uid): &(String, String)| *name == endpoints.name && *uid != endpoints.uid;
    slice.endpoints.len() == draft.endpoints.len()
        && slice.endpoints.iter().all(stays)
        && slice.labels == draft.labels
        && draft.annotations.as_ref() == Some(&there.annotations)
        && !there.owners.iter().any(of_others)
}

/// What would be deleted can as well become what would be made, if its addresses are of one family: that cannot change.
fn reuse(plan: &mut Plan, there: &[Mirror]) {
    let mut create = Vec::new();
    for draft in std::mem::take(&mut plan.create) {
        let fits = |i: &usize| there[*i].slice.address_type == draft.address_type.as_str();
        match plan.delete.iter().position(fits) {
            Some(place) => plan.update.push((plan.delete.remove(place), draft)),
            None => create.push(draft),
        }
    }
    plan.create = create;
}

fn pairs(tree: &Value, field: &str) -> BTreeMap<String, String> {
    let map = tree.at(&["metadata", field]).and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
    map.filter_map(|(name, text)| Some((name.to_string(), text.as_str()?.to_owned()))).collect()
}

pub fn texts(pairs: BTreeMap<String, String>) -> Value {
    let map: Map = pairs.into_iter().map(|(name, text)| (name.into(), Value::Str(text))).collect();
    Value::Map(map)
}
