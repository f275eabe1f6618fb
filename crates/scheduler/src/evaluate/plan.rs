//! The counters a class of pods is judged by, asked for once and renewed for every decision.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::counters::{Counters, Handle, Places, Question};
use crate::config::Profile;
use crate::node::HOSTNAME;
use crate::plugin::Plugin;
use crate::pod::{Class, Constraint, Held, HeldKind, PodTerm, Unsatisfiable};
use crate::selectors::Selectors;

pub struct Plan {
    terms_version: u64,
    selectors_version: u64,
    pub hard: Vec<Hard>,
    pub soft: Vec<Soft>,
    /// Nodes without all labels of the soft constraints are worth nothing (not so for the built-in constraints).
    pub require_all: bool,
    pub affinity: Vec<Topic>,
    /// The pod is one of those it wants to be with.
    pub matches_itself: bool,
    pub anti: Vec<Topic>,
    /// Pods placed already that do not want this one near.
    pub existing_anti: Vec<Existing>,
    /// Weight and where.
    pub wanted: Vec<(i64, Topic)>,
    pub used: u64,
}

/// A counter over a topology.
#[derive(Clone, Copy)]
pub struct Topic {
    pub topology: usize,
    pub counter: Handle,
}

pub struct Hard {
    pub at: Topic,
    pub max_skew: i64,
    pub min_domains: i64,
    pub itself: i64,
    pub constraint: Constraint,
}

pub struct Soft {
    pub at: Topic,
    pub max_skew: i64,
    pub hostname: bool,
}

pub struct Existing {
    pub held: Arc<Held>,
    pub at: Topic,
}

impl Plan {
    pub fn new(class: &Class, profile: &Profile, cluster: &mut Cluster, selectors: &Selectors) -> Plan {
        let counters = cluster.counters_mut();
        let (constraints, own) = constraints(class, profile, selectors);
        let of = |when: Unsatisfiable, on: bool| -> Vec<&Constraint> {
            constraints.iter().filter(|c| on && c.when == when).collect()
        };
        let filter = |plugin: Plugin| profile.filter.has(plugin);
        let score = |plugin: Plugin| profile.weight(plugin) != 0;
        let require_all = own || !profile.spread.system;

        let hard = of(Unsatisfiable::DoNotSchedule, filter(Plugin::PodTopologySpread));
        let keys: Vec<usize> = hard.iter().map(|c| counters.topology(&c.topology_key)).collect();
        let hard = hard
            .into_iter()
            .map(|c| Hard {
                at: spread(counters, class, c, &keys),
                max_skew: c.max_skew,
                min_domains: c.min_domains,
                itself: i64::from(c.selector.matches(&|key| class.label(key))),
                constraint: c.clone(),
            })
            .collect();
        let soft = of(Unsatisfiable::ScheduleAnyway, score(Plugin::PodTopologySpread));
        let keys: Vec<usize> = soft.iter().map(|c| counters.topology(&c.topology_key)).collect();
        let required = if require_all { &keys[..] } else { &[] };
        let soft = soft
            .into_iter()
            .map(|c| {
                let hostname = &*c.topology_key == HOSTNAME;
                let at =
                    if hostname { by_node(counters, class, c) } else { spread(counters, class, c, required) };
                Soft { at, max_skew: c.max_skew, hostname }
            })
            .collect();

        let mut plan = Plan {
            terms_version: 0,
            selectors_version: selectors.version(),
            hard,
            soft,
            require_all,
            affinity: Vec::new(),
            matches_itself: false,
            anti: Vec::new(),
            existing_anti: Vec::new(),
            wanted: Vec::new(),
            used: 0,
        };
        if filter(Plugin::InterPodAffinity) {
            plan.required_terms(class, counters);
        }
        if score(Plugin::InterPodAffinity) {
            plan.preferred_terms(class, profile, counters);
        }
        plan.terms_version = counters.terms_version();
        plan
    }

    /// Brings all counters up to date; `false` when the plan itself is out of date.
    pub fn renew(&self, counters: &mut Counters, selectors: &Selectors) -> bool {
        let topics = || {
            let spread = self.hard.iter().map(|h| h.at).chain(self.soft.iter().map(|s| s.at));
            let terms = self.affinity.iter().chain(&self.anti).copied();
            let existing = self.existing_anti.iter().map(|e| e.at);
            spread.chain(terms).chain(existing).chain(self.wanted.iter().map(|(_, at)| *at))
        };
        self.terms_version == counters.terms_version()
            && self.selectors_version == selectors.version()
            && topics().all(|topic| counters.renew(topic.counter))
    }

    /// Whether it matters how many pods are around a node, not only that there are some.
    pub fn counts_pods(&self) -> bool {
        !self.hard.is_empty() || !self.affinity.is_empty()
    }

    fn required_terms(&mut self, class: &Class, counters: &mut Counters) {
        for term in &class.affinity {
            let question = Question::Terms(class.affinity.clone());
            self.affinity.push(topic(counters, question, &term.topology_key));
        }
        let labels = counters.namespace_labels(&class.namespace);
        let itself = |t: &Arc<PodTerm>| t.matches(&class.namespace, labels, &class.labels);
        self.matches_itself = class.affinity.iter().all(itself);
        for term in &class.anti_affinity {
            self.anti.push(topic(counters, Question::Terms(vec![term.clone()]), &term.topology_key));
        }
        for held in counters.held_about(class) {
            if held.kind == HeldKind::AntiAffinity {
                let at = holders(counters, &held);
                self.existing_anti.push(Existing { held, at });
            }
        }
    }

    fn preferred_terms(&mut self, class: &Class, profile: &Profile, counters: &mut Counters) {
        for (weight, term) in &class.preferred {
            let at = topic(counters, Question::Terms(vec![term.clone()]), &term.topology_key);
            self.wanted.push((*weight, at));
        }
        if profile.inter_pod.ignore_preferred_terms_of_existing_pods && class.preferred.is_empty() {
            return;
        }
        let hard_weight = profile.inter_pod.hard_pod_affinity_weight;
        for held in counters.held_about(class) {
            let weight = match held.kind {
                HeldKind::AntiAffinity => continue,
                HeldKind::Affinity => hard_weight,
                HeldKind::Preferred(weight) => weight,
            };
            if weight != 0 {
                let at = holders(counters, &held);
                self.wanted.push((weight, at));
            }
        }
    }
}

/// Where those who hold a term are.
fn holders(counters: &mut Counters, held: &Arc<Held>) -> Topic {
    topic(counters, Question::Holders(held.clone()), &held.term.topology_key)
}

fn topic(counters: &mut Counters, question: Question, key: &str) -> Topic {
    let topology = counters.topology(key);
    Topic { topology, counter: counters.ask(question, topology, None) }
}

fn spread(counters: &mut Counters, class: &Class, constraint: &Constraint, keys: &[usize]) -> Topic {
    let topology = counters.topology(&constraint.topology_key);
    let namespace = class.namespace.clone();
    let question = Question::Spread { namespace, selector: constraint.selector.clone() };
    let places = Places {
        spec: class.spec.clone(),
        affinity: constraint.affinity_policy,
        taints: constraint.taints_policy,
        keys: keys.to_vec(),
    };
    Topic { topology, counter: counters.ask(question, topology, Some(places)) }
}

/// Where each node is a domain of its own and only scored.
fn by_node(counters: &mut Counters, class: &Class, constraint: &Constraint) -> Topic {
    let topology = counters.topology(&constraint.topology_key);
    let namespace = class.namespace.clone();
    let question = Question::Spread { namespace, selector: constraint.selector.clone() };
    Topic { topology, counter: counters.ask_by_node(question) }
}

/// The pod's own constraints, or the profile's defaults with the selector of the pod's services and controller.
fn constraints(class: &Class, profile: &Profile, selectors: &Selectors) -> (Vec<Constraint>, bool) {
    if let Some(own) = &class.spread {
        return (own.clone(), true);
    }
    if profile.spread.defaults.is_empty() {
        return (Vec::new(), false);
    }
    let Some(selector) = selectors.of(class) else { return (Vec::new(), false) };
    let with = |c: &Constraint| Constraint { selector: selector.clone(), ..c.clone() };
    (profile.spread.defaults.iter().map(with).collect(), false)
}

/// Whether a constraint of the class counts terminating or foreign pods never; used for pods moved in thought.
pub fn counts_for(constraint: &Constraint, class: &Class, other: &Class, deleting: bool) -> bool {
    !deleting
        && other.namespace == class.namespace
        && !constraint.selector.is_everything()
        && constraint.selector.matches(&|key| other.label(key))
}
