//! Whether a serving certificate is the requester's own.

use std::net::IpAddr;

use auth::groups;
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

/// The name of the node that made the request, if it is an undecided one for a serving certificate.
pub fn asking_node(csr: &Value) -> Option<String> {
    if signer(csr) != KUBELET_SERVING || is_issued(csr) || has(csr, "Approved") || has(csr, "Denied") {
        return None;
    }
    let name = csr.str_at(&["spec", "username"])?.strip_prefix(NODE_USER)?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// `node`: the requester's own object, where there is one.
pub fn decide(csr: &Value, node: Option<&Value>) -> Decision {
    match check(csr, node) {
        Ok(()) => Decision::Approve,
        Err(why) => Decision::Leave(why),
    }
}

pub fn approved(csr: &Value) -> Value {
    let message = "Auto approving kubelet serving certificate: its names and addresses are the Node's.";
    with_condition(csr, "Approved", "AutoApproved", message, None)
}

fn check(csr: &Value, node: Option<&Value>) -> Result<(), String> {
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
    Ok(())
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
