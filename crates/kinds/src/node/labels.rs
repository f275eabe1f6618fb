//! Deprecated node labels, wherever nodes are selected by label.

use object::{Value, validate_text};

use crate::check::{Path, items, text, texts};
use crate::warnings::Warnings;

const DEPRECATED: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#),
    ("beta.kubernetes.io/os", r#"deprecated since v1.14; use "kubernetes.io/os" instead"#),
    (
        "failure-domain.beta.kubernetes.io/region",
        r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#,
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#,
    ),
    (
        "beta.kubernetes.io/instance-type",
        r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#,
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", r#"use "node-role.kubernetes.io/control-plane" instead"#),
];

/// The warning about a label that has a newer name.
pub(crate) fn deprecated(label: &str) -> Option<&'static str> {
    DEPRECATED.iter().find(|(name, _)| *name == label).map(|(_, message)| *message)
}

/// A `NodeSelectorTerm`. `values` are validated only where validation lets bad ones through (preferences).
pub(crate) fn selector_term(term: &Value, values: bool, at: &Path<'_>, warnings: &mut Warnings) {
    let at = at.child("matchExpressions");
    for (i, expression) in items(term, "matchExpressions").iter().enumerate() {
        let at = at.index(i);
        expression_key(expression, &at, warnings);
        if !values {
            continue;
        }
        for (j, value) in texts(expression, "values").enumerate() {
            for problem in validate_text::label_value(value) {
                warnings.push_at(&at.child("values").index(j), format!("{value} is invalid, {problem}"));
            }
        }
    }
}

/// The key of one expression at `at`.
pub(crate) fn expression_key(expression: &Value, at: &Path<'_>, warnings: &mut Warnings) {
    let key = text(expression, "key");
    if let Some(message) = deprecated(key) {
        warnings.push_at(&at.child("key"), format!("{key} is {message}"));
    }
}
