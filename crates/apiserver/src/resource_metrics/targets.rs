//! Which nodes are asked next. Those that did not answer last time wait for each other, never the others for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use codec::json;
use object::{Obj, Revision, Value};

/// As metrics-server is usually told: the name of a node need not be known here.
const ADDRESS_TYPES: [&str; 3] = ["InternalIP", "ExternalIP", "Hostname"];
/// Asked at the same time, of those that answered last time or are new.
const ANSWERING: usize = 32;
/// And of those that did not: each of them may keep its place until its time is over.
const SILENT: usize = 16;

/// Where a node is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEndpoint {
    pub node: String,
    /// None: it has no address.
    pub host: Option<String>,
    pub port: u16,
}

impl NodeEndpoint {
    /// None: what simulated nodes use is known without asking, and others have no kubelet yet.
    fn of(node: &Value) -> Option<NodeEndpoint> {
        let port = node.at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).and_then(Value::as_int);
        let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)?;
        let runtime = node.str_at(&["status", "nodeInfo", "containerRuntimeVersion"]).unwrap_or("");
        if runtime.starts_with("simulated://") {
            return None;
        }
        let name = node.str_at(&["metadata", "name"])?.to_owned();
        Some(NodeEndpoint { node: name, host: address(node).map(str::to_owned), port })
    }
}

fn address(node: &Value) -> Option<&str> {
    let addresses = node.at(&["status", "addresses"])?.as_list()?;
    ADDRESS_TYPES.iter().find_map(|wanted| {
        let found = addresses.iter().find(|address| address.str_at(&["type"]) == Some(wanted))?;
        found.str_at(&["address"]).filter(|address| !address.is_empty())
    })
}

#[derive(Default)]
pub struct Targets {
    nodes: BTreeMap<String, Target>,
    answering: Lane,
    silent: Lane,
}

struct Target {
    /// Of the object that was read: it is read anew only when it changed.
    revision: Revision,
    endpoint: Option<Arc<NodeEndpoint>>,
    answers: Answers,
    /// Waits for its turn, or is being asked.
    busy: bool,
}

/// How a node answered when it was asked last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    Unasked,
    Yes,
    /// Asked once, in vain: its kubelet may be about to get its certificate.
    NotYet,
    No,
}

impl Answers {
    fn are_silence(self) -> bool {
        matches!(self, Answers::NotYet | Answers::No)
    }

    fn then(self, answered: bool) -> Answers {
        match self {
            _ if answered => Answers::Yes,
            Answers::Unasked => Answers::NotYet,
            Answers::Yes | Answers::NotYet | Answers::No => Answers::No,
        }
    }
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Arc<NodeEndpoint>>,
    asked: usize,
}

/// One that is to be asked; handed back with its answer.
pub struct Turn {
    pub endpoint: Arc<NodeEndpoint>,
    silent: bool,
}

impl Targets {
    /// Every node has its turn, but those that still have their last one.
    pub fn begin_round(&mut self, nodes: &[Arc<Obj>]) {
        let mut old = std::mem::take(&mut self.nodes);
        for node in nodes {
            let mut target = match old.remove(node.name()) {
                Some(target) if target.revision == node.revision() => target,
                other => {
                    let endpoint =
                        json::parse(node.body(), None).ok().and_then(|node| NodeEndpoint::of(&node));
                    let (answers, busy) =
                        other.map_or((Answers::Unasked, false), |old| (old.answers, old.busy));
                    Target { revision: node.revision(), endpoint: endpoint.map(Arc::new), answers, busy }
                }
            };
            if let Some(endpoint) = target.endpoint.clone().filter(|_| !target.busy) {
                target.busy = true;
                let lane = if target.answers.are_silence() { &mut self.silent } else { &mut self.answering };
                lane.waiting.push_back(endpoint);
            }
            self.nodes.insert(node.name().to_owned(), target);
        }
    }

    /// None: nobody waits, or enough are being asked.
    pub fn next(&mut self) -> Option<Turn> {
        for (silent, lane, limit) in
            [(false, &mut self.answering, ANSWERING), (true, &mut self.silent, SILENT)]
        {
            if lane.asked < limit
                && let Some(endpoint) = lane.waiting.pop_front()
            {
                lane.asked += 1;
                return Some(Turn { endpoint, silent });
            }
        }
        None
    }

    /// Whether that is news. None: the node is gone.
    pub fn finish(&mut self, turn: &Turn, answered: bool) -> Option<bool> {
        let lane = if turn.silent { &mut self.silent } else { &mut self.answering };
        lane.asked = lane.asked.saturating_sub(1);
        let target = self.nodes.get_mut(&turn.endpoint.node)?;
        target.busy = false;
        let next = target.answers.then(answered);
        let told = std::mem::replace(&mut target.answers, next);
        Some((told == Answers::No) != (next == Answers::No))
    }

    /// Whether a node is asked, as long as it has a kubelet.
    pub fn has(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|target| target.endpoint.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, revision: u64, status: &str) -> Arc<Obj> {
        let text = format!(r#"{{"metadata":{{"name":"{name}"}},"status":{status}}}"#);
        let catalog = catalog::Catalog::builtin();
        let storage = catalog.find_storage("", "nodes").unwrap();
        let key = storage.key("", name);
        Arc::new(Obj::publish(storage, &key, text.as_bytes(), Revision(revision), None).unwrap())
    }

    fn real(name: &str) -> Arc<Obj> {
        node(name, 1, r#"{"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}}}"#)
    }

    fn turns(targets: &mut Targets) -> Vec<Turn> {
        std::iter::from_fn(|| targets.next()).collect()
    }

    fn names(turns: &[Turn]) -> Vec<&str> {
        turns.iter().map(|turn| &*turn.endpoint.node).collect()
    }

    #[test]
    fn the_internal_address_is_preferred() {
        let of = |addresses: &str| {
            let text = format!(r#"{{"status":{{"addresses":{addresses}}}}}"#);
            let node = json::parse(text.as_bytes(), None).unwrap();
            address(&node).map(str::to_owned)
        };
        let both = r#"[{"type":"Hostname","address":"n"},{"type":"InternalIP","address":"10.0.0.1"}]"#;
        assert_eq!(of(both).as_deref(), Some("10.0.0.1"));
        assert_eq!(of(r#"[{"type":"Hostname","address":"n"}]"#).as_deref(), Some("n"));
        assert_eq!(of("[]"), None);
    }

    #[test]
    fn only_nodes_with_a_kubelet_are_asked() {
        let simulated = r#"{"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}},"nodeInfo":{"containerRuntimeVersion":"simulated://1"}}"#;
        let mut targets = Targets::default();
        targets.begin_round(&[node("new", 1, "{}"), real("real"), node("simulated", 1, simulated)]);
        assert_eq!(names(&turns(&mut targets)), ["real"]);
        // It has one now.
        let ready = node("new", 2, r#"{"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}}}"#);
        targets.begin_round(&[ready, real("real")]);
        assert_eq!(names(&turns(&mut targets)), ["new"], "the other has not answered yet");
        assert!(targets.has("new") && targets.has("real"));
        // What it told last is not shown for ever.
        targets.begin_round(&[node("new", 3, "{}"), real("real")]);
        assert!(!targets.has("new") && targets.has("real"));
    }

    #[test]
    fn silent_nodes_keep_nobody_waiting() {
        let silent: Vec<_> = (0..40).map(|at| real(&format!("silent-{at:02}"))).collect();
        let mut targets = Targets::default();
        targets.begin_round(&silent);
        for _ in 0..2 {
            let asked = turns(&mut targets);
            assert!(asked.iter().all(|turn| targets.finish(turn, false).is_some()));
        }
        assert!(turns(&mut targets).is_empty());
        let all = [silent, vec![real("well")]].concat();
        targets.begin_round(&all);
        let asked = turns(&mut targets);
        assert_eq!(asked.len(), 1 + SILENT);
        assert_eq!(asked[0].endpoint.node, "well");
        assert_eq!(targets.finish(&asked[0], true), Some(false), "no news");
        // Once more, while they are still being waited for.
        targets.begin_round(&all);
        let again = turns(&mut targets);
        assert_eq!(names(&again), ["well"]);
        assert_eq!(targets.finish(&again[0], true), Some(false));
        assert_eq!(targets.finish(&asked[1], true), Some(false), "nobody was told");
        targets.begin_round(&[real("well")]);
        assert_eq!(targets.finish(&asked[2], true), None, "it is gone");
        assert!(!targets.has("silent-00"));
    }
    #[test]
    fn a_silence_is_told_once() {
        let mut targets = Targets::default();
        let mut told = |answered: bool| {
            targets.begin_round(&[real("node")]);
            let turn = targets.next().unwrap();
            targets.finish(&turn, answered).unwrap()
        };
        // A new node may have no certificate yet.
        let answers = [false, false, false, true, true, false, false, true];
        assert_eq!(answers.map(&mut told), [false, true, false, true, false, true, false, true]);
    }
}
