//! Which connections are opened, used again and closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use env::Env;
use parking_lot::Mutex;
use tokio::sync::Notify;
use webhook::{Call, ClientConfig, Credentials, WebhookClient};

use super::hook::*;

#[tokio::test]
async fn calls_share_one_http2_connection() {
    let ca = Ca::new();
    let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Both, |_| Reply::json("{}")).await;
    let client = client();
    let (one, other) =
        (config(&hook.url("/a"), ca.issuer.ca_pem()), config(&hook.url("/b"), ca.issuer.ca_pem()));
    let calls: Vec<_> =
        (0..50).map(|n| Call::new(if n % 2 == 0 { &one } else { &other }, "{}", LONG)).collect();
    for called in join(calls.into_iter().map(|call| client.post(call))).await {
        called.unwrap();
    }
    post(&client, &one).await.unwrap();
    assert_eq!((hook.opened(), hook.requests()), (1, 51));
    assert_eq!(client.servers(), 1);
}

#[tokio::test]
async fn calls_over_http1_keep_their_connections() {
    let ca = Ca::new();
    let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Http1, |_| Reply::json("{}")).await;
    let client = client();
    let config = config(&hook.url("/a"), ca.issuer.ca_pem());
    for _ in 0..10 {
        post(&client, &config).await.unwrap();
    }
    assert_eq!((hook.opened(), hook.requests()), (1, 10));
    let calls = (0..5).map(|_| post(&client, &config));
    assert!(join(calls).await.into_iter().all(|called| called.is_ok()));
    assert!(hook.opened() <= 5, "{}", hook.opened());
    let opened = hook.opened();
    for _ in 0..5 {
        post(&client, &config).await.unwrap();
    }
    assert_eq!(hook.opened(), opened);
}

#[tokio::test]
async fn a_request_is_what_upstream_sends() {
    let ca = Ca::new();
    for speaks in [Speaks::Both, Speaks::Http1] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = seen.clone();
        let hook = Hook::start(&ca.serving(&["127.0.0.1"]), speaks, move |request| {
            let header =
                |name: &str| request.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
            let headers = [
                "user-agent",
                "accept",
                "content-type",
                "authorization",
                "impersonate-user",
                "content-length",
            ]
            .map(header);
            noted.lock().push((request.path, request.authority, headers, request.body));
            Reply::json("{}")
        })
        .await;
        let client = client();
        let known = Credentials {
            authorization: Some("Bearer t".to_owned()),
            impersonate: vec![("impersonate-user".to_owned(), b"jane".to_vec())],
            ..Credentials::default()
        };
        let config = config(&hook.url("//a/"), ca.issuer.ca_pem()).with_credentials(known);
        client.post(Call::new(&config, r#"{"x":1}"#, Duration::from_millis(9_500))).await.unwrap();
        let (path, authority, headers, body) = seen.lock().pop().unwrap();
        assert_eq!(path, "/a?timeout=10s");
        assert_eq!(authority, hook.address.to_string());
        assert_eq!(
            headers,
            [
                "kube-apiserver-admission",
                "application/json, */*",
                "application/json",
                "Bearer t",
                "jane",
                "7"
            ]
        );
        assert_eq!(&body[..], br#"{"x":1}"#);
    }
}

#[tokio::test]
async fn another_bundle_is_another_connection() {
    let (ca, more) = (Ca::new(), Ca::new());
    let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Both, |_| Reply::json("{}")).await;
    let client = client();
    post(&client, &config(&hook.url("/"), ca.issuer.ca_pem())).await.unwrap();
    let both = format!("{}{}", ca.issuer.ca_pem(), more.issuer.ca_pem());
    post(&client, &config(&hook.url("/"), &both)).await.unwrap();
    assert_eq!((hook.opened(), client.servers()), (2, 2));
    // Trust that is taken away ends with the connections it opened.
    let error = refused(&client, &config(&hook.url("/"), more.issuer.ca_pem()), LONG).await;
    assert!(error.ends_with("x509: certificate signed by unknown authority"), "{error}");
}

#[tokio::test]
async fn a_connection_closed_quietly_is_replaced() {
    let ca = Ca::new();
    let identity = ca.serving(&["127.0.0.1"]);
    let hook = Hook::start_with(&identity, Speaks::Http1, None, true, |_| Reply::json("{}")).await;
    let client = client();
    let config = config(&hook.url("/"), ca.issuer.ca_pem());
    for _ in 0..20 {
        post(&client, &config).await.unwrap();
    }
    assert!(hook.requests() >= 20);
}

#[tokio::test]
async fn what_a_server_has_seen_it_does_not_get_again() {
    for speaks in [Speaks::Both, Speaks::Http1] {
        let ca = Ca::new();
        let hook = Hook::start(&ca.serving(&["127.0.0.1"]), speaks, |seen| match &*seen.path {
            path if path.starts_with("/crash") => Reply::Closes,
            _ => Reply::json("{}"),
        })
        .await;
        let client = client();
        post(&client, &config(&hook.url("/a"), ca.issuer.ca_pem())).await.unwrap();
        // On the connection that is open.
        refused(&client, &config(&hook.url("/crash"), ca.issuer.ca_pem()), LONG).await;
        assert_eq!((hook.opened(), hook.requests()), (1, 2), "{speaks:?}");
        post(&client, &config(&hook.url("/a"), ca.issuer.ca_pem())).await.unwrap();
        assert_eq!(hook.requests(), 3, "{speaks:?}");
    }
}

#[tokio::test]
async fn what_a_server_refused_to_look_at_it_gets_once_more() {
    let ca = Ca::new();
    for (refusals, sent) in [(1, 2), (2, 2)] {
        let left = Mutex::new(refusals);
        let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Both, move |_| {
            let mut left = left.lock();
            match *left {
                0 => Reply::json("{}"),
                _ => {
                    *left -= 1;
                    Reply::Refuses
                }
            }
        })
        .await;
        let client = client();
        // Also on a new connection, whose server has not said yet how many streams it takes.
        let answered = post(&client, &config(&hook.url("/"), ca.issuer.ca_pem())).await;
        assert_eq!((answered.is_ok(), hook.opened(), hook.requests()), (refusals == 1, 1, sent));
    }
}

#[tokio::test]
async fn a_connection_whose_server_takes_its_time_to_reset_a_stream_is_kept() {
    let ca = Ca::new();
    for (reason, answered, sent) in [(h2::Reason::REFUSED_STREAM, true, 2), (h2::Reason::CANCEL, false, 1)] {
        let (told, asked) = (Arc::new(Notify::new()), AtomicUsize::new(0));
        let when = told.clone();
        let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Both, move |_| {
            match asked.fetch_add(1, Ordering::Relaxed) {
                0 => Reply::ResetsWhenTold(reason, when.clone()),
                _ => Reply::json("{}"),
            }
        })
        .await;
        let (client, config) = (client(), config(&hook.url("/"), ca.issuer.ca_pem()));
        let (first, ()) = tokio::join!(post(&client, &config), async {
            hook.has_requests(1).await;
            // Longer than a connection may be silent that is not dead.
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(1)).await;
            tokio::time::resume();
            told.notify_one();
        });
        assert_eq!((first.is_ok(), hook.requests()), (answered, sent), "{reason:?}");
        post(&client, &config).await.unwrap();
        assert_eq!(hook.opened(), 1, "{reason:?}");
    }
}

#[tokio::test]
async fn endpoints_of_a_service_share_its_calls() {
    let ca = Ca::new();
    let identity = ca.serving(&["hooks.system.svc"]);
    let authorities = Arc::new(Mutex::new(Vec::new()));
    let mut hooks = Vec::new();
    for _ in 0..2 {
        let noted = authorities.clone();
        let answer = move |seen: Seen| {
            noted.lock().push(seen.authority);
            Reply::json("{}")
        };
        hooks.push(Hook::start(&identity, Speaks::Both, answer).await);
    }
    let services = Arc::new(Services::default());
    services.0.lock().push(("hooks".to_owned(), hooks.iter().map(|hook| hook.address).collect()));
    services.0.lock().push(("idle".to_owned(), Vec::new()));
    let client = WebhookClient::new(Env::machine(), services.clone());
    let config = |name: &str| {
        let service = format!(r#"{{"service":{{"namespace":"system","name":"{name}","path":"/c"}}}}"#);
        let mut config = value(service.as_bytes());
        use base64::Engine as _;
        let bundle = base64::engine::general_purpose::STANDARD.encode(ca.issuer.ca_pem());
        config.make_map().set("caBundle", bundle);
        ClientConfig::from_value(&config).unwrap()
    };
    for _ in 0..40 {
        post(&client, &config("hooks")).await.unwrap();
    }
    assert_eq!((hooks[0].opened(), hooks[1].opened()), (1, 1));
    assert!(hooks.iter().all(|hook| hook.requests() >= 5), "{} {}", hooks[0].requests(), hooks[1].requests());
    assert!(authorities.lock().iter().all(|authority| authority == "hooks.system.svc:443"));
    // An endpoint that is gone is asked no more.
    services.0.lock()[0].1.pop();
    let before = hooks[1].requests();
    for _ in 0..10 {
        post(&client, &config("hooks")).await.unwrap();
    }
    assert_eq!(hooks[1].requests(), before);

    let error = refused(&client, &config("idle"), LONG).await;
    assert_eq!(
        error,
        r#"Post "https://idle.system.svc:443/c?timeout=20s": no endpoints available for service "idle""#
    );
    let error = refused(&client, &config("none"), LONG).await;
    assert_eq!(error, r#"Post "https://none.system.svc:443/c?timeout=20s": service "none" not found"#);
}

#[tokio::test]
async fn what_is_not_used_is_closed() {
    let ca = Ca::new();
    for speaks in [Speaks::Both, Speaks::Http1] {
        let hook = Hook::start(&ca.serving(&["127.0.0.1"]), speaks, |_| Reply::json("{}")).await;
        let client = client();
        post(&client, &config(&hook.url("/"), ca.issuer.ca_pem())).await.unwrap();
        assert_eq!(client.servers(), 1);
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(136)).await;
        tokio::time::resume();
        hook.all_closed().await;
        assert_eq!(client.servers(), 0);
        // And opened again.
        post(&client, &config(&hook.url("/"), ca.issuer.ca_pem())).await.unwrap();
        assert_eq!(hook.opened(), 2);
    }
}

#[tokio::test]
async fn everything_ends_at_shutdown() {
    let ca = Ca::new();
    for speaks in [Speaks::Both, Speaks::Http1] {
        let hook =
            Hook::start(&ca.serving(&["127.0.0.1"]), speaks, |seen| match seen.path.starts_with("/never") {
                true => Reply::Never,
                false => Reply::json("{}"),
            })
            .await;
        let client = client();
        post(&client, &config(&hook.url("/"), ca.issuer.ca_pem())).await.unwrap();
        let never = config(&hook.url("/never"), ca.issuer.ca_pem());
        let (called, ()) = tokio::join!(post(&client, &never), async {
            hook.has_requests(2).await;
            client.shutdown().await;
        });
        let url = hook.url("/never?timeout=20s");
        assert_eq!(called.unwrap_err().to_string(), format!("Post \"{url}\": context canceled"));
        hook.all_closed().await;
        let after = post(&client, &never).await.unwrap_err();
        assert!(after.to_string().ends_with("context canceled"), "{after}");
    }
}

/// All of them at once, on this task.
pub async fn join<F: Future>(work: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut work: Vec<_> = work.map(|work| (Box::pin(work), None)).collect();
    std::future::poll_fn(|cx| {
        let mut waiting = false;
        for (work, output) in &mut work {
            if output.is_none() {
                match work.as_mut().poll(cx) {
                    std::task::Poll::Ready(done) => *output = Some(done),
                    std::task::Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    work.into_iter().map(|(_, output)| output.unwrap()).collect()
}
