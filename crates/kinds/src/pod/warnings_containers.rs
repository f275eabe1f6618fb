//! Warnings about the containers of a pod: old annotations, fractions of bytes, variables and ports named twice.

use object::{Map, Value, quote};

use super::Said;
use super::pod::NO_SECCOMP;
use crate::check::{Path, int, items, joined, member, text};
use crate::pod::apparmor;
use crate::pod::validation::containers_of;

const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// `at_template_annotations` is the path of a template's annotations; pods are told about AppArmor when they are prepared.
pub(super) fn containers(
    template: &Value,
    spec: &Value,
    at: &Path<'_>,
    at_template_annotations: Option<&Path<'_>>,
    said: &mut Said,
) {
    for (list, i, container) in containers_of(spec) {
        let at = at.child(list);
        let at = at.index(i);
        if let Some(annotations) = template.at(&["metadata", "annotations"]).and_then(Value::as_map) {
            profiles(annotations, spec, container, at_template_annotations, said);
        }
        let at_resources = at.child("resources");
        for name in ["memory", "ephemeral-storage"] {
            for list in ["limits", "requests"] {
                said.whole_bytes(&at_resources.child(list), container.at(&["resources", list]), name);
            }
        }
        variables(container, &at.child("env"), said);
    }
}

/// Profiles of a container that annotations still give.
fn profiles(
    annotations: &Map,
    spec: &Value,
    container: &Value,
    at_template_annotations: Option<&Path<'_>>,
    said: &mut Said,
) {
    let at_metadata = Path::Root("metadata");
    let at_pod = at_metadata.child("annotations");
    let at_annotations = at_template_annotations.unwrap_or(&at_pod);
    let name = text(container, "name");
    let profile = |field| container.at(&["securityContext", field]).filter(|profile| !profile.is_null());
    if profile("seccompProfile").is_none() && joined(annotations, SECCOMP_CONTAINER, name).is_some() {
        said.about(&at_annotations.key(&format!("{SECCOMP_CONTAINER}{name}")), NO_SECCOMP);
    }
    let annotation = joined(annotations, apparmor::PREFIX, name).and_then(Value::as_str);
    if let Some(annotation) = annotation.filter(|_| at_template_annotations.is_some())
        && profile("appArmorProfile").is_none()
    {
        let of_pod = spec.at(&["securityContext", "appArmorProfile"]).filter(|p| !p.is_null());
        let same = |of_pod: &Value| apparmor::profile(annotation).as_ref() == Some(of_pod);
        if !of_pod.is_some_and(same) {
            said.about(&at_annotations.key(&apparmor::annotation_of(name)), apparmor::DEPRECATED);
        }
    }
}

/// A variable that is said again is meant to build on what was said before.
fn variables(container: &Value, at: &Path<'_>, said: &mut Said) {
    let all = items(container, "env");
    for (i, variable) in all.iter().enumerate() {
        let name = text(variable, "name");
        if !all[..i].iter().any(|other| text(other, "name") == name) {
            continue;
        }
        let (value, reference) = (text(variable, "value"), format!("$({name})"));
        if member(variable, "valueFrom").is_some() || value == reference || !value.contains(&reference) {
            let text = format!(
                "hides previous definition of {}, which may be dropped when using apply",
                quote(name)
            );
            said.about(&at.index(i), text);
        }
    }
}

/// A port and where it stands: the list of containers, which of them, which of its ports.
struct Port<'a> {
    port: &'a Value,
    at: (&'static str, usize, usize),
}

pub(super) fn ports(spec: &Value, at: &Path<'_>, said: &mut Said) {
    let place = |(list, i, j)| at.child(list).index(i).child("ports").index(j).to_string();
    let mut all: Vec<Port<'_>> = Vec::new();
    for (list, i, container) in containers_of(spec) {
        for (j, port) in items(container, "ports").iter().enumerate() {
            let at = (list, i, j);
            let (host_ip, host_port) = host_of(port);
            if !host_ip.is_empty() && host_port == 0 {
                said.say(format!("{}: hostIP set without hostPort: {}", place(at), shown(port)));
            }
            for other in all.iter().filter(|other| same_port(port, other.port)) {
                if let Some(clash) = clash((host_ip, host_port), host_of(other.port)) {
                    said.say(format!("{}: {clash} port definition with {}", place(at), place(other.at)));
                }
            }
            all.push(Port { port, at });
        }
    }
    for (i, Port { port, at }) in all.iter().enumerate() {
        let name = text(port, "name");
        let first = all[..i].iter().find(|other| !name.is_empty() && text(other.port, "name") == name);
        if let Some(first) = first {
            let (at, first, name) = (place(*at), place(first.at), quote(name));
            said.say(format!(
                "{at}: duplicate port name {name} with {first}, services and probes that select ports by name will use {first}"
            ));
        }
    }
}

fn host_of(port: &Value) -> (&str, i64) {
    (text(port, "hostIP"), int(port, "hostPort").unwrap_or(0))
}

fn same_port(a: &Value, b: &Value) -> bool {
    let number = |port| int(port, "containerPort").unwrap_or(0);
    number(a) == number(b) && text(a, "protocol") == text(b, "protocol")
}

fn clash(a: (&str, i64), b: (&str, i64)) -> Option<&'static str> {
    if a == b {
        Some("duplicate")
    } else if a.1 == 0 || b.1 == 0 {
        Some("overlapping")
    } else if a.1 == b.1 && a.0.is_empty() != b.0.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

/// As Go prints its struct.
fn shown(port: &Value) -> String {
    let (host_ip, host_port) = host_of(port);
    format!(
        "{{Name:{} HostPort:{host_port} ContainerPort:{} Protocol:{} HostIP:{host_ip}}}",
        text(port, "name"),
        int(port, "containerPort").unwrap_or(0),
        text(port, "protocol"),
    )
}
