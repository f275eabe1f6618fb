//! /openapi/v3 and /openapi/v2: made from the catalogue when somebody asks.

use std::sync::Arc;

use catalog::Catalog;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, HeaderName};
use object::time;

use crate::api::Api;
use crate::body::Body;
use crate::gzip::{self, DOCUMENT_FROM};
use crate::negotiate::{ranges, weighs_gzip};
use crate::openapi_cache::{Form, Hashes};
use crate::request_info::Query;
use crate::respond::{self, Answer};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// What upstream answers to either spelling: the one with an @ is no media type to Go, and its clients refuse it.
const PROTOBUF_V2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const PROTOBUF_V3: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// How what is packed begins; no document does.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// What the index calls itself among the documents; no group version has this name.
const INDEX: &str = "";
/// The same of the document of everything.
const V2: &str = "v2";

/// What is asked for, and how the client takes it.
struct Asked<'a> {
    api: &'a Api,
    /// What the documents are about, for all of the request.
    catalog: &'a Catalog,
    headers: &'a HeaderMap,
    gzipped: bool,
}

pub async fn serve(api: &Api, path: &str, headers: &HeaderMap, query: &Query<'_>) -> Option<Answer> {
    let catalog = &*api.registry.catalog();
    let asked = Asked { api, catalog, headers, gzipped: weighs_gzip(headers) };
    match path {
        "/openapi/v3" => {
            let hashes = hashes(api, catalog).await;
            // Upstream says nothing of what it is, and Go's server takes it for text.
            Some(asked.hashed(INDEX, TEXT, || openapi::v3_index(&hashes)).await)
        }
        "/openapi/v2" => Some(match accepted(headers, PROTOBUF_V2) {
            None => not_acceptable(),
            Some(PROTOBUF_V2) => asked.hashed(V2, PROTOBUF_V2, || openapi::v2_protobuf(catalog)).await,
            Some(_) => asked.hashed(V2, JSON, || openapi::v2(catalog)).await,
        }),
        _ => {
            let name = path.strip_prefix("/openapi/v3/")?;
            let hashes = hashes(api, catalog).await;
            let Some(hash) = hashes.get(name) else { return Some(no_document()) };
            Some(asked.group(name, hash, query).await)
        }
    }
}

async fn hashes(api: &Api, catalog: &Catalog) -> Arc<Hashes> {
    let names = || openapi::v3_entries(catalog);
    api.openapi_cache.v3_hashes(catalog.generation(), names, |name| openapi::v3_hash(catalog, name)).await
}

/// Upstream says nothing at all of a document that it does not have.
fn no_document() -> Answer {
    let mut answer = respond::answer(404, TEXT, Body::empty());
    answer.headers_mut().remove(CONTENT_TYPE);
    answer
}

impl Asked<'_> {
    /// A document whose hash is known once it was made.
    async fn hashed(&self, name: &str, media: &'static str, make: impl Fn() -> Vec<u8>) -> Answer {
        let openapi_cache = &self.api.openapi_cache;
        let generation = self.catalog.generation();
        if openapi_cache.hash(generation, name, media).is_none() {
            let form = Form { name, media, gzipped: self.gzipped };
            openapi_cache
                .form(generation, form, || {
                    self.encoded(&make, |document| {
                        openapi_cache.set_hash(generation, name, media, openapi::fingerprint(document));
                    })
                })
                .await;
        }
        let hash = openapi_cache.hash(generation, name, media).unwrap_or_default();
        self.answer(name, media, &hash, make).await
    }

    /// A document of v3. Asked for by its hash it may be kept for ever; by another one the client is sent to the right one.
    async fn group(&self, name: &str, hash: &str, query: &Query<'_>) -> Answer {
        let Some(media) = accepted(self.headers, PROTOBUF_V3) else { return not_acceptable() };
        let asked = query.find("hash").filter(|asked| !asked.is_empty());
        if asked.is_some_and(|asked| *asked != *hash) {
            let mut answer = respond::answer(301, media, Body::empty());
            set(&mut answer, LOCATION, &format!("/openapi/v3/{name}?hash={hash}"));
            set(&mut answer, ETAG, &format!("\"{hash}\""));
            set(&mut answer, VARY, "Accept");
            return answer;
        }
        let catalog = self.catalog;
        // The hash is there, so the document is: both come from the catalogue.
        let make = || match media {
            PROTOBUF_V3 => openapi::v3_group_protobuf(catalog, name).unwrap_or_default(),
            _ => openapi::v3_group(catalog, name).unwrap_or_default(),
        };
        let mut answer = self.answer(name, media, hash, make).await;
        if asked.is_some() {
            set(&mut answer, CACHE_CONTROL, "public, immutable");
            set(&mut answer, EXPIRES, &in_a_year(self.api.registry.env().now_seconds() as i64));
        }
        answer
    }

    async fn answer(
        &self,
        name: &str,
        media: &'static str,
        hash: &str,
        make: impl Fn() -> Vec<u8>,
    ) -> Answer {
        let tag = format!("\"{hash}\"");
        let unchanged = self.headers.get(IF_NONE_MATCH).is_some_and(|v| v.as_bytes() == tag.as_bytes());
        let mut answer = respond::answer(if unchanged { 304 } else { 200 }, media, Body::empty());
        set(&mut answer, VARY, "Accept");
        set(&mut answer, ETAG, &tag);
        if !unchanged {
            let form = Form { name, media, gzipped: self.gzipped };
            let bytes = self
                .api
                .openapi_cache
                .form(self.catalog.generation(), form, || self.encoded(make, |_| ()))
                .await;
            if bytes.starts_with(&GZIP) {
                gzip::mark(&mut answer);
            }
            *answer.body_mut() = bytes.into();
        }
        answer
    }

    /// The document as the client takes it; `seen` looks at it as it is.
    fn encoded(&self, make: impl Fn() -> Vec<u8>, seen: impl FnOnce(&[u8])) -> Vec<u8> {
        let document = make();
        seen(&document);
        if self.gzipped && document.len() >= DOCUMENT_FROM { gzip::gzip(&document) } else { document }
    }
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
