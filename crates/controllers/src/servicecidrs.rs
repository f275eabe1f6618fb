//! ServiceCIDRs: ready once they have their finalizer, and released only when no IPAddress would be orphaned. The range of
//! `--service-cluster-ip-range` itself is made by the API server.

mod plan;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use client::Client;
use client::resources::{IP_ADDRESSES, SERVICE_CIDRS};
use env::Env;
use futures_util::future::BoxFuture;
use kinds::ipaddress::{MANAGED_BY, MANAGED_BY_LABEL};
use kinds::servicecidr::ranges_of;
use object::{Obj, Value};
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, Recorder,
    Severity, finalizers, tree,
};
use tokio::task::JoinHandle;

use crate::Context;
use plan::{Condition, FINALIZER, Plan};

pub const NAME: &str = "service-cidr-controller";
const WORKERS: usize = 5;
/// The index of the ranges that are being deleted: only for those do addresses matter.
const GOING: &str = "being deleted";

struct ServiceCidrs {
    env: Env,
    client: Arc<dyn Client>,
    recorder: Recorder,
    cidrs: Arc<Informer>,
    addresses: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let cidrs = context.informers.of(&SERVICE_CIDRS);
    cidrs.store().add_index(GOING, |cidr| if cidr.deleting() { vec![String::new()] } else { Vec::new() });
    let addresses = context.informers.of(&IP_ADDRESSES);
    let client = context.clients.controller("service-cidrs-controller");
    let (recorder, recording) = Recorder::start(&context.env, client.clone(), NAME, context.stop.clone());
    let (going, going_too) = (cidrs.clone(), cidrs.clone());
    let controller = Controller::new(&context.env, NAME)
        .workers(WORKERS)
        .watches(&cidrs, move |event| {
            // Another range may take over the addresses of one that goes.
            let mut keys = vec![Key::of(event.obj())];
            let ranges = ranges_of(&tree(event.obj()));
            let overlaps = |cidr: &Value| {
                let theirs = ranges_of(cidr);
                theirs.iter().any(|a| ranges.iter().any(|b| a.covers(b) || b.covers(a)))
            };
            keys.extend(
                all_going(&going).iter().filter(|cidr| overlaps(&tree(cidr))).map(|cidr| Key::of(cidr)),
            );
            keys
        })
        .watches(&addresses, move |event| {
            let Some(ip) = managed(event.obj()) else { return Vec::new() };
            if matches!(event, InformerEvent::Updated { .. }) {
                return Vec::new();
            }
            let has = |cidr: &Value| ranges_of(cidr).iter().any(|range| range.contains(&ip));
            all_going(&going_too).iter().filter(|cidr| has(&tree(cidr))).map(|cidr| Key::of(cidr)).collect()
        });
    let env = context.env.clone();
    let reconcile = Arc::new(ServiceCidrs { env, client, recorder, cidrs, addresses });
    let mut tasks = controller.start(&context.controllers, reconcile, context.stop.clone());
    tasks.push(recording);
    tasks
}

fn all_going(cidrs: &Informer) -> Vec<Arc<Obj>> {
    cidrs.store().by_index(GOING, "")
}

/// The address of an IPAddress that a service has, or is about to have.
fn managed(address: &Obj) -> Option<IpAddr> {
    (address.label(MANAGED_BY_LABEL) == Some(MANAGED_BY)).then(|| address.name().parse().ok()).flatten()
}

impl Reconcile for ServiceCidrs {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(cidr) = self.cidrs.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            let others: Vec<Value> = if cidr.deleting() {
                let all = self.cidrs.store().list();
                all.iter().filter(|other| other.name() != cidr.name()).map(|other| tree(other)).collect()
            } else {
                Vec::new()
            };
            let addresses = || self.addresses.store().list().iter().filter_map(|a| managed(a)).collect();
            let planned = plan::plan(&tree(&cidr), &others, addresses, self.env.now_seconds() as i64);
            if planned != (Plan::Ready { protect: false, condition: None }) {
                request.plan(|| format!("{planned:?}"));
            }
            match planned {
                Plan::Ready { protect, condition } => {
                    if protect {
                        finalizers::add(&*self.client, &SERVICE_CIDRS, &cidr, FINALIZER).await?;
                    }
                    if let Some(condition) = condition
                        && let Err(failure) = self.set(&request, &cidr, condition).await
                    {
                        let told = "The ServiceCIDR Status can not be set to Ready=True";
                        let severity = Severity::Warning;
                        self.recorder.event(
                            &SERVICE_CIDRS,
                            &cidr,
                            severity,
                            "KubernetesServiceCIDRError",
                            told,
                        );
                        return Err(failure);
                    }
                }
                Plan::Blocked(Some(condition)) => self.set(&request, &cidr, condition).await?,
                Plan::Blocked(None) | Plan::Nothing => {}
                Plan::Wait(seconds) => return Ok(Action::Requeue(Duration::from_secs(seconds))),
                Plan::Release => finalizers::remove(&*self.client, &SERVICE_CIDRS, &cidr, FINALIZER).await?,
            }
            Ok(Action::AwaitChange)
        })
    }
}

impl ServiceCidrs {
    async fn set(
        &self,
        request: &ReconcileRequest<'_>,
        cidr: &Obj,
        condition: Condition,
    ) -> Result<(), Failure> {
        let config = condition.configuration(self.env.now_seconds() as i64);
        let target = SERVICE_CIDRS.of(cidr).sub("status");
        self.client.apply(target, config, request.apply_options()).await?;
        Ok(())
    }
}
