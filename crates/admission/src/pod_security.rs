//! PodSecurity: namespaces say by their labels how much pods may ask of their hosts.
//!
//! ```text
//! namespace labels ─ Policy { enforce, warn } ─┬─ pod: enforce refuses, warn warns
//!                                              ├─ object with a pod template: warn warns
//!                                              └─ changed labels: warnings about the pods that are there
//! ```
//! What a policy forbids is a table of checks (`checks.rs`); labels are read by `policy.rs`. The audit labels are
//! checked like the others; what they find would go to the audit log, which this server does not keep.

mod checks;
mod existing;
mod policy;
#[cfg(test)]
mod tests;

use object::{Obj, Status, Value, quote};

use crate::tree::{items, text};
use crate::{Attempt, Effects, Operation, Plugin, Refusal};

use checks::{Pod, evaluate};
use policy::{Level, Policy};

pub struct PodSecurity;

/// What else embeds a pod: group, plural, the way to the template.
const TEMPLATES: [(&str, &str, &[&str]); 8] = [
    ("", "podtemplates", &["template"]),
    ("", "replicationcontrollers", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    ("batch", "cronjobs", &["spec", "jobTemplate", "spec", "template"]),
    ("batch", "jobs", &["spec", "template"]),
];

/// These leave the pod's containers as they are.
const HARMLESS: [&str; 8] =
    ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

impl Plugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn validate(
        &self,
        attempt: &Attempt<'_>,
        new: Option<&Value>,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        let Some(new) = new.filter(|_| attempt.operation != Operation::Delete) else { return Ok(()) };
        if attempt.is_or_below("", "pods") {
            return pod(attempt, new, effects);
        }
        if attempt.subresource.is_some() {
            return Ok(());
        }
        if attempt.is("", "namespaces") {
            return namespace(attempt, new, effects);
        }
        if let Some((_, _, path)) = TEMPLATES.iter().find(|(g, p, _)| attempt.is(g, p)) {
            template(attempt, new.at(path), effects);
        }
        Ok(())
    }
}

fn pod(attempt: &Attempt<'_>, new: &Value, effects: &mut Effects) -> Result<(), Refusal> {
    if attempt.subresource.is_some_and(|sub| HARMLESS.contains(&sub)) {
        return Ok(());
    }
    let Some(namespace) = attempt.find("", "namespaces", "", attempt.namespace) else {
        let why = format!("failed to lookup namespace {}", quote(attempt.namespace));
        return Err(Status::internal(why).into());
    };
    let Some(policy) = policy_of(&namespace) else { return Ok(()) };
    if let Some(old) = attempt.old
        && !changes_images(new, old)
    {
        return Ok(());
    }
    let pod = Pod::of(new);
    let found = evaluate(policy.enforce, &pod);
    if !found.is_empty() {
        let why = format!("violates PodSecurity {}: {}", policy.enforce.quoted(), checks::details(&found));
        return Err(Status::forbidden(attempt.about(), attempt.name, why).into());
    }
    warn(&policy, &pod, effects);
    Ok(())
}

fn template(attempt: &Attempt<'_>, template: Option<&Value>, effects: &mut Effects) {
    let Some(template) = template else { return };
    let namespace = attempt.find("", "namespaces", "", attempt.namespace);
    if let Some(policy) = namespace.as_deref().and_then(policy_of) {
        warn(&policy, &Pod::of(template), effects);
    }
}

fn namespace(attempt: &Attempt<'_>, new: &Value, effects: &mut Effects) -> Result<(), Refusal> {
    let label = |of: &'_ Value, name: &str| {
        of.at(&["metadata", "labels", name]).and_then(Value::as_str).map(str::to_owned)
    };
    let (policy, broken) = Policy::of(|name| label(new, name));
    let Some(old) = attempt.old else {
        return if broken.is_empty() { Ok(()) } else { Err(invalid(attempt, broken)) };
    };
    let (before, broken_before) = Policy::of(|name| label(old, name));
    // Labels that were wrong before and stay so do not stand in the way of other changes.
    if !broken.is_empty() && broken != broken_before {
        return Err(invalid(attempt, broken));
    }
    let (now, was) = (policy.enforce, before.enforce);
    let stricter =
        now != was && now.level != Level::Privileged && (now.version != was.version || now.level > was.level);
    if stricter {
        effects.warnings.extend(existing::warnings(attempt, now));
    }
    Ok(())
}

/// `None` where everything is allowed without a word.
fn policy_of(namespace: &Obj) -> Option<Policy> {
    let (policy, _) = Policy::of(|name| namespace.label(name).map(str::to_owned));
    (!policy.is_privileged()).then_some(policy)
}

fn warn(policy: &Policy, pod: &Pod<'_>, effects: &mut Effects) {
    let found = evaluate(policy.warn, pod);
    if !found.is_empty() {
        let policy = policy.warn.quoted();
        effects.warnings.push(format!("would violate PodSecurity {policy}: {}", checks::details(&found)));
    }
}

fn invalid(attempt: &Attempt<'_>, broken: Vec<policy::Broken>) -> Refusal {
    let errors = broken.into_iter().map(policy::Broken::into_error).collect();
    Status::invalid(&attempt.resource.group, &attempt.resource.kind, attempt.name, errors).into()
}

/// Only images, and containers that come or go, make an update worth another look.
fn changes_images(new: &Value, old: &Value) -> bool {
    let list = |pod: &'_ Value, name: &str| -> Vec<(String, String)> {
        let containers = pod.get("spec").map(|spec| items(spec, name)).unwrap_or_default();
        containers.iter().map(|c| (text(c, "name").to_owned(), text(c, "image").to_owned())).collect()
    };
    let images_differ = |name: &str| {
        let (new, old) = (list(new, name), list(old, name));
        new.len() != old.len() || new.iter().zip(&old).any(|((_, now), (_, was))| now != was)
    };
    let old_ephemeral = list(old, "ephemeralContainers");
    images_differ("containers")
        || images_differ("initContainers")
        || list(new, "ephemeralContainers").iter().any(|(name, image)| {
            old_ephemeral.iter().find(|(was, _)| was == name).is_none_or(|(_, was)| was != image)
        })
}
