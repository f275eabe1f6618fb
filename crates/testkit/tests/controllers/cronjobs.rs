//! CronJobs in virtual time, which begins at midnight of 1 January 2026; with nodes that run what is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use client::{Answer, Client, Target};
use env::Env;
use object::Obj;
use plane::{Plane, Settings};
use serde_json::{Value as Json, json};
use testkit::TestCluster;
use testkit::faults::{Faults, Plan};
use testkit::forward::{Forward, Wrapping};
use testkit::journal::Journal;

use crate::batch_steps::{EVENTS, items, pass, plane, steady, until};

const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CONTROLLERS: &[&str] = &["cronjob-controller"];
/// The minute virtual time begins with.
const FIRST: i64 = 1_767_225_600 / 60;
const DAY: i64 = 24 * 60;

fn cron(name: &str, schedule: &str, spec: Json) -> Json {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", "exit 0"]}]});
    let mut cron = json!({"metadata": {"name": name}, "spec": {
        "schedule": schedule,
        "jobTemplate": {"metadata": {"labels": {"cron": name}}, "spec": {"template": {"spec": pod}}},
    }});
    for (name, value) in spec.as_object().expect("a spec is an object") {
        cron["spec"][name] = value.clone();
    }
    cron
}

/// Which minutes of virtual time there are Jobs of, sorted.
async fn minutes(cluster: &TestCluster, cron: &str) -> Vec<i64> {
    let jobs = items(cluster, &format!("{JOBS}?labelSelector=cron%3D{cron}")).await;
    let minute = |job: &Json| {
        let name = job["metadata"]["name"].as_str().expect("a name").to_owned();
        name.rsplit_once('-').expect("a minute").1.parse::<i64>().expect("a number") - FIRST
    };
    let mut minutes: Vec<i64> = jobs.iter().map(minute).collect();
    minutes.sort_unstable();
    minutes
}

async fn events(cluster: &TestCluster) -> Vec<String> {
    let told = items(cluster, EVENTS).await;
    let text = |e: &Json, name: &str| e[name].as_str().unwrap_or_default().to_owned();
    let of_cron = told.iter().filter(|e| e["involvedObject"]["kind"] == "CronJob");
    of_cron.map(|e| format!("{} {} {}", text(e, "type"), text(e, "reason"), text(e, "message"))).collect()
}

async fn end(cluster: &TestCluster, job: &str, kind: &str) {
    let now = "2026-01-01T00:10:00Z";
    let mut conditions = vec![json!({"type": kind, "status": "True", "lastTransitionTime": now})];
    let before = if kind == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
    conditions.insert(0, json!({"type": before, "status": "True", "lastTransitionTime": now}));
    let mut status = json!({"startTime": now, "conditions": conditions});
    if kind == "Complete" {
        status["completionTime"] = json!(now);
    }
    cluster.merge(format!("{JOBS}/{job}/status"), json!({"status": status})).await.ok(200);
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_runs_every_minute_and_keeps_a_short_history() {
    let cluster = TestCluster::simulated(1801).await;
    let settings = Settings { nodes: Some(testkit::nodes(2)), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    cluster.post(CRON_JOBS, cron("tick", "*/1 * * * *", json!({"timeZone": "Europe/Berlin"}))).await.ok(201);
    pass(&cluster, 6 * 60 + 30).await;
    assert_eq!(minutes(&cluster, "tick").await, [4, 5, 6], "three that succeeded are kept");
    let tick = cluster.get(format!("{CRON_JOBS}/tick")).await.json();
    assert_eq!(tick["status"]["lastScheduleTime"], "2026-01-01T00:06:00Z");
    assert!(tick["status"]["lastSuccessfulTime"].as_str().unwrap() > "2026-01-01T00:06:00Z");
    assert!(tick["status"]["active"].is_null(), "{tick:#}");
    let job = cluster.get(format!("{JOBS}/tick-{}", FIRST + 6)).await.ok(200);
    let scheduled = &job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(scheduled, "2026-01-01T01:06:00+01:00");
    let owner = &job["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["apiVersion"], &owner["kind"], &owner["name"]),
        (&json!("batch/v1"), &json!("CronJob"), &json!("tick"))
    );
    assert_eq!((&owner["controller"], &owner["blockOwnerDeletion"]), (&json!(true), &json!(true)));
    let told = events(&cluster).await;
    for event in [
        format!("Normal SuccessfulCreate Created job tick-{}", FIRST + 1),
        format!("Normal SawCompletedJob Saw completed job: tick-{}, condition: Complete", FIRST + 1),
        format!("Normal SuccessfulDelete Deleted job tick-{}", FIRST + 1),
    ] {
        assert!(told.contains(&event), "{event}: {told:#?}");
    }
    assert!(told.iter().all(|e| e.starts_with("Normal ")), "{told:#?}");
    // Suspended it stands still; resumed it goes on without the times in between.
    cluster.merge(format!("{CRON_JOBS}/tick"), json!({"spec": {"suspend": true}})).await.ok(200);
    steady(&cluster).await;
    cluster.merge(format!("{CRON_JOBS}/tick"), json!({"spec": {"suspend": false}})).await.ok(200);
    pass(&cluster, 1).await;
    assert_eq!(minutes(&cluster, "tick").await.len(), 4, "the last one missed is started at once");
    // With the CronJob go its Jobs.
    cluster.delete(format!("{CRON_JOBS}/tick")).await.ok(200);
    until(&cluster, JOBS, "no Jobs", |list| list["items"].as_array().is_some_and(Vec::is_empty)).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn policies_allow_forbid_and_replace_what_still_runs() {
    let cluster = TestCluster::simulated(1802).await;
    let plane = plane(&cluster, CONTROLLERS);
    for policy in ["Allow", "Forbid", "Replace"] {
        let spec = json!({"concurrencyPolicy": policy});
        cluster.post(CRON_JOBS, cron(&policy.to_lowercase(), "* * * * *", spec)).await.ok(201);
    }
    pass(&cluster, 3 * 60 + 30).await;
    assert_eq!(minutes(&cluster, "allow").await, [1, 2, 3]);
    assert_eq!(minutes(&cluster, "forbid").await, [1]);
    assert_eq!(minutes(&cluster, "replace").await, [3]);
    let allow = cluster.get(format!("{CRON_JOBS}/allow")).await.json();
    let active = allow["status"]["active"].as_array().unwrap();
    assert_eq!(active.len(), 3);
    assert_eq!(
        (&active[0]["kind"], &active[0]["apiVersion"], &active[0]["namespace"]),
        (&json!("Job"), &json!("batch/v1"), &json!("default"))
    );
    let told = events(&cluster).await;
    let forbidden = "Normal JobAlreadyActive Not starting job because prior execution is running and concurrency policy is Forbid";
    assert!(told.contains(&forbidden.to_owned()), "{told:#?}");
    assert!(
        told.contains(&format!("Normal SuccessfulDelete Deleted job replace-{}", FIRST + 2)),
        "{told:#?}"
    );
    // The one that ran ends: the time that was forbidden is made up for at once.
    end(&cluster, &format!("forbid-{}", FIRST + 1), "Failed").await;
    pass(&cluster, 1).await;
    assert_eq!(minutes(&cluster, "forbid").await, [1, 3]);
    // Deleted by hand, it is no longer active.
    let gone = format!("{JOBS}/allow-{}?propagationPolicy=Background", FIRST + 1);
    cluster.delete(gone).await.ok(200);
    pass(&cluster, 1).await;
    let allow = cluster.get(format!("{CRON_JOBS}/allow")).await.json();
    assert_eq!(allow["status"]["active"].as_array().unwrap().len(), 2);
    let told = events(&cluster).await;
    assert!(
        told.contains(&format!("Normal MissingJob Active job went missing: allow-{}", FIRST + 1)),
        "{told:#?}"
    );
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_schedule_counts_from_now_on() {
    let cluster = TestCluster::simulated(1803).await;
    let plane = plane(&cluster, CONTROLLERS);
    cluster.post(CRON_JOBS, cron("moved", "0 12 * * *", json!({}))).await.ok(201);
    pass(&cluster, 90).await;
    cluster.merge(format!("{CRON_JOBS}/moved"), json!({"spec": {"schedule": "*/5 * * * *"}})).await.ok(200);
    pass(&cluster, 5 * 60).await;
    assert_eq!(minutes(&cluster, "moved").await, [5]);
    // Its own Job of that name: nobody takes it over, and the next time is not missed.
    let mut foreign = json!({"metadata": {"name": format!("moved-{}", FIRST + 10)}});
    foreign["spec"] = cron("x", "* * * * *", json!({}))["spec"]["jobTemplate"]["spec"].clone();
    cluster.post(JOBS, foreign).await.ok(201);
    pass(&cluster, 10 * 60).await;
    assert_eq!(minutes(&cluster, "moved").await, [5, 15]);
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_a_week_starts_the_last_run_and_says_so() {
    let cluster = TestCluster::simulated(1804).await;
    let plane = plane(&cluster, CONTROLLERS);
    for (name, schedule) in [("minutely", "* * * * *"), ("daily", "30 4 * * *")] {
        cluster.post(CRON_JOBS, cron(name, schedule, json!({}))).await.ok(201);
    }
    let short = json!({"startingDeadlineSeconds": 30});
    cluster.post(CRON_JOBS, cron("short", "0 3 * * *", short)).await.ok(201);
    pass(&cluster, 70).await;
    cluster.env().set_clock(7 * 86_400);
    pass(&cluster, 15).await;
    assert_eq!(minutes(&cluster, "minutely").await, [1, 7 * DAY + 1]);
    assert_eq!(minutes(&cluster, "daily").await, [6 * DAY + 4 * 60 + 30], "of seven the last");
    assert_eq!(minutes(&cluster, "short").await, Vec::<i64>::new());
    let told = events(&cluster).await;
    let many = "Warning TooManyMissedTimes too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
    assert_eq!(told.iter().filter(|e| *e == many).count(), 1, "{told:#?}");
    // Set back, the times that come again are not run twice.
    cluster.env().set_clock(-86_400);
    pass(&cluster, 300).await;
    assert_eq!(minutes(&cluster, "minutely").await, [1, 7 * DAY + 1]);
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn clocks_that_change_skip_and_repeat_hours_as_upstream_does() {
    let cluster = TestCluster::simulated(1805).await;
    // 2026-03-28T12:00Z: that night Berlin's clocks leave out the hour from two to three.
    cluster.env().set_clock(86 * 86_400 + 12 * 3600);
    let plane = plane(&cluster, CONTROLLERS);
    let berlin = || json!({"timeZone": "Europe/Berlin"});
    cluster.post(CRON_JOBS, cron("gap", "30 2 * * *", berlin())).await.ok(201);
    cluster.post(CRON_JOBS, cron("hourly", "0 * * * *", berlin())).await.ok(201);
    cluster.env().sleep(Duration::from_secs(40 * 3600 + 60)).await;
    let utc = |day: i64, hour: i64, minute: i64| day * DAY + hour * 60 + minute;
    assert_eq!(minutes(&cluster, "gap").await, [utc(88, 0, 30)], "no half past two on the 29th");
    let hourly = minutes(&cluster, "hourly").await;
    assert_eq!(hourly.len(), 40);
    assert!(hourly.windows(2).all(|pair| pair[1] - pair[0] == 60), "{hourly:?}");
    plane.stop().await;
    cluster.shutdown().await;
}

struct Reading {
    inner: Arc<dyn Client>,
    reads: Arc<AtomicUsize>,
}

impl Forward for Reading {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn get<'a>(&'a self, target: Target<'a>) -> Answer<'a, Arc<Obj>> {
        self.reads.fetch_add(1, SeqCst);
        self.inner.get(target)
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_reads_nothing_from_the_server_however_many_jobs_there_are() {
    let cluster = TestCluster::simulated(1806).await;
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = reads.clone();
    let wrap = move |inner| Reading { inner, reads: counted.clone() };
    let clients = Arc::new(Wrapping { inner: cluster.local_clients(), wrap });
    let plane = cluster.controllers(clients, CONTROLLERS);
    for n in 0..50 {
        cluster.post(CRON_JOBS, cron(&format!("c{n}"), "* * * * *", json!({}))).await.ok(201);
    }
    pass(&cluster, 150).await;
    assert_eq!(items(&cluster, JOBS).await.len(), 100);
    assert_eq!(reads.load(SeqCst), 0);
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn each_run_is_started_once_with_stale_caches_and_lost_answers() {
    for (seed, plan) in [
        (1807, Plan { stale: Duration::from_secs(3), ..Plan::default() }),
        (1808, Plan { lose_answer_every: Some(2), ..Plan::default() }),
        (1809, Plan { conflict_every: Some(2), ..Plan::default() }),
    ] {
        let cluster = TestCluster::simulated(seed).await;
        let faults = Faults::new(cluster.env(), cluster.local_clients(), plan);
        let plane = cluster.controllers(faults.clone(), CONTROLLERS);
        cluster.post(CRON_JOBS, cron("tick", "* * * * *", json!({}))).await.ok(201);
        pass(&cluster, 5 * 60 + 40).await;
        assert_eq!(minutes(&cluster, "tick").await, [1, 2, 3, 4, 5]);
        let tick = cluster.get(format!("{CRON_JOBS}/tick")).await.json();
        assert_eq!(tick["status"]["active"].as_array().map(Vec::len), Some(5), "{tick:#}");
        assert!(faults.met() > 0);
        plane.stop().await;
        cluster.shutdown().await;
    }
}

/// Ten thousand in `make test-long`.
#[tokio::test(start_paused = true)]
async fn cron_jobs_due_together_do_not_starve_a_deployment() {
    let count = if std::env::var_os("SETPOINT_LONG").is_some() { 10_000 } else { 600 };
    let journal = Journal::default();
    let cluster = TestCluster::with(Env::simulated(1810), |config| journal.record(config)).await;
    let settings = Settings { nodes: Some(testkit::nodes(2)), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    for n in 0..count {
        cluster.post(CRON_JOBS, cron(&format!("c{n}"), "0 6 * * *", json!({}))).await.ok(201);
    }
    // The moment all of them wake up.
    let due = (FIRST as u128 * 60 + 6 * 3600) * 1_000_000_000 + 100_000_000;
    cluster.env().sleep(Duration::from_nanos((due - cluster.env().now_nanos()) as u64)).await;
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let web = json!({"metadata": {"name": "web"}, "spec": spec});
    cluster.post("/apis/apps/v1/namespaces/default/deployments", web).await.ok(201);
    let whole = |list: &Json| list["items"].as_array().is_some_and(|jobs| jobs.len() == count);
    until(&cluster, JOBS, "all Jobs", whole).await;
    let log = journal.text();
    let made: Vec<&str> = log.lines().filter(|line| line.contains(" ADDED ")).collect();
    let of = |line: &&str, what: &str| line.contains(what);
    let second = made.iter().enumerate().filter(|(_, line)| of(line, "/registry/pods/default/web-")).nth(1);
    let (at, _) = second.expect("a Deployment's pods");
    let before = made[..at].iter().filter(|line| of(line, "/registry/jobs/")).count();
    assert!(before < count / 2, "{before} Jobs of {count} were made first");
    plane.stop().await;
    cluster.shutdown().await;
}

/// How many objects informers hand out when a Job of one CronJob ends, beside so many others.
async fn read_for_one_change(others: usize) -> u64 {
    let cluster = TestCluster::simulated(1811).await;
    let plane = plane(&cluster, CONTROLLERS);
    for n in 0..others {
        cluster.post(CRON_JOBS, cron(&format!("other{n}"), "* * * * *", json!({}))).await.ok(201);
    }
    cluster.post(CRON_JOBS, cron("tick", "* * * * *", json!({}))).await.ok(201);
    pass(&cluster, 70).await;
    assert_eq!(items(&cluster, JOBS).await.len(), others + 1);
    let given = || plane.context.informers.given();
    let before = given();
    end(&cluster, &format!("tick-{}", FIRST + 1), "Complete").await;
    pass(&cluster, 2).await;
    let read = given() - before;
    plane.stop().await;
    cluster.shutdown().await;
    read
}

#[tokio::test(start_paused = true)]
async fn what_one_change_costs_does_not_grow_with_other_cron_jobs() {
    let (few, many) = (read_for_one_change(5).await, read_for_one_change(200).await);
    assert!(few > 0, "the change is looked at");
    assert_eq!(few, many);
}
