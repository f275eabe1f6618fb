//! Sandboxes: what they are made with, and what waits until they are.

use std::sync::Arc;
use std::time::Duration;

use node::container_runtime::Exit;
use node::pod::Pod;
use serde_json::json;

use super::fake::Case;
use crate::pods::cache::RunState;
use crate::pods::news;
use crate::runtime_state::tests::status;

const PLAIN: &str = "{containers: [{name: c, image: 'i:1'}]}";
const CLASS: &str = "{runtimeClassName: fast, containers: [{name: c, image: 'i:1'}]}";

fn has_sandbox(case: &Case) -> bool {
    case.task.sandbox().is_some()
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_run_by_the_handler_of_its_runtime_class() {
    let mut case = Case::new(CLASS, |_| {}).await;
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "fast"}, "handler": "kata"});
    let made = case.cluster.post("/apis/node.k8s.io/v1/runtimeclasses", class).await;
    assert_eq!(made.status, 201, "{made:?}");
    case.task.create();
    case.until(has_sandbox).await;
    let asked = case.runtime.asked();
    assert!(asked.len() == 1 && asked[0].ends_with("sandbox \"kata\""), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_runtime_class_is_run_by_the_default_handler() {
    let mut case = Case::new(PLAIN, |_| {}).await;
    case.task.create();
    case.until(has_sandbox).await;
    assert_eq!(case.runtime.asked(), ["0s sandbox \"\""]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_runtime_class_is_missing_has_no_sandbox() {
    let mut case = Case::new(CLASS, |_| {}).await;
    case.task.create();
    case.wakes.recv().await.unwrap();
    let told =
        "FailedCreatePodSandBox: Failed to create pod sandbox: runtimeclass.node.k8s.io \"fast\" not found";
    assert_eq!(case.events(), [told]);
    assert!(case.runtime.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_network_unless_it_has_the_machines() {
    let unready = |case: &Case| case.pods.shared.parts.runtime_state.answered(&status("", "NoPlugin"));
    let mut case = Case::new(PLAIN, |_| {}).await;
    unready(&case);
    case.task.create();
    case.wakes.recv().await.unwrap();
    let told = "NetworkNotReady: network is not ready: container runtime network not ready: \
                NetworkReady=false reason:NoPlugin message:it says why";
    assert_eq!(case.events(), [told]);
    let env = case.cluster.env().clone();
    env.sleep(Duration::from_secs(100)).await;
    assert!(case.runtime.asked().is_empty() && case.task.cache.lock().volumes.is_none());
    let there = env.monotonic();
    case.pods.shared.parts.runtime_state.answered(&status("", ""));
    case.until(has_sandbox).await;
    assert_eq!(env.monotonic(), there, "at once");

    let mut case = Case::new("{hostNetwork: true, containers: [{name: c, image: 'i:1'}]}", |_| {}).await;
    unready(&case);
    case.task.create();
    case.until(has_sandbox).await;
}

#[tokio::test(start_paused = true)]
async fn the_machines_resolv_conf_is_read_for_each_sandbox() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_owned();
    let configure = |config: &mut crate::config::Config| config.resolv_conf = path.clone();
    let mut case = Case::configured(PLAIN, |_| {}, configure).await;
    let servers = async |case: &Case| {
        let made = case.pods.shared.sandbox_config(&case.task, &case.tree, 0).await;
        made.map(|(sandbox, _)| sandbox.config.dns_config.unwrap().servers)
    };
    for server in ["192.0.2.1", "192.0.2.2"] {
        std::fs::write(&path, format!("nameserver {server}\n")).unwrap();
        assert_eq!(servers(&case).await.unwrap(), [server], "a machine may move from network to network");
    }
    drop(file);
    case.task.create();
    case.wakes.recv().await.unwrap();
    let missing = format!("open {}: no such file or directory", path.display());
    assert_eq!(case.events(), [format!("FailedCreatePodSandBox: Failed to create pod sandbox: {missing}")]);
    assert!(case.runtime.asked().is_empty());
    std::fs::write(&path, "nameserver 192.0.2.3\n").unwrap();
    case.until(has_sandbox).await;
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test(start_paused = true)]
async fn changes_while_a_sandbox_is_made_are_one_update() {
    let mut case = Case::new(PLAIN, |runtime| runtime.sandboxes = tokio::sync::Semaphore::new(0)).await;
    case.task.create();
    for _ in 0..10_000 {
        case.changes.changed(&case.task.uid);
    }
    case.runtime.sandboxes.add_permits(1);
    case.until(has_sandbox).await;
    // Each thing that is done wakes the agent: the sandbox, and the update.
    let env = case.cluster.env().clone();
    let mut wakes = 1;
    while env.timeout(std::time::Duration::from_secs(60), case.wakes.recv()).await.is_ok() {
        wakes += 1;
    }
    assert_eq!(wakes, 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_cgroup_cannot_be_made_has_no_sandbox() {
    // No directory has such a name, so nothing of this machine is touched.
    let configure = |config: &mut crate::config::Config| {
        (config.cgroups_per_qos, config.cgroup_root) = (true, "/\0".to_owned());
    };
    let mut case = Case::configured(PLAIN, |_| {}, configure).await;
    case.task.create();
    case.wakes.recv().await.unwrap();
    let told = case.events();
    assert!(told.iter().any(|told| told.starts_with("FailedCreatePodContainer: ")), "{told:?}");
    assert!(case.runtime.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lost_sandbox_is_made_anew_only_if_something_is_left_to_start() {
    let spec = |policy: &str| format!("{{restartPolicy: {policy}, containers: [{{name: c, image: 'i:1'}}]}}");
    for (policy, code, is_made) in
        [("OnFailure", 0, false), ("OnFailure", 1, true), ("Always", 0, true), ("Never", 1, false)]
    {
        let case = Case::running(&spec(policy), |_| {}).await;
        {
            let mut cache = case.task.cache.lock();
            let run = cache.slot("c").run.as_mut().unwrap();
            run.state = RunState::Exited(Exit::new(code, 1, 2, "c".to_owned()));
        }
        news::lost(&case.pods.shared, &case.task);
        case.cluster.env().sleep(std::time::Duration::from_secs(60)).await;
        let asked = case.runtime.asked();
        assert_eq!(asked[0], "0s stop sandbox s-1", "{policy} {code}");
        assert_eq!(
            asked.get(1).map(|asked| &**asked),
            is_made.then_some("0s sandbox \"\""),
            "{policy} {code}"
        );
        let told = case.events().iter().any(|event| event.starts_with("SandboxChanged"));
        assert_eq!(told, is_made, "{policy} {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_sandbox_starts_all_containers_but_those_that_are_not_to_run_once_more() {
    let mains = "{name: never, image: i, restartPolicy: Never}, {name: failed, image: i, restartPolicy: OnFailure},
                 {name: done, image: i, restartPolicy: OnFailure}, {name: ends, image: i, restartPolicy: OnFailure}";
    let ended = [("init", 0), ("never", 0), ("failed", 1), ("done", 0)];
    for (policy, init, expected) in [
        ("OnFailure", "", Some(vec![0, 1, 3])),
        // Decided after those.
        ("OnFailure", "initContainers: [{name: init, image: i}], ", Some(vec![])),
        ("Never", "", None),
    ] {
        let mut case =
            Case::running(&format!("{{restartPolicy: {policy}, {init}containers: [{mains}]}}"), |_| {}).await;
        for (name, code) in ended {
            if let Some(slot) = case.task.cache.lock().containers.get_mut(name) {
                let exit = Exit::new(code, 1, 2, name.to_owned());
                slot.run.as_mut().unwrap().state = RunState::Exited(exit);
            }
        }
        news::lost(&case.pods.shared, &case.task);
        let seen = |case: &Case| case.pods.runtime().look(&Pod::read(&case.tree), 0).unwrap();
        case.cluster.env().clone().sleep(Duration::from_secs(60)).await;
        let ready = seen(&case).ready;
        assert_eq!(ready.then(|| seen(&case).starts_again), expected, "{policy} {init}");
        let Some(first) = expected.as_ref().and_then(|all| all.first()) else { continue };
        case.pods.runtime().start(&Pod::read(&case.tree), *first, 1, 0);
        case.until(|case| !seen(case).starts_again.contains(first)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_lost_sandbox_is_left_when_another_is_made() {
    for (policy, is_made) in [("Always", true), ("Never", false)] {
        let spec = format!(
            "{{restartPolicy: {policy}, terminationGracePeriodSeconds: 9, \
             containers: [{{name: c, image: 'i:1', lifecycle: {{preStop: {{exec: {{command: [bye]}}}}}}}}]}}"
        );
        // Its first process died, its containers did not.
        let fails = |runtime: &mut super::fake::Fake| {
            (runtime.unstoppable, runtime.unstoppable_sandboxes) = (1.into(), u32::from(is_made).into());
        };
        let mut case = Case::running(&spec, fails).await;
        news::lost(&case.pods.shared, &case.task);
        let ended = ["0s exec c", "0s stop c within 9s", "0s stop c within 9s", "0s stop sandbox s-1"];
        let made: &[&str] = if is_made { &["0s stop sandbox s-1", "0s sandbox \"\""] } else { &[] };
        let expected = [&ended[..], made].concat();
        case.until(|case| case.runtime.asked().len() >= expected.len()).await;
        case.cluster.env().sleep(Duration::from_secs(60)).await;
        assert_eq!(case.runtime.asked(), expected, "{policy}");
        let told = case.events();
        assert!(told.contains(&"Killing: Stopping container c".to_owned()), "{told:?}");
        let failed = told.iter().any(|told| told.contains("with KillPodSandboxError: "));
        assert_eq!(failed, is_made, "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_was_made_meanwhile_is_left_alone() {
    let mut case = Case::running(PLAIN, |_| {}).await;
    let sandbox = case.task.sandbox();
    // Whoever heard that the one before is lost asks for it once more.
    case.task.create();
    case.wakes.recv().await.unwrap();
    case.cluster.env().sleep(Duration::from_secs(60)).await;
    assert!(case.runtime.asked().is_empty(), "{:?}", case.runtime.asked());
    assert!(case.is_running() && case.task.sandbox() == sandbox);
}

#[tokio::test(start_paused = true)]
async fn a_lost_sandbox_is_stopped_with_what_the_runtime_fails_to_stop() {
    let spec = "{terminationGracePeriodSeconds: 2, containers: [{name: c, image: 'i:1'}]}";
    let mut case = Case::running(spec, |runtime| runtime.unstoppable = u32::MAX.into()).await;
    news::lost(&case.pods.shared, &case.task);
    case.until(|case| case.task.sandbox().is_some_and(|sandbox| sandbox.ready)).await;
    let asked = case.runtime.asked();
    assert!(asked[..asked.len() - 3].iter().all(|asked| asked.ends_with("stop c within 2s")), "{asked:?}");
    let stop = "3s stop sandbox s-1";
    assert_eq!(asked[asked.len() - 3..], [stop, stop, "3s sandbox \"\""]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_sandbox_is_not_made_anew_for_a_pod_that_is_stopped_meanwhile() {
    let takes = |runtime: &mut super::fake::Fake| runtime.takes = [("c", 5)].into();
    let mut case = Case::running(PLAIN, takes).await;
    news::lost(&case.pods.shared, &case.task);
    case.cluster.env().clone().sleep(Duration::from_secs(1)).await;
    case.pods.runtime().stop(&Pod::read(&case.tree), 30, 0);
    case.until(|case| !case.is_alive()).await;
    case.cluster.env().sleep(Duration::from_secs(60)).await;
    let made = |asked: &String| asked.ends_with("sandbox \"\"");
    assert!(!case.runtime.asked().iter().any(made), "{:?}", case.runtime.asked());
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_failed_is_left_alone_where_there_is_no_sandbox() {
    let mut case = Case::running(PLAIN, |_| {}).await;
    {
        let mut cache = case.task.cache.lock();
        cache.sandbox.as_mut().unwrap().ready = false;
        cache.resize_error = Some("it says why".to_owned());
    }
    case.pods.runtime().update(&Pod::read(&case.tree), 0);
    let env = case.cluster.env().clone();
    assert!(env.timeout(Duration::from_secs(60), case.wakes.recv()).await.is_err(), "nothing is done");
    assert!(case.runtime.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_without_an_address_is_made_again() {
    let is_ready = |case: &Case| case.task.sandbox().is_some_and(|sandbox| sandbox.ready);
    let answers = || vec![Some("10.0.0.7".to_owned()), Some(String::new()), None];
    let mut case = Case::new(PLAIN, |runtime| *runtime.addresses.lock() = answers()).await;
    case.task.create();
    case.until(is_ready).await;
    let sandbox = case.task.sandbox().unwrap();
    assert_eq!((sandbox.attempt, sandbox.ips), (2, vec!["10.0.0.7".to_owned()]));
    let is_of_sandbox = |event: &String| !event.starts_with("MissingClusterDNS");
    let reasons: Vec<String> = case.events().into_iter().filter(is_of_sandbox).collect();
    assert!(
        reasons[0].starts_with("FailedPodSandBoxStatus: Unable to get pod sandbox status: "),
        "{reasons:?}"
    );
    assert_eq!(reasons[1], "FailedCreatePodSandBox: Failed to create pod sandbox: it has no IP address");
    let stopped = case.runtime.asked().iter().filter(|asked| asked.contains("stop sandbox")).count();
    assert_eq!(stopped, 2);
    // The machine's network needs none.
    let host = "{hostNetwork: true, containers: [{name: c, image: 'i:1'}]}";
    let mut case = Case::new(host, |runtime| *runtime.addresses.lock() = answers()).await;
    case.task.create();
    case.until(is_ready).await;
    assert_eq!(case.task.sandbox().unwrap().attempt, 0);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_a_failed_call_left_is_taken_or_makes_room() {
    let (ready, not_ready) = (cri::PodSandboxState::Ready, cri::PodSandboxState::NotReady);
    let first = "0s sandbox \"\"";
    for (leaves, ip, asked, sandbox) in [
        (ready, "10.0.0.7", vec![first], ("s-0", 0)),
        (ready, "", vec![first, "0s stop sandbox s-0", first], ("s-1", 1)),
        (not_ready, "", vec![first, "0s stop sandbox s-0", first], ("s-1", 1)),
    ] {
        let mut case = Case::new(PLAIN, |runtime| {
            *runtime.leaves.lock() = Some(leaves);
            *runtime.addresses.lock() = vec![Some("10.0.0.8".to_owned()), Some(ip.to_owned())];
            if leaves == not_ready {
                runtime.addresses.lock().pop();
            }
        })
        .await;
        case.task.create();
        case.until(has_sandbox).await;
        assert_eq!(case.runtime.asked(), asked);
        let made = case.task.sandbox().unwrap();
        assert_eq!((&*made.id, made.attempt), sandbox);
        let ip = if made.id == "s-0" { ip } else { "10.0.0.8" };
        assert_eq!((made.ready, made.ips), (true, vec![ip.to_owned()]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_makes_what_it_began_and_begins_nothing_else() {
    let mut case = Case::new(PLAIN, |runtime| runtime.sandboxes = tokio::sync::Semaphore::new(0)).await;
    let env = case.cluster.env().clone();
    case.task.create();
    env.sleep(std::time::Duration::from_secs(1)).await;
    // It takes too long.
    let began = env.monotonic();
    case.pods.settle(std::time::Duration::from_secs(2)).await;
    assert_eq!(env.monotonic().duration_since(began).as_secs(), 2);
    let (pods, runtime) = (case.pods.clone(), case.runtime.clone());
    let settling = async move {
        pods.settle(std::time::Duration::from_secs(600)).await;
        runtime.asked().len()
    };
    let makes = async {
        env.sleep(std::time::Duration::from_secs(1)).await;
        case.runtime.sandboxes.add_permits(9);
    };
    let (asked, ()) = tokio::join!(settling, makes);
    assert_eq!(asked, 1);
    case.until(has_sandbox).await;
    case.task.create();
    env.sleep(std::time::Duration::from_secs(600)).await;
    assert_eq!(case.runtime.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_begins_nothing_for_pods_it_did_not_know_and_is_gone_itself() {
    let case = Case::new(PLAIN, |_| {}).await;
    let env = case.cluster.env().clone();
    case.task.create();
    env.sleep(Duration::from_secs(1)).await;
    case.pods.settle(Duration::from_secs(600)).await;
    let asked = case.runtime.asked();
    let (pods, mut other) = (case.pods.clone(), case.tree.clone());
    other.map_at(&["metadata"]).set("name", "other");
    other.map_at(&["metadata"]).set("uid", "2b1f0a34-5b0e-4bd5-8f2c-7f7a0a3c9d99");
    pods.runtime().create(&Pod::read(&other), 0);
    pods.runtime().start(&Pod::read(&case.tree), 0, 0, 0);
    env.sleep(Duration::from_secs(600)).await;
    assert_eq!(case.runtime.asked(), asked);
    let shared = Arc::downgrade(&pods.shared);
    drop((case, pods));
    env.sleep(Duration::from_secs(600)).await;
    assert_eq!(shared.strong_count(), 0);
}
