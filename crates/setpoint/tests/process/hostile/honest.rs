//! Somebody who uses the API as it is meant: every answer is right, and every write is seen by the watch, in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::MAPS;
use crate::harness::*;

pub struct Honest {
    finished: watch::Receiver<u64>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Honest {
    pub async fn start(server: &Proc) -> Honest {
        let client = server.client().await;
        let (told, finished) = watch::channel(0);
        let stop = Arc::new(AtomicBool::new(false));
        let name = format!("honest-{}", AtomicU64::new(0).fetch_add(1, Ordering::Relaxed));
        let (code, made) = call(&client, "POST", MAPS, Some(config_map(&name, "0"))).await;
        assert_eq!(code, 201, "{made}");
        let from = revision(&made);
        let path = format!("{MAPS}?watch=1&resourceVersion={from}&fieldSelector=metadata.name%3D{name}");
        let mut events = Watch::open(&client, &path).await.unwrap();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let mut round = 0;
            while !stopped.load(Ordering::Relaxed) {
                round += 1;
                once(&client, &mut events, &name, round).await;
                let _ = told.send(round);
            }
        });
        Honest { finished, stop, task }
    }

    /// Waits for so many whole rounds from now on.
    pub async fn rounds(&self, count: u64) {
        let mut finished = self.finished.clone();
        // One is under way already.
        let wanted = *finished.borrow() + count + 1;
        let waited = tokio::time::timeout(PATIENCE * 5, finished.wait_for(|round| *round >= wanted)).await;
        waited.expect("the honest client gets on").expect("the honest client gets right answers");
    }

    pub async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
    }
}

/// Written, read, listed, watched.
async fn once(client: &kube::Client, events: &mut Watch, name: &str, round: u64) {
    let (path, value) = (format!("{MAPS}/{name}"), round.to_string());
    let limit = |what: &'static str, call| async move {
        tokio::time::timeout(PATIENCE, call)
            .await
            .unwrap_or_else(|_| panic!("an honest client waits for a {what}"))
    };
    let (code, written) = limit("write", call(client, "PUT", &path, Some(config_map(name, &value)))).await;
    assert_eq!(code, 200, "{written}");
    let (code, read) = limit("read", call(client, "GET", &path, None)).await;
    assert_eq!((code, &read), (200, &written));
    let listed = format!("{MAPS}?fieldSelector=metadata.name%3D{name}");
    let (code, list) = limit("list", call(client, "GET", &listed, None)).await;
    assert_eq!((code, list["items"].as_array().map(Vec::len)), (200, Some(1)), "{list}");
    assert_eq!(list["items"][0]["data"], read["data"]);
    let event = events.next().await.expect("the watch goes on").expect("and has not ended");
    assert_eq!(
        (&event["type"], &event["object"]["data"]["value"]),
        (&Value::from("MODIFIED"), &Value::from(value))
    );
}
