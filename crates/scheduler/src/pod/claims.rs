//! The claims a pod names, and those of its requests that devices may stand for.

use std::sync::Arc;

use object::Value;

use crate::read::{amounts, list, text};

/// What begins the name of the extended resource that every device class is.
pub const CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// An entry of `spec.resourceClaims`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    pub name: Arc<str>,
    pub source: ClaimSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimSource {
    /// The claim of this name, which others may use too.
    Claim(Arc<str>),
    /// One that is made for the pod, once the pod's status says so.
    Template(Generated),
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Generated {
    NotYet,
    /// None is needed.
    None,
    Claim(Arc<str>),
}

impl PodClaim {
    pub fn parse_all(spec: Option<&Value>, status: Option<&Value>) -> Vec<PodClaim> {
        let parse = |entry: &Value| {
            let named = |member: &str| entry.get(member).and_then(Value::as_str);
            let source = match (named("resourceClaimName"), named("resourceClaimTemplateName")) {
                (Some(claim), _) => ClaimSource::Claim(claim.into()),
                (None, Some(_)) => ClaimSource::Template(generated(status, text(entry, "name"))),
                (None, None) => ClaimSource::Unknown,
            };
            PodClaim { name: text(entry, "name").into(), source }
        };
        list(spec, "resourceClaims").iter().map(parse).collect()
    }

    /// The claim's name, where it is known.
    pub fn claim(&self) -> Option<&Arc<str>> {
        match &self.source {
            ClaimSource::Claim(name) | ClaimSource::Template(Generated::Claim(name)) => Some(name),
            _ => None,
        }
    }
}

fn generated(status: Option<&Value>, name: &str) -> Generated {
    let known = list(status, "resourceClaimStatuses").iter().find(|entry| text(entry, "name") == name);
    match known.map(|entry| entry.get("resourceClaimName").and_then(Value::as_str)) {
        None => Generated::NotYet,
        Some(None) => Generated::None,
        Some(Some(claim)) => Generated::Claim(claim.into()),
    }
}

/// A resource that a device plugin or an administrator added.
pub fn is_extended(resource: &str) -> bool {
    resource.contains('/') && !resource.contains("kubernetes.io/") && !resource.starts_with("requests.")
}

/// Whether devices may stand for the resource: there may be a class for it.
pub fn may_be_devices(resource: &str) -> bool {
    is_extended(resource) || resource.starts_with(CLASS_PREFIX)
}

/// What one container asks for, of pods that ask for something devices may stand for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerRequests {
    pub name: Arc<str>,
    /// Ends before the others begin.
    pub short_lived: bool,
    /// Sorted by name.
    pub requests: Vec<(Arc<str>, i64)>,
}

impl ContainerRequests {
    /// Init containers first; nothing for pods that ask for nothing of the kind.
    pub fn parse_all(spec: Option<&Value>, requests: &[(String, i64)]) -> Vec<ContainerRequests> {
        if !requests.iter().any(|(name, amount)| *amount != 0 && may_be_devices(name)) {
            return Vec::new();
        }
        let one = |container: &Value, init: bool| ContainerRequests {
            name: text(container, "name").into(),
            short_lived: init && text(container, "restartPolicy") != "Always",
            requests: amounts(container.at(&["resources", "requests"]))
                .into_iter()
                .map(|(name, amount)| (name.into(), amount))
                .collect(),
        };
        let init = list(spec, "initContainers").iter().map(|container| one(container, true));
        init.chain(list(spec, "containers").iter().map(|container| one(container, false))).collect()
    }
}
