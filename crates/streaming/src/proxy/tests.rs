use http::Method;
use tokio::io::duplex;

use super::*;
use crate::portforward;
use crate::remotecommand::{Outcome, negotiate};
use crate::spdy::Settings;
use crate::upgrade::{spdy_request, websocket_request};

const ALL: Options = Options { stdin: true, stdout: true, stderr: true, tty: false };

fn io() -> (Io, Io) {
    let (near, far) = duplex(1000);
    (Box::new(near), Box::new(far))
}

/// A client of the translator, whose node runs `serve`; what the client saw.
async fn through_translator<F: Future<Output = ()>>(
    env: &Env,
    serve: impl FnOnce(Session) -> F,
) -> (Vec<u8>, Result<(), Failure>) {
    let ((client_near, client_far), (node_near, node_far)) = (io(), io());
    let (from_client, _) = negotiate(&Method::GET, &websocket_request(env, &["v5.channel.k8s.io"])).unwrap();
    let (from_proxy, _) = negotiate(&Method::POST, &spdy_request(&["v4.channel.k8s.io"])).unwrap();
    let proxy = translate(env, client_far, &from_client, &ALL, async { Ok((node_near, Version::V4)) });
    let node = async { serve(Session::accept(env, node_far, &from_proxy, &ALL).await.unwrap()).await };
    let client = async {
        let client = Client::start(env, client_near, Transport::WebSocket, &ALL).await.unwrap();
        let stdin = client.stdin.as_ref().unwrap();
        stdin.send(b"some input").await.unwrap();
        stdin.finish();
        let (out, status) = tokio::join!(client.stdout.as_ref().unwrap().read_all(1 << 20), client.status());
        (out.unwrap(), status)
    };
    tokio::join!(client, proxy, node).0
}

#[tokio::test(start_paused = true)]
async fn exec_is_translated_with_its_exit_code() {
    let env = Env::simulated(1);
    let echo = async |session: Session| {
        let input = session.stdin.as_ref().unwrap().read_all(1000).await.unwrap();
        session.stdout.as_ref().unwrap().send(&input.repeat(1000)).await.unwrap();
        session.finish(&Outcome::Exited { code: 42, detail: String::new() }).await;
    };
    let (out, status) = through_translator(&env, echo).await;
    assert!(out == b"some input".repeat(1000));
    assert_eq!(status, Err(Failure::Exited(42)));
}

#[tokio::test(start_paused = true)]
async fn failure_of_the_node_is_a_failure_of_the_client() {
    let env = Env::simulated(1);
    let fail = async |session: Session| session.finish(&Outcome::Failed("no container".to_owned())).await;
    let (_, status) = through_translator(&env, fail).await;
    let message = "Internal error occurred: Internal error occurred: no container";
    assert_eq!(status, Err(Failure::Message(message.to_owned())));

    let (_, status) = through_translator(&env, async |session: Session| drop(session)).await;
    let message = "Internal error occurred: error stream closed without a status";
    assert_eq!(status, Err(Failure::Message(message.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn node_that_cannot_be_reached_is_told_by_a_status() {
    let env = Env::simulated(1);
    let (negotiated, _) = negotiate(&Method::GET, &websocket_request(&env, &["v5.channel.k8s.io"])).unwrap();
    for (error, expected) in [
        (NodeError::Message("dial tcp: refused".to_owned()), "Internal error occurred: dial tcp: refused"),
        (
            NodeError::Status(Bytes::from_static(
                br#"{"status":"Failure","message":"pod is gone","code":404}"#,
            )),
            "pod is gone",
        ),
    ] {
        let (near, far) = io();
        let proxy = translate(&env, far, &negotiated, &ALL, async { Err(error) });
        let client =
            async { Client::start(&env, near, Transport::WebSocket, &ALL).await.unwrap().status().await };
        let (status, code) = tokio::join!(client, proxy);
        assert_eq!(status, Err(Failure::Message(expected.to_owned())));
        assert_eq!(code, if expected == "pod is gone" { 404 } else { 500 });
    }
}

#[tokio::test(start_paused = true)]
async fn client_that_goes_away_frees_the_node() {
    let env = Env::simulated(1);
    let ((client_near, client_far), (node_near, node_far)) = (io(), io());
    let (from_client, _) = negotiate(&Method::GET, &websocket_request(&env, &["v5.channel.k8s.io"])).unwrap();
    let (from_proxy, _) = negotiate(&Method::POST, &spdy_request(&["v4.channel.k8s.io"])).unwrap();
    let proxy = translate(&env, client_far, &from_client, &ALL, async { Ok((node_near, Version::V4)) });
    let node = async {
        let session = Session::accept(&env, node_far, &from_proxy, &ALL).await.unwrap();
        session.stdout.as_ref().unwrap().send(b"x").await.unwrap();
        session.closed().await;
    };
    let client = async {
        let client = Client::start(&env, client_near, Transport::WebSocket, &ALL).await.unwrap();
        assert_eq!(client.stdout.as_ref().unwrap().chunk().await.unwrap(), &b"x"[..]);
    };
    tokio::join!(proxy, node, client);
}

#[tokio::test(start_paused = true)]
async fn port_forward_is_tunnelled_to_a_node_s_spdy() {
    let env = Env::simulated(1);
    let ((client_near, client_far), (node_near, node_far)) = (io(), io());
    let proxy = tunnel(&env, client_far, node_near);
    let forward: portforward::Forward = std::sync::Arc::new(|port, stream| {
        Box::pin(async move {
            let _ = stream.send(port.to_string().as_bytes()).await;
            stream.finish();
            Ok(())
        })
    });
    let node = portforward::serve(&env, node_far, &portforward::Negotiated::Spdy, "p", "u", forward);
    let client = async {
        let client = portforward::Client::tunnel(&env, client_near, Settings::default());
        let (mut user, local) = duplex(100);
        client.forward(8080, local).await.unwrap();
        let mut all = Vec::new();
        user.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"8080");
    };
    tokio::join!(proxy, node, client);
}

#[tokio::test(start_paused = true)]
async fn upgraded_connection_passes_through_as_it_is() {
    let env = Env::simulated(1);
    let ((client_near, client_far), (node_near, node_far)) = (io(), io());
    let proxy = pass_through(client_far, node_near);
    let (negotiated, _) = negotiate(&Method::GET, &websocket_request(&env, &["v5.channel.k8s.io"])).unwrap();
    let node = async {
        let session = Session::accept(&env, node_far, &negotiated, &ALL).await.unwrap();
        let input = session.stdin.as_ref().unwrap().read_all(100).await.unwrap();
        session.stdout.as_ref().unwrap().send(&input).await.unwrap();
        session.finish(&Outcome::Success).await;
    };
    let client = async {
        let client = Client::start(&env, client_near, Transport::WebSocket, &ALL).await.unwrap();
        let stdin = client.stdin.as_ref().unwrap();
        stdin.send(b"as it is").await.unwrap();
        stdin.finish();
        let (out, status) = tokio::join!(client.stdout.as_ref().unwrap().read_all(100), client.status());
        assert_eq!((&out.unwrap()[..], status), (&b"as it is"[..], Ok(())));
    };
    tokio::join!(proxy, node, client);
}
