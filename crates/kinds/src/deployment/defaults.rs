//! Deployments: one replica, rolled a quarter at a time.

use object::Map;

use crate::defaults::fill::Literal::{Empty, Int, Text};
use crate::defaults::fill::{Default, at, fill, inside, plain, pointer, text};
use crate::pod;

const SPEC: &[Default] = &[
    pointer("replicas", Int(1)),
    pointer("revisionHistoryLimit", Int(10)),
    pointer("progressDeadlineSeconds", Int(600)),
];
const STRATEGY: &[Default] = &[plain("type", Text("RollingUpdate"))];
const ROLLING: &[Default] = &[pointer("rollingUpdate", Empty)];
const QUARTER: &[Default] = &[pointer("maxUnavailable", Text("25%")), pointer("maxSurge", Text("25%"))];

pub(crate) fn apply(deployment: &mut Map) {
    let Some(spec) = inside(deployment, "spec") else { return };
    fill(spec, SPEC);
    if let Some(strategy) = inside(spec, "strategy") {
        fill(strategy, STRATEGY);
        if text(strategy, "type") == "RollingUpdate" {
            fill(strategy, ROLLING);
            if let Some(rolling) = at(strategy, "rollingUpdate") {
                fill(rolling, QUARTER);
            }
        }
    }
    pod::defaults::template(spec);
}
