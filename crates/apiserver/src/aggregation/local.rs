//! Requests of this process's own clients to other servers: their objects as controllers see them, metrics, the content of namespaces.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use admission::LeaderFence;
use auth::{Attributes, UserInfo};
use bytes::Bytes;
use catalog::{Verbs, compare_versions};
use client::{Aggregated, AggregatedResource, Answer, Gvr};
use client_http::{ApiRequest, Exchange, HttpClient, OpenAnswer};
use codec::json;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use object::{Status, Value};

use super::backend::OwnRequest;
use super::routes::ApiService;
use crate::api::Api;
use crate::request_info::{Query, RequestTarget, is_mutating};

const TIMEOUT: Duration = Duration::from_secs(30);
/// A page of a list, or the whole where a server knows no pages.
const MAX_ANSWER: usize = 64 << 20;
/// So much of a refusal is read.
const MAX_REFUSAL: usize = 1 << 20;

/// The way to other servers in the name of a user who is known already.
pub(crate) struct OnBehalf {
    pub api: Arc<Api>,
    pub user: Arc<UserInfo>,
    /// Other servers' stores know nothing of our leases: a write is checked before it is sent.
    pub fence: Option<Arc<LeaderFence>>,
}

impl OnBehalf {
    /// A client of the resources other servers serve.
    pub fn client(self, field_manager: &str) -> HttpClient {
        let (env, served) = (self.api.registry().env().clone(), self.api.aggregation.served.clone());
        HttpClient::through(env, served, Arc::new(self)).with_field_manager(field_manager)
    }

    /// GET or DELETE of a path.
    pub async fn raw(self, method: Method, path: &str) -> Result<Value, Status> {
        let (path, accept) = (path.to_owned(), "application/json");
        let request = ApiRequest { method, path, content_type: "", body: Bytes::new(), accept };
        let answer = self.call(&HeaderMap::new(), request).await?;
        json::parse(&answer, None).map_err(|error| Status::unknown(error.to_string()))
    }

    /// The server a path leads to, which the user may ask for it.
    fn service(&self, method: &Method, path: &str) -> Result<Arc<ApiService>, Status> {
        let (route, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let service =
            self.api.aggregation.find(self.api.registry(), route).ok_or_else(Status::no_such_resource)?;
        let query = Query::parse(query);
        let attributes = |attributes: Attributes<'_>| self.api.authorizer.check(&self.user, &attributes);
        match RequestTarget::parse(method, route, &query) {
            RequestTarget::Resource(info) => attributes(Attributes {
                verb: info.verb,
                group: &info.group,
                resource: &info.resource,
                subresource: &info.subresource,
                name: &info.name,
                namespace: &info.namespace,
                ..Attributes::default()
            })?,
            RequestTarget::NonResource => {
                attributes(Attributes { verb: "get", path: Some(route), ..Attributes::default() })?;
            }
        }
        match &self.fence {
            Some(fence) if is_mutating(method) => self.api.registry().check_fence(fence)?,
            _ => {}
        }
        Ok(service)
    }

    fn request<'a>(&'a self, request: &'a ApiRequest) -> OwnRequest<'a> {
        let mut headers = HeaderMap::new();
        if !request.content_type.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(request.content_type));
        }
        OwnRequest {
            method: request.method.clone(),
            headers,
            body: request.body.clone(),
            timeout: TIMEOUT,
            max_bytes: MAX_ANSWER,
            ..OwnRequest::get(&request.path, request.accept, &self.user)
        }
    }
}

/// As client-go says it of an answer with this code and no Status.
fn unable(service: &ApiService, why: &str) -> Status {
    tracing::debug!(service = service.name, why, "an aggregated server did not answer");
    Status::unavailable("the server is currently unable to handle the request")
}

impl Exchange for OnBehalf {
    fn call<'a>(&'a self, _: &'a HeaderMap, request: ApiRequest) -> Answer<'a, Bytes> {
        Box::pin(async move {
            let service = self.service(&request.method, &request.path)?;
            let Some(remote) = service.remote.as_ref().filter(|remote| remote.available) else {
                return Err(unable(&service, "it is not available"));
            };
            let answer = self.request(&request).send(&self.api, remote).await;
            let answer = answer.map_err(|why| unable(&service, &why))?;
            if !answer.status.is_success() {
                return Err(client_http::status_of_answer(answer.status.as_u16(), &answer.body));
            }
            Ok(answer.body)
        })
    }

    fn open<'a>(&'a self, _: &'a HeaderMap, request: ApiRequest) -> Answer<'a, OpenAnswer> {
        Box::pin(async move {
            let service = self.service(&request.method, &request.path)?;
            let Some(remote) = service.remote.as_ref().filter(|remote| remote.available) else {
                return Err(unable(&service, "it is not available"));
            };
            let answer = self.request(&request).open(&self.api, remote).await;
            let answer = answer.map_err(|why| unable(&service, &why))?;
            let code = answer.head.status;
            if !code.is_success() {
                let refusal = answer.read(&self.api, TIMEOUT, MAX_REFUSAL).await;
                let refusal = refusal.map_err(|why| unable(&service, &why))?;
                return Err(client_http::status_of_answer(code.as_u16(), &refusal));
            }
            Ok(OpenAnswer { body: answer.body, pinged: false, connection: Box::new(answer.connection) })
        })
    }
}

/// What other servers said they serve.
pub(crate) fn aggregated(api: &Api) -> Aggregated {
    let routes = api.aggregation.routes();
    let mut all = Aggregated::default();
    if !routes.has_remotes() {
        return all;
    }
    let discovered = api.aggregation.documents.discovered.load();
    let mut remotes: Vec<&Arc<ApiService>> = routes.remotes().collect();
    remotes.sort_by(|a, b| {
        let rank = |service: &ApiService| Reverse(service.priority.version);
        let by_priority = a.group.cmp(&b.group).then_with(|| rank(a).cmp(&rank(b)));
        by_priority.then_with(|| compare_versions(&b.version, &a.version))
    });
    for service in remotes {
        let Some(known) = discovered.of.get(&service.name).filter(|known| known.current) else {
            all.stale.push(format!("{}/{}", service.group, service.version));
            continue;
        };
        for resource in &known.resources {
            let verbs = resource.get("verbs").and_then(Value::as_list).unwrap_or_default();
            let verbs = verbs.iter().filter_map(|verb| Verbs::parse(verb.as_str()?));
            let text = |path: &[&str]| resource.str_at(path).unwrap_or("").to_owned();
            all.resources.push(AggregatedResource {
                resource: Gvr {
                    group: service.group.clone().into(),
                    version: service.version.clone().into(),
                    plural: text(&["resource"]).into(),
                },
                kind: text(&["responseKind", "kind"]).into(),
                namespaced: resource.str_at(&["scope"]) == Some("Namespaced"),
                verbs: verbs.fold(Verbs::default(), |all, verb| all | verb),
            });
        }
    }
    all
}
