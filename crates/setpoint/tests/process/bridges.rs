//! Two data directories and one bridge: the second node is refused, and touches nothing of the first. Needs root.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::harness::*;
use crate::join::setpoint;
use crate::node_cluster::{Cluster, left_behind};

#[test]
fn a_bridge_has_one_node_and_a_reset_leaves_it_to_that() {
    let Some(mut cluster) = Cluster::start(232) else { return };
    let command = "command: [/bin/busybox, sleep, '1000']";
    cluster.run_pod("p", &format!("containers: [{{name: c, image: IMAGE, {command}}}]"));
    cluster.wait_for("Running", &["p"]);
    let second = cluster.folder.path().join("second");
    let up = |port: &str| {
        let mut command = Command::new(SETPOINT);
        command.args([
            "up",
            "--node=true",
            "--listen",
            "127.0.0.1:0",
            "--node-port",
            port,
            "--bridge",
            &cluster.bridge,
        ]);
        let ran = run(command.args(["--pod-cidr", "10.211.232.0/24", "--data-dir"]).arg(&second));
        (ran.status.success(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let (done, told) = up("0");
    let first = cluster.data().display().to_string();
    assert!(!done && told.contains(&format!("belongs to the node of the data directory {first}")), "{told}");
    assert!(told.contains("--bridge, --pod-cidr and --node-port"), "{told}");
    // As if it had run there before.
    let reset = || {
        std::fs::create_dir_all(second.join("node")).unwrap();
        std::fs::write(second.join("node/bridge"), &cluster.bridge).unwrap();
        let (done, said, told) = setpoint(&["reset", "--yes"], &second);
        assert!(done, "{told}");
        let stays = format!("The bridge {} stays: it belongs to the node of {first}.", cluster.bridge);
        assert!(said.contains(&stays) && !second.exists(), "{said}");
    };
    reset();
    let uid = cluster.uid("p");
    assert_eq!(cluster.said("p", "echo here"), "here");

    // Its pods go on without it, and so does what they need.
    cluster.server.take().unwrap().stop();
    let (done, told) = up("0");
    assert!(!done && told.contains("whose pods go on running"), "{told}");
    reset();
    cluster.restart();
    cluster.wait("the node is back", |cluster| cluster.exec("p", "true").status.success());
    assert_eq!((cluster.uid("p"), cluster.container("p", "c")["restartCount"].as_i64()), (uid, Some(0)));
    cluster.kubectl.run("delete pod p --wait=true");
}

#[test]
fn pods_keep_their_bridge_and_without_pods_it_makes_room_for_another() {
    let Some(mut cluster) = Cluster::start(69) else { return };
    let spec = "containers: [{name: c, image: IMAGE, command: [/bin/busybox, httpd, -f, -p, '8080', -h, /]}]";
    cluster.run_pod("p", spec);
    cluster.wait_for("Running", &["p"]);
    let before = cluster.bridge.clone();
    let other = format!("u{}n69", std::process::id() % 60_000);
    let given = |flags: &[String], bridge: &str| {
        let others = flags.iter().filter(|flag| !flag.starts_with("--bridge=")).cloned();
        others.chain([format!("--bridge={bridge}")]).collect::<Vec<_>>()
    };
    cluster.server.take().unwrap().stop();
    let mut up = Command::new(SETPOINT);
    up.args(["up", "--listen", "127.0.0.1:0"]).args(given(&cluster.flags, &other));
    let ran = run(up.arg("--data-dir").arg(cluster.data()));
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success() && told.contains(&format!("start it with --bridge {before} (")), "{told}");
    // It has taken nothing of what it was refused.
    assert_eq!(left_behind(&other, Path::new("/nowhere")), Vec::<String>::new());

    cluster.restart();
    cluster.wait("the node is back", |cluster| cluster.exec("p", "true").status.success());
    cluster.kubectl.run("delete pod p --wait=true");
    cluster.server.take().unwrap().stop();
    cluster.flags = given(&cluster.flags, &other);
    cluster.bridge = other;
    cluster.restart();
    cluster.run_pod("q", spec);
    cluster.wait_for("Running", &["q"]);
    assert_eq!(left_behind(&before, Path::new("/nowhere")), Vec::<String>::new());
    // Its addresses lead to the new one.
    let ip = cluster.pod("q")["status"]["podIP"].as_str().unwrap().to_owned();
    wait_until("the pod is reached", || TcpStream::connect((ip.as_str(), 8080)).is_ok());
    cluster.kubectl.run("delete pod q --wait=true");
}
