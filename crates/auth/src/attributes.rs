//! What a user wants to do, the answer, and the words of a refusal.

use object::{About, Status, quote};

use crate::UserInfo;

/// One question to an authorizer. Borrowed, because every request asks at least once.
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
    /// As the query says it; only the node authorizer looks.
    pub field_selector: &'a str,
    /// `Some` for a path that is no resource (`/metrics`); then only `verb` counts beside it.
    pub path: Option<&'a str>,
}

impl<'a> Attributes<'a> {
    pub fn path(verb: &'a str, path: &'a str) -> Attributes<'a> {
        Attributes { verb, path: Some(path), ..Attributes::default() }
    }
}

/// The answer. RBAC never denies: "not allowed" means that no rule was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
}

/// The 403 for a user who may not, in upstream's words. `reason` is the decision's, often empty.
pub fn forbidden(user: &UserInfo, wanted: &Attributes<'_>, reason: &str) -> Status {
    // Text that looks like HTML must not survive into a browser.
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
    fn refusals_use_upstreams_words() {
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
