//! The headers that are passed on, and those that are not: credentials are for this server, others for one connection.

use std::net::IpAddr;

use auth::{RequestHeaders, impersonation};
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

use crate::upgrade::PendingUpgrade;
use crate::websocket::TOKEN_PROTOCOL;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// They belong to one connection.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The host the client asked.
pub fn host(parts: &Parts) -> &str {
    match parts.uri.authority() {
        Some(authority) => authority.as_str(),
        None => parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or(""),
    }
}

/// A request's headers for a backend: without credentials and what is for one connection, with the client's address. Names of users in
/// headers are credentials too, and no client's to give.
pub fn forwarded(parts: &Parts, peer: Option<IpAddr>, credentials: Option<&RequestHeaders>) -> HeaderMap {
    let mut headers = parts.headers.clone();
    // Before anything is added: a client that lists our headers in `Connection` would have them removed.
    drop_hop_by_hop(&mut headers);
    headers.remove(AUTHORIZATION);
    let names: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            let name = name.as_str();
            impersonation::is_impersonation_header(name)
                || matches!(name, "x-remote-user" | "x-remote-uid" | "x-remote-group")
                || name.starts_with("x-remote-extra-")
                || credentials.is_some_and(|credentials| credentials.is_credential(name))
        })
        .cloned()
        .collect();
    names.iter().for_each(|name| _ = headers.remove(name));
    if PendingUpgrade::of(parts).is_some_and(|upgrade| upgrade.is_token_used()) {
        drop_token(&mut headers);
    }
    if let Ok(host) = HeaderValue::from_str(host(parts)) {
        headers.insert(HOST, host);
    }
    if let Some(peer) = peer {
        let mut list: Vec<&str> =
            headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok()).collect();
        let peer = peer.to_canonical().to_string();
        list.push(&peer);
        if let Ok(list) = HeaderValue::try_from(list.join(", ")) {
            headers.insert(FORWARDED_FOR, list);
        }
    }
    headers
}

/// Makes a request's forwarded headers those of one that is to be upgraded. False: it asks for nothing that there is with TLS, and is
/// a request like others.
pub fn ask_to_upgrade(parts: &Parts, headers: &mut HeaderMap, tls: bool) -> bool {
    let protocols = parts.headers.get_all(UPGRADE).iter();
    let protocols: Vec<HeaderValue> = match tls {
        true => protocols.filter_map(without_h2c).collect(),
        false => protocols.cloned().collect(),
    };
    if protocols.is_empty() {
        return false;
    }
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.remove(UPGRADE);
    protocols.into_iter().for_each(|protocol| _ = headers.append(UPGRADE, protocol));
    // For one connection, which is the client's from here on. h2c must have them, and `Connection` must name them.
    if !tls && parts.headers.contains_key(HTTP2_SETTINGS) {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade, HTTP2-Settings"));
        headers.remove(HTTP2_SETTINGS);
        let settings = parts.headers.get_all(HTTP2_SETTINGS);
        settings.iter().for_each(|settings| _ = headers.append(HTTP2_SETTINGS, settings.clone()));
    }
    true
}

/// The other protocols of an `Upgrade`, if there are any.
// Differs from kube-apiserver, which passes h2c on: with TLS there is none (RFC 7540, 3.2). A server that takes it all the same would
// hear requests in any user's name from the client, on a connection that is ours by our certificate.
fn without_h2c(protocols: &HeaderValue) -> Option<HeaderValue> {
    let is_http2 = |name: &&[u8]| name.get(..2).is_some_and(|begin| begin.eq_ignore_ascii_case(b"h2"));
    let all = protocols.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let others: Vec<&[u8]> = all.filter(|name| !name.is_empty() && !is_http2(name)).collect();
    HeaderValue::from_bytes(&others.join(&b", "[..])).ok().filter(|others| !others.is_empty())
}

/// For HTTP/1.1: says that a body of unknown length follows. hyper sends none with GET and HEAD unless their headers say so.
pub fn announce_body(headers: &mut HeaderMap, body: &impl http_body::Body) {
    let is_announced = headers.contains_key(CONTENT_LENGTH) || body.size_hint().exact().is_some();
    if !body.is_end_stream() && !is_announced {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// A token among the subprotocols was for this server.
fn drop_token(headers: &mut HeaderMap) {
    let all = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let others: Vec<&str> = all
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|protocol| !protocol.is_empty() && !protocol.starts_with(TOKEN_PROTOCOL))
        .collect();
    match HeaderValue::try_from(others.join(",")) {
        Ok(others) if !others.is_empty() => _ = headers.insert(SEC_WEBSOCKET_PROTOCOL, others),
        _ => _ = headers.remove(SEC_WEBSOCKET_PROTOCOL),
    }
}

/// Removes what is for one connection only; in a request or an answer.
pub fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let listed: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_owned())
        .collect();
    for name in listed.iter().filter(|name| !name.is_empty()) {
        headers.remove(name.as_str());
    }
    let trailers = headers.get(TE).is_some_and(|te| te.to_str().is_ok_and(|te| te.contains("trailers")));
    HOP_BY_HOP.iter().for_each(|name| _ = headers.remove(name));
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    // This server has asked for the body already.
    headers.remove(EXPECT);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Request;

    use super::*;

    #[test]
    fn credentials_stay_here() {
        let request = Request::get("/x")
            .header("authorization", "Bearer t")
            .header("impersonate-user", "jane")
            .header("impersonate-extra-a", "b")
            .header("x-remote-user", "root")
            .header("x-remote-extra-a", "b")
            .header("sec-websocket-protocol", "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.dA")
            .header("x-forwarded-for", "10.0.0.9")
            .header("host", "api")
            .header("x-other", "kept");
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        let upgrade = Arc::new(PendingUpgrade::default());
        upgrade.token_used();
        parts.extensions.insert(upgrade);
        let headers = forwarded(&parts, Some(IpAddr::from([10, 0, 0, 1])), None);
        let mut found: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        found.sort_unstable();
        let expected = [
            ("host", "api"),
            ("sec-websocket-protocol", "v4.channel.k8s.io"),
            ("x-forwarded-for", "10.0.0.9, 10.0.0.1"),
            ("x-other", "kept"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_client_cannot_list_what_is_added_as_its_connections_own() {
        let request = Request::get("/x")
            .header("connection", "keep-alive, X-Forwarded-For, Host, Upgrade, X-Mine")
            .header("upgrade", "SPDY/3.1")
            .header("x-mine", "1")
            .header("host", "api");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let mut headers = forwarded(&parts, Some(IpAddr::from([10, 0, 0, 1])), None);
        let found = |headers: &HeaderMap| {
            let all = headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
            let mut all: Vec<String> = all.collect();
            all.sort_unstable();
            all
        };
        assert_eq!(found(&headers), ["host: api", "x-forwarded-for: 10.0.0.1"]);
        assert!(ask_to_upgrade(&parts, &mut headers, true));
        let expected = ["connection: Upgrade", "host: api", "upgrade: SPDY/3.1", "x-forwarded-for: 10.0.0.1"];
        assert_eq!(found(&headers), expected);
    }

    #[test]
    fn an_upgrade_to_h2c_keeps_its_settings_and_is_none_with_tls() {
        let request = Request::get("/x")
            .header("connection", "Upgrade, HTTP2-Settings, X-Mine")
            .header("upgrade", "h2c")
            .header("http2-settings", "AAMAAABk")
            .header("x-mine", "1");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let mut headers = forwarded(&parts, None, None);
        assert!(!headers.contains_key("http2-settings"), "for this connection");
        let before = headers.clone();
        assert!(!ask_to_upgrade(&parts, &mut headers, true) && headers == before);
        assert!(ask_to_upgrade(&parts, &mut headers, false));
        let found = ["connection", "upgrade", "http2-settings"].map(|name| headers[name].to_str().unwrap());
        assert_eq!(found, ["Upgrade, HTTP2-Settings", "h2c", "AAMAAABk"]);
        assert!(!headers.contains_key("x-mine"));
        for (asked, left) in [
            ("H2C", None),
            ("h2c-17, h2 ,", None),
            ("websocket,h2c", Some("websocket")),
            (" h2c, SPDY/3.1 , x", Some("SPDY/3.1, x")),
        ] {
            let left = left.map(HeaderValue::from_static);
            assert_eq!(without_h2c(&HeaderValue::from_static(asked)), left, "{asked}");
        }
    }

    #[test]
    fn headers_of_one_connection_end_there() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Mine"),
            ("x-mine", "1"),
            ("keep-alive", "5"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers, deflate"),
            ("expect", "100-continue"),
            ("x-kept", "1"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        drop_hop_by_hop(&mut headers);
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!((names, headers.get(TE).unwrap().as_bytes()), (vec!["te", "x-kept"], &b"trailers"[..]));
    }
}
