//! Admission policies and their bindings, mutating and validating: fail closed, match equivalents everywhere.

use object::Map;

use crate::defaults::fill::Literal::{Empty, Text};
use crate::defaults::fill::{Default, at, each, fill, inside, pointer};

const POLICY: &[Default] = &[pointer("failurePolicy", Text("Fail"))];
const MATCH: &[Default] = &[
    pointer("matchPolicy", Text("Equivalent")),
    pointer("namespaceSelector", Empty),
    pointer("objectSelector", Empty),
];
/// A rule matches with and without a namespace.
pub(crate) const RULE: &[Default] = &[pointer("scope", Text("*"))];

pub(crate) fn apply_policy(policy: &mut Map) {
    let Some(spec) = inside(policy, "spec") else { return };
    fill(spec, POLICY);
    match_resources(spec, "matchConstraints");
}

pub(crate) fn apply_binding(binding: &mut Map) {
    if let Some(spec) = at(binding, "spec") {
        match_resources(spec, "matchResources");
    }
}

fn match_resources(spec: &mut Map, name: &str) {
    let Some(resources) = at(spec, name) else { return };
    fill(resources, MATCH);
    for rules in ["resourceRules", "excludeResourceRules"] {
        each(resources, rules, |rule| fill(rule, RULE));
    }
}
