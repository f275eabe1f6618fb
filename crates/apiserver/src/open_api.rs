//! /openapi/v3 and /openapi/v2: made from the catalogue when somebody asks, and not kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, HeaderName};
use object::time;
use parking_lot::Mutex;

use crate::body::Body;
use crate::chain::Api;
use crate::info::Query;
use crate::negotiate::ranges;
use crate::respond::{self, Answer};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// What upstream answers to either spelling: the one with an @ is no media type to Go, and its clients refuse it.
const PROTOBUF_V2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const PROTOBUF_V3: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// What stays in memory, made on first use: some kilobytes.
#[derive(Default)]
pub struct Documents {
    /// Guards nothing that takes long but the first time, when every document is made once for its hash.
    index: Mutex<Option<Arc<Index>>>,
}

impl Documents {
    /// Bytes kept.
    pub fn kept(&self) -> usize {
        let index = self.index.lock();
        index.as_ref().map_or(0, |i| {
            let hashes = i.hashes.iter().map(|(name, hash)| name.capacity() + hash.capacity());
            i.document.capacity() + hashes.sum::<usize>()
        })
    }
}

struct Index {
    document: Vec<u8>,
    /// By what the index calls a document: `apis/apps/v1`.
    hashes: BTreeMap<String, String>,
}

pub fn serve(api: &Api, path: &str, headers: &HeaderMap, query: &Query<'_>) -> Option<Answer> {
    let catalog = api.registry.catalog();
    match path {
        "/openapi/v3" => {
            let index = index(api);
            let hash = openapi::fingerprint(&index.document);
            // Upstream says nothing of what it is, and Go's server takes it for text.
            Some(document_answer(TEXT, &hash, headers, || index.document.clone()))
        }
        "/openapi/v2" => Some(match accepted(headers, PROTOBUF_V2) {
            None => not_acceptable(),
            Some(PROTOBUF_V2) => {
                let document = openapi::v2_protobuf(catalog);
                document_answer(PROTOBUF_V2, &openapi::fingerprint(&document), headers, || document)
            }
            Some(_) => {
                let document = openapi::v2(catalog);
                document_answer(JSON, &openapi::fingerprint(&document), headers, || document)
            }
        }),
        _ => {
            let name = path.strip_prefix("/openapi/v3/")?;
            let index = index(api);
            let Some(hash) = index.hashes.get(name) else { return Some(no_document()) };
            Some(group_answer(api, name, hash, headers, query))
        }
    }
}

/// Upstream says nothing at all of a document that it does not have.
fn no_document() -> Answer {
    let mut answer = respond::answer(404, TEXT, Body::empty());
    answer.headers_mut().remove(CONTENT_TYPE);
    answer
}

fn index(api: &Api) -> Arc<Index> {
    let mut index = api.documents.index.lock();
    let made = index.get_or_insert_with(|| {
        let hashes = openapi::v3_hashes(api.registry.catalog());
        Arc::new(Index { document: openapi::v3_index(&hashes), hashes })
    });
    made.clone()
}

/// A document of v3. Asked for by its hash it may be kept for ever; by another one the client is sent to the right one.
fn group_answer(api: &Api, name: &str, hash: &str, headers: &HeaderMap, query: &Query<'_>) -> Answer {
    let Some(media) = accepted(headers, PROTOBUF_V3) else { return not_acceptable() };
    let asked = query.find("hash").filter(|asked| !asked.is_empty());
    if asked.is_some_and(|asked| *asked != *hash) {
        let mut answer = respond::answer(301, media, Body::empty());
        set(&mut answer, LOCATION, &format!("/openapi/v3/{name}?hash={hash}"));
        set(&mut answer, ETAG, &format!("\"{hash}\""));
        set(&mut answer, VARY, "Accept");
        return answer;
    }
    let catalog = api.registry.catalog();
    // The hash is there, so the document is: both come from the catalogue.
    let mut answer = document_answer(media, hash, headers, || match media {
        PROTOBUF_V3 => openapi::v3_group_protobuf(catalog, name).unwrap_or_default(),
        _ => openapi::v3_group(catalog, name).unwrap_or_default(),
    });
    if asked.is_some() {
        set(&mut answer, CACHE_CONTROL, "public, immutable");
        set(&mut answer, EXPIRES, &in_a_year(api.registry.env().now_seconds() as i64));
    }
    answer
}

/// What the client wants most of JSON and this protobuf; `None` when it wants neither.
fn accepted(headers: &HeaderMap, protobuf: &'static str) -> Option<&'static str> {
    let ranges = ranges(headers);
    if ranges.is_empty() {
        return Some(JSON);
    }
    ranges.iter().find_map(|range| match range.kind {
        "*/*" | "*" | "application/*" | JSON => Some(JSON),
        kind if kind.replace('@', ".") == protobuf => Some(protobuf),
        _ => None,
    })
}

fn not_acceptable() -> Answer {
    let mut answer = respond::answer(406, JSON, Body::empty());
    answer.headers_mut().remove(CONTENT_TYPE);
    set(&mut answer, VARY, "Accept");
    answer
}

fn document_answer(
    content_type: &'static str,
    hash: &str,
    headers: &HeaderMap,
    document: impl FnOnce() -> Vec<u8>,
) -> Answer {
    let tag = format!("\"{hash}\"");
    let unchanged = headers.get(IF_NONE_MATCH).is_some_and(|v| v.as_bytes() == tag.as_bytes());
    let mut answer = if unchanged {
        respond::answer(304, content_type, Body::empty())
    } else {
        respond::answer(200, content_type, Bytes::from(document()).into())
    };
    set(&mut answer, VARY, "Accept");
    set(&mut answer, ETAG, &tag);
    answer
}

fn set(answer: &mut Answer, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// `Mon, 15 Nov 2027 22:20:25 UTC`: the same day next year.
fn in_a_year(now: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let today = time::format_seconds(now);
    let year: i64 = today.get(..4).and_then(|y| y.parse().ok()).unwrap_or(1970);
    let (month_day, clock) = (today.get(5..10).unwrap_or("01-01"), today.get(11..19).unwrap_or("00:00:00"));
    // A leap day's year later is the first of March.
    let month_day = if month_day == "02-29" { "03-01" } else { month_day };
    let date = format!("{:04}-{month_day}T{clock}Z", year + 1);
    let seconds = time::parse(&date).map_or(0, |(seconds, _)| seconds);
    let weekday = DAYS[seconds.div_euclid(86_400).rem_euclid(7) as usize];
    let month: usize = month_day[..2].parse().unwrap_or(1);
    format!("{weekday}, {} {} {:04} {clock} UTC", &month_day[3..], MONTHS[(month - 1) % 12], year + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_expire_a_year_later() {
        assert_eq!(in_a_year(0), "Fri, 01 Jan 1971 00:00:00 UTC");
        let leap_day = time::parse("2028-02-29T12:00:00Z").unwrap().0;
        assert_eq!(in_a_year(leap_day), "Thu, 01 Mar 2029 12:00:00 UTC");
    }
}
