//! Under which series a request is counted, and as what.

use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, Resource, Verbs};
use flowcontrol::Classified;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use tokio::time::Instant;

use crate::api::Api;
use crate::body::Body;
use crate::chain::RequestHead;
use crate::metrics::{DryRun, Extent, Route, Verb};
use crate::request_info::{Query, RequestInfo, RequestTarget};
use crate::respond::Answer;

/// What the chain learns about a request for whoever counts it.
#[derive(Default)]
pub(crate) struct RequestRecord {
    pub outcome: Outcome,
    /// For seats, and for webhooks.
    pub waited: Duration,
    /// Once its user is known.
    pub classified: Option<Classified>,
    /// About its credentials.
    pub warning: Option<&'static str>,
}

/// How far a request came.
#[derive(Clone, Copy, Default)]
pub(crate) enum Outcome {
    /// Not authenticated, or not allowed.
    #[default]
    Refused,
    /// Too many requests.
    Dropped,
    TimedOut,
    Served,
}

/// A request that is counted as upstream does: if it reached its verb, or was dropped for lack of capacity. One whose client does not
/// wait for the answer counts as one that timed out.
pub(crate) struct CountedRequest<'a> {
    api: &'a Api,
    head: RequestHead<'a>,
    begun: Instant,
    pub record: RequestRecord,
    answered: bool,
}

impl<'a> CountedRequest<'a> {
    pub fn new(api: &'a Api, head: RequestHead<'a>, begun: Instant) -> CountedRequest<'a> {
        CountedRequest { api, head, begun, record: RequestRecord::default(), answered: false }
    }

    pub fn answered(mut self, answer: &mut Answer) {
        self.answered = true;
        let code = answer.status().as_u16();
        let Some(route) = self.verb_reached(code) else { return };
        let reads = route.is_read();
        match answer.body_mut() {
            // Counted when it ends.
            Body::Watch(_) | Body::Proxied(_) => return,
            _ if code == 101 => return,
            Body::Whole(bytes) if reads => route.sent(bytes.as_ref().map_or(0, |b| b.len()) as u64),
            Body::List(list) if reads => list.count_size(self.api.metrics.response_size(route.clone())),
            Body::Whole(_) | Body::List(_) => {}
        }
        self.took(&route, code);
    }

    /// Its route, if a verb of it was reached; counts what was cut short.
    fn verb_reached(&self, code: u16) -> Option<Route> {
        let CountedRequest { api, head, record, .. } = self;
        let routes = api.metrics.routes();
        let route = match head.target {
            RequestTarget::Resource(info) => route(api, head.catalog, info, &head.parts.headers),
            RequestTarget::NonResource => Some(routes.of_path(head.parts.uri.path())),
        }?;
        match record.outcome {
            Outcome::Refused => return None,
            Outcome::Dropped => {
                route.dropped(dry_run(head.query), code);
                route.terminated(code);
                return None;
            }
            Outcome::TimedOut => route.terminated(code),
            Outcome::Served => {}
        }
        (!routes.is_other(&route)).then_some(route)
    }

    fn took(&self, route: &Route, code: u16) {
        let took = self.api.registry.env().monotonic() - self.begun;
        route.answered(dry_run(self.head.query), code, took, self.record.waited);
    }
}

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        let is_over = self.answered || self.head.is_long_running() || std::thread::panicking();
        if is_over || !matches!(self.record.outcome, Outcome::Served) {
            return;
        }
        self.record.outcome = Outcome::TimedOut;
        if let Some(route) = self.verb_reached(504) {
            self.took(&route, 504);
        }
    }
}

/// Where a request is counted; `None` if no route of the API leads to it.
pub(crate) fn route(
    api: &Api,
    catalog: &Catalog,
    info: &RequestInfo<'_>,
    headers: &HeaderMap,
) -> Option<Route> {
    let (resource, verb, extent) = labels(catalog, info, headers)?;
    Some(api.metrics.routes().of(resource, &info.subresource, verb, extent))
}

fn labels<'c>(
    catalog: &'c Catalog,
    info: &RequestInfo<'_>,
    headers: &HeaderMap,
) -> Option<(&'c Arc<Resource>, Verb, Extent)> {
    let resource = info.find(catalog)?;
    let allowed = match &*info.subresource {
        "" => resource.verbs,
        name => resource.subresource(name)?.verbs,
    };
    let bit = info.verb_bit().filter(|verb| allowed.contains(*verb))?;
    let applies = || headers.get(CONTENT_TYPE).is_some_and(|t| t == "application/apply-patch+yaml");
    let verb = match bit {
        _ if info.is_connect() => Verb::Connect,
        Verbs::GET => Verb::Get,
        Verbs::LIST => Verb::List,
        Verbs::WATCH => Verb::Watch,
        Verbs::CREATE => Verb::Post,
        Verbs::UPDATE => Verb::Put,
        Verbs::PATCH if applies() => Verb::Apply,
        Verbs::PATCH => Verb::Patch,
        _ => Verb::Delete,
    };
    let extent = if !info.name.is_empty() || bit == Verbs::CREATE {
        Extent::Resource
    } else if !info.namespace.is_empty() {
        Extent::Namespace
    } else {
        Extent::Cluster
    };
    Some((resource, verb, extent))
}

fn dry_run(query: &Query<'_>) -> DryRun {
    let mut values = query.all("dryRun").peekable();
    if values.peek().is_none() {
        DryRun::No
    } else if values.all(|value| value == "All") {
        DryRun::All
    } else {
        DryRun::Invalid
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn labels_of(method: &str, path: &str, content_type: &'static str) -> Option<(Verb, Extent)> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let target = RequestTarget::parse(&method.parse().unwrap(), path, &Query::parse(Some(query)));
        let RequestTarget::Resource(info) = target else { panic!("{path} is no resource") };
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        labels(&Catalog::builtin(), &info, &headers).map(|(_, verb, extent)| (verb, extent))
    }

    #[test]
    fn requests_are_counted_by_verb_and_scope() {
        const POD: &str = "/api/v1/namespaces/a/pods/b";
        let cases = [
            ("GET", "/api/v1/pods", Verb::List, Extent::Cluster),
            ("GET", "/api/v1/namespaces/a/pods", Verb::List, Extent::Namespace),
            ("GET", "/api/v1/pods?watch=true", Verb::Watch, Extent::Cluster),
            ("GET", POD, Verb::Get, Extent::Resource),
            ("POST", "/api/v1/namespaces/a/pods", Verb::Post, Extent::Resource),
            ("PUT", "/api/v1/namespaces/a/pods/b/status", Verb::Put, Extent::Resource),
            ("PATCH", POD, Verb::Patch, Extent::Resource),
            ("DELETE", POD, Verb::Delete, Extent::Resource),
            ("DELETE", "/api/v1/namespaces/a/pods", Verb::Delete, Extent::Namespace),
            ("GET", "/api/v1/namespaces/a/pods/b/log", Verb::Connect, Extent::Resource),
            ("POST", "/api/v1/namespaces/a/pods/b/exec", Verb::Connect, Extent::Resource),
        ];
        for (method, path, verb, extent) in cases {
            assert_eq!(labels_of(method, path, "application/json"), Some((verb, extent)), "{method} {path}");
        }
        let applied = labels_of("PATCH", POD, "application/apply-patch+yaml");
        assert_eq!(applied, Some((Verb::Apply, Extent::Resource)));
    }

    #[test]
    fn requests_without_a_route_are_not_counted() {
        let cases = [
            ("GET", "/api/v1/nothings"),
            ("GET", "/api/v2/pods"),
            ("GET", "/api/v1/namespaces/a/pods/b/nothing"),
            ("PUT", "/api/v1/namespaces/a/pods/b/log"),
            ("GET", "/api/v1/namespaces/a/nodes"),
        ];
        for (method, path) in cases {
            assert_eq!(labels_of(method, path, "application/json"), None, "{method} {path}");
        }
    }

    #[test]
    fn dry_run_is_all_or_invalid_or_absent() {
        let cases = [
            ("", DryRun::No),
            ("dryRun=All", DryRun::All),
            ("dryRun=All&dryRun=All", DryRun::All),
            ("dryRun=", DryRun::Invalid),
            ("dryRun=All&dryRun=Some", DryRun::Invalid),
        ];
        for (query, label) in cases {
            assert_eq!(dry_run(&Query::parse(Some(query))), label, "{query}");
        }
    }
}
