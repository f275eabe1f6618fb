//! Random calls, restarts and deaths against a model of what must be seen.

use std::collections::BTreeMap;

use cri::*;
use env::Env;

use crate::Test;
use crate::node::{Node, container};

pub const TESTS: &[Test] = &[("random_calls_leave_what_they_should", random_calls_leave_what_they_should)];

const STEPS: usize = 120;
const PODS: u64 = 3;

struct Pod {
    id: String,
    ready: bool,
    /// By id, what the model says it is.
    containers: BTreeMap<String, ContainerState>,
}

fn random_calls_leave_what_they_should() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| Env::machine().random());
    println!("SEED={seed}");
    // Only its numbers are taken: nothing waits in its time.
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let random = tokio.block_on(async { Env::simulated(seed) });
    let mut node = Node::new();
    let mut pods: BTreeMap<u64, Pod> = BTreeMap::new();
    let mut attempt = 0;
    for step in 0..STEPS {
        attempt += 1;
        let number = random.random_below(PODS);
        let choice = random.random_below(12);
        let at = random.random();
        let Some(pod) = pods.get_mut(&number) else {
            let mut config = node.sandbox_config(&format!("web-{number}"));
            config.metadata.as_mut().unwrap().attempt = attempt;
            let id = node.run(config);
            pods.insert(number, Pod { id, ready: true, containers: BTreeMap::new() });
            continue;
        };
        let picked = pod.containers.keys().nth(at as usize % pod.containers.len().max(1)).cloned();
        match (choice, picked) {
            (0..=2, _) => {
                let mut config = container("main", "exec sleep 1000");
                config.metadata.as_mut().unwrap().attempt = attempt;
                let created = node.create(&pod.id, config);
                assert_eq!(created.is_ok(), pod.ready, "step {step}: {created:?}");
                pod.containers.extend(created.map(|id| (id, ContainerState::Created)));
            }
            (3..=5, Some(id)) => {
                let is_new = pod.containers[&id] == ContainerState::Created;
                let started = node.start(&id);
                assert_eq!(started.is_ok(), is_new && pod.ready, "step {step}: {started:?}");
                if is_new {
                    // One that cannot start has ended.
                    let now = if pod.ready { ContainerState::Running } else { ContainerState::Exited };
                    pod.containers.insert(id, now);
                }
            }
            (6, Some(id)) => {
                node.stop(&id, 0);
                let state = pod.containers.get_mut(&id).unwrap();
                if *state == ContainerState::Running {
                    *state = ContainerState::Exited;
                }
            }
            (7, Some(id)) => {
                node.remove(&id);
                pod.containers.remove(&id);
            }
            (8, _) => {
                node.stop_sandbox(&pod.id);
                end(pod);
            }
            (9, _) => {
                node.remove_sandbox(&pod.id);
                pods.remove(&number);
            }
            (10, _) if pod.ready => {
                let helper = rustix::process::Pid::from_raw(node.helper_pid(&pod.id)).unwrap();
                rustix::process::kill_process(helper, rustix::process::Signal::KILL).unwrap();
                node.until(|| {
                    (node.sandbox_status(&pod.id).state() == PodSandboxState::NotReady).then_some(())
                });
                for (id, state) in &pod.containers {
                    if *state == ContainerState::Running {
                        node.ended(id);
                    }
                }
                end(pod);
            }
            _ => node.reopen(),
        }
        check(&node, &pods, step);
    }
    for pod in pods.values() {
        node.remove_sandbox(&pod.id);
    }
    check(&node, &BTreeMap::new(), STEPS);
    let interfaces = network::node::interfaces().unwrap();
    assert!(!interfaces.iter().any(|name| name.starts_with("veth")), "{interfaces:?}");
}

fn end(pod: &mut Pod) {
    pod.ready = false;
    for state in pod.containers.values_mut().filter(|state| **state == ContainerState::Running) {
        *state = ContainerState::Exited;
    }
}

fn check(node: &Node, pods: &BTreeMap<u64, Pod>, step: usize) {
    let sandboxes =
        node.wait(node.runtime().list_pod_sandbox(ListPodSandboxRequest::default())).unwrap().items;
    let seen: BTreeMap<&str, bool> =
        sandboxes.iter().map(|one| (&*one.id, one.state() == PodSandboxState::Ready)).collect();
    let expected: BTreeMap<&str, bool> = pods.values().map(|pod| (&*pod.id, pod.ready)).collect();
    assert_eq!(seen, expected, "step {step}");
    let containers =
        node.wait(node.runtime().list_containers(ListContainersRequest::default())).unwrap().containers;
    let seen: BTreeMap<&str, ContainerState> = containers.iter().map(|one| (&*one.id, one.state())).collect();
    let expected: BTreeMap<&str, ContainerState> =
        pods.values().flat_map(|pod| pod.containers.iter().map(|(id, state)| (&**id, *state))).collect();
    assert_eq!(seen, expected, "step {step}");
}
