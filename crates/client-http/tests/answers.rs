//! What becomes of answers no good server gives, and of those that say "later".

// Everything here is a test: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use catalog::Catalog;
use client::resources::CONFIG_MAPS;
use client::{Client, Event, FieldValidation, Gvr, ListOptions, Patch, WatchOptions, WriteOptions};
use client_http::{Config, Credentials, Dial, Dialled, HttpClient, Impersonate};
use env::Env;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use object::{Status, Value};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// An answer: code, headers, body. Code 0: the connection is cut instead.
type Answer = (u16, Vec<(&'static str, &'static str)>, Vec<u8>);

/// A server that says what it is told to, and notes what it was asked.
#[derive(Clone)]
struct Script {
    env: Env,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn new(answers: Vec<Answer>) -> Script {
        Script {
            env: Env::simulated(1),
            answers: Arc::new(Mutex::new(answers.into())),
            asked: Arc::default(),
        }
    }

    fn client(&self) -> HttpClient {
        self.client_with(Config::default())
    }

    fn client_with(&self, config: Config) -> HttpClient {
        let config = Config { server: "http://script/base/".to_owned(), ..config };
        let catalog = Arc::new(Catalog::builtin());
        HttpClient::over(self.env.clone(), catalog, &config, Box::new(self.clone())).unwrap()
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

impl Dial for Script {
    fn dial(&self) -> BoxFuture<'_, io::Result<Dialled>> {
        Box::pin(async move {
            let (near, mut far) = tokio::io::duplex(4096);
            let script = self.clone();
            drop(self.env.spawn("script", async move {
                if script.answers.lock().front().is_some_and(|(code, ..)| *code == 0) {
                    script.answers.lock().pop_front();
                    // Cut after the request was seen.
                    let _ = far.read(&mut [0; 4096]).await;
                    return;
                }
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let header = |name: &str| {
                        let value = request.headers().get(name);
                        value.map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned()).unwrap_or_default()
                    };
                    let line = format!(
                        "{} {} [{}] [{}] [{}] [{}]",
                        request.method(),
                        request.uri(),
                        header("host"),
                        header("user-agent"),
                        header("authorization"),
                        header("impersonate-user"),
                    );
                    script.asked.lock().push(line);
                    let (code, headers, body) = script.answers.lock().pop_front().expect("no more answers");
                    let mut response = Response::builder().status(code);
                    for (name, value) in headers {
                        response = response.header(name, value);
                    }
                    async move { response.body(Full::new(Bytes::from(body))) }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(far), service)
                    .await;
            }));
            Ok(Dialled { wire: Box::new(near), http2: false })
        })
    }
}

const MAP: &str = r#"{"metadata":{"name":"a","namespace":"d","uid":"u","resourceVersion":"5"}}"#;

fn good() -> Answer {
    (200, vec![], MAP.into())
}

fn later(seconds: &'static str) -> Answer {
    let body = codec::json::to_vec(&Status::too_many_requests("too busy", 1).to_value());
    (429, vec![("retry-after", seconds)], body)
}

#[tokio::test(start_paused = true)]
async fn requests_send_user_agent_and_credentials() {
    let script = Script::new(vec![good()]);
    let config = Config {
        credentials: Credentials::Token("secret".to_owned()),
        impersonate: Some(Impersonate::user("jane", &[])),
        ..Config::default()
    };
    script.client_with(config).get(CONFIG_MAPS.at("d", "a")).await.unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let wanted = format!(
        "GET /base/api/v1/namespaces/d/configmaps/a [script] [setpoint/{version}] [Bearer secret] [jane]"
    );
    assert_eq!(script.asked(), [wanted]);
}

#[tokio::test(start_paused = true)]
async fn writes_send_their_options_and_the_clients_field_manager() {
    let script = Script::new(vec![good(), good(), good()]);
    let client = script.client().with_field_manager("mine");
    client.create(CONFIG_MAPS.within("d"), Value::map(), WriteOptions::default()).await.unwrap();
    let dry = WriteOptions { dry_run: true, field_manager: "other", ..WriteOptions::default() };
    client.update(CONFIG_MAPS.at("d", "a"), Value::map(), dry).await.unwrap();
    let forced =
        WriteOptions { force: true, field_validation: FieldValidation::Strict, ..WriteOptions::default() };
    client.patch(CONFIG_MAPS.at("d", "a"), Patch::Merge(Value::map()), forced).await.unwrap();
    let wanted = [
        "POST /base/api/v1/namespaces/d/configmaps?fieldManager=mine&fieldValidation=Ignore ",
        "PUT /base/api/v1/namespaces/d/configmaps/a?fieldManager=other&dryRun=All&fieldValidation=Ignore ",
        "PATCH /base/api/v1/namespaces/d/configmaps/a?fieldManager=mine&force=true&fieldValidation=Strict ",
    ];
    for (asked, wanted) in script.asked().iter().zip(wanted) {
        assert!(asked.starts_with(wanted), "{asked}");
    }
    assert_eq!(script.asked().len(), wanted.len());
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed() {
    let script = Script::new(vec![later("3"), later("4"), good()]);
    let begun = script.env.monotonic();
    let obj =
        script.client().create(CONFIG_MAPS.within("d"), Value::map(), WriteOptions::default()).await.unwrap();
    assert_eq!(obj.name(), "a");
    assert_eq!(script.asked().len(), 3);
    assert_eq!((script.env.monotonic() - begun).as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed_a_limited_number_of_times() {
    let script = Script::new((0..20).map(|_| later("1")).collect());
    let refused = script.client().get(CONFIG_MAPS.at("d", "a")).await.err().unwrap();
    assert_eq!((refused.code, refused.message.as_str()), (429, "too busy"));
    assert_eq!(refused.details.unwrap().retry_after_seconds, 1);
    assert_eq!(script.asked().len(), 6);
    // A budget that forbids an eviction sends no time: nothing to wait for.
    let budget = codec::json::to_vec(&Status::too_many_requests("budget", 0).to_value());
    let script = Script::new(vec![(429, vec![], budget)]);
    let refused = script
        .client()
        .act(CONFIG_MAPS.at("d", "a").sub("eviction"), Value::map(), WriteOptions::default())
        .await;
    assert_eq!(refused.err().unwrap().code, 429);
}

#[tokio::test(start_paused = true)]
async fn a_write_with_unknown_outcome_is_not_retried() {
    for (answer, code, times) in
        [((504, vec![("retry-after", "1")], b"busy".to_vec()), 504, 1), ((0, vec![], vec![]), 504, 0)]
    {
        let script = Script::new(vec![answer, good()]);
        let refused = script
            .client()
            .create(CONFIG_MAPS.within("d"), Value::map(), WriteOptions::default())
            .await
            .err()
            .unwrap();
        assert_eq!(refused.code, code, "{}", refused.message);
        assert_eq!(script.asked().len(), times);
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_on_a_broken_connection_is_retried_once() {
    let script = Script::new(vec![(0, vec![], vec![]), good()]);
    script.client().get(CONFIG_MAPS.at("d", "a")).await.unwrap();
    let script = Script::new(vec![(0, vec![], vec![]), (0, vec![], vec![]), good()]);
    assert_eq!(script.client().get(CONFIG_MAPS.at("d", "a")).await.err().unwrap().code, 504);
}

#[tokio::test(start_paused = true)]
async fn unreadable_responses_are_errors() {
    for body in ["", "{", "[]", "1", r#"{"metadata":{}"#, r#"{"kind":"Status"}"#, "\u{0}", "<html></html>"] {
        let script = Script::new(vec![(200, vec![], body.into()), (200, vec![], body.into())]);
        let client = script.client();
        let refused = client.get(CONFIG_MAPS.at("d", "a")).await.err().unwrap();
        assert_eq!(refused.code, 500, "{body}");
        assert!(client.list(CONFIG_MAPS.everywhere(), ListOptions::default()).await.is_err(), "{body}");
    }
    let proxy =
        Script::new(vec![(502, vec![("content-type", "text/html")], b"<h1>Bad Gateway</h1>".to_vec())]);
    let refused = proxy
        .client()
        .patch(CONFIG_MAPS.at("d", "a"), Patch::Merge(Value::map()), WriteOptions::default())
        .await
        .err()
        .unwrap();
    assert_eq!(refused.message, "the server answered 502 (Bad Gateway): <h1>Bad Gateway</h1>");
}

#[tokio::test(start_paused = true)]
async fn lists_of_other_servers_are_read() {
    let list = r#"{"items":[{"data":{"k":"v"},"metadata":{"resourceVersion":"4","name":"a","namespace":"d"}}],
        "metadata":{"continue":"more","resourceVersion":"9","remainingItemCount":3},"apiVersion":"v1","kind":"ConfigMapList"}"#;
    let none =
        r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":null}"#;
    let script = Script::new(vec![(200, vec![], list.into()), (200, vec![], none.into())]);
    let client = script.client();
    let page = client.list(CONFIG_MAPS.everywhere(), ListOptions::default()).await.unwrap();
    assert_eq!((page.revision.0, page.continue_token.as_str()), (9, "more"));
    assert_eq!(
        std::str::from_utf8(page.items[0].body()).unwrap(),
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"4","name":"a","namespace":"d"},"data":{"k":"v"}}"#
    );
    assert!(client.list(CONFIG_MAPS.everywhere(), ListOptions::default()).await.unwrap().items.is_empty());
}

async fn watched(body: &str) -> (usize, Result<(), Status>) {
    let script = Script::new(vec![(200, vec![], body.into())]);
    let client = script.client();
    let mut watch = client.watch(CONFIG_MAPS.everywhere(), WatchOptions::default()).await.unwrap();
    let mut events: Vec<Event> = Vec::new();
    loop {
        match watch.pull(&mut events).await {
            Ok(true) => {}
            Ok(false) => return (events.len(), Ok(())),
            Err(status) => return (events.len(), Err(status)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_as_the_server_says() {
    let added = format!("{{\"type\":\"ADDED\",\"object\":{MAP}}}\n");
    assert_eq!(watched(&format!("{added}\r\n{added}")).await, (2, Ok(())));
    let gone =
        r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
    // What came before the error is not lost.
    let (events, end) = watched(&format!("{added}{gone}\n")).await;
    assert_eq!((events, end.err().map(|s| (s.code, s.reason))), (1, Some((410, "Expired"))));
    for (tail, code) in
        [("{\"type\":", 503), ("nonsense\n", 500), ("{\"type\":\"ODD\",\"object\":{}}\n", 500)]
    {
        let (events, end) = watched(&format!("{added}{tail}")).await;
        assert_eq!((events, end.err().map(|s| s.code)), (1, Some(code)), "{tail}");
    }
    let huge = format!("{{\"type\":\"{}", "x".repeat(9 << 20));
    assert!(watched(&huge).await.1.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_replaced_is_read_again_when_the_old_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "old").unwrap();
    let refused = codec::json::to_vec(&Status::unauthorized().to_value());
    let script = Script::new(vec![
        good(),
        (401, vec![], refused.clone()),
        good(),
        (401, vec![], refused.clone()),
        (401, vec![], refused),
    ]);
    let config = Config { credentials: Credentials::TokenFile(path.clone()), ..Config::default() };
    let client = script.client_with(config);
    client.get(CONFIG_MAPS.at("d", "a")).await.unwrap();
    std::fs::write(&path, "new").unwrap();
    client.get(CONFIG_MAPS.at("d", "a")).await.unwrap();
    let tokens: Vec<bool> = script.asked().iter().map(|line| line.contains("[Bearer new]")).collect();
    assert_eq!(tokens, [false, false, true]);
    // Refused with a fresh token too: that is the answer.
    assert_eq!(client.get(CONFIG_MAPS.at("d", "a")).await.err().unwrap().code, 401);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up_on() {
    struct Silent;
    impl Dial for Silent {
        fn dial(&self) -> BoxFuture<'_, io::Result<Dialled>> {
            Box::pin(async {
                let (near, far) = tokio::io::duplex(4096);
                // Kept open, never answered.
                std::mem::forget(far);
                Ok(Dialled { wire: Box::new(near), http2: false })
            })
        }
    }
    struct Nowhere;
    impl Dial for Nowhere {
        fn dial(&self) -> BoxFuture<'_, io::Result<Dialled>> {
            Box::pin(std::future::pending())
        }
    }
    let env = Env::simulated(1);
    let config = Config { server: "http://silent".to_owned(), ..Config::default() };
    let client = |dial: Box<dyn Dial>| {
        HttpClient::over(env.clone(), Arc::new(Catalog::builtin()), &config, dial).unwrap()
    };
    let begun = env.monotonic();
    assert_eq!(client(Box::new(Silent)).get(CONFIG_MAPS.at("d", "a")).await.err().unwrap().code, 504);
    assert!(env.monotonic() - begun >= Duration::from_secs(60));
    assert_eq!(client(Box::new(Nowhere)).get(CONFIG_MAPS.at("d", "a")).await.err().unwrap().code, 503);
}

/// Begins to answer, says one event a minute for some minutes, and then nothing, without hanging up.
struct FallsSilent {
    env: Env,
    minutes: u64,
}

impl Dial for FallsSilent {
    fn dial(&self) -> BoxFuture<'_, io::Result<Dialled>> {
        Box::pin(async move {
            let (near, mut far) = tokio::io::duplex(4096);
            let (env, minutes) = (self.env.clone(), self.minutes);
            drop(self.env.spawn("falls silent", async move {
                let _ = far.read(&mut [0; 4096]).await;
                let _ = far.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
                for _ in 0..minutes {
                    env.sleep(Duration::from_secs(60)).await;
                    let line = format!("{{\"type\":\"ADDED\",\"object\":{MAP}}}\n");
                    let _ = far.write_all(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes()).await;
                }
                std::future::pending::<()>().await;
            }));
            Ok(Dialled { wire: Box::new(near), http2: false })
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_on_a_connection_that_fell_silent_ends() {
    let env = Env::simulated(1);
    let config = Config { server: "http://silent".to_owned(), ..Config::default() };
    let dial = FallsSilent { env: env.clone(), minutes: 5 };
    let client =
        HttpClient::over(env.clone(), Arc::new(Catalog::builtin()), &config, Box::new(dial)).unwrap();
    let mut watch = client.watch(CONFIG_MAPS.everywhere(), WatchOptions::default()).await.unwrap();
    let begun = env.monotonic();
    let mut events = Vec::new();
    let end = loop {
        let pulled = env.timeout(Duration::from_secs(3600), watch.pull(&mut events)).await;
        if let Err(status) = pulled.expect("it is noticed within the hour") {
            break status;
        }
    };
    assert_eq!(events.len(), 5, "what it said was heard");
    assert_eq!(end.code, 503, "{}", end.message);
    assert_eq!((env.monotonic() - begun).as_secs(), (5 + 3) * 60);
}

const WIDGETS: Gvr = Gvr::new("example.io", "v1", "widgets");
const WIDGET: &str = r#"{"kind":"Widget","apiVersion":"example.io/v1","metadata":{"name":"a","namespace":"d","resourceVersion":"5"}}"#;

/// What `/apis/example.io/v1` says.
fn group_version(namespaced: bool) -> Answer {
    let text = format!(
        r#"{{"kind":"APIResourceList","groupVersion":"example.io/v1","resources":[{{"name":"widgets","singularName":"widget","namespaced":{namespaced},"kind":"Widget","verbs":["get","list"]}}]}}"#
    );
    (200, vec![], text.into())
}

/// As kube-apiserver says it of a path nobody serves.
fn unserved() -> Answer {
    (404, vec![], b"404 page not found\n".to_vec())
}

fn no_such_widget() -> Answer {
    let about = object::About { group: "example.io", resource: "widgets" };
    (404, vec![], codec::json::to_vec(&Status::not_found(about, "a").to_value()))
}

/// The paths asked for, without what follows them.
fn paths(script: &Script) -> Vec<String> {
    let path = |line: String| line.split(' ').nth(1).unwrap_or_default().replacen("/base", "", 1);
    script.asked().into_iter().map(path).collect()
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_is_discovered_with_its_first_use() {
    let widget = || (200, vec![], WIDGET.as_bytes().to_vec());
    let script = Script::new(vec![group_version(true), widget(), widget(), no_such_widget()]);
    let client = script.client();
    assert!(WIDGETS.find(&client.catalog()).is_none());
    let obj = client.get(WIDGETS.at("d", "a")).await.unwrap();
    assert_eq!((obj.namespace(), obj.name(), obj.revision().0), ("d", "a", 5));
    // Others on the same connections know it too; an object that is not there is no reason to look again.
    let other = client.with_field_manager("other");
    assert_eq!(WIDGETS.find(&other.catalog()).unwrap().kind, "Widget");
    other.get(WIDGETS.at("d", "a")).await.unwrap();
    assert_eq!(other.get(WIDGETS.at("d", "a")).await.err().unwrap().reason, "NotFound");
    let object = "/apis/example.io/v1/namespaces/d/widgets/a";
    assert_eq!(paths(&script), ["/apis/example.io/v1", object, object, object]);
}

#[tokio::test(start_paused = true)]
async fn a_resource_nobody_serves_is_asked_for_again_with_each_use() {
    let widget = (200, vec![], WIDGET.as_bytes().to_vec());
    let script = Script::new(vec![unserved(), group_version(true), widget]);
    let client = script.client();
    let unknown = client.get(WIDGETS.at("d", "a")).await.err().unwrap();
    assert_eq!(unknown, Status::no_such_resource());
    client.get(WIDGETS.at("d", "a")).await.unwrap();
    // Nobody can define resources of the core group.
    let core = client.get(Gvr::new("", "v1", "widgets").at("d", "a")).await.err().unwrap();
    assert_eq!(core, Status::no_such_resource());
    assert_eq!(paths(&script).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_resource_made_again_with_another_scope_is_found_where_it_is() {
    let cluster_wide = WIDGET.replace(r#""namespace":"d","#, "");
    let widget = |body: &str| (200, vec![], body.as_bytes().to_vec());
    let script = Script::new(vec![
        group_version(true),
        widget(WIDGET),
        unserved(),
        group_version(false),
        widget(&cluster_wide),
        // Not served at all: looked up, and refused.
        unserved(),
        unserved(),
    ]);
    let client = script.client();
    client.get(WIDGETS.at("d", "a")).await.unwrap();
    let again = client.get(WIDGETS.at("d", "a")).await.unwrap();
    assert_eq!((again.namespace(), again.path()), ("", "a"));
    assert_eq!(client.get(WIDGETS.at("", "a")).await.err().unwrap(), Status::no_such_resource());
    let (one, all) = ("/apis/example.io/v1/namespaces/d/widgets/a", "/apis/example.io/v1/widgets/a");
    let group = "/apis/example.io/v1";
    assert_eq!(paths(&script), [group, one, one, group, all, all, group]);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_aggregated_discovery_is_asked_for_each_group() {
    let groups = r#"{"kind":"APIGroupList","groups":[{"name":"example.io","versions":[{"version":"v1"}]},{"name":"down.io","versions":[{"version":"v1"}]}]}"#;
    let aggregated = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"example.io"},"versions":[{"version":"v2","resources":[{"resource":"widgets","responseKind":{"kind":"Widget"},"scope":"Cluster"}]}]}]}"#;
    let script = Script::new(vec![
        (200, vec![], groups.into()),
        group_version(true),
        (500, vec![], b"down".to_vec()),
        (200, vec![], aggregated.into()),
    ]);
    let client = script.client();
    assert!(WIDGETS.find(&client.discover().await.unwrap()).is_some_and(|widgets| widgets.namespaced));
    let next = client.discover().await.unwrap();
    assert!(WIDGETS.find(&next).is_none(), "it is not served in that version any more");
    assert!(Gvr::new("example.io", "v2", "widgets").find(&client.catalog()).is_some_and(|w| !w.namespaced));
    assert!(CONFIG_MAPS.find(&next).is_some(), "what is built in stays");
}
