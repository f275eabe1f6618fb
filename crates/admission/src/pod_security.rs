//! PodSecurity: namespaces say by their labels how much pods may ask of their hosts.
//!
//! ```text
//! namespace labels ─ Policy { enforce, warn } ─┬─ pod: enforce refuses, warn warns
//!                                              ├─ object with a pod template: warn warns
//!                                              └─ changed labels: warnings about the pods that are there
//! ```
//! What a policy forbids is a table of checks (`checks.rs`); labels are read by `policy.rs`, defaults and exemptions by
//! `configuration.rs`. What the audit labels find is an audit annotation.

mod checks;
mod configuration;
mod existing;
mod policy;
#[cfg(test)]
mod tests;

use object::{Obj, Status, Value, quote};

use crate::tree::{items, text};
use crate::{Attempt, Effects, Operation, Phase, Plugin, Refusal};

use checks::{Pod, evaluate};
use policy::{Level, Policy};

pub use configuration::PodSecurityConfiguration;

/// The prefix of its audit annotations.
const ANNOTATIONS: &str = "pod-security.kubernetes.io";
/// Name and value of the annotation of a pod whose namespace asks for nothing: of most pods.
const UNRESTRICTED: (&str, &str) = ("enforce-policy", "privileged:latest");

/// Whether an audit annotation says only that nothing is asked of a pod.
pub fn is_unrestricted(key: &str, value: &str) -> bool {
    let name = key.strip_prefix(ANNOTATIONS).and_then(|rest| rest.strip_prefix('/'));
    (name, value) == (Some(UNRESTRICTED.0), UNRESTRICTED.1)
}

pub struct PodSecurity(pub PodSecurityConfiguration);

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
            return self.pod(attempt, new, effects);
        }
        if attempt.subresource.is_some() {
            return Ok(());
        }
        if attempt.is("", "namespaces") {
            return self.namespace(attempt, new, effects);
        }
        if let Some((_, _, path)) = TEMPLATES.iter().find(|(g, p, _)| attempt.is(g, p)) {
            self.template(attempt, new.at(path), effects);
        }
        Ok(())
    }
}

impl PodSecurity {
    fn pod(&self, attempt: &Attempt<'_>, new: &Value, effects: &mut Effects) -> Result<(), Refusal> {
        if attempt.subresource.is_some_and(|sub| HARMLESS.contains(&sub)) || self.is_exempt_request(attempt) {
            return Ok(());
        }
        let Some(namespace) = attempt.find("", "namespaces", "", attempt.namespace) else {
            let why = format!("failed to lookup namespace {}", quote(attempt.namespace));
            return Err(Status::internal(why).into());
        };
        let (policy, broken) = self.policy_of(&namespace);
        if broken.is_empty() && policy.is_privileged() {
            annotate(attempt, UNRESTRICTED.0, UNRESTRICTED.1.to_owned());
            return Ok(());
        }
        if let Some(old) = attempt.old
            && !changes_images(new, old)
        {
            return Ok(());
        }
        if self.is_exempt_pod(attempt, new) {
            return Ok(());
        }
        let pod = Pod::of(new);
        annotate_broken(attempt, broken);
        annotate(attempt, "enforce-policy", policy.enforce.to_string());
        let found = evaluate(policy.enforce, &pod);
        audit(attempt, &policy, &pod);
        if !found.is_empty() {
            let why =
                format!("violates PodSecurity {}: {}", policy.enforce.quoted(), checks::details(&found));
            return Err(Status::forbidden(attempt.about(), attempt.name, why).into());
        }
        warn(&policy, &pod, effects);
        Ok(())
    }

    fn template(&self, attempt: &Attempt<'_>, template: Option<&Value>, effects: &mut Effects) {
        let Some(template) = template else { return };
        if self.is_exempt_request(attempt) {
            return;
        }
        let Some(namespace) = attempt.find("", "namespaces", "", attempt.namespace) else { return };
        let (policy, broken) = self.policy_of(&namespace);
        let is_silent = policy.warn.level == Level::Privileged && policy.audit.level == Level::Privileged;
        if is_silent && broken.is_empty() || self.is_exempt_pod(attempt, template) {
            return;
        }
        let pod = Pod::of(template);
        annotate_broken(attempt, broken);
        audit(attempt, &policy, &pod);
        warn(&policy, &pod, effects);
    }

    fn namespace(&self, attempt: &Attempt<'_>, new: &Value, effects: &mut Effects) -> Result<(), Refusal> {
        let label = |of: &'_ Value, name: &str| {
            of.at(&["metadata", "labels", name]).and_then(Value::as_str).map(str::to_owned)
        };
        let (policy, broken) = Policy::of(self.0.defaults, |name| label(new, name));
        if let Some(old) = attempt.old {
            let (before, broken_before) = Policy::of(self.0.defaults, |name| label(old, name));
            // Labels that were wrong before and stay so do not stand in the way of other changes.
            if !broken.is_empty() && broken != broken_before {
                return Err(invalid(attempt, broken));
            }
            let (now, was) = (policy.enforce, before.enforce);
            let stricter = now != was
                && now.level != Level::Privileged
                && (now.version != was.version || now.level > was.level);
            if !stricter {
                return Ok(());
            }
            if !self.0.is_exempt_namespace(attempt.name) {
                let is_exempt = |pod: &Value| self.0.is_exempt_pod(pod);
                effects.warnings.extend(existing::warnings(attempt, policy.enforce, is_exempt));
                return Ok(());
            }
        } else if !broken.is_empty() {
            return Err(invalid(attempt, broken));
        }
        let exempt = self.0.is_exempt_namespace(attempt.name);
        if exempt && !policy.is_privileged() && !policy.is_equivalent(&self.0.defaults) {
            effects.warnings.push(format!(
                "namespace {} is exempt from Pod Security, and the policy ({}) will be ignored",
                quote(attempt.name),
                policy.labelled(|name| label(new, name).is_some())
            ));
        }
        Ok(())
    }

    /// With the labels that could not be read.
    fn policy_of(&self, namespace: &Obj) -> (Policy, Vec<policy::Broken>) {
        Policy::of(self.0.defaults, |name| namespace.label(name).map(str::to_owned))
    }

    fn is_exempt_request(&self, attempt: &Attempt<'_>) -> bool {
        let by = if self.0.is_exempt_namespace(attempt.namespace) {
            "namespace"
        } else if self.0.is_exempt_user(&attempt.user.name) {
            "user"
        } else {
            return false;
        };
        annotate(attempt, "exempt", by.to_owned());
        note_exemption(attempt, by);
        true
    }

    fn is_exempt_pod(&self, attempt: &Attempt<'_>, pod: &Value) -> bool {
        let exempt = self.0.is_exempt_pod(pod);
        if exempt {
            annotate(attempt, "exempt", "runtimeClass".to_owned());
            note_exemption(attempt, "runtimeClass");
        }
        exempt
    }
}

fn annotate(attempt: &Attempt<'_>, key: &str, value: String) {
    if attempt.trace.is_some() {
        attempt.annotate(format!("{ANNOTATIONS}/{key}"), value);
    }
}

/// Says which labels of the namespace are not followed.
fn annotate_broken(attempt: &Attempt<'_>, broken: Vec<policy::Broken>) {
    let mut errors: Vec<String> = broken.into_iter().map(|label| label.into_error().to_string()).collect();
    let error = match errors.len() {
        0 => return,
        1 => errors.remove(0),
        _ => format!("[{}]", errors.join(", ")),
    };
    annotate(attempt, "error", format!("Failed to parse policy: {error}"));
}

/// People who ask why a pod came through are told.
fn note_exemption(attempt: &Attempt<'_>, by: &str) {
    if attempt.is_traced_in_full() {
        attempt.note_passed_over(
            Phase::Validate,
            "PodSecurity",
            "",
            format!("passed over: exempt by its {by}"),
        );
    }
}

fn audit(attempt: &Attempt<'_>, policy: &Policy, pod: &Pod<'_>) {
    let found = evaluate(policy.audit, pod);
    if !found.is_empty() {
        let policy = policy.audit.quoted();
        let found = format!("would violate PodSecurity {policy}: {}", checks::details(&found));
        annotate(attempt, "audit-violations", found);
    }
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
