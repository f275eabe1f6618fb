//! /openapi/v3 and /openapi/v2: built on request from the catalogue, and from what other servers describe.
//!
//! A document of built-in resources does not change while the process runs. The hash of one of custom resources is that of their
//! definitions' UIDs and generations: a new definition changes its own document, the index and v2, and costs nothing until
//! one of these is requested.

use std::sync::Arc;

use bytes::Bytes;
use catalog::{Catalog, Resource};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, HeaderName};
use object::{Value, time};
use openapi::{CustomSchema, CustomSchemas, Documents, Entry};

use crate::aggregation;
use crate::api::Api;
use crate::body::Body;
use crate::custom_resources::DEFINITIONS;
use crate::gzip::{self, DOCUMENT_FROM};
use crate::loopback::get_stored;
use crate::negotiate::{ranges, weighs_gzip};
use crate::openapi_cache::{Form, Generations, Hashes};
use crate::request_info::Query;
use crate::respond::{self, Answer};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// Upstream's answer to either spelling: the one with an @ is no valid media type to Go clients.
const PROTOBUF_V2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const PROTOBUF_V3: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// The magic number of gzip; no document starts with it.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The name of the index in the cache; no group version has it.
const INDEX: &str = "";
/// The name of the v2 document.
const V2: &str = "v2";

/// A request for a document.
struct Asked<'a> {
    api: &'a Api,
    /// One snapshot for the whole request.
    catalog: &'a Catalog,
    documents: Documents<'a>,
    headers: &'a HeaderMap,
    gzipped: bool,
}

/// The schemas in the stored CustomResourceDefinitions.
struct Stored<'a>(&'a Api);

impl CustomSchemas for Stored<'_> {
    fn fingerprint(&self, resource: &Resource) -> String {
        let by = kinds::kind_of_resource(resource).defined_by();
        by.map(|(uid, generation)| format!("{uid},{generation}")).unwrap_or_default()
    }

    /// May be newer than the catalogue. Caching the document under the older fingerprint does no harm: the next catalogue has
    /// another one, and generations only grow.
    fn schema(&self, resource: &Resource) -> Option<CustomSchema> {
        let name = format!("{}.{}", resource.plural, resource.group);
        let mut crd = get_stored(self.0, DEFINITIONS, "", &name)?;
        let spec = crd.as_map_mut()?.get_mut("spec")?.as_map_mut()?;
        let preserve_unknown_fields =
            spec.get("preserveUnknownFields").and_then(Value::as_bool) == Some(true);
        let Value::List(versions) = spec.remove("versions")? else { return None };
        let mut version = versions.into_iter().find(|v| v.str_at(&["name"]) == Some(&resource.version))?;
        let schema = version.as_map_mut()?.get_mut("schema")?.as_map_mut()?.remove("openAPIV3Schema")?;
        Some(CustomSchema { schema, preserve_unknown_fields })
    }
}

pub async fn serve(api: &Api, path: &str, headers: &HeaderMap, query: &Query<'_>) -> Option<Answer> {
    let catalog = &*api.registry.catalog();
    let schemas = Stored(api);
    let documents = Documents::new(catalog, &schemas);
    let asked = Asked { api, catalog, documents, headers, gzipped: weighs_gzip(headers) };
    let others = &api.aggregation.documents;
    match path {
        "/openapi/v3" => {
            let specs = others.v3.load();
            let mut hashes = asked.hashes().await;
            if !specs.of.is_empty() {
                aggregation::openapi::merge_index(&specs, Arc::make_mut(&mut hashes));
            }
            let of = Generations { catalog: catalog.generation(), others: specs.generation };
            // Upstream sets no content type, and Go's server detects text.
            Some(asked.hashed(INDEX, TEXT, of, || openapi::v3_index(&hashes)).await)
        }
        "/openapi/v2" => Some(match accepted(headers, PROTOBUF_V2) {
            None => not_acceptable(),
            Some(media) => {
                let specs = others.v2.load();
                let of = Generations { catalog: catalog.generation(), others: specs.generation };
                let merged = || aggregation::openapi::merge_v2(&documents.v2(), &specs);
                let make = || match (media, specs.of.is_empty()) {
                    (PROTOBUF_V2, true) => documents.v2_protobuf(),
                    (PROTOBUF_V2, false) => openapi::v2_protobuf_of(&merged()),
                    (_, true) => documents.v2(),
                    (_, false) => codec::json::to_vec(&merged()),
                };
                asked.hashed(V2, media, of, make).await
            }
        }),
        _ => {
            let name = path.strip_prefix("/openapi/v3/")?;
            let (routes, specs) = (api.aggregation.routes(), others.v3.load());
            if let Some((hash, document)) = aggregation::openapi::converted(&routes, &specs, name) {
                return Some(asked.converted(name, hash, document, query).await);
            }
            let Some(entry) = documents.v3_entry(name) else { return Some(no_document()) };
            let hash = asked.hash(name, entry).await;
            Some(asked.group(name, &hash, query).await)
        }
    }
}

/// Where the document is that the client has an older hash of.
fn moved(name: &str, hash: &str, media: &'static str) -> Answer {
    let mut answer = respond::answer(301, media, Body::empty());
    set(&mut answer, LOCATION, &format!("/openapi/v3/{name}?hash={hash}"));
    set(&mut answer, ETAG, &format!("\"{hash}\""));
    set(&mut answer, VARY, "Accept");
    answer
}

/// Upstream answers with an empty body.
fn no_document() -> Answer {
    let mut answer = respond::answer(404, TEXT, Body::empty());
    answer.headers_mut().remove(CONTENT_TYPE);
    answer
}

impl Asked<'_> {
    /// The hashes of all documents of v3.
    async fn hashes(&self) -> Arc<Hashes> {
        let openapi_cache = &self.api.openapi_cache;
        let generation = self.catalog.generation();
        if let Some(hashes) = openapi_cache.hashes(generation) {
            return hashes;
        }
        let mut hashes = Hashes::new();
        for (name, entry) in self.documents.v3_entries() {
            let hash = self.hash(&name, entry).await;
            hashes.insert(name, hash);
        }
        let hashes = Arc::new(hashes);
        openapi_cache.set_hashes(generation, hashes.clone());
        hashes
    }

    async fn hash(&self, name: &str, entry: Entry) -> String {
        match entry {
            Entry::Custom(hash) => hash,
            Entry::BuiltIn => {
                let make = || openapi::fingerprint(&self.documents.v3(name).unwrap_or_default());
                self.api.openapi_cache.built_in_hash(name, make).await
            }
        }
    }

    /// A document of everything, whose hash is known once it is built.
    async fn hashed(
        &self,
        name: &str,
        media: &'static str,
        of: Generations,
        make: impl Fn() -> Vec<u8>,
    ) -> Answer {
        let openapi_cache = &self.api.openapi_cache;
        let version = of.to_string();
        let form = Form { name, media, gzipped: self.gzipped, version: &version };
        if openapi_cache.hash(of, name, media).is_none() {
            openapi_cache
                .form(form, || {
                    self.encoded(&make, |document| {
                        openapi_cache.set_hash(of, name, media, openapi::fingerprint(document));
                    })
                })
                .await;
        }
        // A request with an older catalogue may have replaced it meanwhile.
        let hash = openapi_cache.hash(of, name, media);
        let hash = hash.unwrap_or_else(|| openapi::fingerprint(&make()));
        self.answer(form, &hash, make).await
    }

    /// A document of v3.
    async fn group(&self, name: &str, hash: &str, query: &Query<'_>) -> Answer {
        let Some(media) = accepted(self.headers, PROTOBUF_V3) else { return not_acceptable() };
        // There is a hash, so there is a document.
        let make = || match media {
            PROTOBUF_V3 => self.documents.v3_protobuf(name).unwrap_or_default(),
            _ => self.documents.v3(name).unwrap_or_default(),
        };
        self.by_hash(name, hash, media, query, make).await
    }

    /// The same, made from another server's v2.
    async fn converted(&self, name: &str, hash: &str, document: &Bytes, query: &Query<'_>) -> Answer {
        let Some(media) = accepted(self.headers, PROTOBUF_V3) else { return not_acceptable() };
        let make = || match media {
            PROTOBUF_V3 => {
                let document = codec::json::parse(document, None).unwrap_or(Value::Null);
                openapi::v3_protobuf_of(&document)
            }
            _ => document.to_vec(),
        };
        self.by_hash(name, hash, media, query, make).await
    }

    /// With its hash in the query it is immutable; with another one the client is redirected.
    async fn by_hash(
        &self,
        name: &str,
        hash: &str,
        media: &'static str,
        query: &Query<'_>,
        make: impl Fn() -> Vec<u8>,
    ) -> Answer {
        let asked = query.find("hash").filter(|asked| !asked.is_empty());
        if asked.as_ref().is_some_and(|asked| **asked != *hash) {
            return moved(name, hash, media);
        }
        let form = Form { name, media, gzipped: self.gzipped, version: hash };
        let mut answer = self.answer(form, hash, make).await;
        if asked.is_some() {
            self.immutable(&mut answer);
        }
        answer
    }

    fn immutable(&self, answer: &mut Answer) {
        set(answer, CACHE_CONTROL, "public, immutable");
        set(answer, EXPIRES, &in_a_year(self.api.registry.env().now_seconds() as i64));
    }

    async fn answer(&self, form: Form<'_>, hash: &str, make: impl Fn() -> Vec<u8>) -> Answer {
        let tag = format!("\"{hash}\"");
        let unchanged = self.headers.get(IF_NONE_MATCH).is_some_and(|v| v.as_bytes() == tag.as_bytes());
        let mut answer = respond::answer(if unchanged { 304 } else { 200 }, form.media, Body::empty());
        set(&mut answer, VARY, "Accept");
        set(&mut answer, ETAG, &tag);
        if !unchanged {
            let bytes = self.api.openapi_cache.form(form, || self.encoded(make, |_| ())).await;
            if bytes.starts_with(&GZIP) {
                gzip::mark(&mut answer);
            }
            *answer.body_mut() = bytes.into();
        }
        answer
    }

    /// The document, compressed if the client accepts it; `seen` gets it uncompressed.
    fn encoded(&self, make: impl Fn() -> Vec<u8>, seen: impl FnOnce(&[u8])) -> Vec<u8> {
        let document = make();
        seen(&document);
        if self.gzipped && document.len() >= DOCUMENT_FROM { gzip::gzip(&document) } else { document }
    }
}

/// The preferred one of JSON and this protobuf; `None` if neither is accepted.
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
