//! What a webhook can cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use webhook::{Call, CallError};

use super::connections::join;
use super::hook::*;

#[tokio::test]
async fn an_answer_without_end_is_cut() {
    for speaks in [Speaks::Both, Speaks::Http1] {
        let ca = Ca::new();
        let hook = Hook::start(&ca.serving(&["127.0.0.1"]), speaks, |seen| {
            match seen.path.starts_with("/refusal") {
                true => Reply::Full(500, vec![("content-type", "text/plain")], vec![b'x'; 1 << 20]),
                false => Reply::Endless,
            }
        })
        .await;
        let client = client();
        let endless = config(&hook.url("/"), ca.issuer.ca_pem());
        let call = Call { max_response_bytes: 1 << 20, ..Call::new(&endless, "{}", LONG) };
        assert_eq!(client.post(call).await.unwrap_err(), CallError::TooLarge { limit: 1 << 20 });
        let error = refused(&client, &config(&hook.url("/refusal"), ca.issuer.ca_pem()), LONG).await;
        assert!(error.len() < 3000 && error.contains("xxx"), "{}", error.len());
    }
}

#[tokio::test]
async fn a_server_gets_so_many_calls_at_once_and_others_do_not_wait_for_it() {
    for speaks in [Speaks::Both, Speaks::Http1] {
        let ca = Ca::new();
        let identity = ca.serving(&["127.0.0.1"]);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let slow = Hook::start(&identity, speaks, move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Reply::Never
        })
        .await;
        let good = Hook::start(&identity, speaks, |_| Reply::json("{}")).await;
        let client = client();
        let (never, fine) =
            (config(&slow.url("/"), ca.issuer.ca_pem()), config(&good.url("/"), ca.issuer.ca_pem()));
        let calls = join((0..150).map(|_| post(&client, &never)));
        let meanwhile = async {
            slow.has_requests(128).await;
            for _ in 0..20 {
                post(&client, &fine).await.unwrap();
            }
            assert_eq!(asked.load(Ordering::Relaxed), 128);
            client.shutdown().await;
        };
        let (called, ()) = tokio::join!(calls, meanwhile);
        assert!(called.into_iter().all(|called| called.is_err()));
    }
}

#[tokio::test]
async fn servers_that_hang_keep_nobody_from_others_and_say_that_they_have_no_place() {
    let ca = Ca::new();
    let identity = ca.serving(&["127.0.0.1"]);
    let client = client();
    // More calls together than one bound for all servers would let through.
    let mut hung = Vec::new();
    for _ in 0..9 {
        hung.push(Hook::start(&identity, Speaks::Both, |_| Reply::Never).await);
    }
    let good = Hook::start(&identity, Speaks::Both, |_| Reply::json("{}")).await;
    let of = |hook: &Hook| config(&hook.url("/"), ca.issuer.ca_pem());
    let never: Vec<_> = hung.iter().map(of).collect();
    let calls = join(never.iter().flat_map(|config| (0..128).map(|_| post(&client, config))));
    let meanwhile = async {
        for hook in &hung {
            hook.has_requests(128).await;
        }
        post(&client, &of(&good)).await.unwrap();
        let error = refused(&client, &never[0], Duration::from_millis(50)).await;
        assert!(error.contains("context deadline exceeded: not sent: as many calls"), "{error}");
        client.shutdown().await;
    };
    let (called, ()) = tokio::join!(calls, meanwhile);
    assert!(called.into_iter().all(|called| called.is_err()));
}
