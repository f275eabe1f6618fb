//! Which zone has how much CPU, kept up with the nodes; and the services whose hints rest on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use object::Value;
use object::quantity::Quantity;
use parking_lot::Mutex;
use runtime::queue::NORMAL;
use runtime::{Informer, Key, Notice, WorkQueue};
use table::Obj;

use super::ZONE;
use super::topology::{Hinted, Ratios};

/// What a node adds to its zone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeShare {
    pub zone: String,
    pub milli_cpu: i64,
    /// It is ready, and there for pods.
    pub counts: bool,
}

impl NodeShare {
    pub fn read(node: &Value) -> NodeShare {
        let label = |name: &str| node.str_at(&["metadata", "labels", name]);
        let conditions = node.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition.str_at(&["type"]) == Some("Ready"));
        let control_plane = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
        NodeShare {
            zone: label(ZONE).unwrap_or("").to_owned(),
            milli_cpu: node.at(&["status", "allocatable", "cpu"]).and_then(milli).unwrap_or(0),
            counts: ready.is_some_and(|ready| ready.str_at(&["status"]) == Some("True"))
                && control_plane.iter().all(|role| label(role).is_none()),
        }
    }
}

fn milli(cpu: &Value) -> Option<i64> {
    match cpu {
        Value::Str(text) => Quantity::parse(text).ok().map(|cpu| cpu.as_milli()),
        Value::Int(cores) => cores.checked_mul(1000),
        _ => None,
    }
}

/// `None`: a node does not say enough, or there is nothing to choose between.
pub fn ratios<'a>(nodes: impl Iterator<Item = &'a NodeShare>) -> Option<Ratios> {
    let mut by_zone: BTreeMap<&str, f64> = BTreeMap::new();
    for node in nodes.filter(|node| node.counts) {
        if node.zone.is_empty() || node.milli_cpu == 0 {
            return None;
        }
        *by_zone.entry(&node.zone).or_default() += node.milli_cpu as f64;
    }
    let total: f64 = by_zone.values().sum();
    let share = |(zone, cpu): (&str, f64)| (zone.to_owned(), cpu / total);
    (by_zone.len() > 1 && total > 0.0).then(|| by_zone.into_iter().map(share).collect())
}

/// The zones, and what each service that asks for them got.
pub struct Zones {
    nodes: Arc<Informer>,
    /// Guards nodes, ratios and services together.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Not read until a service asks: most clusters have none that does.
    nodes: Option<BTreeMap<String, NodeShare>>,
    ratios: Option<Ratios>,
    services: BTreeMap<Key, Hinted>,
}

impl Zones {
    pub fn new(nodes: Arc<Informer>) -> Arc<Zones> {
        Arc::new(Zones { nodes, state: Mutex::default() })
    }

    /// Nodes that come, go or change make work for services whose zones get too few endpoints by it.
    pub fn follow(self: &Arc<Zones>, queue: Arc<WorkQueue<Key>>) {
        let zones = self.clone();
        let handler = move |notice: &Notice<'_>| {
            for service in zones.saw(notice) {
                queue.add(service, NORMAL, None);
            }
        };
        self.nodes.add_handler(None, Box::new(handler));
    }

    /// For a turn: the ratios now, and what the service got last time. `asks`: it wants hints by zone.
    pub fn of(&self, service: &Key, asks: bool) -> (Option<Ratios>, Hinted) {
        let mut state = self.state.lock();
        if asks && state.nodes.is_none() {
            let share = |node: Arc<Obj>| (node.name().to_owned(), NodeShare::read(&runtime::tree(&node)));
            state.nodes = Some(self.nodes.store().list().into_iter().map(share).collect());
            state.weigh();
        }
        (state.ratios.clone(), state.services.get(service).cloned().unwrap_or_default())
    }

    /// What the service got this time.
    pub fn note(&self, service: &Key, hinted: Hinted) {
        let mut state = self.state.lock();
        if hinted == Hinted::default() {
            state.services.remove(service);
        } else {
            state.services.insert(service.clone(), hinted);
        }
    }

    /// The services that must be looked at now.
    fn saw(&self, notice: &Notice<'_>) -> Vec<Key> {
        let mut state = self.state.lock();
        let Some(nodes) = &mut state.nodes else { return Vec::new() };
        let node = notice.obj();
        let before = match notice {
            Notice::Deleted { .. } => nodes.remove(node.name()),
            _ => nodes.insert(node.name().to_owned(), NodeShare::read(&runtime::tree(node))),
        };
        if before.as_ref() == nodes.get(node.name()) {
            return Vec::new();
        }
        state.weigh();
        let ratios = state.ratios.as_ref();
        let concerned = state.services.iter().filter(|(_, hinted)| hinted.needs_turn(ratios));
        concerned.map(|(service, _)| service.clone()).collect()
    }
}

impl State {
    fn weigh(&mut self) {
        self.ratios = self.nodes.as_ref().and_then(|nodes| ratios(nodes.values()));
    }
}
