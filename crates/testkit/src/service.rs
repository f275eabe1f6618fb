//! The API as a tower service: what a `kube::Client` takes instead of a connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use apiserver::{Api, Body, Caller, RequestBody};
use http::{Request, Response};
use http_body_util::BodyExt;
use tower_service::Service;

#[derive(Clone)]
pub struct InProcess {
    api: Arc<Api>,
    caller: Caller,
}

impl InProcess {
    pub fn new(api: Arc<Api>, caller: Caller) -> InProcess {
        InProcess { api, caller }
    }
}

impl Service<Request<kube::client::Body>> for InProcess {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let InProcess { api, caller } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await?.to_bytes();
            // The answer's body is passed on as it is: a watch streams.
            Ok(api.handle(&caller, Request::from_parts(parts, RequestBody::Whole(bytes))).await)
        })
    }
}
