//! Authorization attributes, the authorizer's decision, and the message of a 403.

use object::{About, Status, quote};

use crate::UserInfo;

/// The attributes of one authorization check. Borrowed, because every request makes at least one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    /// Empty for list, watch, create and deletecollection.
    pub name: &'a str,
    /// Empty at the cluster scope.
    pub namespace: &'a str,
    /// The raw query parameter; only the node authorizer uses it.
    pub field_selector: &'a str,
    /// `Some` for a non-resource path (`/metrics`); then only `verb` matters besides it.
    pub path: Option<&'a str>,
}

impl<'a> Attributes<'a> {
    pub fn path(verb: &'a str, path: &'a str) -> Attributes<'a> {
        Attributes { verb, path: Some(path), ..Attributes::default() }
    }
}

/// The authorizer's decision. RBAC never denies: "not allowed" means that no rule matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
}

/// The 403, worded as in kube-apiserver. `reason` is the decision's, often empty.
pub fn forbidden(user: &UserInfo, wanted: &Attributes<'_>, reason: &str) -> Status {
    // Escaped, so that a browser does not render it as HTML.
    let mut message = message(user, wanted).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !reason.is_empty() {
        message.push_str(": ");
        message.push_str(reason);
    }
    Status::forbidden(About { group: wanted.group, resource: wanted.resource }, wanted.name, message)
}

fn message(user: &UserInfo, wanted: &Attributes<'_>) -> String {
    let (name, verb) = (quote(&user.name), wanted.verb);
    if let Some(path) = wanted.path {
        return format!("User {name} cannot {verb} path {}", quote(path));
    }
    let resource = match wanted.subresource {
        "" => quote(wanted.resource),
        sub => quote(&format!("{}/{sub}", wanted.resource)),
    };
    let scope = match wanted.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {}", quote(namespace)),
    };
    format!("User {name} cannot {verb} resource {resource} in API group {} {scope}", quote(wanted.group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_messages_equal_upstreams() {
        let jane = UserInfo::new("jane", &[]);
        let wanted = Attributes {
            verb: "get",
            resource: "pods",
            subresource: "log",
            name: "x",
            namespace: "errs",
            ..Attributes::default()
        };
        assert_eq!(
            forbidden(&jane, &wanted, "").message,
            r#"pods "x" is forbidden: User "jane" cannot get resource "pods/log" in API group "" in the namespace "errs""#
        );
        let wanted =
            Attributes { verb: "list", group: "apps", resource: "deployments", ..Attributes::default() };
        assert_eq!(
            forbidden(&jane, &wanted, "").message,
            r#"deployments.apps is forbidden: User "jane" cannot list resource "deployments" in API group "apps" at the cluster scope"#
        );
        let status = forbidden(&jane, &Attributes::path("get", "/<b>"), "why");
        assert_eq!(status.message, r#"forbidden: User "jane" cannot get path "/&lt;b&gt;": why"#);
        assert_eq!(status.code, 403);
    }
}
