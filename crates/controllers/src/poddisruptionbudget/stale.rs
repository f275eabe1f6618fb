//! A pod that was said to be disrupted and is still there two minutes later was not: the condition turns to False.

use std::sync::Arc;
use std::time::Duration;

use client::resources::PODS;
use client::{Client, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use kinds::conditions::{self, Condition};
use object::{Obj, Value};
use runtime::{Action, Failure, Informer, Reconcile, ReconcileRequest};

use crate::pods::{mentions, pod_view};

/// The condition's type.
const DISRUPTED: &str = "DisruptionTarget";
const STALE_SECONDS: i64 = 120;

/// Seconds until the pod's DisruptionTarget condition is stale; `None`: it has none that could be.
pub fn clean_in(pod: &Obj, now: i64) -> Option<u64> {
    if !mentions(pod.body(), DISRUPTED) {
        return None;
    }
    let view = pod_view(pod);
    if view.disrupted_since == 0 || pod.deleting() || view.is_terminal() {
        return None;
    }
    Some(u64::try_from(view.disrupted_since + STALE_SECONDS - now).unwrap_or(0))
}

pub struct Cleaner {
    pub env: Env,
    pub client: Arc<dyn Client>,
    pub pods: Arc<Informer>,
}

impl Reconcile for Cleaner {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(pod) = self.pods.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            let now = self.env.now_seconds() as i64;
            let Some(wait) = clean_in(&pod, now) else { return Ok(Action::AwaitChange) };
            if wait > 0 {
                request.plan(|| format!("wait {wait} s for the disruption"));
                return Ok(Action::Requeue(Duration::from_secs(wait)));
            }
            request.plan(|| "say that it was not disrupted".to_owned());
            let mut tree = runtime::tree(&pod);
            let observed_generation = tree.at(&["metadata", "generation"]).and_then(Value::as_int);
            let condition =
                Condition { kind: DISRUPTED, status: "False", reason: "", message: "", observed_generation };
            conditions::set(&mut tree, &condition, now);
            self.client.update(PODS.of(&pod).sub("status"), tree, WriteOptions::default()).await?;
            Ok(Action::AwaitChange)
        })
    }
}
