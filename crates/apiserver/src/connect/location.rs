//! Where a request leads: the kubelet of a node, a pod's own address, or an endpoint of a Service.

use std::net::IpAddr;
use std::time::Duration;

use codec::json;
use object::{Status, Value, quote};
use registry::RequestContext;
use webhook::HostPort;

use super::Connect;
use super::backend::Target;

/// The port of a kubelet that does not name one.
const KUBELET_PORT: u16 = 10250;
/// The feature by which a node declares that it takes WebSockets itself.
const TAKES_WEBSOCKETS: &str = "ExtendWebSocketsToKubelet";
/// Of pods; kubelets have a flag.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// A node's kubelet.
pub struct Kubelet {
    pub address: HostPort,
    pub takes_websockets: bool,
}

/// `name`, `name:port` or `scheme:name:port`.
struct Id<'a> {
    scheme: &'a str,
    name: &'a str,
    port: &'a str,
}

impl<'a> Id<'a> {
    fn parse(id: &'a str, what: &str) -> Result<Id<'a>, Status> {
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
        Ok(Id { scheme, name, port })
    }
}

impl Connect<'_> {
    pub(super) async fn pod(&self) -> Result<Value, Status> {
        self.object("pods", self.request.name).await
    }

    /// The container a request names, or the only one.
    pub(super) fn container(&self, pod: &Value) -> Result<String, Status> {
        let name = pod.str_at(&["metadata", "name"]).unwrap_or("");
        let names = |list: &str| -> Vec<&str> {
            let list = pod.at(&["spec", list]).and_then(Value::as_list).unwrap_or_default();
            list.iter().filter_map(|c| c.str_at(&["name"])).collect()
        };
        let regular = names("containers");
        let mut all = names("initContainers");
        all.extend(&regular);
        all.extend(names("ephemeralContainers"));
        match (self.query.get("container"), regular.as_slice()) {
            ("", [only]) => Ok((*only).to_owned()),
            ("", []) => {
                Err(Status::bad_request(format!("a container name must be specified for pod {name}")))
            }
            ("", _) => Err(Status::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                all.join(" ")
            ))),
            (wanted, _) if all.contains(&wanted) => Ok(wanted.to_owned()),
            (wanted, _) => {
                Err(Status::bad_request(format!("container {wanted} is not valid for pod {name}")))
            }
        }
    }

    pub(super) async fn kubelet(&self, name: &str) -> Result<Kubelet, Status> {
        let node = self.object("nodes", name).await?;
        let addresses = node.at(&["status", "addresses"]).and_then(Value::as_list).unwrap_or_default();
        let preferred = &self.api.kubelet_client().preferred_address_types;
        let of_type = |kind: &String| addresses.iter().find(|a| a.str_at(&["type"]) == Some(kind));
        let found: Vec<&str> =
            preferred.iter().filter_map(of_type).filter_map(|a| a.str_at(&["address"])).collect();
        let Some(first) = found.first() else {
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
        let mut host = *first;
        // Differs from kube-apiserver, which tries the first one only: a node's name need not be known to any DNS, and two nodes
        // on one machine cannot both have its name.
        for candidate in &found {
            if !self.resolve(candidate).await.is_empty() {
                host = candidate;
                break;
            }
        }
        let port = node.at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).and_then(Value::as_int);
        let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        let features = node.at(&["status", "declaredFeatures"]).and_then(Value::as_list).unwrap_or_default();
        Ok(Kubelet {
            address: HostPort { host: host.into(), port: port.unwrap_or(KUBELET_PORT) },
            takes_websockets: features.iter().any(|feature| feature.as_str() == Some(TAKES_WEBSOCKETS)),
        })
    }

    /// The addresses of a host; none if it is unknown.
    async fn resolve(&self, host: &str) -> Vec<IpAddr> {
        if let Ok(ip) = host.parse() {
            return vec![ip];
        }
        let env = self.api.registry.env();
        let limit = self.api.kubelet_client().timeout;
        match env.timeout(limit, tokio::net::lookup_host((host, 0))).await {
            Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    }

    pub(super) fn kubelet_target(&self, kubelet: Kubelet, skip_verify: bool) -> Target {
        let client = self.api.kubelet_client();
        Target {
            tls: Some(client.tls(skip_verify)),
            address: kubelet.address,
            dial_timeout: client.timeout,
            dialer: client.dialer.clone(),
            server_name: None,
        }
    }

    pub(super) async fn node_proxy(&self) -> Result<Target, Status> {
        let id = Id::parse(self.request.name, "node")?;
        let mut kubelet = self.kubelet(id.name).await?;
        let host = kubelet.address.host.clone();
        let addresses = self.resolve(&host).await;
        if addresses.is_empty() {
            return Err(Status::bad_request(format!("lookup {host}: no such host")));
        }
        if !addresses.into_iter().all(is_global_unicast) {
            return Err(Status::bad_request("address not allowed"));
        }
        if id.port.is_empty() || id.port == kubelet.address.port.to_string() {
            return Ok(self.kubelet_target(kubelet, false));
        }
        kubelet.address.port = parse_port(id.port)?;
        Ok(self.pod_target(id.scheme, kubelet.address))
    }

    pub(super) async fn pod_proxy(&self) -> Result<Target, Status> {
        let id = Id::parse(self.request.name, "pod")?;
        let pod = self.object("pods", id.name).await?;
        let containers = pod.at(&["spec", "containers"]).and_then(Value::as_list).unwrap_or_default();
        let first = containers
            .iter()
            .find_map(|c| c.get("ports")?.as_list()?.first()?.get("containerPort")?.as_int())
            .and_then(|port| u16::try_from(port).ok());
        let port = match (id.port, first, id.scheme) {
            ("", Some(first), _) => first,
            ("", None, "https") => 443,
            ("", None, _) => 80,
            (port, _, _) => parse_port(port)?,
        };
        let ip = pod_ips(&pod).next().unwrap_or("");
        if !ip.parse::<IpAddr>().is_ok_and(is_global_unicast) {
            return Err(Status::bad_request("address not allowed"));
        }
        Ok(self.pod_target(id.scheme, HostPort { host: ip.into(), port }))
    }

    pub(super) async fn service_proxy(&self) -> Result<Target, Status> {
        let id = Id::parse(self.request.name, "service")?;
        let mut port = id.port.to_owned();
        if let Ok(number) = port.parse::<i64>() {
            let service = self.object("services", id.name).await?;
            let ports = service.at(&["spec", "ports"]).and_then(Value::as_list).unwrap_or_default();
            let declared = ports.iter().find(|p| p.get("port").and_then(Value::as_int) == Some(number));
            let Some(declared) = declared else {
                let name = quote(id.name);
                let why = format!("no service port {number} found for service {name}");
                return Err(Status::unavailable(why));
            };
            port = declared.str_at(&["name"]).unwrap_or("").to_owned();
        }
        let endpoints = self.object("endpoints", id.name).await?;
        let subsets = endpoints.get("subsets").and_then(Value::as_list).unwrap_or_default();
        for subset in self.rotated(subsets) {
            let list = |name: &str| subset.get(name).and_then(Value::as_list).unwrap_or_default();
            let at = list("ports").iter().find(|p| p.str_at(&["name"]).unwrap_or("") == port);
            let Some(number) = at.and_then(|p| p.get("port")).and_then(Value::as_int) else { continue };
            let Ok(number) = u16::try_from(number) else { continue };
            for address in self.rotated(list("addresses")) {
                let ip = address.str_at(&["ip"]).unwrap_or("");
                if self.is_of_pod(address, ip).await {
                    return Ok(self.pod_target(id.scheme, HostPort { host: ip.into(), port: number }));
                }
            }
        }
        let shown = if subsets.is_empty() { id.name } else { self.request.name };
        Err(Status::unavailable(format!("no endpoints available for service {}", quote(shown))))
    }

    /// All of them, beginning anywhere.
    fn rotated<'v>(&self, items: &'v [Value]) -> impl Iterator<Item = &'v Value> {
        let first = match items.len() {
            0 => 0,
            count => self.api.registry.env().random() as usize % count,
        };
        items[first..].iter().chain(&items[..first])
    }

    /// Only pods are reachable: a Service must not lead into the control plane.
    async fn is_of_pod(&self, address: &Value, ip: &str) -> bool {
        let target = |member: &str| address.str_at(&["targetRef", member]).unwrap_or("");
        if address.get("targetRef").is_none() || target("namespace") != self.request.namespace {
            return false;
        }
        match self.object("pods", target("name")).await {
            Ok(pod) => pod_ips(&pod).any(|of_pod| of_pod == ip),
            Err(_) => false,
        }
    }

    fn pod_target(&self, scheme: &str, address: HostPort) -> Target {
        let client = self.api.kubelet_client();
        let tls = (scheme == "https").then(|| client.pods.clone());
        let dialer = client.dialer.clone();
        Target { tls, address, dial_timeout: DIAL_TIMEOUT, dialer, server_name: None }
    }

    /// A core object, of the request's namespace or cluster-scoped.
    async fn object(&self, plural: &str, name: &str) -> Result<Value, Status> {
        let resource = self.request.catalog.find("", "v1", plural).ok_or_else(Status::no_such_resource)?;
        let namespace = if resource.namespaced { self.request.namespace } else { "" };
        let request = RequestContext { resource, subresource: None, namespace, name, ..*self.request };
        // Upstream reports any missing object as the resource in the path.
        let obj = self.api.registry.get(&request, "").await.map_err(|status| match status.code {
            404 => Status::not_found(self.request.about(), name),
            _ => status,
        })?;
        json::parse(obj.body(), None).map_err(|e| Status::internal(e.to_string()))
    }
}

fn pod_ips(pod: &Value) -> impl Iterator<Item = &str> {
    let list = pod.at(&["status", "podIPs"]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(|entry| entry.str_at(&["ip"]))
}

fn parse_port(port: &str) -> Result<u16, Status> {
    let unreachable =
        |why: String| Status::unavailable(format!("error trying to reach service: dial tcp: {why}"));
    match port.parse::<u16>() {
        Ok(number) => Ok(number),
        Err(_) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(unreachable(format!("address {port}: invalid port")))
        }
        Err(_) => Err(unreachable(format!("lookup tcp/{port}: unknown port"))),
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
