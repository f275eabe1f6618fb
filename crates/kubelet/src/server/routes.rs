//! Which handler a path has.

use http::Method;
use percent_encoding::percent_decode_str;

/// A container by the path of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerPath {
    pub namespace: String,
    pub pod: String,
    /// Empty where the path has none.
    pub uid: String,
    /// Empty for a port-forward.
    pub container: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handler {
    /// One check, or all of them.
    Health(Option<&'static str>),
    Pods,
    RunningPods,
    Summary,
    Metrics(MetricsOf),
    Configz,
    Statusz,
    Flagz,
    /// A path below `/logs/`.
    SystemLogs(String),
    Logs(ContainerPath),
    Run(ContainerPath),
    Exec(ContainerPath),
    Attach(ContainerPath),
    PortForward(ContainerPath),
    Checkpoint(ContainerPath),
    /// Handlers that are off.
    Disabled(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsOf {
    Node,
    Containers,
    Resources,
    Probes,
    HealthChecks,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    To(Handler),
    /// Nobody's path: told to everyone.
    Unknown,
    Moved(&'static str),
    /// As [`Route::Unknown`], for those who may ask.
    NotFound,
    NotAllowed {
        allowed: &'static str,
    },
}

/// What a configuration may turn off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enabled {
    /// Everything that looks into pods, or shows how the node is set up.
    pub debugging: bool,
    pub system_logs: bool,
}

/// Paths that are whole, whatever the method.
const EXACT: [(&str, Handler); 13] = [
    ("/healthz", Handler::Health(None)),
    ("/healthz/ping", Handler::Health(Some("ping"))),
    ("/healthz/log", Handler::Health(Some("log"))),
    ("/healthz/syncloop", Handler::Health(Some("syncloop"))),
    ("/metrics", Handler::Metrics(MetricsOf::Node)),
    ("/metrics/cadvisor", Handler::Metrics(MetricsOf::Containers)),
    ("/metrics/resource", Handler::Metrics(MetricsOf::Resources)),
    ("/metrics/probes", Handler::Metrics(MetricsOf::Probes)),
    ("/metrics/slis", Handler::Metrics(MetricsOf::HealthChecks)),
    ("/configz", Handler::Configz),
    ("/statusz", Handler::Statusz),
    ("/flagz", Handler::Flagz),
    ("/debug/flags/v", Handler::Disabled("flags endpoint is disabled.")),
];

const LOGS: &str = "/logs/";
/// Differs from kubelet: profiles are those of Go's runtime, which is not here.
const PROFILES: (&str, &str) = ("/debug/pprof/", "profiling endpoint is disabled.");

/// Without debugging these say so, with everything below them, and the others are nobody's.
const DEBUGGING: [&str; 8] = [
    "/run/",
    "/exec/",
    "/attach/",
    "/portForward/",
    "/containerLogs/",
    "/runningpods/",
    "/debug/pprof/",
    "/logs/",
];
const OF_DEBUGGING: [&str; 5] = ["/configz", "/statusz", "/flagz", "/debug/flags/v", "/checkpoint"];

const MOVED: [(&str, &str); 5] = [
    ("/runningpods", "/runningpods/"),
    ("/stats", "/stats/"),
    ("/logs", "/logs/"),
    ("/checkpoint", "/checkpoint/"),
    ("/debug/pprof", "/debug/pprof/"),
];

const READ: &str = "GET";
const WRITE: &str = "POST";
const BOTH: &str = "GET, POST";

/// `path` as it is in the request, encoded.
pub fn route(method: &Method, path: &str, enabled: Enabled) -> Route {
    let Ok(path) = percent_decode_str(path).decode_utf8() else { return Route::Unknown };
    if !enabled.debugging {
        let below =
            |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if OF_DEBUGGING.iter().any(|root| below(root)) {
            return Route::Unknown;
        }
        if let Some(root) = DEBUGGING.iter().find(|root| below(&root[..root.len() - 1])) {
            let whole = path.len() >= root.len();
            return if whole {
                Route::To(Handler::Disabled("Debug endpoints are disabled."))
            } else {
                Route::Moved(root)
            };
        }
    }
    if let Some((_, handler)) = EXACT.iter().find(|(exact, _)| *exact == path) {
        return Route::To(handler.clone());
    }
    if let Some((_, to)) = MOVED.iter().find(|(from, _)| *from == path) {
        return Route::Moved(to);
    }
    if path.starts_with(PROFILES.0) {
        return Route::To(Handler::Disabled(PROFILES.1));
    }
    if let Some(below) = path.strip_prefix(LOGS) {
        return match method {
            _ if !enabled.system_logs => Route::To(Handler::Disabled("logs endpoint is disabled.")),
            &Method::GET => Route::To(Handler::SystemLogs(below.to_owned())),
            _ => Route::NotAllowed { allowed: READ },
        };
    }
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let container = |parts: &[&str]| {
        let mut texts = parts.iter().map(|part| (*part).to_owned());
        let mut next = || texts.next().unwrap_or_default();
        let (namespace, pod) = (next(), next());
        let (uid, container) = if parts.len() == 4 { (next(), next()) } else { (String::new(), next()) };
        ContainerPath { namespace, pod, uid, container }
    };
    let pod = |parts: &[&str]| ContainerPath {
        uid: parts.get(2).map(|uid| (*uid).to_owned()).unwrap_or_default(),
        container: String::new(),
        ..container(&parts[..2])
    };
    let (handler, allowed) = match parts.as_slice() {
        ["pods"] => (Handler::Pods, READ),
        ["runningpods"] => (Handler::RunningPods, READ),
        ["stats", "summary"] => (Handler::Summary, BOTH),
        ["containerLogs", of @ ..] if of.len() == 3 => (Handler::Logs(container(of)), READ),
        ["run", of @ ..] if matches!(of.len(), 3 | 4) => (Handler::Run(container(of)), WRITE),
        ["exec", of @ ..] if matches!(of.len(), 3 | 4) => (Handler::Exec(container(of)), BOTH),
        ["attach", of @ ..] if matches!(of.len(), 3 | 4) => (Handler::Attach(container(of)), BOTH),
        ["portForward", of @ ..] if matches!(of.len(), 2 | 3) => (Handler::PortForward(pod(of)), BOTH),
        ["checkpoint", of @ ..] if of.len() == 3 => (Handler::Checkpoint(container(of)), WRITE),
        [
            "pods" | "runningpods" | "stats" | "containerLogs" | "run" | "exec" | "attach" | "portForward"
            | "checkpoint",
            ..,
        ] => return Route::NotFound,
        _ => return Route::Unknown,
    };
    if !allowed.split(", ").any(|name| name == method.as_str()) {
        return Route::NotAllowed { allowed };
    }
    Route::To(handler)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Enabled = Enabled { debugging: true, system_logs: true };

    fn path(parts: [&str; 4]) -> ContainerPath {
        let [namespace, pod, uid, container] = parts.map(str::to_owned);
        ContainerPath { namespace, pod, uid, container }
    }

    #[test]
    fn paths_lead_to_their_handlers() {
        let get = |path: &str| route(&Method::GET, path, ALL);
        assert_eq!(get("/pods"), Route::To(Handler::Pods));
        assert_eq!(get("/pods/"), Route::To(Handler::Pods));
        assert_eq!(get("/runningpods/"), Route::To(Handler::RunningPods));
        assert_eq!(get("/healthz/syncloop"), Route::To(Handler::Health(Some("syncloop"))));
        assert_eq!(get("/metrics/resource"), Route::To(Handler::Metrics(MetricsOf::Resources)));
        assert_eq!(get("/exec/ns/p/c"), Route::To(Handler::Exec(path(["ns", "p", "", "c"]))));
        assert_eq!(get("/attach/ns/p/u/c"), Route::To(Handler::Attach(path(["ns", "p", "u", "c"]))));
        assert_eq!(get("/portForward/ns/p"), Route::To(Handler::PortForward(path(["ns", "p", "", ""]))));
        assert_eq!(get("/portForward/ns/p/u"), Route::To(Handler::PortForward(path(["ns", "p", "u", ""]))));
        assert_eq!(get("/containerLogs/ns/p/a%20b"), Route::To(Handler::Logs(path(["ns", "p", "", "a b"]))));
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        let get = |path: &str| route(&Method::GET, path, ALL);
        for unknown in ["/", "/nothing", "/healthz/", "/metrics/x", "/%ff"] {
            assert_eq!(get(unknown), Route::Unknown, "{unknown}");
        }
        for missing in ["/pods/x", "/exec/ns/p", "/exec/a/b/c/d/e", "/stats/", "/containerLogs/a/b/c/d"] {
            assert_eq!(get(missing), Route::NotFound, "{missing}");
        }
        assert_eq!(route(&Method::POST, "/pods", ALL), Route::NotAllowed { allowed: "GET" });
        assert_eq!(get("/run/a/b/c"), Route::NotAllowed { allowed: "POST" });
        assert_eq!(route(&Method::PUT, "/exec/a/b/c", ALL), Route::NotAllowed { allowed: "GET, POST" });
        assert_eq!(get("/runningpods"), Route::Moved("/runningpods/"));
        assert_eq!(route(&Method::HEAD, "/logs/messages", ALL), Route::NotAllowed { allowed: "GET" });
    }

    #[test]
    fn what_is_turned_off_says_so() {
        assert_eq!(
            route(&Method::GET, "/logs/a%20b/c", ALL),
            Route::To(Handler::SystemLogs("a b/c".to_owned()))
        );
        let disabled = |message| Route::To(Handler::Disabled(message));
        let get = |path: &str, enabled| route(&Method::GET, path, enabled);
        let no_logs = Enabled { system_logs: false, ..ALL };
        assert_eq!(get("/logs/messages", no_logs), disabled("logs endpoint is disabled."));
        let none = Enabled { debugging: false, system_logs: true };
        for path in
            ["/exec/a/b/c", "/run/", "/logs/x", "/runningpods/", "/containerLogs/a/b/c", "/debug/pprof/heap"]
        {
            assert_eq!(get(path, none), disabled("Debug endpoints are disabled."), "{path}");
        }
        for path in ["/configz", "/flagz", "/statusz", "/checkpoint/a/b/c", "/debug/flags/v"] {
            assert_eq!(get(path, none), Route::Unknown, "{path}");
        }
        assert_eq!(get("/runningpods", none), Route::Moved("/runningpods/"));
        assert_eq!(get("/pods", none), Route::To(Handler::Pods));
        assert_eq!(get("/metrics/probes", none), Route::To(Handler::Metrics(MetricsOf::Probes)));
    }
}
