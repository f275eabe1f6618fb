//! Which permissions of the requester let a request be approved.

use auth::pki::request_of;
use object::Value;

use crate::csr::signers::{KUBELET_CLIENT, kubelet_client};
use crate::csr::{has, is_issued, signer, usages, with_condition};

/// To be asked for, and what is said once it is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    pub subresource: &'static str,
    pub message: &'static str,
}

const SELF_NODE_CLIENT: Permission = Permission {
    subresource: "selfnodeclient",
    message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
};
const NODE_CLIENT: Permission = Permission {
    subresource: "nodeclient",
    message: "Auto approving kubelet client certificate after SubjectAccessReview.",
};

/// In the order they are asked for; none for what is decided, and for what people have to decide.
pub fn recognized(csr: &Value) -> Vec<Permission> {
    if is_issued(csr) || has(csr, "Approved") || has(csr, "Denied") || signer(csr) != KUBELET_CLIENT {
        return Vec::new();
    }
    // Validation accepts no such request; one that is stored nevertheless stays as it is.
    let Ok(request) = request_of(csr) else { return Vec::new() };
    if kubelet_client(&request, &usages(csr)).is_err() {
        return Vec::new();
    }
    if csr.str_at(&["spec", "username"]).unwrap_or("") == request.common_name() {
        vec![SELF_NODE_CLIENT, NODE_CLIENT]
    } else {
        vec![NODE_CLIENT]
    }
}

impl Permission {
    /// May the requester, as the server recorded it, have this?
    pub fn review(&self, csr: &Value) -> Value {
        let mut review = Value::map();
        let spec = review.map_at(&["spec"]);
        for (from, to) in [("username", "user"), ("uid", "uid"), ("groups", "groups"), ("extra", "extra")] {
            if let Some(value) = csr.at(&["spec", from]).filter(|value| !value.is_null()) {
                spec.set(to, value.clone());
            }
        }
        let wanted = review.map_at(&["spec", "resourceAttributes"]);
        for (name, text) in [
            ("group", "certificates.k8s.io"),
            ("resource", "certificatesigningrequests"),
            ("verb", "create"),
            ("subresource", self.subresource),
            ("version", "*"),
        ] {
            wanted.set(name, text);
        }
        review
    }

    pub fn approved(&self, csr: &Value) -> Value {
        with_condition(csr, "Approved", "AutoApproved", self.message, None)
    }
}
