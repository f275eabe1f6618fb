//! What a pod may ask of its node, on real containers: resizing, restarts, shared namespaces, ends and their reasons. Needs root.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::node_cluster::{Cluster, Runtime};

/// The file of a limit, whichever version of cgroups the machine has.
fn limit(cluster: &Cluster, pod: &str, container: Option<&str>, resource: &str) -> String {
    let is_v2 = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    match (resource, is_v2) {
        ("memory", true) => cluster.cgroup_file("", pod, container, "memory.max"),
        ("memory", false) => cluster.cgroup_file("memory", pod, container, "memory.limit_in_bytes"),
        (_, true) => {
            let both = cluster.cgroup_file("", pod, container, "cpu.max");
            both.split(' ').next().unwrap().to_owned()
        }
        (_, false) => cluster.cgroup_file("cpu", pod, container, "cpu.cfs_quota_us"),
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn a_running_pod_is_resized() {
    resize(Cluster::start(7));
}

#[test]
fn a_running_pod_is_resized_on_containerd() {
    resize(Cluster::with(16, Runtime::Containerd, ""));
}

fn resize(cluster: Option<Cluster>) {
    let Some(cluster) = cluster else { return };
    cluster.run_pod("grows", "containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000'], resources: {requests: {cpu: 100m, memory: 32Mi}, limits: {cpu: 100m, memory: 32Mi}}}, {name: restarts, image: IMAGE, command: [/bin/busybox, sleep, '1000'], resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}], resources: {requests: {cpu: 50m, memory: 32Mi}, limits: {cpu: 50m, memory: 32Mi}}}]");
    cluster.run_pod("takes-room", "containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000'], resources: {requests: {cpu: 100m}}}]");
    cluster.wait_for("Running", &["grows", "takes-room"]);
    assert_eq!(limit(&cluster, "grows", Some("c"), "memory"), (32 * MIB).to_string());
    assert_eq!(limit(&cluster, "grows", Some("c"), "cpu"), "10000");
    assert_eq!(limit(&cluster, "grows", None, "memory"), (64 * MIB).to_string());
    let first = cluster.container("grows", "c")["containerID"].clone();
    let resize = |container: &str, cpu: &str, memory: &str| {
        let both = json!({"cpu": cpu, "memory": memory});
        let containers = json!([{"name": container, "resources": {"requests": both, "limits": both}}]);
        let patch = json!({"spec": {"containers": containers}}).to_string();
        cluster.kubectl.try_words(&["patch", "pod", "grows", "--subresource=resize", "-p", &patch])
    };
    let settled = |cluster: &Cluster, container: &str, memory: &str| {
        let status = cluster.container("grows", container);
        let pod = cluster.pod("grows");
        status["resources"]["limits"]["memory"] == memory
            && status["allocatedResources"]["memory"] == memory
            && pod["status"]["observedGeneration"] == pod["metadata"]["generation"]
            && cluster.condition("grows", "PodResizeInProgress") == Value::Null
            && cluster.condition("grows", "PodResizePending") == Value::Null
    };
    assert!(resize("c", "200m", "64Mi").status.success());
    cluster.wait("it is bigger", |cluster| settled(cluster, "c", "64Mi"));
    assert_eq!(limit(&cluster, "grows", Some("c"), "memory"), (64 * MIB).to_string());
    assert_eq!(limit(&cluster, "grows", Some("c"), "cpu"), "20000");
    assert_eq!(limit(&cluster, "grows", None, "memory"), (96 * MIB).to_string());
    assert_eq!(limit(&cluster, "grows", None, "cpu"), "25000");
    assert!(resize("c", "100m", "48Mi").status.success());
    cluster.wait("it is smaller", |cluster| settled(cluster, "c", "48Mi"));
    assert_eq!(limit(&cluster, "grows", Some("c"), "memory"), (48 * MIB).to_string());
    assert_eq!(limit(&cluster, "grows", None, "memory"), (80 * MIB).to_string());
    let status = cluster.container("grows", "c");
    assert_eq!((&status["containerID"], &status["restartCount"]), (&first, &0.into()));

    // One whose memory changes by a restart only.
    assert!(resize("restarts", "50m", "40Mi").status.success());
    cluster.wait("it is restarted", |cluster| {
        settled(cluster, "restarts", "40Mi") && cluster.container("grows", "restarts")["restartCount"] == 1
    });
    assert_eq!(limit(&cluster, "grows", Some("restarts"), "memory"), (40 * MIB).to_string());
    assert_eq!(cluster.container("grows", "c")["restartCount"], 0);

    // Less than it uses: it keeps what it has.
    assert!(resize("c", "100m", "10Ki").status.success());
    cluster.wait("it fails", |cluster| {
        let condition = cluster.condition("grows", "PodResizeInProgress");
        let message = condition["message"].as_str().unwrap_or_default();
        let told = "cannot decrease memory limits: attempting to set container \"c\" memory limit (10240) below current usage (";
        condition["reason"] == "Error" && message.starts_with(told)
    });
    let status = cluster.container("grows", "c");
    assert_eq!(status["resources"]["limits"]["memory"], "48Mi");
    assert_eq!(status["allocatedResources"]["memory"], "10Ki");
    assert_eq!(limit(&cluster, "grows", Some("c"), "memory"), (48 * MIB).to_string());
    assert!(resize("c", "100m", "48Mi").status.success());
    cluster.wait("it is taken back", |cluster| settled(cluster, "c", "48Mi"));
    assert_eq!(cluster.container("grows", "c")["restartCount"], 0);

    // The pod's group makes room before a container that is restarted starts, and is smaller once it needs less.
    cluster.run_pod("faster", "containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000'], resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}], resources: {limits: {cpu: 50m, memory: 32Mi}}}]");
    cluster.wait_for("Running", &["faster"]);
    for (restarts, cpu, quota) in [(1, "100m", "10000"), (2, "50m", "5000")] {
        let both = json!({"cpu": cpu});
        let patch =
            json!({"spec": {"containers": [{"name": "c", "resources": {"requests": both, "limits": both}}]}});
        cluster.kubectl.words(&["patch", "pod", "faster", "--subresource=resize", "-p", &patch.to_string()]);
        cluster.wait("it is restarted", |cluster| {
            let status = cluster.container("faster", "c");
            status["restartCount"] == restarts
                && status["resources"]["limits"]["cpu"] == cpu
                && cluster.condition("faster", "PodResizeInProgress") == Value::Null
        });
        for container in [Some("c"), None] {
            assert_eq!(limit(&cluster, "faster", container, "cpu"), quota);
        }
    }

    // The limit of a pod is that of a container without one.
    cluster.run_pod("whole", "resources: {limits: {memory: 32Mi}}, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000'], resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]}, {name: stays, image: IMAGE, command: [/bin/busybox, sleep, '1000']}]");
    cluster.wait_for("Running", &["whole"]);
    let patch = r#"{"spec": {"resources": {"requests": {"memory": "48Mi"}, "limits": {"memory": "48Mi"}}}}"#;
    cluster.kubectl.words(&["patch", "pod", "whole", "--subresource=resize", "-p", patch]);
    cluster.wait("it is restarted", |cluster| {
        cluster.pod("whole")["status"]["resources"]["limits"]["memory"] == "48Mi"
            && cluster.container("whole", "c")["restartCount"] == 1
            && cluster.condition("whole", "PodResizeInProgress") == Value::Null
    });
    for container in [Some("c"), Some("stays"), None] {
        assert_eq!(limit(&cluster, "whole", container, "memory"), (48 * MIB).to_string());
    }
    assert_eq!(cluster.container("whole", "stays")["restartCount"], 0);

    // More than the node has, and more than it has left.
    let asked = resize("c", "100m", "4000Gi");
    assert!(String::from_utf8_lossy(&asked.stderr).contains("node didn't have enough allocatable resources"));
    let all = cluster.kubectl.run("get node one -o jsonpath={.status.allocatable.cpu}");
    let all =
        all.strip_suffix('m').map_or_else(|| all.parse::<u64>().unwrap() * 1000, |m| m.parse().unwrap());
    let asked = resize("c", &format!("{}m", all - 60), "48Mi");
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    cluster
        .wait("it waits", |cluster| cluster.condition("grows", "PodResizePending")["reason"] == "Deferred");
    assert_eq!(limit(&cluster, "grows", Some("c"), "cpu"), "10000");
    cluster.kubectl.run("delete pod --all --wait=true");
}

#[test]
fn what_pods_were_given_outlives_a_kill() {
    given_outlives_a_kill(Cluster::start(62));
}

#[test]
fn what_pods_were_given_outlives_a_kill_on_containerd() {
    given_outlives_a_kill(Cluster::with(63, Runtime::Containerd, ""));
}

fn given_outlives_a_kill(cluster: Option<Cluster>) {
    let Some(mut cluster) = cluster else { return };
    let sleeps = "image: IMAGE, command: [/bin/busybox, sleep, '1000']";
    let flag = cluster.folder.path().join("flag");
    let flag = flag.to_str().unwrap();
    let given = "resources: {requests: {cpu: 100m, memory: 32Mi}, limits: {cpu: 100m, memory: 32Mi}}";
    cluster.run_pod("runs", &format!("containers: [{{name: c, {sleeps}, {given}}}]"));
    cluster.run_pod("begins", &format!("initContainers: [{{name: first, image: IMAGE, command: [/bin/busybox, sh, -c, 'until [ -e /flag/go ]; do /bin/busybox sleep 0.05; done'], volumeMounts: [{{name: flag, mountPath: /flag}}], {given}}}], containers: [{{name: c, {sleeps}, {given}}}], volumes: [{{name: flag, hostPath: {{path: {flag}, type: DirectoryOrCreate}}}}]"));
    cluster.wait_for("Running", &["runs"]);
    cluster.wait("the first container of the other runs", |cluster| {
        cluster.container("begins", "first")["state"]["running"].is_object()
    });
    let all = cluster.kubectl.run("get node one -o jsonpath={.status.allocatable.cpu}");
    let all =
        all.strip_suffix('m').map_or_else(|| all.parse::<u64>().unwrap() * 1000, |m| m.parse().unwrap());
    let resize = |cluster: &Cluster, pod: &str, cpu: &str, memory: &str| {
        let both = json!({"cpu": cpu, "memory": memory});
        let containers = json!([{"name": "c", "resources": {"requests": both, "limits": both}}]);
        let patch = json!({"spec": {"containers": containers}}).to_string();
        cluster.kubectl.words(&["patch", "pod", pod, "--subresource=resize", "-p", &patch]);
    };
    let kill = |cluster: &mut Cluster, meanwhile: &dyn Fn(&Cluster)| {
        cluster.server.take().unwrap().kill();
        meanwhile(cluster);
        cluster.restart();
        cluster.wait("the node is back", |cluster| {
            cluster.kubectl.try_run("get --raw /api/v1/nodes/one/proxy/healthz").status.success()
        });
    };
    let waits = |cluster: &Cluster, pod: &str| {
        cluster.wait(&format!("{pod} waits for room"), |cluster| {
            cluster.condition(pod, "PodResizePending")["reason"] == "Deferred"
        });
    };
    // More than there is, of what was not started yet; and less than it uses, which was given and cannot be set.
    let too_much = format!("{}m", all - 60);
    resize(&cluster, "begins", &too_much, "32Mi");
    waits(&cluster, "begins");
    resize(&cluster, "runs", "100m", "10Ki");
    let fails = |cluster: &Cluster| cluster.condition("runs", "PodResizeInProgress")["reason"] == "Error";
    cluster.wait("it cannot be set", fails);
    let pending = cluster.condition("begins", "PodResizePending");

    kill(&mut cluster, &|_| ());
    cluster.wait("it still cannot be set", fails);
    assert_eq!(limit(&cluster, "runs", Some("c"), "memory"), (32 * MIB).to_string());
    let status = cluster.container("runs", "c");
    assert_eq!(
        (&status["restartCount"], &status["resources"]["limits"]["memory"]),
        (&0.into(), &"32Mi".into())
    );
    assert_eq!(status["allocatedResources"]["memory"], "10Ki");
    resize(&cluster, "runs", "150m", "48Mi");
    cluster.wait("it is bigger", |cluster| {
        cluster.container("runs", "c")["resources"]["limits"]["memory"] == "48Mi"
            && cluster.condition("runs", "PodResizeInProgress") == Value::Null
    });
    assert_eq!(limit(&cluster, "runs", Some("c"), "memory"), (48 * MIB).to_string());
    // What the other was admitted with is what it starts with. A new resize is a reason to try those that wait, too.
    let said = pending["message"].as_str().unwrap().replace("used: 100", "used: 150");
    cluster.wait("it was tried again", |cluster| {
        cluster.condition("begins", "PodResizePending")["message"] == said
    });
    let waiting = cluster.condition("begins", "PodResizePending");
    for field in ["reason", "observedGeneration", "lastTransitionTime"] {
        assert_eq!(waiting[field], pending[field], "{field}");
    }
    std::fs::write(cluster.folder.path().join("flag/go"), "").unwrap();
    cluster.wait("it runs", |cluster| cluster.container("begins", "c")["state"]["running"].is_object());
    assert_eq!(limit(&cluster, "begins", Some("c"), "cpu"), "10000");
    assert_eq!(cluster.container("begins", "c")["allocatedResources"]["cpu"], "100m");
    waits(&cluster, "begins");

    // A broken record: the API knows what containers have that were started.
    let of = |cluster: &Cluster, pod: &str| {
        cluster.data().join("node/pods").join(cluster.uid(pod)).join("allocation")
    };
    let records = [of(&cluster, "begins"), of(&cluster, "runs")];
    kill(&mut cluster, &|_| {
        for record in &records {
            let length = std::fs::metadata(record).unwrap().len();
            std::fs::File::options().write(true).open(record).unwrap().set_len(length / 2).unwrap();
        }
    });
    waits(&cluster, "begins");
    cluster.wait("they are written anew", |_| {
        records.iter().all(|record| std::fs::read(record).unwrap().ends_with(b"}}}}"))
    });
    let told = "the record of what a pod was given cannot be read";
    assert_eq!(cluster.server.as_ref().unwrap().log().matches(told).count(), 2);
    assert_eq!(limit(&cluster, "begins", Some("c"), "cpu"), "10000");
    assert_eq!(limit(&cluster, "runs", Some("c"), "cpu"), "15000");
    for pod in ["begins", "runs"] {
        assert_eq!(cluster.container(pod, "c")["restartCount"], 0, "{pod}");
    }
    // There is room as soon as it asks for less.
    resize(&cluster, "begins", "200m", "32Mi");
    cluster.wait("it has what it asks for", |cluster| {
        cluster.container("begins", "c")["resources"]["limits"]["cpu"] == "200m"
            && cluster.condition("begins", "PodResizePending") == Value::Null
    });
    assert_eq!(limit(&cluster, "begins", Some("c"), "cpu"), "20000");
    cluster.kubectl.run("delete pod --all --wait=true");
    cluster.wait("their records are gone", |_| records.iter().all(|record| !record.exists()));
}

#[test]
fn pods_share_restart_and_end_as_they_ask() {
    share_restart_and_end(Cluster::start(8), Runtime::Embedded);
}

#[test]
fn an_unmasked_proc_is_not_masked() {
    let Some(cluster) = Cluster::start(61) else { return };
    cluster.run_pod("open", "hostUsers: false, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000'], securityContext: {procMount: Unmasked}}, {name: default, image: IMAGE, command: [/bin/busybox, sleep, '1000']}]");
    cluster.wait_for("Running", &["open"]);
    let mounts = |container: &str| {
        let command = ["exec", "open", "-c", container, "--", "/bin/busybox", "cat", "/proc/self/mounts"];
        let all = cluster.kubectl.words(&command);
        let targets = all.lines().filter_map(|line| line.split(' ').nth(1));
        targets.filter(|target| target.starts_with("/proc/")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(mounts("c"), [] as [&str; 0]);
    assert!(mounts("default").contains(&"/proc/sys".to_owned()));
}

#[test]
fn pods_share_restart_and_end_as_they_ask_on_containerd() {
    share_restart_and_end(Cluster::with(17, Runtime::Containerd, ""), Runtime::Containerd);
}

fn share_restart_and_end(cluster: Option<Cluster>, runtime: Runtime) {
    let Some(cluster) = cluster else { return };
    let out: PathBuf = cluster.folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let text = PODS.replace("OUT", out.to_str().unwrap());
    cluster.apply(&text);
    cluster.run_pod("eats", EATS);

    // Namespaces.
    cluster.wait_for("Running", &["together", "of-host"]);
    let seen = cluster.kubectl.words(&["exec", "together", "-c", "b", "--", "/bin/busybox", "ps"]);
    assert!(seen.contains("sleep 4321"), "{seen}");
    for (namespace, host) in [("net", true), ("pid", true), ("ipc", true), ("mnt", false)] {
        let of_pod = cluster.said("of-host", &format!("busybox readlink /proc/self/ns/{namespace}"));
        let own = std::fs::read_link(format!("/proc/self/ns/{namespace}")).unwrap();
        assert_eq!(of_pod == own.to_str().unwrap(), host, "{namespace}");
        let shared = cluster.said("together", &format!("busybox readlink /proc/self/ns/{namespace}"));
        assert_ne!(shared, own.to_str().unwrap(), "{namespace}");
    }
    let of_host = cluster.pod("of-host");
    assert_eq!(of_host["status"]["podIP"], of_host["status"]["hostIP"]);

    // What not every runtime can do: Debian's containerd 1.6 does not know strict groups, and nobody the handler.
    match runtime {
        Runtime::Containerd => {
            cluster.wait_for("Failed", &["strict"]);
            assert_eq!(cluster.pod("strict")["status"]["reason"], "SupplementalGroupsPolicyNotSupported");
        }
        Runtime::Embedded => {
            cluster.wait_for("Running", &["strict"]);
            let user = json!({"linux": {"uid": 1000, "gid": 3000, "supplementalGroups": [2000, 3000]}});
            assert_eq!(cluster.container("strict", "c")["user"], user);
        }
    }
    cluster.wait_for_event("other-class", "FailedCreatePodSandBox: Failed to create pod sandbox: ");
    cluster.wait_for_event("other-class", "no runtime for \"nobodys\" is configured");

    // Restarts that one container asks for.
    cluster.wait_for("Succeeded", &["own-policy"]);
    assert_eq!(cluster.container("own-policy", "again")["restartCount"], 1);
    assert_eq!(cluster.container("own-policy", "once")["restartCount"], 0);
    cluster.wait("all containers are restarted", |cluster| {
        ["first", "asks", "other"]
            .iter()
            .all(|name| cluster.container("restart-all", name)["restartCount"] == 1)
    });
    cluster.wait_for("Running", &["restart-all"]);
    cluster.wait("a probe ends a container", |cluster| {
        cluster.container("unhealthy", "c")["restartCount"].as_u64() >= Some(1)
    });
    cluster.wait_for_event("unhealthy", "Killing: Container c failed liveness probe, will be restarted");

    // Ends and their reasons.
    cluster.wait_for("Failed", &["eats", "late"]);
    let eaten = |cluster: &Cluster| cluster.container("eats", "c")["state"]["terminated"].clone();
    // containerd may say that a container has ended before it has heard why.
    for _ in 0..5 {
        if cluster.containerd.is_none() || eaten(&cluster)["reason"] != "Error" {
            break;
        }
        cluster.kubectl.run("delete pod eats --wait=true");
        cluster.run_pod("eats", EATS);
        cluster.wait_for("Failed", &["eats"]);
    }
    let eaten = eaten(&cluster);
    assert_eq!((&eaten["reason"], &eaten["exitCode"]), (&"OOMKilled".into(), &137.into()));
    assert_eq!(cluster.pod("late")["status"]["reason"], "DeadlineExceeded");
    for (pod, reason, message) in [
        ("never-pulled", "ErrImageNeverPull", "is not present with pull policy of Never"),
        ("bad-name", "InvalidImageName", "couldn't parse image name"),
        ("as-root", "CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
    ] {
        cluster.wait(reason, |cluster| cluster.container(pod, "c")["state"]["waiting"]["reason"] == reason);
        let told = cluster.container(pod, "c")["state"]["waiting"]["message"].clone();
        assert!(told.as_str().unwrap().contains(message), "{told}");
    }

    // Asked to end: a hook first, then the signal, then by force.
    cluster.wait_for("Running", &["stubborn"]);
    cluster.wait("it listens", |_| out.join("ready").exists());
    cluster.kubectl.run("delete pod stubborn --wait=true");
    assert_eq!(std::fs::read_to_string(out.join("end")).unwrap(), "hook\nterm\n");
    cluster.kubectl.run("delete pod --all --wait=true");
}

const EATS: &str = "restartPolicy: Never, containers: [{name: c, image: IMAGE, command: [/bin/busybox, tail, /dev/zero], resources: {limits: {memory: 16Mi}}}]";

const PODS: &str = r#"
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: other}
handler: nobodys
---
apiVersion: v1
kind: Pod
metadata: {name: other-class}
spec: {runtimeClassName: other, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, "1000"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: strict}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 1000, runAsGroup: 3000, supplementalGroups: [2000], supplementalGroupsPolicy: Strict}
  containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, "1000"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: together}
spec:
  terminationGracePeriodSeconds: 1
  shareProcessNamespace: true
  containers:
  - {name: a, image: IMAGE, command: [/bin/busybox, sleep, "4321"]}
  - {name: b, image: IMAGE, command: [/bin/busybox, sleep, "1000"]}
---
apiVersion: v1
kind: Pod
metadata: {name: of-host}
spec:
  terminationGracePeriodSeconds: 1
  hostNetwork: true
  hostPID: true
  hostIPC: true
  containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, "1000"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: own-policy}
spec:
  restartPolicy: Never
  containers:
  - {name: once, image: IMAGE, command: [/bin/busybox, "true"]}
  - {name: again, image: IMAGE, restartPolicy: OnFailure, command: [/bin/busybox, sh, -c, "[ -e /data/x ] || { echo > /data/x; exit 1; }"], volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: restart-all}
spec:
  terminationGracePeriodSeconds: 1
  restartPolicy: Never
  initContainers:
  - {name: first, image: IMAGE, command: [/bin/busybox, "true"]}
  containers:
  - name: asks
    image: IMAGE
    restartPolicy: Never
    restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [88]}}]
    command: [/bin/busybox, sh, -c, "[ -e /data/x ] || { echo > /data/x; exit 88; }; exec busybox sleep 1000"]
    volumeMounts: [{name: data, mountPath: /data}]
  - {name: other, image: IMAGE, command: [/bin/busybox, sleep, "1000"]}
  volumes: [{name: data, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: unhealthy}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, "1000"], livenessProbe: {exec: {command: [/bin/busybox, "false"]}, periodSeconds: 1, failureThreshold: 1}}]
---
apiVersion: v1
kind: Pod
metadata: {name: late}
spec: {activeDeadlineSeconds: 2, terminationGracePeriodSeconds: 1, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, "1000"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: never-pulled}
spec: {containers: [{name: c, image: "example.test/nothing:1", imagePullPolicy: Never}]}
---
apiVersion: v1
kind: Pod
metadata: {name: bad-name}
spec: {containers: [{name: c, image: "Not A Name"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: as-root}
spec: {securityContext: {runAsNonRoot: true}, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, "1000"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: stubborn}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: c
    image: IMAGE
    command: [/bin/busybox, sh, -c, "trap 'echo term >> /out/end' TERM; echo > /out/ready; while :; do busybox sleep 0.1; done"]
    lifecycle: {preStop: {exec: {command: [/bin/busybox, sh, -c, "echo hook >> /out/end"]}}}
    volumeMounts: [{name: out, mountPath: /out}]
  volumes: [{name: out, hostPath: {path: OUT, type: Directory}}]
"#;
