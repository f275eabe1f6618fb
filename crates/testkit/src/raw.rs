//! Raw requests: any method, path, header and body; returns status, headers and JSON.

use std::pin::Pin;
use std::sync::Arc;

use apiserver::{Api, Body, Caller, RequestBody};
use auth::UserInfo;
use bytes::{Buf, Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, WARNING};
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::{TestCluster, admin};

/// A request builder; JSON as the administrator by default.
#[must_use = "a request does nothing before `send` or `stream`"]
pub struct Ask {
    api: Arc<Api>,
    caller: Caller,
    method: String,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub bytes: Bytes,
}

/// A streamed response: a watch.
pub struct Stream {
    pub status: u16,
    pub headers: HeaderMap,
    body: Pin<Box<Body>>,
    buffer: BytesMut,
}

impl TestCluster {
    pub fn request(&self, method: &str, path: impl Into<String>) -> Ask {
        let caller = Caller::Known(Arc::new(admin()));
        let (api, headers) = (self.api().clone(), HeaderMap::new());
        Ask { api, caller, method: method.to_owned(), path: path.into(), headers, body: Bytes::new() }
    }

    pub async fn get(&self, path: impl Into<String>) -> Reply {
        self.request("GET", path).send().await
    }
    pub async fn post(&self, path: impl Into<String>, body: Value) -> Reply {
        self.request("POST", path).json(&body).send().await
    }
    pub async fn put(&self, path: impl Into<String>, body: Value) -> Reply {
        self.request("PUT", path).json(&body).send().await
    }
    /// A merge patch.
    pub async fn merge(&self, path: impl Into<String>, body: Value) -> Reply {
        self.request("PATCH", path).typed("application/merge-patch+json", body.to_string()).send().await
    }
    pub async fn delete(&self, path: impl Into<String>) -> Reply {
        self.request("DELETE", path).send().await
    }
    /// Opens a watch; `path` carries its own query.
    pub async fn watch(&self, path: impl Into<String>) -> Stream {
        self.request("GET", path).stream().await
    }
}

impl Ask {
    pub fn header(mut self, name: &str, value: &str) -> Ask {
        let name: HeaderName = name.parse().expect("tests use valid header names");
        self.headers
            .append(name, HeaderValue::from_bytes(value.as_bytes()).expect("tests use valid header values"));
        self
    }
    pub fn accept(self, media: &str) -> Ask {
        self.header(ACCEPT.as_str(), media)
    }
    pub fn json(self, body: &Value) -> Ask {
        self.typed("application/json", body.to_string())
    }
    pub fn typed(mut self, content_type: &str, body: impl Into<Bytes>) -> Ask {
        self.headers
            .insert(CONTENT_TYPE, HeaderValue::from_str(content_type).expect("tests use valid media types"));
        self.body = body.into();
        self
    }
    pub fn by(mut self, user: UserInfo) -> Ask {
        self.caller = Caller::Known(Arc::new(user.authenticated()));
        self
    }
    /// Without a client certificate: with a token, or anonymous.
    pub fn unproven(mut self) -> Ask {
        self.caller = Caller::Unknown;
        self
    }

    pub async fn send(self) -> Reply {
        let (status, headers, body) = self.answer().await;
        let bytes = match body.collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(broken) => panic!("{broken}"),
        };
        Reply { status, headers, bytes }
    }

    pub async fn stream(self) -> Stream {
        let (status, headers, body) = self.answer().await;
        Stream { status, headers, body: Box::pin(body), buffer: BytesMut::new() }
    }

    async fn answer(self) -> (u16, HeaderMap, Body) {
        let method = Method::from_bytes(self.method.as_bytes()).expect("tests use valid methods");
        let mut request = Request::new(RequestBody::Whole(self.body));
        *request.method_mut() = method;
        *request.uri_mut() = self.path.parse().unwrap_or_else(|e| panic!("{}: {e}", self.path));
        *request.headers_mut() = self.headers;
        // Boxed: a test that asks a hundred times would hold the future of a request a hundred times, on its stack.
        let (parts, body) = Box::pin(self.api.handle(&self.caller, request)).await.into_parts();
        (parts.status.as_u16(), parts.headers, body)
    }
}

impl Reply {
    /// The body as JSON; other text becomes a JSON string.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| Value::String(self.text()))
    }
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
    pub fn content_type(&self) -> &str {
        self.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("")
    }
    pub fn warnings(&self) -> Vec<String> {
        self.headers
            .get_all(WARNING)
            .iter()
            .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
            .collect()
    }
    /// Panics with the complete response unless the status is this one; returns the JSON.
    #[track_caller]
    pub fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }
    /// `metadata.resourceVersion` of the response.
    #[track_caller]
    pub fn version(&self) -> String {
        match self.json().pointer("/metadata/resourceVersion") {
            Some(Value::String(version)) => version.clone(),
            _ => panic!("no resourceVersion in {}", self.text()),
        }
    }
}

impl Stream {
    /// The next event; `None` when the server ended the stream.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line = self.buffer.split_to(end);
                self.buffer.advance(1);
                return Some(serde_json::from_slice(&line).unwrap_or_else(|e| panic!("{e}: {line:?}")));
            }
            self.more().await?;
        }
    }

    /// The next frame of a watch in protobuf, behind its length; `None` when the server ended the stream.
    pub async fn next_frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(length) = self.buffer.first_chunk::<4>() {
                let length = u32::from_be_bytes(*length) as usize;
                if self.buffer.len() >= 4 + length {
                    self.buffer.advance(4);
                    return Some(self.buffer.split_to(length).freeze());
                }
            }
            self.more().await?;
        }
    }

    /// The next bytes, however they are cut; `None` at the end.
    pub async fn next_bytes(&mut self) -> Option<Bytes> {
        match self.body.frame().await? {
            Ok(frame) => Some(frame.into_data().unwrap_or_default()),
            Err(broken) => panic!("{broken}"),
        }
    }

    /// Waits for more bytes; `None` when the server ended the stream, which it must not do inside an event.
    async fn more(&mut self) -> Option<()> {
        match self.body.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.buffer.extend_from_slice(&data);
                }
                Some(())
            }
            Some(Err(broken)) => panic!("{broken}"),
            None => {
                assert!(self.buffer.is_empty(), "the stream ended inside an event: {:?}", self.buffer);
                None
            }
        }
    }

    /// Everything until the server ends the stream.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}
