//! PodTopologyLabels: a pod on a node carries the node's zone and region.

use object::Value;

use crate::{Attempt, Effects, Operation, Plugin, Refusal};

pub struct PodTopologyLabels;

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

impl Plugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    fn mutate(&self, attempt: &Attempt<'_>, new: &mut Value, _: &mut Effects) -> Result<(), Refusal> {
        if attempt.operation != Operation::Create || !attempt.is_or_below("", "pods") {
            return Ok(());
        }
        let node = match attempt.subresource {
            None => new.str_at(&["spec", "nodeName"]),
            // A binding hands its labels to the pod.
            Some("binding") if new.str_at(&["target", "kind"]) == Some("Node") => {
                new.str_at(&["target", "name"])
            }
            _ => None,
        };
        let Some(node) = node.filter(|name| !name.is_empty()) else { return Ok(()) };
        let Some(node) = attempt.find("", "nodes", "", node) else { return Ok(()) };
        for label in LABELS {
            if let Some(value) = node.label(label) {
                new.map_at(&["metadata", "labels"]).set(label, value);
            }
        }
        Ok(())
    }
}
