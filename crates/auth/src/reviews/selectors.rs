//! Selectors in a review: validated, but RBAC ignores them.

use object::selector::{FieldSelector, LabelSelector};
use object::{FieldError, Value, quote, validate_text};

use crate::rbac::strings;

/// Validation errors of both selectors, as in kube-apiserver.
pub fn errors(review: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    for name in ["fieldSelector", "labelSelector"] {
        let Some(selector) = selector(review, name) else { continue };
        let path = format!("spec.resourceAttributes.{name}");
        let raw = selector.str_at(&["rawSelector"]).unwrap_or_default();
        let requirements = selector.get("requirements").and_then(Value::as_list).unwrap_or_default();
        match (raw.is_empty(), requirements.is_empty()) {
            (false, false) => {
                let why = "may not specified at the same time as requirements";
                out.push(FieldError::invalid(format!("{path}.rawSelector"), quote(raw), why));
            }
            (true, true) => {
                let why = format!("when {path} is specified, requirements or rawSelector is required");
                out.push(FieldError::required(format!("{path}.requirements"), why));
            }
            _ => {}
        }
        for (at, requirement) in requirements.iter().enumerate() {
            out.extend(requirement_errors(
                requirement,
                &format!("{path}.requirements[{at}]"),
                name == "labelSelector",
            ));
        }
    }
    out
}

/// Selectors that could not be parsed are dropped from the check, which only makes it
/// broader. For `status.evaluationError`.
pub fn ignored(review: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for name in ["fieldSelector", "labelSelector"] {
        let Some(selector) = selector(review, name) else { continue };
        let raw = selector.str_at(&["rawSelector"]).unwrap_or_default();
        let readable = match name {
            "labelSelector" => LabelSelector::parse(raw).is_ok(),
            _ => FieldSelector::parse(raw).is_ok(),
        };
        if !readable {
            out.push(format!("spec.resourceAttributes.{name} ignored due to parse error"));
            continue;
        }
        let requirements = selector.get("requirements").and_then(Value::as_list).unwrap_or_default();
        let good = requirements.iter().filter(|r| understood(r, name == "labelSelector")).count();
        if good < requirements.len() {
            let partially = if good > 0 { "partially " } else { "" };
            out.push(format!("spec.resourceAttributes.{name} {partially}ignored due to parse error"));
        }
    }
    out
}

fn selector<'a>(review: &'a Value, name: &str) -> Option<&'a Value> {
    review.at(&["spec", "resourceAttributes", name]).filter(|v| !v.is_null())
}

fn requirement_errors(requirement: &Value, path: &str, of_label: bool) -> Vec<FieldError> {
    let mut out = Vec::new();
    let key = requirement.str_at(&["key"]).unwrap_or_default();
    if key.is_empty() && !of_label {
        out.push(FieldError::required(format!("{path}.key"), "must be specified"));
    }
    let values = strings(requirement.get("values"));
    match requirement.str_at(&["operator"]).unwrap_or_default() {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            out.push(FieldError::required(format!("{path}.values"), why));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            out.push(FieldError::forbidden(format!("{path}.values"), why));
        }
        // Unknown operators (of newer clients) are accepted.
        _ => {}
    }
    if of_label {
        let wrong = validate_text::qualified_name(key).into_iter();
        out.extend(wrong.map(|why| FieldError::invalid(format!("{path}.key"), quote(key), why)));
        for (at, value) in values.iter().enumerate() {
            let wrong = validate_text::label_value(value).into_iter();
            out.extend(
                wrong.map(|why| FieldError::invalid(format!("{path}.values[{at}]"), quote(value), why)),
            );
        }
    }
    out
}

/// Field selectors support equality with a single value only.
fn understood(requirement: &Value, of_label: bool) -> bool {
    let operator = requirement.str_at(&["operator"]).unwrap_or_default();
    match of_label {
        true => matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist"),
        false => matches!(operator, "In" | "NotIn") && strings(requirement.get("values")).len() == 1,
    }
}
