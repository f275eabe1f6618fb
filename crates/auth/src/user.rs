//! A user: name, uid, groups and extra.

use std::collections::BTreeMap;

/// Well-known groups.
pub mod groups {
    /// Authorized for everything, before any authorizer is asked.
    pub const MASTERS: &str = "system:masters";
    pub const AUTHENTICATED: &str = "system:authenticated";
    pub const UNAUTHENTICATED: &str = "system:unauthenticated";
    pub const NODES: &str = "system:nodes";
    pub const MONITORING: &str = "system:monitoring";
    pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
    /// Followed by a namespace.
    pub const SERVICE_ACCOUNTS_PREFIX: &str = "system:serviceaccounts:";
}

/// Well-known users.
pub mod names {
    pub const ANONYMOUS: &str = "system:anonymous";
    pub const API_SERVER: &str = "system:apiserver";
    pub const KUBE_PROXY: &str = "system:kube-proxy";
    pub const KUBE_CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
    pub const KUBE_SCHEDULER: &str = "system:kube-scheduler";
    pub const NODE_PREFIX: &str = "system:node:";
    pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
    /// Extra key: which certificate or token proved the identity.
    pub const CREDENTIAL_ID_KEY: &str = "authentication.kubernetes.io/credential-id";
    /// Extra key: the node a service account's token is bound to.
    pub const NODE_NAME_KEY: &str = "authentication.kubernetes.io/node-name";
    pub const NODE_UID_KEY: &str = "authentication.kubernetes.io/node-uid";
    /// Extra keys: the pod a service account's token is bound to.
    pub const POD_NAME_KEY: &str = "authentication.kubernetes.io/pod-name";
    pub const POD_UID_KEY: &str = "authentication.kubernetes.io/pod-uid";
}

/// The user of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    pub fn new(name: impl Into<String>, groups: &[&str]) -> UserInfo {
        let groups = groups.iter().map(|g| (*g).to_owned()).collect();
        UserInfo { name: name.into(), groups, ..UserInfo::default() }
    }

    /// A request without credentials.
    pub fn anonymous() -> UserInfo {
        UserInfo::new(names::ANONYMOUS, &[groups::UNAUTHENTICATED])
    }

    /// A service account, with the groups of every service account.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> UserInfo {
        let mut groups = service_account_groups(namespace);
        groups.push(groups::AUTHENTICATED.to_owned());
        UserInfo {
            name: service_account_username(namespace, name),
            uid: uid.to_owned(),
            groups,
            extra: BTreeMap::new(),
        }
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Adds `system:authenticated`, as after successful authentication: not for the anonymous
    /// user, and not twice.
    pub fn authenticated(mut self) -> UserInfo {
        let known = self.is_in(groups::AUTHENTICATED) || self.is_in(groups::UNAUTHENTICATED);
        if self.name != names::ANONYMOUS && !known {
            self.groups.push(groups::AUTHENTICATED.to_owned());
        }
        self
    }
}

pub fn service_account_username(namespace: &str, name: &str) -> String {
    format!("{}{namespace}:{name}", names::SERVICE_ACCOUNT_PREFIX)
}

pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![groups::SERVICE_ACCOUNTS.to_owned(), format!("{}{namespace}", groups::SERVICE_ACCOUNTS_PREFIX)]
}

/// Namespace and name from `system:serviceaccount:namespace:name`; `None` unless both are valid names.
pub fn split_service_account(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix(names::SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (is_dns_label(namespace) && is_dns_subdomain(name)).then_some((namespace, name))
}

/// The node name from `system:node:name`.
pub fn split_node(username: &str) -> Option<&str> {
    username.strip_prefix(names::NODE_PREFIX).filter(|name| is_dns_subdomain(name))
}

fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_label_part(text)
}

/// Unlike a label, the parts of a subdomain have no length limit.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label_part)
}

fn is_label_part(part: &str) -> bool {
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = part.as_bytes();
    bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
        && bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_names_are_service_accounts() {
        assert_eq!(split_service_account("system:serviceaccount:ns:a.b"), Some(("ns", "a.b")));
        for odd in
            ["ns", "system:serviceaccount:ns", "system:serviceaccount:ns:a:b", "system:serviceaccount::a"]
        {
            assert_eq!(split_service_account(odd), None, "{odd}");
        }
        assert_eq!(split_service_account("system:serviceaccount:n.s:a"), None);
        assert_eq!(split_node("system:node:n1.example.com"), Some("n1.example.com"));
        assert_eq!(split_node("system:node:-"), None);
    }

    #[test]
    fn authenticated_is_added_once_and_never_to_the_anonymous() {
        let user = UserInfo::new("jane", &["devs"]).authenticated().authenticated();
        assert_eq!(user.groups, ["devs", groups::AUTHENTICATED]);
        assert_eq!(UserInfo::anonymous().authenticated(), UserInfo::anonymous());
    }
}
