//! The state of the nodes in columns, kept up to date from changes and never listed for a pod.
//!
//! ```text
//! node changed ──┐                        ┌── columns: allocatable, requested, pods        one number a node
//! pod placed ────┼──> Cluster ────────────┼── generation: larger after every change        what was found out about a node
//! pod gone ──────┘                        │                                                holds while it stays the same
//!                                         ├── words: labels and taints as numbers            and which nodes have each, a bit a node
//!                                         └── counters: pods by selector, by node and by domain
//! ```
//! A pod is placed here when its informer says so, and before that when the scheduler has decided (it is *assumed*).

pub mod bits;
mod columns;
pub mod counters;
mod images;
pub mod words;

use std::collections::HashMap;
use std::sync::Arc;

pub use columns::{CPU, Columns, EPHEMERAL_STORAGE, MEMORY};
pub use images::{ImageIx, Images};

use crate::dynamic_resources::DynamicResources;
use crate::node::Node;
use crate::pod::{Class, HostPort, Pod, PodVolume};
use crate::read::Labels;
use crate::storage::Storage;
use counters::Counters;
use words::Words;

/// Where a node stands in the columns. Given again after the node and its pods are gone.
pub type NodeIx = u32;
pub type PodIx = u32;

/// No pod has less than this priority.
const NOBODY: i32 = i32::MAX;

#[derive(Default)]
pub struct Cluster {
    by_name: HashMap<Arc<str>, NodeIx>,
    slots: Vec<Slot>,
    free_slots: Vec<NodeIx>,
    generation: Vec<u64>,
    last_generation: u64,
    /// Of the pods on each node; [`NOBODY`] without any.
    lowest_priority: Vec<i32>,
    columns: Columns,
    by_uid: HashMap<Arc<str>, PodIx>,
    placed: Vec<Option<Placed>>,
    free_pods: Vec<PodIx>,
    counters: Counters,
    /// Live nodes, those of different zones in turn.
    order: Vec<NodeIx>,
    order_stale: bool,
    arrivals: u64,
    live: usize,
    /// Which live nodes have an image.
    images: Images,
    images_epoch: u64,
    storage: Storage,
    devices: DynamicResources,
    /// How many placed pods use a claim by its name, by namespace and claim.
    claim_users: HashMap<(Arc<str>, Arc<str>), u32>,
}

#[derive(Default)]
struct Slot {
    name: Arc<str>,
    /// `None` while only pods name the node: it has not come yet, or it went before them.
    node: Option<Arc<Node>>,
    arrived: u64,
    pods: Vec<PodIx>,
    ports: u32,
    /// Pods with volumes that matter where they are.
    volumes: u32,
}

/// A pod on a node.
#[derive(Clone, Debug)]
pub struct Placed {
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub class: Arc<Class>,
    pub node: NodeIx,
    pub priority: i32,
    pub started: Option<i64>,
    pub deleting: bool,
    pub preempted: bool,
    /// Decided here and not yet seen from the server.
    pub assumed: bool,
}

impl Cluster {
    pub fn set_node(&mut self, node: Arc<Node>) {
        let ix = self.slot(&node.name);
        let old = self.slots[ix as usize].node.clone();
        if old.as_deref() == Some(&*node) {
            return;
        }
        if old.is_none() {
            self.arrivals += 1;
            self.live += 1;
            self.slots[ix as usize].arrived = self.arrivals;
            self.images_epoch += 1;
        }
        if old.as_ref().is_none_or(|old| old.images != node.images) {
            if let Some(old) = &old {
                self.images.remove(ix, old);
            }
            self.images.add(ix, &node);
            self.images_epoch += 1;
        }
        self.order_stale |= old.as_ref().is_none_or(|old| old.zone_key() != node.zone_key());
        self.columns.set_allocatable(ix, &node);
        self.counters.set_node(ix, Some(&node));
        let labels = self.words().shared(&node.labels);
        self.slots[ix as usize].node = Some(Arc::new(Node { labels, ..(*node).clone() }));
        self.touch(ix);
    }

    pub fn remove_node(&mut self, name: &str) {
        let Some(&ix) = self.by_name.get(name) else { return };
        let Some(node) = self.slots[ix as usize].node.take() else { return };
        self.live -= 1;
        self.images.remove(ix, &node);
        self.images_epoch += 1;
        self.order_stale = true;
        self.counters.set_node(ix, None);
        self.touch(ix);
        self.release(ix);
    }

    /// Puts a pod on its node, or brings what is known of it up to date.
    pub fn set_pod(&mut self, pod: &Pod, assumed: bool) {
        self.remove_pod(&pod.uid);
        let node = self.slot(&pod.node_name);
        self.place(pod, node, assumed);
    }

    /// Puts a pod on the node that was found for it.
    pub fn assume(&mut self, pod: &Pod, node: NodeIx) {
        self.remove_pod(&pod.uid);
        self.place(pod, node, true);
    }

    fn place(&mut self, pod: &Pod, node: NodeIx, assumed: bool) {
        let placed = Placed {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            class: pod.class.clone(),
            node,
            priority: pod.priority,
            started: pod.started,
            deleting: pod.deleting,
            preempted: pod.preempted,
            assumed,
        };
        let lowest = &mut self.lowest_priority[node as usize];
        *lowest = placed.priority.min(*lowest);
        self.account(&placed, 1);
        let ix = match self.free_pods.pop() {
            Some(ix) => ix,
            None => {
                self.placed.push(None);
                (self.placed.len() - 1) as PodIx
            }
        };
        self.by_uid.insert(pod.uid.clone(), ix);
        self.slots[node as usize].pods.push(ix);
        self.placed[ix as usize] = Some(placed);
    }

    /// Takes a pod off its node.
    pub fn remove_pod(&mut self, uid: &str) -> Option<Placed> {
        let ix = self.by_uid.remove(uid)?;
        let placed = self.placed[ix as usize].take().expect("an index by uid names a placed pod");
        self.free_pods.push(ix);
        let pods = &mut self.slots[placed.node as usize].pods;
        pods.retain(|other| *other != ix);
        let rest = pods.iter().filter_map(|ix| self.placed[*ix as usize].as_ref());
        self.lowest_priority[placed.node as usize] = rest.map(|pod| pod.priority).min().unwrap_or(NOBODY);
        self.account(&placed, -1);
        self.release(placed.node);
        Some(placed)
    }

    pub fn set_namespace(&mut self, name: &str, labels: Option<Labels>) {
        self.counters.set_namespace(name, labels);
    }

    /// The same pod seen again with nothing changed that matters here: only confirmed, not moved.
    pub fn confirm(&mut self, pod: &Pod) -> bool {
        let Some(&ix) = self.by_uid.get(&pod.uid) else { return false };
        let node = self.by_name.get(&pod.node_name).copied();
        let Some(placed) = self.placed[ix as usize].as_mut() else { return false };
        let same = Some(placed.node) == node
            && placed.class.id == pod.class.id
            && placed.deleting == pod.deleting
            && placed.priority == pod.priority;
        if same {
            placed.assumed = false;
            placed.started = pod.started;
            placed.preempted = pod.preempted;
        }
        same
    }

    pub fn pod(&self, uid: &str) -> Option<&Placed> {
        self.placed[*self.by_uid.get(uid)? as usize].as_ref()
    }
    pub fn placed(&self, ix: PodIx) -> &Placed {
        self.placed[ix as usize].as_ref().expect("indexes on a node name placed pods")
    }
    pub fn pods_on(&self, node: NodeIx) -> &[PodIx] {
        &self.slots[node as usize].pods
    }
    #[inline]
    pub fn lowest_priority(&self, node: NodeIx) -> i32 {
        self.lowest_priority[node as usize]
    }
    pub fn pods(&self) -> usize {
        self.by_uid.len()
    }
    /// Nodes that are there.
    pub fn nodes(&self) -> usize {
        self.live
    }
    /// The ports taken on a node, one by one; most nodes have none.
    pub fn ports_on(&self, node: NodeIx) -> impl Iterator<Item = &HostPort> + Clone {
        let slot = &self.slots[node as usize];
        let pods = if slot.ports == 0 { &[][..] } else { &slot.pods };
        pods.iter().flat_map(|ix| &self.placed(*ix).class.spec.ports)
    }
    /// The pods on a node that have volumes; most nodes have none.
    pub fn volume_pods_on(&self, node: NodeIx) -> impl Iterator<Item = PodIx> {
        let slot = &self.slots[node as usize];
        let pods = if slot.volumes == 0 { &[][..] } else { &slot.pods };
        pods.iter().copied().filter(|ix| !self.placed(*ix).class.volumes.is_empty())
    }
    /// Whether a placed pod uses a claim by its name.
    pub fn is_claim_used(&self, namespace: &Arc<str>, claim: &Arc<str>) -> bool {
        self.claim_users.contains_key(&(namespace.clone(), claim.clone()))
    }
    pub fn storage(&self) -> &Storage {
        &self.storage
    }
    pub fn storage_mut(&mut self) -> &mut Storage {
        &mut self.storage
    }
    pub fn devices(&self) -> &DynamicResources {
        &self.devices
    }
    pub fn devices_mut(&mut self) -> &mut DynamicResources {
        &mut self.devices
    }
    pub fn node(&self, ix: NodeIx) -> &Arc<Node> {
        self.slots[ix as usize].node.as_ref().expect("only live nodes are in the order")
    }
    pub fn live(&self, ix: NodeIx) -> bool {
        self.slots.get(ix as usize).is_some_and(|slot| slot.node.is_some())
    }
    pub fn node_ix(&self, name: &str) -> Option<NodeIx> {
        self.by_name.get(name).copied().filter(|ix| self.live(*ix))
    }
    pub fn node_name(&self, ix: NodeIx) -> &Arc<str> {
        &self.slots[ix as usize].name
    }
    /// Larger after every change of a node or of the pods on one.
    pub fn version(&self) -> u64 {
        self.last_generation
    }
    pub fn generation(&self, ix: NodeIx) -> u64 {
        self.generation[ix as usize]
    }
    pub fn columns(&self) -> &Columns {
        &self.columns
    }
    pub fn columns_mut(&mut self) -> &mut Columns {
        &mut self.columns
    }
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }
    /// Lets go of what nothing refers to any more; only between decisions.
    pub fn compact(&mut self) {
        self.columns.compact();
        self.counters.compact();
    }
    /// How many names of resources and of topologies are kept.
    #[cfg(test)]
    pub fn names(&self) -> (usize, usize) {
        (self.columns.names(), self.counters.topologies())
    }
    /// One more than the largest index of a node.
    pub fn width(&self) -> usize {
        self.slots.len()
    }
    pub fn images_epoch(&self) -> u64 {
        self.images_epoch
    }
    pub fn images(&self) -> &Images {
        &self.images
    }
    /// Labels and taints of the nodes in numbers.
    pub fn words(&self) -> &Words {
        self.counters.words()
    }

    /// The live nodes, one of each zone in turn, in the order they came.
    pub fn refresh_order(&mut self) {
        if !self.order_stale {
            return;
        }
        self.order_stale = false;
        let live = |ix: &NodeIx| self.slots[*ix as usize].node.is_some();
        let mut all: Vec<NodeIx> = (0..self.slots.len() as NodeIx).filter(live).collect();
        all.sort_unstable_by_key(|ix| self.slots[*ix as usize].arrived);
        let mut names: HashMap<String, usize> = HashMap::new();
        let mut zones: Vec<Vec<NodeIx>> = Vec::new();
        for ix in all {
            let next = names.len();
            let zone = *names.entry(self.node(ix).zone_key()).or_insert(next);
            if zone == zones.len() {
                zones.push(Vec::new());
            }
            zones[zone].push(ix);
        }
        self.order.clear();
        let longest = zones.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..longest {
            self.order.extend(zones.iter().filter_map(|zone| zone.get(at)));
        }
    }

    pub fn order(&self) -> &[NodeIx] {
        &self.order
    }

    fn slot(&mut self, name: &Arc<str>) -> NodeIx {
        if let Some(&ix) = self.by_name.get(name) {
            return ix;
        }
        let ix = match self.free_slots.pop() {
            Some(ix) => ix,
            None => {
                self.slots.push(Slot::default());
                self.generation.push(0);
                self.lowest_priority.push(NOBODY);
                self.columns.grow();
                self.counters.grow();
                (self.slots.len() - 1) as NodeIx
            }
        };
        self.slots[ix as usize].name = name.clone();
        self.by_name.insert(name.clone(), ix);
        self.touch(ix);
        ix
    }

    /// Frees the place of a node that is gone and whose pods are.
    fn release(&mut self, ix: NodeIx) {
        let slot = &mut self.slots[ix as usize];
        if slot.node.is_none() && slot.pods.is_empty() {
            let slot = std::mem::take(slot);
            self.by_name.remove(&slot.name);
            self.columns.clear(ix);
            self.free_slots.push(ix);
        }
    }

    fn account(&mut self, placed: &Placed, sign: i64) {
        let node = placed.node;
        self.columns.add_pod(node, &placed.class.spec, sign);
        let ports = &mut self.slots[node as usize].ports;
        *ports = ports.wrapping_add_signed(sign as i32 * placed.class.spec.ports.len() as i32);
        self.counters.add_pod(node, &placed.class, placed.deleting, sign);
        if !placed.class.volumes.is_empty() {
            self.account_volumes(placed, sign as i32);
        }
        self.touch(node);
    }

    fn account_volumes(&mut self, placed: &Placed, sign: i32) {
        let volumes = &mut self.slots[placed.node as usize].volumes;
        *volumes = volumes.wrapping_add_signed(sign);
        for volume in &placed.class.volumes {
            let PodVolume::Claim(claim) = volume else { continue };
            let key = (placed.class.namespace.clone(), claim.clone());
            let users = self.claim_users.entry(key.clone()).or_default();
            *users = users.wrapping_add_signed(sign);
            if *users == 0 {
                self.claim_users.remove(&key);
            }
        }
    }

    fn touch(&mut self, ix: NodeIx) {
        self.last_generation += 1;
        self.generation[ix as usize] = self.last_generation;
    }
}
