//! Aggregation: API group versions that other servers serve, through this one (ADR 16).
//!
//! ```text
//! APIService ── registration (ours: built-in and custom group versions) ── availability (Services, endpoints, a GET)
//!      │ Routes: a snapshot of them all
//!      v
//! request ── authorize ── routes ─┬─ local: as ever
//!                                 └─ remote: X-Remote-*, front-proxy certificate ── an endpoint of its Service
//! in the background ── discovery and OpenAPI of remote servers ── merged with ours when a client asks
//! ```

pub(crate) mod availability;
pub(crate) mod backend;
pub(crate) mod certificate;
pub(crate) mod discovery;
pub(crate) mod documents;
mod identity;
pub(crate) mod local;
mod metrics;
pub(crate) mod openapi;
mod pool;
pub(crate) mod priorities;
pub(crate) mod proxy;
pub(crate) mod routes;
pub(crate) mod webhooks;

use std::sync::Arc;

use arc_swap::ArcSwap;
use catalog::Catalog;
use client_http::Served;
use env::Env;
use object::{Status, Value};
use parking_lot::Mutex;
use registry::{Registry, ResourceResolver};
use rustls::client::ResolvesClientCert;

use crate::controllers::api_service_registration::API_SERVICES;
use crate::effects::Bell;
use crate::loopback::LoopbackClient;
use documents::Documents;
use metrics::AggregationMetrics;
use routes::{ApiService, Routes};

pub(crate) struct Aggregation {
    routes: ArcSwap<Routes>,
    /// Held while the routes are replaced: one after the other.
    changing: Mutex<()>,
    /// This server's identity at the others; without one it is nobody there.
    certificate: Option<Arc<dyn ResolvesClientCert>>,
    pub metrics: AggregationMetrics,
    /// What other servers tell of themselves.
    pub documents: Documents,
    /// What this process's own clients know of their resources.
    pub served: Arc<Served>,
    /// Rung for an APIService that is followed.
    bell: Bell,
}

impl Aggregation {
    pub fn new(catalog: Arc<Catalog>, certificate: Option<Arc<dyn ResolvesClientCert>>) -> Aggregation {
        Aggregation {
            routes: ArcSwap::default(),
            changing: Mutex::new(()),
            certificate,
            metrics: AggregationMetrics::default(),
            documents: Documents::default(),
            served: Arc::new(Served::new(catalog)),
            bell: Bell::default(),
        }
    }

    /// Where group versions are served, now.
    pub fn routes(&self) -> Arc<Routes> {
        self.routes.load_full()
    }

    /// The other server a path leads to. Costs one look at a snapshot where there is none.
    pub fn find(&self, registry: &Registry, path: &str) -> Option<Arc<ApiService>> {
        let routes = self.routes.load();
        if !routes.has_remotes() {
            return None;
        }
        match path.strip_prefix("/openapi/v3/") {
            Some(name) => {
                let is_ours = || ::openapi::has_v3_entry(&registry.catalog(), name);
                openapi::owner(&routes, &self.documents.v3.load(), name, is_ours).cloned()
            }
            None => routes.find(path).cloned(),
        }
    }

    /// Whether another server serves a group version.
    pub fn serves(&self, group: &str, version: &str) -> bool {
        self.routes.load().remote(group, version).is_some()
    }

    /// Every APIService there is, before the first request.
    pub fn load(&self, client: &LoopbackClient<'_>) -> Result<(), Status> {
        let env = client.api().registry().env();
        for object in client.list(API_SERVICES)? {
            let name = object.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
            self.set(env, &name, Some(&object));
        }
        Ok(())
    }

    /// Follows an APIService; `None`: it is gone.
    pub fn set(&self, env: &Env, name: &str, object: Option<&Value>) {
        let _changing = self.changing.lock();
        let before = self.routes.load_full();
        let mut routes = Routes::clone(&before);
        match object {
            None => routes.remove(name),
            Some(object) => {
                let before = before.get(name).map(|service| &**service);
                routes.set(ApiService::of(object, before, env, self.certificate.as_ref()));
            }
        }
        self.routes.store(Arc::new(routes));
        self.bell.ring(name);
    }

    /// Returns when a group version has an APIService, whoever serves it.
    pub async fn until_registered(&self, group: &str, version: &str) {
        let name = priorities::name(group, version);
        self.bell.until(&name, || self.routes.load().get(&name).is_some()).await;
    }
}

/// As their discovery says it, which is fetched in the background.
impl ResourceResolver for Aggregation {
    fn plural(&self, group: &str, version: &str, kind: &str) -> Option<String> {
        let service = self.routes.load().remote(group, version)?.clone();
        let known = self.documents.discovered.load().of.get(&service.name)?.clone();
        discovery::plural(&known.resources, group, version, kind)
    }
}
