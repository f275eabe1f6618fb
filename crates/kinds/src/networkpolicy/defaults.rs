//! Network policies: of ingress, and of egress where the policy names some; ports speak TCP.

use object::{Map, Value};

use crate::defaults::fill::Literal::Text;
use crate::defaults::fill::{Default, each, fill, inside, is_empty, pointer};

const PORT: &[Default] = &[pointer("protocol", Text("TCP"))];

pub(crate) fn apply(policy: &mut Map) {
    let Some(spec) = inside(policy, "spec") else { return };
    if is_empty(spec, "policyTypes") {
        let mut types = vec![Value::from("Ingress")];
        if !is_empty(spec, "egress") {
            types.push(Value::from("Egress"));
        }
        spec.set("policyTypes", types);
    }
    for direction in ["ingress", "egress"] {
        each(spec, direction, |rule| each(rule, "ports", |port| fill(port, PORT)));
    }
}
