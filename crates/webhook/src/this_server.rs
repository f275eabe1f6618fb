//! Webhooks behind this server itself: an aggregated API server that serves its webhook as a resource is reached through
//! `default/kubernetes:443`, whoever answers there.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

use crate::config::Target;

/// The way to what this server passes on, in its own name.
pub trait ThisServer: Send + Sync {
    /// Posts JSON to a path with its query. An answer that is longer than `max_bytes` is an error; errors are in Go's words.
    fn post<'a>(
        &'a self,
        path: &'a str,
        body: Bytes,
        timeout: Duration,
        max_bytes: usize,
    ) -> Pin<Box<dyn Future<Output = Result<OwnAnswer, String>> + Send + 'a>>;
}

pub struct OwnAnswer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
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
