//! What a request is about, from its method, path and query.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::{Catalog, Resource, Verbs};
use percent_encoding::percent_decode_str;

/// The parts of an API path. Borrowed from the request where it needed no decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo<'a> {
    pub verb: &'static str,
    pub group: Cow<'a, str>,
    pub version: Cow<'a, str>,
    pub namespace: Cow<'a, str>,
    pub resource: Cow<'a, str>,
    pub subresource: Cow<'a, str>,
    pub name: Cow<'a, str>,
    /// `/api/v1/watch/...`: the deprecated form of a watch.
    pub legacy_watch: bool,
    /// The path leads into a namespace; a Namespace itself is authorised in one without lying in it.
    pub in_namespace: bool,
}

/// What a path leads to: a resource below /api or /apis, or anything else.
pub enum RequestTarget<'a> {
    Resource(RequestInfo<'a>),
    NonResource,
}

/// The query's pairs, decoded.
#[derive(Default)]
pub struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    pub fn parse(text: Option<&'a str>) -> Query<'a> {
        let mut pairs = Vec::new();
        // As Go reads a query: a pair that is none (`;`, half an escape) is left out, the others count.
        for pair in text.unwrap_or("").split('&').filter(|p| !p.is_empty() && !p.contains(';')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if is_escaped(name) && is_escaped(value) {
                pairs.push((decode(name), decode(value)));
            }
        }
        Query { pairs }
    }
    /// The first value of that name; empty when absent.
    pub fn get(&self, name: &str) -> &str {
        self.find(name).unwrap_or("")
    }
    pub fn find(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_ref())
    }
    pub fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s str> {
        self.pairs.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_ref())
    }
    /// Upstream's reading of a boolean parameter: present and not "0" or "false".
    pub fn flag(&self, name: &str) -> bool {
        self.find(name).is_some_and(|v| !matches!(v.to_ascii_lowercase().as_str(), "0" | "false"))
    }
}

/// Every `%` is followed by two hexadecimal digits.
fn is_escaped(text: &str) -> bool {
    let digits = |rest: &[u8]| rest.len() >= 2 && rest[..2].iter().all(u8::is_ascii_hexdigit);
    text.as_bytes().split(|b| *b == b'%').skip(1).all(digits)
}

fn decode(text: &str) -> Cow<'_, str> {
    if !text.as_bytes().iter().any(|b| matches!(b, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let spaced = text.replace('+', " ");
    Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

impl<'a> RequestTarget<'a> {
    /// Splits a path; the verb depends on the method and on whether the query asks for a watch.
    pub fn parse(method: &http::Method, path: &'a str, query: &Query<'_>) -> RequestTarget<'a> {
        // Upstream routes on the decoded path, so `%2f` separates like `/`.
        if !path.contains('%') {
            return split(method, path, query, Cow::Borrowed);
        }
        let path = percent_decode_str(path).decode_utf8_lossy();
        split(method, &path, query, |part| Cow::Owned(part.to_owned()))
    }
}

/// A request that may change something; upstream counts these apart.
pub fn is_mutating(method: &http::Method) -> bool {
    !matches!(method.as_str(), "GET" | "HEAD")
}

fn split<'p, 'a>(
    method: &http::Method,
    path: &'p str,
    query: &Query<'_>,
    keep: impl Fn(&'p str) -> Cow<'a, str>,
) -> RequestTarget<'a> {
    // No path of the API has more parts; what a proxy passes on behind that is its own business. Empty ones count, as
    // upstream counts them: they shift what follows.
    let mut parts = [""; 12];
    let mut count = 0;
    let inner = path.trim_matches('/');
    for part in inner.split('/').take(parts.len()).filter(|_| !inner.is_empty()) {
        parts[count] = part;
        count += 1;
    }
    let (group, mut version, mut parts) = match &parts[..count] {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return RequestTarget::NonResource,
    };
    let legacy_watch = parts.first() == Some(&"watch");
    if legacy_watch {
        parts = &parts[1..];
    }
    if parts.is_empty() {
        return RequestTarget::NonResource;
    }
    // `namespaces/x/pods` is inside x; `namespaces`, `namespaces/x` and its subresources are the resource itself.
    let in_namespace =
        matches!(parts, ["namespaces", _, third, ..] if !matches!(*third, "status" | "finalize"));
    let mut namespace = "";
    if in_namespace {
        namespace = parts[1];
        parts = &parts[2..];
    }
    let part = |at: usize| parts.get(at).copied().unwrap_or("");
    let (resource, name, subresource) = (part(0), part(1), part(2));
    // What no route leads to is still asked for by the right to what it names: in no version, so nobody finds it.
    // Anything deeper belongs to proxies, which keep their own path.
    let routed = !path.starts_with("//")
        && (parts.len() <= 3 || subresource == "proxy")
        && (parts.len() == 1 || !name.is_empty())
        && (parts.len() <= 2 || !subresource.is_empty());
    if !routed {
        version = "";
    }
    let verb = match (method.as_str(), name.is_empty()) {
        // Whatever the method: that is the right asked for, and only GET is served there.
        _ if legacy_watch => "watch",
        ("GET" | "HEAD", true) if query.flag("watch") => "watch",
        ("GET" | "HEAD", true) => "list",
        ("GET" | "HEAD", false) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "deletecollection",
        ("DELETE", false) => "delete",
        _ => "",
    };
    // A resource in its own namespace: upstream authorises access to a Namespace object there.
    let namespace = if resource == "namespaces" && !in_namespace { name } else { namespace };
    RequestTarget::Resource(RequestInfo {
        verb,
        group: keep(group),
        version: keep(version),
        namespace: keep(namespace),
        resource: keep(resource),
        subresource: keep(subresource),
        name: keep(name),
        legacy_watch,
        in_namespace,
    })
}

impl RequestInfo<'_> {
    /// The catalogue's row, when path and scope fit it.
    pub fn find<'c>(&self, catalog: &'c Catalog) -> Option<&'c Arc<Resource>> {
        let resource = catalog.find(&self.group, &self.version, &self.resource)?;
        let exists = match (resource.namespaced, self.in_namespace) {
            // What lies in no namespace is not found in one: rights there must not reach it.
            (scoped, in_namespace) if scoped == in_namespace => true,
            // Of what lies in namespaces only lists go across all of them.
            (true, false) => self.name.is_empty() && resource.verbs.contains(Verbs::LIST),
            _ => false,
        };
        exists.then_some(resource)
    }

    /// One of the subresources that reach into a pod, node or service: upstream's CONNECT.
    pub fn is_connect(&self) -> bool {
        matches!(&*self.subresource, "log" | "exec" | "attach" | "portforward" | "proxy")
    }

    /// The verb as the catalogue counts it.
    pub fn verb_bit(&self) -> Option<Verbs> {
        Verbs::parse(self.verb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &str, path: &'static str) -> Option<RequestInfo<'static>> {
        let (path, query) = path.split_once('?').map_or((path, None), |(p, q)| (p, Some(q)));
        match RequestTarget::parse(&method.parse().unwrap(), path, &Query::parse(query)) {
            RequestTarget::Resource(info) => Some(info),
            RequestTarget::NonResource => None,
        }
    }

    #[test]
    fn paths_become_attributes() {
        let cases = [
            ("GET", "/api/v1/pods", "list", "", "pods", "", ""),
            ("GET", "/api/v1/namespaces/a/pods?watch=1", "watch", "a", "pods", "", ""),
            ("GET", "/api/v1/watch/namespaces/a/pods", "watch", "a", "pods", "", ""),
            ("GET", "/api/v1/namespaces/a/pods/b/log", "get", "a", "pods", "b", "log"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update", "a", "namespaces", "a", "finalize"),
            ("GET", "/api/v1/namespaces/a", "get", "a", "namespaces", "a", ""),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/a/deployments",
                "deletecollection",
                "a",
                "deployments",
                "",
                "",
            ),
            ("GET", "/api/v1/namespaces/a/pods/%2e%2e", "get", "a", "pods", "..", ""),
            ("GET", "/api/v1/namespaces/a/pods/x%2fy", "get", "a", "pods", "x", "y"),
            ("GET", "/api/v1/namespaces//pods", "list", "", "pods", "", ""),
            ("GET", "/api/v1/namespaces/a/pods/b/../../secrets", "get", "a", "pods", "b", ".."),
            ("GET", "//api//v1//namespaces", "list", "", "v1", "", "namespaces"),
        ];
        for (method, path, verb, namespace, resource, name, subresource) in cases {
            let i = info(method, path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(
                (i.verb, &*i.namespace, &*i.resource, &*i.name, &*i.subresource),
                (verb, namespace, resource, name, subresource),
                "{path}"
            );
        }
        let unrouted =
            ["/api//v1/namespaces", "/api/v1//namespaces", "//api/v1/namespaces", "/api/v1/pods//log"];
        for path in unrouted {
            assert!(info("GET", path).is_some_and(|i| i.find(&Catalog::builtin()).is_none()), "{path}");
        }
        assert!(info("GET", "/api/v1/namespaces/a/pods/").is_some_and(|i| i.version == "v1"));
        assert!(info("GET", "/apis/apps/v1").is_none());
        assert!(info("GET", "/healthz").is_none());
    }
}
