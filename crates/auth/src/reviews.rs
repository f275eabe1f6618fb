//! Access reviews: SubjectAccessReview and its variants, SelfSubjectRulesReview, SelfSubjectReview.
//!
//! Each function takes the posted object (already decoded and defaulted) and returns the completed object or an
//! error. Whether the requester may create the review was checked before.

mod selectors;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use object::{FieldError, Map, Status, Value, quote};

use crate::rbac::{Rule, string_list, strings};
use crate::{Attributes, Decision, UserInfo};

/// Answers an access check: the policy's `authorize`, or a chain of authorizers.
pub type Authorize<'a> = dyn Fn(&UserInfo, &Attributes<'_>) -> Decision + 'a;
/// The rules of a user in a namespace, of all authorizers.
pub type RulesFor<'a> = dyn Fn(&UserInfo, &str) -> ResolvedRules + 'a;

/// What authorizers say a user may do.
#[derive(Debug, Default)]
pub struct ResolvedRules {
    pub rules: Vec<Rule>,
    /// What could not be resolved.
    pub unresolved: Vec<String>,
    /// There is more that no list of rules can express.
    pub incomplete: bool,
}

/// `SelfSubjectAccessReview`: about the requester.
pub fn self_subject_access_review(
    review: Value,
    user: &UserInfo,
    authorize: &Authorize<'_>,
) -> Result<Value, Status> {
    let mut errors = target_errors(&review);
    errors.extend(selectors::errors(&review));
    errors.extend(metadata_error(&review, false));
    refuse(errors)?;
    Ok(answer(review, user, authorize))
}

/// `SubjectAccessReview`: about the user in the spec.
pub fn subject_access_review(review: Value, authorize: &Authorize<'_>) -> Result<Value, Status> {
    let mut errors = subject_errors(&review);
    errors.extend(metadata_error(&review, false));
    refuse(errors)?;
    let user = subject(&review);
    Ok(answer(review, &user, authorize))
}

/// `LocalSubjectAccessReview`: as above, in the namespace of the request's path.
pub fn local_subject_access_review(
    review: Value,
    request_namespace: &str,
    authorize: &Authorize<'_>,
) -> Result<Value, Status> {
    let mut errors = subject_errors(&review);
    errors.extend(metadata_error(&review, true));
    let own = review.str_at(&["metadata", "namespace"]).unwrap_or_default();
    if part(&review, RESOURCE).is_some() {
        let asked = review.str_at(&["spec", RESOURCE, "namespace"]).unwrap_or_default();
        if asked != own {
            let field = "spec.resourceAttributes.namespace";
            errors.push(FieldError::invalid(field, quote(asked), "must match metadata.namespace"));
        }
    }
    if let Some(path) = part(&review, NON_RESOURCE) {
        let why = "disallowed on this kind of request";
        errors.push(FieldError::invalid("spec.nonResourceAttributes", shown_path(path), why));
    }
    refuse(errors)?;
    if request_namespace.is_empty() {
        return Err(Status::bad_request("namespace is required on this type: "));
    }
    if request_namespace != own {
        let why = format!("spec.resourceAttributes.namespace must match namespace: {request_namespace}");
        return Err(Status::bad_request(why));
    }
    let user = subject(&review);
    Ok(answer(review, &user, authorize))
}

/// `SelfSubjectRulesReview`: everything the requester may do in a namespace.
pub fn self_subject_rules_review(
    review: &Value,
    user: &UserInfo,
    rules_for: &RulesFor<'_>,
) -> Result<Value, Status> {
    let namespace = review.str_at(&["spec", "namespace"]).unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let ResolvedRules { rules, unresolved, incomplete } = rules_for(user, namespace);
    let (mut on_resources, mut on_paths) = (Vec::new(), Vec::new());
    for rule in &rules {
        if !rule.resources.is_empty() {
            on_resources.push(Rule { non_resource_urls: Vec::new(), ..rule.clone() }.to_value());
        }
        if !rule.non_resource_urls.is_empty() {
            let (verbs, non_resource_urls) = (rule.verbs.clone(), rule.non_resource_urls.clone());
            on_paths.push(Rule { verbs, non_resource_urls, ..Rule::default() }.to_value());
        }
    }
    let mut status = Map::default();
    status.set("resourceRules", on_resources);
    status.set("nonResourceRules", on_paths);
    status.set("incomplete", incomplete);
    match unresolved.as_slice() {
        [] => {}
        [one] => status.set("evaluationError", one.as_str()),
        many => status.set("evaluationError", format!("[{}]", many.join(", "))),
    }
    // The response is a new object without the spec of the request.
    let mut out = head("SelfSubjectRulesReview", "authorization.k8s.io/v1", Value::map());
    out.set("spec", Value::map());
    out.set("status", Value::Map(status));
    Ok(Value::Map(out))
}

/// `SelfSubjectReview`: the requester as the server sees it. `now_rfc3339` is the creation time.
pub fn self_subject_review(user: &UserInfo, now_rfc3339: &str) -> Value {
    let mut metadata = Map::default();
    metadata.set("creationTimestamp", now_rfc3339);
    let mut status = Map::default();
    status.set("userInfo", user_to_value(user));
    let mut out = head("SelfSubjectReview", "authentication.k8s.io/v1", Value::Map(metadata));
    out.set("status", Value::Map(status));
    Value::Map(out)
}

/// A user as in `authentication.k8s.io/v1` (also in TokenReviews and audit events).
pub fn user_to_value(user: &UserInfo) -> Value {
    let mut info = Map::default();
    for (name, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            info.set(name, text.as_str());
        }
    }
    if !user.groups.is_empty() {
        info.set("groups", string_list(&user.groups));
    }
    if !user.extra.is_empty() {
        let extra: Map = user.extra.iter().map(|(k, v)| (k.clone().into(), string_list(v))).collect();
        info.set("extra", Value::Map(extra));
    }
    Value::Map(info)
}

const RESOURCE: &str = "resourceAttributes";
const NON_RESOURCE: &str = "nonResourceAttributes";

fn head(kind: &'static str, api_version: &'static str, metadata: Value) -> Map {
    let mut out = Map::default();
    out.set("kind", kind);
    out.set("apiVersion", api_version);
    out.set("metadata", metadata);
    out
}

fn part<'a>(review: &'a Value, name: &str) -> Option<&'a Value> {
    review.at(&["spec", name]).filter(|v| !v.is_null())
}

fn answer(mut review: Value, user: &UserInfo, authorize: &Authorize<'_>) -> Value {
    let decision = match part(&review, RESOURCE) {
        Some(spec) => {
            let text = |name| spec.str_at(&[name]).unwrap_or_default();
            let wanted = Attributes {
                verb: text("verb"),
                group: text("group"),
                resource: text("resource"),
                subresource: text("subresource"),
                name: text("name"),
                namespace: text("namespace"),
                field_selector: spec.str_at(&["fieldSelector", "rawSelector"]).unwrap_or_default(),
                path: None,
            };
            authorize(user, &wanted)
        }
        None => {
            let text = |name| review.str_at(&["spec", NON_RESOURCE, name]).unwrap_or_default();
            authorize(user, &Attributes::path(text("verb"), text("path")))
        }
    };
    let mut status = Map::default();
    status.set("allowed", decision.allowed);
    if !decision.reason.is_empty() {
        status.set("reason", decision.reason);
    }
    let ignored = selectors::ignored(&review);
    if !ignored.is_empty() {
        status.set("evaluationError", ignored.join("; "));
    }
    review.make_map().set("status", Value::Map(status));
    review
}

fn subject(review: &Value) -> UserInfo {
    let text = |name| review.str_at(&["spec", name]).unwrap_or_default().to_owned();
    let extra = review.at(&["spec", "extra"]).and_then(Value::as_map);
    let extra =
        extra.map(|m| m.iter().map(|(k, v)| (k.to_string(), strings(Some(v)))).collect::<BTreeMap<_, _>>());
    UserInfo {
        name: text("user"),
        uid: text("uid"),
        groups: strings(review.at(&["spec", "groups"])),
        extra: extra.unwrap_or_default(),
    }
}

fn target_errors(review: &Value) -> Vec<FieldError> {
    match (part(review, RESOURCE), part(review, NON_RESOURCE)) {
        (Some(_), Some(path)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            vec![FieldError::invalid("spec.nonResourceAttributes", shown_path(path), why)]
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            vec![FieldError::invalid("spec.resourceAttributes", "null", why)]
        }
        _ => Vec::new(),
    }
}

fn subject_errors(review: &Value) -> Vec<FieldError> {
    let mut errors = target_errors(review);
    let user = review.str_at(&["spec", "user"]).unwrap_or_default();
    if user.is_empty() && strings(review.at(&["spec", "groups"])).is_empty() {
        errors.push(FieldError::invalid(
            "spec.user",
            quote(""),
            "at least one of user or group must be specified",
        ));
    }
    errors.extend(selectors::errors(review));
    errors
}

/// Reviews are not persisted: their metadata must be empty.
fn metadata_error(review: &Value, namespace_allowed: bool) -> Option<FieldError> {
    let metadata = review.get("metadata").and_then(Value::as_map)?;
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Str(text) => text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    };
    let excused = |name: &str| name == "managedFields" || (namespace_allowed && name == "namespace");
    let bare = metadata.iter().all(|(name, value)| excused(name) || empty(value));
    let why = if namespace_allowed { "must be empty except for namespace" } else { "must be empty" };
    (!bare).then(|| FieldError::invalid("metadata", json(&Value::Map(metadata.clone())), why))
}

fn refuse(errors: Vec<FieldError>) -> Result<(), Status> {
    // kube-apiserver validates the internal object, whose kind is empty, so its message has this odd name.
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("authorization.k8s.io", "", "", errors)) }
}

/// Formatted like kube-apiserver's internal struct.
fn shown_path(attributes: &Value) -> String {
    let text = |name| json(&Value::from(attributes.str_at(&[name]).unwrap_or_default()));
    format!("{{\"Path\":{},\"Verb\":{}}}", text("path"), text("verb"))
}

/// JSON as Go writes it, for values in messages.
fn json(value: &Value) -> String {
    String::from_utf8_lossy(&codec::json::to_vec(value)).into_owned()
}
