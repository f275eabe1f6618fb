//! Which zone has how much CPU, kept up with the nodes; and the services whose hints rest on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use object::Obj;
use object::Value;
use object::quantity::Quantity;
use parking_lot::Mutex;
use runtime::queue::NORMAL;
use runtime::{Informer, InformerEvent, Key, WorkQueue};

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
    /// Grows with every node that comes, goes or moves to another zone: endpoints say in which zone they are.
    moves: AtomicU64,
    /// Guards nodes, ratios and services together.
    state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    /// Not read until a service asks: most clusters have none that does.
    nodes: Option<BTreeMap<String, NodeShare>>,
    ratios: Option<Ratios>,
    services: BTreeMap<Key, Hinted>,
}

impl Zones {
    pub fn new(nodes: Arc<Informer>) -> Arc<Zones> {
        Arc::new(Zones { nodes, moves: AtomicU64::new(0), state: Mutex::default() })
    }

    /// Nodes that come, go or change make work for services whose zones get too few endpoints by it.
    pub fn follow(self: &Arc<Zones>, queue: Arc<WorkQueue<Key>>) {
        let zones = self.clone();
        let handler = move |event: &InformerEvent<'_>| {
            for service in zones.saw(event) {
                queue.add(service, NORMAL, None);
            }
        };
        self.nodes.add_resyncing_handler(Box::new(handler));
    }

    /// While this stays the same, all nodes are where they were.
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    /// For a reconcile: the ratios now, and what the service got last time. `asks`: it wants hints by zone.
    pub fn of(&self, service: &Key, asks: bool) -> (Option<Ratios>, Hinted) {
        let mut state = self.state.lock();
        if asks && state.nodes.is_none() {
            let share = |node: Arc<Obj>| (node.name().to_owned(), NodeShare::read(&runtime::tree(&node)));
            state.nodes = Some(self.nodes.store().list().into_iter().map(share).collect());
            state.weigh();
        }
        (state.ratios.clone(), state.services.get(service).cloned().unwrap_or_default())
    }

    /// What the service got this time. `true`: the zones are no longer those `used`, and it must be looked at again.
    pub fn note(&self, service: &Key, hinted: Hinted, used: Option<&Ratios>) -> bool {
        self.state.lock().note(service, hinted, used)
    }

    pub fn forget(&self, service: &Key) {
        self.state.lock().services.remove(service);
    }

    /// The services that must be looked at now.
    fn saw(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        if !matches!(event, InformerEvent::Updated { old, new, .. } if old.label(ZONE) == new.label(ZONE)) {
            self.moves.fetch_add(1, Ordering::AcqRel);
        }
        let mut state = self.state.lock();
        if state.nodes.is_none() {
            return Vec::new();
        }
        let node = event.obj();
        let share = match event {
            InformerEvent::Deleted { .. } => None,
            _ => Some(NodeShare::read(&runtime::tree(node))),
        };
        state.saw(node.name(), share)
    }
}

impl State {
    pub fn saw(&mut self, node: &str, share: Option<NodeShare>) -> Vec<Key> {
        let nodes = self.nodes.get_or_insert_default();
        let before = match &share {
            None => nodes.remove(node),
            Some(share) => nodes.insert(node.to_owned(), share.clone()),
        };
        if before == share {
            return Vec::new();
        }
        self.weigh();
        let ratios = self.ratios.as_ref();
        let concerned = self.services.iter().filter(|(_, hinted)| hinted.needs_reconcile(ratios));
        concerned.map(|(service, _)| service.clone()).collect()
    }

    pub fn note(&mut self, service: &Key, hinted: Hinted, used: Option<&Ratios>) -> bool {
        if hinted == Hinted::default() {
            self.services.remove(service);
            return false;
        }
        let again = self.ratios.as_ref() != used && hinted.needs_reconcile(self.ratios.as_ref());
        self.services.insert(service.clone(), hinted);
        again
    }

    fn weigh(&mut self) {
        self.ratios = self.nodes.as_ref().and_then(|nodes| ratios(nodes.values()));
    }
}
