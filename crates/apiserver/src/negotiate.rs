//! Which form of an answer the client wants.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};
use object::Status;

use crate::info::Query;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    PrettyJson,
    Yaml,
}

/// The object itself, or a view of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Object,
    Table,
    /// PartialObjectMetadata, or its List.
    Metadata,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub encoding: Encoding,
    pub view: View,
}

impl Wanted {
    pub fn content_type(self) -> &'static str {
        match self.encoding {
            Encoding::Json | Encoding::PrettyJson => "application/json",
            Encoding::Yaml => "application/yaml",
        }
    }
}

/// What an endpoint can answer with.
#[derive(Clone, Copy)]
pub struct Offer {
    /// Tables and metadata views.
    pub views: bool,
    /// The list of types in a refusal differs for endpoints with and without watch.
    pub list: bool,
}

/// One entry of an Accept header.
pub struct MediaRange<'a> {
    pub kind: &'a str,
    params: &'a str,
}

impl<'a> MediaRange<'a> {
    pub fn param(&self, name: &str) -> Option<&'a str> {
        self.params.split(';').find_map(|p| {
            let (n, v) = p.split_once('=')?;
            n.trim().eq_ignore_ascii_case(name).then(|| v.trim().trim_matches('"'))
        })
    }
}

/// Accept's entries, most wanted first.
pub fn ranges(headers: &HeaderMap) -> Vec<MediaRange<'_>> {
    let mut out: Vec<(u16, MediaRange<'_>)> = Vec::new();
    for header in headers.get_all(ACCEPT) {
        for entry in header.to_str().unwrap_or("").split(',').take(64) {
            let (kind, params) = entry.split_once(';').unwrap_or((entry, ""));
            let range = MediaRange { kind: kind.trim(), params };
            let q: f32 = range.param("q").and_then(|q| q.parse().ok()).unwrap_or(1.0);
            if !range.kind.is_empty() && q > 0.0 {
                out.push(((q.clamp(0.0, 1.0) * 1000.0) as u16, range));
            }
        }
    }
    out.sort_by_key(|(q, _)| std::cmp::Reverse(*q));
    out.into_iter().map(|(_, range)| range).collect()
}

pub fn negotiate(headers: &HeaderMap, query: &Query<'_>, offer: Offer) -> Result<Wanted, Status> {
    let json = if wants_pretty(headers, query) { Encoding::PrettyJson } else { Encoding::Json };
    let ranges = ranges(headers);
    if ranges.is_empty() {
        return Ok(Wanted { encoding: json, view: View::Object });
    }
    let mut refused_view = false;
    for range in &ranges {
        let encoding = match range.kind {
            "application/json" | "*/*" | "application/*" => json,
            "application/yaml" => Encoding::Yaml,
            _ => continue,
        };
        let view = match (range.param("as"), range.param("g"), range.param("v")) {
            (None, ..) => View::Object,
            (Some("Table"), Some("meta.k8s.io"), Some("v1" | "v1beta1")) if offer.views => View::Table,
            (Some("PartialObjectMetadata"), Some("meta.k8s.io"), Some("v1" | "v1beta1"))
                if offer.views && !offer.list =>
            {
                View::Metadata
            }
            (Some("PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1" | "v1beta1"))
                if offer.views && offer.list =>
            {
                View::Metadata
            }
            _ => {
                refused_view = true;
                continue;
            }
        };
        return Ok(Wanted { encoding, view });
    }
    let types = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    if refused_view {
        return Err(Status::not_acceptable(format!("only the following media types are accepted: {types}")));
    }
    let streams = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    let streams = if offer.list { streams } else { "" };
    let message = format!("406: Not Acceptable\n\nAvailable representations: {types}{streams}");
    Err(Status::not_acceptable(message).with_empty_details())
}

fn wants_pretty(headers: &HeaderMap, query: &Query<'_>) -> bool {
    if query.find("pretty").is_some() {
        return query.flag("pretty");
    }
    let agent = headers.get(USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or("");
    ["curl", "Wget", "Mozilla"].iter().any(|browser| agent.starts_with(browser))
}

pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .any(|e| e.split(';').next().is_some_and(|name| name.trim() == "gzip"))
}
