//! Servers that do not answer as they should, and what is said of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use webhook::{Call, CallError};

use super::hook::*;

const UNEXPECTED: &str = "unexpected error when reading response body. Please retry. Original error: ";

/// What a server of that kind is refused with; `URL` stands for where it was called.
async fn refused_by(speaks: Speaks, timeout: std::time::Duration, answer: fn() -> Reply) -> String {
    let ca = Ca::new();
    let hook = Hook::start(&ca.serving(&["127.0.0.1"]), speaks, move |_| answer()).await;
    let error = refused(&client(), &config(&hook.url("/x"), ca.issuer.ca_pem()), timeout).await;
    let seconds = timeout.as_secs().max(1);
    error.replace(&hook.url(&format!("/x?timeout={seconds}s")), "URL")
}

#[tokio::test]
async fn answers_that_break_off() {
    assert_eq!(refused_by(Speaks::Http1, LONG, || Reply::Closes).await, r#"Post "URL": EOF"#);
    let body = refused_by(Speaks::Http1, LONG, || Reply::BreaksOff(b"{\"kind\"".to_vec())).await;
    assert_eq!(body, format!("{UNEXPECTED}unexpected EOF"));
    let reset = refused_by(Speaks::Both, LONG, || Reply::Closes).await;
    assert_eq!(reset, r#"Post "URL": stream error: INTERNAL_ERROR; received from peer"#);
    let body = refused_by(Speaks::Both, LONG, || Reply::BreaksOff(b"{\"kind\"".to_vec())).await;
    assert_eq!(
        body,
        "stream error when reading response body, may be caused by closed connection. Please retry. Original error: stream error: INTERNAL_ERROR; received from peer"
    );
}

#[tokio::test]
async fn answers_that_do_not_come_in_time() {
    for speaks in [Speaks::Both, Speaks::Http1] {
        let head = refused_by(speaks, SHORT, || Reply::Never).await;
        assert_eq!(head, r#"Post "URL": context deadline exceeded"#);
        let body = refused_by(speaks, SHORT, || Reply::Stalls(b"{".to_vec())).await;
        assert_eq!(body, format!("{UNEXPECTED}context deadline exceeded"));
    }
}

#[tokio::test]
async fn nobody_listens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = config(&format!("https://{address}/x"), Ca::new().issuer.ca_pem());
    let error = client().post(Call::new(&config, "{}", LONG)).await.unwrap_err();
    let why =
        format!("Post \"https://{address}/x?timeout=20s\": dial tcp {address}: connect: connection refused");
    assert_eq!(error.to_string(), why);
    assert_eq!(
        error.of_admission("a.example.com"),
        format!("failed calling webhook \"a.example.com\": failed to call webhook: {why}")
    );
    assert_eq!(error.code(), 503);
}

#[tokio::test]
async fn a_name_nobody_has() {
    let config = config("https://no.such.host.invalid/x", Ca::new().issuer.ca_pem());
    let error = refused(&client(), &config, LONG).await;
    let why = "Post \"https://no.such.host.invalid/x?timeout=20s\": dial tcp: lookup no.such.host.invalid: no such host";
    assert_eq!(error, why);
}

#[tokio::test]
async fn refusals_and_empty_answers() {
    let full = |code, body: &'static str| {
        move || Reply::Full(code, vec![("content-type", "text/plain")], body.into())
    };
    for speaks in [Speaks::Both, Speaks::Http1] {
        let ca = Ca::new();
        let hook =
            Hook::start(&ca.serving(&["127.0.0.1"]), speaks, move |seen| match seen.path.split('?').next() {
                Some("/500") => full(500, "boo")(),
                Some("/404") => full(404, "404 page not found")(),
                Some("/empty") => Reply::json(""),
                _ => Reply::Full(204, Vec::new(), Vec::new()),
            })
            .await;
        let client = client();
        for (path, expected) in [
            ("/500", r#"an error on the server ("boo") has prevented the request from succeeding"#),
            ("/404", "the server could not find the requested resource"),
            ("/empty", "0-length response with status code: 200 and content type: application/json"),
            ("/204", "0-length response with status code: 204 and content type: application/json"),
        ] {
            assert_eq!(refused(&client, &config(&hook.url(path), ca.issuer.ca_pem()), LONG).await, expected);
        }
        assert_eq!(hook.opened(), 1, "a refusal does not cost the connection");
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let ca = Ca::new();
    let identity = ca.serving(&["127.0.0.1"]);
    let hook = Hook::start(&identity, Speaks::Both, |seen| match seen.path.starts_with("/from") {
        true => Reply::Full(307, vec![("location", "/to")], Vec::new()),
        false => Reply::json("{}"),
    })
    .await;
    let error = refused(&client(), &config(&hook.url("/from"), ca.issuer.ca_pem()), LONG).await;
    assert_eq!(error, "the server responded with the status code 307 but did not return more information");
    assert_eq!(hook.requests(), 1);
}

#[tokio::test]
async fn a_server_may_say_later() {
    let ca = Ca::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Http1, move |seen| {
        let hour = if seen.path.starts_with("/hour") { "3600" } else { "0" };
        match count.fetch_add(1, Ordering::Relaxed) % 3 {
            2 => Reply::json("{}"),
            1 => Reply::Full(503, vec![("retry-after", hour)], b"later".to_vec()),
            _ => Reply::Full(429, vec![("retry-after", hour)], b"later".to_vec()),
        }
    })
    .await;
    let client = client();
    post(&client, &config(&hook.url("/"), ca.issuer.ca_pem())).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    // But no later than the call can wait.
    let error = client.post(Call::new(&config(&hook.url("/hour"), ca.issuer.ca_pem()), "{}", SHORT)).await;
    let error = error.unwrap_err();
    assert!(matches!(error, CallError::NoAnswer { .. }), "{error:?}");
    assert!(error.to_string().ends_with("context deadline exceeded"), "{error}");
}

#[tokio::test]
async fn a_server_that_says_later_for_ever_is_believed_in_the_end() {
    let ca = Ca::new();
    let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Both, |_| {
        Reply::Full(503, vec![("retry-after", "0")], Vec::new())
    })
    .await;
    let error = refused(&client(), &config(&hook.url("/"), ca.issuer.ca_pem()), LONG).await;
    assert_eq!(error, "the server is currently unable to handle the request");
    assert_eq!(hook.requests(), 11);
}

#[tokio::test]
async fn after_a_call_that_got_no_answer_another_connection_is_used() {
    let ca = Ca::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Both, move |_| {
        match asked.fetch_add(1, Ordering::Relaxed) {
            1 => Reply::Never,
            _ => Reply::json("{}"),
        }
    })
    .await;
    let (client, config) = (client(), config(&hook.url("/"), ca.issuer.ca_pem()));
    post(&client, &config).await.unwrap();
    client.post(Call::new(&config, "{}", SHORT)).await.unwrap_err();
    post(&client, &config).await.unwrap();
    assert_eq!(hook.opened(), 2, "the first one may be dead");
}
