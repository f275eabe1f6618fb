//! Looks at all nodes every few seconds: which became unreachable, which zones are down, whose pods must go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use client::resources::NODES;
use futures_util::future::BoxFuture;
use object::{Obj, Revision, Status, time};
use parking_lot::Mutex;
use runtime::{Action, Failure, Informer, Key, Reconcile, ReconcileRequest, WorkQueue, batch};
use tokio::time::Instant;

use super::BY_NODE;
use super::health::{Grace, Health, Moment, Verdict, judge};
use super::node::{NO_EXECUTE, NOT_READY, NodeFacts, Taint, UNREACHABLE};
use super::plan::{self, NodeAction};
use super::write::Writer;
use super::zones::{Mode, Zones};

/// Nodes written at once.
const AT_ONCE: usize = 8;
const TRIES: usize = 5;
/// How long a reconcile waits to see what the controller itself wrote.
const PATIENCE: Duration = Duration::from_secs(1);

/// The two jobs of the controller; one worker, so they take turns.
pub fn look() -> Key {
    Key::new("", "look")
}
fn give_up() -> Key {
    Key::new("", "give-up")
}

pub struct Monitor {
    pub writer: Writer,
    pub nodes: Arc<Informer>,
    pub leases: Arc<Informer>,
    pub pods: Arc<Informer>,
    pub queue: Arc<WorkQueue<Key>>,
    pub began: Instant,
    pub period: Duration,
    pub grace: Grace,
    /// Guards what is known of nodes and zones; never held while waiting.
    pub state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    nodes: BTreeMap<String, Known>,
    zones: Zones,
    /// Pods of these could not all be marked.
    retry: BTreeSet<String>,
    /// The controller's own last write.
    written: Revision,
}

impl State {
    pub fn new(zones: Zones) -> State {
        State { zones, ..State::default() }
    }
}

/// A node as last seen; read again only when its object changed.
struct Known {
    facts: Arc<NodeFacts>,
    revision: Revision,
    health: Option<Health>,
    lease: Option<(Revision, Option<(i64, u32)>)>,
}

/// A node in this round.
struct Seen {
    node: Arc<Obj>,
    facts: Arc<NodeFacts>,
    verdict: Verdict,
}

impl Reconcile for Monitor {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            self.see_own_writes().await;
            if *request.key == look() {
                self.look(&request).await;
                self.queue.add(give_up(), runtime::queue::NORMAL, None);
                return Ok(Action::Requeue(self.period));
            }
            Ok(self.give_up(&request).await)
        })
    }
}

impl Monitor {
    fn now(&self) -> Moment {
        let unix_seconds = self.writer.env.now_seconds() as i64;
        Moment {
            ms: (self.writer.env.monotonic() - self.began).as_millis() as i64,
            unix_seconds,
            text: time::format_seconds(unix_seconds),
        }
    }

    async fn see_own_writes(&self) {
        let written = self.state.lock().written;
        if self.nodes.revision() < written {
            tokio::select! {
                biased;
                () = self.nodes.reached(written) => {}
                () = self.writer.env.sleep(PATIENCE) => {}
            }
        }
    }

    fn wrote(&self, node: &Obj) {
        let mut state = self.state.lock();
        state.written = state.written.max(node.revision());
    }

    /// One look at everything.
    async fn look(&self, request: &ReconcileRequest<'_>) {
        let nodes = self.nodes.store().list();
        for node in self.note_comings_and_goings(&nodes) {
            // Who is new is trusted until the next line says otherwise.
            if let Err(status) = self.set_reachable(&node).await {
                tracing::warn!(
                    node = node.name(),
                    error = status.message,
                    "cannot remove the taints of a new node"
                );
            }
        }
        let now = self.now();
        let mut seen: Vec<Seen> = nodes.iter().filter_map(|node| self.judge(node, &now)).collect();
        request.plan(|| {
            let unreachable = seen.iter().filter(|seen| seen.verdict.write.is_some()).count();
            format!("look at {} nodes, {unreachable} of them became unreachable", seen.len())
        });
        self.write_verdicts(&mut seen).await;

        let ready_by_zone = plan::ready_by_zone(seen.iter().map(|seen| (&*seen.facts, &seen.verdict)));
        let act = |i: usize| -> BoxFuture<'_, Result<(), Status>> {
            let seen = &seen[i];
            Box::pin(async move {
                self.act(seen).await;
                Ok(())
            })
        };
        batch::all(seen.len(), AT_ONCE, &act).await;

        let now_ms = self.now().ms;
        let mode = self.state.lock().zones.judge(&ready_by_zone, now_ms);
        match mode {
            Mode::Usual => {}
            Mode::AllDown => {
                tracing::warn!("all zones are fully disrupted, stopping evictions");
                for node in &nodes {
                    if let Err(status) = self.set_reachable(node).await {
                        tracing::warn!(node = node.name(), error = status.message, "failed to remove taints");
                    }
                }
            }
            Mode::Back => {
                tracing::info!("zones are no longer fully disrupted, resuming evictions");
                for known in self.state.lock().nodes.values_mut() {
                    if let Some(health) = &mut known.health {
                        health.seen_ms = now_ms;
                    }
                }
            }
        }
    }

    /// Notes who came and who went, with events; the nodes that are new.
    fn note_comings_and_goings(&self, nodes: &[Arc<Obj>]) -> Vec<Arc<Obj>> {
        let now_ms = self.now().ms;
        let mut state = self.state.lock();
        let State { nodes: known, zones, retry, .. } = &mut *state;
        let moves = plan::moves(known, &nodes.iter().map(|node| node.name()).collect::<Vec<_>>());
        let came: BTreeSet<&str> = moves.came.into_iter().collect();
        let mut new = Vec::new();
        for node in nodes {
            let (name, revision) = (node.name(), node.revision());
            if came.contains(name) {
                let message = format!("Node {name} event: Registered Node {name} in Controller");
                self.writer.node_event(name, node.uid(), "RegisteredNode", message);
                let fresh = Known { facts: NodeFacts::of(node), revision, health: None, lease: None };
                known.insert(name.to_owned(), fresh);
                new.push(node.clone());
            }
            let Some(known) = known.get_mut(name) else { continue };
            if known.revision != revision {
                known.facts = NodeFacts::of(node);
                known.revision = revision;
            }
            zones.add(&known.facts.zone, now_ms);
        }
        for name in moves.went {
            if let Some(old) = known.remove(&name) {
                zones.unmark(&old.facts.zone, &name);
                let message = format!("Node {name} event: Removing Node {name} from Controller");
                self.writer.node_event(&name, &old.facts.uid, "RemovingNode", message);
            }
            retry.remove(&name);
        }
        new
    }

    fn judge(&self, node: &Arc<Obj>, now: &Moment) -> Option<Seen> {
        let lease = self.leases.store().get(super::LEASE_NAMESPACE, node.name());
        let mut state = self.state.lock();
        let known = state.nodes.get_mut(node.name())?;
        if known.revision != node.revision() {
            known.facts = NodeFacts::of(node);
            known.revision = node.revision();
        }
        let renewed = lease.and_then(|lease| match known.lease {
            Some((revision, renewed)) if revision == lease.revision() => renewed,
            _ => {
                let renewed = runtime::tree(&lease).str_at(&["spec", "renewTime"]).and_then(time::parse);
                known.lease = Some((lease.revision(), renewed));
                renewed
            }
        });
        let (health, verdict) = judge(known.health.as_ref(), &known.facts, renewed, now, self.grace);
        known.health = Some(health);
        Some(Seen { node: node.clone(), facts: known.facts.clone(), verdict })
    }

    /// Writes the conditions of unreachable nodes. Who cannot be written is left out of this round.
    async fn write_verdicts(&self, seen: &mut Vec<Seen>) {
        let unreachable: Vec<usize> = (0..seen.len()).filter(|i| seen[*i].verdict.write.is_some()).collect();
        let results: Mutex<BTreeMap<usize, Option<Seen>>> = Mutex::default();
        let write = |n: usize| -> BoxFuture<'_, Result<(), Status>> {
            let (i, results, this) = (unreachable[n], &results, &seen[unreachable[n]]);
            Box::pin(async move {
                let outcome = self.write_verdict(this).await;
                if let Err(status) = &outcome {
                    let (node, error) = (this.facts.name.as_str(), status.message.as_str());
                    tracing::warn!(node, error, "failed to update node conditions, not evicting its pods");
                }
                results.lock().insert(i, outcome.ok());
                Ok(())
            })
        };
        batch::all(unreachable.len(), AT_ONCE, &write).await;
        let mut results = results.into_inner();
        let mut i = 0;
        seen.retain_mut(|seen| {
            let result = results.remove(&i);
            i += 1;
            match result {
                None => true,
                Some(Some(written)) => {
                    *seen = written;
                    true
                }
                Some(None) => false,
            }
        });
    }

    async fn write_verdict(&self, seen: &Seen) -> Result<Seen, Status> {
        let observed = seen.verdict.observed.clone();
        let mut node = seen.node.clone();
        let mut verdict = seen.verdict.clone();
        for tries in 1.. {
            let Some(conditions) = &verdict.write else { break };
            match self.writer.set_conditions(&node, conditions).await {
                Ok(written) => {
                    self.wrote(&written);
                    let mut state = self.state.lock();
                    if let Some(health) =
                        state.nodes.get_mut(node.name()).and_then(|known| known.health.as_mut())
                    {
                        health.wrote(conditions);
                    }
                    node = written;
                    break;
                }
                Err(status) if tries >= TRIES || status.code != 409 => return Err(status),
                Err(_) => {
                    node = self.writer.client.get(NODES.of(&node)).await?;
                    let again = self.judge(&node, &self.now());
                    verdict = again.map(|seen| seen.verdict).ok_or_else(Status::no_such_resource)?;
                }
            }
        }
        let verdict = Verdict { observed, ..verdict };
        Ok(Seen { facts: NodeFacts::of(&node), node, verdict })
    }

    /// Taints, and pods that cannot be ready, of one node.
    async fn act(&self, seen: &Seen) {
        let (name, facts) = (&seen.facts.name, &seen.facts);
        let retry = self.state.lock().retry.contains(name);
        let mut failed = false;
        for step in plan::act(facts, &seen.verdict, retry) {
            let result = match step {
                NodeAction::Reachable => self.set_reachable(&seen.node).await,
                NodeAction::Swap { add, remove } => self.swap(&seen.node, &[add], &[remove]).await,
                NodeAction::GiveUp { again } => {
                    let now_ms = self.now().ms;
                    self.state.lock().zones.mark(&facts.zone, name, again, now_ms);
                    Ok(())
                }
                NodeAction::Tell => {
                    let message = format!("Node {name} status is now: NodeNotReady");
                    self.writer.node_event(name, &facts.uid, "NodeNotReady", message);
                    Ok(())
                }
                NodeAction::MarkPods => {
                    let pods = self.pods.store().by_index(BY_NODE, name);
                    let marked = self.writer.mark_not_ready(&pods).await;
                    failed = marked.is_err();
                    marked
                }
            };
            if let Err(status) = result {
                let error = status.message;
                tracing::warn!(node = name, ?step, error, "failed to update node, retrying");
            }
        }
        let mut state = self.state.lock();
        if failed {
            state.retry.insert(name.clone());
        } else {
            state.retry.remove(name);
        }
    }

    async fn set_reachable(&self, node: &Arc<Obj>) -> Result<(), Status> {
        let facts = self.state.lock().nodes.get(node.name()).map(|known| known.facts.clone());
        if facts.as_deref().is_none_or(plan::is_given_up) {
            self.swap(node, &[], &[UNREACHABLE, NOT_READY]).await?;
        }
        if let Some(facts) = facts {
            self.state.lock().zones.unmark(&facts.zone, node.name());
        }
        Ok(())
    }

    async fn swap(&self, node: &Arc<Obj>, add: &[&str], remove: &[&str]) -> Result<(), Status> {
        let taints = |keys: &[&str]| keys.iter().map(|key| Taint::new(key, NO_EXECUTE)).collect::<Vec<_>>();
        if let Some(written) = self.writer.swap_taints(node, &taints(add), &taints(remove)).await? {
            self.wrote(&written);
        }
        Ok(())
    }

    /// Gives up nodes whose turn has come: their pods must go.
    async fn give_up(&self, request: &ReconcileRequest<'_>) -> Action {
        let mut given_up = 0;
        request.plan(|| "give up no node".to_owned());
        loop {
            let now_ms = self.now().ms;
            let next = self.state.lock().zones.next(now_ms);
            let Some((zone, name)) = next else { break };
            let Some(node) = self.nodes.store().get("", &name) else { continue };
            given_up += 1;
            request.plan(|| format!("taint as their conditions say: {given_up} nodes, last {name}"));
            let status = NodeFacts::of(&node).ready().map(|ready| ready.status.clone());
            let result = match status.as_deref() {
                Some(status) => match plan::wanted(status) {
                    Some((add, remove)) => self.swap(&node, &[add], &[remove]).await,
                    None => Ok(()),
                },
                None => Err(Status::internal("the node has no Ready condition")),
            };
            if let Err(status) = result {
                tracing::warn!(node = name, error = status.message, "failed to taint node, retrying");
                self.state.lock().zones.retry(&zone, &name, now_ms);
            }
        }
        let now_ms = self.now().ms;
        match self.state.lock().zones.wait(now_ms) {
            Some(ms) => Action::Requeue(Duration::from_millis(ms.max(1) as u64)),
            None => Action::AwaitChange,
        }
    }
}
