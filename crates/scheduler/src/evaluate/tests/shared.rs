//! Pods of one template share what was found out about the nodes.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::evaluate::{Evaluator, Outcome};
use crate::testing::{node_of, pod, rng};
use crate::{Config, Node, Nominated, Pod, Selectors, Templates};

/// How often a node was looked at for so many pods of one template.
fn evaluations(pods: usize, nodes: usize) -> usize {
    let mut cluster = Cluster::default();
    for n in 0..nodes {
        let room = r#""cpu":"8","memory":"32Gi","pods":"110""#;
        let zone = format!(r#""topology.kubernetes.io/zone":"z{}""#, n % 3);
        cluster.set_node(Arc::new(Node::parse(&node_of(&format!("n{n}"), &zone, "", room))));
    }
    let mut templates = Templates::default();
    let mut evaluator = Evaluator::new(Arc::new(Config::default()));
    let (selectors, nominated, mut chance) = (Selectors::default(), Nominated::default(), rng(1));
    for n in 0..pods {
        let pod = templates.parse(&pod(&format!("p{n}"), r#""app":"web""#, r#""cpu":"100m""#, ""));
        let outcome = evaluator.decide(&mut cluster, &selectors, &nominated, 0, &pod, &mut chance);
        let Outcome::Place(ix) = outcome else { panic!("{outcome:?}") };
        let node_name = cluster.node_name(ix).clone();
        cluster.set_pod(&Pod { node_name, ..pod }, true);
    }
    evaluator.locals.values().map(|local| local.evaluated).sum()
}

#[test]
fn a_hundred_pods_of_one_template_cost_little_more_looks_at_nodes_than_one() {
    const NODES: usize = 200;
    const PODS: usize = 100;
    // The search ends when a hundred nodes fit, and the next one starts there.
    let one = evaluations(1, NODES);
    assert_eq!(one, 100);
    // What the first pod finds is not kept, since most specs come once; after that every node is looked at once, and
    // again each that got a pod.
    let all = evaluations(PODS, NODES);
    assert!(all <= one + NODES + PODS, "{all} looks at nodes for {PODS} pods");
}
