//! What a pod says about the probes of a container.

use std::time::Duration;

use object::Value;

use super::state::{Before, Kind, Timing};

/// One probe, read once when its container starts.
#[derive(Debug)]
pub struct Probe {
    pub timing: Timing,
    pub timeout: Duration,
    /// How long a container that it condemns has to end, where that is not the pod's.
    pub grace_seconds: Option<i64>,
    pub handler: Handler,
}

#[derive(Debug)]
pub enum Handler {
    /// Variables of the container's environment that are plain values are replaced already.
    Exec(Vec<String>),
    HttpGet(HttpGet),
    Tcp {
        host: Option<String>,
        port: Port,
    },
    Grpc {
        port: Port,
        service: String,
    },
    Missing,
}

/// A port, or why there is none.
pub type Port = Result<u16, String>;

#[derive(Clone, Debug)]
pub struct HttpGet {
    pub https: bool,
    /// The pod's address where it is not given.
    pub host: Option<String>,
    pub port: Port,
    pub path: String,
    pub headers: Vec<(String, String)>,
}

impl Probe {
    pub fn read(container: &Value, kind: Kind) -> Option<Probe> {
        let probe = container.get(kind.field())?;
        let int = |name: &str, default: i64| probe.get(name).and_then(Value::as_int).unwrap_or(default);
        let seconds = |name: &str, default: i64, least: i64| {
            // More than a year is as good as never, and does not overflow a clock.
            Duration::from_secs(int(name, default).clamp(least, 366 * 86_400).unsigned_abs())
        };
        let threshold =
            |name: &str, default: i64| u32::try_from(int(name, default).max(1)).unwrap_or(u32::MAX);
        Some(Probe {
            timing: Timing {
                initial_delay: seconds("initialDelaySeconds", 0, 0),
                period: seconds("periodSeconds", 10, 1),
                success_threshold: threshold("successThreshold", 1),
                failure_threshold: threshold("failureThreshold", 3),
            },
            timeout: seconds("timeoutSeconds", 1, 1),
            grace_seconds: probe.get("terminationGracePeriodSeconds").and_then(Value::as_int),
            handler: Handler::read(probe, container),
        })
    }
}

impl Handler {
    fn read(probe: &Value, container: &Value) -> Handler {
        let port = |action: &Value| resolve_port(action.get("port"), container);
        if let Some(exec) = probe.get("exec") {
            let environment = container.get("env").and_then(Value::as_list).unwrap_or_default();
            Handler::Exec(command(exec).map(|word| expand(word, environment)).collect())
        } else if let Some(get) = probe.get("httpGet") {
            Handler::HttpGet(HttpGet::read(get, container))
        } else if let Some(socket) = probe.get("tcpSocket") {
            Handler::Tcp { host: text(socket, "host"), port: port(socket) }
        } else if let Some(grpc) = probe.get("grpc") {
            Handler::Grpc { port: port(grpc), service: text(grpc, "service").unwrap_or_default() }
        } else {
            Handler::Missing
        }
    }
}

impl HttpGet {
    pub fn read(get: &Value, container: &Value) -> HttpGet {
        let headers = get.get("httpHeaders").and_then(Value::as_list).unwrap_or_default();
        let header = |header: &Value| {
            (text(header, "name").unwrap_or_default(), text(header, "value").unwrap_or_default())
        };
        HttpGet {
            https: text(get, "scheme").is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
            host: text(get, "host"),
            port: resolve_port(get.get("port"), container),
            path: text(get, "path").unwrap_or_default(),
            headers: headers.iter().map(header).collect(),
        }
    }
}

/// The words of an exec action.
pub fn command(exec: &Value) -> impl Iterator<Item = &str> {
    exec.get("command").and_then(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_str)
}

/// What the pod's status told of a container before the agent that reads it began.
pub fn before(pod: &Value, container: &str, container_id: &str) -> Before {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let statuses = lists.iter().filter_map(|list| pod.at(&["status", list])?.as_list()).flatten();
    let is_it = |status: &&Value| {
        status.str_at(&["name"]) == Some(container)
            && status.str_at(&["containerID"]).is_some_and(|id| id.ends_with(container_id))
    };
    let started =
        statuses.filter(is_it).any(|status| status.get("started").and_then(Value::as_bool) == Some(true));
    let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let ready = conditions.iter().any(|condition| {
        condition.str_at(&["type"]) == Some("Ready") && condition.str_at(&["status"]) == Some("True")
    });
    Before { started, ready }
}

/// A number, or the name of one of the container's ports.
fn resolve_port(port: Option<&Value>, container: &Value) -> Port {
    let number = match port {
        Some(Value::Str(name)) => {
            let ports = container.get("ports").and_then(Value::as_list).unwrap_or_default();
            let named = ports.iter().find(|port| port.str_at(&["name"]) == Some(name));
            match named.and_then(|port| port.get("containerPort")?.as_int()) {
                Some(number) => number,
                None => {
                    let why = || format!("strconv.Atoi: parsing {}: invalid syntax", object::quote(name));
                    name.parse().map_err(|_| why())?
                }
            }
        }
        port => port.and_then(Value::as_int).unwrap_or(0),
    };
    let in_range = u16::try_from(number).ok().filter(|port| *port > 0);
    in_range.ok_or_else(|| format!("invalid port number: {number}"))
}

/// `$(NAME)` becomes the value of a variable that is a plain one, `$$` a dollar; anything else stays as it is.
fn expand(word: &str, environment: &[Value]) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = after.strip_prefix('(').and_then(|open| open.split_once(')')) {
            // The last of two with one name counts.
            let variable = environment.iter().rev().find(|v| v.str_at(&["name"]) == Some(name));
            match variable {
                Some(variable) => out.push_str(variable.str_at(&["value"]).unwrap_or("")),
                None => out.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// A field that is there and not empty.
fn text(value: &Value, name: &str) -> Option<String> {
    value.str_at(&[name]).filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests;
