//! Asks other servers for their discovery and OpenAPI documents, now and then: no client's request waits for them.
//!
//! A Service is asked once for all APIServices behind which it stands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use codec::json;
use object::Obj;
use parking_lot::Mutex;
use runtime::queue::Limits;
use runtime::{Action, BoxFuture, Failure, InformerEvent, JoinHandle, Key, Reconcile, ReconcileRequest};

use super::Context;
use super::api_service_registration::API_SERVICE;
use crate::aggregation::discovery::{self, All};
use crate::aggregation::documents::{Discovered, Documents, SpecV3};
use crate::aggregation::openapi::{self, Download};
use crate::aggregation::routes::{ApiService, Remote, Routes, ServiceKey};
use crate::api::Api;

/// They may change at any time, and nobody tells.
const REFRESH: Duration = Duration::from_secs(60);
const OF_DISCOVERY: Limits =
    Limits { first: Duration::from_millis(500), most: REFRESH, per_second: 100.0, burst: 1000.0 };
const OF_OPENAPI: Limits = Limits {
    first: Duration::from_secs(1),
    most: Duration::from_secs(3600),
    per_second: 100.0,
    burst: 1000.0,
};
/// Of all resources of a server.
const APIS: &str = "/apis";

/// A controller for each kind of document, so that nobody's discovery waits for OpenAPI, and a server that has trouble with one kind is
/// asked for the others.
pub(crate) fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let all = [
        ("apiservice-discovery", OF_DISCOVERY, Kind::Discovery),
        ("apiservice-openapi-v2", OF_OPENAPI, Kind::OpenApiV2),
        ("apiservice-openapi-v3", OF_OPENAPI, Kind::OpenApiV3),
    ];
    let start = |(name, limits, kind)| {
        let controller = context.controller(name).workers(5).limits(limits);
        let controller = controller.watches(&context.informers.of(&API_SERVICE), services_of);
        context.start(controller, Fetching { api: context.api.clone(), kind, tags: EntityTags::default() })
    };
    all.into_iter().flat_map(start).collect()
}

/// The Services behind an APIService, before and after a change.
fn services_of(event: &InformerEvent<'_>) -> Vec<Key> {
    let service = |obj: &Arc<Obj>| {
        let object = json::parse(obj.body(), None).ok()?;
        ServiceKey::of_api_service(&object).map(|service| key_of(&service))
    };
    let before = match event {
        InformerEvent::Updated { old, .. } => service(old),
        _ => None,
    };
    let now = service(event.obj());
    before.into_iter().chain(now).collect()
}

fn key_of(service: &ServiceKey) -> Key {
    Key::new(&service.namespace, &format!("{}:{}", service.name, service.port))
}

#[derive(Clone, Copy)]
enum Kind {
    Discovery,
    OpenApiV2,
    OpenApiV3,
}

/// Those a Service stands behind; each group can be asked as one. There is one group, unless they trust it for different reasons.
fn behind(routes: &Routes, key: &Key) -> Vec<Vec<Arc<ApiService>>> {
    let mut groups: Vec<Vec<Arc<ApiService>>> = Vec::new();
    for service in routes.remotes() {
        let Some(remote) = service.remote.as_ref().filter(|remote| key_of(&remote.service) == *key) else {
            continue;
        };
        let same = |group: &&mut Vec<Arc<ApiService>>| {
            let first = group.first().and_then(|first| first.remote.as_ref());
            first.is_some_and(|first| first.is_same_server(remote))
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(service.clone()),
            None => groups.push(vec![service.clone()]),
        }
    }
    groups
}

struct Fetching {
    api: Arc<Api>,
    kind: Kind,
    tags: EntityTags,
}

impl Reconcile for Fetching {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let routes = self.api.aggregation.routes();
            self.forget_others(&routes);
            let mut action = Action::AwaitChange;
            let mut failed = None;
            for group in behind(&routes, request.key) {
                let is_available = |s: &Arc<ApiService>| s.remote.as_ref().is_some_and(|r| r.available);
                // Requests of clients are refused, too. Its condition wakes us when it can be asked.
                let (available, unavailable): (Vec<_>, Vec<_>) = group.into_iter().partition(is_available);
                self.could_not_ask(unavailable.iter());
                let Some(remote) = available.first().and_then(|first| first.remote.as_ref()) else {
                    continue;
                };
                match self.ask(&available, remote).await {
                    Ok(()) => action = Action::Requeue(REFRESH),
                    Err(why) => failed = Some(why),
                }
            }
            failed.map_or(Ok(action), |why| Err(Failure::Other(why)))
        })
    }
}

impl Fetching {
    fn documents(&self) -> &Documents {
        &self.api.aggregation.documents
    }

    /// What is known of APIServices no other server serves any more.
    fn forget_others(&self, routes: &Routes) {
        let is_remote = |name: &str| routes.is_remote(name);
        self.tags.0.lock().retain(|name, _| is_remote(name));
        match self.kind {
            Kind::Discovery => self.documents().discovered.retain(is_remote),
            Kind::OpenApiV2 => self.documents().v2.retain(is_remote),
            Kind::OpenApiV3 => self.documents().v3.retain(is_remote),
        }
    }

    /// Its resources are unknown; what it described once is kept.
    fn could_not_ask<'s>(&self, services: impl Iterator<Item = &'s Arc<ApiService>>) {
        if let Kind::Discovery = self.kind {
            for service in services {
                self.tags.0.lock().remove(&service.name);
                self.documents().discovered.set(&service.name, Discovered::default());
            }
        }
    }

    /// Those of them that are still served there: much can happen while a server is asked.
    fn still<'s>(
        &self,
        services: &'s [Arc<ApiService>],
        remote: &Remote,
    ) -> impl Iterator<Item = &'s Arc<ApiService>> {
        let routes = self.api.aggregation.routes();
        services.iter().filter(move |service| {
            let now = routes.get(&service.name).and_then(|service| service.remote.as_ref());
            now.is_some_and(|now| now.is_same_server(remote))
        })
    }

    async fn ask(&self, services: &[Arc<ApiService>], remote: &Remote) -> Result<(), String> {
        match self.kind {
            Kind::Discovery => self.discover(services, remote).await,
            Kind::OpenApiV2 => self.describe_v2(services, remote).await,
            Kind::OpenApiV3 => self.describe_v3(services, remote).await,
        }
    }

    async fn discover(&self, services: &[Arc<ApiService>], remote: &Remote) -> Result<(), String> {
        let discovered = &self.documents().discovered;
        let tag = self.tags.of_all(services, remote, APIS);
        let all = discovery::fetch_all(&self.api, remote, tag.as_deref()).await;
        match all.inspect_err(|_| self.could_not_ask(self.still(services, remote)))? {
            All::Unchanged => {}
            All::Document { document, tag } => {
                for service in self.still(services, remote) {
                    discovered.set(&service.name, discovery::of_all(service, &document));
                    self.tags.set(&service.name, remote, APIS, &tag);
                }
            }
            All::None => {
                let mut all = Ok(());
                for service in services {
                    let own = discovery::fetch_own(&self.api, service, remote).await;
                    let own = own.unwrap_or_else(|why| {
                        all = Err(why);
                        Discovered::default()
                    });
                    for service in self.still(std::slice::from_ref(service), remote) {
                        discovered.set(&service.name, own.clone());
                        self.tags.set(&service.name, remote, APIS, "");
                    }
                }
                all?;
            }
        }
        Ok(())
    }

    async fn describe_v2(&self, services: &[Arc<ApiService>], remote: &Remote) -> Result<(), String> {
        let tag = self.tags.of_all(services, remote, openapi::V2);
        match Download::v2(&self.api, remote, tag.as_deref()).await? {
            Download::Unchanged => {}
            Download::Document { document, tag } => {
                for service in self.still(services, remote) {
                    self.documents().v2.set(&service.name, openapi::spec_v2(service, &document));
                    self.tags.set(&service.name, remote, openapi::V2, &tag);
                }
            }
            Download::None => {
                let still: Vec<_> = self.still(services, remote).collect();
                let none = |name: &str| still.iter().any(|service| service.name == name);
                self.documents().v2.retain(|name| !none(name));
                self.tags.0.lock().retain(|name, _| !none(name));
            }
        }
        Ok(())
    }

    async fn describe_v3(&self, services: &[Arc<ApiService>], remote: &Remote) -> Result<(), String> {
        let v3 = &self.documents().v3;
        let tag = self.tags.of_all(services, remote, openapi::V3);
        match Download::v3_index(&self.api, remote, tag.as_deref()).await? {
            Download::Unchanged => return Ok(()),
            Download::Document { document, tag } => {
                for service in self.still(services, remote) {
                    v3.set(&service.name, openapi::spec_v3(service, &document));
                    self.tags.set(&service.name, remote, openapi::V3, &tag);
                }
                return Ok(());
            }
            Download::None => {}
        }
        let tag = self.tags.of_all(services, remote, openapi::V2);
        match Download::v2(&self.api, remote, tag.as_deref()).await? {
            Download::Unchanged => {}
            Download::Document { document, tag } => {
                let converted = openapi::convert(&document);
                for service in self.still(services, remote) {
                    v3.set(&service.name, openapi::spec_v3_of_v2(service, &converted));
                    self.tags.set(&service.name, remote, openapi::V2, &tag);
                }
            }
            Download::None => {
                for service in self.still(services, remote) {
                    v3.set(&service.name, SpecV3::default());
                    self.tags.set(&service.name, remote, openapi::V2, "");
                }
            }
        }
        Ok(())
    }
}

/// What is known of APIServices, by their names.
#[derive(Default)]
struct EntityTags(Mutex<BTreeMap<String, Tagged>>);

#[derive(PartialEq)]
struct Tagged {
    service: ServiceKey,
    path: &'static str,
    /// Empty: the server gave none.
    tag: String,
}

impl EntityTags {
    fn set(&self, name: &str, remote: &Remote, path: &'static str, tag: &str) {
        let tagged = Tagged { service: remote.service.clone(), path, tag: tag.to_owned() };
        self.0.lock().insert(name.to_owned(), tagged);
    }

    /// The tag by which all of them are known: only then nothing is missing if nothing has changed.
    fn of_all(&self, services: &[Arc<ApiService>], remote: &Remote, path: &str) -> Option<String> {
        let known = self.0.lock();
        let mut tags = services.iter().map(|service| known.get(&service.name));
        let first = tags.next()??;
        let is_of = first.path == path && first.service == remote.service && !first.tag.is_empty();
        (is_of && tags.all(|tag| tag == Some(first))).then(|| first.tag.clone())
    }
}
