//! An object that was deleted and made again under its name while nobody watched: the first is gone, and another has come.

use std::sync::Arc;
use std::time::Duration;

use client::{Answer, Client, Event, Target, Watch, WatchOptions, WriteOptions};
use object::{Obj, Status, Value};
use serde_json::{Value as Json, json};
use testkit::TestCluster;
use testkit::forward::{Forward, Wrapping};

use crate::batch_steps::{PODS, items, set_status, succeeded, until};

const JOB: &str = "/apis/batch/v1/namespaces/default/jobs/one-name";

/// Every pod gets the same name, and the history of pods is lost whenever one is deleted, until the next is there.
struct OneName(Arc<dyn Client>);

impl Forward for OneName {
    fn inner(&self) -> &dyn Client {
        &*self.0
    }
    fn create<'a>(
        &'a self,
        target: Target<'a>,
        mut body: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        if target.resource.plural == "pods" {
            body.map_at(&["metadata"]).set("name", "the-name");
        }
        self.0.create(target, body, options)
    }
    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(async move {
            let inner = self.0.watch(target, options).await?;
            let watch: Box<dyn Watch> =
                if target.resource.plural == "pods" { Box::new(Forgetful(inner)) } else { inner };
            Ok(watch)
        })
    }
}

struct Forgetful(Box<dyn Watch>);

impl Watch for Forgetful {
    fn pull<'a>(&'a mut self, into: &'a mut Vec<Event>) -> Answer<'a, bool> {
        Box::pin(async move {
            let known = into.len();
            let mut goes_on = self.0.pull(into).await?;
            let is_deletion = |event: &Event| matches!(event, Event::Deleted(_));
            let Some(deleted) = into[known..].iter().position(is_deletion) else { return Ok(goes_on) };
            while goes_on && !into[known + deleted..].iter().any(|event| matches!(event, Event::Added(_))) {
                goes_on = self.0.pull(into).await?;
            }
            into.truncate(known + deleted);
            Err(Status::expired("too old resource version: on purpose"))
        })
    }
}

/// Names are random and not many: of 70,000 pods some got the name of one that was deleted between two lists.
#[tokio::test(start_paused = true)]
async fn a_job_goes_on_after_a_pod_that_got_the_name_of_one_it_did_not_see_go() {
    let cluster = TestCluster::simulated(452).await;
    let clients = Wrapping { inner: cluster.local_clients(), wrap: OneName };
    let plane = cluster.controllers(Arc::new(clients), &["job-controller"]);
    let begun = cluster.env().monotonic();
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let spec = json!({"completions": 3, "parallelism": 1, "backoffLimit": 100, "template": {"spec": pod}});
    let job = json!({"metadata": {"name": "one-name"}, "spec": spec});
    cluster.post(JOB.trim_end_matches("/one-name"), job).await.ok(201);
    for done in 1..=3 {
        until(&cluster, PODS, "a pod that waits", |pods| pods["items"][0]["status"]["phase"] == "Pending")
            .await;
        set_status(&cluster, &items(&cluster, PODS).await[0], succeeded()).await;
        let counted = |job: &Json| job["status"]["succeeded"] == done;
        until(&cluster, JOB, "the pod to be counted", counted).await;
        cluster.delete(format!("{PODS}/the-name")).await.ok(200);
    }
    let ended = |job: &Json| !job["status"]["completionTime"].is_null();
    until(&cluster, JOB, "the end of the Job", ended).await;
    let took = cluster.env().monotonic() - begun;
    assert!(took < Duration::from_secs(60), "{took:?}: it waited for what it had missed");
    plane.stop().await;
    cluster.shutdown().await;
}
