//! Webhooks that another API server serves among its resources: they are called through this server, as this server.

use std::future::Future;
use std::pin::Pin;
use std::sync::Weak;
use std::time::Duration;

use auth::{UserInfo, groups, names};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use object::Status;
use webhook::{OwnAnswer, ThisServer};

use super::backend::OwnRequest;
use crate::api::Api;

/// Upstream's loopback client at the address of the Service `kubernetes`.
pub(crate) struct Loopback(pub Weak<Api>);

impl ThisServer for Loopback {
    fn post<'a>(
        &'a self,
        path: &'a str,
        body: Bytes,
        timeout: Duration,
        max_bytes: usize,
    ) -> Pin<Box<dyn Future<Output = Result<OwnAnswer, String>> + Send + 'a>> {
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
            let json = HeaderValue::from_static("application/json");
            let request = OwnRequest {
                method: Method::POST,
                headers: HeaderMap::from_iter([(CONTENT_TYPE, json)]),
                body,
                timeout,
                max_bytes,
                ..OwnRequest::get(path, "application/json, */*", &user)
            };
            let answer = request.send(&api, remote).await?;
            Ok(OwnAnswer { code: answer.status.as_u16(), headers: answer.headers, body: answer.body })
        })
    }
}

fn refusal(status: &Status) -> OwnAnswer {
    let json = HeaderValue::from_static("application/json");
    OwnAnswer {
        code: status.code,
        headers: HeaderMap::from_iter([(CONTENT_TYPE, json)]),
        body: codec::json::to_vec(&status.to_value()).into(),
    }
}
