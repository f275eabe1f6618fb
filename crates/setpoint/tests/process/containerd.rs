//! A containerd of one test's own, with runc and CNI: its folders, socket and network, and nothing of it left afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::harness::*;
use crate::images::archive_of;

const PLUGINS: &str = "/usr/lib/cni";
/// Sandboxes run it.
const PAUSE: &str = "docker.io/test/pause:1";

pub struct Containerd {
    process: Child,
    folder: PathBuf,
}

impl Containerd {
    /// In a folder, with addresses of a range for its pods. `None`, and a line that says why, where it is not installed.
    pub fn start(folder: &Path, range: &str) -> Option<Containerd> {
        if !["containerd", "ctr", "runc"].into_iter().all(available) {
            return None;
        }
        if !Path::new(PLUGINS).join("ptp").exists() {
            skipped("containernetworking-plugins is not installed");
            return None;
        }
        configure(folder, range);
        let log = fs::File::create(folder.join("log")).unwrap();
        let mut daemon = Command::new("containerd");
        daemon.arg("-c").arg(folder.join("config.toml")).stdin(Stdio::null());
        let process = daemon.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let containerd = Containerd { process, folder: folder.to_owned() };
        wait_until("containerd answers", || run(&mut containerd.ctr(&["version"])).status.success());
        fs::create_dir(folder.join("pause")).unwrap();
        containerd.import(&archive_of(&folder.join("pause"), PAUSE, &["/bin/busybox", "sleep", "100000"]));
        Some(containerd)
    }

    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.folder.join("c.sock").display())
    }

    pub fn import(&self, archive: &Path) {
        let mut import = self.ctr(&["-n", "k8s.io", "images", "import", "--snapshotter", "native"]);
        let done = run(import.arg(archive));
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// Ids of the containers there are; those of sandboxes are among them.
    pub fn containers(&self) -> Vec<String> {
        let listed = run(&mut self.ctr(&["-n", "k8s.io", "containers", "list", "--quiet"]));
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    fn ctr(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ctr");
        command.arg("-a").arg(self.folder.join("c.sock")).args(words);
        command
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // What a test that failed left behind.
        for process in shims_and_children(&self.folder) {
            let _ = Command::new("kill").arg("-KILL").arg(process.to_string()).stderr(Stdio::null()).status();
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let below: Vec<&str> = points.filter(|point| Path::new(point).starts_with(&self.folder)).collect();
        for mount in below.iter().rev() {
            let _ = Command::new("umount").args(["-l", mount]).stderr(Stdio::null()).status();
        }
    }
}

fn shims_and_children(folder: &Path) -> Vec<u32> {
    let socket = folder.join("c.sock").display().to_string();
    let (mut shims, mut all) = (Vec::new(), Vec::new());
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        if command.contains("containerd-shim") && command.contains(&socket) {
            shims.push(pid);
        }
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
        all.push((pid, parent));
    }
    let of_shims = all
        .into_iter()
        .filter(|(pid, parent)| shims.contains(pid) || parent.is_some_and(|parent| shims.contains(&parent)));
    of_shims.map(|(pid, _)| pid).collect()
}

fn configure(folder: &Path, range: &str) {
    let at = folder.display();
    let config = format!(
        r#"
        version = 2
        root = "{at}/root"
        state = "{at}/state"
        disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
            "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
        [grpc]
        address = "{at}/c.sock"
        [debug]
        address = "{at}/debug.sock"
        [plugins."io.containerd.internal.v1.opt"]
        path = "{at}/opt"
        [plugins."io.containerd.grpc.v1.cri"]
        sandbox_image = "{PAUSE}"
        # CI may not lower it.
        restrict_oom_score_adj = true
        netns_mounts_under_state_dir = true
        stream_server_address = "127.0.0.1"
        stream_server_port = "0"
        [plugins."io.containerd.grpc.v1.cri".containerd]
        snapshotter = "native"
        default_runtime_name = "runc"
        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
        runtime_type = "io.containerd.runc.v2"
        [plugins."io.containerd.grpc.v1.cri".cni]
        bin_dir = "{PLUGINS}"
        conf_dir = "{at}/cni"
        "#
    );
    fs::write(folder.join("config.toml"), config).unwrap();
    fs::create_dir(folder.join("cni")).unwrap();
    // One pair of interfaces a pod: unlike a bridge, they go with it.
    let network = format!(
        r#"{{"cniVersion":"0.4.0","name":"test","plugins":[{{"type":"ptp","ipam":{{"type":"host-local",
            "dataDir":"{at}/ipam","ranges":[[{{"subnet":"{range}"}}]],"routes":[{{"dst":"0.0.0.0/0"}}]}}}}]}}"#
    );
    fs::write(folder.join("cni/10-test.conflist"), network).unwrap();
}
