//! `proxy` of nodes, pods and Services: what is passed on, and what is made of the answer.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::json;
use testkit::Reply;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::test_kubelet::{HttpClient, PODS, cluster, give_address, http2, streamed, text, upgraded, whole};

const NODES: &str = "/api/v1/nodes";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";

fn message(reply: Reply, code: u16) -> String {
    reply.ok(code)["message"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_node_is_its_kubelet_or_any_port() {
    let (cluster, kubelet) = cluster(2031).await;
    let reply = cluster.get(format!("{NODES}/n1/proxy/stats/summary?only=cpu")).await;
    assert_eq!((reply.status, &reply.bytes[..]), (200, &b"hello\n"[..]));
    let asked = kubelet.asked();
    assert_eq!((&*asked.address, &*asked.uri), ("10.1.2.3:10250", "/stats/summary?only=cpu"));
    assert_eq!(asked.user.as_ref().unwrap().name, "kube-apiserver-kubelet-client");
    assert_eq!(asked.header("x-forwarded-uri"), "/api/v1/nodes/n1/proxy/stats/summary");
    // Another port is not the kubelet's: nothing proves who asks.
    cluster.get(format!("{NODES}/n1:9100/proxy/metrics")).await;
    let asked = kubelet.asked();
    assert_eq!((&*asked.address, asked.user), ("10.1.2.3:9100", None));
    cluster.get(format!("{NODES}/https:n1:8443/proxy/metrics")).await;
    assert_eq!((kubelet.asked().address, kubelet.asked().user), ("10.1.2.3:8443".to_owned(), None));
    kubelet.is_left_alone().await;

    assert_eq!(
        message(cluster.get(format!("{NODES}/ftp:n1:1/proxy/")).await, 400),
        "invalid node request \"ftp:n1:1\""
    );
    assert_eq!(message(cluster.get(format!("{NODES}/none/proxy/")).await, 404), "nodes \"none\" not found");
    let loopback = json!({"metadata": {"name": "n2"}, "status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}});
    cluster.post(NODES, loopback).await.ok(201);
    assert_eq!(message(cluster.get(format!("{NODES}/n2/proxy/")).await, 400), "address not allowed");
    let nowhere = json!({"metadata": {"name": "n3"}});
    cluster.post(NODES, nowhere).await.ok(201);
    let none = "no preferred addresses found; known addresses: []";
    assert_eq!(message(cluster.get(format!("{NODES}/n3/proxy/")).await, 500), none);
    kubelet.refuse_connections(true);
    let why = "error trying to reach service: dial tcp 10.1.2.3:10250: connect: connection refused";
    assert_eq!(message(cluster.get(format!("{NODES}/n1/proxy/")).await, 503), why);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_its_address() {
    let (cluster, kubelet) = cluster(2032).await;
    assert_eq!(message(cluster.get(format!("{PODS}/a/proxy/")).await, 400), "address not allowed");
    for (ip, allowed) in [("127.0.0.1", false), ("169.254.1.1", false), ("10.4.0.7", true), ("fd00::7", true)]
    {
        give_address(&cluster, "a", ip).await;
        assert_eq!(cluster.get(format!("{PODS}/a/proxy/")).await.status == 200, allowed, "{ip}");
    }
    assert_eq!(kubelet.asked().address, "[fd00::7]:8080", "the first port of its containers");
    for (id, address) in [("a:90", "[fd00::7]:90"), ("https:a:8443", "[fd00::7]:8443")] {
        cluster.get(format!("{PODS}/{id}/proxy/")).await;
        assert_eq!(kubelet.asked().address, address);
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_is_one_of_its_pods() {
    let (cluster, kubelet) = cluster(2033).await;
    let service = json!({"metadata": {"name": "x"}, "spec": {"ports": [{"name": "web", "port": 80}, {"name": "other", "port": 81}]}});
    cluster.post(SERVICES, service).await.ok(201);
    give_address(&cluster, "a", "10.4.0.1").await;
    give_address(&cluster, "b", "10.4.0.2").await;
    let of_pod = |name: &str, ip: &str| json!({"ip": ip, "targetRef": {"kind": "Pod", "namespace": "default", "name": name}});
    let endpoints = json!({
        "metadata": {"name": "x"},
        "subsets": [
            {
                "addresses": [
                    of_pod("a", "10.4.0.1"),
                    of_pod("b", "10.4.0.2"),
                    // None of these is a pod's.
                    {"ip": "10.4.0.3"},
                    of_pod("a", "10.4.0.4"),
                    of_pod("gone", "10.4.0.5"),
                ],
                "ports": [{"name": "web", "port": 8080}],
            },
            {"notReadyAddresses": [of_pod("a", "10.4.0.1")], "ports": [{"name": "other", "port": 8081}]},
        ],
    });
    cluster.post(ENDPOINTS, endpoints).await.ok(201);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..40 {
        for id in ["x:web", "x:80", "http:x:web"] {
            assert_eq!(cluster.get(format!("{SERVICES}/{id}/proxy/")).await.status, 200);
            seen.insert(kubelet.asked().address);
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["10.4.0.1:8080", "10.4.0.2:8080"]);
    let none = |id: &str| format!("no endpoints available for service \"{id}\"");
    assert_eq!(message(cluster.get(format!("{SERVICES}/x:81/proxy/")).await, 503), none("x:81"));
    assert_eq!(message(cluster.get(format!("{SERVICES}/x/proxy/")).await, 503), none("x"));
    let why = "no service port 82 found for service \"x\"";
    assert_eq!(message(cluster.get(format!("{SERVICES}/x:82/proxy/")).await, 503), why);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_is_passed_on_whole_but_for_its_credentials() {
    let (cluster, kubelet) = cluster(2034).await;
    kubelet.answers(|request: Request<Incoming>| async move {
        let method = request.method().clone();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut answer = text(201, &format!("{method} {}", String::from_utf8_lossy(&body)));
        let headers = answer.headers_mut();
        headers.insert("x-answer", "1".parse().unwrap());
        headers.insert("access-control-allow-origin", "*".parse().unwrap());
        headers.insert("connection", "x-hop".parse().unwrap());
        headers.insert("x-hop", "1".parse().unwrap());
        answer
    });
    for method in ["POST", "PUT", "PATCH", "DELETE", "GET", "OPTIONS"] {
        let request = cluster
            .request(method, format!("{NODES}/n1/proxy/a%20b/../c%2Fd/?q=%20x&timeout=1s"))
            .header("authorization", "Bearer secret")
            .header("x-mine", "1")
            .header("connection", "x-drop, host, x-forwarded-uri")
            .header("host", "api:6443")
            .header("x-drop", "1")
            .typed("text/odd", "body");
        let reply = request.send().await;
        assert_eq!(
            (reply.status, &*String::from_utf8_lossy(&reply.bytes)),
            (201, &*format!("{method} body"))
        );
        assert_eq!(reply.headers["x-answer"], "1");
        assert!(
            !reply.headers.contains_key("access-control-allow-origin")
                && !reply.headers.contains_key("x-hop")
        );
        let asked = kubelet.asked();
        assert_eq!((asked.method.as_str(), &*asked.uri), (method, "/c/d/?q=%20x&timeout=1s"));
        assert_eq!((asked.header("authorization"), asked.header("x-drop")), ("", ""));
        assert_eq!((asked.header("x-mine"), asked.header("content-type")), ("1", "text/odd"));
        assert_eq!((asked.header("host"), asked.header("connection")), ("api:6443", ""));
        assert!(asked.header("x-forwarded-uri").starts_with(NODES));
    }
    let mut client = HttpClient::new(&cluster).await;
    let response = client.send(Request::head(format!("{NODES}/n1/proxy/x"))).await;
    assert_eq!(response.headers()["content-length"], "5");
    assert_eq!(whole(response).await, (201, String::new()));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn large_bodies_go_both_ways() {
    let (cluster, kubelet) = cluster(2035).await;
    // More than a request of this server's own may have.
    const BYTES: usize = 8 << 20;
    kubelet.answers(|request: Request<Incoming>| async move {
        let mut response = text(200, "");
        *response.body_mut() = request.into_body().map_err(std::io::Error::other).boxed_unsync();
        response
    });
    let request = Request::post(format!("http://api:6443{NODES}/n1/proxy/echo"));
    let request = request.body(Full::new(Bytes::from(vec![b'x'; BYTES]))).unwrap();
    let response = http2(&cluster).await.send_request(request).await.unwrap();
    let (code, body) = whole(response).await;
    assert_eq!((code, body.len()), (200, BYTES));
    kubelet.is_left_alone().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn links_lead_through_the_proxy() {
    let (cluster, kubelet) = cluster(2036).await;
    give_address(&cluster, "a", "10.4.0.1").await;
    let prefix = format!("{PODS}/a/proxy");
    let slash = cluster.get(format!("{prefix}?q=1")).await;
    assert_eq!(
        (slash.status, slash.headers["location"].to_str().unwrap()),
        (301, &*format!("{prefix}/?q=1"))
    );
    assert_eq!(kubelet.count(), 0);

    kubelet.answers(|request: Request<Incoming>| async move {
        let mut answer = text(302, "");
        let to = request.uri().query().unwrap().to_owned();
        answer.headers_mut().insert("location", to.parse().unwrap());
        answer
    });
    let cases = [
        ("/next", format!("{prefix}/next")),
        ("http://10.4.0.1:8080/next/", format!("{prefix}/next/")),
        ("http://elsewhere/next", "http://elsewhere/next".to_owned()),
        ("next", "next".to_owned()),
    ];
    for (to, location) in cases {
        let reply = cluster.get(format!("{prefix}/from?{to}")).await;
        assert_eq!((reply.status, reply.headers["location"].to_str().unwrap()), (302, &*location));
    }

    kubelet.answers(|_| async {
        let mut answer = text(200, "<a href=\"/x\">x</a><img src='http://10.4.0.1:8080/i.png'>");
        answer.headers_mut().insert("content-type", "text/html; charset=utf-8".parse().unwrap());
        answer
    });
    let page = cluster.get(format!("{prefix}/page")).await;
    let expected = format!("<a href=\"{prefix}/x\">x</a><img src=\"{prefix}/i.png\">");
    assert_eq!(String::from_utf8_lossy(&page.bytes), expected);
    assert_eq!(page.headers["content-length"], expected.len().to_string());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_cut_off_is_not_complete() {
    let (cluster, kubelet) = cluster(2037).await;
    kubelet.answers(|_| async {
        let (mut sender, response) = streamed();
        drop(env::Env::machine().spawn("cut", async move {
            sender.send_data(Bytes::from("one")).await.unwrap();
            sender.abort(std::io::Error::other("cut"));
        }));
        response
    });
    for over_http2 in [false, true] {
        let path = format!("{NODES}/n1/proxy/x");
        let response = if over_http2 {
            let request = Request::get(format!("http://api:6443{path}")).body(Full::default()).unwrap();
            http2(&cluster).await.send_request(request).await.unwrap()
        } else {
            HttpClient::new(&cluster).await.send(Request::get(path)).await
        };
        assert_eq!(response.status(), 200);
        assert!(response.into_body().collect().await.is_err(), "http2: {over_http2}");
    }
    cluster.shutdown().await;
}

/// A server of any protocol: repeats what it is told.
async fn echo(mut request: Request<Incoming>) -> http::Response<crate::test_kubelet::Body> {
    let upgrade = hyper::upgrade::on(&mut request);
    let before = request.into_body().collect().await.unwrap().to_bytes();
    drop(env::Env::machine().spawn("echo", async move {
        let mut io = TokioIo::new(upgrade.await.unwrap());
        let mut word = [0; 5];
        io.read_exact(&mut word).await.unwrap();
        io.write_all(&before).await.unwrap();
        io.write_all(&word).await.unwrap();
    }));
    let mut response = text(101, "");
    let mut headers = HeaderMap::new();
    headers.insert("connection", "Upgrade".parse().unwrap());
    headers.insert("upgrade", "echo".parse().unwrap());
    *response.headers_mut() = headers;
    response
}

#[tokio::test(start_paused = true)]
async fn any_upgrade_is_passed_through() {
    let (cluster, kubelet) = cluster(2038).await;
    kubelet.answers(echo);
    let path = format!("{NODES}/n1/proxy/echo");
    // The body of the second has no length.
    for request in [Request::post(&path), Request::get(&path).header("transfer-encoding", "chunked")] {
        let request = request.header("connection", "Upgrade, Host, X-Drop").header("upgrade", "echo");
        let request = request.header("x-drop", "1");
        let response = HttpClient::new(&cluster).await.send_with(request, "I say ").await;
        assert_eq!(response.headers()["upgrade"], "echo");
        let mut io = upgraded(response).await;
        cluster.env().sleep(Duration::from_secs(3600)).await;
        io.write_all(b"hello").await.unwrap();
        let mut answer = Vec::new();
        io.read_to_end(&mut answer).await.unwrap();
        let asked = kubelet.asked();
        assert_eq!((&*answer, &*asked.uri), (&b"I say hello"[..], "/echo"));
        assert_eq!(
            (asked.header("connection"), asked.header("host"), asked.header("x-drop")),
            ("Upgrade", "api:6443", "")
        );
        kubelet.is_left_alone().await;
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_upgraded_connection_carries_any_number_of_bytes() {
    let (cluster, kubelet) = cluster(2040).await;
    // More than the heads of all requests may have together.
    const BYTES: u64 = 40 << 20;
    kubelet.answers(|mut request: Request<Incoming>| {
        let upgrade = hyper::upgrade::on(&mut request);
        drop(env::Env::machine().spawn("sink", async move {
            let (reader, mut writer) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
            let read = tokio::io::copy(&mut reader.take(BYTES), &mut tokio::io::sink()).await.unwrap();
            writer.write_all(&read.to_be_bytes()).await.unwrap();
            writer.shutdown().await.unwrap();
        }));
        let mut response = text(101, "");
        response.headers_mut().insert("connection", "Upgrade".parse().unwrap());
        response.headers_mut().insert("upgrade", "sink".parse().unwrap());
        async { response }
    });
    let request = Request::get(format!("{NODES}/n1/proxy/sink"));
    let request = request.header("connection", "Upgrade").header("upgrade", "sink");
    let mut io = upgraded(HttpClient::new(&cluster).await.send(request).await).await;
    tokio::io::copy(&mut tokio::io::repeat(b'x').take(BYTES), &mut io).await.unwrap();
    assert_eq!(io.read_u64().await.unwrap(), BYTES);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_waited_for() {
    let (cluster, kubelet) = cluster(2039).await;
    let env = cluster.env().clone();
    kubelet.answers(move |_| {
        let env = env.clone();
        async move {
            env.sleep(Duration::from_secs(900)).await;
            text(200, "at last")
        }
    });
    let reply = cluster.get(format!("{NODES}/n1/proxy/x?timeout=1s")).await;
    assert_eq!((reply.status, &reply.bytes[..]), (200, &b"at last"[..]));
    // A client that does not wait takes its connection along.
    let path = format!("{NODES}/n1/proxy/x");
    let mut client = HttpClient::new(&cluster).await;
    let waited = cluster.env().timeout(Duration::from_secs(5), client.send(Request::get(path))).await;
    assert!(waited.is_err());
    drop(client);
    kubelet.is_left_alone().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_path_is_the_one_that_mutating_admission_leaves() {
    let (cluster, kubelet) = cluster(2039).await;
    let group = "/apis/admissionregistration.k8s.io/v1";
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["nodes/proxy"]}]);
    let expression = "[JSONPatch{op: 'replace', path: '/path', value: '/safe' + object.path}]";
    let mutating = json!({"metadata": {"name": "m"}, "spec": {"matchConstraints": {"resourceRules": rules}, "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]}});
    cluster.post(format!("{group}/mutatingadmissionpolicies"), mutating).await.ok(201);
    let binding = json!({"metadata": {"name": "m"}, "spec": {"policyName": "m"}});
    cluster.post(format!("{group}/mutatingadmissionpolicybindings"), binding).await.ok(201);
    let reply = cluster.get(format!("{NODES}/n1/proxy/a%20b/../metrics?x=y")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(kubelet.asked().uri, "/safe/metrics?x=y");
    cluster.get(format!("{NODES}/n1/proxy/run/")).await;
    assert_eq!(kubelet.asked().uri, "/safe/run/");

    // Validating policies see the path as it was written, decoded.
    let validating = json!({"metadata": {"name": "v"}, "spec": {"matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "false", "messageExpression": "string(object.path)"}]}});
    cluster.post(format!("{group}/validatingadmissionpolicies"), validating).await.ok(201);
    let binding =
        json!({"metadata": {"name": "v"}, "spec": {"policyName": "v", "validationActions": ["Deny"]}});
    cluster.post(format!("{group}/validatingadmissionpolicybindings"), binding).await.ok(201);
    let refused = message(cluster.get(format!("{NODES}/n1/proxy/a%20b/../c")).await, 422);
    assert!(refused.ends_with("denied request: /safe/a b/../c"), "{refused}");
    cluster.shutdown().await;
}
