//! Jobs from creation to their end; the test plays the nodes.

use serde_json::{Value as Json, json};
use testkit::TestCluster;
use testkit::faults::{Faults, Plan};

use crate::batch_steps::{EVENTS, PODS, items, pass, plane, set_status, steady, succeeded, until};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CONTROLLERS: &[&str] = &["job-controller", "ttl-after-finished-controller"];

fn job(name: &str, spec: Json) -> Json {
    let mut job = json!({
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "busybox"}],
        }}},
    });
    for (name, value) in spec.as_object().expect("a spec is an object") {
        job["spec"][name] = value.clone();
    }
    job
}

fn condition<'a>(job: &'a Json, kind: &str) -> &'a Json {
    let conditions = job["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|c| c["type"] == kind && c["status"] == "True"));
    found.unwrap_or(&Json::Null)
}

fn phase_is(pod: &Json, phase: &str) -> bool {
    pod["status"]["phase"] == phase
}

/// Waits for so many pods that are neither over nor going.
async fn active(cluster: &TestCluster, count: usize) -> Vec<Json> {
    let active = |pod: &&Json| {
        (phase_is(pod, "Pending") || phase_is(pod, "Running"))
            && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let what = format!("{count} active pods");
    let enough =
        |list: &Json| list["items"].as_array().expect("a list").iter().filter(active).count() == count;
    let list = until(cluster, PODS, &what, enough).await;
    list["items"].as_array().expect("a list").iter().filter(active).cloned().collect()
}

async fn finished(cluster: &TestCluster, name: &str, kind: &str) -> Json {
    until(cluster, &format!("{JOBS}/{name}"), kind, |job| !condition(job, kind).is_null()).await
}

async fn events(cluster: &TestCluster) -> Vec<String> {
    let told = items(cluster, EVENTS).await;
    let text = |e: &Json| {
        let part = |name: &str| e[name].as_str().unwrap_or_default().to_owned();
        format!("{} {}", part("reason"), part("message"))
    };
    told.iter().map(text).collect()
}

async fn no_finalizers(cluster: &TestCluster) {
    for pod in items(cluster, PODS).await {
        assert!(pod["metadata"]["finalizers"].is_null(), "{pod:#}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_its_pods_to_completion() {
    let cluster = TestCluster::simulated(1).await;
    let plane = plane(&cluster, CONTROLLERS);
    cluster.post(JOBS, job("sum", json!({"completions": 3, "parallelism": 2}))).await.ok(201);

    let pods = active(&cluster, 2).await;
    let owner = &pods[0]["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"], &owner["controller"]),
        (&json!("Job"), &json!("sum"), &json!(true))
    );
    assert_eq!(pods[0]["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    assert_eq!(pods[0]["metadata"]["labels"]["job-name"], "sum");
    assert!(pods[0]["metadata"]["name"].as_str().unwrap().starts_with("sum-"));
    set_status(
        &cluster,
        &pods[0],
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
    )
    .await;
    let path = format!("{JOBS}/sum");
    let running = until(&cluster, &path, "a ready pod", |job| job["status"]["ready"] == 1).await;
    assert_eq!(running["status"]["active"], 2);
    assert_eq!(running["status"]["terminating"], 0);
    assert_eq!(running["status"]["uncountedTerminatedPods"], json!({}));

    for pod in &pods {
        set_status(&cluster, pod, succeeded()).await;
    }
    let last = active(&cluster, 1).await;
    assert_eq!(cluster.get(&path).await.json()["status"]["succeeded"], 2);
    set_status(&cluster, &last[0], succeeded()).await;
    let done = finished(&cluster, "sum", "Complete").await;
    let status = &done["status"];
    assert_eq!(status["succeeded"], 3);
    assert!(status["active"].is_null() && status["failed"].is_null());
    assert_eq!(status["ready"], 0);
    assert!(!status["completionTime"].is_null() && !status["startTime"].is_null());
    let kinds: Vec<&str> =
        status["conditions"].as_array().unwrap().iter().map(|c| c["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(condition(&done, "Complete")["reason"], "CompletionsReached");
    assert_eq!(condition(&done, "Complete")["message"], "Reached expected number of succeeded pods");
    no_finalizers(&cluster).await;

    let told = events(&cluster).await;
    assert_eq!(
        told.iter().filter(|e| e.starts_with("SuccessfulCreate Created pod: sum-")).count(),
        3,
        "{told:?}"
    );
    assert!(told.contains(&"Completed Job completed".to_owned()));
    steady(&cluster).await;
    // An event is kept for an hour.
    pass(&cluster, 3600).await;
    assert_eq!(events(&cluster).await, Vec::<String>::new());
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_gives_every_pod_its_index() {
    let cluster = TestCluster::simulated(2).await;
    let plane = plane(&cluster, CONTROLLERS);
    let spec = json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed"});
    cluster.post(JOBS, job("parts", spec)).await.ok(201);
    let pods = active(&cluster, 4).await;
    for (index, pod) in pods.iter().enumerate() {
        let name = "batch.kubernetes.io/job-completion-index";
        assert_eq!(pod["metadata"]["annotations"][name], index.to_string());
        assert_eq!(pod["metadata"]["labels"][name], index.to_string());
        assert_eq!(pod["spec"]["hostname"], format!("parts-{index}"));
        assert!(pod["metadata"]["name"].as_str().unwrap().starts_with(&format!("parts-{index}-")));
        let env = &pod["spec"]["containers"][0]["env"][0];
        assert_eq!(env["name"], "JOB_COMPLETION_INDEX");
        let path = "metadata.labels['batch.kubernetes.io/job-completion-index']";
        assert_eq!(env["valueFrom"]["fieldRef"]["fieldPath"], path);
    }
    for at in [0, 2, 3] {
        set_status(&cluster, &pods[at], succeeded()).await;
    }
    let path = format!("{JOBS}/parts");
    let partly = |job: &Json| job["status"]["completedIndexes"] == "0,2,3";
    until(&cluster, &path, "three indexes", partly).await;
    set_status(&cluster, &pods[1], succeeded()).await;
    let done = finished(&cluster, "parts", "Complete").await;
    assert_eq!(done["status"]["completedIndexes"], "0-3");
    assert_eq!(done["status"]["succeeded"], 4);
    no_finalizers(&cluster).await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_job_backs_off_and_gives_up() {
    let cluster = TestCluster::simulated(3).await;
    let plane = plane(&cluster, CONTROLLERS);
    cluster.post(JOBS, job("bad", json!({"backoffLimit": 2}))).await.ok(201);
    let mut waits = Vec::new();
    for _ in 0..3 {
        let begun = cluster.env().now_seconds();
        let pods = active(&cluster, 1).await;
        waits.push(cluster.env().now_seconds() - begun);
        let at = object::time::format_seconds(cluster.env().now_seconds() as i64);
        let terminated = json!({"exitCode": 1, "finishedAt": at});
        let status = json!({"phase": "Failed", "containerStatuses": [
            {"name": "c", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": terminated}}]});
        set_status(&cluster, &pods[0], status).await;
    }
    assert!(waits[0] <= 1 && (9..=12).contains(&waits[1]) && (19..=22).contains(&waits[2]), "{waits:?}");
    let failed = finished(&cluster, "bad", "Failed").await;
    assert_eq!(failed["status"]["failed"], 3);
    assert_eq!(condition(&failed, "Failed")["reason"], "BackoffLimitExceeded");
    assert_eq!(condition(&failed, "FailureTarget")["message"], "Job has reached the specified backoff limit");
    let told = events(&cluster).await;
    assert!(
        told.contains(&"BackoffLimitExceeded Job has reached the specified backoff limit".to_owned()),
        "{told:?}"
    );
    no_finalizers(&cluster).await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_and_can_be_resumed() {
    let cluster = TestCluster::simulated(4).await;
    let plane = plane(&cluster, CONTROLLERS);
    cluster.post(JOBS, job("nap", json!({"parallelism": 2, "completions": 2}))).await.ok(201);
    active(&cluster, 2).await;
    let path = format!("{JOBS}/nap");
    let started = until(&cluster, &path, "a start", |job| job["status"]["active"] == 2).await;
    cluster.merge(&path, json!({"spec": {"suspend": true}})).await.ok(200);
    let suspended = finished(&cluster, "nap", "Suspended").await;
    assert!(suspended["status"]["startTime"].is_null() && suspended["status"]["active"].is_null());
    active(&cluster, 0).await;
    pass(&cluster, 30).await;
    let calm = cluster.get(&path).await.json();
    assert!(calm["status"]["failed"].is_null(), "pods taken away are no failures: {calm:#}");
    cluster.merge(&path, json!({"spec": {"suspend": false}})).await.ok(200);
    active(&cluster, 2).await;
    let resumed = until(&cluster, &path, "active again", |job| job["status"]["active"] == 2).await;
    assert_ne!(resumed["status"]["startTime"], started["status"]["startTime"]);
    assert_eq!(resumed["status"]["conditions"][0]["reason"], "JobResumed");
    let told = events(&cluster).await;
    for event in ["Suspended Job suspended", "Resumed Job resumed"] {
        assert!(told.contains(&event.to_owned()), "{told:?}");
    }
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_past_its_deadline_fails_and_its_ttl_deletes_it() {
    let cluster = TestCluster::simulated(5).await;
    let plane = plane(&cluster, CONTROLLERS);
    let spec = json!({"activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 100});
    cluster.post(JOBS, job("slow", spec)).await.ok(201);
    active(&cluster, 1).await;
    let begun = cluster.env().now_seconds();
    let failed = finished(&cluster, "slow", "Failed").await;
    assert!((59..=63).contains(&(cluster.env().now_seconds() - begun)));
    assert_eq!(condition(&failed, "Failed")["reason"], "DeadlineExceeded");
    assert_eq!(failed["status"]["failed"], 1);
    active(&cluster, 0).await;
    let begun = cluster.env().now_seconds();
    let path = format!("{JOBS}/slow");
    let going = |job: &Json| !job["metadata"]["deletionTimestamp"].is_null() || job["code"] == 404;
    until(&cluster, &path, "the deletion", going).await;
    assert!((98..=102).contains(&(cluster.env().now_seconds() - begun)));
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_index_fails_the_job_and_the_others_go_on() {
    let cluster = TestCluster::simulated(6).await;
    let plane = plane(&cluster, CONTROLLERS);
    let spec =
        json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1});
    cluster.post(JOBS, job("some", spec)).await.ok(201);
    let pods = active(&cluster, 2).await;
    let failures = "batch.kubernetes.io/job-index-failure-count";
    assert_eq!(pods[0]["metadata"]["annotations"][failures], "0");
    set_status(&cluster, &pods[0], json!({"phase": "Failed"})).await;
    // The second try of index 0, ten seconds later, knows of the first.
    let counted = |list: &Json| {
        list["items"].as_array().unwrap().iter().any(|pod| pod["metadata"]["annotations"][failures] == "1")
    };
    let list = until(&cluster, PODS, "the second try", counted).await;
    let again =
        list["items"].as_array().unwrap().iter().find(|p| p["metadata"]["annotations"][failures] == "1");
    set_status(&cluster, again.unwrap(), json!({"phase": "Failed"})).await;
    let path = format!("{JOBS}/some");
    until(&cluster, &path, "a failed index", |job| job["status"]["failedIndexes"] == "0").await;
    pass(&cluster, 60).await;
    set_status(&cluster, &pods[1], succeeded()).await;
    let failed = finished(&cluster, "some", "Failed").await;
    assert_eq!(condition(&failed, "Failed")["reason"], "FailedIndexes");
    assert_eq!(failed["status"]["completedIndexes"], "1");
    assert_eq!((&failed["status"]["succeeded"], &failed["status"]["failed"]), (&json!(1), &json!(2)));
    no_finalizers(&cluster).await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_lose_their_finalizers() {
    let cluster = TestCluster::simulated(7).await;
    let plane = plane(&cluster, CONTROLLERS);
    cluster.post(JOBS, job("gone", json!({"parallelism": 3, "completions": 3}))).await.ok(201);
    active(&cluster, 3).await;
    let path = format!("{JOBS}/gone?propagationPolicy=Background");
    cluster.delete(path).await.ok(200);
    let free = |list: &Json| {
        list["items"].as_array().unwrap().iter().all(|pod| pod["metadata"]["finalizers"].is_null())
    };
    until(&cluster, PODS, "no finalizers", free).await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_matching_orphan_pod_is_adopted() {
    let cluster = TestCluster::simulated(8).await;
    let plane = plane(&cluster, CONTROLLERS);
    let mut manual = job("mine", json!({"manualSelector": true, "selector": {"matchLabels": {"app": "x"}}}));
    manual["spec"]["template"]["metadata"] = json!({"labels": {"app": "x"}});
    manual["spec"]["suspend"] = json!(true);
    cluster.post(JOBS, manual).await.ok(201);
    let pod = json!({"metadata": {"name": "free", "labels": {"app": "x"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}});
    cluster
        .merge(format!("{JOBS}/mine"), json!({"spec": {"suspend": false, "parallelism": 0}}))
        .await
        .ok(200);
    pass(&cluster, 5).await;
    let pod = cluster.post(PODS, pod).await.ok(201);
    set_status(&cluster, &pod, succeeded()).await;
    let done = finished(&cluster, "mine", "Complete").await;
    assert_eq!(done["status"]["succeeded"], 1);
    let adopted = cluster.get(format!("{PODS}/free")).await.json();
    assert_eq!(adopted["metadata"]["ownerReferences"][0]["name"], "mine");
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_large_job_leaves_room_for_a_small_one() {
    let cluster = TestCluster::simulated(9).await;
    let plane = plane(&cluster, CONTROLLERS);
    cluster.post(JOBS, job("large", json!({"parallelism": 1600, "completions": 1600}))).await.ok(201);
    cluster.env().sleep(std::time::Duration::from_millis(1)).await;
    let begun = cluster.env().now_seconds();
    cluster.post(JOBS, job("small", json!({}))).await.ok(201);
    let path = format!("{PODS}?labelSelector=job-name=small");
    let there = |list: &Json| list["items"].as_array().is_some_and(|items| items.len() == 1);
    let list = until(&cluster, &path, "the small pod", there).await;
    assert!(cluster.env().now_seconds() - begun <= 2);
    set_status(&cluster, &list["items"][0], succeeded()).await;
    finished(&cluster, "small", "Complete").await;
    // 500 a turn, a turn a second.
    let large = format!("{JOBS}/large");
    until(&cluster, &large, "all pods", |job| job["status"]["active"] == 1600).await;
    let pods = items(&cluster, &format!("{PODS}?labelSelector=job-name=large")).await;
    assert_eq!(pods.len(), 1600);
    for pod in &pods {
        set_status(&cluster, pod, succeeded()).await;
    }
    let done = finished(&cluster, "large", "Complete").await;
    assert_eq!(done["status"]["succeeded"], 1600);
    plane.stop().await;
    cluster.shutdown().await;
}

/// Plays the node until the Job is over: the first pod fails, the others succeed.
async fn play(cluster: &TestCluster, name: &str, steps: u32) -> Option<Json> {
    for _ in 0..steps {
        let mut pods = items(cluster, PODS).await;
        pods.sort_by_key(|pod| pod["metadata"]["creationTimestamp"].to_string());
        let failed = pods.iter().any(|pod| phase_is(pod, "Failed"));
        for (at, pod) in pods.iter().filter(|pod| phase_is(pod, "Pending")).enumerate() {
            let status = if at == 0 && !failed { json!({"phase": "Failed"}) } else { succeeded() };
            set_status(cluster, pod, status).await;
        }
        let job = cluster.get(format!("{JOBS}/{name}")).await.json();
        if !condition(&job, "Complete").is_null() {
            return Some(job);
        }
        cluster.env().sleep(std::time::Duration::from_millis(500)).await;
    }
    None
}

/// Every kind of Job, with what their status must say at the end.
fn kinds_of_jobs() -> [(Json, Json); 4] {
    let plain = json!({"completions": 4, "parallelism": 2});
    let indexed = json!({"completions": 4, "parallelism": 2, "completionMode": "Indexed"});
    let mut by_index = indexed.clone();
    by_index["backoffLimitPerIndex"] = json!(1);
    let mut judged = plain.clone();
    let rule =
        json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
    judged["podFailurePolicy"] = json!({"rules": [rule]});
    [(plain, Json::Null), (indexed, json!("0-3")), (by_index, json!("0-3")), (judged, Json::Null)]
}

async fn ended_well(cluster: &TestCluster, done: &Json, indexes: &Json, how: &str) {
    let status = &done["status"];
    assert_eq!((&status["succeeded"], &status["failed"]), (&json!(4), &json!(1)), "{how}: {done:#}");
    assert_eq!(&status["completedIndexes"], indexes, "{how}");
    assert_eq!(status["uncountedTerminatedPods"], json!({}), "{how}");
    assert_eq!(items(cluster, PODS).await.len(), 5, "{how}");
    no_finalizers(cluster).await;
    steady(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_write_the_job_controller_reaches_the_same_state() {
    let mut deaths = 0;
    for writes in 1..24 {
        for (spec, indexes) in kinds_of_jobs() {
            let how = format!("killed after {writes} writes, {spec}");
            let cluster = TestCluster::simulated(100 + writes as u64).await;
            let plan = Plan { die_after: Some(writes), ..Plan::default() };
            let clients = Faults::new(cluster.env(), cluster.local_clients(), plan);
            let first = cluster.controllers(clients.clone(), CONTROLLERS);
            cluster.post(JOBS, job("once", spec)).await.ok(201);
            let mut done = play(&cluster, "once", 60).await;
            deaths += i32::from(clients.is_dead());
            first.kill();
            let second = plane(&cluster, CONTROLLERS);
            if done.is_none() {
                done = play(&cluster, "once", 600).await;
            }
            let done = done.unwrap_or_else(|| panic!("{how}: it never ended"));
            ended_well(&cluster, &done, &indexes, &how).await;
            second.stop().await;
            cluster.shutdown().await;
        }
    }
    assert!(deaths > 20, "the controller was killed in the middle only {deaths} times");
}

#[tokio::test(start_paused = true)]
async fn conflicts_and_lost_answers_do_not_change_the_end() {
    for every in [3, 4, 5, 7] {
        for (spec, indexes) in kinds_of_jobs() {
            let how = format!("trouble with one write in {every}, {spec}");
            let cluster = TestCluster::simulated(200 + every as u64).await;
            let (conflict_every, lose_answer_every) = (Some(every), Some(every - 1));
            let plan = Plan { conflict_every, lose_answer_every, ..Plan::default() };
            let clients = Faults::new(cluster.env(), cluster.local_clients(), plan);
            let plane = cluster.controllers(clients, CONTROLLERS);
            cluster.post(JOBS, job("once", spec)).await.ok(201);
            let done = play(&cluster, "once", 1200).await;
            let done = done.unwrap_or_else(|| panic!("{how}: it never ended"));
            ended_well(&cluster, &done, &indexes, &how).await;
            plane.stop().await;
            cluster.shutdown().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_seen_late_or_only_after_a_new_list_is_counted_once() {
    let stale = std::time::Duration::from_secs(3);
    let plans = [
        Plan { stale, ..Plan::default() },
        Plan { stale, lose_answer_every: Some(3), ..Plan::default() },
        Plan { stale, conflict_every: Some(4), cut_every: Some(3), ..Plan::default() },
        Plan { slow_reads: stale, lose_event_every: Some(5), ..Plan::default() },
    ];
    for (at, plan) in plans.into_iter().enumerate() {
        for (spec, indexes) in kinds_of_jobs() {
            let how = format!("{plan:?}, {spec}");
            let cluster = TestCluster::simulated(300 + at as u64).await;
            let clients = Faults::new(cluster.env(), cluster.local_clients(), plan.clone());
            let plane = cluster.controllers(clients, CONTROLLERS);
            cluster.post(JOBS, job("once", spec)).await.ok(201);
            let done = play(&cluster, "once", 1200).await;
            let done = done.unwrap_or_else(|| panic!("{how}: it never ended"));
            ended_well(&cluster, &done, &indexes, &how).await;
            plane.stop().await;
            cluster.shutdown().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_the_clock_changes_no_count() {
    for (at, jump) in [3600, -3600, 7 * 24 * 3600].into_iter().enumerate() {
        for (spec, indexes) in kinds_of_jobs() {
            let how = format!("the clock jumps by {jump} s, {spec}");
            let cluster = TestCluster::simulated(310 + at as u64).await;
            let plane = plane(&cluster, CONTROLLERS);
            cluster.post(JOBS, job("once", spec)).await.ok(201);
            assert!(play(&cluster, "once", 3).await.is_none(), "{how}: it ended too early");
            cluster.env().set_clock(jump);
            // A failure that lies ahead is waited for from there on.
            cluster.env().sleep(std::time::Duration::from_secs(jump.min(0).unsigned_abs())).await;
            let done = play(&cluster, "once", 1200).await;
            let done = done.unwrap_or_else(|| panic!("{how}: it never ended"));
            ended_well(&cluster, &done, &indexes, &how).await;
            plane.stop().await;
            cluster.shutdown().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_jobs_do_is_measured_under_upstreams_names() {
    let cluster = TestCluster::simulated(12).await;
    let plane = plane(&cluster, CONTROLLERS);
    let spec =
        json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 0});
    cluster.post(JOBS, job("some", spec)).await.ok(201);
    cluster.post(JOBS, job("other", json!({"managedBy": "example.com/mine"}))).await.ok(201);
    let pods = active(&cluster, 2).await;
    set_status(&cluster, &pods[0], json!({"phase": "Failed"})).await;
    set_status(&cluster, &pods[1], succeeded()).await;
    finished(&cluster, "some", "Failed").await;
    pass(&cluster, 5).await;
    let mut text = String::new();
    plane.context.controllers.render_metrics(&mut text);
    for line in [
        r#"job_controller_jobs_finished_total{completion_mode="Indexed",result="failed",reason="FailedIndexes"} 1"#,
        r#"job_controller_job_pods_finished_total{completion_mode="Indexed",result="failed"} 1"#,
        r#"job_controller_job_pods_finished_total{completion_mode="Indexed",result="succeeded"} 1"#,
        r#"job_controller_job_finished_indexes_total{status="failed",backoffLimit="perIndex"} 1"#,
        r#"job_controller_job_finished_indexes_total{status="succeeded",backoffLimit="perIndex"} 1"#,
        r#"job_controller_job_pods_creation_total{reason="new",status="succeeded"} 2"#,
        r#"job_controller_terminated_pods_tracking_finalizer_total{event="add"} 2"#,
        r#"job_controller_terminated_pods_tracking_finalizer_total{event="delete"} 2"#,
        r#"job_controller_jobs_by_external_controller_total{controller_name="example.com/mine"} 1"#,
        r#"job_controller_job_syncs_total{completion_mode="Indexed",result="success",action="pods_created"} 1"#,
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is missing in\n{text}");
    }
    assert!(text.contains("# TYPE job_controller_job_sync_duration_seconds histogram"));
    plane.stop().await;
    cluster.shutdown().await;
}

/// Times nobody gave stay unknown.
#[tokio::test(start_paused = true)]
async fn conditions_of_others_are_left_as_they_are() {
    let cluster = TestCluster::simulated(11).await;
    let plane = plane(&cluster, CONTROLLERS);
    cluster.post(JOBS, job("mine", json!({}))).await.ok(201);
    active(&cluster, 1).await;
    pass(&cluster, 5).await;
    let target = json!({"type": "FailureTarget", "status": "True", "reason": "Mine", "message": "by hand"});
    cluster.merge(format!("{JOBS}/mine/status"), json!({"status": {"conditions": [target]}})).await.ok(200);
    let failed = finished(&cluster, "mine", "Failed").await;
    assert_eq!(condition(&failed, "Failed")["reason"], "Mine");
    assert_eq!(condition(&failed, "FailureTarget")["lastTransitionTime"], Json::Null);
    assert_eq!(condition(&failed, "FailureTarget")["lastProbeTime"], Json::Null);
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_by_policy_waits_for_its_pods_to_end() {
    let cluster = TestCluster::simulated(10).await;
    let plane = plane(&cluster, CONTROLLERS);
    let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}});
    let spec = json!({"parallelism": 2, "completions": 2, "podFailurePolicy": {"rules": [rule]}});
    cluster.post(JOBS, job("strict", spec)).await.ok(201);
    let pods = active(&cluster, 2).await;
    cluster.post("/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await.ok(201);
    for pod in &pods {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"}});
        cluster.post(format!("{PODS}/{name}/binding"), binding).await.ok(201);
        set_status(&cluster, pod, json!({"phase": "Running"})).await;
    }
    let ended = json!({"phase": "Failed", "containerStatuses": [{"name": "c", "image": "busybox", "imageID": "",
        "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 42}}}]});
    set_status(&cluster, &pods[0], ended).await;
    let target = finished(&cluster, "strict", "FailureTarget").await;
    let first = pods[0]["metadata"]["name"].as_str().unwrap();
    let message = format!(
        "Container c for pod default/{first} failed with exit code 42 matching FailJob rule at index 0"
    );
    assert_eq!(condition(&target, "FailureTarget")["message"], message);
    pass(&cluster, 20).await;
    // The other is told to end, and its node has not said that it did.
    let waiting = cluster.get(format!("{JOBS}/strict")).await.json();
    assert!(condition(&waiting, "Failed").is_null());
    assert_eq!(waiting["status"]["terminating"], 1);
    let second = pods[1]["metadata"]["name"].as_str().unwrap();
    set_status(&cluster, &pods[1], json!({"phase": "Failed"})).await;
    cluster.delete(format!("{PODS}/{second}?gracePeriodSeconds=0")).await.ok(200);
    let failed = finished(&cluster, "strict", "Failed").await;
    assert_eq!(condition(&failed, "Failed")["reason"], "PodFailurePolicy");
    assert_eq!((&failed["status"]["failed"], &failed["status"]["terminating"]), (&json!(2), &json!(0)));
    no_finalizers(&cluster).await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}
