//! Webhooks that another API server serves among its resources: they are called through this server, as this server.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use auth::{UserInfo, groups, names};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use object::Status;
use tokio::sync::Semaphore;
use webhook::ThisServer;
use webhook::connection::{Body, whole};

use super::backend::OwnRequest;
use crate::api::Api;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Upstream's loopback client at the address of the Service `kubernetes`.
pub(crate) struct Loopback(pub Weak<Api>);

impl ThisServer for Loopback {
    fn places(&self, path: &str) -> Option<Arc<Semaphore>> {
        let api = self.0.upgrade()?;
        let service = api.aggregation.find(api.registry(), path)?;
        let remote = service.remote.as_ref().filter(|remote| remote.available)?;
        Some(remote.webhook_calls.clone())
    }

    fn post<'a>(
        &'a self,
        path: &'a str,
        body: Bytes,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Body>, String>> + Send + 'a>> {
        Box::pin(async move {
            let api = self.0.upgrade().ok_or("context canceled")?;
            let route = path.split_once('?').map_or(path, |(route, _)| route);
            // What this server serves itself is no webhook.
            let Some(service) = api.aggregation.find(api.registry(), route) else {
                return Ok(refusal(&Status::no_such_resource()));
            };
            let Some(remote) = service.remote.as_ref().filter(|remote| remote.available) else {
                return Ok(refusal(&Status::unavailable("service unavailable")));
            };
            let user = UserInfo::new(names::API_SERVER, &[groups::MASTERS, groups::AUTHENTICATED]);
            let request = OwnRequest {
                method: Method::POST,
                headers: HeaderMap::from_iter([(CONTENT_TYPE, JSON)]),
                body,
                ..OwnRequest::get(path, "application/json, */*", &user)
            };
            // Who calls has the limits: of time, and of what is read.
            Ok(request.begin(&api, remote).await?.into_response())
        })
    }
}

fn refusal(status: &Status) -> Response<Body> {
    let mut response = Response::new(whole(codec::json::to_vec(&status.to_value()).into()));
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}
