//! Paths that are no resource: health, metrics, OpenAPI, OpenID, debugging, version and discovery.

use http::request::Parts;
use object::Status;

use crate::api::Api;
use crate::flow_control;
use crate::gzip::{self, DOCUMENT_FROM};
use crate::negotiate::weighs_gzip;
use crate::request_info::Query;
use crate::respond::{self, Answer};
use crate::{debug_controllers, discovery, metrics, openapi_endpoints, openid};

/// Found by the exact path; only below the roots of the API a slash at the end changes nothing.
pub(crate) async fn serve(api: &Api, parts: &Parts, query: &Query<'_>) -> Result<Answer, Status> {
    let path = parts.uri.path();
    if path.is_empty() {
        // `CONNECT host:port`
        return Ok(respond::page_not_found());
    }
    if let Some(answer) = api.health.serve(api, path, query) {
        return Ok(answer);
    }
    if let Some(answer) = openapi_endpoints::serve(api, path, &parts.headers, query).await {
        return Ok(answer);
    }
    if let Some(answer) = openid::serve(api, path.trim_end_matches('/'), &parts.method) {
        return answer;
    }
    match path {
        "/metrics" => Ok(metrics_page(parts, all_metrics(api))),
        "/metrics/slis" => Ok(metrics_page(parts, sli_metrics(api))),
        "/debug/controllers" => {
            let controllers = match api.controller_status() {
                Some(status) => status.controllers(),
                None => api.own_controllers.to_value(&|_| None),
            };
            debug_controllers::serve(&controllers, &parts.headers, query)
        }
        "/debug/admission" => api.admission_log.serve(query),
        path if path.starts_with("/debug/api_priority_and_fairness/") => {
            Ok(flow_control::serve(api, path, query).unwrap_or_else(respond::page_not_found))
        }
        path => match path.trim_end_matches('/') {
            "/version" => discovery::version(&parts.method),
            path => discovery::serve(api, path, parts, query),
        },
    }
}

fn all_metrics(api: &Api) -> String {
    let mut text = String::with_capacity(64 * 1024);
    api.flow.write_metrics(&mut text);
    api.metrics.write(&mut text, api.registry.table(), &api.store, api.started);
    api.conversion.metrics.write(&mut text);
    api.registry.meter().write(&mut text);
    api.aggregation.metrics.write(&mut text);
    api.admission_log.write_metrics(&mut text);
    match api.controller_status() {
        Some(status) => status.metrics(&mut text),
        None => api.own_controllers.render_metrics(&mut text),
    }
    text
}

fn sli_metrics(api: &Api) -> String {
    let mut text = String::new();
    api.health.write(&mut text);
    metrics::process(&mut text, api.started);
    text
}

fn metrics_page(parts: &Parts, text: String) -> Answer {
    let answer = respond::answer(200, "text/plain; version=0.0.4; charset=utf-8", text.into_bytes().into());
    gzip::compress(answer, DOCUMENT_FROM, weighs_gzip(&parts.headers))
}
