//! What people do with a cluster in ten steps, on real containers of both runtimes. Needs root.

use std::io::{Read, Write};

use crate::node_cluster::{Background, Cluster, IMAGE, Runtime};

#[test]
fn the_story_on_the_embedded_runtime() {
    tell(Cluster::start(5));
}

#[test]
fn the_story_on_containerd() {
    tell(Cluster::with(6, Runtime::Containerd, ""));
}

fn tell(cluster: Option<Cluster>) {
    let Some(cluster) = cluster else { return };
    let kubectl = &cluster.kubectl;
    // What takes its time begins first: it is looked at below.
    cluster.run_pod("crashes", r#"containers: [{name: c, image: IMAGE, terminationMessagePolicy: FallbackToLogsOnError, command: [/bin/busybox, sh, -c, "echo my last words; exit 9"]}]"#);

    // A deployment with a probe.
    cluster.apply(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: IMAGE
        command: [/bin/busybox, sh, -c, "mkdir /www; echo $RELEASE > /www/index.html; exec busybox httpd -f -p 8080 -h /www"]
        env: [{name: RELEASE, value: one}, {name: PATH, value: /bin}]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
"#
        .replace("mkdir", "busybox mkdir")
        .as_str(),
    );
    kubectl.run("rollout status deployment/web --timeout=110s");

    // Scaled, and rolled out anew.
    kubectl.run("scale deployment/web --replicas=3");
    kubectl.run("rollout status deployment/web --timeout=110s");
    assert_eq!(kubectl.run("get deployment web -o jsonpath={.status.readyReplicas}"), "3");
    kubectl.run("set env deployment/web RELEASE=two");
    kubectl.run("rollout status deployment/web --timeout=110s");
    kubectl.run("scale deployment/web --replicas=1");
    kubectl.run("rollout status deployment/web --timeout=110s");
    cluster.wait("one pod is left", |_| pods_of(&cluster, "app=web").len() == 1);
    let web = pods_of(&cluster, "app=web").remove(0);

    // Files, in and out.
    kubectl.file("in.txt", "copied\n");
    kubectl.run(&format!("cp in.txt {web}:/www/copied"));
    kubectl.run(&format!("cp {web}:/www/copied out.txt"));
    assert_eq!(std::fs::read_to_string(cluster.folder.path().join("out.txt")).unwrap(), "copied\n");

    // A port of the pod, here.
    let forward = Background::start(kubectl.command(&["port-forward", &web, ":8080"]), "");
    let line = forward.line("the local port", |line| line.starts_with("Forwarding from 127.0.0.1:"));
    let port: u16 = line.split([':', ' ']).nth(3).unwrap().parse().unwrap();
    assert_eq!(get(port, "/"), "two\n");
    assert_eq!(get(port, "/copied"), "copied\n");
    drop(forward);

    // A command in it, and a container beside it to look at it.
    let done = cluster.exec(&web, "echo out; echo err >&2; exit 5");
    let said = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(said, ("out\n".into(), "err\ncommand terminated with exit code 5\n".into()));
    let script = "busybox wget -q -O - 127.0.0.1:8080/; busybox tr '\\0' ' ' < /proc/1/cmdline";
    kubectl.words(&[
        "debug",
        &web,
        &format!("--image={IMAGE}"),
        "--container=look",
        "--target=web",
        "--profile=general",
        "--env=PATH=/bin",
        "--",
        "/bin/busybox",
        "sh",
        "-c",
        script,
    ]);
    cluster.wait("the container beside it ended", |cluster| {
        cluster.container(&web, "look")["state"]["terminated"]["exitCode"] == 0
    });
    // With the processes of its target: the first is not its own.
    let looked = kubectl.run(&format!("logs {web} -c look"));
    assert!(looked.starts_with("two\nbusybox httpd -f"), "{looked}");

    // One that is attached to.
    cluster.run_pod("reads", "restartPolicy: Never, containers: [{name: c, image: IMAGE, stdin: true, stdinOnce: true, command: [/bin/busybox, sh, -c, 'while read line; do echo got $line; done']}]");
    cluster.wait_for("Running", &["reads"]);
    let attached = Background::start(kubectl.command(&["attach", "-i", "reads"]), "one\ntwo\n");
    attached.line("what it read", |line| line == "got two");
    assert!(attached.ends());
    cluster.wait_for("Succeeded", &["reads"]);

    // A job that ends, and its log from the beginning to the end.
    cluster.apply(
        r#"
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sh, -c, "for i in 1 2 3; do echo line $i; busybox sleep 0.3; done"]}]}
"#,
    );
    cluster.wait("the job's pod runs", |_| {
        let pods = pods_of(&cluster, "job-name=job");
        pods.first().is_some_and(|pod| cluster.phase(pod) != "Pending")
    });
    assert_eq!(kubectl.run("logs -f job/job"), "line 1\nline 2\nline 3\n");
    kubectl.run("wait job/job --for=condition=Complete --timeout=110s");

    // The one that crashed since the beginning.
    cluster.wait("it waits", |cluster| {
        cluster.container("crashes", "c")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    });
    let last = &cluster.container("crashes", "c")["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["reason"]), (&9.into(), &"Error".into()));
    assert_eq!(last["message"], "my last words\n");
    assert_eq!(kubectl.run("logs crashes --previous"), "my last words\n");
    cluster
        .wait_for_event("crashes", "BackOff: Back-off restarting failed container c in pod crashes_default(");

    // What all of it uses.
    cluster.wait("top knows the pod", |_| {
        let top = kubectl.try_run(&format!("top pod {web} --no-headers"));
        top.status.success() && String::from_utf8_lossy(&top.stdout).contains("Mi")
    });
    assert!(kubectl.run("top node --no-headers").starts_with("one "));

    kubectl.run("delete deployment,job,pod --all --wait=true");
    cluster.wait("nothing is left", |cluster| cluster.sandboxes() == 0);
}

fn pods_of(cluster: &Cluster, selector: &str) -> Vec<String> {
    let names = cluster.kubectl.run(&format!("get pods -l {selector} -o name"));
    names.lines().map(|line| line.trim_start_matches("pod/").to_owned()).collect()
}

/// The body of an answer.
fn get(port: u16, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}")).1.to_owned()
}
