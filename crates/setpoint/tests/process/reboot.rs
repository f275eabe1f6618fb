//! The machine reboots, as near as a test comes to it: no process, mount, cgroup, interface and rule of the node is left, and the boot
//! id is another. Needs root.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::*;
use crate::node_cluster::{Cluster, Runtime, groups, left_behind};

#[test]
fn pods_come_back_in_place_after_a_reboot() {
    come_back(Cluster::start(24));
}

#[test]
fn pods_come_back_in_place_after_a_reboot_on_containerd() {
    come_back(Cluster::with(25, Runtime::Containerd, ""));
}

fn come_back(cluster: Option<Cluster>) {
    let Some(mut cluster) = cluster else { return };
    if !["ip", "nft", "unshare", "mount"].into_iter().all(available) {
        return;
    }
    let script = "echo begun >> /disk/x; echo begun >> /memory/x; exec busybox sleep 1000";
    cluster.run_pod("web", &format!("initContainers: [{{name: init, image: IMAGE, command: [/bin/busybox, sh, -c, 'echo init >> /disk/init'], volumeMounts: [{{name: disk, mountPath: /disk}}]}}], containers: [{{name: c, image: IMAGE, command: [/bin/busybox, sh, -c, '{script}'], volumeMounts: [{{name: disk, mountPath: /disk}}, {{name: memory, mountPath: /memory}}]}}], volumes: [{{name: disk, emptyDir: {{}}}}, {{name: memory, emptyDir: {{medium: Memory}}}}]"));
    cluster.run_pod(
        "once",
        "restartPolicy: Never, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000']}]",
    );
    cluster.run_pod(
        "done",
        "restartPolicy: Never, containers: [{name: c, image: IMAGE, command: [/bin/busybox, 'true']}]",
    );
    cluster.wait_for("Running", &["web", "once"]);
    cluster.wait_for("Succeeded", &["done"]);
    let before = cluster.pod("web");
    cluster.server.take().unwrap().kill();
    if let Some(containerd) = &mut cluster.containerd {
        containerd.lose();
    }
    lose_everything(&cluster);
    assert_eq!(left_behind(&cluster.bridge, cluster.folder.path()), Vec::<String>::new());

    let boot_id = "5e7b007a-0000-4000-8000-000000000002";
    let file = cluster.folder.path().join("boot_id");
    fs::write(&file, format!("{boot_id}\n")).unwrap();
    // Only the node sees it.
    let mut machine = Command::new("unshare");
    let script =
        "mount --make-rprivate /proc && mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
    machine.args(["--mount", "--propagation", "unchanged", "sh", "-c", script]).arg(&file).arg(SETPOINT);
    // The node has mounts of its own below: what it mounts for pods must be seen by containerd, too.
    let folder = cluster.folder.path().to_owned();
    if let Some(containerd) = &mut cluster.containerd {
        quiet(Command::new("mount").args(["--bind", "--make-shared"]).arg(&folder).arg(&folder));
        containerd.start_again();
    }
    cluster.restart_as(machine);

    cluster.wait("the pod is back", |cluster| {
        let status = cluster.container("web", "c");
        status["restartCount"] == 1 && status["state"]["running"].is_object()
    });
    let after = cluster.pod("web");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    let last = &cluster.container("web", "c")["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["reason"]), (&255.into(), &"Unknown".into()), "{last}");
    assert_eq!(last["containerID"], before["status"]["containerStatuses"][0]["containerID"]);
    // Its port is another one now.
    cluster.wait("the node is asked where it is", |cluster| {
        cluster.kubectl.try_run("get --raw /api/v1/nodes/one/proxy/healthz").status.success()
    });
    // What was on disk is there, what was in memory is not.
    assert_eq!(cluster.said("web", "busybox cat /disk/x"), "begun\nbegun");
    assert_eq!(cluster.said("web", "busybox cat /disk/init"), "init\ninit");
    assert_eq!(cluster.said("web", "busybox cat /memory/x"), "begun");
    let token = cluster.said("web", "busybox cat /var/run/secrets/kubernetes.io/serviceaccount/token");
    assert_eq!(token.split('.').count(), 3);
    cluster.wait("it is ready", |cluster| cluster.condition("web", "Ready")["status"] == "True");
    let address = cluster.pod("web")["status"]["podIP"].as_str().unwrap().to_owned();
    assert!(cluster.said("web", "busybox ip addr").contains(&format!("inet {address}/")), "{address}");
    tells_what_is_used(&cluster);
    cluster.wait_for_event("web", "SandboxChanged: Pod sandbox changed, it will be killed and re-created.");
    cluster.wait_for("Failed", &["once"]);
    let ended = &cluster.container("once", "c")["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&255.into(), &"Unknown".into()), "{ended}");
    assert_eq!(cluster.phase("done"), "Succeeded");
    // Its sandbox and its container; nothing of before runs.
    cluster.wait("only what is new runs", |cluster| {
        cluster.containerd.as_ref().is_none_or(|containerd| containerd.tasks() == 2)
    });
    cluster.wait_for_event("one", &format!("Rebooted: Node one has been rebooted, boot id: {boot_id}"));
    assert_eq!(cluster.kubectl.run("get node one -o jsonpath={.status.nodeInfo.bootID}"), boot_id);

    // And it is a node like another.
    cluster.run_pod("new", "containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000']}]");
    cluster.wait_for("Running", &["new"]);
    cluster.kubectl.run("delete pod --all --wait=true");
    cluster.wait("nothing is left", |cluster| cluster.sandboxes() == 0);
    if cluster.containerd.is_some() {
        quiet(Command::new("umount").arg("-l").arg(&folder));
    }
}

/// The node's port, through the API server: volumes of a pod, all pods together, flags.
fn tells_what_is_used(cluster: &Cluster) {
    let get = |path: &str| cluster.kubectl.run(&format!("get --raw /api/v1/nodes/one/proxy/{path}"));
    let summary: Value = serde_json::from_str(&get("stats/summary")).unwrap();
    let pods = summary["pods"].as_array().unwrap();
    let web = pods.iter().find(|pod| pod["podRef"]["name"] == "web").expect("the pod that runs");
    let volume = |name: &str| {
        let volumes = web["volume"].as_array().unwrap();
        volumes.iter().find(|volume| volume["name"].as_str().unwrap().starts_with(name)).unwrap().clone()
    };
    // A directory and two files of a block each, at least.
    let disk = volume("disk");
    assert!(disk["usedBytes"].as_u64() >= Some(8192) && disk["inodesUsed"] == 3, "{disk}");
    assert!(disk["capacityBytes"].as_u64() > disk["usedBytes"].as_u64(), "{disk}");
    let (memory, token) = (volume("memory"), volume("kube-api-access-"));
    assert!(memory["inodesUsed"] == 2 && token["usedBytes"].as_u64() > Some(0), "{memory} {token}");
    assert_eq!(web["volume"].as_array().unwrap().len(), 3);
    assert!(web["ephemeral-storage"]["usedBytes"].as_u64() >= disk["usedBytes"].as_u64(), "{web}");
    let all = &summary["node"]["systemContainers"];
    assert!(all[0]["name"] == "pods" && all[0]["memory"]["workingSetBytes"].as_u64() > Some(0), "{all}");
    let flags = get("flagz");
    assert!(flags.contains("\nnode-name=one\n"), "{flags}");
}

/// All that the kernel held of the node.
fn lose_everything(cluster: &Cluster) {
    let helpers: Vec<u32> = fs::read_dir(cluster.data().join("node/sandboxes"))
        .into_iter()
        .flatten()
        .filter_map(|sandbox| fs::read_to_string(sandbox.unwrap().path().join("helper.pid")).ok())
        .filter_map(|pid| pid.trim().parse().ok())
        .collect();
    for helper in helpers {
        quiet(Command::new("kill").args(["-KILL", &helper.to_string()]));
    }
    wait_until("all processes are gone", || {
        let group = format!("/{}", cluster.bridge);
        let mut none = true;
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let groups = fs::read_to_string(process.path().join("cgroup")).unwrap_or_default();
            if groups.contains(&group) {
                none = false;
                quiet(Command::new("kill").arg("-KILL").arg(process.file_name()));
            }
        }
        none
    });
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    let below: Vec<&str> =
        points.filter(|point| Path::new(point).starts_with(cluster.folder.path())).collect();
    for mount in below.iter().rev() {
        quiet(Command::new("umount").args(["-l", mount]));
    }
    for interface in fs::read_dir("/sys/class/net").unwrap().flatten() {
        let name = interface.file_name().into_string().unwrap();
        if name.starts_with(&cluster.bridge) {
            quiet(Command::new("ip").args(["link", "delete", &name]));
        }
    }
    for table in [cluster.bridge.clone(), format!("{}-guard", cluster.bridge)] {
        for family in ["ip", "ip6", "inet", "bridge", "netdev"] {
            quiet(Command::new("nft").args(["delete", "table", family, &table]));
        }
    }
    let _ = fs::remove_file(format!("/run/setpoint/{}.lock", cluster.bridge));
    for group in groups(&cluster.bridge) {
        wait_until("the groups are gone", || {
            remove_groups(&group);
            !group.exists()
        });
    }
    // Sockets are files, but nobody listens; what is in /run goes too, and the node has nothing there.
}

fn remove_groups(group: &Path) {
    for inner in fs::read_dir(group).into_iter().flatten().flatten() {
        if inner.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_groups(&inner.path());
        }
    }
    // Busy for a moment, perhaps.
    let _ = fs::remove_dir(group);
}

fn quiet(command: &mut Command) {
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
}
