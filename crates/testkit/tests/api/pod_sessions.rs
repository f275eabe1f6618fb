//! exec, attach and portforward: from a client of each kind through the server to a kubelet.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use streaming::portforward;
use streaming::remotecommand::{
    self, Client, Failure, Options, Outcome, SPDY_CLIENT_PROTOCOLS, Session, Transport, Version,
};
use streaming::spdy::Settings;
use streaming::upgrade::{self, spdy_request, websocket_request};
use testkit::TestCluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::test_kubelet::{Body, HttpClient, PODS, TestKubelet, cluster, http2, text, upgraded, whole};

const STREAMS: &str = "stdin=true&stdout=true&stderr=true";
const ALL: Options = Options { stdin: true, stdout: true, stderr: true, tty: false };

/// Runs a process that repeats its input, complains, and exits with 7.
async fn run(mut request: Request<Incoming>) -> Response<Body> {
    let (negotiated, accepted) = match remotecommand::negotiate(request.method(), request.headers()) {
        Ok(agreed) => agreed,
        Err(refused) => return text(refused.status.as_u16(), &refused.message),
    };
    let pairs = request.uri().query().unwrap_or("").split('&').filter_map(|pair| pair.split_once('='));
    let options = Options::from_query(pairs).unwrap();
    let upgrade = hyper::upgrade::on(&mut request);
    let env = Env::machine();
    drop(env.clone().spawn("exec", async move {
        let io = Box::new(TokioIo::new(upgrade.await.unwrap()));
        let Ok(session) = Session::accept(&env, io, &negotiated, &options).await else { return };
        let input = session.stdin.as_ref().unwrap();
        while let Ok(piece) = input.chunk().await
            && !piece.is_empty()
        {
            session.stdout.as_ref().unwrap().send(&piece).await.unwrap();
            if piece.ends_with(b"!") {
                break;
            }
        }
        session.stderr.as_ref().unwrap().send(b"oh").await.unwrap();
        session.finish(&Outcome::Exited { code: 7, detail: "exit status 7".to_owned() }).await;
    }));
    switched(accepted.headers)
}

fn switched(headers: HeaderMap) -> Response<Body> {
    let mut response = text(101, "");
    *response.headers_mut() = headers;
    response
}

/// What a client sees of such a process.
async fn see(env: &Env, io: streaming::Io, transport: Transport) {
    let client = Client::start(env, io, transport, &ALL).await.unwrap();
    let stdin = client.stdin.as_ref().unwrap();
    stdin.send(b"hello!").await.unwrap();
    assert_eq!(client.stdout.as_ref().unwrap().chunk().await.unwrap(), "hello!");
    assert_eq!(client.stderr.as_ref().unwrap().chunk().await.unwrap(), "oh");
    assert_eq!(client.status().await, Err(Failure::Exited(7)));
}

async fn ask(cluster: &TestCluster, method: &str, path: &str, headers: HeaderMap) -> Response<Incoming> {
    let mut request = Request::builder().method(method).uri(format!("{PODS}/{path}"));
    *request.headers_mut().unwrap() = headers;
    HttpClient::new(cluster).await.send(request).await
}

async fn declare_websockets(cluster: &TestCluster) {
    let path = "/api/v1/nodes/n1/status";
    let mut node = cluster.get(path).await.ok(200);
    node["status"]["declaredFeatures"] = json!(["ExtendWebSocketsToKubelet"]);
    cluster.put(path, node).await.ok(200);
}

fn metric(metrics: &str, begin: &str) -> String {
    let line =
        metrics.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{begin}\n{metrics}"));
    line.rsplit(' ').next().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn spdy_is_passed_through() {
    let (cluster, kubelet) = cluster(2011).await;
    kubelet.answers(run);
    for (method, subresource) in [("POST", "exec"), ("GET", "exec"), ("POST", "attach")] {
        let mut headers = spdy_request(&SPDY_CLIENT_PROTOCOLS);
        headers.insert("authorization", "Bearer secret".parse().unwrap());
        let path = format!("a/{subresource}?command=sh&command=-c&command=a%20b&{STREAMS}");
        let response = ask(&cluster, method, &path, headers).await;
        assert_eq!(response.headers()["x-stream-protocol-version"], "v4.channel.k8s.io");
        see(cluster.env(), upgraded(response).await, Transport::Spdy(Version::V4)).await;
        let asked = kubelet.asked();
        assert_eq!((asked.method.as_str(), asked.header("authorization")), (method, ""));
        assert_eq!(asked.user.unwrap().name, "kube-apiserver-kubelet-client");
        let command = if subresource == "exec" { "&command=sh&command=-c&command=a+b" } else { "" };
        assert_eq!(asked.uri, format!("/{subresource}/default/a/c?input=1&output=1&error=1{command}"));
        kubelet.is_left_alone().await;
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_websocket_of_version_5_is_translated_unless_the_node_takes_it() {
    let (cluster, kubelet) = cluster(2012).await;
    kubelet.answers(run);
    let path = format!("a/exec?command=sh&{STREAMS}");
    for direct in [false, true] {
        if direct {
            declare_websockets(&cluster).await;
        }
        let headers = websocket_request(cluster.env(), &["v5.channel.k8s.io", "v4.channel.k8s.io"]);
        let response = ask(&cluster, "GET", &path, headers.clone()).await;
        let chosen = upgrade::websocket_response(&headers, response.status(), response.headers());
        assert_eq!(chosen.as_deref(), Some("v5.channel.k8s.io"));
        see(cluster.env(), upgraded(response).await, Transport::WebSocket).await;
        let asked = kubelet.asked();
        let (method, protocol) = if direct { ("GET", "websocket") } else { ("POST", "SPDY/3.1") };
        assert_eq!((asked.method.as_str(), asked.header("upgrade")), (method, protocol));
        assert_eq!(asked.uri, "/exec/default/a/c?input=1&output=1&error=1&command=sh");
        kubelet.is_left_alone().await;
    }
    let metrics = String::from_utf8(cluster.get("/metrics").await.bytes.to_vec()).unwrap();
    assert_eq!(metric(&metrics, "apiserver_stream_translator_requests_total{code=\"200\"}"), "1");
    let by_type = "apiserver_websocket_streaming_requests_total{proxy_type=\"proxied_to_kubelet\"";
    assert_eq!(metric(&metrics, by_type), "1");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_older_websocket_is_passed_through() {
    let (cluster, kubelet) = cluster(2013).await;
    kubelet.answers(run);
    let headers = websocket_request(cluster.env(), &["v4.channel.k8s.io"]);
    let response = ask(&cluster, "GET", &format!("a/exec?command=sh&{STREAMS}"), headers.clone()).await;
    let chosen = upgrade::websocket_response(&headers, response.status(), response.headers());
    assert_eq!(chosen.as_deref(), Some("v4.channel.k8s.io"));
    assert_eq!(kubelet.asked().header("upgrade"), "websocket");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn ports_are_forwarded_over_spdy_and_in_a_websocket() {
    let (cluster, kubelet) = cluster(2014).await;
    kubelet.answers(|mut request: Request<Incoming>| async move {
        let (negotiated, accepted) =
            portforward::negotiate(request.method(), request.headers(), &[]).unwrap();
        let upgrade = hyper::upgrade::on(&mut request);
        let env = Env::machine();
        drop(env.clone().spawn("portforward", async move {
            let io = Box::new(TokioIo::new(upgrade.await.unwrap()));
            let forward: portforward::Forward = Arc::new(|port, mut stream| {
                Box::pin(async move {
                    let mut word = [0; 4];
                    stream.read_exact(&mut word).await.unwrap();
                    stream
                        .write_all(format!("{port}: {}", String::from_utf8_lossy(&word)).as_bytes())
                        .await
                        .unwrap();
                    stream.finish();
                    Ok(())
                })
            });
            portforward::serve(&env, io, &negotiated, "a", "u", forward).await;
        }));
        switched(accepted.headers)
    });
    let tunnel = upgrade::tunnel_protocol(portforward::PROTOCOL);
    for (tunnelled, direct) in [(false, false), (true, false), (true, true)] {
        if direct {
            declare_websockets(&cluster).await;
        }
        let env = cluster.env();
        let client = if tunnelled {
            let headers = websocket_request(env, &[&tunnel]);
            let response = ask(&cluster, "GET", "a/portforward?ports=80", headers.clone()).await;
            let chosen = upgrade::websocket_response(&headers, response.status(), response.headers());
            assert_eq!(chosen.as_deref(), Some(&*tunnel));
            portforward::Client::tunnel(env, upgraded(response).await, Settings::default())
        } else {
            let headers = spdy_request(&[portforward::PROTOCOL]);
            let response = ask(&cluster, "POST", "a/portforward?ports=80", headers).await;
            portforward::Client::spdy(env, upgraded(response).await, Settings::default())
        };
        let asked = kubelet.asked();
        assert_eq!(asked.uri, "/portForward/default/a?port=80");
        assert_eq!(asked.header("upgrade"), if direct { "websocket" } else { "SPDY/3.1" });
        let (mut near, far) = tokio::io::duplex(1024);
        let talk = async {
            near.write_all(b"ping").await.unwrap();
            let mut answer = String::new();
            near.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let (forwarded, answer) = tokio::join!(client.forward(80, far), talk);
        assert_eq!((forwarded, &*answer), (Ok(()), "80: ping"));
    }
    let metrics = String::from_utf8(cluster.get("/metrics").await.bytes.to_vec()).unwrap();
    assert_eq!(metric(&metrics, "apiserver_stream_tunnel_requests_total{code=\"101\"}"), "1");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_has_the_options_that_mutating_admission_leaves() {
    let (cluster, kubelet) = cluster(2019).await;
    kubelet.answers(|_| async { text(403, "no") });
    let group = "/apis/admissionregistration.k8s.io/v1";
    for (subresource, patch) in [
        (
            "exec",
            "{op: 'replace', path: '/command', value: ['ls', 'a b&c=d']}, JSONPatch{op: 'remove', path: '/stdin'}",
        ),
        ("attach", "{op: 'add', path: '/container', value: 'd'}"),
        ("portforward", "{op: 'replace', path: '/ports', value: [81, 82]}"),
    ] {
        let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": [format!("pods/{subresource}")]}]);
        let policy = json!({"metadata": {"name": subresource}, "spec": {"matchConstraints": {"resourceRules": rules}, "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": format!("[JSONPatch{patch}]")}}]}});
        cluster.post(format!("{group}/mutatingadmissionpolicies"), policy).await.ok(201);
        let binding = json!({"metadata": {"name": subresource}, "spec": {"policyName": subresource}});
        cluster.post(format!("{group}/mutatingadmissionpolicybindings"), binding).await.ok(201);
    }
    for (path, expected) in [
        (
            format!("a/exec?command=sh&container=c&{STREAMS}"),
            "/exec/default/a/c?output=1&error=1&command=ls&command=a+b%26c%3Dd",
        ),
        ("a/portforward?ports=80".to_owned(), "/portForward/default/a?port=81%2C82"),
    ] {
        let response = ask(&cluster, "POST", &path, spdy_request(&SPDY_CLIENT_PROTOCOLS)).await;
        assert_eq!(whole(response).await, (403, "no".to_owned()), "{path}");
        assert_eq!(kubelet.asked().uri, expected);
    }
    let response = ask(&cluster, "POST", "a/attach?stdout=true", spdy_request(&SPDY_CLIENT_PROTOCOLS)).await;
    let (code, message) = whole(response).await;
    assert!(code == 400 && message.contains("container d is not valid for pod a"), "{code} {message}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_needs_an_upgrade() {
    let (cluster, kubelet) = cluster(2015).await;
    for subresource in ["exec?command=ls", "attach", "portforward"] {
        let refused = cluster.post(format!("{PODS}/a/{subresource}"), json!({})).await.ok(400);
        assert_eq!(refused["message"], "Upgrade request required");
    }
    // HTTP/2 has no upgrades.
    let request = Request::get(format!("http://api:6443{PODS}/a/exec?command=ls"));
    let request = request.body(Full::default()).unwrap();
    let (code, refused) = whole(http2(&cluster).await.send_request(request).await.unwrap()).await;
    let refused: Value = serde_json::from_str(&refused).unwrap();
    assert_eq!((code, &refused["message"]), (400, &json!("Upgrade request required")));
    let dry = cluster.post(format!("{PODS}/a/exec?command=ls&dryRun=All"), json!({})).await.ok(400);
    assert_eq!(dry["message"], "dryRun is not supported");
    let ports = cluster.post(format!("{PODS}/a/portforward?ports=x"), json!({})).await.ok(400);
    let why = "cannot convert to []int32: strconv.ParseUint: parsing \"x\": invalid syntax";
    assert_eq!(ports["message"], why);
    assert_eq!(kubelet.count(), 0);
    cluster.shutdown().await;
}

async fn status(response: Response<Incoming>) -> (u16, String) {
    let (code, body) = whole(response).await;
    let status: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{body}"));
    (code, status["message"].as_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_before_the_upgrade_is_an_answer() {
    let (cluster, kubelet) = cluster(2016).await;
    let path = format!("a/exec?command=sh&{STREAMS}");
    let spdy = || spdy_request(&SPDY_CLIENT_PROTOCOLS);
    kubelet.answers(|_| async { text(404, "container not found (\"c\")\n") });
    let response = ask(&cluster, "POST", &path, spdy()).await;
    assert_eq!(whole(response).await, (404, "container not found (\"c\")\n".to_owned()));
    kubelet.answers(|_| async { text(200, "hello") });
    let response = ask(&cluster, "POST", &path, spdy()).await;
    assert_eq!(status(response).await, (500, "invalid upgrade response: status code 200".to_owned()));
    kubelet.refuse_connections(true);
    let response = ask(&cluster, "POST", &path, spdy()).await;
    let refused = "dial tcp 10.1.2.3:10250: connect: connection refused";
    assert_eq!(status(response).await, (500, format!("error dialing backend: {refused}")));

    // Translated: the client is upgraded already, and reads it from its error stream.
    let env = cluster.env();
    let by_websocket = async || {
        let headers = websocket_request(env, &["v5.channel.k8s.io"]);
        let io = upgraded(ask(&cluster, "GET", &path, headers).await).await;
        Client::start(env, io, Transport::WebSocket, &ALL)
            .await
            .unwrap()
            .status()
            .await
            .unwrap_err()
            .to_string()
    };
    let url = "https://10.1.2.3:10250/exec/default/a/c?input=1&output=1&error=1&command=sh";
    let said = by_websocket().await;
    assert_eq!(said, format!("Internal error occurred: error sending request: Post \"{url}\": {refused}"));
    kubelet.refuse_connections(false);
    kubelet.answers(|_| async { text(404, "container not found (\"c\")\n") });
    let said = by_websocket().await;
    assert_eq!(said, "Internal error occurred: unable to upgrade connection: container not found (\"c\")");
    kubelet.answers(|_| async {
        text(403, r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","code":403}"#)
    });
    assert_eq!(by_websocket().await, "no");
    kubelet.is_left_alone().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_get_needs_the_permission_of_a_post() {
    let (cluster, kubelet) = cluster(2017).await;
    kubelet.answers(run);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]});
    cluster.post(format!("{rbac}/roles"), role).await.ok(201);
    let binding = json!({
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    cluster.post(format!("{rbac}/rolebindings"), binding).await.ok(201);
    let mut client = HttpClient::by(&cluster, auth::UserInfo::new("jane", &[])).await;
    let mut request = Request::get(format!("{PODS}/a/exec?command=sh&{STREAMS}"));
    *request.headers_mut().unwrap() = websocket_request(cluster.env(), &["v5.channel.k8s.io"]);
    let (code, message) = status(client.send(request).await).await;
    assert_eq!(code, 403);
    assert!(message.contains("cannot create resource \"pods/exec\""), "{message}");
    assert_eq!(kubelet.count(), 0);
    cluster.shutdown().await;
}

/// A session with a process that says nothing; the kubelet's side reports its end.
async fn silent(
    cluster: &TestCluster,
    kubelet: &TestKubelet,
) -> (streaming::Io, tokio::sync::oneshot::Receiver<()>) {
    let (sender, ended) = tokio::sync::oneshot::channel();
    let sender = Arc::new(parking_lot::Mutex::new(Some(sender)));
    kubelet.answers(move |mut request: Request<Incoming>| {
        let upgrade = hyper::upgrade::on(&mut request);
        let sender = sender.lock().take();
        drop(Env::machine().spawn("silent", async move {
            let mut io = TokioIo::new(upgrade.await.unwrap());
            let _ = io.read(&mut [0; 16]).await;
            drop(sender);
        }));
        async { switched(spdy_request(&["v4.channel.k8s.io"])) }
    });
    let path = format!("a/exec?command=sh&{STREAMS}");
    let response = ask(cluster, "POST", &path, spdy_request(&SPDY_CLIENT_PROTOCOLS)).await;
    (upgraded(response).await, ended)
}

#[tokio::test(start_paused = true)]
async fn a_session_lasts_until_one_side_ends_it() {
    let (cluster, kubelet) = cluster(2018).await;
    let (io, mut ended) = silent(&cluster, &kubelet).await;
    cluster.env().sleep(Duration::from_secs(24 * 3600)).await;
    assert!(ended.try_recv().is_err_and(|e| e == tokio::sync::oneshot::error::TryRecvError::Empty));
    let metrics = String::from_utf8(cluster.get("/metrics").await.bytes.to_vec()).unwrap();
    let running = metrics.lines().find(|line| {
        line.starts_with("apiserver_longrunning_requests{")
            && line.contains("\"exec\"")
            && line.contains("\"CONNECT\"")
    });
    assert!(running.is_some_and(|line| line.ends_with(" 1")), "{running:?}");
    drop(io);
    assert!(ended.await.is_err(), "dropped at its end");
    // And the server's end is the session's.
    let (mut io, ended) = silent(&cluster, &kubelet).await;
    cluster.api().begin_shutdown();
    assert_eq!(io.read(&mut [0; 16]).await.unwrap_or(0), 0);
    assert!(ended.await.is_err());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_websocket_is_opened_by_a_get() {
    let (cluster, kubelet) = cluster(2019).await;
    kubelet.answers(run);
    let headers = websocket_request(cluster.env(), &["v5.channel.k8s.io"]);
    let response =
        ask(&cluster, Method::POST.as_str(), &format!("a/exec?command=sh&{STREAMS}"), headers).await;
    assert_eq!(response.status(), 405);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "bad method");
    assert_eq!(kubelet.count(), 0);
    cluster.shutdown().await;
}
