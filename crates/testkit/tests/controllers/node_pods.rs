//! Pods on simulated nodes, bound by hand: they run, end, crash and are deleted as on a real node.

use node::simulated::Settings;
use serde_json::{Value, json};

use crate::nodes::{EVENTS, NODES, PODS, World, annotate, condition, phase, status};

#[tokio::test(start_paused = true)]
async fn a_bound_pod_runs_becomes_ready_and_goes_gracefully() {
    let world = World::new(42, 2).await;
    world.run("web", "sim-1", Value::Null, |_| {}).await;
    let pod = world.pod("web", "running", phase("Running")).await;
    for kind in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"] {
        assert_eq!(condition(&pod, kind)["status"], "True", "{kind}");
    }
    assert_eq!(pod["status"]["hostIP"], "172.16.0.2");
    assert_eq!(pod["status"]["podIP"], "10.0.1.2");
    assert_eq!(pod["status"]["podIPs"], json!([{"ip": "10.0.1.2"}]));
    assert_eq!(pod["status"]["qosClass"], "BestEffort");
    assert_eq!(pod["status"]["observedGeneration"], pod["metadata"]["generation"]);
    let container = status(&pod);
    assert_eq!(
        (&container["ready"], &container["started"], &container["restartCount"]),
        (&json!(true), &json!(true), &json!(0))
    );
    assert!(container["state"]["running"]["startedAt"].is_string());
    assert!(container["containerID"].as_str().unwrap().starts_with("simulated://"));

    // An unbound pod belongs to no node.
    world
        .cluster
        .post(
            PODS,
            json!({"metadata": {"name": "free"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        )
        .await
        .ok(201);
    world.sleep(60_000).await;
    assert_eq!(world.cluster.get(format!("{PODS}/free")).await.json()["status"]["phase"], "Pending");

    let mut watch = world.cluster.watch(format!("{PODS}?watch=1&fieldSelector=metadata.name=web")).await;
    world.cluster.delete(format!("{PODS}/web")).await.ok(200);
    let mut seen = Vec::new();
    loop {
        let event = watch.next().await.expect("the pod goes");
        let object = &event["object"];
        let ended = status(object)["state"]["terminated"]["exitCode"].clone();
        seen.push((
            event["type"].as_str().unwrap().to_owned(),
            object["status"]["phase"].as_str().unwrap().to_owned(),
            ended,
        ));
        if event["type"] == "DELETED" {
            break;
        }
    }
    let said = |kind: &str, phase: &str, code: Value| (kind.to_owned(), phase.to_owned(), code);
    assert_eq!(
        seen,
        [
            said("ADDED", "Running", Value::Null),
            said("MODIFIED", "Running", Value::Null),
            said("MODIFIED", "Succeeded", json!(0)),
            // Without grace, for those who watch.
            said("MODIFIED", "Succeeded", json!(0)),
            said("DELETED", "Succeeded", json!(0)),
        ]
    );
    let events = world.cluster.get(EVENTS).await.ok(200);
    let told: Vec<&str> =
        events["items"].as_array().unwrap().iter().map(|e| e["reason"].as_str().unwrap()).collect();
    assert_eq!(told, ["Pulled", "Created", "Started", "Killing"]);
    let killing = &events["items"][3];
    assert_eq!(killing["message"], "Stopping container c");
    assert_eq!(killing["source"], json!({"component": "kubelet", "host": "sim-1"}));
    assert_eq!(killing["involvedObject"]["fieldPath"], "spec.containers{c}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_pod_is_seen_in_every_stage() {
    let world = World::new(43, 1).await;
    let slow = |pod: &mut Value| {
        pod["metadata"]["annotations"] = json!({});
        annotate(pod, "start-seconds", "5");
        annotate(pod, "ready-seconds", "10");
        annotate(pod, "stop-seconds", "20");
    };
    world.run("slow", "sim-0", Value::Null, slow).await;
    let pod = world
        .pod("slow", "creating", |pod| status(pod)["state"]["waiting"]["reason"] == "ContainerCreating")
        .await;
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(condition(&pod, "Ready")["message"], "containers with unready status: [c]");
    world.sleep(5_100).await;
    let pod = world.cluster.get(format!("{PODS}/slow")).await.ok(200);
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(condition(&pod, "Ready")["status"], "False");
    world.sleep(10_000).await;
    let pod = world.cluster.get(format!("{PODS}/slow")).await.ok(200);
    assert_eq!(condition(&pod, "Ready")["status"], "True");

    world.cluster.delete(format!("{PODS}/slow")).await.ok(200);
    world.sleep(19_000).await;
    assert_eq!(world.cluster.get(format!("{PODS}/slow")).await.ok(200)["status"]["phase"], "Running");
    world.sleep(1_100).await;
    world.gone("slow").await;

    // Whoever does not go within the grace is killed.
    world
        .run("stubborn", "sim-0", Value::Null, |pod| {
            slow(pod);
            pod["metadata"]["finalizers"] = json!(["example.com/look"]);
        })
        .await;
    world.sleep(16_000).await;
    world.cluster.delete(format!("{PODS}/stubborn?gracePeriodSeconds=2")).await.ok(200);
    world.sleep(2_100).await;
    let pod =
        world.pod("stubborn", "killed", |pod| status(pod)["state"]["terminated"]["exitCode"] == 137).await;
    assert_eq!(pod["status"]["phase"], "Failed");
    world.cluster.merge(format!("{PODS}/stubborn"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    world.gone("stubborn").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn containers_end_as_their_command_says_and_restart_as_their_policy_says() {
    let world = World::new(44, 1).await;
    let policy = |policy: &'static str| move |pod: &mut Value| pod["spec"]["restartPolicy"] = json!(policy);
    world.run("well", "sim-0", json!(["sh", "-c", "sleep 3; exit 0"]), policy("Never")).await;
    world.run("ill", "sim-0", json!(["sh", "-c", "exit 3"]), policy("Never")).await;
    world.run("loop", "sim-0", json!(["false"]), policy("OnFailure")).await;
    world.run("again", "sim-0", json!(["sleep", "5"]), policy("Always")).await;
    world
        .run("noted", "sim-0", Value::Null, |pod| {
            policy("Never")(pod);
            pod["metadata"]["annotations"] = json!({});
            annotate(pod, "run-seconds", "2");
            annotate(pod, "exit-code", "7");
        })
        .await;

    let pod = world.pod("well", "running", phase("Running")).await;
    assert_eq!(condition(&pod, "Ready")["status"], "True");
    let pod = world.pod("well", "over", phase("Succeeded")).await;
    assert_eq!(status(&pod)["state"]["terminated"]["reason"], "Completed");
    assert_eq!(condition(&pod, "Ready")["reason"], "PodCompleted");
    assert_eq!(condition(&pod, "Initialized")["reason"], "PodCompleted");
    assert_eq!(condition(&pod, "PodReadyToStartContainers")["status"], "False");
    let pod = world.pod("ill", "over", phase("Failed")).await;
    assert_eq!(status(&pod)["state"]["terminated"]["exitCode"], 3);
    assert_eq!(status(&pod)["state"]["terminated"]["reason"], "Error");
    assert_eq!(condition(&pod, "Ready")["reason"], "PodFailed");
    let pod = world.pod("noted", "over", phase("Failed")).await;
    assert_eq!(status(&pod)["state"]["terminated"]["exitCode"], 7);

    // Restarted at once, then after 10 s, 20 s, 40 s ...
    let in_loop = |count: u64| {
        move |pod: &Value| {
            status(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
                && status(pod)["restartCount"] == count
        }
    };
    let pod = world.pod("loop", "backing off", in_loop(1)).await;
    assert_eq!(pod["status"]["phase"], "Running");
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let message = format!("back-off 10s restarting failed container=c pod=loop_default({uid})");
    assert_eq!(status(&pod)["state"]["waiting"]["message"], message);
    assert_eq!(status(&pod)["lastState"]["terminated"]["exitCode"], 1);
    world.sleep(10_100).await;
    let pod = world.pod("loop", "backing off longer", in_loop(2)).await;
    assert!(status(&pod)["state"]["waiting"]["message"].as_str().unwrap().starts_with("back-off 20s "));
    world.sleep(20_100).await;
    world.pod("loop", "backing off longer", in_loop(3)).await;

    let pod = world.pod("again", "restarted", |pod| status(pod)["restartCount"].as_u64() >= Some(2)).await;
    assert_eq!(status(&pod)["lastState"]["terminated"]["reason"], "Completed");
    world.cluster.delete(format!("{PODS}/loop")).await.ok(200);
    world.gone("loop").await;
    world.cluster.delete(format!("{PODS}/well")).await.ok(200);
    world.gone("well").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_in_order_and_sidecars_stay() {
    let world = World::new(45, 1).await;
    world
        .run("staged", "sim-0", Value::Null, |pod| {
            pod["spec"]["initContainers"] = json!([
                {"name": "first", "image": "i", "command": ["sleep", "2"]},
                {"name": "beside", "image": "i", "restartPolicy": "Always"},
                {"name": "second", "image": "i", "command": ["sleep", "2"]},
            ]);
        })
        .await;
    let init = |pod: &Value, at: usize, state: &str| {
        pod["status"]["initContainerStatuses"][at]["state"][state].is_object()
    };
    let pod = world.pod("staged", "begun", |pod| init(pod, 0, "running")).await;
    assert!(init(&pod, 1, "waiting") && init(&pod, 2, "waiting"));
    assert_eq!(status(&pod)["state"]["waiting"]["reason"], "PodInitializing");
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(
        condition(&pod, "Initialized")["message"],
        "containers with incomplete status: [first beside second]"
    );
    let pod = world.pod("staged", "at its second", |pod| init(pod, 2, "running")).await;
    assert!(init(&pod, 0, "terminated") && init(&pod, 1, "running"));
    let pod = world.pod("staged", "running", phase("Running")).await;
    assert_eq!(condition(&pod, "Ready")["status"], "True");
    assert_eq!(pod["status"]["initContainerStatuses"][0]["ready"], true);

    // A job's sidecar ends with it; an init container that fails for good fails the pod.
    world
        .run("job", "sim-0", json!(["sleep", "1"]), |pod| {
            pod["spec"]["restartPolicy"] = json!("Never");
            pod["spec"]["initContainers"] =
                json!([{"name": "beside", "image": "i", "restartPolicy": "Always"}]);
        })
        .await;
    let pod = world.pod("job", "over", phase("Succeeded")).await;
    assert!(init(&pod, 0, "terminated"));
    world
        .run("broken", "sim-0", Value::Null, |pod| {
            pod["spec"]["restartPolicy"] = json!("Never");
            pod["spec"]["initContainers"] = json!([{"name": "init", "image": "i", "command": ["false"]}]);
        })
        .await;
    world.pod("broken", "failed", phase("Failed")).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_do_not_fit_are_rejected_with_the_kubelets_message() {
    let world = World::with(46, Settings { cpu: "1".to_owned(), ..Settings::default() }).await;
    let asks = |cpu: &'static str| {
        move |pod: &mut Value| pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}})
    };
    world.run("first", "sim-0", Value::Null, asks("600m")).await;
    world.pod("first", "running", phase("Running")).await;
    world.run("second", "sim-0", Value::Null, asks("500m")).await;
    let pod = world.pod("second", "refused", phase("Failed")).await;
    assert_eq!(pod["status"]["reason"], "OutOfcpu");
    assert_eq!(
        pod["status"]["message"],
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 500, used: 600, capacity: 1000"
    );
    world
        .run("choosy", "sim-0", Value::Null, |pod| pod["spec"]["nodeSelector"] = json!({"disk": "ssd"}))
        .await;
    let pod = world.pod("choosy", "refused", phase("Failed")).await;
    assert_eq!(pod["status"]["reason"], "NodeAffinity");
    assert_eq!(
        pod["status"]["message"],
        "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    );
    // What has gone leaves its room.
    world.cluster.delete(format!("{PODS}/first")).await.ok(200);
    world.gone("first").await;
    world.run("third", "sim-0", Value::Null, asks("500m")).await;
    world.pod("third", "running", phase("Running")).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn room_that_is_made_for_a_critical_pod_is_kept_for_it() {
    let world = World::with(58, Settings { cpu: "1".to_owned(), ..Settings::default() }).await;
    let asks = |cpu: &'static str| {
        move |pod: &mut Value| pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}})
    };
    let slow = |pod: &mut Value| {
        asks("600m")(pod);
        pod["metadata"]["annotations"] = json!({"sim.setpoint.dev/stop-seconds": "5"});
    };
    world.run("slow", "sim-0", Value::Null, slow).await;
    world.pod("slow", "running", phase("Running")).await;
    for (name, cpu) in [("critical", "700m"), ("other", "200m")] {
        let critical = |pod: &mut Value| {
            asks(cpu)(pod);
            pod["spec"]["priorityClassName"] = json!("system-node-critical");
        };
        world.run(name, "sim-0", Value::Null, critical).await;
    }
    // There is room for it now, but not beside the critical pods; for the other there will be.
    world.run("thief", "sim-0", Value::Null, asks("400m")).await;
    world.run("small", "sim-0", Value::Null, asks("100m")).await;
    let thief = world.pod("thief", "refused", phase("Failed")).await;
    assert_eq!(thief["status"]["reason"], "OutOfcpu");
    for name in ["critical", "other", "small"] {
        world.pod(name, "running", phase("Running")).await;
    }
    let slow = world.pod("slow", "ended", phase("Failed")).await;
    assert_eq!(slow["status"]["reason"], "Preempting");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_fails_its_containers_does_so_at_its_rate() {
    let world = World::new(51, 1).await;
    let often = json!({"metadata": {"annotations": {"sim.setpoint.dev/failure-probability": "0.5"}}});
    world.cluster.merge(format!("{NODES}/sim-0"), often).await.ok(200);
    world.sleep(100).await;
    for index in 0..60 {
        world
            .run(&format!("p-{index}"), "sim-0", Value::Null, |pod| {
                pod["spec"]["restartPolicy"] = json!("Never")
            })
            .await;
    }
    world.sleep(1000).await;
    let list = world.cluster.get(PODS).await.ok(200);
    let failed =
        list["items"].as_array().unwrap().iter().filter(|pod| pod["status"]["phase"] == "Failed").count();
    assert!((15..=45).contains(&failed), "{failed} of 60 failed");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_whose_image_changes_is_restarted() {
    let world = World::new(57, 1).await;
    let sidecar = |pod: &mut Value| {
        pod["spec"]["restartPolicy"] = json!("Never");
        pod["spec"]["initContainers"] = json!([{"name": "s", "image": "proxy", "restartPolicy": "Always"}]);
    };
    world.run("web", "sim-0", Value::Null, sidecar).await;
    let before = world.pod("web", "running", phase("Running")).await;
    assert_eq!(status(&before)["restartCount"], 0);
    world.sleep(5_000).await;
    let change = json!({"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}});
    patch(&world, "web", &change).await;
    let after = world.pod("web", "restarted", |pod| status(pod)["restartCount"] == 1).await;
    let (old, new) = (status(&before), status(&after));
    assert_eq!((&new["image"], &new["imageID"]), (&json!("nginx:2"), &json!("simulated/nginx:2")));
    assert_ne!(new["containerID"], old["containerID"]);
    assert_eq!(new["lastState"]["terminated"]["containerID"], old["containerID"]);
    assert_eq!(new["lastState"]["terminated"]["startedAt"], old["state"]["running"]["startedAt"]);
    assert!(new["state"]["running"]["startedAt"].as_str() > old["state"]["running"]["startedAt"].as_str());
    // Whatever the restart policy says; and nothing else is touched.
    assert_eq!(after["status"]["initContainerStatuses"], before["status"]["initContainerStatuses"]);
    world.sleep(60_000).await;
    let later = world.cluster.get(format!("{PODS}/web")).await.ok(200);
    assert_eq!(later, after, "once is enough");
    let events = world.cluster.get(EVENTS).await.ok(200);
    let told = |event: &&Value| event["message"] == "Container c definition changed, will be restarted";
    assert_eq!(events["items"].as_array().unwrap().iter().filter(told).count(), 1);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_unready_as_long_as_its_annotation_says_so() {
    let world = World::new(58, 1).await;
    world.run("web", "sim-0", Value::Null, |_| {}).await;
    let is_ready = |said: &'static str| move |pod: &Value| condition(pod, "Ready")["status"] == said;
    world.pod("web", "ready", is_ready("True")).await;
    let mark = |names: Value| json!({"metadata": {"annotations": {"sim.setpoint.dev/unready": names}}});
    for names in ["true", "other, c"] {
        patch(&world, "web", &mark(json!(names))).await;
        let pod = world.pod("web", "unready", is_ready("False")).await;
        assert_eq!(status(&pod)["ready"], false);
        assert!(status(&pod)["state"]["running"].is_object(), "it runs all the same");
        patch(&world, "web", &mark(Value::Null)).await;
        world.pod("web", "ready again", is_ready("True")).await;
    }
    patch(&world, "web", &mark(json!("other"))).await;
    world.sleep(5_000).await;
    world.pod("web", "ready still", is_ready("True")).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pre_stop_hook_takes_its_time_within_the_grace() {
    let world = World::new(59, 1).await;
    for (name, hook) in [
        ("sleeps", json!({"sleep": {"seconds": 20}})),
        ("execs", json!({"exec": {"command": ["sh", "-c", "sleep 20"]}})),
    ] {
        let change = |pod: &mut Value| {
            pod["spec"]["containers"][0]["lifecycle"] = json!({"preStop": hook});
        };
        world.run(name, "sim-0", Value::Null, change).await;
        world.pod(name, "running", phase("Running")).await;
        world.cluster.delete(format!("{PODS}/{name}")).await.ok(200);
        world.sleep(19_000).await;
        assert_eq!(world.cluster.get(format!("{PODS}/{name}")).await.ok(200)["status"]["phase"], "Running");
        world.sleep(1_100).await;
        world.gone(name).await;
    }
    world.stop().await;
}

async fn patch(world: &World, name: &str, change: &Value) {
    let media = "application/strategic-merge-patch+json";
    let ask = world.cluster.request("PATCH", format!("{PODS}/{name}"));
    ask.typed(media, change.to_string().into_bytes()).send().await.ok(200);
}
