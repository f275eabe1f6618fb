//! The registry's verbs over HTTP: which handler serves which subresource and verb.
//!
//! ```text
//!  serve (is there such a resource?) > check (does the path allow the verb?) > dispatch > a handler of verbs/*.rs
//!  a handler: input.rs (form, options, body) > registry > output.rs (an object, a list, a Status)
//! ```

mod delete;
mod input;
mod lists;
mod objects;
mod options;
mod output;
mod patch;
mod pod_actions;
mod review;
mod scale;
mod token;
mod watch;

use std::pin::pin;
use std::sync::Arc;

use catalog::{Catalog, Resource, Subresource, Verbs};
use http::Method;
use http::header::USER_AGENT;
use http::request::Parts;
use object::{About, Details, Status, WriteOptions};
use registry::RequestContext;

use crate::api::Api;
use crate::body::RequestBody;
use crate::connect::Connect;
use crate::deadline;
use crate::debug_admission::End;
use crate::flow_control::AuthorizedRequest;
use crate::negotiate::{Offer, negotiate_error};
use crate::request_info::{Query, RequestInfo};
use crate::respond::{self, Answer};
use crate::serve_connection::AUDIT_ID;
use crate::{chain, component_statuses, resource_metrics};

pub(crate) use options::{include, list_options};
pub(crate) use review::answer_review;
pub(crate) use token::issue_token;

pub async fn serve(
    authorized: &AuthorizedRequest<'_>,
    body: RequestBody,
    info: &RequestInfo<'_>,
) -> Result<Answer, Status> {
    let AuthorizedRequest { parts, query, catalog, .. } = authorized;
    let Some(resource) = info.find(catalog) else { return missing(catalog, info) };
    let across = matches!(info.verb_bit(), Some(Verbs::LIST | Verbs::WATCH));
    if resource.custom && resource.namespaced && !info.in_namespace && !across {
        return Ok(respond::page_not_found());
    }
    let answer = serve_resource(authorized, body, info, resource).await;
    let known =
        resource.custom || info.subresource.is_empty() || resource.subresource(&info.subresource).is_some();
    let Some(deprecation) = resource.deprecation.as_ref().filter(|_| known) else { return answer };
    if answer.as_ref().is_err_and(is_unrouted) {
        return answer;
    }
    // Refusals carry the warning too.
    let mut answer = answer.unwrap_or_else(|status| {
        let wanted = negotiate_error(&parts.headers, query);
        respond::status(catalog, &status, wanted)
    });
    respond::warn_first(&mut answer, deprecation);
    Ok(answer)
}

async fn serve_resource(
    authorized: &AuthorizedRequest<'_>,
    body: RequestBody,
    info: &RequestInfo<'_>,
    resource: &Arc<Resource>,
) -> Result<Answer, Status> {
    let AuthorizedRequest { api, user, parts, query, catalog, .. } = authorized;
    let (verb, subresource) = check(info, resource, &parts.method)?;
    let env = api.registry.env();
    let longest = if info.is_connect() { deadline::MAX } else { deadline::longest(info.verb) };
    let cut = Some(env.monotonic() + longest).filter(|cut| *cut < authorized.deadline());
    let request = RequestContext {
        user,
        user_agent: parts.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or(""),
        verb,
        catalog,
        resource,
        subresource: subresource.map(|sub| sub.name.as_str()),
        namespace: if resource.namespaced { &info.namespace } else { "" },
        // One handler serves all paths of custom resources, and creates whatever the path names.
        name: if verb == Verbs::CREATE && resource.custom { "" } else { &info.name },
        options: WriteOptions::default(),
        deadline: cut.unwrap_or(authorized.deadline()),
        fence: None,
        trace: Some(&authorized.trace),
        seats: Some(authorized),
    };
    let dry_run = query.find("dryRun").is_some_and(|text| !text.is_empty());
    let options = WriteOptions { dry_run, ..request.options };
    let noted = NotedRequest { api, parts, request: RequestContext { options, ..request }, ended: false };
    let call = Call { api, parts, query, info, request, authorized };
    let answer = {
        // Dropped before the request is recorded: what was under way is told too.
        let mut work = pin!(call.dispatch(body));
        match cut {
            None => work.await,
            // What is cut off may still be committed.
            Some(cut) => {
                env.timeout_at(cut, work.as_mut()).await.unwrap_or_else(|_| Err(Status::out_of_time()))
            }
        }
    };
    noted.end(answer.as_ref().err());
    answer
}

/// Its admission is recorded when it ends, also if it is dropped before it is answered.
struct NotedRequest<'a> {
    api: &'a Api,
    parts: &'a Parts,
    request: RequestContext<'a>,
    ended: bool,
}

impl NotedRequest<'_> {
    fn end(mut self, refused: Option<&Status>) {
        self.ended = true;
        self.record(refused.into());
    }

    fn record(&self, end: End<'_>) {
        let id = self.parts.headers.get(AUDIT_ID).and_then(|id| id.to_str().ok());
        let audit_id = || id.unwrap_or_default().to_owned();
        self.api.admission_log.record(&self.request, audit_id, self.api.registry.env(), end);
    }
}

impl Drop for NotedRequest<'_> {
    fn drop(&mut self) {
        // A panic is told elsewhere.
        if self.ended || std::thread::panicking() {
            return;
        }
        match self.api.registry.env().monotonic() < self.request.deadline {
            true => self.record(End::GivenUp),
            false => self.record(End::Refused(&chain::timed_out())),
        }
    }
}

/// The verb and subresource a path asks for, if the resource has them there.
fn check<'r>(
    info: &RequestInfo<'_>,
    resource: &'r Resource,
    method: &Method,
) -> Result<(Verbs, Option<&'r Subresource>), Status> {
    let aside = !info.name.is_empty() || info.legacy_watch || resource.namespaced && !info.in_namespace;
    if resource.verbs == Verbs::CREATE && aside {
        // A review has no items and no list across namespaces: one path leads to it.
        return Err(Status::no_such_resource());
    }
    let about = About { group: &resource.group, resource: &resource.plural };
    let not_allowed = || match resource.custom {
        true => Status::not_supported(about, info.verb),
        false => Status::method_not_allowed(),
    };
    // A proxy passes on what it does not know.
    let proxies = info.subresource == "proxy" && resource.subresource("proxy").is_some();
    let any_method = proxies && matches!(*method, Method::HEAD | Method::OPTIONS);
    let verb = if any_method { Some(Verbs::GET) } else { info.verb_bit() }.ok_or_else(not_allowed)?;
    if !info.name.is_empty() {
        Status::check_key_name(&info.name)?;
    }
    let subresource = match &*info.subresource {
        "" => None,
        name => Some(resource.subresource(name).ok_or_else(|| match resource.custom {
            true => Status::not_found(about, &info.name),
            false => Status::no_such_resource(),
        })?),
    };
    let allowed = subresource.map_or(resource.verbs, |sub| sub.verbs);
    let fits_path = match verb {
        _ if any_method => true,
        _ if method == Method::HEAD || info.legacy_watch && method != Method::GET => false,
        Verbs::CREATE | Verbs::DELETE_COLLECTION if resource.namespaced && !info.in_namespace => false,
        Verbs::CREATE => info.name.is_empty() != subresource.is_some() || resource.custom,
        Verbs::UPDATE | Verbs::PATCH if info.name.is_empty() && resource.custom => {
            return Err(Status::bad_request("name must be provided"));
        }
        Verbs::UPDATE | Verbs::PATCH => !info.name.is_empty(),
        _ => true,
    };
    if !allowed.contains(verb) || !fits_path {
        return Err(not_allowed());
    }
    // `namespaces//pods`: all of them can be read, but no object can be in no namespace.
    let across = matches!(verb, Verbs::LIST | Verbs::WATCH) && info.name.is_empty();
    if resource.namespaced && info.in_namespace && info.namespace.is_empty() && !across {
        return Err(Status::bad_request("Namespace parameter required."));
    }
    Ok((verb, subresource))
}

/// A request for a verb of a resource that is served.
struct Call<'a> {
    api: &'a Arc<Api>,
    parts: &'a Parts,
    query: &'a Query<'a>,
    info: &'a RequestInfo<'a>,
    request: RequestContext<'a>,
    authorized: &'a AuthorizedRequest<'a>,
}

impl Call<'_> {
    /// The table of handlers. The catalogue has said already which verbs each resource and subresource has.
    async fn dispatch(&self, body: RequestBody) -> Result<Answer, Status> {
        let RequestContext { resource, subresource, verb, .. } = self.request;
        if resource.storage.is_none() {
            return match resource.kind.as_str() {
                "Binding" => self.bind_by_body(body).await,
                "NodeMetrics" | "PodMetrics" => {
                    resource_metrics::serve(self.api, self.parts, self.query, self.info, &self.request)
                }
                "ComponentStatus" => {
                    component_statuses::serve(self.api, self.parts, self.query, self.info, &self.request)
                        .await
                }
                _ => self.review(body).await,
            };
        }
        match (subresource, verb) {
            (None, Verbs::GET) => self.get().await,
            (None, Verbs::LIST) => self.list().await,
            (None, Verbs::WATCH) => self.watch().await,
            (None, Verbs::CREATE) => self.create(body).await,
            (None, Verbs::UPDATE) => self.update(body).await,
            (None, Verbs::PATCH) => self.patch(body).await,
            (None, Verbs::DELETE) => self.delete(body).await,
            (None, Verbs::DELETE_COLLECTION) => self.delete_collection(body).await,
            (Some("scale"), Verbs::GET) => self.get_scale().await,
            (Some("scale"), Verbs::UPDATE) => self.update_scale(body).await,
            (Some("scale"), Verbs::PATCH) => self.patch_scale(body).await,
            (Some("token"), Verbs::CREATE) => self.create_token(body).await,
            (Some("binding"), Verbs::CREATE) => self.bind(body).await,
            (Some("eviction"), Verbs::CREATE) => self.evict(body).await,
            (Some("log"), _) => {
                self.wanted(Offer::Log)?;
                self.connect(body).await
            }
            (Some("exec" | "attach" | "portforward" | "proxy"), _) => self.connect(body).await,
            // Subresources that stand for a part of the object itself.
            (Some(part), Verbs::GET) if PARTS.contains(&part) => self.get().await,
            (Some(part), Verbs::UPDATE) if PARTS.contains(&part) => self.update(body).await,
            (Some(part), Verbs::PATCH) if PARTS.contains(&part) => self.patch(body).await,
            (Some(other), _) => Err(Status::unavailable(format!(
                "the subresource {other} of {} is not served by this version of setpoint yet",
                resource.plural
            ))),
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// Into a pod, node or service.
    async fn connect(&self, body: RequestBody) -> Result<Answer, Status> {
        let Call { api, parts, query, info, ref request, authorized } = *self;
        Connect { api, user: authorized.user, parts, query, info, request, path: None }.serve(body).await
    }
}

const PARTS: [&str; 5] = ["status", "finalize", "approval", "resize", "ephemeralcontainers"];

/// Refused while upstream looks for a handler: the resource's own warnings do not belong to it.
fn is_unrouted(status: &Status) -> bool {
    matches!(status.code, 405 | 406 | 415) && status.details == Some(Details::default())
}

/// No such resource; in a group that is unknown, or of custom resources only, there is no path of the API at all.
fn missing(catalog: &Catalog, info: &RequestInfo<'_>) -> Result<Answer, Status> {
    let built_in = |resource: &Arc<Resource>| resource.group == *info.group && !resource.custom;
    let known = info.group.is_empty() || catalog.resources().iter().any(built_in);
    if known { Err(Status::no_such_resource()) } else { Ok(respond::page_not_found()) }
}
