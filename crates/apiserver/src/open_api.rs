//! /openapi/v3 and /openapi/v2: made from the catalogue when somebody asks, and not kept.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use parking_lot::Mutex;

use crate::body::Body;
use crate::chain::Api;
use crate::negotiate::ranges;
use crate::respond::{self, Answer};

/// What upstream answers to either spelling: the one with an @ is no media type to Go, and its clients refuse it.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// What stays in memory: the fingerprint of the catalogue, made on first use.
#[derive(Default)]
pub struct Documents {
    /// Guards the index document, some kilobytes.
    index: Mutex<Option<Arc<Vec<u8>>>>,
}

pub fn serve(api: &Api, path: &str, headers: &HeaderMap) -> Option<Answer> {
    let catalog = api.registry.catalog();
    match path {
        "/openapi/v3" => {
            let mut index = api.documents.index.lock();
            let document = index.get_or_insert_with(|| {
                let fingerprint = openapi::fingerprint(crate::KUBERNETES_VERSION.as_bytes());
                Arc::new(openapi::v3_index(catalog, &fingerprint))
            });
            Some(document_answer("application/json", document.to_vec(), headers))
        }
        "/openapi/v2" => {
            let wants_protobuf =
                ranges(headers).iter().any(|r| r.kind.starts_with("application/com.github.proto-openapi"));
            Some(if wants_protobuf {
                document_answer(PROTOBUF, openapi::v2_protobuf(catalog), headers)
            } else {
                document_answer("application/json", openapi::v2(catalog), headers)
            })
        }
        _ => {
            let group_version = path.strip_prefix("/openapi/v3/")?;
            Some(match openapi::v3_group(catalog, group_version) {
                Some(document) => document_answer("application/json", document, headers),
                None => respond::page_not_found(),
            })
        }
    }
}

fn document_answer(content_type: &'static str, document: Vec<u8>, headers: &HeaderMap) -> Answer {
    let tag = format!("\"{}\"", openapi::fingerprint(&document));
    let unchanged = headers.get(IF_NONE_MATCH).is_some_and(|v| v.as_bytes() == tag.as_bytes());
    let mut answer = if unchanged {
        respond::answer(304, content_type, Body::empty())
    } else {
        respond::answer(200, content_type, Bytes::from(document).into())
    };
    answer.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.headers_mut().insert(ETAG, tag);
    }
    answer
}
