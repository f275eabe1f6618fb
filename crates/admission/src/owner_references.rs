//! OwnerReferencesPermissionEnforcement: who makes an object depend on another must be allowed to delete the one
//! and, to block the other's deletion, to set its finalizers.

use auth::Attributes;
use object::{Value, quote};

use crate::tree::{flag, items, text};
use crate::{Attempt, Authorize, Effects, Operation, Plugin, Refusal};

pub struct OwnerReferencesPermissionEnforcement {
    authorize: Authorize,
}

impl OwnerReferencesPermissionEnforcement {
    pub fn new(authorize: &Authorize) -> OwnerReferencesPermissionEnforcement {
        OwnerReferencesPermissionEnforcement { authorize: authorize.clone() }
    }
}

impl Plugin for OwnerReferencesPermissionEnforcement {
    fn name(&self) -> &'static str {
        "OwnerReferencesPermissionEnforcement"
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        // Kubelets write status all the time and cannot change owners through it.
        let pod_status = attempt.is_or_below("", "pods") && attempt.subresource == Some("status");
        let Some(new) = new.filter(|_| !pod_status && attempt.operation != Operation::Delete) else {
            return Ok(());
        };
        let (owners, before) = (owners(new), attempt.old.map(owners).unwrap_or_default());
        if owners == before {
            return Ok(());
        }
        if attempt.operation != Operation::Create {
            let wanted = attempt.attributes("delete", attempt.name);
            let decision = (self.authorize)(attempt.user, &wanted);
            if !decision.allowed {
                let why = format!(
                    "cannot set an ownerRef on a resource you can't delete: {}, <nil>",
                    decision.reason
                );
                return Err(attempt.forbidden(why).into());
            }
        }
        let blocks = |owner: &Value| flag(owner, "blockOwnerDeletion") == Some(true);
        // Of several with one uid the last counts.
        let was = |owner: &Value| {
            before.iter().rev().find(|b| text(b, "uid") == text(owner, "uid")).is_some_and(blocks)
        };
        let blocking: Vec<&Value> = owners.iter().filter(|o| blocks(o) && !was(o)).collect();
        if blocking.is_empty() || self.may_finalize_anything(attempt) {
            return Ok(());
        }
        blocking.into_iter().try_for_each(|owner| self.may_block(attempt, owner))
    }
}

impl OwnerReferencesPermissionEnforcement {
    fn may_finalize_anything(&self, attempt: &Attempt<'_>) -> bool {
        let anything = Attributes {
            verb: "update",
            group: "*",
            resource: "*",
            subresource: "finalizers",
            name: "*",
            namespace: "",
            path: None,
            field_selector: "",
        };
        (self.authorize)(attempt.user, &anything).allowed
    }

    fn may_block(&self, attempt: &Attempt<'_>, owner: &Value) -> Result<(), Refusal> {
        let (api_version, kind) = (text(owner, "apiVersion"), text(owner, "kind"));
        let unknown = |why: String| -> Refusal {
            let why = format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion \
                 {api_version} Kind {kind}: {why}"
            );
            attempt.forbidden(why).into()
        };
        let (group, version) = match api_version.split_once('/') {
            Some((_, version)) if version.contains('/') => {
                return Err(unknown(format!("unexpected GroupVersion string: {api_version}")));
            }
            Some(parts) => parts,
            None => ("", api_version),
        };
        let Some(resource) = attempt.catalog.find_kind(group, version, kind) else {
            return Err(unknown(format!(
                "no matches for kind {} in version {}",
                quote(kind),
                quote(api_version)
            )));
        };
        let wanted = Attributes {
            verb: "update",
            group: &resource.group,
            resource: &resource.plural,
            subresource: "finalizers",
            name: text(owner, "name"),
            namespace: if resource.namespaced { attempt.namespace } else { "" },
            path: None,
            field_selector: "",
        };
        let decision = (self.authorize)(attempt.user, &wanted);
        if decision.allowed {
            return Ok(());
        }
        let why = format!(
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: \
             {}, <nil>",
            decision.reason
        );
        Err(attempt.forbidden(why).into())
    }
}

fn owners(object: &Value) -> &[Value] {
    object.get("metadata").map(|m| items(m, "ownerReferences")).unwrap_or_default()
}
