//! Sizes, their edges, and what a node is told.

use codec::json;
use object::Value;

use super::plan::{ANNOTATION, Plan, plan, stage};

fn node(ttl: Option<&str>) -> Value {
    let mut node = Value::map();
    if let Some(ttl) = ttl {
        node.map_at(&["metadata", "annotations"]).set(ANNOTATION, ttl);
    }
    node
}

/// Seconds that a node without the annotation is told.
fn seconds(stage: usize) -> i64 {
    match plan(&node(None), stage) {
        Plan::Annotate { seconds, .. } => seconds,
        Plan::Nothing => panic!("a node without the annotation gets it"),
    }
}

#[test]
fn each_cluster_size_has_its_ttl() {
    for (nodes, expected) in [
        (0, 0),
        (1, 0),
        (100, 0),
        (101, 15),
        (500, 15),
        (501, 30),
        (1000, 30),
        (1001, 60),
        (2000, 60),
        (2001, 300),
        (50_000, 300),
    ] {
        assert_eq!(seconds(stage(0, nodes)), expected, "{nodes} nodes from the start");
    }
}

#[test]
fn a_small_shrink_keeps_the_ttl() {
    for (before, still, less) in [(101, 90, 89), (501, 450, 449), (1001, 900, 899), (2001, 1800, 1799)] {
        let at = stage(0, before);
        assert_eq!(stage(at, still), at, "{still} nodes after {before}");
        assert_eq!(stage(at, less), at - 1, "{less} nodes after {before}");
        // And the other way round: what it left it takes again only with as many as at first.
        assert_eq!(stage(at - 1, before - 1), at - 1, "{} nodes after {less}", before - 1);
    }
    assert_eq!(stage(stage(0, 5000), 3), 0, "many nodes at once");
}

#[test]
fn a_node_is_written_only_when_the_ttl_changes() {
    let large = stage(0, 101);
    for right in ["15", "+15", "015"] {
        assert_eq!(plan(&node(Some(right)), large), Plan::Nothing, "{right}");
    }
    for wrong in [None, Some("0"), Some("15s"), Some(""), Some(" 15"), Some("99999999999999999999")] {
        let Plan::Annotate { patch, .. } = plan(&node(wrong), large) else { panic!("{wrong:?} is right") };
        let expected = r#"{"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":"15"}}}"#;
        assert_eq!(String::from_utf8(json::to_vec(&patch)).unwrap(), expected);
    }
}
