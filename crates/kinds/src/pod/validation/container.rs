//! Containers of all three lists: what they share, and what each list adds.

use object::{Value, validate_text};

use super::volumes::Volumes;
use super::{Options, env, handlers, mounts, resources, security};
use crate::check::{Errors, Path, Seen, all_of, int, items, member, text};

const RESTART_RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const NOT_FOR_INIT: &str = "may not be set for init containers without restartPolicy=Always";
const NOT_FOR_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

/// What a container is checked against.
pub(super) struct Scope<'a> {
    pub spec: &'a Value,
    /// The volumes without a fault.
    pub volumes: &'a Volumes<'a>,
    pub host_users: bool,
    pub options: &'a Options,
}

pub(super) fn check_containers(scope: &Scope<'_>, at: &Path<'_>, errors: &mut Errors) {
    let containers = items(scope.spec, "containers");
    if containers.is_empty() {
        errors.required(at, "");
        return;
    }
    let mut seen = Seen::default();
    for (i, container) in containers.iter().enumerate() {
        let at = at.index(i);
        check_common(scope, container, &at, errors);
        let name = text(container, "name");
        if seen.again(name) {
            errors.duplicate(&at.child("name"), name);
        }
        handlers::check(scope.spec, container, &at, errors);
        check_restart_policy(container, &at, errors);
    }
    check_host_ports(containers, at, errors);
}

pub(super) fn check_init_containers(scope: &Scope<'_>, at: &Path<'_>, errors: &mut Errors) {
    let containers = items(scope.spec, "initContainers");
    let others = all_of(items(scope.spec, "containers"), "name");
    let mut seen = Seen::default();
    for (i, container) in containers.iter().enumerate() {
        let list = at;
        let at = at.index(i);
        check_common(scope, container, &at, errors);
        let always = text(container, "restartPolicy") == "Always";
        // Without a policy only the rules are reported.
        if member(container, "restartPolicy").is_some() {
            check_restart_policy(container, &at, errors);
        } else if !items(container, "restartPolicyRules").is_empty() {
            let detail = "must specify restartPolicy when restart rules are used";
            errors.required(&at.child("restartPolicy"), detail);
        }
        let name = text(container, "name");
        let earlier = seen.again(name) && !name.is_empty();
        if others.has(&name) || earlier {
            errors.duplicate(&at.child("name"), name);
        }
        // Upstream counts the container's own ports only, as if it were the first.
        check_host_ports(std::slice::from_ref(container), list, errors);
        if always {
            handlers::check(scope.spec, container, &at, errors);
        } else {
            for handler in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if member(container, handler).is_some() {
                    errors.forbidden(&at.child(handler), NOT_FOR_INIT);
                }
            }
        }
        if always || scope.options.restart_container_policy {
            continue;
        }
        for (j, policy) in items(container, "resizePolicy").iter().enumerate() {
            if text(policy, "restartPolicy") == "RestartContainer" {
                let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                let at = at.child("resizePolicy");
                errors.invalid(&at.index(j).child("restartPolicy"), "RestartContainer", detail);
            }
        }
    }
}

pub(super) fn check_ephemeral_containers(scope: &Scope<'_>, at: &Path<'_>, errors: &mut Errors) {
    let containers = items(scope.spec, "ephemeralContainers");
    let others = items(scope.spec, "containers").iter().chain(items(scope.spec, "initContainers"));
    let others: Seen<&str> = others.map(|c| text(c, "name")).collect();
    let mut seen = Seen::default();
    for (i, container) in containers.iter().enumerate() {
        let at = at.index(i);
        check_common(scope, container, &at, errors);
        check_image_spaces(container, &at, errors);
        let name = text(container, "name");
        if seen.again(name) || others.has(&name) {
            errors.duplicate(&at.child("name"), name);
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.has(&target) {
            errors.not_found(&at.child("targetContainerName"), target, "");
        }
        for field in [
            "ports",
            "resources",
            "resizePolicy",
            "restartPolicy",
            "restartPolicyRules",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
        ] {
            let value = container.get(field).filter(|value| !value.is_null());
            // Everything but the resources can be there and empty.
            let set = match field {
                "resources" => value.is_some_and(|v| {
                    v.as_map().is_some_and(|v| v.iter().any(|(_, member)| !member.is_null()))
                }),
                _ => value.is_some(),
            };
            if set {
                errors.forbidden(&at.child(field), NOT_FOR_EPHEMERAL);
            }
        }
        for (j, mount) in items(container, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, field).is_empty() {
                    let list = at.child("volumeMounts");
                    errors.forbidden(&list.index(j).child(field), NOT_FOR_EPHEMERAL);
                }
            }
        }
    }
}

/// Leading or trailing spaces in the image are invalid in a pod, but not in a template.
pub(super) fn check_image_spaces(container: &Value, at: &Path<'_>, errors: &mut Errors) {
    let image = text(container, "image");
    if image.len() != image.trim().len() {
        errors.invalid(&at.child("image"), image, "must not have leading or trailing whitespace");
    }
}

pub(super) fn check_pull_policy(policy: &str, at: &Path<'_>, errors: &mut Errors) {
    errors.choice(at, policy, &["Always", "IfNotPresent", "Never"]);
}

fn check_common(scope: &Scope<'_>, container: &Value, at: &Path<'_>, errors: &mut Errors) {
    errors.need_label(&at.child("name"), text(container, "name"));
    errors.need(at, container, "image");
    let policy = text(container, "terminationMessagePolicy");
    errors.choice(&at.child("terminationMessagePolicy"), policy, &["File", "FallbackToLogsOnError"]);
    check_ports(items(container, "ports"), &at.child("ports"), errors);
    env::check(items(container, "env"), &at.child("env"), errors);
    env::check_from(items(container, "envFrom"), &at.child("envFrom"), errors);
    mounts::check(container, scope.volumes, &at.child("volumeMounts"), errors);
    mounts::check_devices(container, scope.volumes, &at.child("volumeDevices"), errors);
    check_pull_policy(text(container, "imagePullPolicy"), &at.child("imagePullPolicy"), errors);
    if let Some(own) = member(container, "resources") {
        let claims = items(scope.spec, "resourceClaims");
        resources::container_resources(own, claims, &at.child("resources"), scope.options, errors);
    }
    check_resize_policy(container, text(scope.spec, "restartPolicy"), &at.child("resizePolicy"), errors);
    security::check_container(container, scope.host_users, &at.child("securityContext"), errors);
}

fn check_ports(ports: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let mut seen = Seen::default();
    for (i, port) in ports.iter().enumerate() {
        let at = at.index(i);
        let name = text(port, "name");
        if !name.is_empty() {
            let problems = validate_text::port_name(name);
            if !problems.is_empty() {
                errors.each(&at.child("name"), name, problems);
            } else if seen.again(name) {
                errors.duplicate(&at.child("name"), name);
            }
        }
        match int(port, "containerPort").unwrap_or(0) {
            0 => errors.required(&at.child("containerPort"), ""),
            number => errors.port_number(&at.child("containerPort"), number),
        }
        if let Some(number) = int(port, "hostPort").filter(|n| *n != 0) {
            errors.port_number(&at.child("hostPort"), number);
        }
        errors.choice(&at.child("protocol"), text(port, "protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

/// Two containers cannot have one port of the host.
fn check_host_ports(containers: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let mut seen = Seen::default();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in items(container, "ports").iter().enumerate() {
            let Some(number) = int(port, "hostPort").filter(|n| *n != 0) else { continue };
            let this = (text(port, "protocol"), text(port, "hostIP"), number);
            if seen.again(this) {
                let shown = format!("{}/{}/{}", this.0, this.1, this.2);
                errors.duplicate(&at.index(i).child("ports").index(j).child("hostPort"), shown.as_str());
            }
        }
    }
}

fn check_resize_policy(container: &Value, pod_policy: &str, at: &Path<'_>, errors: &mut Errors) {
    let policies = items(container, "resizePolicy");
    let mut seen = Seen::default();
    for (i, policy) in policies.iter().enumerate() {
        let resource = text(policy, "resourceName");
        if seen.again(resource) {
            errors.duplicate(&at.index(i), resource);
        }
        errors.choice(at, resource, &["cpu", "memory"]);
        let restart = text(policy, "restartPolicy");
        errors.choice(at, restart, &["NotRequired", "RestartContainer"]);
        if pod_policy == "Never" && restart != "NotRequired" {
            errors.invalid(at, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

fn check_restart_policy(container: &Value, at: &Path<'_>, errors: &mut Errors) {
    let rules = items(container, "restartPolicyRules");
    let policy_at = at.child("restartPolicy");
    match member(container, "restartPolicy").and_then(Value::as_str) {
        None if rules.is_empty() => return,
        None => errors.required(&policy_at, "must specify restartPolicy when restart rules are used"),
        Some(policy) => errors.one_of(&policy_at, policy, &["Always", "Never", "OnFailure"]),
    }
    let at = at.child("restartPolicyRules");
    if rules.len() > RESTART_RULES_MAX {
        errors.too_many(&at, rules.len(), RESTART_RULES_MAX);
    }
    for (i, rule) in rules.iter().enumerate() {
        let at = at.index(i);
        errors.one_of(&at.child("action"), text(rule, "action"), &["Restart", "RestartAllContainers"]);
        let at = at.child("exitCodes");
        let Some(codes) = member(rule, "exitCodes") else {
            errors.required(&at, "must be specified");
            continue;
        };
        errors.one_of(&at.child("operator"), text(codes, "operator"), &["In", "NotIn"]);
        let count = items(codes, "values").len();
        if count > EXIT_CODES_MAX {
            errors.too_many(&at.child("values"), count, EXIT_CODES_MAX);
        }
    }
}
