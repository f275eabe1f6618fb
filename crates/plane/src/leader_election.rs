//! Leader election: a part of the plane runs while it leads, or all the time where nobody else can.

use std::sync::Arc;

use client::Clients;
use env::Env;
use runtime::{Elector, Stop};
use tokio::task::JoinHandle;

/// Where the leases are.
pub(crate) const NAMESPACE: &str = "kube-system";

/// Who stands for election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Unique among all that may run, restarts included: a process that comes back is another candidate.
    pub identity: String,
}

/// Runs `start` each time it becomes the leader, until stopped.
pub(crate) async fn serve(
    env: Env,
    clients: Arc<dyn Clients>,
    lease: &'static str,
    candidate: Option<Candidate>,
    stop: Stop,
    start: impl Fn(Stop) -> Vec<JoinHandle<()>> + Send + Sync,
) {
    let Some(Candidate { identity }) = candidate else {
        for task in start(stop) {
            let _ = task.await;
        }
        return;
    };
    let client = clients.user(&format!("system:{lease}"), &[]);
    let mut elector = Elector::new(&env, client, NAMESPACE, lease, &identity);
    while !stop.is_stopped() {
        let outcome = elector
            .run(&stop, |term| {
                tracing::info!(lease, identity, "became leader");
                start(term)
            })
            .await;
        tracing::info!(lease, identity, ?outcome, "stopped leading");
    }
}
