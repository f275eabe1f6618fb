//! Deletes the objects of CRDs that are deleted, and lets them go when none are left: a task for each, so that one with many
//! objects, or with objects that wait for finalizers, holds up no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use admission::list_readable;
use apiextensions::finalizer::{self, INSTANCES_GONE_WITHIN_SECONDS, Instances, Outcome};
use catalog::Storage;
use object::{Status, Value};
use table::{Scope, Selection};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::{RETRY, write_status};
use crate::api::Api;
use crate::custom_resources::DEFINITIONS;
use crate::loopback::{LoopbackClient, lost_race};

/// CRDs whose objects are deleted at the same time; the others wait.
const AT_ONCE: usize = 5;

pub(super) struct Finalizing {
    api: Arc<Api>,
    places: Arc<Semaphore>,
    /// By the name of the CRD.
    running: BTreeMap<String, JoinHandle<()>>,
}

impl Finalizing {
    pub fn new(api: Arc<Api>) -> Finalizing {
        Finalizing { api, places: Arc::new(Semaphore::new(AT_ONCE)), running: BTreeMap::new() }
    }

    /// Begins with a CRD, unless that was done.
    pub fn begin(&mut self, name: &str) {
        self.running.retain(|_, task| !task.is_finished());
        if self.running.contains_key(name) {
            return;
        }
        let (api, places, crd) = (self.api.clone(), self.places.clone(), name.to_owned());
        let env = self.api.registry().env();
        let task = env.spawn("custom-resource-finalizer", async move { finalize(&api, &places, &crd).await });
        self.running.insert(name.to_owned(), task);
    }

    /// The next start goes on where this one stops.
    pub async fn stop(self) {
        for (_, task) in self.running {
            task.abort();
            let _ = task.await;
        }
    }
}

/// Until the CRD is gone, or lacks our finalizer.
async fn finalize(api: &Arc<Api>, places: &Semaphore, name: &str) {
    let client = LoopbackClient::new(api);
    let env = api.registry().env();
    let mut begun = env.monotonic();
    while let Some(crd) = client.get(DEFINITIONS, "", name).filter(finalizer::is_due) {
        let Ok(place) = places.acquire().await else { return };
        let late = (env.monotonic() - begun).as_secs() >= INSTANCES_GONE_WITHIN_SECONDS;
        let step = step(&client, crd, late).await;
        drop(place);
        if late {
            begun = env.monotonic();
        }
        match step {
            Ok(Step::On) => {}
            Ok(Step::Wait) => env.sleep(RETRY).await,
            // Whoever changed it meanwhile: look again.
            Err(error) if lost_race(&error) => env.sleep(Duration::from_millis(1)).await,
            Err(error) => {
                tracing::warn!(
                    crd = name,
                    error = error.message,
                    "could not finalize a CustomResourceDefinition"
                );
                env.sleep(RETRY).await;
            }
        }
    }
}

enum Step {
    On,
    Wait,
}

/// One step on the way. `late`: objects have waited for their finalizers so long that the status should say so.
async fn step(client: &LoopbackClient<'_>, mut crd: Value, late: bool) -> Result<Step, Status> {
    let now = client.api().registry().env().now_seconds() as i64;
    let in_progress = finalizer::begin(&crd, now);
    if let Some(status) = in_progress.filter(|_| !finalizer::has_failed(&crd)) {
        write_status(client, &crd, status).await?;
        return Ok(Step::On);
    }
    let outcome = match finalizer::instances(&crd) {
        Instances::Keep(outcome) => outcome,
        Instances::Delete => match delete_instances(client, &crd).await {
            Outcome::NotGone(_) if !late => return Ok(Step::Wait),
            outcome => outcome,
        },
    };
    let end = finalizer::end(&crd, &outcome, now);
    let Some(finalizers) = end.finalizers else {
        if crd.get("status") != Some(&end.status) {
            write_status(client, &crd, end.status).await?;
        }
        return Ok(Step::Wait);
    };
    // One write, as upstream: a definition that others hold says that ours is done.
    crd.map_at(&["metadata"]).set("finalizers", Value::List(finalizers));
    write_status(client, &crd, end.status).await?;
    Ok(Step::On)
}

/// Deletes what there is, as it is stored: no version needs to be served for it, and no webhook to be there.
async fn delete_instances(client: &LoopbackClient<'_>, crd: &Value) -> Outcome {
    let text = |path: &[&str]| crd.str_at(path).unwrap_or_default();
    let (group, plural) = (text(&["spec", "group"]), text(&["spec", "names", "plural"]));
    let registry = client.api().registry();
    let catalog = registry.catalog();
    let Some(storage) = catalog.find_storage(group, plural) else {
        let why = format!("unable to find a custom resource client for {plural}.{group}: it is not served");
        return Outcome::NotListed(why);
    };
    let namespaces = match namespaces_of(client, storage) {
        Ok(namespaces) => namespaces,
        Err(error) => return Outcome::NotListed(error.message),
    };
    let mut errors = Vec::new();
    for namespace in &namespaces {
        if let Err(error) = client.delete_all(storage, namespace).await {
            errors.push(error.message);
        }
    }
    if !errors.is_empty() {
        return Outcome::NotDeleted(errors);
    }
    match namespaces_of(client, storage) {
        Ok(left) if left.is_empty() => Outcome::Completed,
        Ok(_) => Outcome::NotGone("context deadline exceeded".to_owned()),
        Err(error) => Outcome::NotGone(error.message),
    }
}

/// Where there are objects.
fn namespaces_of(client: &LoopbackClient<'_>, storage: &Storage) -> Result<BTreeSet<String>, Status> {
    let table = client.api().registry().table();
    let all = list_readable(table, storage.id, &Selection::everything(Scope::All))?;
    Ok(all.items.iter().map(|obj| obj.namespace().to_owned()).collect())
}
