//! How long a decision takes. Run with `cargo test --release -p scheduler speed -- --ignored --nocapture`.

use std::time::Duration;

use crate::testing::{NOW, node_of, pod, rng, tree};
use crate::{Config, Engine, Step};

fn measure(title: &str, nodes: usize, spec: &str, distinct_labels: bool) {
    let mut engine = Engine::new(Config::default());
    for n in 0..nodes {
        let zone = format!(r#""topology.kubernetes.io/zone":"z{}""#, n % 3);
        let allocatable = r#""cpu":"32","memory":"256Gi","pods":"110","ephemeral-storage":"1Ti""#;
        engine.set_node(&node_of(&format!("node-{n}"), &zone, "", allocatable), NOW);
    }
    let set = tree(r#"{"spec":{"selector":{"matchLabels":{"app":"web"}}}}"#);
    engine.set_owner(crate::pod::OwnerKind::ReplicaSet, "ns", "web", Some(&set));
    let pods = 5000;
    let mut intake = Duration::ZERO;
    for n in 0..pods {
        let index = if distinct_labels { format!(r#","index":"{n}""#) } else { String::new() };
        let labels = format!(r#""app":"web"{index}"#);
        let mut tree = pod(&format!("p{n}"), &labels, r#""cpu":"100m","memory":"500Mi""#, spec);
        let owner = r#"[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","controller":true}]"#;
        tree.map_at(&["metadata"]).set("ownerReferences", self::tree(owner));
        let bytes = codec::json::to_vec(&tree);
        let begin = on_cpu();
        engine.set_pod(&codec::json::parse(&bytes, None).expect("just written"), NOW);
        intake += on_cpu() - begin;
    }
    let mut chance = rng(7);
    let begin = on_cpu();
    let mut bound = 0;
    while let Some(step) = engine.next(NOW, &mut chance) {
        bound += usize::from(matches!(step, Step::Bind { .. }));
    }
    let each = (on_cpu() - begin) / pods as u32;
    println!(
        "{title}: {nodes} nodes, {bound}/{pods} bound, {each:?} of CPU a decision, {:?} to take a pod in",
        intake / pods as u32
    );
}

/// What this thread has worked so far, whatever else the machine does.
fn on_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("measured on Linux only");
    Duration::from_nanos(stat.split(' ').next().and_then(|n| n.parse().ok()).expect("a number"))
}

#[test]
#[ignore = "measures; needs a release build"]
fn speed_of_a_decision() {
    let spread = r#""topologySpreadConstraints":[{"maxSkew":5,"topologyKey":"topology.kubernetes.io/zone",
        "whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"app":"web"}}}]"#;
    let anti = r#""affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,
        "podAffinityTerm":{"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchLabels":{"app":"web"}}}}]}}"#;
    let apart = r#""affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
        {"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchLabels":{"app":"web"}}}]}}"#;
    for nodes in [1000, 5000] {
        measure("required anti-affinity, labels of their own", nodes, apart, true);
        measure("replicas", nodes, "", false);
        measure("indexed job", nodes, "", true);
        measure("zone spread", nodes, spread, false);
        measure("preferred anti-affinity", nodes, anti, false);
    }
}
