//! The node authorizer: rules RBAC cannot express, because they depend on the pods bound to a node.
//!
//! ```text
//! node <- pod <- secret, configmap, serviceaccount, resourceclaim, pvc <- pv <- secret
//! node <- volumeattachment, resourceslice
//! ```
//! It never denies: RBAC is asked next, and the reason given here is shown if that does not allow the request either.

mod references;
#[cfg(test)]
mod tests;

use object::selector::FieldSelector;

use crate::{Attributes, Decision, UserInfo, groups, names};

pub use references::{claims_of, is_mirror, refers, secrets_of, volume_secrets};

/// Among the extra of a node that asks for a certificate: the address it asks from, or [`IN_PROCESS`].
pub const SOURCE_ADDRESS: &str = "setpoint.dev/source-address";
/// The node is part of this server.
pub const IN_PROCESS: &str = "in-process";

/// Resources a node may read only if a pod bound to it refers to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Related {
    Secret,
    ConfigMap,
    ServiceAccount,
    PersistentVolumeClaim,
    PersistentVolume,
    ResourceClaim,
    VolumeAttachment,
    ResourceSlice,
    Pod,
}

/// Access to the current state of the cluster.
pub trait Relations {
    /// Whether a path in the graph leads from this object to the node.
    fn relates(&self, node: &str, what: Related, namespace: &str, name: &str) -> bool;
}

/// The node name of a node user; empty if its user name has none. `None` for other users.
pub fn name_of(user: &UserInfo) -> Option<&str> {
    user.name.strip_prefix(names::NODE_PREFIX).filter(|_| user.is_in(groups::NODES))
}

/// `None` for users that are not nodes.
pub fn authorize(user: &UserInfo, wanted: &Attributes<'_>, relations: &dyn Relations) -> Option<Decision> {
    let node = name_of(user)?;
    if node.is_empty() {
        return Some(no(format!("unknown node for user {}", object::quote(&user.name))));
    }
    let asked = Asked { node, wanted, relations };
    if wanted.path.is_none() {
        let decision = match (wanted.group, wanted.resource) {
            ("", "secrets") => asked.read_one(Related::Secret),
            ("", "configmaps") => asked.read_one(Related::ConfigMap),
            ("", "persistentvolumeclaims") if wanted.subresource == "status" => asked.claim_status(),
            ("", "persistentvolumeclaims") => asked.get_one(Related::PersistentVolumeClaim),
            ("", "persistentvolumes") => asked.get_one(Related::PersistentVolume),
            ("resource.k8s.io", "resourceclaims") => asked.get_one(Related::ResourceClaim),
            ("storage.k8s.io", "volumeattachments") => asked.get_one(Related::VolumeAttachment),
            ("", "serviceaccounts") => asked.service_account(),
            ("coordination.k8s.io", "leases") => asked.lease(),
            ("storage.k8s.io", "csinodes") => asked.csi_node(),
            ("resource.k8s.io", "resourceslices") => asked.resource_slice(),
            ("", "nodes") => asked.own_node(),
            ("", "pods") => asked.pod(),
            ("certificates.k8s.io", "podcertificaterequests") => no(""),
            _ => asked.other(),
        };
        return Some(decision);
    }
    Some(no(""))
}

/// Rules that are the same for every node, in addition to those for the resources above.
const RULES: [(&[&str], &[&str], &[&str]); 7] = [
    (&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
    (&["authorization.k8s.io"], &["subjectaccessreviews", "localsubjectaccessreviews"], &["create"]),
    (&[""], &["services"], &["get", "list", "watch"]),
    (&["", "events.k8s.io"], &["events"], &["create", "update", "patch"]),
    (&[""], &["endpoints"], &["get"]),
    (&["certificates.k8s.io"], &["certificatesigningrequests"], &["create", "get", "list", "watch"]),
    (&["storage.k8s.io", "node.k8s.io"], &["csidrivers", "runtimeclasses"], &["get", "list", "watch"]),
];

struct Asked<'a> {
    node: &'a str,
    wanted: &'a Attributes<'a>,
    relations: &'a dyn Relations,
}

fn yes() -> Decision {
    Decision { allowed: true, reason: String::new() }
}

fn no(reason: impl Into<String>) -> Decision {
    Decision { allowed: false, reason: reason.into() }
}

impl Asked<'_> {
    fn related(&self, what: Related) -> Decision {
        if self.wanted.name.is_empty() {
            return no("No Object name found");
        }
        self.related_or_unnamed(what)
    }

    fn related_or_unnamed(&self, what: Related) -> Decision {
        if self.relations.relates(self.node, what, self.wanted.namespace, self.wanted.name) {
            return yes();
        }
        no(format!("no relationship found between node '{}' and this object", self.node))
    }

    fn read_one(&self, what: Related) -> Decision {
        if !matches!(self.wanted.verb, "get" | "list" | "watch") {
            return no("can only read resources of this type");
        }
        if !self.wanted.subresource.is_empty() {
            return no("cannot read subresource");
        }
        if self.wanted.namespace.is_empty() {
            return no("can only read namespaced object of this type");
        }
        self.related(what)
    }

    fn get_one(&self, what: Related) -> Decision {
        if self.wanted.verb != "get" {
            return no("can only get individual resources of this type");
        }
        if !self.wanted.subresource.is_empty() {
            return no("cannot get subresource");
        }
        self.related(what)
    }

    fn claim_status(&self) -> Decision {
        if !matches!(self.wanted.verb, "update" | "patch") {
            return no("can only get/update/patch this type");
        }
        self.related(Related::PersistentVolumeClaim)
    }

    fn service_account(&self) -> Decision {
        let wanted = self.wanted;
        if wanted.verb == "get" && wanted.subresource.is_empty() {
            return self.read_one(Related::ServiceAccount);
        }
        if wanted.verb != "create" || wanted.name.is_empty() {
            return no("can only create tokens for individual service accounts");
        }
        if wanted.subresource != "token" {
            return no("can only create token subresource of serviceaccount");
        }
        self.related_or_unnamed(Related::ServiceAccount)
    }

    fn lease(&self) -> Decision {
        let verb = self.wanted.verb;
        if !matches!(verb, "get" | "create" | "update" | "patch" | "delete") {
            return no("can only get, create, update, patch, or delete a node lease");
        }
        if self.wanted.namespace != "kube-node-lease" {
            return no("can only access leases in the \"kube-node-lease\" system namespace");
        }
        // A create has no name yet: the NodeRestriction plugin checks it.
        if verb != "create" && self.wanted.name != self.node {
            return no("can only access node lease with the same name as the requesting node");
        }
        yes()
    }

    fn csi_node(&self) -> Decision {
        let verb = self.wanted.verb;
        if !matches!(verb, "get" | "create" | "update" | "patch" | "delete") {
            return no("can only get, create, update, patch, or delete a CSINode");
        }
        if !self.wanted.subresource.is_empty() {
            return no("cannot authorize CSINode subresources");
        }
        if verb != "create" && self.wanted.name != self.node {
            return no("can only access CSINode with the same name as the requesting node");
        }
        yes()
    }

    fn resource_slice(&self) -> Decision {
        if !self.wanted.subresource.is_empty() {
            return no("cannot authorize ResourceSlice subresources");
        }
        match self.wanted.verb {
            "create" => yes(),
            "get" | "update" | "patch" | "delete" => self.related(Related::ResourceSlice),
            "watch" | "list" | "deletecollection" => {
                if self.selects("spec.nodeName") {
                    return yes();
                }
                no("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => no(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, \
                 deletecollection",
            ),
        }
    }

    fn own_node(&self) -> Decision {
        let node = self.node;
        match (self.wanted.subresource, self.wanted.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => yes(),
            // By name, so that a node can look itself up before it registers.
            ("", "get" | "list" | "watch") => match self.wanted.name {
                name if name == node => yes(),
                "" => no(format!("node '{node}' cannot read all nodes, only its own Node object")),
                name => no(format!("node '{node}' cannot read '{name}', only its own Node object")),
            },
            _ => no(""),
        }
    }

    fn pod(&self) -> Decision {
        match (self.wanted.subresource, self.wanted.verb) {
            ("", "get") => self.get_one(Related::Pod),
            ("", "list" | "watch") if self.selects("spec.nodeName") => yes(),
            ("", "list" | "watch") if !self.wanted.name.is_empty() => self.related(Related::Pod),
            ("", "list" | "watch") => no("can only list/watch pods with spec.nodeName field selector"),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => yes(),
            _ => no(""),
        }
    }

    fn other(&self) -> Decision {
        let wanted = self.wanted;
        let allowed = wanted.subresource.is_empty()
            && RULES.iter().any(|(groups, resources, verbs)| {
                groups.contains(&wanted.group)
                    && resources.contains(&wanted.resource)
                    && verbs.contains(&wanted.verb)
            });
        if allowed { yes() } else { no("") }
    }

    /// Whether the request's field selector requires this field to equal the node name.
    fn selects(&self, field: &str) -> bool {
        let selector = FieldSelector::parse(self.wanted.field_selector);
        selector.is_ok_and(|s| {
            s.requirements().iter().any(|r| r.equal && r.field == field && r.value == self.node)
        })
    }
}
