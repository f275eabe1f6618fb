//! Whether a serving certificate is the requester's own.

use std::net::IpAddr;

use auth::groups;
use auth::node::{IN_PROCESS, SOURCE_ADDRESS};
use auth::pki::request_of;
use object::Value;

use crate::csr::signers::{KUBELET_SERVING, kubelet_serving};
use crate::csr::{has, is_issued, signer, usages, with_condition};

const NODE_USER: &str = "system:node:";

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Approve,
    /// To people, or until its Node changes; why.
    Leave(String),
}

/// Who else could be meant by an address.
pub struct Others<'a> {
    /// Another Node is known by it.
    pub taken: &'a dyn Fn(&str) -> bool,
    pub control_plane: &'a [IpAddr],
    /// Those of its machines; the others may be a load balancer's, which many come from.
    pub control_plane_machines: &'a [IpAddr],
    /// The DNS names of the API server's certificate, in lower case; `*.` stands for any label.
    pub control_plane_names: &'a [String],
}

/// The name of the node that made the request, if it is an undecided one for a serving certificate.
pub fn asking_node(csr: &Value) -> Option<String> {
    if signer(csr) != KUBELET_SERVING || is_issued(csr) || has(csr, "Approved") || has(csr, "Denied") {
        return None;
    }
    let name = csr.str_at(&["spec", "username"])?.strip_prefix(NODE_USER)?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// `node`: the requester's own object, where there is one.
pub fn decide(csr: &Value, node: Option<&Value>, others: &Others<'_>) -> Decision {
    match check(csr, node, others) {
        Ok(()) => Decision::Approve,
        Err(why) => Decision::Leave(why),
    }
}

pub fn approved(csr: &Value) -> Value {
    let message = "Auto approving kubelet serving certificate: its names and addresses are the Node's.";
    with_condition(csr, "Approved", "AutoApproved", message, None)
}

fn check(csr: &Value, node: Option<&Value>, others: &Others<'_>) -> Result<(), String> {
    let request = request_of(csr).map_err(|error| error.to_string())?;
    kubelet_serving(&request, &usages(csr))?;
    request.verify().map_err(|error| error.to_string())?;
    let user = csr.str_at(&["spec", "username"]).unwrap_or("");
    if request.common_name() != user {
        return Err(format!("{user} asks for a certificate of {}", request.common_name()));
    }
    let groups_of = csr.at(&["spec", "groups"]).and_then(Value::as_list).unwrap_or_default();
    if !groups_of.iter().any(|group| group.as_str() == Some(groups::NODES)) {
        return Err(format!("{user} is not in {}", groups::NODES));
    }
    let node = node.ok_or("the Node does not exist")?;
    let (names, addresses) = names_of(node);
    if let Some(other) = request.addresses.iter().find(|ip| !addresses.contains(ip)) {
        return Err(format!("{other} is not an address of the Node"));
    }
    if let Some(other) = request.dns_names.iter().find(|name| !names.contains(&name.to_ascii_lowercase())) {
        return Err(format!("{other} is not a name of the Node"));
    }
    let sources = csr.at(&["spec", "extra", SOURCE_ADDRESS]).and_then(Value::as_list).unwrap_or_default();
    let sources: Vec<&str> = sources.iter().filter_map(Value::as_str).collect();
    if sources.contains(&IN_PROCESS) {
        return Ok(());
    }
    let own_name = user.strip_prefix(NODE_USER).unwrap_or_default();
    // From the API server's own machine, whose addresses nobody lists here.
    let near = sources.iter().any(|source| source.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()));
    let addresses = request.addresses.iter().filter(|ip| !near && !sources.contains(&&*ip.to_string()));
    for ip in addresses {
        if others.control_plane.contains(ip) {
            return Err(format!("{ip} is the API server's, and the request did not come from there"));
        }
        if ip.is_loopback() || (others.taken)(&ip.to_string()) {
            return Err(format!("{ip} may be another's, and the request did not come from there"));
        }
    }
    let at_api_server = |source: &&str| {
        source
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.is_loopback() || others.control_plane_machines.contains(&ip))
    };
    for name in request.dns_names.iter().map(|name| name.to_ascii_lowercase()) {
        // Its certificate proves no other; what the Node says of itself proves nothing.
        if name != own_name {
            return Err(format!("{name} is not the name of the Node object"));
        }
        // Who joins chooses a name: a Node that is called like the API server's machine must be on it.
        let is_server = others.control_plane_names.iter().any(|own| covers(own, &name))
            && !sources.iter().any(at_api_server);
        if is_server || is_control_plane(&name) {
            return Err(format!("{name} is the API server's name"));
        }
    }
    Ok(())
}

/// Tells the addresses among the names of a certificate from the DNS names.
pub fn addresses_and_names(all: impl Iterator<Item = String>) -> (Vec<IpAddr>, Vec<String>) {
    let (mut addresses, mut names) = (Vec::new(), Vec::new());
    for name in all {
        match name.parse() {
            Ok(ip) => addresses.push(ip),
            Err(_) => names.push(name),
        }
    }
    (addresses, names)
}

/// Whether a certificate of this name is good for that one: `*.example.com` is for one label more. Both are in lower case.
fn covers(own: &str, name: &str) -> bool {
    let one_more = |suffix: &str| name.split_once('.').is_some_and(|(_, rest)| rest == suffix);
    own == name || own.strip_prefix("*.").is_some_and(one_more)
}

/// Names under which the API server is asked for.
fn is_control_plane(name: &str) -> bool {
    let first = name.split('.').next().unwrap_or_default();
    matches!(first, "kubernetes" | "localhost") || name.ends_with(".svc") || name.contains(".svc.")
}

/// What a Node is known by: its name, and what it says of itself.
pub fn known_as(node: &Value) -> Vec<String> {
    let (mut names, addresses) = names_of(node);
    names.extend(node.str_at(&["metadata", "name"]).map(str::to_owned));
    names.extend(addresses.iter().map(ToString::to_string));
    names.sort();
    names.dedup();
    names
}

/// The addresses of a Service, and those of Endpoints.
pub fn addresses_in(object: &Value) -> Vec<IpAddr> {
    let list = |value: Option<&Value>| value.and_then(Value::as_list).unwrap_or_default().to_vec();
    let of_service = list(object.at(&["spec", "clusterIPs"])).into_iter();
    let subsets = list(object.get("subsets"));
    let of_endpoints = subsets.iter().flat_map(|subset| list(subset.get("addresses")));
    let of_endpoints = of_endpoints.filter_map(|address| address.get("ip").cloned());
    of_service.chain(of_endpoints).filter_map(|ip| ip.as_str()?.parse().ok()).collect()
}

/// The names and addresses under which the Node says it is reached.
fn names_of(node: &Value) -> (Vec<String>, Vec<IpAddr>) {
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    for entry in node.at(&["status", "addresses"]).and_then(Value::as_list).unwrap_or_default() {
        let text = entry.str_at(&["address"]).unwrap_or("");
        match entry.str_at(&["type"]).unwrap_or("") {
            "InternalIP" | "ExternalIP" => addresses.extend(text.parse::<IpAddr>().ok()),
            // A host may be named by its address.
            "Hostname" | "InternalDNS" | "ExternalDNS" => match text.parse::<IpAddr>() {
                Ok(ip) => addresses.push(ip),
                Err(_) => names.push(text.to_ascii_lowercase()),
            },
            _ => {}
        }
    }
    (names, addresses)
}
