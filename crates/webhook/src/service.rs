//! A Service's endpoints, as the API server knows them: webhooks run in pods, and need no cluster DNS or proxy to be reached.

use std::sync::Arc;

use object::{Value, quote};

/// Turns a reference to a Service into addresses, from whatever knows them.
///
/// It is asked for every call: answer from memory, and keep the result of [`endpoints`] for as long as its input stays the same.
pub trait ServiceResolver: Send + Sync {
    /// At least one address; the caller chooses among them.
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<Arc<[HostPort]>, ResolveError>;
}

/// An address and a port, or a name for DNS and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    pub host: Arc<str>,
    pub port: u16,
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Why a Service leads nowhere, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error("service {} not found", quote(.0))]
    NotFound(String),
    #[error("no service port {port} found for service {}", quote(.service))]
    NoPort { service: String, port: u16 },
    #[error("no endpoints available for service {}", quote(.0))]
    NoEndpoints(String),
    #[error("unsupported service type {}", quote(.0))]
    Type(String),
}

/// The ready endpoints of a Service: those of its first IP family, or where there are none those of the others.
///
/// `service`: `None` if there is none of that name. `slices`: its EndpointSlices, those labelled with its name.
pub fn endpoints(
    name: &str,
    port: u16,
    service: Option<&Value>,
    slices: &[&Value],
) -> Result<Arc<[HostPort]>, ResolveError> {
    let service = service.ok_or_else(|| ResolveError::NotFound(name.to_owned()))?;
    match service.str_at(&["spec", "type"]).unwrap_or("ClusterIP") {
        "ClusterIP" | "NodePort" | "LoadBalancer" => {}
        // Differs from kube-apiserver where it looks for endpoints: without that it follows the name, and so do we.
        "ExternalName" => {
            let host = service.str_at(&["spec", "externalName"]).unwrap_or_default();
            if host.is_empty() {
                return Err(ResolveError::NoEndpoints(name.to_owned()));
            }
            return Ok(Arc::new([HostPort { host: host.into(), port }]));
        }
        other => return Err(ResolveError::Type(other.to_owned())),
    }
    let ports = list(service, &["spec", "ports"]);
    let wanted = ports.iter().find(|entry| entry.get("port").and_then(Value::as_int) == Some(port.into()));
    let wanted = wanted.ok_or_else(|| ResolveError::NoPort { service: name.to_owned(), port })?;
    let port_name = text(wanted, "name");

    let family = list(service, &["spec", "ipFamilies"]).first().and_then(Value::as_str);
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for slice in slices {
        let of_family = family.is_none_or(|family| text(slice, "addressType") == family);
        ready_endpoints(slice, port_name, if of_family { &mut first } else { &mut others });
    }
    let found = if first.is_empty() { others } else { first };
    if found.is_empty() {
        return Err(ResolveError::NoEndpoints(name.to_owned()));
    }
    Ok(found.into())
}

fn ready_endpoints(slice: &Value, port_name: &str, out: &mut Vec<HostPort>) {
    let ports = list(slice, &["ports"]);
    let port = ports.iter().filter(|port| text(port, "name") == port_name).find_map(|port| port.get("port"));
    let Some(port) = port.and_then(Value::as_int).and_then(|port| u16::try_from(port).ok()) else { return };
    for endpoint in list(slice, &["endpoints"]) {
        let ready = endpoint.at(&["conditions", "ready"]).and_then(Value::as_bool).unwrap_or(true);
        // An endpoint has one address; more are for nobody.
        let address = list(endpoint, &["addresses"]).first().and_then(Value::as_str);
        if let (true, Some(address)) = (ready, address) {
            out.push(HostPort { host: address.into(), port });
        }
    }
}

fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    value.at(path).and_then(Value::as_list).unwrap_or_default()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
