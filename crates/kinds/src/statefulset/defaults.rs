//! Stateful sets: one replica, in order, claims kept.

use object::Map;

use crate::defaults::fill::Literal::{Empty, Int, Text};
use crate::defaults::fill::{Default, at, each, fill, inside, is_empty, plain, pointer, text};
use crate::{persistentvolumeclaim, pod};

const SPEC: &[Default] = &[
    plain("podManagementPolicy", Text("OrderedReady")),
    pointer("persistentVolumeClaimRetentionPolicy", Empty),
    pointer("replicas", Int(1)),
    pointer("revisionHistoryLimit", Int(10)),
];
const ROLLING: &[Default] = &[plain("type", Text("RollingUpdate")), pointer("rollingUpdate", Empty)];
const WHOLE: &[Default] = &[pointer("partition", Int(0))];
const RETAIN: &[Default] = &[plain("whenDeleted", Text("Retain")), plain("whenScaled", Text("Retain"))];

pub(crate) fn apply(set: &mut Map) {
    let Some(spec) = inside(set, "spec") else { return };
    fill(spec, SPEC);
    if let Some(strategy) = inside(spec, "updateStrategy") {
        // With only a type given nothing else is defaulted.
        if is_empty(strategy, "type") {
            fill(strategy, ROLLING);
        }
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = at(strategy, "rollingUpdate")
        {
            fill(rolling, WHOLE);
        }
    }
    if let Some(policy) = at(spec, "persistentVolumeClaimRetentionPolicy") {
        fill(policy, RETAIN);
    }
    pod::defaults::template(spec);
    each(spec, "volumeClaimTemplates", |claim| {
        persistentvolumeclaim::defaults::apply(claim);
        typed(claim);
    });
}

/// Claim templates are whole objects: kind and version are always set.
fn typed(claim: &mut Map) {
    for (member, word) in [("kind", "PersistentVolumeClaim"), ("apiVersion", "v1")] {
        if text(claim, member) != word {
            claim.set(member, word);
        }
    }
}
