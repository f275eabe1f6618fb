//! Which FlowSchema a request belongs to.

use auth::UserInfo;

use crate::spec::{Distinguisher, FlowSchema, NonResourceRule, ResourceRule, Rule, Subject};

/// The attributes of a request that FlowSchemas match on.
#[derive(Clone, Copy, Debug)]
pub struct RequestDigest<'a> {
    pub user: &'a UserInfo,
    pub verb: &'a str,
    /// `None` for a non-resource path.
    pub resource: Option<ResourceDigest<'a>>,
    pub path: &'a str,
}

#[derive(Clone, Copy, Debug)]
pub struct ResourceDigest<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
}

impl FlowSchema {
    pub fn matches(&self, request: &RequestDigest<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(request))
    }

    /// The flow distinguisher of a request.
    pub fn flow<'a>(&self, request: &RequestDigest<'a>) -> &'a str {
        match self.distinguisher {
            None => "",
            Some(Distinguisher::ByUser) => &request.user.name,
            Some(Distinguisher::ByNamespace) => request.resource.map_or("", |resource| resource.namespace),
        }
    }
}

impl Rule {
    fn matches(&self, request: &RequestDigest<'_>) -> bool {
        if !self.subjects.iter().any(|subject| subject.matches(request.user)) {
            return false;
        }
        match &request.resource {
            Some(resource) => self.resources.iter().any(|rule| rule.matches(request.verb, resource)),
            None => self.non_resources.iter().any(|rule| rule.matches(request.verb, request.path)),
        }
    }
}

impl Subject {
    fn matches(&self, user: &UserInfo) -> bool {
        match self {
            Subject::User(name) => name == "*" || *name == user.name,
            Subject::Group(name) => name == "*" || user.groups.iter().any(|group| group == name),
            Subject::ServiceAccount { namespace, name } => {
                let account = user.name.strip_prefix("system:serviceaccount:");
                account
                    .and_then(|account| account.split_once(':'))
                    .is_some_and(|(ns, account)| ns == namespace && (name == "*" || account == name))
            }
        }
    }
}

impl ResourceRule {
    fn matches(&self, verb: &str, asked: &ResourceDigest<'_>) -> bool {
        self.verbs.contains(verb)
            && self.resources.contains_resource(asked.resource, asked.subresource)
            && self.groups.contains(asked.group)
            && match asked.namespace {
                "" => self.cluster_scope,
                namespace => self.namespaces.contains(namespace),
            }
    }
}

impl NonResourceRule {
    fn matches(&self, verb: &str, path: &str) -> bool {
        self.verbs.contains(verb) && self.urls.iter().any(|url| is_below(url, path))
    }
}

/// A rule's URL matches itself and everything below it, with or without a trailing `*`.
fn is_below(url: &str, path: &str) -> bool {
    if url == "*" || url == path {
        return true;
    }
    let root = url.strip_suffix('*').unwrap_or(url);
    let root = root.strip_suffix('/').unwrap_or(root);
    path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
