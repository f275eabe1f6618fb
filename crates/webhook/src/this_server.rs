//! Webhooks behind this server itself: an aggregated API server that serves its webhook as a resource is reached through
//! `default/kubernetes:443`, whoever answers there.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tokio::sync::Semaphore;

use crate::config::Target;
use crate::connection::Body;

/// The way to what this server passes on, in its own name.
pub trait ThisServer: Send + Sync {
    /// Calls under way to the server behind a path, as [`places`](crate::places) makes them; None: nobody else is asked.
    fn places(&self, path: &str) -> Option<Arc<Semaphore>>;

    /// Posts JSON to a path with its query. The answer's body comes as long as it is kept. Errors are in Go's words; who calls has a
    /// limit of time, and reads no more of the body than they want.
    fn post<'a>(
        &'a self,
        path: &'a str,
        body: Bytes,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Body>, String>> + Send + 'a>>;
}

/// Upstream's names of this server.
pub(crate) fn is_meant(target: &Target) -> bool {
    match target {
        Target::Url { host, port, .. } => (&**host, *port) == ("kubernetes.default.svc", 443),
        Target::Service(service) => {
            (&*service.namespace, &*service.name, service.port) == ("default", "kubernetes", 443)
        }
    }
}
