//! CertificateSigningRequests as their controllers see them.
//!
//! ```text
//! request ─ of a kubelet that is allowed to? ─ Approved ─ valid for its signer? ─ certificate ─ old ─ deleted
//!              csrapproving, kubeletserving                 csrsigning                     csrcleaner
//! ```

pub mod signers;

use std::sync::Arc;
use std::time::Duration;

use client::resources::CERTIFICATE_SIGNING_REQUESTS;
use client::{Client, WriteOptions};
use object::{Map, Status, Value, time};
use runtime::queue::Limits;
use runtime::{Controller, Informer, InformerEvent, Key};

use crate::Context;

/// The service account of all of them.
pub const IDENTITY: &str = "certificate-controller";
pub const WORKERS: usize = 5;

/// A controller of requests that have no certificate yet; failures slow a request down as upstream's do.
pub fn controller(context: &Context, name: &'static str, requests: &Arc<Informer>) -> Controller {
    let limits = Limits { first: Duration::from_millis(200), ..Limits::default() };
    let controller = Controller::new(&context.env, name).workers(WORKERS).max_retries(None).limits(limits);
    controller.watches(requests, |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ => vec![Key::of(event.obj())],
    })
}

/// Replaces a subresource of the request, provided that it is at the version it was read at.
pub async fn write(client: &dyn Client, subresource: &'static str, csr: Value) -> Result<(), Status> {
    let name = csr.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
    let target = CERTIFICATE_SIGNING_REQUESTS.at("", &name).sub(subresource);
    client.update(target, csr, WriteOptions::default()).await.map(drop)
}

pub fn conditions(csr: &Value) -> &[Value] {
    csr.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default()
}

pub fn has(csr: &Value, kind: &str) -> bool {
    conditions(csr).iter().any(|condition| condition.str_at(&["type"]) == Some(kind))
}

pub fn is_issued(csr: &Value) -> bool {
    csr.str_at(&["status", "certificate"]).is_some_and(|text| !text.is_empty())
}

pub fn signer(csr: &Value) -> &str {
    csr.str_at(&["spec", "signerName"]).unwrap_or("")
}

pub fn usages(csr: &Value) -> Vec<&str> {
    let list = csr.at(&["spec", "usages"]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}

/// The request with one more condition; `now` where the writer says when.
pub fn with_condition(csr: &Value, kind: &str, reason: &str, message: &str, now: Option<i64>) -> Value {
    let mut csr = csr.clone();
    let mut condition = Map::default();
    for (member, text) in [("type", kind), ("status", "True"), ("reason", reason), ("message", message)] {
        condition.set(member, text);
    }
    if let Some(now) = now {
        condition.set("lastUpdateTime", time::format_seconds(now));
    }
    match csr.map_at(&["status"]).entry("conditions".into()) {
        Value::List(list) => list.push(Value::Map(condition)),
        slot => *slot = Value::List(vec![Value::Map(condition)]),
    }
    csr
}
