use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, text) in pairs {
        headers.append(*name, value(text));
    }
    headers
}

#[test]
fn spdy_subprotocol_is_the_client_s_first_that_is_supported() {
    let request = spdy_request(&["v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"]);
    let accepted = accept_spdy(&request, &["channel.k8s.io", "v4.channel.k8s.io"]).unwrap();
    assert_eq!(accepted.protocol, "v4.channel.k8s.io");
    assert_eq!(accepted.headers["connection"], "Upgrade");
    assert_eq!(accepted.headers["upgrade"], "SPDY/3.1");
    let chosen = spdy_response(StatusCode::SWITCHING_PROTOCOLS, &accepted.headers);
    assert_eq!(chosen.as_deref(), Some("v4.channel.k8s.io"));
    assert_eq!(spdy_response(StatusCode::OK, &accepted.headers), None);

    let commas = headers(&[
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "spdy/3.1"),
        ("x-stream-protocol-version", "a, channel.k8s.io"),
    ]);
    assert_eq!(accept_spdy(&commas, &["channel.k8s.io"]).unwrap().protocol, "channel.k8s.io");
}

#[test]
fn spdy_refusals_are_upstream_s() {
    let nothing = accept_spdy(&headers(&[("a", "b")]), &["x"]).unwrap_err();
    assert_eq!(nothing.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        nothing.message,
        "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with 1 headers"
    );
    let other = accept_spdy(&spdy_request(&["y", "z"]), &["x"]).unwrap_err();
    assert_eq!(other.status, StatusCode::FORBIDDEN);
    assert_eq!(
        other.message,
        "unable to upgrade: unable to negotiate protocol: client supports [y z], server accepts [x]"
    );
    assert_eq!(other.headers["x-accepted-stream-protocol-versions"], "x");
    let plain = headers(&[("x-stream-protocol-version", "x")]);
    assert_eq!(accept_spdy(&plain, &["x"]).unwrap_err().status, StatusCode::BAD_REQUEST);
}

#[test]
fn websocket_handshake_is_rfc_6455_s() {
    let request = headers(&[
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "v5.channel.k8s.io, v4.channel.k8s.io"),
    ]);
    assert!(is_websocket_v5(&request) && !is_websocket_tunnel(&request));
    let accepted = accept_websocket(&Method::GET, &request, &["v4.channel.k8s.io", ""]).unwrap();
    assert_eq!(accepted.headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_eq!(accepted.headers["sec-websocket-protocol"], "v4.channel.k8s.io");
    let chosen = websocket_response(&request, StatusCode::SWITCHING_PROTOCOLS, &accepted.headers);
    assert_eq!(chosen.as_deref(), Some("v4.channel.k8s.io"));
    let mut forged = accepted.headers.clone();
    forged.insert(SEC_WEBSOCKET_ACCEPT, value("x"));
    assert_eq!(websocket_response(&request, StatusCode::SWITCHING_PROTOCOLS, &forged), None);

    let refusal = |method, name: &str, text: &str| {
        let mut broken = request.clone();
        broken.insert(HeaderName::from_bytes(name.as_bytes()).unwrap(), value(text));
        accept_websocket(method, &broken, &["v4.channel.k8s.io"]).err().map(|refused| refused.status.as_u16())
    };
    assert_eq!(refusal(&Method::POST, "a", "b"), Some(405));
    assert_eq!(refusal(&Method::GET, "sec-websocket-version", "8"), Some(400));
    assert_eq!(refusal(&Method::GET, "sec-websocket-key", ""), Some(400));
    assert_eq!(refusal(&Method::GET, "upgrade", "h2c"), Some(400));
    assert_eq!(refusal(&Method::GET, "sec-websocket-protocol", "chat"), Some(403));
}

#[test]
fn tunnel_request_becomes_spdy_and_its_answer_websocket_again() {
    let env = env::Env::machine();
    let mut request = websocket_request(&env, &["SPDY/3.1+portforward.k8s.io", "other"]);
    request.insert("authorization", value("Bearer t"));
    assert!(is_websocket_tunnel(&request));
    let node = tunnel_request(&request).unwrap();
    assert_eq!(node["upgrade"], "SPDY/3.1");
    assert_eq!(node["x-stream-protocol-version"], "portforward.k8s.io");
    assert_eq!(node["authorization"], "Bearer t");
    assert!(!node.contains_key("sec-websocket-key") && !node.contains_key("sec-websocket-protocol"));
    assert!(accept_spdy(&node, &["portforward.k8s.io"]).is_ok());

    let accepted = tunnel_response(&Method::GET, &request, "portforward.k8s.io").unwrap();
    let chosen = websocket_response(&request, StatusCode::SWITCHING_PROTOCOLS, &accepted.headers);
    assert_eq!(chosen.as_deref(), Some("SPDY/3.1+portforward.k8s.io"));
    assert!(tunnel_request(&websocket_request(&env, &["v5.channel.k8s.io"])).is_none());
}
