//! A machine that goes down: its pods end, and the API says why. Needs root.

use serde_json::Value;

use crate::harness::signal;
use crate::static_pods::{IMAGE, Machine, join};

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: polite}
spec:
  nodeName: worker-1
  hostUsers: false
  terminationGracePeriodSeconds: 60
  containers:
  - name: c
    image: IMAGE
    command: [/bin/busybox, sh, -c, 'trap \"until [ -e /go ]; do /bin/busybox sleep 0.1; done; exit 0\" TERM; /bin/busybox cat /proc/self/uid_map; while :; do /bin/busybox sleep 0.1; done']
---
apiVersion: v1
kind: Pod
metadata: {name: stubborn}
spec:
  nodeName: worker-1
  restartPolicy: Never
  terminationGracePeriodSeconds: 2
  containers:
  - name: c
    image: IMAGE
    command: [/bin/busybox, sh, -c, 'trap \"\" TERM; while :; do /bin/busybox sleep 0.1; done']
---
apiVersion: v1
kind: Pod
metadata: {name: critical}
spec:
  nodeName: worker-1
  priorityClassName: system-node-critical
  containers:
  - name: c
    image: IMAGE
    command: [/bin/busybox, sh, -c, 'trap \"exit 0\" TERM; while :; do /bin/busybox sleep 0.1; done']
";

const LATE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: late}
spec: {nodeName: worker-1, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000']}]}
";

fn status(machine: &Machine, pod: &str) -> Value {
    let found = machine.kubectl.run(&format!("get pod {pod} -o json"));
    serde_json::from_str::<Value>(&found).unwrap()["status"].take()
}

#[test]
fn pods_end_with_their_machine_and_say_so() {
    let more = "shutdownGracePeriod: 120s\nshutdownGracePeriodCriticalPods: 10s\n";
    let Some(mut machine) = Machine::start(78, more) else { return };
    join(&mut machine);
    machine.wait("the node", || machine.kubectl.run("get nodes -o name").contains("node/worker-1"));
    machine.kubectl.file("pods.yaml", &PODS.replace("IMAGE", IMAGE));
    machine.kubectl.run("apply -f pods.yaml");
    for pod in ["polite", "stubborn", "critical"] {
        machine.wait(pod, || status(&machine, pod)["phase"] == "Running");
    }
    // It has users of its own.
    machine.wait("its users", || !machine.kubectl.run("logs polite").is_empty());
    let map = machine.kubectl.run("logs polite");
    let map: Vec<u32> = map.split_whitespace().map(|number| number.parse().unwrap()).collect();
    assert!(map.len() == 3 && map[0] == 0 && map[1] >= 65_536 && map[2] == 65_536, "{map:?}");

    signal(machine.node.as_ref().unwrap().id(), "PWR");
    machine.wait("it goes down", || machine.node_log().contains("shutting down: ending pods"));
    // The polite one ends when it is told to.
    machine.kubectl.file("late.yaml", &LATE.replace("IMAGE", IMAGE));
    machine.kubectl.run("apply -f late.yaml");
    machine.wait("a pod that comes too late is refused", || status(&machine, "late")["phase"] == "Failed");
    let late = status(&machine, "late");
    let message = "Pod was rejected: Pod was rejected as the node is shutting down.";
    assert_eq!((&late["reason"], &late["message"]), (&"NodeShutdown".into(), &message.into()));
    assert_eq!(status(&machine, "polite")["phase"], "Running");
    machine.kubectl.run("exec polite -- /bin/busybox touch /go");
    machine.node.take().unwrap().wait().unwrap();
    for pod in ["polite", "stubborn", "critical"] {
        let status = status(&machine, pod);
        let message = "Pod was terminated in response to imminent node shutdown.";
        assert_eq!(
            (&status["phase"], &status["reason"], &status["message"]),
            (&"Failed".into(), &"Terminated".into(), &message.into()),
            "{pod}: {}",
            machine.node_log()
        );
        let conditions = status["conditions"].as_array().unwrap();
        let target = conditions.iter().find(|one| one["type"] == "DisruptionTarget").expect("a condition");
        assert_eq!((&target["status"], &target["reason"]), (&"True".into(), &"TerminationByKubelet".into()));
    }
    let ended = |pod: &str| {
        let ended = status(&machine, pod)["containerStatuses"][0]["state"]["terminated"]["finishedAt"].take();
        ended.as_str().unwrap_or_else(|| panic!("{pod} has not ended")).to_owned()
    };
    // The stubborn one takes two seconds, during which nothing is asked of the critical one.
    let (others, critical) = (ended("polite").max(ended("stubborn")), ended("critical"));
    assert!(critical >= others, "{critical} is before {others}");
    let ready = machine.kubectl.words(&[
        "get",
        "node",
        "worker-1",
        "-o",
        "jsonpath={.status.conditions[?(@.type==\"Ready\")].message}",
    ]);
    assert_eq!(ready, "node is shutting down");
}
