//! What an object of the cluster's own should become, given what people made of it. Pure.
//!
//! Roles and bindings get back what they lack and keep what they have beyond that, unless their annotation says to
//! leave them alone. Mandatory flow control objects are put back as they were; suggested ones while their
//! annotation says so.

use auth::rbac::{Rule, covers};
use object::{Map, Value};

const RBAC_AUTO: &str = "rbac.authorization.kubernetes.io/autoupdate";
const FLOW_AUTO: &str = "apf.kubernetes.io/autoupdate-spec";
const MANDATORY: [&str; 2] = ["exempt", "catch-all"];

pub(super) enum Reconciled {
    Unchanged,
    Update(Value),
    /// What differs can only be set when an object is made.
    Recreate(Value),
}

pub(super) fn reconcile(existing: &Value, expected: Value) -> Reconciled {
    match expected.str_at(&["kind"]).unwrap_or("") {
        "ClusterRole" | "Role" => role(existing, &expected),
        "ClusterRoleBinding" | "RoleBinding" => binding(existing, expected),
        "FlowSchema" | "PriorityLevelConfiguration" => flow(existing, &expected),
        _ => Reconciled::Unchanged,
    }
}

fn role(existing: &Value, expected: &Value) -> Reconciled {
    if is_left_alone(existing) {
        return Reconciled::Unchanged;
    }
    let mut new = existing.clone();
    let mut changed = merge_metadata(&mut new, expected);
    let selectors = |role: &Value| list(role, &["aggregationRule", "clusterRoleSelectors"]);
    let aggregated = expected.get("aggregationRule").is_some();
    // The rules of an aggregated role are the aggregation's business.
    if !aggregated && let Err(missing) = covers(&Rule::list_of(existing), &Rule::list_of(expected)) {
        let mut rules = list(existing, &["rules"]);
        rules.extend(missing.iter().map(Rule::to_value));
        new.make_map().set("rules", rules);
        changed = true;
    }
    if !aggregated && existing.get("aggregationRule").is_some() {
        new.make_map().remove("aggregationRule");
        changed = true;
    }
    let mut has = selectors(existing);
    let missing: Vec<Value> = selectors(expected).into_iter().filter(|s| !contains(&has, s)).collect();
    if !missing.is_empty() {
        has.extend(missing);
        new.map_at(&["aggregationRule"]).set("clusterRoleSelectors", has);
        changed = true;
    }
    if changed { Reconciled::Update(new) } else { Reconciled::Unchanged }
}

fn binding(existing: &Value, expected: Value) -> Reconciled {
    if is_left_alone(existing) {
        return Reconciled::Unchanged;
    }
    if !kinds::same(existing.get("roleRef"), expected.get("roleRef")) {
        return Reconciled::Recreate(expected);
    }
    let mut new = existing.clone();
    let mut changed = merge_metadata(&mut new, &expected);
    let mut subjects = list(existing, &["subjects"]);
    let missing: Vec<Value> =
        list(&expected, &["subjects"]).into_iter().filter(|s| !contains(&subjects, s)).collect();
    if !missing.is_empty() {
        subjects.extend(missing);
        new.make_map().set("subjects", subjects);
        changed = true;
    }
    if changed { Reconciled::Update(new) } else { Reconciled::Unchanged }
}

fn flow(existing: &Value, expected: &Value) -> Reconciled {
    let name = existing.str_at(&["metadata", "name"]).unwrap_or("");
    let annotation = existing.str_at(&["metadata", "annotations", FLOW_AUTO]);
    let says = annotation.and_then(parse_bool);
    let untouched = existing.at(&["metadata", "generation"]).and_then(Value::as_int) == Some(1);
    let update_spec = MANDATORY.contains(&name) || says.unwrap_or(untouched);
    let mut spec = expected.get("spec").cloned().unwrap_or_else(Value::map);
    // How much the exempt level may borrow is for the administrator to say.
    if name == "exempt"
        && let Some(exempt) = existing.at(&["spec", "exempt"])
    {
        spec.make_map().set("exempt", exempt.clone());
    }
    let mut new = existing.clone();
    let spec_changed = update_spec && !kinds::same(existing.get("spec"), Some(&spec));
    if spec_changed {
        new.make_map().set("spec", spec);
    }
    if says != Some(update_spec) {
        let text = if update_spec { "true" } else { "false" };
        new.map_at(&["metadata", "annotations"]).set(FLOW_AUTO, text);
    } else if !spec_changed {
        return Reconciled::Unchanged;
    }
    Reconciled::Update(new)
}

/// A flow control object whose annotation says that the server may change it.
pub(super) fn is_left_to_the_server(existing: &Value) -> bool {
    existing.str_at(&["metadata", "annotations", FLOW_AUTO]).and_then(parse_bool) == Some(true)
}

fn is_left_alone(existing: &Value) -> bool {
    existing.str_at(&["metadata", "annotations", RBAC_AUTO]) == Some("false")
}

/// Adds the labels and annotations that are missing; those that are there keep their values.
fn merge_metadata(new: &mut Value, expected: &Value) -> bool {
    let mut changed = false;
    for member in ["annotations", "labels"] {
        let Some(wanted) = expected.at(&["metadata", member]).and_then(Value::as_map) else { continue };
        let mut has: Map = new.at(&["metadata", member]).and_then(Value::as_map).cloned().unwrap_or_default();
        for (name, value) in wanted.iter().filter(|(name, _)| new.at(&["metadata", member, name]).is_none()) {
            has.set(name.clone(), value.clone());
            changed = true;
        }
        if !has.is_empty() {
            new.map_at(&["metadata"]).set(member, has);
        }
    }
    changed
}

fn list(object: &Value, path: &[&str]) -> Vec<Value> {
    object.at(path).and_then(Value::as_list).unwrap_or_default().to_vec()
}

fn contains(list: &[Value], wanted: &Value) -> bool {
    list.iter().any(|one| kinds::same(Some(one), Some(wanted)))
}

/// As Go reads booleans.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
