//! AppArmor profiles from before they were fields: an annotation per container, copied to the field of a new pod.

use object::{Map, Value};

use crate::check::{below, member, text};
use crate::pod::validation::containers_of;
use crate::same;
use crate::strategy::map_mut;

pub(crate) const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const LONGEST_PROFILE: usize = 4095;
pub(crate) const DEPRECATED: &str = r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;

pub(crate) fn annotation_of(container: &str) -> String {
    format!("{PREFIX}{container}")
}

/// The field an annotation stands for; `None` for one that means nothing.
pub(crate) fn profile(annotation: &str) -> Option<Value> {
    let mut profile = Map::default();
    match annotation {
        "unconfined" => profile.set("type", "Unconfined"),
        "runtime/default" => profile.set("type", "RuntimeDefault"),
        other => {
            let name = other.strip_prefix("localhost/").filter(|name| !name.is_empty())?;
            profile.set("type", "Localhost");
            profile.set("localhostProfile", name);
        }
    }
    Some(Value::Map(profile))
}

/// The warnings about a pod whose annotations were not copied to fields yet.
pub(crate) fn warnings(pod: &Value) -> Vec<String> {
    // If the pod's own profile is the same, nothing is copied and there is no warning.
    let said = wanted(pod).into_iter().filter(|(.., wanted)| !matches!(wanted, RequestedProfile::OfPod));
    said.map(|(_, _, container, _)| {
        format!("metadata.annotations[{}]: {DEPRECATED}", annotation_of(container))
    })
    .collect()
}

/// Copies annotations to the fields of containers that have none.
pub(super) fn copy_to_fields(pod: &mut Value) {
    let copies: Vec<(&'static str, usize, Value)> = wanted(pod)
        .into_iter()
        .filter_map(|(list, i, _, wanted)| match wanted {
            RequestedProfile::Profile(profile) => Some((list, i, profile)),
            _ => None,
        })
        .collect();
    for (list, i, profile) in copies {
        let Some(Value::List(containers)) = map_mut(pod, &["spec"]).and_then(|spec| spec.get_mut(list))
        else {
            continue;
        };
        if let Some(container) = containers.get_mut(i) {
            container.map_at(&["securityContext"]).set("appArmorProfile", profile);
        }
    }
}

/// The profile an annotation sets for a container without the field.
enum RequestedProfile {
    /// A profile to copy.
    Profile(Value),
    /// The profile of the pod.
    OfPod,
    /// No profile that could be set.
    Nothing,
}

fn wanted(pod: &Value) -> Vec<(&'static str, usize, &str, RequestedProfile)> {
    let none = Value::Null;
    let Some(annotations) = pod.at(&["metadata", "annotations"]).and_then(Value::as_map) else {
        return Vec::new();
    };
    let annotations = below(annotations, PREFIX);
    if annotations.is_empty() {
        return Vec::new();
    }
    let spec = pod.get("spec").unwrap_or(&none);
    if spec.str_at(&["os", "name"]) == Some("windows") {
        return Vec::new();
    }
    let of_pod = spec.at(&["securityContext", "appArmorProfile"]).filter(|p| !p.is_null());
    let mut found = Vec::new();
    for (list, i, container) in pod.get("spec").map(containers_of).into_iter().flatten() {
        let name = text(container, "name");
        let Some(annotation) = annotations.get(name).and_then(|a| a.as_str()) else {
            continue;
        };
        let context = member(container, "securityContext");
        if context.and_then(|c| member(c, "appArmorProfile")).is_some() {
            continue;
        }
        let wanted = match profile(annotation).filter(is_valid) {
            None => RequestedProfile::Nothing,
            Some(profile) if same(Some(&profile), of_pod) => RequestedProfile::OfPod,
            Some(profile) => RequestedProfile::Profile(profile),
        };
        found.push((list, i, name, wanted));
    }
    found
}

fn is_valid(profile: &Value) -> bool {
    let name = text(profile, "localhostProfile");
    name.trim() == name && name.len() <= LONGEST_PROFILE
}
