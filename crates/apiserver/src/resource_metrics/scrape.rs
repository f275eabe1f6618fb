//! Asks all nodes that are not simulated what they use, over and over.

use std::sync::Arc;
use std::time::Duration;

use admission::list_newest;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use object::Obj;
use table::{Scope, Selection};

use super::kubelet::KubeletScraper;
use super::points::{self, Scrape};
use super::scraped::RESOLUTION;
use super::targets::{NodeEndpoint, Targets, Turn};
use crate::api::Api;

/// Before the first look.
const FIRST: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads `/metrics/resource` of a node's kubelet: the text, or why there is none. Bounding its size is up to the reader.
pub trait NodeScraper: Send + Sync {
    fn scrape<'a>(&'a self, node: &'a NodeEndpoint) -> BoxFuture<'a, Result<String, String>>;
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
    let mut targets = Targets::default();
    let mut answers = FuturesUnordered::new();
    // Nodes that begin with the server get their certificates first.
    let mut next_round = env.monotonic() + FIRST;
    loop {
        tokio::select! {
            biased;
            () = shutdown.begun() => return,
            Some((turn, told)) = answers.next() => take(&api, &mut targets, &turn, told),
            () = env.sleep_until(next_round) => {
                next_round = env.monotonic() + pause;
                targets.begin_round(&nodes(&api));
                api.scraped.retain(|node| targets.has(node));
            }
        }
        while let Some(turn) = targets.next() {
            answers.push(ask(&api, &scraper, turn));
        }
    }
}

async fn ask(api: &Arc<Api>, scraper: &Arc<dyn NodeScraper>, turn: Turn) -> (Turn, Result<Scrape, String>) {
    let told = match api.registry().env().timeout(TIMEOUT, scraper.scrape(&turn.endpoint)).await {
        Ok(told) => told.map(|text| points::parse(&text)),
        Err(_) => Err("it took too long".to_owned()),
    };
    (turn, told)
}

fn take(api: &Arc<Api>, targets: &mut Targets, turn: &Turn, told: Result<Scrape, String>) {
    let Some(news) = targets.finish(turn, told.is_ok()) else { return };
    let node = &*turn.endpoint.node;
    match told {
        Ok(scrape) => api.scraped.put(node, scrape),
        Err(why) => {
            api.scraped.remove(node);
            if news {
                tracing::warn!(node, why, "node does not tell what it uses");
            }
        }
    }
}

fn nodes(api: &Arc<Api>) -> Vec<Arc<Obj>> {
    let Some(storage) = api.registry().catalog().find_storage("", "nodes").cloned() else {
        return Vec::new();
    };
    let listed = list_newest(api.registry().table(), storage.id, &Selection::everything(Scope::All));
    listed.map(|listed| listed.items).unwrap_or_default()
}
