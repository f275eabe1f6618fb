//! The condition `Available` of APIServices: ours always are, others if their Service has an endpoint that answers.

use std::sync::Arc;
use std::time::Duration;

use auth::{UserInfo, groups};
use client::resources;
use futures_util::stream::{FuturesUnordered, StreamExt};
use object::{Status, Value, quote};
use runtime::queue::Limits;
use runtime::{Action, BoxFuture, Failure, InformerEvent, JoinHandle, Key, Reconcile, ReconcileRequest};

use super::Context;
use super::api_service_registration::{API_SERVICE, API_SERVICES};
use crate::aggregation::availability::{Available, check_service, with_condition};
use crate::aggregation::backend::{OwnRequest, Unreachable, target, url};
use crate::aggregation::routes::{ApiService, Remote, is_available};
use crate::api::Api;
use crate::loopback::{LoopbackClient, lost_race};

/// Others are asked again after this, whatever happened.
const EVERY: Duration = Duration::from_secs(30);
/// At once, each perhaps another endpoint: one good answer is enough.
const ATTEMPTS: usize = 5;
const RETRIES: Limits = Limits {
    first: Duration::from_millis(5),
    most: Duration::from_secs(30),
    per_second: 100.0,
    burst: 1000.0,
};

/// The identity of this server's own requests to others.
pub(crate) fn aggregator() -> UserInfo {
    UserInfo::new("system:kube-aggregator", &[groups::MASTERS])
}

pub(crate) fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let api = context.api.clone();
    // The names of APIServices a Service, or one of its slices, stands behind.
    let behind = move |api: &Api, namespace: &str, name: &str| -> Vec<Key> {
        let routes = api.aggregation.routes();
        let is_behind = |s: &&Arc<ApiService>| {
            s.remote.as_ref().is_some_and(|r| r.service.name == name && r.service.namespace == namespace)
        };
        routes.remotes().filter(is_behind).map(|service| Key::new("", &service.name)).collect()
    };
    let (of_services, of_slices, told) = (api.clone(), api.clone(), api.clone());
    let controller = context
        .controller("apiservice-availability")
        .workers(5)
        .limits(RETRIES)
        .watches(&context.informers.of(&API_SERVICE), move |event| {
            let name = event.obj().name();
            let object = match event {
                InformerEvent::Deleted { .. } => None,
                _ => codec::json::parse(event.obj().body(), None).ok(),
            };
            told.aggregation.set(told.registry().env(), name, object.as_ref());
            vec![Key::new("", name)]
        })
        .watches(&context.informers.of(&resources::SERVICES), move |event| {
            behind(&of_services, event.obj().namespace(), event.obj().name())
        })
        .watches(&context.informers.of(&resources::ENDPOINT_SLICES), move |event| {
            let service = event.obj().label(resources::SERVICE_NAME_LABEL).unwrap_or("");
            behind(&of_slices, event.obj().namespace(), service)
        });
    context.start(controller, Checking { api })
}

struct Checking {
    api: Arc<Api>,
}

impl Reconcile for Checking {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let name = request.key.name();
            let client = LoopbackClient::new(&self.api);
            let Some(object) = client.get(API_SERVICES, "", name) else {
                self.api.aggregation.metrics.forget(name);
                return Ok(Action::AwaitChange);
            };
            if object.at(&["spec", "service"]).is_none_or(Value::is_null) {
                self.write(&client, &object, &Available::local()).await?;
                return Ok(Action::AwaitChange);
            }
            // With its TLS, which is made once.
            let known = self.api.aggregation.routes().get(name).cloned();
            let Some(service) = known.filter(|known| known.remote.is_some()) else {
                // The snapshot is behind the table; what changed wakes us again.
                return Ok(Action::Requeue(Duration::from_millis(10)));
            };
            let Some(remote) = &service.remote else { return Ok(Action::AwaitChange) };
            let key = &remote.service;
            let (of_service, slices) = self.api.service_endpoints.read(&key.namespace, &key.name);
            if let Err(unavailable) = check_service(&remote.service, of_service.as_ref(), &slices) {
                self.write(&client, &object, &unavailable).await?;
                return Ok(Action::Requeue(EVERY));
            }
            match self.ask(&service, remote).await {
                Ok(()) => {
                    self.write(&client, &object, &Available::passed()).await?;
                    Ok(Action::Requeue(EVERY))
                }
                Err(why) => {
                    self.write(&client, &object, &Available::failed_discovery(why.clone())).await?;
                    Err(Failure::Other(why))
                }
            }
        })
    }
}

impl Checking {
    /// Its discovery document, which every API server has.
    async fn ask(&self, service: &ApiService, remote: &Remote) -> Result<(), String> {
        let user = aggregator();
        let path = service.root();
        let attempt = || async {
            let target = target(&self.api, remote).map_err(Unreachable::into_text)?;
            let url = url(&target.address, &path);
            let request = OwnRequest::check(&path, "*/*", &user);
            let answer = match request.send_to(&self.api, remote, &target).await {
                Ok(answer) if answer.status.is_success() => return Ok(()),
                Ok(answer) => format!("bad status from {url}: {}", answer.status.as_u16()),
                Err(why) => format!("Get {}: {why}", quote(&url)),
            };
            Err(format!("failing or missing response from {url}: {answer}"))
        };
        let mut attempts: FuturesUnordered<_> = (0..ATTEMPTS).map(|_| attempt()).collect();
        let mut last = Ok(());
        while let Some(done) = attempts.next().await {
            if done.is_ok() {
                return Ok(());
            }
            last = done;
        }
        last
    }

    /// Writes the condition where it is another.
    async fn write(
        &self,
        client: &LoopbackClient<'_>,
        object: &Value,
        now: &Available,
    ) -> Result<(), Status> {
        let name = object.str_at(&["metadata", "name"]).unwrap_or("");
        let metrics = &self.api.aggregation.metrics;
        metrics.set(name, now.status);
        let seconds = self.api.registry().env().now_seconds();
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let Some(revised) = with_condition(object, now, seconds) else { return Ok(()) };
        match client.update_status(API_SERVICES, revised).await {
            // Whoever changed it meanwhile has woken us again.
            Err(status) if lost_race(&status) => return Ok(()),
            written => written?,
        }
        if is_available(object) && !now.status {
            metrics.became_unavailable(name, now.reason);
        }
        tracing::info!(
            name,
            status = now.status,
            reason = now.reason,
            message = now.message,
            "APIService availability"
        );
        Ok(())
    }
}
