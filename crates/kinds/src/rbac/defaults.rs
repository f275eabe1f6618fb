//! Role bindings, of a namespace or the cluster: roles, users and groups are RBAC's own.

use object::Map;

use crate::defaults::fill::Literal::Text;
use crate::defaults::fill::{Default, each, fill, inside, plain, text};

const GROUP: &[Default] = &[plain("apiGroup", Text("rbac.authorization.k8s.io"))];

pub(crate) fn apply(binding: &mut Map) {
    if let Some(role) = inside(binding, "roleRef") {
        fill(role, GROUP);
    }
    each(binding, "subjects", |subject| {
        if matches!(text(subject, "kind"), "User" | "Group") {
            fill(subject, GROUP);
        }
    });
}
