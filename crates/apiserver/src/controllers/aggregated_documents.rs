//! Asks other servers for their discovery and OpenAPI documents, now and then: no client's request waits for them.

use std::sync::Arc;
use std::time::Duration;

use runtime::queue::Limits;
use runtime::{Action, BoxFuture, Failure, JoinHandle, Reconcile, ReconcileRequest};

use super::Context;
use super::api_service_registration::API_SERVICE;
use crate::aggregation::documents::{Discovered, Documents};
use crate::aggregation::routes::ApiService;
use crate::aggregation::{discovery, openapi};
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

/// Two controllers, so that one server's slow OpenAPI holds up nobody's discovery.
pub(crate) fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let services = context.informers.of(&API_SERVICE);
    let of_discovery =
        context.controller("apiservice-discovery").workers(5).limits(OF_DISCOVERY).owns_keys_of(&services);
    let of_openapi =
        context.controller("apiservice-openapi").workers(5).limits(OF_OPENAPI).owns_keys_of(&services);
    let mut tasks = context.start(of_discovery, Discovering { api: context.api.clone() });
    tasks.extend(context.start(of_openapi, Describing { api: context.api.clone() }));
    tasks
}

/// The APIService, if another server serves it.
fn remote(api: &Api, name: &str) -> Option<Arc<ApiService>> {
    api.aggregation.routes().get(name).filter(|service| service.remote.is_some()).cloned()
}

struct Discovering {
    api: Arc<Api>,
}

impl Reconcile for Discovering {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let (name, documents) = (request.key.name(), self.documents());
            let service = remote(&self.api, name);
            let Some((service, remote)) = service.as_ref().and_then(|s| Some((s, s.remote.as_ref()?))) else {
                documents.set_discovered(name, None);
                return Ok(Action::AwaitChange);
            };
            match discovery::fetch(&self.api, service, remote).await {
                Ok(now) => {
                    documents.set_discovered(name, Some(now));
                    Ok(Action::Requeue(REFRESH))
                }
                Err(why) => {
                    documents.set_discovered(name, Some(Discovered::default()));
                    Err(Failure::Other(why))
                }
            }
        })
    }
}

impl Discovering {
    fn documents(&self) -> &Documents {
        &self.api.aggregation.documents
    }
}

struct Describing {
    api: Arc<Api>,
}

impl Reconcile for Describing {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let (name, documents) = (request.key.name(), &self.api.aggregation.documents);
            let service = remote(&self.api, name);
            let Some((service, remote)) = service.as_ref().and_then(|s| Some((s, s.remote.as_ref()?))) else {
                documents.set_spec(name, None);
                return Ok(Action::AwaitChange);
            };
            // Its condition wakes us when it can be asked.
            if !remote.available {
                return Ok(Action::AwaitChange);
            }
            match openapi::fetch(&self.api, service, remote).await {
                Ok(now) => {
                    documents.set_spec(name, Some(now));
                    Ok(Action::Requeue(REFRESH))
                }
                Err(why) => Err(Failure::Other(why)),
            }
        })
    }
}
