//! Asks all nodes that are not simulated what they use, over and over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use admission::list_newest;
use codec::json;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream;
use object::Value;
use table::{Scope, Selection};

use super::kubelet::KubeletScraper;
use super::points;
use super::scraped::RESOLUTION;
use crate::api::Api;

/// Asked at the same time.
const AT_ONCE: usize = 16;
/// Before the first look.
const FIRST: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads `/metrics/resource` of a node's kubelet: the text, or why there is none. Bounding its size is up to the reader.
pub trait NodeScraper: Send + Sync {
    fn scrape<'a>(&'a self, node: &'a Value) -> BoxFuture<'a, Result<String, String>>;
}

impl Api {
    /// The same of the kubelets this server talks to.
    pub fn scrape_kubelets(self: Arc<Api>) -> BoxFuture<'static, ()> {
        let scraper = KubeletScraper::new(self.registry().env(), self.kubelet_client().tls(false));
        self.scrape_nodes(Arc::new(scraper))
    }

    /// Until the server stops. Serves metrics.k8s.io for real nodes.
    pub fn scrape_nodes(self: Arc<Api>, scraper: Arc<dyn NodeScraper>) -> BoxFuture<'static, ()> {
        Box::pin(run(self, scraper))
    }
}

async fn run(api: Arc<Api>, scraper: Arc<dyn NodeScraper>) {
    let mut shutdown = api.shutdown();
    let env = api.registry().env().clone();
    let pause = Duration::from_nanos(RESOLUTION.unsigned_abs());
    // Nodes that begin with the server get their certificates first.
    tokio::select! {
        biased;
        () = shutdown.begun() => return,
        () = env.sleep(FIRST) => {}
    }
    loop {
        let begun = env.monotonic();
        tokio::select! {
            biased;
            () = shutdown.begun() => return,
            () = scrape_all(&api, &scraper) => {}
        }
        tokio::select! {
            biased;
            () = shutdown.begun() => return,
            () = env.sleep_until(begun + pause) => {}
        }
    }
}

async fn scrape_all(api: &Arc<Api>, scraper: &Arc<dyn NodeScraper>) {
    let asked: Vec<_> =
        real_nodes(api).into_iter().map(|node| scrape(api.clone(), scraper.clone(), node)).collect();
    let mut answers = stream::iter(asked).buffer_unordered(AT_ONCE);
    let mut answered = BTreeSet::new();
    while let Some(answer) = answers.next().await {
        answered.extend(answer);
    }
    api.scraped.retain(|node| answered.contains(node));
}

/// The node's name, if it answered.
async fn scrape(api: Arc<Api>, scraper: Arc<dyn NodeScraper>, node: Value) -> Option<String> {
    let name = node.str_at(&["metadata", "name"]).unwrap_or_default();
    let told = match api.registry().env().timeout(TIMEOUT, scraper.scrape(&node)).await {
        Ok(told) => told,
        Err(_) => Err("it took too long".to_owned()),
    };
    match told {
        Ok(text) => {
            api.scraped.put(name, points::parse(&text));
            Some(name.to_owned())
        }
        Err(why) => {
            tracing::warn!(node = name, why, "node does not tell what it uses");
            None
        }
    }
}

/// Those with a kubelet; what simulated ones use is known without asking.
fn real_nodes(api: &Arc<Api>) -> Vec<Value> {
    let Some(storage) = api.registry().catalog().find_storage("", "nodes").cloned() else {
        return Vec::new();
    };
    let listed = list_newest(api.registry().table(), storage.id, &Selection::everything(Scope::All));
    let nodes = listed.map(|listed| listed.items).unwrap_or_default();
    let parsed = nodes.iter().filter_map(|node| json::parse(node.body(), None).ok());
    let is_real = |node: &Value| {
        let port = node.at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).and_then(Value::as_int);
        let runtime = node.str_at(&["status", "nodeInfo", "containerRuntimeVersion"]).unwrap_or("");
        port.is_some_and(|port| port > 0) && !runtime.starts_with("simulated://")
    };
    parsed.filter(is_real).collect()
}
