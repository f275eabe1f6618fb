//! Writes of claims that are refused, or take long, and pods that make room while theirs are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Answer, Client, Patch, Target, WriteOptions};
use env::Env;
use object::{About, Obj, Status};
use serde_json::{Value, json};
use testkit::TestCluster;
use testkit::forward::{Forward, Verb, Wrapping};

use crate::scheduling::{Running, get_pod, start_with, until};
use crate::scheduling_devices::{
    CLAIMS, PODS, add_claim, add_slice, attached_devices, claim, cluster_with, end, messages, on, one, pause,
    said, with_claim,
};

/// What happens to the scheduler's writes.
#[derive(Clone)]
struct Trouble {
    /// Refused once, when armed.
    refused: fn(Verb, Target<'_>) -> bool,
    armed: Arc<AtomicBool>,
    /// Takes half a minute.
    slow: fn(Target<'_>, &Patch) -> bool,
}

impl Trouble {
    fn none() -> Trouble {
        Trouble { refused: |_, _| false, armed: Arc::new(AtomicBool::new(true)), slow: |_, _| false }
    }
}

struct Troubled {
    inner: Arc<dyn Client>,
    env: Env,
    trouble: Trouble,
}

impl Forward for Troubled {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn patch<'a>(
        &'a self,
        target: Target<'a>,
        patch: Patch,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        let slow = (self.trouble.slow)(target, &patch);
        let call = self.write(Verb::Patch, target, self.inner.patch(target, patch, options));
        Box::pin(async move {
            if slow {
                self.env.sleep(Duration::from_secs(30)).await;
            }
            call.await
        })
    }
    fn write<'a, T: Send + 'a>(
        &'a self,
        verb: Verb,
        target: Target<'a>,
        call: Answer<'a, T>,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            if (self.trouble.refused)(verb, target) && self.trouble.armed.swap(false, Ordering::SeqCst) {
                let about = About { group: &target.resource.group, resource: &target.resource.plural };
                return Err(Status::forbidden(about, target.name, "on purpose"));
            }
            call.await
        })
    }
}

fn start_troubled(cluster: &TestCluster, trouble: &Trouble) -> Running {
    let (inner, env) = (cluster.local_clients(), cluster.env().clone());
    let wrap = move |inner| Troubled { inner, env: env.clone(), trouble: trouble.clone() };
    start_with(cluster, &Wrapping { inner, wrap })
}

fn is_claim_status(target: Target<'_>) -> bool {
    target.resource.plural == "resourceclaims" && target.subresource == "status"
}

fn consumers(claim: &Value) -> usize {
    claim["status"]["reservedFor"].as_array().map_or(0, Vec::len)
}

/// Whether the binding fails, or the second claim: what the first was reserved for is given back before the pod is tried again.
#[tokio::test(start_paused = true)]
async fn a_reservation_that_is_given_back_late_is_not_the_one_of_the_next_attempt() {
    let binding = |verb: Verb, target: Target<'_>| verb == Verb::Act && target.subresource == "binding";
    let second = |_: Verb, target: Target<'_>| is_claim_status(target) && target.name == "second";
    let refusals: [fn(Verb, Target<'_>) -> bool; 2] = [binding, second];
    for refused in refusals {
        let cluster = cluster_with(81, &[("n1", 2)]).await;
        let slow = |target: Target<'_>, patch: &Patch| {
            is_claim_status(target) && matches!(patch, Patch::Strategic(_))
        };
        let trouble = Trouble { refused, slow, ..Trouble::none() };
        let running = start_troubled(&cluster, &trouble);
        add_claim(&cluster, "first", one("gpu")).await;
        add_claim(&cluster, "second", one("gpu")).await;
        let mut pod = with_claim("a", "first");
        pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "first"},
            {"name": "more", "resourceClaimName": "second"}]);
        cluster.post(PODS, pod).await.ok(201);
        until(&cluster, "a", "got a node", |p| on(p) == "n1").await;
        assert!(!trouble.armed.load(Ordering::SeqCst), "nothing was refused");
        pause(&cluster, 120).await;
        for name in ["first", "second"] {
            let claim = claim(&cluster, name).await;
            assert_eq!(consumers(&claim), 1, "{claim:#}");
        }
        end(cluster, running).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_claim_could_not_be_deallocated_is_tried_again() {
    let cluster = cluster_with(82, &[("n1", 1), ("n2", 1)]).await;
    let refused = |_: Verb, target: Target<'_>| is_claim_status(target);
    let trouble = Trouble { refused, ..Trouble::none() };
    trouble.armed.store(false, Ordering::SeqCst);
    let running = start_troubled(&cluster, &trouble);
    add_claim(&cluster, "mine", one("gpu")).await;
    let with_node = |name: &str, node: &str| {
        let mut pod = with_claim(name, "mine");
        pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
        pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
        pod
    };
    let first = cluster.post(PODS, with_node("a", "n1")).await.ok(201);
    until(&cluster, "a", "got a node", |p| on(p) == "n1").await;
    cluster.post(PODS, with_node("b", "n2")).await.ok(201);
    until(&cluster, "b", "waits", |p| said(p).0 == "Unschedulable").await;
    cluster.delete(format!("{PODS}/a")).await.ok(200);
    pause(&cluster, 60).await;
    trouble.armed.store(true, Ordering::SeqCst);
    let patch = json!({"status": {"reservedFor": [{"$patch": "delete", "uid": first["metadata"]["uid"]}]}});
    let request = cluster.request("PATCH", format!("{CLAIMS}/mine/status"));
    request.typed("application/strategic-merge-patch+json", patch.to_string()).send().await.ok(200);
    // Long before it is tried again for no reason.
    pause(&cluster, 30).await;
    assert!(!trouble.armed.load(Ordering::SeqCst), "nothing was refused");
    assert_eq!(on(&get_pod(&cluster, "b").await), "n2");
    end(cluster, running).await;
}

/// It has a node in the scheduler's mind only: it is put back, not deleted.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_claim_is_written_or_whose_device_is_waited_for_makes_room_and_is_not_deleted() {
    let allocates: fn(Target<'_>, &Patch) -> bool =
        |target, patch| is_claim_status(target) && matches!(patch, Patch::Merge(_));
    for (devices, slow) in
        [(attached_devices(), Trouble::none().slow), (json!([{"name": "gpu-0"}]), allocates)]
    {
        let cluster = cluster_with(83, &[("n1", 0)]).await;
        add_slice(&cluster, "n1", devices, json!({})).await;
        add_claim(&cluster, "mine", one("gpu")).await;
        let class = json!({"metadata": {"name": "high"}, "value": 1000});
        cluster.post("/apis/scheduling.k8s.io/v1/priorityclasses", class).await.ok(201);
        let running = start_troubled(&cluster, &Trouble { slow, ..Trouble::none() });
        let mut low = with_claim("low", "mine");
        low["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": "1500m"});
        let low = cluster.post(PODS, low).await.ok(201);
        until(&cluster, "low", "was promised a node", |p| p["status"]["nominatedNodeName"] == "n1").await;
        pause(&cluster, 5).await;
        let high = json!({"metadata": {"name": "high"}, "spec": {"priorityClassName": "high", "containers": [
            {"name": "c", "image": "web", "resources": {"requests": {"cpu": "1500m"}}}]}});
        let high = cluster.post(PODS, high).await.ok(201);
        until(&cluster, "high", "got the node", |p| on(p) == "n1").await;
        let low_now =
            until(&cluster, "low", "found no room", |p| said(p).1.contains("Insufficient cpu")).await;
        assert_eq!(low_now["metadata"]["uid"], low["metadata"]["uid"]);
        assert!(low_now["metadata"].get("deletionTimestamp").is_none(), "{low_now:#}");
        let uid = high["metadata"]["uid"].as_str().expect("a uid");
        let by = format!("Preempted by pod {uid} on node n1 (in kube-scheduler memory).");
        assert_eq!(messages(&cluster, "Preempted").await, [by]);
        let told = messages(&cluster, "FailedScheduling").await;
        let why = "running PreBind plugin \"DynamicResources\": preempted by DefaultPreemption";
        assert!(told.iter().any(|message| message == why), "{told:#?}");
        assert_eq!(consumers(&claim(&cluster, "mine").await), 0);
        end(cluster, running).await;
    }
}
