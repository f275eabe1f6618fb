//! How long a decision takes. Run with `cargo test --release -p scheduler speed -- --ignored --nocapture`.

use std::time::Duration;

use crate::testing::{NOW, node_of, rng, tree};
use crate::{Config, Engine, ScheduleResult};

/// What a pod says, given its number: labels, requests, further members of the spec, and the set that owns it.
struct Kind {
    title: &'static str,
    labels: fn(usize) -> String,
    requests: fn(usize) -> String,
    spec: fn(usize) -> String,
    owner: fn(usize) -> usize,
}

/// The replicas of one template.
const SHARED: Kind = Kind {
    title: "replicas",
    labels: |_| r#""app":"app-0""#.to_owned(),
    requests: |_| r#""cpu":"100m","memory":"500Mi""#.to_owned(),
    spec: |_| String::new(),
    owner: |_| 0,
};

/// No two of these ask for the same.
const DISTINCT: Kind = Kind {
    title: "distinct: requests",
    requests: |n| format!(r#""cpu":"{}m","memory":"{}Mi""#, 50 + n % 97, 100 + n),
    ..SHARED
};

fn kinds() -> Vec<Kind> {
    vec![
        SHARED,
        Kind { title: "indexed job", labels: |n| format!(r#""app":"app-0","index":"{n}""#), ..SHARED },
        Kind { title: "node selector", spec: |_| r#""nodeSelector":{"pool":"p1"}"#.to_owned(), ..SHARED },
        Kind { title: "tolerations", spec: |_| TOLERATES.to_owned(), ..SHARED },
        Kind { title: "zone spread", spec: |_| spread(0), ..SHARED },
        Kind { title: "preferred anti-affinity", spec: |_| preferred(0), ..SHARED },
        Kind {
            title: "required anti-affinity, labels of their own",
            labels: |n| format!(r#""app":"app-0","index":"{n}""#),
            spec: |_| apart(0),
            ..SHARED
        },
        DISTINCT,
        Kind {
            title: "distinct: requests, node selector",
            spec: |n| format!(r#""nodeSelector":{{"pool":"p{}"}}"#, n % 10),
            ..DISTINCT
        },
        Kind {
            title: "distinct: requests, node affinity",
            spec: |n| {
                format!(
                    r#""affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[
                    {{"matchExpressions":[{{"key":"pool","operator":"In","values":["p{}","p{}","x{n}"]}},
                    {{"key":"gpu","operator":"DoesNotExist"}}]}}]}}}}}}"#,
                    n % 10,
                    (n + 3) % 10
                )
            },
            ..DISTINCT
        },
        Kind {
            title: "distinct: requests, tolerations",
            spec: |n| {
                format!(
                    r#""tolerations":[{{"key":"own-{n}","operator":"Exists"}},{{"key":"dedicated","value":"t{}"}}]"#,
                    n % 2
                )
            },
            ..DISTINCT
        },
        Kind { title: "distinct: requests, zone spread of one app", spec: |_| spread(0), ..DISTINCT },
        Kind {
            title: "distinct: requests, app, zone spread",
            labels: |n| format!(r#""app":"app-{n}""#),
            spec: spread,
            owner: |n| n,
            ..DISTINCT
        },
        Kind {
            title: "distinct: requests, app, default spread",
            labels: |n| format!(r#""app":"app-{n}""#),
            owner: |n| n,
            ..DISTINCT
        },
        Kind {
            title: "distinct: requests, app, required anti-affinity",
            labels: |n| format!(r#""app":"app-{n}""#),
            spec: apart,
            owner: |n| n,
            ..DISTINCT
        },
        Kind {
            title: "distinct: requests, app, preferred anti-affinity",
            labels: |n| format!(r#""app":"app-{n}""#),
            spec: preferred,
            owner: |n| n,
            ..DISTINCT
        },
    ]
}

const TOLERATES: &str = r#""tolerations":[{"key":"dedicated","value":"t1"}]"#;

fn spread(n: usize) -> String {
    format!(
        r#""topologySpreadConstraints":[{{"maxSkew":5,"topologyKey":"topology.kubernetes.io/zone",
        "whenUnsatisfiable":"DoNotSchedule","labelSelector":{{"matchLabels":{{"app":"app-{n}"}}}}}}]"#
    )
}

fn preferred(n: usize) -> String {
    format!(
        r#""affinity":{{"podAntiAffinity":{{"preferredDuringSchedulingIgnoredDuringExecution":[{{"weight":1,
        "podAffinityTerm":{{"topologyKey":"kubernetes.io/hostname","labelSelector":{{"matchLabels":{{"app":"app-{n}"}}}}}}}}]}}}}"#
    )
}

fn apart(n: usize) -> String {
    format!(
        r#""affinity":{{"podAntiAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[
        {{"topologyKey":"kubernetes.io/hostname","labelSelector":{{"matchLabels":{{"app":"app-{n}"}}}}}}]}}}}"#
    )
}

/// Three zones, ten pools, one node in ten tainted, the labels a cloud puts on its nodes, and twenty images.
fn a_node(n: usize) -> object::Value {
    let labels = format!(
        r#""topology.kubernetes.io/zone":"z{}","topology.kubernetes.io/region":"r","pool":"p{}",
        "kubernetes.io/os":"linux","kubernetes.io/arch":"amd64","node.kubernetes.io/instance-type":"m5.large",
        "beta.kubernetes.io/os":"linux","beta.kubernetes.io/arch":"amd64""#,
        n % 3,
        n / 10 % 10
    );
    let taints = match n % 10 {
        0 => format!(r#""taints":[{{"key":"dedicated","value":"t{}","effect":"NoSchedule"}}]"#, n / 10 % 2),
        _ => String::new(),
    };
    let allocatable = r#""cpu":"32","memory":"256Gi","pods":"110","ephemeral-storage":"1Ti""#;
    let mut node = node_of(&format!("node-{n}"), &labels, &taints, allocatable);
    let image =
        |i: usize| format!(r#"{{"names":["registry.example.com/some/image-{i}:v1"],"sizeBytes":50000000}}"#);
    let images: Vec<String> = (0..20).map(|i| image(n % 7 + i)).collect();
    node.map_at(&["status"]).set("images", tree(&format!("[{}]", images.join(","))));
    node
}

fn measure(kind: &Kind, nodes: usize) {
    let mut engine = Engine::new(Config::default());
    for n in 0..nodes {
        engine.set_node(&a_node(n), NOW);
    }
    let pods = 5000;
    let mut intake = Duration::ZERO;
    for n in 0..pods {
        let (labels, requests, spec, owner) =
            ((kind.labels)(n), (kind.requests)(n), (kind.spec)(n), (kind.owner)(n));
        if n == 0 || owner != 0 {
            let set = format!(r#"{{"spec":{{"selector":{{"matchLabels":{{"app":"app-{owner}"}}}}}}}}"#);
            let name = format!("set-{owner}");
            engine.set_owner(crate::pod::OwnerKind::ReplicaSet, "ns", &name, Some(&tree(&set)));
        }
        let mut tree = crate::testing::pod(&format!("p{n}"), &labels, &requests, &spec);
        let owner = format!(
            r#"[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"set-{owner}","controller":true}}]"#
        );
        tree.map_at(&["metadata"]).set("ownerReferences", self::tree(&owner));
        let bytes = codec::json::to_vec(&tree);
        let begin = on_cpu();
        engine.set_pod(&codec::json::parse(&bytes, None).expect("just written"), NOW);
        intake += on_cpu() - begin;
    }
    let mut chance = rng(7);
    let begin = on_cpu();
    let mut bound = 0;
    while let Some(step) = engine.next(NOW, &mut chance) {
        bound += usize::from(matches!(step, ScheduleResult::Bind { .. }));
    }
    let each = (on_cpu() - begin) / pods as u32;
    println!(
        "{nodes} nodes | {each:>9.1?} a decision | {:>9.1?} to take a pod in | {bound}/{pods} bound | {}",
        intake / pods as u32,
        kind.title
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
    // To look at one of them alone.
    let only = std::env::var("ONLY").unwrap_or_default();
    for nodes in [1000, 5000] {
        let kinds = kinds();
        kinds.iter().filter(|kind| kind.title.contains(&only)).for_each(|kind| measure(kind, nodes));
    }
}
