//! The headers around a 101: what a request asks for, which subprotocol is chosen, and what both sides say.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use env::Env;
use http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

const SPDY: &str = "SPDY/3.1";
/// A WebSocket subprotocol with SPDY frames in its messages is this and the SPDY subprotocol.
const TUNNEL_PREFIX: &str = "SPDY/3.1+";

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED_VERSIONS: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

/// An upgrade agreed on: the subprotocol (may be empty), and the headers of the 101.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub protocol: String,
    pub headers: HeaderMap,
}

/// An upgrade refused: the answer to be given instead.
#[derive(Clone, Debug)]
pub struct Refused {
    pub status: StatusCode,
    pub message: String,
    pub headers: HeaderMap,
}

impl Refused {
    fn new(status: StatusCode, message: impl Into<String>) -> Refused {
        Refused { status, message: message.into(), headers: HeaderMap::new() }
    }
}

/// Whether a request asks for any upgrade.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.get_all(CONNECTION).iter().any(|value| contains(value, "upgrade"))
}

pub fn is_websocket(headers: &HeaderMap) -> bool {
    is_upgrade(headers)
        && headers.get(UPGRADE).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Whether a WebSocket can carry exec and attach with channels closed one by one: what a proxy translates to SPDY.
pub fn is_websocket_v5(headers: &HeaderMap) -> bool {
    is_websocket(headers) && websocket_protocols(headers).iter().any(|p| p == "v5.channel.k8s.io")
}

/// Whether a WebSocket has SPDY within.
pub fn is_websocket_tunnel(headers: &HeaderMap) -> bool {
    is_websocket(headers) && websocket_protocols(headers).iter().any(|p| tunneled(p).is_some())
}

/// The SPDY subprotocol within a WebSocket's.
fn tunneled(protocol: &str) -> Option<&str> {
    protocol.strip_prefix(TUNNEL_PREFIX).filter(|_| protocol.ends_with(".k8s.io"))
}

/// Agrees to a SPDY upgrade, or says why not. The client's order of subprotocols counts.
pub fn accept_spdy(headers: &HeaderMap, supported: &[&str]) -> Result<Accepted, Refused> {
    if !headers.contains_key(PROTOCOL_VERSION) {
        return Err(Refused::new(
            StatusCode::BAD_REQUEST,
            format!(
                "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with {} headers",
                headers.keys_len()
            ),
        ));
    }
    let offered = listed(headers, &PROTOCOL_VERSION);
    if offered.is_empty() {
        let values: Vec<_> =
            headers.get_all(PROTOCOL_VERSION).iter().map(|v| v.to_str().unwrap_or("")).collect();
        return Err(Refused::new(
            StatusCode::BAD_REQUEST,
            format!(
                "unable to upgrade: header X-Stream-Protocol-Version contains [{}], but no valid protocols",
                values.join(" ")
            ),
        ));
    }
    let Some(protocol) = offered.iter().find(|protocol| supported.contains(&protocol.as_str())) else {
        let mut refused = Refused::new(
            StatusCode::FORBIDDEN,
            format!(
                "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
                offered.join(" "),
                supported.join(" ")
            ),
        );
        for protocol in supported {
            refused.headers.append(ACCEPTED_VERSIONS, value(protocol));
        }
        return Err(refused);
    };
    if !is_upgrade(headers) || !headers.get(UPGRADE).is_some_and(|v| contains(v, SPDY)) {
        return Err(Refused::new(
            StatusCode::BAD_REQUEST,
            "unable to upgrade: missing upgrade headers in request",
        ));
    }
    let mut answer = upgrade_to(SPDY);
    answer.insert(PROTOCOL_VERSION, value(protocol));
    Ok(Accepted { protocol: protocol.clone(), headers: answer })
}

/// Agrees to a WebSocket upgrade, or says why not. A client that offers none gets the subprotocol `""` if that is supported.
pub fn accept_websocket(
    method: &Method,
    headers: &HeaderMap,
    supported: &[&str],
) -> Result<Accepted, Refused> {
    if method != Method::GET {
        return Err(Refused::new(StatusCode::METHOD_NOT_ALLOWED, "bad method"));
    }
    if !is_websocket(headers) {
        return Err(Refused::new(StatusCode::BAD_REQUEST, "not websocket protocol"));
    }
    let Some(key) = headers.get(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty()) else {
        return Err(Refused::new(StatusCode::BAD_REQUEST, "mismatch challenge/response"));
    };
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(Refused::new(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version"));
    }
    let mut offered = websocket_protocols(headers);
    if offered.is_empty() {
        offered.push(String::new());
    }
    let Some(protocol) = offered.iter().find(|protocol| supported.contains(&protocol.as_str())) else {
        return Err(Refused::new(
            StatusCode::FORBIDDEN,
            format!(
                "requested protocol(s) are not supported: [{}]; supports [{}]",
                offered.join(" "),
                supported.join(" ")
            ),
        ));
    };
    let mut answer = upgrade_to("websocket");
    answer.insert(SEC_WEBSOCKET_ACCEPT, value(&websocket_accept(key.as_bytes())));
    if !protocol.is_empty() {
        answer.insert(SEC_WEBSOCKET_PROTOCOL, value(protocol));
    }
    Ok(Accepted { protocol: protocol.clone(), headers: answer })
}

/// What a client sends to speak SPDY, best subprotocol first. The method is POST.
pub fn spdy_request(protocols: &[&str]) -> HeaderMap {
    let mut headers = upgrade_to(SPDY);
    for protocol in protocols {
        headers.append(PROTOCOL_VERSION, value(protocol));
    }
    headers
}

/// Checks a server's answer to [`spdy_request`]: the subprotocol it chose, none if it named none.
pub fn spdy_response(status: StatusCode, headers: &HeaderMap) -> Option<String> {
    let switched = status == StatusCode::SWITCHING_PROTOCOLS
        && is_upgrade(headers)
        && headers.get(UPGRADE).is_some_and(|value| contains(value, SPDY));
    let protocol = headers.get(PROTOCOL_VERSION).and_then(|v| v.to_str().ok()).unwrap_or_default();
    switched.then(|| protocol.trim().to_owned())
}

/// What a client sends to speak WebSocket, best subprotocol first. The method is GET.
pub fn websocket_request(env: &Env, protocols: &[&str]) -> HeaderMap {
    let mut headers = upgrade_to("websocket");
    let key: Vec<u8> = [env.random(), env.random()].iter().flat_map(|n| n.to_ne_bytes()).collect();
    headers.insert(SEC_WEBSOCKET_KEY, value(&STANDARD.encode(key)));
    headers.insert(SEC_WEBSOCKET_VERSION, value("13"));
    if !protocols.is_empty() {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, value(&protocols.join(", ")));
    }
    headers
}

/// Checks a server's answer to `request`: the subprotocol it chose, which must be one that was offered.
pub fn websocket_response(request: &HeaderMap, status: StatusCode, headers: &HeaderMap) -> Option<String> {
    let accept = websocket_accept(request.get(SEC_WEBSOCKET_KEY)?.as_bytes());
    let switched = status == StatusCode::SWITCHING_PROTOCOLS
        && is_websocket(headers)
        && headers.get(SEC_WEBSOCKET_ACCEPT).is_some_and(|value| *value == accept);
    let protocol = websocket_protocols(headers).first().cloned().unwrap_or_default();
    let offered = protocol.is_empty() || websocket_protocols(request).contains(&protocol);
    (switched && offered).then_some(protocol)
}

/// Turns the headers of a WebSocket request with SPDY within into those of the SPDY request to the node, sent with POST.
/// None if no subprotocol is such: "unable to upgrade: no tunneling spdy protocols provided" is then a 400.
pub fn tunnel_request(client: &HeaderMap) -> Option<HeaderMap> {
    let protocols = websocket_protocols(client);
    let protocols: Vec<&str> = protocols.iter().filter_map(|protocol| tunneled(protocol)).collect();
    if protocols.is_empty() {
        return None;
    }
    let mut headers = client.clone();
    for name in [SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, PROTOCOL_VERSION] {
        headers.remove(name);
    }
    headers.insert(UPGRADE, value(SPDY));
    for protocol in protocols {
        headers.append(PROTOCOL_VERSION, value(protocol));
    }
    Some(headers)
}

/// The answer to a tunnelling client, after the node agreed to speak the SPDY subprotocol `node_protocol`.
pub fn tunnel_response(
    method: &Method,
    client: &HeaderMap,
    node_protocol: &str,
) -> Result<Accepted, Refused> {
    let chosen = format!("{TUNNEL_PREFIX}{node_protocol}");
    // A node that chose none leaves the WebSocket without one, too.
    if node_protocol.is_empty() || !websocket_protocols(client).contains(&chosen) {
        let mut without = client.clone();
        without.remove(SEC_WEBSOCKET_PROTOCOL);
        return accept_websocket(method, &without, &[""]);
    }
    accept_websocket(method, client, &[&chosen])
}

/// The subprotocol of a WebSocket with `protocol` tunnelled.
pub fn tunnel_protocol(protocol: &str) -> String {
    format!("{TUNNEL_PREFIX}{protocol}")
}

fn websocket_protocols(headers: &HeaderMap) -> Vec<String> {
    listed(headers, &SEC_WEBSOCKET_PROTOCOL)
}

/// The values of a header that may be repeated, or separated by commas.
fn listed(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let items = values.flat_map(|value| value.split(',')).map(str::trim);
    items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

fn contains(value: &HeaderValue, word: &str) -> bool {
    value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains(&word.to_ascii_lowercase()))
}

fn upgrade_to(protocol: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(protocol));
    headers
}

/// Subprotocols are ours or came in a header: they fit into one.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// The proof that a server read the key, by RFC 6455.
fn websocket_accept(key: &[u8]) -> String {
    let mut text = key.to_vec();
    text.extend_from_slice(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, &text))
}

#[cfg(test)]
mod tests;
