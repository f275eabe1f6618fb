//! Daemon sets: rolled one node at a time.

use object::Map;

use crate::defaults::fill::Literal::{Empty, Int, Text};
use crate::defaults::fill::{Default, at, fill, inside, plain, pointer, text};
use crate::pod;

const SPEC: &[Default] = &[pointer("revisionHistoryLimit", Int(10))];
const STRATEGY: &[Default] = &[plain("type", Text("RollingUpdate"))];
const ROLLING: &[Default] = &[pointer("rollingUpdate", Empty)];
const ONE_BY_ONE: &[Default] = &[pointer("maxUnavailable", Int(1)), pointer("maxSurge", Int(0))];

pub(crate) fn apply(set: &mut Map) {
    let Some(spec) = inside(set, "spec") else { return };
    fill(spec, SPEC);
    if let Some(strategy) = inside(spec, "updateStrategy") {
        fill(strategy, STRATEGY);
        if text(strategy, "type") == "RollingUpdate" {
            fill(strategy, ROLLING);
            if let Some(rolling) = at(strategy, "rollingUpdate") {
                fill(rolling, ONE_BY_ONE);
            }
        }
    }
    pod::defaults::template(spec);
}
