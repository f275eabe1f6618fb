//! Exec, attach and port-forward with the clients kubectl has.

use http::{HeaderMap, Method, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use streaming::Io;
use streaming::remotecommand::{
    Client, Failure, Options, SPDY_CLIENT_PROTOCOLS, TerminalSize, Transport, Version,
};
use streaming::{portforward, spdy, upgrade};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use super::fixture::{Fixture, USER, parse, text};

const ALL: Options = Options { stdin: true, stdout: true, stderr: true, tty: false };
const OUTPUT: Options = Options { stdin: false, ..ALL };

/// What the client and the server agreed on.
#[derive(Clone, Copy, Debug)]
pub enum Over {
    Spdy,
    WebSocket,
}

pub const BOTH: [Over; 2] = [Over::Spdy, Over::WebSocket];

pub async fn switched(response: Response<Incoming>) -> Io {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        panic!("{:?}", text(response).await);
    }
    Box::new(TokioIo::new(hyper::upgrade::on(response).await.unwrap()))
}

fn target(path: &str, command: &[&str], options: &Options) -> String {
    let words = command.iter().map(|word| {
        let encoded = percent_encoding::utf8_percent_encode(word, percent_encoding::NON_ALPHANUMERIC);
        format!("command={encoded}&")
    });
    let streams = options.to_query().map(|(name, value)| format!("{name}={value}&"));
    format!("{path}?{}", words.chain(streams).collect::<String>())
}

pub async fn start(fixture: &Fixture, over: Over, path: &str, command: &[&str], options: &Options) -> Client {
    let target = target(path, command, options);
    let (transport, response) = match over {
        Over::Spdy => {
            let headers = upgrade::spdy_request(&SPDY_CLIENT_PROTOCOLS);
            let response = fixture.send(Some(USER), Method::POST, &target, headers).await;
            let protocol = upgrade::spdy_response(response.status(), response.headers());
            (
                Transport::Spdy(protocol.and_then(|name| Version::parse(&name)).unwrap_or(Version::V1)),
                response,
            )
        }
        Over::WebSocket => {
            let headers = upgrade::websocket_request(&fixture.env, &["v5.channel.k8s.io"]);
            let response = fixture.send(Some(USER), Method::GET, &target, headers.clone()).await;
            let chosen = upgrade::websocket_response(&headers, response.status(), response.headers());
            assert_eq!(chosen.as_deref(), Some("v5.channel.k8s.io"));
            (Transport::WebSocket, response)
        }
    };
    Client::start(&fixture.env, switched(response).await, transport, options).await.unwrap()
}

/// Output, errors, and how it ended.
pub async fn outcome(mut client: Client, input: &[u8]) -> (String, String, Result<(), Failure>) {
    let (stdin, mut stdout, mut stderr) = (client.stdin.take(), client.stdout.take(), client.stderr.take());
    let (mut out, mut err) = (String::new(), String::new());
    let write = async {
        if let Some(stdin) = &stdin {
            stdin.send(input).await.unwrap();
            stdin.finish();
        }
    };
    let read_out = async {
        if let Some(stdout) = &mut stdout {
            stdout.read_to_string(&mut out).await.unwrap();
        }
    };
    let read_err = async {
        if let Some(stderr) = &mut stderr {
            stderr.read_to_string(&mut err).await.unwrap();
        }
    };
    let (_, _, _, status) = tokio::join!(write, read_out, read_err, client.status());
    (out, err, status)
}

#[tokio::test]
async fn exec_has_output_and_an_exit_code() {
    let fixture = Fixture::start().await;
    for over in BOTH {
        let command = ["sh", "-c", "echo out; echo err >&2; exit 3"];
        let client = start(&fixture, over, "/exec/default/web/app", &command, &OUTPUT).await;
        let (out, err, status) = outcome(client, b"").await;
        assert_eq!((out.as_str(), err.as_str()), ("out\n", "err\n"), "{over:?}");
        assert_eq!(status, Err(Failure::Exited(3)));
        let client = start(&fixture, over, "/exec/default/web/u1/app", &["true"], &OUTPUT).await;
        assert_eq!(outcome(client, b"").await, (String::new(), String::new(), Ok(())));
    }
}

#[tokio::test]
async fn exec_reads_input_to_its_end() {
    let fixture = Fixture::start().await;
    // More than any buffer on the way.
    let input = "some text\n".repeat(100_000);
    for over in BOTH {
        let client = start(&fixture, over, "/exec/default/web/app", &["cat"], &ALL).await;
        let (out, _, status) = outcome(client, input.as_bytes()).await;
        assert_eq!(status, Ok(()), "{over:?}");
        assert!(out == input, "{over:?}: {} bytes", out.len());
    }
}

#[tokio::test]
async fn a_process_that_does_not_read_holds_nothing_up() {
    let fixture = Fixture::start().await;
    let input = vec![b'x'; 4 << 20];
    for over in BOTH {
        let client = start(&fixture, over, "/exec/default/web/app", &["echo", "done"], &ALL).await;
        // The session ends with the process, and so may the rest of the input.
        let (mut stdout, stdin) = (client.stdout, client.stdin.unwrap());
        let mut out = String::new();
        let read = async { stdout.as_mut().unwrap().read_to_string(&mut out).await };
        let (_, read) = tokio::join!(stdin.send(&input), read);
        read.unwrap();
        assert_eq!(out, "done\n", "{over:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_executed_is_told() {
    let fixture = Fixture::start().await;
    for over in BOTH {
        let client = start(&fixture, over, "/exec/default/web/app", &["missing"], &OUTPUT).await;
        let (_, _, status) = outcome(client, b"").await;
        let message = "Internal error occurred: error executing command in container: exec: \"missing\": executable file not found in $PATH";
        assert_eq!(status, Err(Failure::Message(message.to_owned())), "{over:?}");
    }
    let refused = async |path: &str, command: &str| {
        let headers = upgrade::spdy_request(&SPDY_CLIENT_PROTOCOLS);
        let target = format!("{path}?output=1&command={command}");
        text(fixture.send(Some(USER), Method::POST, &target, headers).await).await
    };
    let told = |status: StatusCode, message: &str| (status, message.to_owned());
    assert_eq!(
        refused("/exec/default/web/app", "gone").await,
        told(StatusCode::NOT_FOUND, "rpc error: code = NotFound desc = container is gone")
    );
    assert_eq!(
        refused("/exec/default/none/app", "true").await,
        told(StatusCode::NOT_FOUND, "pod does not exist")
    );
    assert_eq!(
        refused("/exec/default/web/later", "true").await,
        told(StatusCode::INTERNAL_SERVER_ERROR, "container not found (\"later\")")
    );
    assert_eq!(
        refused("/attach/default/web/later", "").await,
        told(StatusCode::INTERNAL_SERVER_ERROR, "container later not found in pod web_default")
    );
    assert_eq!(
        fixture.get("/exec/default/web/app?command=true").await,
        told(StatusCode::BAD_REQUEST, "you must specify at least 1 of stdin, stdout, stderr")
    );
    assert_eq!(
        fixture.get("/exec/default/web/app?command=true&output=1").await,
        told(StatusCode::INTERNAL_SERVER_ERROR, "Upgrade request required\n")
    );
}

#[tokio::test]
async fn a_client_that_leaves_ends_what_it_executed() {
    let fixture = Fixture::start().await;
    for (number, over) in BOTH.into_iter().enumerate() {
        let client = start(&fixture, over, "/exec/default/web/app", &["sleep", "1000"], &ALL).await;
        drop(client);
        let mut killed = fixture.host.killed.subscribe();
        killed.wait_for(|killed| *killed == number + 1).await.unwrap();
    }
}

#[tokio::test]
async fn attach_has_the_terminal_of_the_container() {
    let fixture = Fixture::start().await;
    let pod = r#"{"metadata":{"name":"web","namespace":"default","uid":"u1"},"spec":{"containers":[{"name":"app","tty":true}]}}"#;
    *fixture.node.pods.lock() = vec![std::sync::Arc::new(parse(pod))];
    let options = Options { stdin: true, stdout: true, stderr: false, tty: true };
    for over in BOTH {
        fixture.host.sizes.lock().clear();
        let mut client = start(&fixture, over, "/attach/default/web/app", &[], &options).await;
        let resize = client.resize.take().unwrap();
        resize.send(TerminalSize { width: 80, height: 24 }).await.unwrap();
        while fixture.host.sizes.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(*fixture.host.sizes.lock(), [(80, 24)]);
        let (out, _, status) = outcome(client, b"hello\n").await;
        assert_eq!((out.as_str(), status), ("hello\n", Ok(())), "{over:?}");
    }
    let headers = upgrade::spdy_request(&SPDY_CLIENT_PROTOCOLS);
    let response =
        fixture.send(Some(USER), Method::POST, "/attach/default/web/app?output=1&error=1", headers).await;
    let message = "rpc error: code = InvalidArgument desc = tty and stderr cannot both be true";
    assert_eq!(text(response).await, (StatusCode::INTERNAL_SERVER_ERROR, message.to_owned()));
}

#[tokio::test]
async fn run_answers_with_the_output() {
    let fixture = Fixture::start().await;
    let run = async |target: &str| {
        text(fixture.send(Some(USER), Method::POST, target, HeaderMap::new()).await).await
    };
    assert_eq!(run("/run/default/web/app?cmd=echo%20hi").await, (StatusCode::OK, "hi\n".to_owned()));
    let failed = run("/run/default/web/u1/app?cmd=false").await;
    assert_eq!(failed, (StatusCode::INTERNAL_SERVER_ERROR, "command 'false' exited with 1: ".to_owned()));
}

pub async fn forward(fixture: &Fixture, over: Over, path: &str) -> portforward::Client {
    let settings = spdy::Settings { idle_timeout: None, ping_period: None };
    match over {
        Over::Spdy => {
            let headers = upgrade::spdy_request(&[portforward::PROTOCOL]);
            let response = fixture.send(Some(USER), Method::POST, path, headers).await;
            portforward::Client::spdy(&fixture.env, switched(response).await, settings)
        }
        Over::WebSocket => {
            let protocol = upgrade::tunnel_protocol(portforward::PROTOCOL);
            let headers = upgrade::websocket_request(&fixture.env, &[&protocol]);
            let response = fixture.send(Some(USER), Method::GET, path, headers).await;
            portforward::Client::tunnel(&fixture.env, switched(response).await, settings)
        }
    }
}

#[tokio::test]
async fn ports_are_forwarded() {
    let fixture = Fixture::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = fixture.env.spawn("test-echo", async move {
        for _ in BOTH {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            tcp.read_to_end(&mut request).await.unwrap();
            request.reverse();
            tcp.write_all(&request).await.unwrap();
        }
    });
    for over in BOTH {
        let client = forward(&fixture, over, "/portForward/default/web").await;
        let (mut near, far) = tokio::io::duplex(1024);
        let talk = async {
            near.write_all(b"abc").await.unwrap();
            near.shutdown().await.unwrap();
            let mut answer = String::new();
            near.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let (forwarded, answer) = tokio::join!(client.forward(port, far), talk);
        assert_eq!((forwarded, answer.as_str()), (Ok(()), "cba"), "{over:?}");
    }
    served.await.unwrap();
    // A port that is taken, so that no other test listens there, and refuses.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = taken.local_addr().unwrap().port();
    let client = forward(&fixture, Over::Spdy, "/portForward/default/web/u1").await;
    let (_near, far) = tokio::io::duplex(1024);
    let refused = client.forward(port, far).await.unwrap_err();
    assert!(refused.contains("to pod s1, uid : Connection refused"), "{refused}");
}

#[tokio::test]
async fn ports_of_pods_that_are_not_there_are_refused() {
    let fixture = Fixture::start().await;
    let ask = async |path: &str| {
        let headers = upgrade::spdy_request(&[portforward::PROTOCOL]);
        text(fixture.send(Some(USER), Method::POST, path, headers).await).await
    };
    let told = |status: StatusCode, message: &str| (status, message.to_owned());
    assert_eq!(ask("/portForward/default/none").await, told(StatusCode::NOT_FOUND, "pod does not exist"));
    assert_eq!(ask("/portForward/default/web/other").await, told(StatusCode::NOT_FOUND, "pod not found"));
    fixture.host.sandboxes.lock().clear();
    assert_eq!(
        ask("/portForward/default/web").await,
        told(StatusCode::INTERNAL_SERVER_ERROR, "pod not found (\"web_default\")")
    );
}
