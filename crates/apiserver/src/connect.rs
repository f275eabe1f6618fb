//! Subresources that reach into a node or a pod: log, exec, attach, portforward, proxy.
//!
//! Resolves their target, and refuses: the connection itself comes with the node agent.

use std::net::IpAddr;
use std::sync::Arc;

use auth::{Attributes, UserInfo};
use codec::json;
use http::StatusCode;
use object::{FieldError, Status, Value, quote};
use registry::RequestContext;

use crate::api::Api;
use crate::request_info::Query;
use crate::respond::{self, Answer};

/// The port of a kubelet that does not name one.
const KUBELET_PORT: i64 = 10250;
/// In the default order of `--kubelet-preferred-address-types`.
const PREFERRED_ADDRESSES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

/// The target of a request.
struct Location {
    host: String,
    port: String,
    /// What it is, for the error.
    what: String,
}

pub async fn serve(
    api: &Arc<Api>,
    user: &UserInfo,
    query: &Query<'_>,
    request: &RequestContext<'_>,
) -> Result<Answer, Status> {
    let subresource = request.subresource.unwrap_or_default();
    let connect = Connect { api, query, request };
    let location = match (request.resource.plural.as_str(), subresource) {
        ("pods", "log") => match connect.log().await? {
            Some(location) => location,
            // A pod without a node has no log yet.
            None => {
                let mut answer = respond::answer(204, "text/plain", Vec::new().into());
                *answer.status_mut() = StatusCode::NO_CONTENT;
                return Ok(answer);
            }
        },
        ("pods", "exec" | "attach") => {
            connect.may_create(user)?;
            connect.stream(true).await?
        }
        ("pods", "portforward") => {
            connect.may_create(user)?;
            connect.stream(false).await?
        }
        ("pods", "proxy") => connect.pod_proxy().await?,
        ("services", "proxy") => connect.service_proxy().await?,
        ("nodes", "proxy") => connect.node_proxy().await?,
        _ => return Err(Status::no_such_resource()),
    };
    let why = format!(
        "this version of setpoint opens no connection to {} at {}:{}: it has no node agent yet",
        location.what, location.host, location.port
    );
    // With upstream's code for a refused connection.
    Err(if subresource == "proxy" { Status::unavailable(why) } else { Status::unknown(why) })
}

struct Connect<'a> {
    api: &'a Arc<Api>,
    query: &'a Query<'a>,
    request: &'a RequestContext<'a>,
}

impl Connect<'_> {
    /// A GET of these needs the permission of a POST: browsers cannot POST a WebSocket.
    fn may_create(&self, user: &UserInfo) -> Result<(), Status> {
        self.api.authorizer.check(
            user,
            &Attributes {
                verb: "create",
                group: &self.request.resource.group,
                resource: &self.request.resource.plural,
                subresource: self.request.subresource.unwrap_or_default(),
                name: self.request.name,
                namespace: self.request.namespace,
                path: None,
                field_selector: "",
            },
        )
    }

    async fn log(&self) -> Result<Option<Location>, Status> {
        let errors = self.log_option_errors();
        if !errors.is_empty() {
            return Err(Status::invalid("", "PodLogOptions", self.request.name, errors));
        }
        let pod = self.object(self.request.resource.plural.as_str(), self.request.name).await?;
        self.container(&pod)?;
        match pod.str_at(&["spec", "nodeName"]) {
            None | Some("") => Ok(None),
            Some(node) => self.kubelet(node).await.map(Some),
        }
    }

    fn log_option_errors(&self) -> Vec<FieldError> {
        let number = |name: &str| self.query.get(name).parse::<i64>().ok();
        let mut errors = Vec::new();
        if let Some(lines) = number("tailLines").filter(|n| *n < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("tailLines", lines.to_string(), detail));
        }
        if let Some(bytes) = number("limitBytes").filter(|n| *n < 1) {
            errors.push(FieldError::invalid("limitBytes", bytes.to_string(), "must be greater than 0"));
        }
        let since = number("sinceSeconds");
        if since.is_some() && !self.query.get("sinceTime").is_empty() {
            let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("[]", detail));
        } else if let Some(seconds) = since.filter(|n| *n < 1) {
            errors.push(FieldError::invalid("sinceSeconds", seconds.to_string(), "must be greater than 0"));
        }
        if self.query.find("stream").is_some() {
            errors.push(FieldError::forbidden("stream", "may not be specified"));
        }
        errors
    }

    /// exec and attach need a container, portforward does not.
    async fn stream(&self, into_container: bool) -> Result<Location, Status> {
        let name = self.request.name;
        let pod = self.object("pods", name).await?;
        if into_container {
            self.container(&pod)?;
        }
        match pod.str_at(&["spec", "nodeName"]) {
            None | Some("") => Err(Status::bad_request(format!("pod {name} does not have a host assigned"))),
            Some(node) => self.kubelet(node).await,
        }
    }

    /// Checks that the request names a container, or needs none.
    fn container(&self, pod: &Value) -> Result<(), Status> {
        let name = pod.str_at(&["metadata", "name"]).unwrap_or("");
        let names = |list: &str| -> Vec<&str> {
            let list = pod.at(&["spec", list]).and_then(Value::as_list).unwrap_or_default();
            list.iter().filter_map(|c| c.str_at(&["name"])).collect()
        };
        let regular = names("containers");
        let mut all = names("initContainers");
        all.extend(&regular);
        all.extend(names("ephemeralContainers"));
        match (self.query.get("container"), regular.len()) {
            ("", 1) => Ok(()),
            ("", 0) => Err(Status::bad_request(format!("a container name must be specified for pod {name}"))),
            ("", _) => Err(Status::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                all.join(" ")
            ))),
            (wanted, _) if all.contains(&wanted) => Ok(()),
            (wanted, _) => {
                Err(Status::bad_request(format!("container {wanted} is not valid for pod {name}")))
            }
        }
    }

    async fn pod_proxy(&self) -> Result<Location, Status> {
        let (name, port) = self.split("pod")?;
        let pod = self.object("pods", name).await?;
        let addresses = pod.at(&["status", "podIPs"]).and_then(Value::as_list).unwrap_or_default();
        let ip = addresses.first().and_then(|a| a.str_at(&["ip"])).unwrap_or("");
        if !ip.parse::<IpAddr>().is_ok_and(is_global_unicast) {
            return Err(Status::bad_request("address not allowed"));
        }
        let ports = pod.at(&["spec", "containers"]).and_then(Value::as_list).unwrap_or_default();
        let first =
            ports.iter().find_map(|c| c.get("ports")?.as_list()?.first()?.get("containerPort")?.as_int());
        let port = if port.is_empty() { first.unwrap_or(80).to_string() } else { port.to_owned() };
        Ok(Location { host: ip.to_owned(), port, what: format!("pod {name}") })
    }

    async fn service_proxy(&self) -> Result<Location, Status> {
        let (name, port) = self.split("service")?;
        let mut port = port.to_owned();
        if let Ok(number) = port.parse::<i64>() {
            let service = self.object("services", name).await?;
            let ports = service.at(&["spec", "ports"]).and_then(Value::as_list).unwrap_or_default();
            let declared = ports.iter().find(|p| p.get("port").and_then(Value::as_int) == Some(number));
            port = match declared {
                Some(declared) => declared.str_at(&["name"]).unwrap_or("").to_owned(),
                None => {
                    return Err(Status::unavailable(format!(
                        "no service port {number} found for service {}",
                        quote(name)
                    )));
                }
            };
        }
        let endpoints = self.object("endpoints", name).await?;
        let subsets = endpoints.get("subsets").and_then(Value::as_list).unwrap_or_default();
        let found = subsets.iter().find_map(|subset| {
            let ports = subset.get("ports")?.as_list()?;
            let at = ports.iter().find(|p| p.str_at(&["name"]).unwrap_or("") == port)?;
            // Only pods are reachable: a Service must not lead into the control plane.
            let address =
                subset.get("addresses")?.as_list()?.iter().find(|a| a.get("targetRef").is_some())?;
            Some((address.str_at(&["ip"])?.to_owned(), at.get("port")?.as_int()?.to_string()))
        });
        match found {
            Some((host, port)) => Ok(Location { host, port, what: format!("service {name}") }),
            None => {
                let shown = if subsets.is_empty() { name } else { self.request.name };
                Err(Status::unavailable(format!("no endpoints available for service {}", quote(shown))))
            }
        }
    }

    async fn node_proxy(&self) -> Result<Location, Status> {
        let (name, port) = self.split("node")?;
        let mut location = self.kubelet(name).await?;
        if let Ok(ip) = location.host.parse::<IpAddr>()
            && !is_global_unicast(ip)
        {
            return Err(Status::bad_request("address not allowed"));
        }
        if !port.is_empty() {
            location.port = port.to_owned();
        }
        Ok(location)
    }

    /// `name`, `name:port` or `scheme:name:port`.
    fn split(&self, what: &str) -> Result<(&str, &str), Status> {
        let id = self.request.name;
        let parts: Vec<&str> = id.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => ("", "", ""),
        };
        if name.is_empty() || !matches!(scheme, "" | "http" | "https") {
            return Err(Status::bad_request(format!("invalid {what} request {}", quote(id))));
        }
        Ok((name, port))
    }

    /// The address of a node's kubelet.
    async fn kubelet(&self, name: &str) -> Result<Location, Status> {
        let node = self.object("nodes", name).await?;
        let addresses = node.at(&["status", "addresses"]).and_then(Value::as_list).unwrap_or_default();
        let of_type = |kind: &&str| addresses.iter().find(|a| a.str_at(&["type"]) == Some(*kind));
        let Some(address) = PREFERRED_ADDRESSES.iter().find_map(of_type) else {
            let known: Vec<String> = addresses
                .iter()
                .map(|a| {
                    let text = |member| a.str_at(&[member]).unwrap_or("");
                    format!("{{{} {}}}", text("type"), text("address"))
                })
                .collect();
            return Err(Status::unknown(format!(
                "no preferred addresses found; known addresses: [{}]",
                known.join(" ")
            )));
        };
        let port = node.at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).and_then(Value::as_int);
        Ok(Location {
            host: address.str_at(&["address"]).unwrap_or("").to_owned(),
            port: port.filter(|p| *p > 0).unwrap_or(KUBELET_PORT).to_string(),
            what: format!("node {name}"),
        })
    }

    /// A core object, of the request's namespace or cluster-scoped.
    async fn object(&self, plural: &str, name: &str) -> Result<Value, Status> {
        let registry = &self.api.registry;
        let resource = self.request.catalog.find("", "v1", plural).ok_or_else(Status::no_such_resource)?;
        let namespace = if resource.namespaced { self.request.namespace } else { "" };
        let request = RequestContext { resource, subresource: None, namespace, name, ..*self.request };
        // Upstream reports any missing object as the resource in the path.
        let obj = registry.get(&request, "").await.map_err(|status| match status.code {
            404 => Status::not_found(self.request.about(), name),
            _ => status,
        })?;
        json::parse(obj.body(), None).map_err(|e| Status::internal(e.to_string()))
    }
}

fn is_global_unicast(ip: IpAddr) -> bool {
    // An IPv4-mapped IPv6 address counts as IPv4.
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            !(ip.is_unspecified()
                || ip.is_loopback()
                || ip.is_multicast()
                || ip.is_link_local()
                || ip.is_broadcast())
        }
        IpAddr::V6(ip) => {
            let link_local = ip.segments()[0] & 0xffc0 == 0xfe80;
            !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local)
        }
    }
}
