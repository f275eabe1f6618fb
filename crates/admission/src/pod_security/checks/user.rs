//! As whom a pod may run.

use object::Value;

use super::{Finding, Pod, context, found, named, setters};

pub fn non_root(pod: &Pod<'_>) -> Option<Finding> {
    let said = |of| context(of, "runAsNonRoot").and_then(Value::as_bool);
    let of_pod = said(pod.spec);
    let explicit = pod.names_where(|c| said(c) == Some(false));
    if let Some(who) = setters(of_pod == Some(false), &explicit) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return found("runAsNonRoot != true", detail);
    }
    let implicit = pod.names_where(|c| said(c).is_none() && of_pod != Some(true));
    if implicit.is_empty() {
        return None;
    }
    let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", named(&implicit));
    found("runAsNonRoot != true", detail)
}

pub fn non_root_or_user_namespace(pod: &Pod<'_>) -> Option<Finding> {
    if pod.has_user_namespace() { None } else { non_root(pod) }
}

pub fn not_zero(pod: &Pod<'_>) -> Option<Finding> {
    let is_zero = |of: &Value| context(of, "runAsUser").and_then(Value::as_int) == Some(0);
    let who = setters(is_zero(pod.spec), &pod.names_where(|c| is_zero(c)))?;
    found("runAsUser=0", format!("{who} must not set runAsUser=0"))
}

pub fn not_zero_or_user_namespace(pod: &Pod<'_>) -> Option<Finding> {
    if pod.has_user_namespace() { None } else { not_zero(pod) }
}
