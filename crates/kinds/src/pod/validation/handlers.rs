//! Probes and lifecycle hooks: one handler each, with the numbers that fit its use.

use object::{Value, validate_text};

use crate::check::{Errors, Path, int, items, member, text};

/// Signals on Windows, sorted.
const WINDOWS_SIGNALS: [&str; 2] = ["SIGKILL", "SIGTERM"];
/// Sorted.
const LINUX_SIGNALS: [&str; 65] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

/// Lifecycle, then the three probes of one container.
pub(super) fn check(spec: &Value, container: &Value, at: &Path<'_>, errors: &mut Errors) {
    let grace = int(spec, "terminationGracePeriodSeconds");
    if let Some(lifecycle) = member(container, "lifecycle") {
        check_lifecycle(spec, lifecycle, grace, &at.child("lifecycle"), errors);
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = member(container, name) else { continue };
        let at = at.child(name);
        check_probe(probe, grace, &at, errors);
        if name == "readinessProbe" {
            if let Some(seconds) = member(probe, "terminationGracePeriodSeconds") {
                let detail = "must not be set for readinessProbes";
                errors.invalid(&at.child("terminationGracePeriodSeconds"), seconds, detail);
            }
            continue;
        }
        let threshold = int(probe, "successThreshold").unwrap_or(0);
        if threshold != 1 {
            errors.invalid(&at.child("successThreshold"), threshold, "must be 1");
        }
    }
}

fn check_probe(probe: &Value, grace: Option<i64>, at: &Path<'_>, errors: &mut Errors) {
    check_handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], grace, at, errors);
    for name in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        errors.nonnegative(at, probe, name);
    }
    if let Some(seconds) = int(probe, "terminationGracePeriodSeconds").filter(|s| *s <= 0) {
        errors.invalid(&at.child("terminationGracePeriodSeconds"), seconds, "must be greater than 0");
    }
}

fn check_lifecycle(spec: &Value, lifecycle: &Value, grace: Option<i64>, at: &Path<'_>, errors: &mut Errors) {
    for name in ["postStart", "preStop"] {
        if let Some(hook) = member(lifecycle, name) {
            check_handler(hook, &["exec", "httpGet", "tcpSocket", "sleep"], grace, &at.child(name), errors);
        }
    }
    let Some(signal) = member(lifecycle, "stopSignal").and_then(Value::as_str) else { return };
    let at = at.child("stopSignal");
    match member(spec, "os").map(|os| text(os, "name")) {
        None => errors.forbidden(&at, "may not be set for containers with empty `spec.os.name`"),
        Some("windows") => errors.one_of(&at, signal, &WINDOWS_SIGNALS),
        Some("linux") => errors.one_of(&at, signal, &LINUX_SIGNALS),
        Some(_) => {}
    }
}

/// Exactly one of these ways.
fn check_handler(handler: &Value, ways: &[&str], grace: Option<i64>, at: &Path<'_>, errors: &mut Errors) {
    let mut count = 0;
    for way in ways {
        let Some(action) = member(handler, way) else { continue };
        let at = at.child(way);
        count += 1;
        if count > 1 {
            errors.forbidden(&at, "may not specify more than 1 handler type");
            continue;
        }
        match *way {
            "exec" if items(action, "command").is_empty() => errors.required(&at.child("command"), ""),
            "httpGet" => check_http(action, &at, errors),
            "tcpSocket" => errors.port_number_or_name(&at.child("port"), action.get("port")),
            "grpc" => errors.port_number(&at.child("port"), int(action, "port").unwrap_or(0)),
            "sleep" => {
                let seconds = int(action, "seconds").unwrap_or(0);
                if let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&seconds)) {
                    let detail =
                        format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    errors.invalid(&at, seconds, detail);
                }
            }
            _ => {}
        }
    }
    if count == 0 {
        errors.required(at, "must specify a handler type");
    }
}

fn check_http(action: &Value, at: &Path<'_>, errors: &mut Errors) {
    errors.need(at, action, "path");
    errors.port_number_or_name(&at.child("port"), action.get("port"));
    errors.one_of(&at.child("scheme"), text(action, "scheme"), &["HTTP", "HTTPS"]);
    for header in items(action, "httpHeaders") {
        let name = text(header, "name");
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            let rule = "a valid HTTP header must consist of alphanumeric characters or '-'";
            let problem = validate_text::regex_error(rule, "[-A-Za-z0-9]+", &["X-Header-Name"]);
            errors.invalid(&at.child("httpHeaders"), name, problem);
        }
    }
}
