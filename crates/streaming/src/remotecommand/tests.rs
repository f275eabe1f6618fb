use std::time::Duration;

use env::Env;
use tokio::io::duplex;

use super::*;
use crate::upgrade::{spdy_request, websocket_request};
use crate::websocket::Role;

const ALL: Options = Options { stdin: true, stdout: true, stderr: true, tty: false };

fn negotiated(headers: &HeaderMap) -> Negotiated {
    negotiate(&Method::GET, headers).unwrap().0
}

/// A "process": what comes in goes out in upper case, and its length to stderr.
async fn shout(mut session: Session, outcome: Outcome) {
    let input = session.stdin.take().unwrap();
    let all = input.read_all(1 << 20).await.unwrap();
    session.stdout.as_ref().unwrap().send(&all.to_ascii_uppercase()).await.unwrap();
    if let Some(stderr) = &session.stderr {
        stderr.send(all.len().to_string().as_bytes()).await.unwrap();
    }
    session.finish(&outcome).await;
}

/// Runs the process between a client and a server: stdout, stderr, and how it ended.
async fn run(
    env: &Env,
    transport: Transport,
    headers: &HeaderMap,
    outcome: Outcome,
) -> (Vec<u8>, Vec<u8>, Result<(), Failure>) {
    let (near, far) = duplex(1000);
    let negotiated = negotiated(headers);
    let server = async {
        let session = Session::accept(env, Box::new(far), &negotiated, &ALL).await.unwrap();
        shout(session, outcome).await;
    };
    let client = async {
        let client = Client::start(env, Box::new(near), transport, &ALL).await.unwrap();
        let input = async {
            let stdin = client.stdin.as_ref().unwrap();
            stdin.send(&b"hello ".repeat(10_000)).await.unwrap();
            stdin.finish();
        };
        let (stdout, stderr) = (client.stdout.as_ref().unwrap(), client.stderr.as_ref().unwrap());
        let ((), out, err, status) =
            tokio::join!(input, stdout.read_all(1 << 20), stderr.read_all(1 << 20), client.status());
        (out.unwrap(), err.unwrap(), status)
    };
    tokio::join!(server, client).1
}

#[tokio::test(start_paused = true)]
async fn process_runs_over_every_transport_and_version() {
    let env = Env::simulated(1);
    let exited = Outcome::Exited { code: 3, detail: "error executing command [x], exit code 3".to_owned() };
    let spdy = |version: Version| (Transport::Spdy(version), spdy_request(&[version.name()]));
    for (transport, headers) in [
        spdy(Version::V2),
        spdy(Version::V3),
        spdy(Version::V4),
        (Transport::WebSocket, websocket_request(&env, &["v5.channel.k8s.io"])),
    ] {
        let with_code = !matches!(transport, Transport::Spdy(Version::V2 | Version::V3));
        let (out, err, status) = run(&env, transport, &headers, Outcome::Success).await;
        assert!(out == b"HELLO ".repeat(10_000), "{transport:?}");
        assert_eq!((&err[..], status), (&b"60000"[..], Ok(())), "{transport:?}");

        let (_, _, status) = run(&env, transport, &headers, exited.clone()).await;
        let text = "error executing remote command: command terminated with non-zero exit code: \
                    error executing command [x], exit code 3";
        let expected = if with_code { Failure::Exited(3) } else { Failure::Message(text.to_owned()) };
        assert_eq!(status, Err(expected), "{transport:?}");

        let failed = Outcome::Failed("error executing command in container: gone".to_owned());
        let (_, _, status) = run(&env, transport, &headers, failed).await;
        let message = "Internal error occurred: error executing command in container: gone";
        let prefix = if with_code { "" } else { "error executing remote command: " };
        assert_eq!(status, Err(Failure::Message(format!("{prefix}{message}"))), "{transport:?}");
    }
}

#[test]
fn server_chooses_as_upstream_s() {
    let env = Env::machine();
    let chosen = |headers: &HeaderMap| negotiate(&Method::GET, headers).unwrap().1.protocol;
    assert_eq!(chosen(&spdy_request(&SPDY_CLIENT_PROTOCOLS)), "v4.channel.k8s.io");
    assert_eq!(chosen(&websocket_request(&env, &["v5.channel.k8s.io"])), "v5.channel.k8s.io");
    assert_eq!(chosen(&websocket_request(&env, &["base64.channel.k8s.io"])), "base64.channel.k8s.io");
    assert_eq!(chosen(&websocket_request(&env, &[])), "");
    let both = websocket_request(&env, &["v4.channel.k8s.io", "v5.channel.k8s.io"]);
    assert_eq!(chosen(&both), "v5.channel.k8s.io");
    assert!(negotiate(&Method::GET, &websocket_request(&env, &["v2.channel.k8s.io"])).is_err());
}

#[tokio::test(start_paused = true)]
async fn old_websocket_protocols_are_served() {
    let env = Env::simulated(1);
    for (protocol, codec, status) in [
        ("v4.channel.k8s.io", Codec::Binary, &br#"{"status":"Success"}"#[..]),
        ("v4.base64.channel.k8s.io", Codec::Base64, br#"{"status":"Success"}"#),
        ("base64.channel.k8s.io", Codec::Base64, b""),
        ("channel.k8s.io", Codec::Binary, b""),
    ] {
        let (near, far) = duplex(1000);
        let negotiated = negotiated(&websocket_request(&env, &[protocol]));
        let server = async {
            let session = Session::accept(&env, Box::new(far), &negotiated, &ALL).await.unwrap();
            // These protocols cannot end stdin: one message is the input.
            let input = session.stdin.as_ref().unwrap().chunk().await.unwrap();
            session.stdout.as_ref().unwrap().send(&input).await.unwrap();
            session.finish(&Outcome::Success).await;
        };
        let client = async {
            let role = Role::Client(env.clone());
            let (_link, channels) = Channels::new::<5>(&env, Box::new(near), role, codec, None);
            channels[0].send(b"ping").await.unwrap();
            tokio::join!(channels[1].read_all(100), channels[3].read_all(1000))
        };
        let ((out, error), ()) = tokio::join!(client, server);
        assert_eq!((&out.unwrap()[..], &error.unwrap()[..]), (&b"ping"[..], status), "{protocol}");
    }
}

#[tokio::test(start_paused = true)]
async fn first_version_ends_stdin_s_other_half_and_hides_errors() {
    let env = Env::simulated(1);
    let (near, far) = duplex(1000);
    let negotiated = negotiated(&spdy_request(&["channel.k8s.io"]));
    let server = async {
        let session = Session::accept(&env, Box::new(far), &negotiated, &ALL).await.unwrap();
        session.finish(&Outcome::Failed("hidden".to_owned())).await;
    };
    let client = async {
        let transport = Transport::Spdy(Version::V1);
        let client = Client::start(&env, Box::new(near), transport, &ALL).await.unwrap();
        client.status().await
    };
    assert_eq!(tokio::join!(server, client).1, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn terminal_sizes_arrive_in_order() {
    let env = Env::simulated(1);
    let options = Options { stderr: false, tty: true, ..ALL };
    for (transport, headers) in [
        (Transport::Spdy(Version::V4), spdy_request(&["v4.channel.k8s.io"])),
        (Transport::WebSocket, websocket_request(&env, &["v5.channel.k8s.io"])),
    ] {
        let (near, far) = duplex(1000);
        let negotiated = negotiated(&headers);
        let server = async {
            let mut session = Session::accept(&env, Box::new(far), &negotiated, &options).await.unwrap();
            let mut resize = session.resize.take().unwrap();
            let sizes = [resize.next().await, resize.next().await];
            session.finish(&Outcome::Success).await;
            sizes
        };
        let client = async {
            let client = Client::start(&env, Box::new(near), transport, &options).await.unwrap();
            let resize = client.resize.as_ref().unwrap();
            resize.send(TerminalSize { width: 80, height: 24 }).await.unwrap();
            // Without a newline, in another case, in two pieces.
            resize.stream().send(b"{\"width\":1").await.unwrap();
            resize.stream().send(b"00,\"height\":50,\"other\":[]}").await.unwrap();
            client.status().await
        };
        let (sizes, status) = tokio::join!(server, client);
        let size = |width, height| Some(TerminalSize { width, height });
        assert_eq!((sizes, status), ([size(80, 24), size(100, 50)], Ok(())));
    }
}

#[tokio::test(start_paused = true)]
async fn client_that_never_opens_its_streams_is_given_up_on() {
    let env = Env::simulated(1);
    let (_near, far) = duplex(1000);
    let negotiated = negotiated(&spdy_request(&["v4.channel.k8s.io"]));
    let accepted = Session::accept(&env, Box::new(far), &negotiated, &ALL).await;
    assert_eq!(accepted.err(), Some(StreamsError::Timeout));
}

#[tokio::test(start_paused = true)]
async fn client_that_goes_away_ends_the_session() {
    let env = Env::simulated(1);
    for (transport, headers) in [
        (Transport::Spdy(Version::V4), spdy_request(&["v4.channel.k8s.io"])),
        (Transport::WebSocket, websocket_request(&env, &["v5.channel.k8s.io"])),
    ] {
        let (near, far) = duplex(1000);
        let negotiated = negotiated(&headers);
        let server = async {
            let session = Session::accept(&env, Box::new(far), &negotiated, &ALL).await.unwrap();
            session.closed().await;
            assert!(session.stdout.as_ref().unwrap().send(b"x").await.is_err());
            session.finish(&Outcome::Success).await;
        };
        let client = async {
            drop(Client::start(&env, Box::new(near), transport, &ALL).await.unwrap());
        };
        tokio::join!(server, client);
    }
}

#[tokio::test(start_paused = true)]
async fn status_that_never_came_is_a_failure() {
    let env = Env::simulated(1);
    let (near, far) = duplex(1000);
    let negotiated = negotiated(&spdy_request(&["v4.channel.k8s.io"]));
    let server = async {
        let session = Session::accept(&env, Box::new(far), &negotiated, &ALL).await.unwrap();
        // The node dies.
        drop(session);
    };
    let client = async {
        let client = Client::start(&env, Box::new(near), Transport::Spdy(Version::V4), &ALL).await.unwrap();
        client.status().await
    };
    let status = tokio::join!(server, client).1;
    assert_eq!(status, Err(Failure::Message("error stream closed without a status".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn client_that_does_not_read_does_not_hold_the_server_for_ever() {
    let env = Env::simulated(1);
    let (near, far) = duplex(1000);
    let negotiated = negotiated(&spdy_request(&["v4.channel.k8s.io"]));
    let accept = Session::accept(&env, Box::new(far), &negotiated, &ALL);
    let start = Client::start(&env, Box::new(near), Transport::Spdy(Version::V4), &ALL);
    let (session, _client) = tokio::join!(accept, start);
    let session = session.unwrap();
    let stdout = session.stdout.as_ref().unwrap();
    let filled = env.timeout(Duration::from_secs(1), async {
        loop {
            stdout.send(&[0; 10_000]).await.unwrap();
        }
    });
    assert!(filled.await.is_err(), "unread output is bounded");
    let start = env.monotonic();
    session.finish(&Outcome::Success).await;
    assert!((env.monotonic() - start).as_secs() <= 10);
}

#[test]
fn statuses_are_upstream_s_byte_for_byte() {
    let text = |outcome: Outcome| String::from_utf8(outcome.encode(true).unwrap()).unwrap();
    assert_eq!(text(Outcome::Success), r#"{"status":"Success"}"#);
    assert_eq!(
        text(Outcome::Exited { code: 3, detail: "exit \"3\"".to_owned() }),
        r#"{"status":"Failure","message":"command terminated with non-zero exit code: exit \"3\"","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#
    );
    assert_eq!(
        text(Outcome::Failed("no such container".to_owned())),
        r#"{"status":"Failure","message":"Internal error occurred: no such container","reason":"InternalError","code":500}"#
    );
    assert_eq!(api_status(&Ok(())), r#"{"metadata":{},"status":"Success"}"#);
    assert_eq!(
        api_status(&Err(Failure::Exited(7))),
        r#"{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: command terminated with exit code 7","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}"#
    );
}

#[test]
fn broken_statuses_are_named() {
    use super::status::decode_status;
    let message = |text: &str| decode_status(text.as_bytes()).unwrap_err().to_string();
    assert!(message("nonsense").starts_with("error stream protocol error: "));
    assert_eq!(message("{}"), "error stream protocol error: unknown error");
    let failure = r#"{"status":"Failure","reason":"NonZeroExitCode""#;
    assert_eq!(message(&format!("{failure}}}")), "error stream protocol error: details must be set");
    assert_eq!(
        message(&format!(r#"{failure},"details":{{}}}}"#)),
        "error stream protocol error: no ExitCode cause given"
    );
    let code = r#""details":{"causes":[{"reason":"ExitCode","message":"300"}]}"#;
    assert_eq!(
        message(&format!("{failure},{code}}}")),
        "error stream protocol error: invalid exit code value \"300\""
    );
}

#[test]
fn options_are_read_from_a_node_s_query() {
    let options = |pairs: &[(&'static str, &'static str)]| Options::from_query(pairs.iter().copied());
    assert_eq!(
        options(&[("input", "1"), ("output", "1"), ("error", "1"), ("tty", "1"), ("command", "x")]),
        Ok(Options { stdin: true, stdout: true, stderr: false, tty: true })
    );
    for all in [ALL, Options { stdin: false, stderr: false, tty: true, ..ALL }] {
        assert_eq!(Options::from_query(all.to_query()), Ok(all));
    }
    assert_eq!(options(&[("output", "true")]), Err("you must specify at least 1 of stdin, stdout, stderr"));
}
