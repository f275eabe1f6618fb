//! `pods/log`: what is asked of the kubelet, and how its answer comes back.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use serde_json::json;

use crate::test_kubelet::{HttpClient, PODS, cluster, http2, streamed, text, whole};

#[tokio::test(start_paused = true)]
async fn a_log_is_the_kubelets() {
    let (cluster, kubelet) = cluster(2001).await;
    let log = cluster.get(format!("{PODS}/a/log")).await;
    assert_eq!((log.status, &log.bytes[..]), (200, &b"hello\n"[..]));
    assert_eq!(log.headers["content-type"], "text/plain");
    let asked = kubelet.asked();
    assert_eq!((asked.method.as_str(), &*asked.uri), ("GET", "/containerLogs/default/a/c"));
    assert_eq!(asked.address, "10.1.2.3:10250");
    assert_eq!(asked.header("host"), "10.1.2.3:10250");
    let user = asked.user.unwrap();
    assert_eq!(
        (&*user.name, &*user.groups),
        ("kube-apiserver-kubelet-client", &["system:masters".to_owned()][..])
    );

    let all = "follow=true&previous=true&timestamps=1&sinceSeconds=3&tailLines=4&limitBytes=5&container=c";
    cluster.get(format!("{PODS}/a/log?{all}")).await;
    let sent = "follow=true&limitBytes=5&previous=true&sinceSeconds=3&tailLines=4&timestamps=true";
    assert_eq!(kubelet.asked().uri, format!("/containerLogs/default/a/c?{sent}"));
    kubelet.is_left_alone().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_log_is_of_one_container() {
    let (cluster, kubelet) = cluster(2002).await;
    let many = json!({
        "metadata": {"name": "many"},
        "spec": {
            "nodeName": "n1",
            "initContainers": [{"name": "i", "image": "i"}],
            "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}],
        },
    });
    cluster.post(PODS, many).await.ok(201);
    let none = cluster.get(format!("{PODS}/many/log")).await.ok(400);
    assert_eq!(none["message"], "a container name must be specified for pod many, choose one of: [i c d]");
    let wrong = cluster.get(format!("{PODS}/many/log?container=x")).await.ok(400);
    assert_eq!(wrong["message"], "container x is not valid for pod many");
    assert_eq!(kubelet.count(), 0);
    for container in ["i", "d"] {
        assert_eq!(cluster.get(format!("{PODS}/many/log?container={container}")).await.status, 200);
        assert_eq!(kubelet.asked().uri, format!("/containerLogs/default/many/{container}"));
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_followed_log_comes_as_it_is_written() {
    let (cluster, kubelet) = cluster(2003).await;
    let writer = std::sync::Arc::new(Mutex::new(None));
    let place = writer.clone();
    kubelet.answers(move |_| {
        let (sender, response) = streamed();
        *place.lock() = Some(sender);
        async { response }
    });
    let path = format!("{PODS}/a/log?follow=true");
    for over_http2 in [false, true] {
        let request = Request::get(if over_http2 { format!("http://api:6443{path}") } else { path.clone() });
        let response = match over_http2 {
            false => HttpClient::new(&cluster).await.send(request).await,
            true => {
                let mut client = http2(&cluster).await;
                client.send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap()
            }
        };
        assert_eq!(response.status(), 200);
        assert!(!response.headers().contains_key("content-length"));
        let mut body = response.into_body();
        let mut sender = writer.lock().take().unwrap();
        for line in ["one\n", "two\n"] {
            // Far longer than any request may take that is not long-running.
            cluster.env().sleep(Duration::from_secs(600)).await;
            sender.send_data(Bytes::from(line)).await.unwrap();
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), line);
        }
        // The client goes, and the kubelet's connection with it.
        drop(body);
        kubelet.is_left_alone().await;
    }
    let metrics = String::from_utf8(cluster.get("/metrics").await.bytes.to_vec()).unwrap();
    let count = metrics.lines().find(|line| {
        line.starts_with("apiserver_request_total{")
            && line.contains("\"log\"")
            && line.contains("\"CONNECT\"")
    });
    assert!(count.is_some_and(|line| line.ends_with(" 2")), "{count:?}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_may_take_its_time() {
    let (cluster, kubelet) = cluster(2004).await;
    const BYTES: usize = 4 << 20;
    kubelet.answers(|_| async {
        let (mut sender, response) = streamed();
        drop(env::Env::machine().spawn("log", async move {
            for _ in 0..BYTES / 1024 {
                if sender.send_data(Bytes::from(vec![b'x'; 1024])).await.is_err() {
                    return;
                }
            }
        }));
        response
    });
    for over_http2 in [false, true] {
        let path = format!("{PODS}/a/log?follow=true");
        let response = match over_http2 {
            false => HttpClient::new(&cluster).await.send(Request::get(path)).await,
            true => {
                let request = Request::get(format!("http://api:6443{path}"));
                http2(&cluster).await.send_request(request.body(Full::default()).unwrap()).await.unwrap()
            }
        };
        // Longer than an answer of this server's own may wait.
        cluster.env().sleep(Duration::from_secs(3600)).await;
        let (code, body) = whole(response).await;
        assert_eq!((code, body.len()), (200, BYTES), "http2: {over_http2}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_kubelet_refuses_is_told() {
    let (cluster, kubelet) = cluster(2005).await;
    let log = format!("{PODS}/a/log");
    let waiting = "container \"c\" in pod \"a\" is waiting to start: ContainerCreating";
    let cases = [
        (400, waiting, 400, "BadRequest", waiting),
        (500, "no", 500, "InternalError", "Internal error occurred: no"),
        (404, "no", 404, "NotFound", "the server could not find the requested resource ( pods/log a)"),
        (403, "Forbidden (user=x)", 403, "Forbidden", "Forbidden (user=x) ( pods/log a)"),
    ];
    for (code, said, status, reason, message) in cases {
        kubelet.answers(move |_| async move { text(code, said) });
        let answer = cluster.get(&log).await.ok(status);
        assert_eq!((&answer["reason"], &answer["message"]), (&json!(reason), &json!(message)));
    }
    kubelet.answers(|_| async {
        let mut redirect = text(302, "");
        redirect.headers_mut().insert("location", "https://elsewhere/".parse().unwrap());
        redirect
    });
    let url = "https://10.1.2.3:10250/containerLogs/default/a/c";
    let answer = cluster.get(&log).await.ok(500);
    assert_eq!(answer["message"], format!("Get \"{url}\": redirects forbidden"));
    kubelet.refuse_connections(true);
    let answer = cluster.get(&log).await.ok(500);
    let refused = format!("Get \"{url}\": dial tcp 10.1.2.3:10250: connect: connection refused");
    assert_eq!(answer["message"], refused);
    kubelet.is_left_alone().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_is_verified_unless_the_client_does_not_care() {
    let (cluster, kubelet) = cluster(2006).await;
    kubelet.rename("10.9.9.9");
    let log = format!("{PODS}/a/log");
    let answer = cluster.get(&log).await.ok(500);
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.contains("tls: failed to verify certificate: x509: certificate is valid for 10.9.9.9"),
        "{message}"
    );
    assert_eq!(cluster.get(format!("{log}?insecureSkipTLSVerifyBackend=true")).await.status, 200);
    assert_eq!(kubelet.asked().user.unwrap().name, "kube-apiserver-kubelet-client");
    let metrics = String::from_utf8(cluster.get("/metrics").await.bytes.to_vec()).unwrap();
    assert!(metrics.contains("kube_apiserver_pod_logs_backend_tls_failure_total 1\n"));
    assert!(
        metrics.contains("kube_apiserver_pod_logs_insecure_backend_total{usage=\"skip_tls_allowed\"} 1\n")
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_followed_log() {
    let (cluster, kubelet) = cluster(2007).await;
    kubelet.answers(|_| async {
        let (mut sender, response) = streamed();
        drop(env::Env::machine().spawn("log", async move {
            sender.send_data(Bytes::from("one\n")).await.unwrap();
            std::future::pending::<()>().await
        }));
        response
    });
    let mut client = HttpClient::new(&cluster).await;
    let response = client.send(Request::get(format!("{PODS}/a/log?follow=true"))).await;
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    cluster.api().begin_shutdown();
    assert!(body.frame().await.is_none(), "it is complete");
    kubelet.is_left_alone().await;
    cluster.shutdown().await;
}
