//! What a webhook can cost that is called through this server, and what is said of it: the same as of others.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use http::Response;
use tokio::sync::Semaphore;
use webhook::connection::{Body, whole};
use webhook::{Call, CallError, Cause, ClientConfig, ThisServer, WebhookClient};

use super::connections::join;
use super::hook::*;

/// Answers by the path.
struct This {
    places: Arc<Semaphore>,
    asked: AtomicUsize,
}

impl ThisServer for This {
    fn places(&self, path: &str) -> Option<Arc<Semaphore>> {
        (path != "/nobody").then(|| self.places.clone())
    }

    fn post<'a>(
        &'a self,
        path: &'a str,
        _: Bytes,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Body>, String>> + Send + 'a>> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let answer = |code: u16, body: Vec<u8>| {
                let response = Response::builder().status(code).header("retry-after", "0");
                Ok(response.body(whole(body.into())).unwrap())
            };
            match path.split('?').next().unwrap() {
                "/hangs" => std::future::pending().await,
                "/large" => answer(200, vec![b' '; (1 << 20) + 1]),
                "/refusal" => answer(400, vec![b'x'; 1 << 20]),
                "/later" if asked < 2 => answer(503, Vec::new()),
                "/nobody" => answer(404, Vec::new()),
                _ => answer(200, b"{}".to_vec()),
            }
        })
    }
}

fn reaching() -> (WebhookClient, Arc<This>) {
    let client = WebhookClient::new(Env::simulated(1), Arc::new(Services::default()));
    let this = Arc::new(This { places: webhook::places(), asked: AtomicUsize::default() });
    client.reach_this_server(this.clone());
    (client, this)
}

fn of_this(path: &str) -> ClientConfig {
    config(&format!("https://kubernetes.default.svc:443{path}"), "")
}

#[tokio::test(start_paused = true)]
async fn its_time_is_the_calls() {
    let (client, _) = reaching();
    let error = client.post(Call::new(&of_this("/hangs"), "{}", LONG)).await.unwrap_err();
    let url = "https://kubernetes.default.svc:443/hangs?timeout=20s";
    assert_eq!(error.to_string(), format!("Post \"{url}\": context deadline exceeded"));
    assert_eq!(error.cause(), Cause::Deadline);
}

#[tokio::test(start_paused = true)]
async fn no_more_of_its_answer_is_read_than_is_good() {
    let (client, _) = reaching();
    let large = of_this("/large");
    let call = Call { max_response_bytes: 1 << 20, ..Call::new(&large, "{}", LONG) };
    assert_eq!(client.post(call).await.unwrap_err(), CallError::TooLarge { limit: 1 << 20 });
    let error = refused(&client, &of_this("/refusal"), LONG).await;
    assert_eq!(error, "the server rejected our request for an unknown reason");
}

#[tokio::test(start_paused = true)]
async fn it_may_say_later() {
    let (client, this) = reaching();
    post(&client, &of_this("/later")).await.unwrap();
    assert_eq!(this.asked.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn it_gets_so_many_calls_at_once() {
    let (client, this) = reaching();
    let hangs = of_this("/hangs");
    let calls = join((0..150).map(|_| post(&client, &hangs)));
    let meanwhile = async {
        tokio::task::yield_now().await;
        assert_eq!(this.asked.load(Ordering::Relaxed), 128);
        let error = refused(&client, &of_this("/fine"), Duration::from_millis(50)).await;
        assert!(error.contains("context deadline exceeded: not sent: as many calls"), "{error}");
        // Where nobody is asked nobody waits.
        let error = refused(&client, &of_this("/nobody"), LONG).await;
        assert_eq!(error, "the server could not find the requested resource");
        client.shutdown().await;
    };
    let (called, ()) = tokio::join!(calls, meanwhile);
    assert!(called.into_iter().all(|called| called.is_err()));
    post(&reaching().0, &of_this("/fine")).await.unwrap();
}
