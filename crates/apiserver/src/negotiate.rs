//! Content negotiation: encoding and view of an answer.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};
use object::Status;

use crate::request_info::Query;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    PrettyJson,
    Yaml,
    Protobuf,
}

/// The object itself, or a view of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Object,
    Table,
    /// PartialObjectMetadata, or its List.
    Metadata,
    /// The one of these that does not fit: refused once the object, list or event is at hand, as upstream does.
    Mismatch,
}

/// The version of `meta.k8s.io` of a view: they differ only in name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetaVersion {
    #[default]
    V1,
    V1beta1,
}

impl MetaVersion {
    pub fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    pub encoding: Encoding,
    pub view: View,
    pub meta: MetaVersion,
}

impl Negotiated {
    pub const JSON: Negotiated =
        Negotiated { encoding: Encoding::Json, view: View::Object, meta: MetaVersion::V1 };

    pub fn content_type(self) -> &'static str {
        match self.encoding {
            Encoding::Json | Encoding::PrettyJson => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => PROTOBUF,
        }
    }
}

/// What an endpoint can answer with.
#[derive(Clone, Copy, PartialEq)]
pub enum Offer {
    /// The document alone: reviews, discovery, errors.
    Document,
    /// One object, also as a Table or its metadata.
    Object,
    /// One object of a subresource without columns: also its metadata, but no Table.
    Part,
    /// Always text; upstream checks the header like that of a part.
    Log,
    /// A list, also as a Table or its metadata.
    List,
    /// Events: never indented, and subject to [`check_stream`].
    Events,
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

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

    fn covers(&self, media: &str) -> bool {
        matches!(self.kind, "*" | "*/*" | "application/*") || self.kind == media
    }
}

/// The entries of Accept, by preference. Of several headers only the first counts, as upstream; and only the first entries, because
/// sorting is quadratic.
pub fn ranges(headers: &HeaderMap) -> Vec<MediaRange<'_>> {
    let mut out: Vec<(f32, MediaRange<'_>)> = Vec::new();
    let accept = headers.get(ACCEPT).and_then(|header| header.to_str().ok()).unwrap_or("");
    for entry in accept.split(',').take(64) {
        let (kind, params) = entry.split_once(';').unwrap_or((entry, ""));
        let range = MediaRange { kind: kind.trim(), params };
        // An invalid q is 0, which comes last; upstream excludes no entry for its q.
        let q: f32 = range.param("q").map_or(1.0, |q| q.parse().unwrap_or(0.0));
        if !range.kind.is_empty() {
            out.push((q, range));
        }
    }
    sort(&mut out);
    out.into_iter().map(|(_, range)| range).collect()
}

/// Upstream's comparison is not transitive (an exact type precedes a wildcard whatever their q), so the algorithm shows: an insertion
/// sort.
fn sort(entries: &mut [(f32, MediaRange<'_>)]) {
    let before = |(q, a): &(f32, MediaRange<'_>), (r, b): &(f32, MediaRange<'_>)| {
        let parts = |range: &MediaRange<'_>| {
            let (main, sub) = range.kind.split_once('/').unwrap_or((range.kind, "*"));
            (main == "*", sub == "*")
        };
        let ((a_any, a_sub), (b_any, b_sub)) = (parts(a), parts(b));
        q > r || (!a_any && b_any) || (!a_sub && b_sub)
    };
    for i in 1..entries.len() {
        let mut j = i;
        while j > 0 && before(&entries[j], &entries[j - 1]) {
            entries.swap(j, j - 1);
            j -= 1;
        }
    }
}

/// The most preferred form that is offered.
pub fn negotiate(headers: &HeaderMap, query: &Query<'_>, offer: Offer) -> Result<Negotiated, Status> {
    negotiate_for(headers, query, offer, false)
}

/// As [`negotiate`]; custom resources are not served as protobuf, though their metadata is.
pub fn negotiate_for(
    headers: &HeaderMap,
    query: &Query<'_>,
    offer: Offer,
    custom: bool,
) -> Result<Negotiated, Status> {
    let ranges = ranges(headers);
    let json = if wants_pretty(headers, query) { Encoding::PrettyJson } else { Encoding::Json };
    if ranges.is_empty() {
        let encoding = if matches!(offer, Offer::Events) { Encoding::Json } else { json };
        return Ok(Negotiated { encoding, ..Negotiated::JSON });
    }
    let offered =
        [("application/json", json), ("application/yaml", Encoding::Yaml), (PROTOBUF, Encoding::Protobuf)];
    // Upstream's router matches first: it knows the exact types, and one wildcard.
    let (first, last) = match offer {
        Offer::List | Offer::Events => ("", format!(", {STREAM_TYPES}")),
        Offer::Log => ("text/plain, ", String::new()),
        Offer::Object | Offer::Part | Offer::Document => ("", String::new()),
    };
    let routed = |kind: &str| match kind {
        "*/*" => true,
        "text/plain" => offer == Offer::Log,
        _ => offered.iter().any(|(media, _)| kind == *media),
    };
    if !custom && !ranges.iter().any(|range| routed(range.kind)) {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {first}{MEDIA_TYPES}{last}");
        return Err(Status::not_acceptable(message).with_empty_details());
    }
    let found = ranges.iter().find_map(|range| {
        let fitting = offered.iter().filter(|(media, _)| range.covers(media));
        fitting.into_iter().find_map(|(_, encoding)| {
            let encoding = match encoding {
                Encoding::Json if range.param("pretty") == Some("1") => Encoding::PrettyJson,
                encoding => *encoding,
            };
            let meta = match range.param("v") {
                Some("v1beta1") => MetaVersion::V1beta1,
                _ => MetaVersion::V1,
            };
            let view = view(range, offer, encoding)?;
            let served = !(custom && view == View::Object && encoding == Encoding::Protobuf);
            served.then_some(Negotiated { encoding, view, meta })
        })
    });
    match (offer, found) {
        (_, None) => Err(not_among(MEDIA_TYPES)),
        (Offer::Events, Some(wanted)) if wanted.encoding == Encoding::PrettyJson => {
            Ok(Negotiated { encoding: Encoding::Json, ..wanted })
        }
        (_, Some(wanted)) => Ok(wanted),
    }
}

/// Events have no YAML. Upstream checks this last, once the watch has started.
pub fn check_stream(wanted: Negotiated) -> Result<(), Status> {
    if wanted.encoding == Encoding::Yaml { Err(not_among(STREAM_TYPES)) } else { Ok(()) }
}

fn not_among(types: &str) -> Status {
    Status::not_acceptable(format!("only the following media types are accepted: {types}"))
}

const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAM_TYPES: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// The view of an entry; `None` if it is not offered.
fn view(range: &MediaRange<'_>, offer: Offer, encoding: Encoding) -> Option<View> {
    let asked = |name| range.param(name).filter(|v| !v.is_empty());
    if let Some(stream) = asked("stream")
        && (stream != "watch" || encoding == Encoding::Yaml)
    {
        return None;
    }
    let Some(kind) = range.param("as") else {
        return (range.param("g").is_none() && range.param("v").is_none()).then_some(View::Object);
    };
    if range.param("g") != Some("meta.k8s.io") || !matches!(range.param("v"), Some("v1" | "v1beta1")) {
        return None;
    }
    match (kind, offer) {
        (_, Offer::Document) | ("Table", Offer::Part | Offer::Log) => None,
        // A Table has no protobuf.
        ("Table", _) => (encoding != Encoding::Protobuf).then_some(View::Table),
        ("PartialObjectMetadata", Offer::Object | Offer::Part | Offer::Log | Offer::Events) => {
            Some(View::Metadata)
        }
        ("PartialObjectMetadataList", Offer::List) => Some(View::Metadata),
        ("PartialObjectMetadataList", Offer::Object | Offer::Part | Offer::Log | Offer::Events)
        | ("PartialObjectMetadata", Offer::List) => Some(View::Mismatch),
        _ => None,
    }
}

/// The form of an error: the requested one if possible, else indented JSON.
pub fn negotiate_error(headers: &HeaderMap, query: &Query<'_>) -> Negotiated {
    let plain = Negotiated { encoding: Encoding::PrettyJson, ..Negotiated::JSON };
    negotiate(headers, query, Offer::Document).unwrap_or(plain)
}

fn wants_pretty(headers: &HeaderMap, query: &Query<'_>) -> bool {
    if query.find("pretty").is_some() {
        return query.flag("pretty");
    }
    let agent = headers.get(USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or("");
    ["curl", "Wget", "Mozilla"].iter().any(|browser| agent.starts_with(browser))
}

/// For objects: upstream knows only the bare name, without a weight.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let wanted = headers.get(ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or("");
    wanted.split(',').any(|e| e.trim() == "gzip")
}

/// For documents and metrics: with any weight but 0.
pub fn weighs_gzip(headers: &HeaderMap) -> bool {
    let wanted = headers.get(ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or("");
    wanted.split(',').any(|entry| {
        let (kind, params) = entry.split_once(';').unwrap_or((entry, ""));
        let range = MediaRange { kind: kind.trim(), params };
        let weight: f32 = range.param("q").map_or(1.0, |q| q.parse().unwrap_or(0.0));
        range.kind == "gzip" && weight > 0.0
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn of_several_accept_headers_the_first_counts() {
        let mut headers = HeaderMap::new();
        for value in ["a/b;q=0.1, a/c", "d/e"] {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        let kinds: Vec<&str> = ranges(&headers).iter().map(|range| range.kind).collect();
        assert_eq!(kinds, ["a/c", "a/b"]);
    }

    #[test]
    fn entries_that_nobody_needs_are_not_sorted() {
        let mut headers = HeaderMap::new();
        let many = HeaderValue::from_str(&"a/b,".repeat(10_000)).unwrap();
        headers.append(ACCEPT, many.clone());
        headers.append(ACCEPT, many);
        assert_eq!(ranges(&headers).len(), 64);
    }
}
