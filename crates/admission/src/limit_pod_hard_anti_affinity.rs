//! LimitPodHardAntiAffinityTopology: a pod may keep others off its own node, not off a whole zone.

use object::{Status, Value};

use crate::tree::{items, text};
use crate::{Attempt, Effects, Plugin, Refusal};

pub struct LimitPodHardAntiAffinityTopology;

const NODE: &str = "kubernetes.io/hostname";

impl Plugin for LimitPodHardAntiAffinityTopology {
    fn name(&self) -> &'static str {
        "LimitPodHardAntiAffinityTopology"
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        let Some(pod) = new.filter(|_| attempt.is("", "pods")) else { return Ok(()) };
        let Some(rules) = pod.at(&["spec", "affinity", "podAntiAffinity"]) else { return Ok(()) };
        let terms = items(rules, "requiredDuringSchedulingIgnoredDuringExecution");
        match terms.iter().map(|term| text(term, "topologyKey")).find(|key| *key != NODE) {
            Some(key) => {
                let why = format!(
                    "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {NODE} \
                     is allowed"
                );
                Err(Status::forbidden(attempt.about(), attempt.name, why).into())
            }
            None => Ok(()),
        }
    }
}
