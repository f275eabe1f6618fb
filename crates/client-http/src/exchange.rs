//! How calls get to a server and back: over sockets of the client's own, or however a process reaches it already.

use std::any::Any;

use bytes::Bytes;
use client::Answer;
use http::{HeaderMap, Method};
use hyper::body::Incoming;

/// A request without its server and credentials.
pub struct ApiRequest {
    pub method: Method,
    /// With its query.
    pub path: String,
    /// Empty: no body.
    pub content_type: &'static str,
    pub body: Bytes,
    pub accept: &'static str,
}

/// The body of an answer that goes on.
pub struct OpenAnswer {
    pub body: Incoming,
    /// Pings tell whether the other side lives; otherwise nothing but what it sends does.
    pub pinged: bool,
    /// Keeps the connection for as long as the body is read.
    pub connection: Box<dyn Any + Send>,
}

/// A way to a server.
pub trait Exchange: Send + Sync {
    /// The whole body of a good answer; everything else is a refusal. `identity`: the headers that say whom to act as.
    fn call<'a>(&'a self, identity: &'a HeaderMap, request: ApiRequest) -> Answer<'a, Bytes>;
    /// The same for an answer that goes on.
    fn open<'a>(&'a self, identity: &'a HeaderMap, request: ApiRequest) -> Answer<'a, OpenAnswer>;
}
