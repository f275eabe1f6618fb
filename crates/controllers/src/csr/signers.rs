//! What the signers of `kubernetes.io` sign.

use auth::groups;
use auth::pki::SigningRequest;

pub const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";

/// Whether the rules of the signer allow the request; `None` for other controllers' signers.
pub fn check(signer: &str, request: &SigningRequest, usages: &[&str]) -> Option<Result<(), String>> {
    match signer {
        "kubernetes.io/kube-apiserver-client" => Some(api_server_client(usages)),
        KUBELET_CLIENT => Some(kubelet_client(request, usages)),
        KUBELET_SERVING => Some(kubelet_serving(request, usages)),
        // No rules, for compatibility.
        "kubernetes.io/legacy-unknown" => Some(Ok(())),
        _ => None,
    }
}

fn api_server_client(usages: &[&str]) -> Result<(), String> {
    let optional = ["digital signature", "key encipherment", "client auth"];
    if let Some(other) = usages.iter().find(|usage| !optional.contains(usage)) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if !usages.contains(&"client auth") {
        return Err("missing required usage for client certificate: client auth".into());
    }
    Ok(())
}

pub fn kubelet_client(request: &SigningRequest, usages: &[&str]) -> Result<(), String> {
    of_nodes(request)?;
    for (names, told) in [
        (request.dns_names.is_empty(), "DNS subjectAltNames are not allowed"),
        (request.emails.is_empty(), "Email subjectAltNames are not allowed"),
        (request.addresses.is_empty(), "IP subjectAltNames are not allowed"),
        (request.uris.is_empty(), "URI subjectAltNames are not allowed"),
    ] {
        if !names {
            return Err(told.into());
        }
    }
    a_node(request)?;
    exactly(usages, ["client auth", "digital signature", "key encipherment"])
}

pub fn kubelet_serving(request: &SigningRequest, usages: &[&str]) -> Result<(), String> {
    of_nodes(request)?;
    if request.dns_names.is_empty() && request.addresses.is_empty() {
        return Err("DNS or IP subjectAltName is required".into());
    }
    if !request.emails.is_empty() {
        return Err("Email subjectAltNames are not allowed".into());
    }
    if !request.uris.is_empty() {
        return Err("URI subjectAltNames are not allowed".into());
    }
    exactly(usages, ["digital signature", "key encipherment", "server auth"])?;
    a_node(request)
}

fn of_nodes(request: &SigningRequest) -> Result<(), String> {
    if request.organizations() == [groups::NODES] {
        return Ok(());
    }
    Err("subject organization is not system:nodes".into())
}

fn a_node(request: &SigningRequest) -> Result<(), String> {
    if request.common_name().starts_with("system:node:") {
        return Ok(());
    }
    Err("subject common name does not begin with system:node:".into())
}

/// Exactly these usages; key encipherment is optional, as not all keys can.
fn exactly(usages: &[&str], wanted: [&str; 3]) -> Result<(), String> {
    let optional = "key encipherment";
    let complete = wanted.iter().all(|usage| *usage == optional || usages.contains(usage));
    if complete && usages.iter().all(|usage| wanted.contains(usage)) {
        return Ok(());
    }
    Err(format!("usages did not match [{}]", wanted.join(" ")))
}
