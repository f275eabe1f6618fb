//! As whom a container runs and what it may do: its own context over the pod's.

use std::collections::BTreeSet;

use cri::{ProfileType, SupplementalGroupsPolicy};
use object::{Value, validate_text};

use crate::generate::container::ImageUser;
use crate::generate::namespaces::namespace_options;
use crate::generate::read::{described, flag, int, list, present, strings, text};
use crate::generate::{ContainerInputs, NodeView};

const MASKED_PATHS: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READONLY_PATHS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

const APPARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Refuses a container that must not run as root and would, or might.
pub(super) fn verify_non_root(pod: &Value, container: &Value, image_user: &ImageUser) -> Result<(), String> {
    let context = Context { pod, container };
    if context.flag("runAsNonRoot") != Some(true) {
        return Ok(());
    }
    let place = || {
        let pod = object::quote(&described(pod));
        format!("(pod: {pod}, container: {})", text(container, &["name"]))
    };
    if let Some(user) = context.int("runAsUser") {
        return match user {
            0 => Err(format!("container's runAsUser breaks non-root policy {}", place())),
            _ => Ok(()),
        };
    }
    match image_user {
        ImageUser::Name(name) => Err(format!(
            "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root {}",
            place()
        )),
        ImageUser::Uid(0) => {
            Err(format!("container has runAsNonRoot and image will run as root {}", place()))
        }
        ImageUser::Uid(uid) => {
            let most = i64::from(i32::MAX);
            let problems = validate_text::in_range(*uid, 0, most);
            if problems.is_empty() {
                return Ok(());
            }
            Err(format!(
                "container has runAsNonRoot and image has an invalid user id ({uid}). (Must be 1-({most})): {} {}",
                problems.join("; "),
                place()
            ))
        }
    }
}

pub(super) fn security_context(
    inputs: &ContainerInputs<'_>,
) -> Result<cri::LinuxContainerSecurityContext, String> {
    let (pod, container, node) = (inputs.pod, inputs.container, inputs.node);
    let context = Context { pod, container };
    let id = |name: &str| context.int(name).map(|value| cri::Int64Value { value });
    let mut run_as_user = id("runAsUser");
    let mut run_as_username = String::new();
    if run_as_user.is_none() {
        match &inputs.image_user {
            ImageUser::Uid(value) => run_as_user = Some(cri::Int64Value { value: *value }),
            ImageUser::Name(name) => run_as_username.clone_from(name),
        }
    }
    let unmasked = text(container, &["securityContext", "procMount"]) == "Unmasked";
    let paths = |all: &[&str]| all.iter().map(|path| (*path).to_owned()).collect::<Vec<String>>();
    let (mut masked_paths, mut readonly_paths) = (Vec::new(), Vec::new());
    if !unmasked {
        masked_paths = paths(&MASKED_PATHS);
        masked_paths.extend_from_slice(node.masked_paths);
        readonly_paths = paths(&READONLY_PATHS);
    }
    let of_volumes = inputs.volumes.values().filter_map(|volume| volume.group);
    Ok(cri::LinuxContainerSecurityContext {
        capabilities: present(container, &["securityContext", "capabilities"]).map(capabilities),
        privileged: context.flag("privileged").unwrap_or(false),
        namespace_options: Some(namespaces(inputs)?),
        selinux_options: context.get("seLinuxOptions").map(selinux_options),
        run_as_user,
        run_as_group: id("runAsGroup"),
        run_as_username,
        readonly_rootfs: context.flag("readOnlyRootFilesystem").unwrap_or(false),
        supplemental_groups: supplemental_groups(pod, of_volumes),
        supplemental_groups_policy: supplemental_groups_policy(pod)?,
        no_new_privs: flag(container, &["securityContext", "allowPrivilegeEscalation"]) == Some(false),
        masked_paths,
        readonly_paths,
        seccomp: Some(seccomp(&context, node)?),
        apparmor: apparmor(&context)?,
    })
}

/// Those of the pod, and those of its volumes that it has not asked for itself, each once.
pub(super) fn supplemental_groups(pod: &Value, of_volumes: impl Iterator<Item = i64>) -> Vec<i64> {
    let of_pod = |name: &'static str| ["spec", "securityContext", name];
    let own = list(pod, &of_pod("supplementalGroups")).iter().filter_map(Value::as_int);
    let own: Vec<i64> = own.collect();
    let more: BTreeSet<i64> = of_volumes.filter(|group| !own.contains(group)).collect();
    int(pod, &of_pod("fsGroup")).into_iter().chain(own).chain(more).collect()
}

pub(super) fn selinux_options(options: &Value) -> cri::SELinuxOption {
    let of = |name: &str| text(options, &[name]).to_owned();
    cri::SELinuxOption { user: of("user"), role: of("role"), r#type: of("type"), level: of("level") }
}

pub(super) fn supplemental_groups_policy(pod: &Value) -> Result<i32, String> {
    match pod.str_at(&["spec", "securityContext", "supplementalGroupsPolicy"]) {
        None | Some("Merge") => Ok(SupplementalGroupsPolicy::Merge as i32),
        Some("Strict") => Ok(SupplementalGroupsPolicy::Strict as i32),
        Some(other) => Err(format!("unsupported supplementalGroupsPolicy: {other}")),
    }
}

/// The profile a container is to have: its own, the one of an annotation (static pods may still have those), the pod's.
pub(super) fn apparmor_profile<'a>(
    pod: &'a Value,
    container: &'a Value,
) -> Option<(&'a str, Option<&'a str>)> {
    let read = |profile: &'a Value| (text(profile, &["type"]), profile.str_at(&["localhostProfile"]));
    if let Some(own) = present(container, &["securityContext", "appArmorProfile"]) {
        return Some(read(own));
    }
    let key = format!("{APPARMOR_ANNOTATION}{}", text(container, &["name"]));
    match pod.str_at(&["metadata", "annotations", &key]) {
        Some("runtime/default") => return Some(("RuntimeDefault", None)),
        Some("unconfined") => return Some(("Unconfined", None)),
        Some(other) => {
            if let Some(name) = other.strip_prefix("localhost/") {
                return Some(("Localhost", Some(name)));
            }
        }
        None => {}
    }
    present(pod, &["spec", "securityContext", "appArmorProfile"]).map(read)
}

/// A field of the container, or else of the pod where pods have it too.
struct Context<'a> {
    pod: &'a Value,
    container: &'a Value,
}

impl<'a> Context<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        present(self.container, &["securityContext", name])
            .or_else(|| present(self.pod, &["spec", "securityContext", name]))
    }
    fn flag(&self, name: &str) -> Option<bool> {
        self.get(name)?.as_bool()
    }
    fn int(&self, name: &str) -> Option<i64> {
        self.get(name)?.as_int()
    }
}

/// A container for debugging looks into the processes of another, unless all see all anyway.
fn namespaces(inputs: &ContainerInputs<'_>) -> Result<cri::NamespaceOption, String> {
    let mut options = namespace_options(inputs.pod, inputs.node)?;
    if let Some(target) = inputs.target_id
        && options.pid == cri::NamespaceMode::Container as i32
    {
        options.pid = cri::NamespaceMode::Target as i32;
        options.target_id = target.to_owned();
    }
    Ok(options)
}

fn capabilities(value: &Value) -> cri::Capability {
    cri::Capability {
        add_capabilities: strings(value, &["add"]),
        drop_capabilities: strings(value, &["drop"]),
        add_ambient_capabilities: Vec::new(),
    }
}

fn seccomp(context: &Context<'_>, node: &NodeView<'_>) -> Result<cri::SecurityProfile, String> {
    let profile =
        |kind: ProfileType| cri::SecurityProfile { profile_type: kind as i32, ..Default::default() };
    let Some(wanted) = context.get("seccompProfile") else {
        let default = node.config.seccomp_default;
        return Ok(profile(if default { ProfileType::RuntimeDefault } else { ProfileType::Unconfined }));
    };
    match text(wanted, &["type"]) {
        "RuntimeDefault" => Ok(profile(ProfileType::RuntimeDefault)),
        "Localhost" => match text(wanted, &["localhostProfile"]) {
            "" => Err("localhostProfile must be set if seccompProfile type is Localhost.".to_owned()),
            name => {
                let path = node.config.seccomp_profile_root.join(name.trim_start_matches('/'));
                let localhost_ref = path.to_string_lossy().into_owned();
                Ok(cri::SecurityProfile { localhost_ref, ..profile(ProfileType::Localhost) })
            }
        },
        _ => Ok(profile(ProfileType::Unconfined)),
    }
}

fn apparmor(context: &Context<'_>) -> Result<Option<cri::SecurityProfile>, String> {
    let Some((kind, name)) = apparmor_profile(context.pod, context.container) else { return Ok(None) };
    let profile = |kind: ProfileType, name: &str| {
        Ok(Some(cri::SecurityProfile { profile_type: kind as i32, localhost_ref: name.to_owned() }))
    };
    match (kind, name) {
        ("RuntimeDefault", _) => profile(ProfileType::RuntimeDefault, ""),
        ("Unconfined", _) => profile(ProfileType::Unconfined, ""),
        ("Localhost", Some(name)) => profile(ProfileType::Localhost, name),
        ("Localhost", None) => Err("missing localhost apparmor profile name".to_owned()),
        (other, _) => Err(format!("unknown apparmor profile type: {}", object::quote(other))),
    }
}

#[cfg(test)]
mod tests;
