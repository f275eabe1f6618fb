//! The filter and the score of a pod's claims: whether a node can have the devices they ask for, and which those would be.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use devices::{AllocateError, Allocation, Allocator, Choice, Claim, NodeView};

use super::volumes::Rejection;
use crate::cluster::{Cluster, NodeIx};
use crate::config::Profile;
use crate::dynamic_resources::extended::{ByResources, ExtendedRequests};
use crate::dynamic_resources::{DynamicResources, ResourceClaim};
use crate::plugin::Plugin;
use crate::pod::{Pod, may_be_devices};
use crate::verdict::{DeviceVerdict, Verdict};

/// More alternatives a request cannot have: the first is worth this much.
const MOST_ALTERNATIVES: i64 = 8;
/// Steps of one search, if nobody looks at a clock.
const MAX_STEPS: u64 = 50_000_000;
/// Steps between two looks at the clock.
const STEPS: u64 = 1024;

/// `None` where the node has all the pod asks for without devices.
type Found = Result<Option<Arc<NodeDevices>>, DeviceVerdict>;

/// What is the same for every node of one decision about a pod with claims, and what was found of nodes.
pub struct Devices {
    claims: Vec<Arc<ResourceClaim>>,
    extended: Option<Extended>,
    /// How long devices may take to become ready.
    timeout_seconds: i64,
    filter_timeout: Duration,
    found: RefCell<HashMap<NodeIx, Found>>,
    /// Claims that have devices which are not for some node.
    unavailable: RefCell<BTreeSet<usize>>,
    /// What the allocator said of nodes, in the order of [`DeviceVerdict::OnNode`].
    said: RefCell<Vec<String>>,
    /// What ended the attempt.
    error: RefCell<Option<String>>,
}

/// The pod asks for resources that devices stand for.
enum Extended {
    /// From an earlier attempt: it goes before another is made.
    Stale(Arc<ResourceClaim>),
    New(RefCell<ByResources>),
}

/// What a pod's claims get on one node.
pub struct NodeDevices {
    /// By the claim's place among the pod's; only of those that had none.
    pub allocations: Vec<(usize, Arc<Allocation>)>,
    pub extended: Option<ExtendedDevices>,
    score: i64,
}

#[derive(Clone, Debug)]
pub struct ExtendedDevices {
    pub requests: Arc<(ExtendedRequests, Claim)>,
    pub allocation: Arc<Allocation>,
}

/// Why no node is looked at: the pod has to wait, or its attempt ends with an error.
pub enum Objection {
    Rejected(Rejection),
    Failed(String),
}

impl Devices {
    /// `None` for a pod that asks for no devices.
    pub fn new(cluster: &Cluster, profile: &Profile, pod: &Pod) -> Result<Option<Devices>, Objection> {
        let extended = !pod.class.spec.extended.is_empty();
        if pod.claims.is_empty() && !extended || !profile.filter.has(Plugin::DynamicResources) {
            return Ok(None);
        }
        let known = cluster.devices();
        let reject =
            |message: String| Objection::Rejected(Rejection { plugin: Plugin::DynamicResources, message });
        let claims = known.pod_claims(pod).map_err(reject)?;
        let extended = extended.then(|| Extended::new(known, pod)).flatten();
        if claims.is_empty() && extended.is_none() {
            return Ok(None);
        }
        for claim in &claims {
            if claim.allocation.is_some() {
                continue;
            }
            if known.is_in_flight(&claim.uid) {
                let claim = claim.key();
                return Err(reject(format!("resource claim {claim} is in the process of being allocated")));
            }
            check_classes(known, claim)?;
        }
        if let Some(Extended::Stale(claim)) = &extended
            && claim.allocation.is_none()
            && known.is_in_flight(&claim.uid)
        {
            let claim = claim.key();
            return Err(reject(format!("resource claim {claim} is in the process of being allocated")));
        }
        Ok(Some(Devices {
            claims,
            extended,
            timeout_seconds: profile.device_binding_timeout.as_secs() as i64,
            filter_timeout: profile.device_filter_timeout,
            found: RefCell::default(),
            unavailable: RefCell::default(),
            said: RefCell::default(),
            error: RefCell::default(),
        }))
    }

    /// Finds devices on one node after another.
    pub fn allocator<'a>(&self, cluster: &'a Cluster) -> Allocator<'a> {
        let known = cluster.devices();
        Allocator::new(&known.slices, &known.classes, &known.allocated, &known.selectors)
    }

    /// What is found about a node; with an allocator at hand, or one of its own.
    pub fn verdict(
        &self,
        cluster: &Cluster,
        ix: NodeIx,
        pod: &Pod,
        allocator: Option<&Allocator>,
    ) -> Verdict {
        let known = self.found.borrow().get(&ix).map(|found| found.as_ref().err().copied());
        let refused = known.unwrap_or_else(|| {
            let found = match allocator {
                Some(allocator) => self.find(cluster, ix, pod, allocator),
                None => self.find(cluster, ix, pod, &self.allocator(cluster)),
            };
            let refused = found.as_ref().err().copied();
            self.found.borrow_mut().insert(ix, found);
            refused
        });
        refused.map_or(Verdict::Fits, Verdict::NoDevices)
    }

    fn find(&self, cluster: &Cluster, ix: NodeIx, pod: &Pod, allocator: &Allocator) -> Found {
        let known = cluster.devices();
        let extended = self.extended_on(cluster, ix, pod)?;
        if extended.is_none() && self.claims.is_empty() {
            return Ok(None);
        }
        let node = cluster.node(ix);
        let view = NodeView { name: &node.name, labels: &node.labels };
        let mut unavailable = Vec::new();
        for (i, claim) in self.claims.iter().enumerate() {
            let Some(allocation) = &claim.allocation else { continue };
            let reaches = allocation.nodes.as_ref().map_or(Ok(true), |nodes| nodes.matches(&view));
            let late = || claim.binding_deadline(self.timeout_seconds).is_some_and(|at| at < known.unix_now);
            let ready = match claim.is_ready() {
                Ok(ready) => ready || !late(),
                Err(_) => false,
            };
            if reaches != Ok(true) || !ready {
                unavailable.push(i);
            }
        }
        let wanted = self.claims.iter().enumerate().filter(|(_, claim)| claim.allocation.is_none());
        let mut claims: Vec<&Claim> = wanted.clone().map(|(_, claim)| &claim.spec).collect();
        claims.extend(extended.as_deref().map(|(_, claim)| claim));
        let mut results = match claims.is_empty() {
            true => Vec::new(),
            false => self.allocate(known, &view, &claims, allocator)?,
        };
        let extended = match extended {
            Some(requests) => {
                let allocation = results.pop().ok_or(DeviceVerdict::Unallocatable)?;
                Some(ExtendedDevices { requests, allocation })
            }
            None => None,
        };
        if !unavailable.is_empty() {
            self.unavailable.borrow_mut().extend(unavailable);
            return Err(DeviceVerdict::Unavailable);
        }
        let allocations: Vec<_> = wanted.map(|(i, _)| i).zip(results).collect();
        let score = self.score(&allocations);
        Ok(Some(Arc::new(NodeDevices { allocations, extended, score })))
    }

    fn allocate(
        &self,
        known: &DynamicResources,
        node: &NodeView,
        claims: &[&Claim],
        allocator: &Allocator,
    ) -> Result<Vec<Arc<Allocation>>, DeviceVerdict> {
        let (steps, begun) = (Cell::new(0u64), known.clock.as_ref().map(|clock| clock()));
        let interrupted = || {
            steps.set(steps.get() + 1);
            if steps.get() >= MAX_STEPS {
                return true;
            }
            let (Some(clock), Some(begun)) = (&known.clock, begun) else { return false };
            !self.filter_timeout.is_zero()
                && steps.get() % STEPS == 0
                && clock().saturating_sub(begun) >= self.filter_timeout
        };
        let failed = |why: String| {
            self.error.borrow_mut().get_or_insert(why);
            DeviceVerdict::Unallocatable
        };
        match allocator.allocate(node, claims, &interrupted, &|| known.share_id()) {
            Ok(Some(results)) if results.len() == claims.len() => {
                Ok(results.into_iter().map(Arc::new).collect())
            }
            Ok(_) => Err(DeviceVerdict::Unallocatable),
            Err(AllocateError::OnNode(why)) => {
                let mut said = self.said.borrow_mut();
                let at = said.iter().position(|other| *other == why).unwrap_or_else(|| {
                    said.push(why);
                    said.len() - 1
                });
                Err(DeviceVerdict::OnNode(at as u16))
            }
            Err(AllocateError::Fatal(why)) => Err(failed(why)),
            Err(AllocateError::Interrupted) => {
                Err(failed(format!("node {}: timed out trying to allocate devices", node.name)))
            }
        }
    }

    /// What devices have to stand for on a node.
    fn extended_on(
        &self,
        cluster: &Cluster,
        ix: NodeIx,
        pod: &Pod,
    ) -> Result<Option<Arc<(ExtendedRequests, Claim)>>, DeviceVerdict> {
        let by_resources = match &self.extended {
            None => return Ok(None),
            Some(Extended::Stale(_)) => return Err(DeviceVerdict::StaleClaim),
            Some(Extended::New(by_resources)) => by_resources,
        };
        let (node, known) = (cluster.node(ix), cluster.devices());
        let mut resources = Vec::new();
        for (name, _) in pod.class.spec.requests.iter().filter(|(name, _)| may_be_devices(name)) {
            let has = node.allocatable.iter().find(|(other, _)| other == name).map(|(_, amount)| *amount);
            if has.unwrap_or(0) == 0 && known.has_class_for(name) {
                resources.push(name);
            } else if has.is_none() {
                return Err(DeviceVerdict::CannotFit);
            }
        }
        // Differs from kube-scheduler, which asks for a claim without requests where the pod has other claims.
        if resources.is_empty() {
            return Ok(None);
        }
        let key: Vec<Arc<str>> = resources.iter().map(|name| (*name).clone()).collect();
        let mut by_resources = by_resources.borrow_mut();
        let made = by_resources.entry(key).or_insert_with(|| {
            let requests = ExtendedRequests::new(&pod.class.spec.extended, &resources, &known.classes);
            let mut tree = object::Value::map();
            let metadata = tree.map_at(&["metadata"]);
            metadata.set("namespace", pod.namespace().to_string());
            metadata.set("name", "<extended-resources>");
            tree.make_map().set("spec", requests.spec());
            let claim = Claim::parse(&tree);
            Arc::new((requests, claim))
        });
        Ok(Some(made.clone()))
    }

    /// Alternatives named first are better.
    fn score(&self, new: &[(usize, Arc<Allocation>)]) -> i64 {
        let mut score = 0;
        for (i, claim) in self.claims.iter().enumerate() {
            let new = new.iter().find(|(at, _)| *at == i).map(|(_, allocation)| allocation);
            let Some(allocation) = new.or(claim.allocation.as_ref().map(|a| &a.devices)) else { continue };
            for request in &claim.spec.requests {
                let Choice::FirstAvailable(alternatives) = &request.choice else { continue };
                let chosen = |alternative: &devices::Wanted| {
                    let name = format!("{}/{}", request.name, alternative.name);
                    allocation.results.iter().any(|result| result.request == name)
                };
                let worth = alternatives.iter().enumerate().filter(|(_, one)| chosen(one));
                score += worth.map(|(at, _)| MOST_ALTERNATIVES - at as i64).sum::<i64>();
            }
        }
        score
    }

    /// The score of a node that fits, before it is compared with others.
    pub fn score_of(&self, ix: NodeIx) -> i64 {
        let found = self.found.borrow();
        found.get(&ix).and_then(|found| found.as_ref().ok()?.as_ref()).map_or(0, |devices| devices.score)
    }

    pub fn take_error(&self) -> Option<String> {
        self.error.borrow_mut().take()
    }

    pub fn said(&self) -> Vec<String> {
        self.said.borrow().clone()
    }

    pub fn claims(&self) -> &[Arc<ResourceClaim>] {
        &self.claims
    }

    /// What was found for a node that fits.
    pub fn on(&self, ix: NodeIx) -> Option<Arc<NodeDevices>> {
        self.found.borrow().get(&ix).and_then(|found| found.as_ref().ok()?.clone())
    }

    /// A claim whose devices keep the pod from every node, and that nobody would miss.
    pub fn to_give_up(&self, pod: &Pod) -> Option<GiveUp> {
        let unavailable = self.unavailable.borrow();
        let mut idle = unavailable.iter().map(|i| &self.claims[*i]).filter(|claim| claim.is_idle(&pod.uid));
        if let Some(claim) = idle.next() {
            return Some(GiveUp::Deallocate(claim.clone()));
        }
        match &self.extended {
            Some(Extended::Stale(claim)) => Some(GiveUp::Delete(claim.clone())),
            _ => None,
        }
    }
}

/// What is undone so that the pod may be placed another time.
#[derive(Clone, Debug)]
pub enum GiveUp {
    Deallocate(Arc<ResourceClaim>),
    Delete(Arc<ResourceClaim>),
}

impl Extended {
    fn new(known: &DynamicResources, pod: &Pod) -> Option<Extended> {
        let mut requests = pod.class.spec.requests.iter();
        if !requests.any(|(name, _)| may_be_devices(name) && known.has_class_for(name)) {
            return None;
        }
        Some(match known.extended_claim(pod) {
            Some(claim) => Extended::Stale(claim.clone()),
            None => Extended::New(RefCell::default()),
        })
    }
}

fn check_classes(known: &DynamicResources, claim: &ResourceClaim) -> Result<(), Objection> {
    let check = |class: &str, request: &str| {
        if class.is_empty() {
            let why = format!("request {request}: unsupported request type");
            return Err(Objection::Failed(format!("running PreFilter plugin \"DynamicResources\": {why}")));
        }
        if known.classes.get(class).is_none() {
            let message = format!("request {request}: device class {class} does not exist");
            return Err(Objection::Rejected(Rejection { plugin: Plugin::DynamicResources, message }));
        }
        Ok(())
    };
    for request in &claim.spec.requests {
        match &request.choice {
            Choice::Exactly(wanted) => check(&wanted.class, &request.name)?,
            Choice::FirstAvailable(alternatives) => {
                for one in alternatives {
                    check(&one.class, &format!("{}/{}", request.name, one.name))?;
                }
            }
            Choice::Unknown => {
                let (claim, request) = (claim.key(), &request.name);
                let message = format!("resource claim {claim}, request {request}: unknown request type");
                return Err(Objection::Rejected(Rejection { plugin: Plugin::DynamicResources, message }));
            }
        }
    }
    Ok(())
}
