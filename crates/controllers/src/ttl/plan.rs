//! How long a node may keep what it has read, by the size of the cluster.

use object::Value;

pub const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// A stage of the cluster's size. They overlap, so that a cluster at an edge does not write all its nodes again and again.
struct Stage {
    /// With fewer nodes the one before it holds.
    least: usize,
    /// With more nodes the one after it holds.
    most: usize,
    seconds: i64,
}

const STAGES: [Stage; 5] = [
    Stage { least: 0, most: 100, seconds: 0 },
    Stage { least: 90, most: 500, seconds: 15 },
    Stage { least: 450, most: 1000, seconds: 30 },
    Stage { least: 900, most: 2000, seconds: 60 },
    Stage { least: 1800, most: usize::MAX, seconds: 300 },
];

#[derive(Debug, PartialEq)]
pub enum Plan {
    Nothing,
    Annotate { seconds: i64, patch: Value },
}

/// The stage of a cluster of so many nodes that was at `from` before; a new one begins at 0.
pub fn stage(from: usize, nodes: usize) -> usize {
    let mut at = from.min(STAGES.len() - 1);
    while nodes > STAGES[at].most {
        at += 1;
    }
    while nodes < STAGES[at].least {
        at -= 1;
    }
    at
}

/// What a node of a cluster at this stage is missing.
pub fn plan(node: &Value, stage: usize) -> Plan {
    let seconds = STAGES[stage.min(STAGES.len() - 1)].seconds;
    let says = node.str_at(&["metadata", "annotations", ANNOTATION]);
    if says.and_then(|text| text.parse::<i64>().ok()) == Some(seconds) {
        return Plan::Nothing;
    }
    let mut patch = Value::map();
    patch.map_at(&["metadata", "annotations"]).set(ANNOTATION, seconds.to_string());
    Plan::Annotate { seconds, patch }
}
