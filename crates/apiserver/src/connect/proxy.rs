//! `proxy`: any request, passed on to a node, a pod or an endpoint of a Service, and its answer passed back.

use std::io::{Read, Write};

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::read::{DeflateDecoder, GzDecoder};
use flate2::write::{DeflateEncoder, GzEncoder};
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName,
    LOCATION,
};
use http::response::Parts as Head;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use object::Status;
use percent_encoding::percent_decode_str;

use super::Connect;
use super::backend::{Backend, BackendConnection, Target};
use super::headers::{ask_to_upgrade, drop_hop_by_hop, forwarded, host};
use super::rewrite::Page;
use super::session::UpgradeRequest;
use super::url::{escape_path, join};
use crate::body::{Body, RequestBody};
use crate::proxied_body::{ProxiedBody, ProxiedSettings};
use crate::respond::Answer;
use crate::upgrade::PendingUpgrade;

const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// Longer pages are passed on as they are, so that no page takes all memory.
const MAX_PAGE: usize = 8 << 20;

impl Connect<'_> {
    pub(super) async fn proxy(&self, target: Target, body: RequestBody) -> Result<Answer, Status> {
        let whole: Vec<u8> = percent_decode_str(self.parts.uri.path()).collect();
        let mut path = self.backend_path(&whole);
        let mut headers = forwarded(self.parts, body.peer(), self.request_headers());
        if let Some(pending) = PendingUpgrade::of(self.parts)
            && ask_to_upgrade(self.parts, &mut headers, target.tls.is_some())
        {
            // As upstream has it: without the query.
            let path = if path.is_empty() { "/".to_owned() } else { escape_path(&path) };
            let request = UpgradeRequest { method: self.parts.method.clone(), path, headers, body };
            return self.upgrade(pending, &target, request).await;
        }
        if whole.ends_with(b"/") && !path.ends_with(b"/") {
            path.push(b'/');
        }
        let method = &self.parts.method;
        if path.is_empty() && matches!(*method, Method::GET | Method::HEAD) {
            return Ok(self.with_slash(&whole));
        }
        let prefix = whole.strip_suffix(&*path).unwrap_or(&whole);
        let escaped = if path.is_empty() { "/".to_owned() } else { escape_path(&path) };
        let mut uri = join(prefix, escape_path(&path).as_bytes());
        if path.ends_with(b"/") {
            uri.push(b'/');
        }
        if let Ok(uri) = HeaderValue::from_bytes(&uri) {
            headers.insert(FORWARDED_URI, uri);
        }
        let mut request = Request::new(body.forward());
        let asked = match self.parts.uri.query() {
            Some(query) => format!("{escaped}?{query}"),
            None => escaped,
        };
        *request.uri_mut() =
            asked.parse().map_err(|_| Status::bad_request(format!("invalid path {asked}")))?;
        (*request.method_mut(), *request.headers_mut()) = (method.clone(), headers);

        let unreachable = |why| Status::unavailable(format!("error trying to reach service: {why}"));
        let backend = Backend::open(self.api.registry.env(), &target, self.slot()?).await;
        let answered = backend.map_err(unreachable)?.send(request).await;
        let (response, connection) = answered.map_err(unreachable)?;
        let address = target.address.to_string();
        let page = Page { prefix, backend: &address, host: host(self.parts) };
        self.pass_back(response, connection, &page).await
    }

    /// What follows the subresource, as the client wrote it but decoded.
    pub(super) fn asked_path(&self, whole: &[u8]) -> Vec<u8> {
        // api/v1/nodes/n/proxy, api/v1/namespaces/n/pods/p/proxy
        let before = if self.info.in_namespace { 7 } else { 5 };
        let inner = whole.trim_ascii_start();
        let begin = inner.iter().position(|byte| *byte != b'/').unwrap_or(inner.len());
        let end = inner.iter().rposition(|byte| *byte != b'/').map_or(begin, |last| last + 1);
        let parts: Vec<&[u8]> = inner[begin..end].split(|byte| *byte == b'/').skip(before).collect();
        let mut path = parts.join(&b'/');
        if !path.is_empty() && !path.starts_with(b"/") {
            path.insert(0, b'/');
        }
        if whole.ends_with(b"/") && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path
    }

    /// The path at the backend, clean; a slash at the end stays.
    fn backend_path(&self, whole: &[u8]) -> Vec<u8> {
        let asked = match self.path {
            Some(changed) => changed.as_bytes().to_vec(),
            None => self.asked_path(whole),
        };
        let mut path = join(b"", &asked);
        if asked.ends_with(b"/") && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path
    }

    /// Relative links of a page need the slash.
    fn with_slash(&self, whole: &[u8]) -> Answer {
        let mut location = [whole, b"/"].concat();
        if let Some(query) = self.parts.uri.query() {
            location.extend([b"?", query.as_bytes()].concat());
        }
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
        answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        if let Ok(location) = HeaderValue::from_bytes(&location) {
            answer.headers_mut().insert(LOCATION, location);
        }
        answer
    }

    async fn pass_back(
        &self,
        response: Response<Incoming>,
        connection: BackendConnection,
        page: &Page<'_>,
    ) -> Result<Answer, Status> {
        let (mut head, mut incoming) = response.into_parts();
        drop_hop_by_hop(&mut head.headers);
        for name in [
            ACCESS_CONTROL_ALLOW_CREDENTIALS,
            ACCESS_CONTROL_ALLOW_HEADERS,
            ACCESS_CONTROL_ALLOW_METHODS,
            ACCESS_CONTROL_ALLOW_ORIGIN,
        ] {
            head.headers.remove(name);
        }
        head.headers.append(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        let mut begin = Bytes::new();
        if let Some(location) = head.headers.get(LOCATION).filter(|location| !location.is_empty()) {
            let location = String::from_utf8_lossy(location.as_bytes());
            let link = page.link(&location).ok_or_else(|| {
                Status::internal(format!(
                    "error trying to parse Location header: parse {}: invalid URL",
                    object::quote(&location)
                ))
            })?;
            if let Ok(link) = HeaderValue::try_from(link) {
                head.headers.insert(LOCATION, link);
            }
        } else if is_html(&head) && self.parts.method != Method::HEAD {
            let read = read_page(&mut incoming).await;
            let (bytes, complete) = read.map_err(|why| Status::unknown(why.to_string()))?;
            if complete {
                let encoding = head.headers.get(CONTENT_ENCODING).map(|value| value.as_bytes().to_vec());
                let rewritten =
                    rewritten(&bytes, encoding.as_deref(), page).unwrap_or_else(|| bytes.to_vec());
                head.headers.insert(CONTENT_LENGTH, HeaderValue::from(rewritten.len()));
                return Ok(Response::from_parts(head, rewritten.into()));
            }
            begin = bytes;
        }
        if incoming.is_end_stream() && begin.is_empty() {
            return Ok(Response::from_parts(head, Body::empty()));
        }
        let gauge = self.gauge(head.status.as_u16());
        let settings = ProxiedSettings { shutdown: None, cut_is_end: false, gauge, deadline: None };
        let body = ProxiedBody::new(begin, incoming, connection, settings);
        Ok(Response::from_parts(head, Body::Proxied(Box::new(body))))
    }
}

fn is_html(head: &Head) -> bool {
    let media = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    media.split(';').next().is_some_and(|media| media.trim() == "text/html")
}

/// A page, or its beginning if it is too long.
async fn read_page(incoming: &mut Incoming) -> Result<(Bytes, bool), hyper::Error> {
    let mut page = BytesMut::new();
    while let Some(frame) = incoming.frame().await {
        page.extend_from_slice(&frame?.into_data().unwrap_or_default());
        if page.len() > MAX_PAGE {
            return Ok((page.freeze(), false));
        }
    }
    Ok((page.freeze(), true))
}

/// None if the encoding is unknown, or the page too long.
fn rewritten(page: &[u8], encoding: Option<&[u8]>, links: &Page<'_>) -> Option<Vec<u8>> {
    let read = |reader: &mut dyn Read| {
        let mut html = Vec::new();
        let read = reader.take(MAX_PAGE as u64 + 1).read_to_end(&mut html).ok()?;
        (read <= MAX_PAGE).then_some(html)
    };
    match encoding {
        None | Some(b"") => Some(links.html(page)),
        Some(b"gzip") => {
            let html = links.html(&read(&mut GzDecoder::new(page))?);
            let mut out = GzEncoder::new(Vec::new(), Compression::default());
            out.write_all(&html).ok()?;
            out.finish().ok()
        }
        Some(b"deflate") => {
            let html = links.html(&read(&mut DeflateDecoder::new(page))?);
            let mut out = DeflateEncoder::new(Vec::new(), Compression::best());
            out.write_all(&html).ok()?;
            out.finish().ok()
        }
        Some(_) => None,
    }
}
