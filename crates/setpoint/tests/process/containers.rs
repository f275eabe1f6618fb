//! `setpoint up` with a node of its own: the life of pods as real containers, on both runtimes. Needs root.

use std::time::Duration;

use crate::harness::{available, run};
use crate::node_cluster::{Cluster, Runtime, ask_from};

#[test]
fn pods_live_as_containers() {
    live(Cluster::start(1));
}

#[test]
fn pods_live_as_containers_of_containerd() {
    live(Cluster::with(2, Runtime::Containerd, ""));
}

fn live(cluster: Option<Cluster>) {
    let Some(cluster) = cluster else { return };
    cluster.apply(
        r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: "1", b: two}
---
apiVersion: v1
kind: Pod
metadata: {name: many}
spec:
  terminationGracePeriodSeconds: 2
  initContainers:
  - {name: first, image: IMAGE, command: [/bin/busybox, sh, -c, "echo init > /data/file"], volumeMounts: [{name: data, mountPath: /data}]}
  - {name: side, image: IMAGE, restartPolicy: Always, command: [/bin/busybox, sleep, "1000"]}
  containers:
  - name: web
    image: IMAGE
    command: [/bin/busybox, sh, -c, "busybox cat /data/file /part/none /settings/a; echo $FROM $(PLAIN); exec busybox httpd -f -p 8080 -h /settings"]
    env: [{name: PATH, value: /bin}, {name: PLAIN, value: x}, {name: FROM, valueFrom: {configMapKeyRef: {name: settings, key: b}}}]
    readinessProbe: {httpGet: {path: /a, port: 8080}, periodSeconds: 1}
    lifecycle: {postStart: {exec: {command: [/bin/busybox, touch, /data/started]}}}
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
    volumeMounts: [{name: data, mountPath: /data}, {name: settings, mountPath: /settings}, {name: data, mountPath: /part, subPath: part}]
  - {name: fails, image: IMAGE, command: [/bin/busybox, sh, -c, "echo bye > /dev/termination-log; exit 3"]}
  volumes: [{name: data, emptyDir: {}}, {name: settings, configMap: {name: settings}}]
---
apiVersion: v1
kind: Pod
metadata: {name: ends}
spec: {restartPolicy: Never, containers: [{name: c, image: IMAGE, command: [/bin/busybox, echo, done]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: missing}
spec: {containers: [{name: c, image: "127.0.0.1:9/nothing:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec: {restartPolicy: Never, containers: [{name: c, image: IMAGE, command: [/nonesuch]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, "1000"], envFrom: [{configMapRef: {name: later}}]}]}
"#,
    );
    cluster.wait("a pod that ends succeeds", |cluster| cluster.phase("ends") == "Succeeded");
    assert!(cluster.log("ends", "c").ends_with("stdout F done\n"));
    let host_name =
        cluster.kubectl.run("get node one -o jsonpath={.metadata.labels.kubernetes\\.io/hostname}");
    assert_eq!(host_name, "one", "nodes of one machine are told apart by the label, too");
    cluster.wait("the probe succeeds", |cluster| cluster.container("many", "web")["ready"] == true);
    assert!(cluster.log("many", "web").contains("stdout F init\n"), "{}", cluster.log("many", "web"));
    assert!(cluster.log("many", "web").contains("stdout F 1two x\n"));
    let side = cluster.container("many", "side");
    assert!(side["state"]["running"].is_object() && side["started"] == true, "{side}");
    cluster.wait("a container that fails waits", |cluster| {
        cluster.container("many", "fails")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    });
    let last = &cluster.container("many", "fails")["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["message"]), (&3.into(), &"bye\n".into()));
    cluster.wait("a missing image is waited for", |cluster| {
        cluster.container("missing", "c")["state"]["waiting"]["reason"] == "ImagePullBackOff"
    });
    cluster.wait("a command that is not there fails", |cluster| cluster.phase("bad") == "Failed");
    assert_eq!(cluster.container("bad", "c")["state"]["terminated"]["reason"], "StartError");
    cluster.wait("a config map that is missing is waited for", |cluster| {
        cluster.container("waits", "c")["state"]["waiting"]["reason"] == "CreateContainerConfigError"
    });
    cluster.kubectl.run("create configmap later --from-literal=k=v");
    cluster.wait("what it waited for has come", |cluster| cluster.phase("waits") == "Running");

    // Through the API server to the node's own port and back, once its certificate was signed.
    cluster.wait("the node answers", |cluster| {
        cluster.kubectl.try_run("get --raw /api/v1/nodes/one/proxy/healthz").status.success()
    });
    assert_eq!(cluster.kubectl.run("logs ends"), "done\n");
    let words = ["exec", "many", "-c", "web", "--", "/bin/busybox", "sh", "-c", "echo $PLAIN; exit 4"];
    let executed = cluster.kubectl.try_words(&words);
    let said = (String::from_utf8_lossy(&executed.stdout), String::from_utf8_lossy(&executed.stderr));
    assert_eq!(said, ("x\n".into(), "command terminated with exit code 4\n".into()));
    let answer = cluster.kubectl.run("get --raw /api/v1/namespaces/default/pods/many:8080/proxy/a");
    assert_eq!(answer, "1");

    // What config maps say reaches the pods that run.
    cluster.kubectl.words(&["patch", "configmap", "settings", "-p", r#"{"data":{"a":"99"}}"#]);
    let uid = cluster.pod("many")["metadata"]["uid"].as_str().unwrap().to_owned();
    let file = format!("node/pods/{uid}/volumes/kubernetes.io~configmap/settings/a");
    cluster.wait("a file changes", |cluster| {
        std::fs::read_to_string(cluster.data().join(&file)).is_ok_and(|text| text == "99")
    });

    cluster.kubectl.run("delete pod --all --wait=true");
    cluster.wait("nothing is left of the pods", |cluster| {
        let left = |of: &str| std::fs::read_dir(cluster.data().join("node").join(of)).unwrap().count();
        left("pods") == 0 && cluster.sandboxes() == 0
    });
}

#[test]
fn a_killed_agent_finds_its_pods_again() {
    find_again(Cluster::start(3));
}

#[test]
fn a_killed_agent_finds_its_pods_again_in_containerd() {
    find_again(Cluster::with(4, Runtime::Containerd, ""));
}

fn find_again(cluster: Option<Cluster>) {
    let Some(mut cluster) = cluster else { return };
    cluster.apply(
        r#"
apiVersion: v1
kind: Pod
metadata: {name: stays}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sh, -c, "i=0; while true; do echo $i; i=$((i+1)); /bin/busybox sleep 0.1; done"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ends}
spec: {restartPolicy: Never, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sh, -c, "until [ -e /flag/go ]; do /bin/busybox sleep 0.05; done; exit 7"], volumeMounts: [{name: flag, mountPath: /flag}]}], volumes: [{name: flag, hostPath: {path: FLAG, type: DirectoryOrCreate}}]}
"#
        .replace("FLAG", cluster.folder.path().join("flag").to_str().unwrap())
        .as_str(),
    );
    for pod in ["stays", "ends"] {
        cluster.wait("it runs", |cluster| cluster.phase(pod) == "Running");
    }
    let before = cluster.container("stays", "c");
    cluster.server.take().unwrap().kill();
    // Nobody is there to see it end.
    std::fs::write(cluster.folder.path().join("flag/go"), "").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    cluster.restart();
    cluster.wait("the end is told", |cluster| cluster.phase("ends") == "Failed");
    assert_eq!(cluster.container("ends", "c")["state"]["terminated"]["exitCode"], 7);
    let after = cluster.container("stays", "c");
    for field in ["containerID", "restartCount", "state"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    // Its log has no gap.
    let log = cluster.log("stays", "c");
    let numbers: Vec<usize> =
        log.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>());
    // Deleted while nobody looks: gone when somebody does.
    cluster.kubectl.run("delete pod stays --wait=true");
    cluster.wait("nothing is left of it", |cluster| {
        std::fs::read_dir(cluster.data().join("node/pods")).unwrap().count() <= 1
    });
}

#[test]
fn behind_a_linked_data_directory_volumes_are_unmounted_and_their_files_kept() {
    let Some(mut cluster) = Cluster::behind_link(26) else { return };
    let outside = tempfile::tempdir().unwrap();
    let kept = outside.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    std::fs::write(kept.join("file"), "mine").unwrap();
    cluster.apply(
        &r#"
apiVersion: v1
kind: PersistentVolume
metadata: {name: kept}
spec:
  capacity: {storage: 1Mi}
  accessModes: [ReadWriteOnce]
  storageClassName: manual
  local: {path: KEPT}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [one]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: kept}
spec: {accessModes: [ReadWriteOnce], storageClassName: manual, volumeName: kept, resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: made}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
"#
        .replace("KEPT", kept.to_str().unwrap()),
    );
    let volumes = format!(
        "volumes: [{{name: kept, persistentVolumeClaim: {{claimName: kept}}}}, {{name: made, persistentVolumeClaim: {{claimName: made}}}}, \
         {{name: part, hostPath: {{path: {}}}}}]",
        outside.path().display()
    );
    let mounts = "volumeMounts: [{name: kept, mountPath: /kept}, {name: made, mountPath: /made}, {name: part, mountPath: /part, subPath: kept}]";
    let command = "command: [/bin/busybox, sh, -c, 'busybox cp /kept/file /made/file; exec busybox sleep 1000'], env: [{name: PATH, value: /bin}]";
    let spec = format!("containers: [{{name: c, image: IMAGE, {command}, {mounts}}}], {volumes}");
    for pod in ["goes", "stays"] {
        cluster.run_pod(pod, &spec);
    }
    cluster.wait_for("Running", &["goes", "stays"]);
    cluster.kubectl.run("delete pod goes --wait=true");
    cluster.wait("nothing is left of it", |cluster| {
        std::fs::read_dir(cluster.data().join("node/pods")).unwrap().count() == 1
    });
    let made = cluster.kubectl.run("get pvc made -o jsonpath={.spec.volumeName}");
    let made = std::path::Path::new("/var/lib/setpoint/volumes").join(made);
    cluster.wait("the claim's directory is used", |_| made.join("file").exists());

    // The pod runs on; what the reset is going to delete outside of the directory is told.
    cluster.server.take().unwrap().stop();
    let (done, _, error) = crate::join::setpoint(&["reset"], &cluster.data());
    assert!(!done && error.contains("the files of 1 claim in /var/lib/setpoint/volumes"), "{error}");
    let (done, _, error) = crate::join::setpoint(&["reset", "--yes"], &cluster.data());
    assert!(done, "{error}");
    assert!(!cluster.data().join("node").exists() && !made.exists());
    assert_eq!(std::fs::read_to_string(kept.join("file")).unwrap(), "mine");
    std::fs::create_dir_all(cluster.data().join("store")).unwrap();
}

#[test]
fn real_and_simulated_nodes_live_in_one_cluster() {
    let Some(cluster) = Cluster::with_flags(65, Runtime::Embedded, "", &["--simulated-nodes=2"]) else {
        return;
    };
    let nodes = "get nodes -o jsonpath={.items[*].metadata.name}";
    cluster.wait("all nodes", |cluster| cluster.kubectl.run(nodes) == "one sim-0 sim-1");
    cluster.kubectl.run("wait --for=condition=Ready node --all --timeout=120s");
    let told = "  nodes       one: this machine, with containers; and 2 simulated\n";
    assert!(cluster.server.as_ref().unwrap().log().contains(told));
    let command = "command: [/bin/busybox, sh, -c, 'echo it runs; exec busybox sleep 1000']";
    for (pod, node) in [("real", "one"), ("simulated", "sim-1")] {
        cluster
            .run_pod(pod, &format!("nodeName: {node}, containers: [{{name: c, image: IMAGE, {command}}}]"));
    }
    cluster.wait_for("Running", &["real", "simulated"]);
    cluster.wait("it has said so", |cluster| cluster.kubectl.run("logs real") == "it runs\n");
    let of_simulated = cluster.kubectl.try_run("logs simulated");
    assert!(!of_simulated.status.success(), "{of_simulated:?}");
    cluster.kubectl.run("delete pods --all --wait=true");
}

#[test]
fn pods_reach_the_api_server_and_need_a_token_there() {
    let Some(cluster) = Cluster::start(67) else { return };
    if !available("curl") || !available("nsenter") {
        return;
    }
    let server = cluster.server.as_ref().unwrap();
    for told in ["  nodes       one: this machine, with containers\n", "their logs: kubectl logs POD\n"] {
        cluster.wait(told, |_| server.log().contains(told));
    }
    let command = "command: [/bin/busybox, sh, -c, 'exec /bin/busybox sleep 1000']";
    cluster.run_pod("p", &format!("containers: [{{name: c, image: IMAGE, {command}}}]"));
    cluster.wait_for("Running", &["p"]);
    let ca = server.pki("ca.crt").display().to_string();
    let pid = cluster.helper_of("p");
    let ask = |url: &str, flags: &[&str]| ask_from(pid, url, flags);
    // The token as the pod has it: where it is, and what it is good for.
    let token = cluster.said("p", "/bin/busybox cat /var/run/secrets/kubernetes.io/serviceaccount/token");
    let bearer = ["-k", "-H", &format!("Authorization: Bearer {token}")];

    // Where every client in a pod looks for it, under the certificate of that address.
    let kubernetes = cluster.said("p", "echo https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT");
    assert_eq!(kubernetes, "https://10.96.0.1:443");
    let answer = ask(&format!("{kubernetes}/version"), &["--cacert", &ca]);
    assert!(answer.contains("\"gitVersion\"") && answer.ends_with("|200"), "{answer}");
    let namespaces = "/api/v1/namespaces";
    let answer = ask(&format!("{kubernetes}{namespaces}"), &bearer);
    let whose = r#"User \"system:serviceaccount:default:default\" cannot list"#;
    assert!(answer.contains(whose) && answer.ends_with("|403"), "{answer}");

    // Without it, nothing more than anybody may, wherever it is asked.
    let port = |url: &str| url.rsplit(':').next().unwrap().to_owned();
    let ip = cluster.pod("p")["status"]["podIP"].as_str().unwrap().to_owned();
    let gateway = format!("https://{}.1", ip.rsplit_once('.').unwrap().0);
    for api in [kubernetes, format!("{gateway}:{}", port(&server.url()))] {
        let answer = ask(&format!("{api}{namespaces}"), &["-k"]);
        assert!(answer.contains(r#"User \"system:anonymous\" cannot list"#), "{api}: {answer}");
        assert!(answer.ends_with("|403"), "{api}: {answer}");
        let answer = ask(&format!("{api}{namespaces}"), &["-k", "-H", "Authorization: Bearer made-up"]);
        assert!(answer.ends_with("|401"), "{api}: {answer}");
    }
    let node_port = "get node one -o jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}";
    let node = format!("{gateway}:{}", cluster.kubectl.run(node_port));
    for path in ["/pods", "/exec/default/p/c?command=true&output=1", "/logs/"] {
        let answer = ask(&format!("{node}{path}"), &["-k"]);
        assert!(answer.ends_with("|401"), "{path}: {answer}");
        let answer = ask(&format!("{node}{path}"), &bearer);
        assert!(answer.ends_with("|403"), "{path}: {answer}");
    }
    cluster.kubectl.run("delete pod p --wait=true");
}

#[test]
fn pods_of_a_dual_stack_node_are_reached_by_both_addresses_and_host_ports() {
    let process = std::process::id() % 60_000;
    let ranges = format!("--pod-cidr=10.{}.66.0/24,fd66:{process:x}::/64", 100 + process % 100);
    let Some(cluster) = Cluster::with_flags(66, Runtime::Embedded, "", &[&ranges]) else { return };
    // Below those that the kernel gives to connections: the node takes it from all of the machine's.
    let port = 27_066;
    let serve = "mkdir /www; echo both > /www/index.html; exec busybox httpd -f -p '[::]:8080' -h /www";
    let ports = format!("ports: [{{containerPort: 8080, hostPort: {port}}}]");
    cluster.run_pod("web", &format!("containers: [{{name: c, image: IMAGE, command: [/bin/busybox, sh, -c, \"{serve}\"], env: [{{name: PATH, value: /bin}}], {ports}}}]"));
    cluster.wait_for("Running", &["web"]);
    let pod = cluster.pod("web");
    let ips: Vec<&str> =
        pod["status"]["podIPs"].as_array().unwrap().iter().map(|ip| ip["ip"].as_str().unwrap()).collect();
    assert_eq!(ips.len(), 2, "{pod}");
    assert!(ips[0].contains('.') && ips[1].starts_with("fd66:"), "{ips:?}");
    let gateway = |ip: &str| match ip.rsplit_once([':', '.']) {
        Some((net, _)) if ip.contains(':') => format!("[{net}:1]"),
        Some((net, _)) => format!("{net}.1"),
        None => unreachable!("an address"),
    };
    let urls = [
        format!("http://{}:8080/", ips[0]),
        format!("http://[{}]:8080/", ips[1]),
        format!("http://{}:{port}/", gateway(ips[0])),
        format!("http://{}:{port}/", gateway(ips[1])),
    ];
    for url in urls {
        cluster.wait(&url, |_| {
            let got = run(std::process::Command::new("curl").args(["-sg", "--max-time", "5", &url]));
            got.stdout == b"both\n"
        });
    }
    cluster.kubectl.run("delete pod web --wait=true");
}
