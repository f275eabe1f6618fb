//! Requests of this process's own clients to other servers: metrics for autoscaling, the content of namespaces.

use std::sync::Arc;
use std::time::Duration;

use auth::{Attributes, UserInfo};
use catalog::Verbs;
use client::{Aggregated, AggregatedResource, Gvr};
use codec::json;
use http::Method;
use object::{Status, Value};

use super::backend::OwnRequest;
use super::routes::ApiService;
use crate::api::Api;
use crate::request_info::{Query, RequestTarget};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A GET or DELETE in the name of a user who is known already.
pub(crate) async fn raw(
    api: &Arc<Api>,
    user: &UserInfo,
    method: Method,
    path: &str,
    service: &ApiService,
) -> Result<Value, Status> {
    let (route, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let query = Query::parse(query);
    let RequestTarget::Resource(info) = RequestTarget::parse(&method, route, &query) else {
        return Err(Status::no_such_resource());
    };
    let attributes = Attributes {
        verb: info.verb,
        group: &info.group,
        resource: &info.resource,
        subresource: &info.subresource,
        name: &info.name,
        namespace: &info.namespace,
        ..Attributes::default()
    };
    api.authorizer.check(user, &attributes)?;
    // As client-go says it of an answer with this code and no Status.
    let unable = || Status::unavailable("the server is currently unable to handle the request");
    let Some(remote) = service.remote.as_ref().filter(|remote| remote.available) else {
        return Err(unable());
    };
    let request = OwnRequest { method, timeout: TIMEOUT, ..OwnRequest::get(path, "application/json", user) };
    let answer = request.send(api, remote).await.map_err(|why| {
        tracing::debug!(service = service.name, why, "an aggregated server did not answer");
        unable()
    })?;
    if !answer.status.is_success() {
        return Err(client_http::status_of_answer(answer.status.as_u16(), &answer.body));
    }
    json::parse(&answer.body, None).map_err(|error| Status::unknown(error.to_string()))
}

/// What other servers said they serve.
pub(crate) fn aggregated(api: &Api) -> Aggregated {
    let routes = api.aggregation.routes();
    let mut all = Aggregated::default();
    if !routes.has_remotes() {
        return all;
    }
    let discovered = api.aggregation.documents.discovered();
    for service in routes.remotes() {
        let Some(known) = discovered.get(&service.name).filter(|known| known.current) else {
            all.stale.push(format!("{}/{}", service.group, service.version));
            continue;
        };
        for resource in &known.resources {
            let verbs = resource.get("verbs").and_then(Value::as_list).unwrap_or_default();
            let verbs = verbs.iter().filter_map(|verb| Verbs::parse(verb.as_str()?));
            all.resources.push(AggregatedResource {
                resource: Gvr {
                    group: service.group.clone().into(),
                    version: service.version.clone().into(),
                    plural: resource.str_at(&["resource"]).unwrap_or("").to_owned().into(),
                },
                namespaced: resource.str_at(&["scope"]) == Some("Namespaced"),
                verbs: verbs.fold(Verbs::default(), |all, verb| all | verb),
            });
        }
    }
    all
}
