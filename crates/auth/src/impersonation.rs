//! Impersonation: a request with `Impersonate-*` headers, and the authorization checks it needs.
//!
//! ```text
//! headers ─ requested ─ target user ─ modes ─ for each: checks, resulting user ─ first whose checks all pass
//! ```
//! The constrained modes come first (verbs `impersonate:<mode>` and `impersonate-on:<mode>:<verb>`), then the
//! legacy one (verb `impersonate`). A failure is reported by the first mode that applied.

#[cfg(test)]
mod tests;

use object::{Status, quote};

use crate::user::{service_account_groups, split_node, split_service_account};
use crate::{Attributes, Decision, UserInfo, forbidden, groups, names};

/// Whether a header (lower-case) is an impersonation header and must not be passed on.
pub fn is_impersonation_header(name: &str) -> bool {
    matches!(name, USER | GROUP | UID) || name.starts_with(EXTRA_PREFIX)
}

/// The user given by the headers (names in lower case), unchanged; `None` without any.
/// The number of groups and extras is bounded by the server's limits for headers.
pub fn requested<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Option<UserInfo>, Status> {
    let mut wanted = UserInfo::default();
    let (mut user_seen, mut uid_seen) = (false, false);
    for (name, value) in headers {
        match name {
            // The first value of a repeated header is used.
            USER if !user_seen => (wanted.name, user_seen) = (value.to_owned(), true),
            UID if !uid_seen => (wanted.uid, uid_seen) = (value.to_owned(), true),
            GROUP => wanted.groups.push(value.to_owned()),
            _ => {
                if let Some(key) = name.strip_prefix(EXTRA_PREFIX) {
                    let values = wanted.extra.entry(unescape(&key.to_ascii_lowercase())).or_default();
                    values.push(value.to_owned());
                }
            }
        }
    }
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == UserInfo::default() {
        return Ok(None);
    }
    Err(Status::bad_request(format!("requested {} without impersonating a user name", go_syntax(&wanted))))
}

/// The user a request acts as, after all checks passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonated {
    pub user: UserInfo,
    /// The verb of the constrained mode that allowed it; empty for the legacy mode. For the audit log.
    pub constraint: &'static str,
}

/// Asks `authorize` whether `requestor` may send `request` as `wanted`.
pub fn impersonate(
    wanted: &UserInfo,
    requestor: &UserInfo,
    request: &Attributes<'_>,
    authorize: &dyn Fn(&UserInfo, &Attributes<'_>) -> Decision,
) -> Result<Impersonated, Status> {
    let mut first_failure = None;
    for mode in MODES.iter().filter(|mode| mode.applies(wanted, requestor)) {
        match mode.check(wanted, requestor, request, authorize) {
            Ok(user) => return Ok(Impersonated { user, constraint: mode.constraint }),
            Err(status) => first_failure = first_failure.or(Some(status)),
        }
    }
    Err(first_failure.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
}

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";
/// From this many groups or extras on, a single wildcard check is tried first.
const MANY: usize = 4;

struct Mode {
    name: &'static str,
    /// Empty for the legacy mode.
    constraint: &'static str,
    verb: &'static str,
    kind: ModeKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ModeKind {
    /// A service account acts as the node it runs on.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

const MODES: [Mode; 5] = [
    Mode::constrained("associated-node", "impersonate:associated-node", ModeKind::AssociatedNode),
    Mode::constrained("arbitrary-node", "impersonate:arbitrary-node", ModeKind::ArbitraryNode),
    Mode::constrained("serviceaccount", "impersonate:serviceaccount", ModeKind::ServiceAccount),
    Mode::constrained("user-info", "impersonate:user-info", ModeKind::UserInfo),
    Mode { name: "", constraint: "", verb: "impersonate", kind: ModeKind::Legacy },
];

impl Mode {
    const fn constrained(name: &'static str, verb: &'static str, kind: ModeKind) -> Mode {
        Mode { name, constraint: verb, verb, kind }
    }

    fn applies(&self, wanted: &UserInfo, requestor: &UserInfo) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = split_node(&wanted.name);
        let service_account = split_service_account(&wanted.name).is_some();
        match self.kind {
            ModeKind::AssociatedNode => {
                let bound = match requestor.extra.get(names::NODE_NAME_KEY).map(Vec::as_slice) {
                    Some([one]) => Some(one.as_str()),
                    _ => None,
                };
                let agent = split_service_account(&requestor.name).is_some();
                only_name && agent && node.is_some() && node == bound
            }
            ModeKind::ArbitraryNode => only_name && node.is_some(),
            ModeKind::ServiceAccount => only_name && service_account,
            ModeKind::UserInfo => node.is_none() && !service_account,
            ModeKind::Legacy => true,
        }
    }

    /// The checks in kube-apiserver's order: the request itself, name, uid, groups, extra.
    fn check(
        &self,
        wanted: &UserInfo,
        requestor: &UserInfo,
        request: &Attributes<'_>,
        authorize: &dyn Fn(&UserInfo, &Attributes<'_>) -> Decision,
    ) -> Result<UserInfo, Status> {
        let ask = |attributes: &Attributes<'_>| {
            let decision = authorize(requestor, attributes);
            if decision.allowed { Ok(()) } else { Err(forbidden(requestor, attributes, &decision.reason)) }
        };
        let constrained = self.kind != ModeKind::Legacy;
        if constrained {
            let verb = format!("impersonate-on:{}:{}", self.name, request.verb);
            ask(&Attributes { verb: &verb, ..*request })?;
        }
        let who_group = if constrained { AUTHENTICATION } else { "" };
        let about = |group, resource, name| Attributes {
            verb: self.verb,
            group,
            resource,
            name,
            ..Attributes::default()
        };

        let mut user = wanted.clone();
        let mut name = about(who_group, "users", wanted.name.as_str());
        if let (true, Some(node)) = (constrained, split_node(&wanted.name)) {
            (name.resource, name.name) = ("nodes", node);
            // The permission must cover every node: a service account runs on many.
            if self.kind == ModeKind::AssociatedNode {
                name.name = "*";
            }
            user.groups = vec![groups::NODES.to_owned()];
        }
        if let Some((namespace, account)) = split_service_account(&wanted.name) {
            (name.resource, name.namespace, name.name) = ("serviceaccounts", namespace, account);
            if wanted.groups.is_empty() {
                user.groups = service_account_groups(namespace);
            }
        }
        ask(&name)?;
        if !wanted.uid.is_empty() {
            ask(&about(AUTHENTICATION, "uids", &wanted.uid))?;
        }
        self.check_groups(wanted, requestor, &|group| about(who_group, "groups", group), &ask)?;
        self.check_extra(wanted, requestor, &ask)?;

        let (must, unless) = match user.name.as_str() {
            names::ANONYMOUS => (groups::UNAUTHENTICATED, groups::UNAUTHENTICATED),
            _ => (groups::AUTHENTICATED, groups::UNAUTHENTICATED),
        };
        if !user.is_in(must) && !user.is_in(unless) {
            user.groups.push(must.to_owned());
        }
        Ok(user)
    }

    fn check_groups<'a>(
        &self,
        wanted: &'a UserInfo,
        requestor: &UserInfo,
        about: &dyn Fn(&'a str) -> Attributes<'a>,
        ask: &dyn Fn(&Attributes<'_>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        if self.kind != ModeKind::Legacy {
            if wanted.is_in("") {
                let why = "impersonating the empty string group is not allowed";
                return Err(forbidden(requestor, &about(""), why));
            }
            if wanted.is_in(groups::MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(forbidden(requestor, &about(groups::MASTERS), why));
            }
            if wanted.groups.len() >= MANY && ask(&about("*")).is_ok() {
                return Ok(());
            }
        }
        wanted.groups.iter().try_for_each(|group| ask(&about(group)))
    }

    fn check_extra(
        &self,
        wanted: &UserInfo,
        requestor: &UserInfo,
        ask: &dyn Fn(&Attributes<'_>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let mut about = Attributes {
            verb: self.verb,
            group: AUTHENTICATION,
            resource: "userextras",
            ..Attributes::default()
        };
        if self.kind != ModeKind::Legacy {
            for (key, values) in &wanted.extra {
                check_extra_key(key, values).map_err(|why| forbidden(requestor, &about, &why))?;
            }
            let many = wanted.extra.values().map(Vec::len).sum::<usize>() >= MANY;
            if many && ask(&Attributes { subresource: "*", name: "*", ..about }).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in &wanted.extra {
            about.subresource = key;
            for value in values {
                ask(&Attributes { name: value, ..about })?;
            }
        }
        Ok(())
    }
}

/// Constrained modes only accept keys of the form `example.com/path`.
fn check_extra_key(key: &str, values: &[String]) -> Result<(), String> {
    if key.is_empty() {
        return Err("impersonating the empty string key in extra is not allowed".to_owned());
    }
    if let Some(why) = domain_prefixed_path_error(key) {
        return Err(format!("impersonating an invalid key in extra is not allowed: {why}"));
    }
    if values.iter().any(String::is_empty) {
        return Err("impersonating the empty string value in extra is not allowed".to_owned());
    }
    Ok(())
}

fn domain_prefixed_path_error(key: &str) -> Option<String> {
    let invalid = |value: &str, why: &str| Some(format!("extra.key: Invalid value: {}: {why}", quote(value)));
    let Some((domain, path)) =
        key.split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        return invalid(key, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    if !crate::user::is_dns_subdomain(domain) {
        return invalid(
            domain,
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        );
    }
    let in_path = |b: u8| b.is_ascii_alphanumeric() || b"/%!$&'()*+,;=:._~-".contains(&b);
    if !path.bytes().all(in_path) {
        return invalid(
            path,
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
        );
    }
    None
}

/// Unescapes `%2f` to `/` in the key of a user's extra value; an invalid escape leaves the key unchanged.
pub(crate) fn unescape(key: &str) -> String {
    let mut out = Vec::with_capacity(key.len());
    let mut bytes = key.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else { return key.to_owned() };
        out.push((high * 16 + low) as u8);
    }
    String::from_utf8(out).unwrap_or_else(|_| key.to_owned())
}

/// The target user as Go prints it, for the error about headers without a user name.
fn go_syntax(user: &UserInfo) -> String {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|i| quote(i)).collect();
        if items.is_empty() {
            "[]string(nil)".to_owned()
        } else {
            format!("[]string{{{}}}", items.join(", "))
        }
    };
    let extra: Vec<String> = user.extra.iter().map(|(k, v)| format!("{}:{}", quote(k), list(v))).collect();
    let extra = match extra.is_empty() {
        true => "map[string][]string(nil)".to_owned(),
        false => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    let (name, uid, groups) = (quote(&user.name), quote(&user.uid), list(&user.groups));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}
