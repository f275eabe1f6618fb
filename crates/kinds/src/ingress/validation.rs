//! The rules of ingresses: hosts, paths and the backends they lead to.

use object::{Value, validate_text};

use crate::check::text::{Ip, parse_ip};
use crate::check::{Errors, Path, int, items, member, text, texts};
use crate::workload::{SPEC, STATUS};
use crate::write::Write;

const CLASS: &str = "kubernetes.io/ingress.class";
const NOT_AN_ADDRESS: &str = "must be a DNS name, not an IP address";
const BAD_PARTS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const BAD_ENDS: [&str; 2] = ["/..", "/."];

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    if write.is_status() {
        write.check_metadata(errors);
        return check_status(write, errors);
    }
    if write.old.is_some() {
        write.check_metadata(errors);
    }
    write.check_whole_metadata(errors);
    let spec = write.spec();
    check_spec(spec, &Tolerance::from_old(write.old_spec()), errors);
    let class = write.new.str_at(&["metadata", "annotations", CLASS]);
    if let (None, Some(annotated), Some(named)) =
        (write.old, class, member(spec, "ingressClassName").and_then(Value::as_str))
        && annotated != named
    {
        let at = Path::Root("annotations");
        errors.invalid(&at.child(CLASS), annotated, "must match `ingressClassName` when both are specified");
    }
}

/// What the stored ingress may keep.
#[derive(Default)]
struct Tolerance {
    secret_names: bool,
    wildcard_rules: bool,
}

impl Tolerance {
    fn from_old(old: Option<&Value>) -> Tolerance {
        let Some(old) = old else { return Tolerance::default() };
        let bad_secret = |tls: &Value| !secret_problems(text(tls, "secretName")).is_empty();
        let bad_wildcard = |(i, rule): (usize, &Value)| {
            let mut errors = Errors::default();
            check_paths(rule, &SPEC.child("rules").index(i), &mut errors);
            text(rule, "host").contains('*') && !errors.is_empty()
        };
        Tolerance {
            secret_names: items(old, "tls").iter().any(bad_secret),
            wildcard_rules: items(old, "rules").iter().enumerate().any(bad_wildcard),
        }
    }
}

fn secret_problems(name: &str) -> Vec<String> {
    if name.is_empty() { Vec::new() } else { validate_text::dns1123_subdomain(name) }
}

fn check_spec(spec: &Value, tolerance: &Tolerance, errors: &mut Errors) {
    let (rules, backend) = (items(spec, "rules"), member(spec, "defaultBackend"));
    if rules.is_empty() && backend.is_none() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.invalid(&SPEC, spec.get("rules"), detail);
    }
    if let Some(backend) = backend {
        check_backend(backend, &SPEC.child("defaultBackend"), errors);
    }
    for (i, rule) in rules.iter().enumerate() {
        let list = SPEC.child("rules");
        let at = list.index(i);
        let host = text(rule, "host");
        if !host.is_empty() {
            if !matches!(parse_ip(host), Ip::Bad) {
                errors.invalid(&at.child("host"), host, NOT_AN_ADDRESS);
            }
            check_host(host, &at.child("host"), errors);
        }
        if !(host.contains('*') && tolerance.wildcard_rules) {
            check_paths(rule, &at, errors);
        }
    }
    for (i, tls) in items(spec, "tls").iter().enumerate() {
        let list = SPEC.child("tls");
        let at = list.index(i);
        for (j, host) in texts(tls, "hosts").enumerate() {
            check_host(host, &at.child("hosts").index(j), errors);
        }
        let secret = text(tls, "secretName");
        if !tolerance.secret_names {
            errors.each(&at.child("secretName"), secret, secret_problems(secret));
        }
    }
    if let Some(class) = member(spec, "ingressClassName").and_then(Value::as_str) {
        errors.subdomain(&SPEC.child("ingressClassName"), class);
    }
}

fn check_host(host: &str, at: &Path<'_>, errors: &mut Errors) {
    match host.contains('*') {
        true => errors.each(at, host, validate_text::wildcard_dns1123_subdomain(host)),
        false => errors.subdomain(at, host),
    }
}

fn check_paths(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(http) = member(rule, "http") else { return };
    let at = at.child("http");
    let at = at.child("paths");
    if items(http, "paths").is_empty() {
        errors.required(&at, "");
    }
    for (i, path) in items(http, "paths").iter().enumerate() {
        check_path(path, &at.index(i), errors);
    }
}

fn check_path(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(kind) = member(rule, "pathType").and_then(Value::as_str) else {
        return errors.required(&at.child("pathType"), "pathType must be specified");
    };
    let path = text(rule, "path");
    let path_at = at.child("path");
    match kind {
        "Exact" | "Prefix" => {
            if !path.starts_with('/') {
                errors.invalid(&path_at, path, "must be an absolute path");
            }
            for part in BAD_PARTS.iter().filter(|part| path.contains(**part)) {
                errors.invalid(&path_at, path, format!("must not contain '{part}'"));
            }
            for end in BAD_ENDS.iter().filter(|end| path.ends_with(**end)) {
                errors.invalid(&path_at, path, format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" if !path.is_empty() && !path.starts_with('/') => {
            errors.invalid(&path_at, path, "must be an absolute path");
        }
        "ImplementationSpecific" => {}
        other => {
            let kinds = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.not_supported(&at.child("pathType"), other, &kinds);
        }
    }
    check_backend(rule.get("backend").unwrap_or(&Value::Null), &at.child("backend"), errors);
}

fn check_backend(backend: &Value, at: &Path<'_>, errors: &mut Errors) {
    match (member(backend, "resource"), member(backend, "service")) {
        (Some(_), Some(_)) => errors.invalid(at, "", "cannot set both resource and service backends"),
        (Some(resource), None) => check_resource(resource, &at.child("resource"), errors),
        (None, Some(service)) => check_service(service, at, errors),
        (None, None) => errors.invalid(at, "", "resource or service backend is required"),
    }
}

fn check_service(service: &Value, at: &Path<'_>, errors: &mut Errors) {
    let service_at = at.child("service");
    errors.need_label(&service_at.child("name"), text(service, "name"));
    let none = Value::Null;
    let port = service.get("port").unwrap_or(&none);
    let port_at = service_at.child("port");
    let (name, number) = (text(port, "name"), int(port, "number").unwrap_or(0));
    match (name.is_empty(), number) {
        (false, 0) => errors.each(&port_at.child("name"), name, validate_text::port_name(name)),
        (false, _) => errors.invalid(at, "", "cannot set both port name & port number"),
        (true, 0) => errors.required(at, "port name or number is required"),
        (true, number) => errors.port_number(&port_at.child("number"), number),
    }
}

fn check_resource(resource: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(group) = member(resource, "apiGroup").and_then(Value::as_str) {
        errors.subdomain(&at.child("apiGroup"), group);
    }
    for name in ["kind", "name"] {
        let value = text(resource, name);
        errors.need(at, resource, name);
        errors.each(&at.child(name), value, validate_text::path_segment_name(value));
    }
}

fn check_status(write: &Write<'_>, errors: &mut Errors) {
    let entries = |status: &'_ Value| {
        status.get("loadBalancer").map(|b| items(b, "ingress").to_vec()).unwrap_or_default()
    };
    let old = write.old_status().map(entries).unwrap_or_default();
    let before: Vec<&str> = old.iter().map(|e| text(e, "ip")).filter(|ip| !ip.is_empty()).collect();
    for (i, entry) in entries(write.status()).iter().enumerate() {
        let balancer = STATUS.child("loadBalancer");
        let list = balancer.child("ingress");
        let at = list.index(i);
        let (ip, host) = (text(entry, "ip"), text(entry, "hostname"));
        if !ip.is_empty() {
            errors.ip(&at.child("ip"), ip, &before);
        }
        if !host.is_empty() {
            errors.subdomain(&at.child("hostname"), host);
            if !matches!(parse_ip(host), Ip::Bad) {
                errors.invalid(&at.child("hostname"), host, NOT_AN_ADDRESS);
            }
        }
    }
}
