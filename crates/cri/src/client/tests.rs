use std::convert::Infallible;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::StreamExt;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex as SyncMutex;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use super::*;

/// What a runtime answers to a method: messages, then how it ends (`None`: it does not).
type Script = dyn Fn(&str, Bytes) -> (Vec<Vec<u8>>, Option<(u32, String)>) + Send + Sync;

/// A runtime that answers by a script. It goes away with its connections when it is dropped.
struct Fake {
    task: JoinHandle<()>,
    connections: Arc<SyncMutex<Vec<JoinHandle<()>>>>,
}

impl Fake {
    fn start(env: &Env, socket: &std::path::Path, script: Arc<Script>) -> Fake {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        let connections = Arc::new(SyncMutex::new(Vec::new()));
        let (list, spawner) = (connections.clone(), env.clone());
        let task = env.spawn("runtime", async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let script = script.clone();
                let service = hyper::service::service_fn(move |request| answer(request, script.clone()));
                let serve = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service);
                list.lock().push(spawner.spawn("connection", async move {
                    let _ = serve.await;
                }));
            }
        });
        Fake { task, connections }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
        self.connections.lock().drain(..).for_each(|connection| connection.abort());
    }
}

type Body = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

async fn answer(
    request: http::Request<Incoming>,
    script: Arc<Script>,
) -> Result<http::Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let (messages, end) = script(&path, body.slice(5..));
    let mut frames: Vec<Result<Frame<Bytes>, Infallible>> = Vec::new();
    for message in messages {
        let mut data = BytesMut::new();
        data.put_u8(0);
        data.put_u32(u32::try_from(message.len()).unwrap());
        data.extend_from_slice(&message);
        frames.push(Ok(Frame::data(data.freeze())));
    }
    let endless = end.is_none();
    if let Some((code, message)) = end {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", code.into());
        trailers.insert("grpc-message", message.parse().unwrap());
        frames.push(Ok(Frame::trailers(trailers)));
    }
    let frames = stream::iter(frames);
    let body: BoxStream<'static, _> =
        if endless { Box::pin(frames.chain(stream::pending())) } else { Box::pin(frames) };
    Ok(http::Response::new(StreamBody::new(body)))
}

fn ok(message: impl Message) -> (Vec<Vec<u8>>, Option<(u32, String)>) {
    (vec![message.encode_to_vec()], Some((0, String::new())))
}

fn version() -> VersionResponse {
    VersionResponse { runtime_name: "fake".to_owned(), ..VersionResponse::default() }
}

fn client(env: &Env, socket: &std::path::Path) -> Client {
    Client::new(env, &format!("unix://{}", socket.display())).unwrap()
}

#[test]
fn endpoints_are_unix_sockets() {
    let env = Env::machine();
    assert!(Client::new(&env, "unix:///run/x.sock").is_ok());
    assert!(Client::new(&env, "/run/x.sock").is_ok());
    for bad in ["", "run/x.sock", "tcp://localhost:1", "unix://x"] {
        assert!(Client::new(&env, bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn errors_keep_their_codes() {
    let (env, folder) = (Env::machine(), tempfile::tempdir().unwrap());
    let socket = folder.path().join("s");
    let script: Arc<Script> = Arc::new(|path, body| match path {
        "/runtime.v1.RuntimeService/ContainerStatus" => {
            let id = ContainerStatusRequest::decode(body).unwrap().container_id;
            (Vec::new(), Some((5, format!("no container {id}"))))
        }
        "/runtime.v1.RuntimeService/Exec" => ok(ExecResponse::default()),
        "/runtime.v1.RuntimeService/Attach" => ok(AttachResponse { url: "http://x/y".to_owned() }),
        "/runtime.v1.ImageService/ListImages" => (vec![vec![0; (16 << 20) + 1]], Some((0, String::new()))),
        _ => (Vec::new(), Some((99, String::new()))),
    });
    let _runtime = Fake::start(&env, &socket, script);
    let client = client(&env, &socket);
    let request = ContainerStatusRequest { container_id: "x".to_owned(), ..Default::default() };
    let error = client.container_status(request).await.unwrap_err();
    assert_eq!(error, Error::new(Code::NotFound, "no container x"));
    assert_eq!(error.to_string(), "rpc error: code = NotFound desc = no container x");
    assert_eq!(client.version(VersionRequest::default()).await.unwrap_err().code, Code::Unknown);
    let large = client.list_images(ListImagesRequest::default()).await.unwrap_err();
    assert_eq!(
        large,
        Error::new(Code::ResourceExhausted, "grpc: received message larger than max (16777216)")
    );
    assert!(client.exec(ExecRequest::default()).await.is_err_and(|error| error.message == "URL is not set"));
    assert!(
        matches!(client.attach(AttachRequest::default()).await, Ok(Session::Url(url)) if url == "http://x/y")
    );
}

#[tokio::test]
async fn a_runtime_that_was_restarted_is_dialled_again() {
    let (env, folder) = (Env::machine(), tempfile::tempdir().unwrap());
    let socket = folder.path().join("s");
    let client = client(&env, &socket);
    let absent = client.version(VersionRequest::default()).await.unwrap_err();
    assert_eq!(absent.code, Code::Unavailable);
    assert!(absent.message.contains("No such file"), "{absent}");
    let script: Arc<Script> = Arc::new(|_, _| ok(version()));
    for _ in 0..3 {
        let _runtime = Fake::start(&env, &socket, script.clone());
        // One call may be lost with the connection of the last runtime, no more.
        let mut answer = client.version(VersionRequest::default()).await;
        if answer.as_ref().is_err_and(|error| error.code == Code::Unavailable) {
            answer = client.version(VersionRequest::default()).await;
        }
        assert_eq!(answer, Ok(version()));
    }
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_not_repeated() {
    let (env, folder) = (Env::machine(), tempfile::tempdir().unwrap());
    let socket = folder.path().join("s");
    let (called, mut calls) = tokio::sync::mpsc::unbounded_channel();
    let script: Arc<Script> = Arc::new(move |path, _| {
        called.send(path.to_owned()).unwrap();
        (Vec::new(), None)
    });
    let runtime = Fake::start(&env, &socket, script);
    let client = client(&env, &socket);
    let call = client.run_pod_sandbox(RunPodSandboxRequest::default());
    let cut = async {
        let path = calls.recv().await;
        drop(runtime);
        path
    };
    let (answer, path) = tokio::join!(call, cut);
    assert_eq!(path.as_deref(), Some("/runtime.v1.RuntimeService/RunPodSandbox"));
    assert_eq!(answer.unwrap_err().code, Code::Unavailable);
    assert!(calls.try_recv().is_err());
}

#[tokio::test]
async fn events_come_until_the_runtime_goes() {
    let (env, folder) = (Env::machine(), tempfile::tempdir().unwrap());
    let socket = folder.path().join("s");
    let event = |id: &str| ContainerEventResponse { container_id: id.to_owned(), ..Default::default() };
    let events = vec![event("a").encode_to_vec(), event("b").encode_to_vec()];
    let runtime = Fake::start(&env, &socket, Arc::new(move |_, _| (events.clone(), None)));
    let client = client(&env, &socket);
    let mut stream = client.container_events(GetEventsRequest::default()).await.unwrap();
    assert_eq!(stream.next().await, Some(Ok(event("a"))));
    assert_eq!(stream.next().await, Some(Ok(event("b"))));
    drop(runtime);
    assert_eq!(stream.next().await.unwrap().unwrap_err().code, Code::Unavailable);
    assert_eq!(stream.next().await, None);
    let _old = Fake::start(&env, &socket, Arc::new(|_, _| (Vec::new(), Some((12, "not yet".to_owned())))));
    let mut stream = client.container_events(GetEventsRequest::default()).await.unwrap();
    assert_eq!(stream.next().await, Some(Err(Error::new(Code::Unimplemented, "not yet"))));
}

#[tokio::test]
async fn a_checkpoint_has_at_least_as_long_as_other_calls() {
    let (env, folder) = (Env::machine(), tempfile::tempdir().unwrap());
    let socket = folder.path().join("s");
    let script: Arc<Script> = Arc::new(|path, body| {
        assert_eq!(path, "/runtime.v1.RuntimeService/CheckpointContainer");
        let request = CheckpointContainerRequest::decode(body).unwrap();
        (Vec::new(), Some((2, format!("{} {} {}", request.container_id, request.location, request.timeout))))
    });
    let _runtime = Fake::start(&env, &socket, script);
    let client = client(&env, &socket);
    for (asked, given) in [(0, 120), (7, 120), (200, 200)] {
        let (container_id, location) = ("c".to_owned(), "/l".to_owned());
        let request = CheckpointContainerRequest { container_id, location, timeout: asked };
        let error = client.checkpoint_container(request).await.unwrap_err();
        assert_eq!(error.message, format!("c /l {given}"));
    }
}
