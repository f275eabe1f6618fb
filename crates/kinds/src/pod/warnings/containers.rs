//! Warnings about the containers of a pod: old annotations, fractions of bytes, variables and ports named twice.

use std::collections::BTreeMap;

use object::{Value, quote};

use super::NO_SECCOMP;
use crate::check::{Path, Seen, below, int, items, member, text};
use crate::pod::apparmor;
use crate::pod::validation::containers_of;
use crate::warnings::Warnings;

const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// `at_template_annotations` is the path of a template's annotations; pods are told about AppArmor when they are prepared.
pub(crate) fn containers(
    template: &Value,
    spec: &Value,
    at: &Path<'_>,
    at_template_annotations: Option<&Path<'_>>,
    warnings: &mut Warnings,
) {
    let annotations = template.at(&["metadata", "annotations"]).and_then(Value::as_map);
    let of = |prefix| annotations.map(|annotations| below(annotations, prefix)).unwrap_or_default();
    let annotated = Annotated { seccomp: of(SECCOMP_CONTAINER), app_armor: of(apparmor::PREFIX) };
    for (list, i, container) in containers_of(spec) {
        let at = at.child(list);
        let at = at.index(i);
        profiles(&annotated, spec, container, at_template_annotations, warnings);
        let at_resources = at.child("resources");
        for name in ["memory", "ephemeral-storage"] {
            for list in ["limits", "requests"] {
                warnings.whole_bytes(&at_resources.child(list), container.at(&["resources", list]), name);
            }
        }
        variables(container, &at.child("env"), warnings);
    }
}

/// Profiles that annotations still give, by container.
struct Annotated<'a> {
    seccomp: BTreeMap<&'a str, &'a Value>,
    app_armor: BTreeMap<&'a str, &'a Value>,
}

fn profiles(
    annotated: &Annotated<'_>,
    spec: &Value,
    container: &Value,
    at_template_annotations: Option<&Path<'_>>,
    warnings: &mut Warnings,
) {
    let at_metadata = Path::Root("metadata");
    let at_pod = at_metadata.child("annotations");
    let at_annotations = at_template_annotations.unwrap_or(&at_pod);
    let name = text(container, "name");
    let profile = |field| container.at(&["securityContext", field]).filter(|profile| !profile.is_null());
    if profile("seccompProfile").is_none() && annotated.seccomp.contains_key(name) {
        warnings.push_at(&at_annotations.key(&format!("{SECCOMP_CONTAINER}{name}")), NO_SECCOMP);
    }
    let annotation = annotated.app_armor.get(name).and_then(|a| a.as_str());
    if let Some(annotation) = annotation.filter(|_| at_template_annotations.is_some())
        && profile("appArmorProfile").is_none()
    {
        let of_pod = spec.at(&["securityContext", "appArmorProfile"]).filter(|p| !p.is_null());
        let same = |of_pod: &Value| apparmor::profile(annotation).as_ref() == Some(of_pod);
        if !of_pod.is_some_and(same) {
            warnings.push_at(&at_annotations.key(&apparmor::annotation_of(name)), apparmor::DEPRECATED);
        }
    }
}

/// A repeated variable is fine if it refers to its previous value.
fn variables(container: &Value, at: &Path<'_>, warnings: &mut Warnings) {
    let all = items(container, "env");
    let mut seen = Seen::default();
    for (i, variable) in all.iter().enumerate() {
        let name = text(variable, "name");
        if !seen.again(name) {
            continue;
        }
        let (value, reference) = (text(variable, "value"), format!("$({name})"));
        if member(variable, "valueFrom").is_some() || value == reference || !value.contains(&reference) {
            let text = format!(
                "hides previous definition of {}, which may be dropped when using apply",
                quote(name)
            );
            warnings.push_at(&at.index(i), text);
        }
    }
}

/// A port and its position: the list of containers, the container, the port.
struct Port<'a> {
    port: &'a Value,
    at: (&'static str, usize, usize),
}

pub(crate) fn ports(spec: &Value, at: &Path<'_>, warnings: &mut Warnings) {
    let place = |(list, i, j)| at.child(list).index(i).child("ports").index(j).to_string();
    let mut all: Vec<Port<'_>> = Vec::new();
    let mut taken = Taken::default();
    for (list, i, container) in containers_of(spec) {
        for (j, port) in items(container, "ports").iter().enumerate() {
            let at = (list, i, j);
            let (host_ip, host_port) = host_of(port);
            if !host_ip.is_empty() && host_port == 0 {
                warnings.push(format!("{}: hostIP set without hostPort: {}", place(at), shown(port)));
            }
            for other in taken.clashing(&all, port) {
                if warnings.is_full() {
                    return;
                }
                let other = &all[other];
                if let Some(clash) = clash((host_ip, host_port), host_of(other.port)) {
                    warnings.push(format!("{}: {clash} port definition with {}", place(at), place(other.at)));
                }
            }
            all.push(Port { port, at });
            taken.added(&all);
        }
    }
    let mut seen = Seen::default();
    for own in &all {
        let name = text(own.port, "name");
        if !name.is_empty() && seen.again(name) && !warnings.is_full() {
            let first = all.iter().find(|other| text(other.port, "name") == name).unwrap_or(own);
            let (at, first, name) = (place(own.at), place(first.at), quote(name));
            warnings.push(format!(
                "{at}: duplicate port name {name} with {first}, services and probes that select ports by name will use {first}"
            ));
        }
    }
}

/// Ports by what makes them conflict: number, protocol, host port and host IP. Used only if there are many; few are searched
/// linearly.
#[derive(Default)]
struct Taken<'a>(BTreeMap<(i64, &'a str, i64, &'a str), Vec<usize>>);

/// Up to this many ports are searched linearly.
const FEW: usize = 16;

impl<'a> Taken<'a> {
    fn key(port: &'a Value) -> (i64, &'a str, i64, &'a str) {
        let (ip, number) = host_of(port);
        (int(port, "containerPort").unwrap_or(0), text(port, "protocol"), number, ip)
    }
    /// The last of these was added.
    fn added(&mut self, all: &[Port<'a>]) {
        if all.len() > FEW {
            let from = if self.0.is_empty() { 0 } else { all.len() - 1 };
            for (place, Port { port, .. }) in all.iter().enumerate().skip(from) {
                self.0.entry(Taken::key(port)).or_default().push(place);
            }
        }
    }
    /// The positions of the ports this one conflicts with (see [`clash`]), in order.
    fn clashing(&self, all: &[Port<'a>], port: &'a Value) -> Vec<usize> {
        let (number, protocol, host, ip) = Taken::key(port);
        if all.len() <= FEW {
            let same = |at: &usize| {
                let (other, named, ..) = Taken::key(all[*at].port);
                (other, named) == (number, protocol)
            };
            return (0..all.len()).filter(same).collect();
        }
        let exact = |host, ip| self.0.get(&(number, protocol, host, ip)).into_iter();
        let any_address = |host| {
            let from = self.0.range((number, protocol, host, "")..);
            from.take_while(move |(key, _)| (key.0, key.1, key.2) == (number, protocol, host))
                .map(|(_, at)| at)
        };
        let mut found: Vec<usize> = match (host, ip) {
            (0, _) => {
                let from = self.0.range((number, protocol, i64::MIN, "")..);
                from.take_while(|(key, _)| (key.0, key.1) == (number, protocol))
                    .flat_map(|(_, at)| at)
                    .copied()
                    .collect()
            }
            (_, "") => any_address(host).chain(any_address(0)).flatten().copied().collect(),
            _ => exact(host, ip).chain(exact(host, "")).chain(any_address(0)).flatten().copied().collect(),
        };
        found.sort_unstable();
        found
    }
}

fn host_of(port: &Value) -> (&str, i64) {
    (text(port, "hostIP"), int(port, "hostPort").unwrap_or(0))
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
