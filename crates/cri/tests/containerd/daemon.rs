//! A containerd of one test's own, with runc and CNI: how it is configured, started, and what it leaves is removed. Other crates' tests
//! include this file by its path.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PLUGINS: &str = "/usr/lib/cni";
/// For what takes seconds.
const LIMIT_SECONDS: &str = "120";

/// What is not installed, if anything.
pub fn missing() -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = |program: &str| std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !["containerd", "ctr", "runc"].into_iter().all(installed) {
        return Some("containerd and runc");
    }
    (!Path::new(PLUGINS).join("ptp").exists()).then_some("containernetworking-plugins")
}

/// `sandbox_image`: what sandboxes run; `range`: of the pods' addresses.
pub fn configure(folder: &Path, sandbox_image: &str, range: &str) {
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
        sandbox_image = "{sandbox_image}"
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

pub fn socket(folder: &Path) -> PathBuf {
    folder.join("c.sock")
}

/// Whoever starts it waits until it answers.
pub fn spawn(folder: &Path) -> Child {
    let log = fs::File::create(folder.join("log")).unwrap();
    let mut daemon = Command::new("containerd");
    daemon.arg("-c").arg(folder.join("config.toml")).stdin(Stdio::null());
    daemon.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

pub fn ctr(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("ctr");
    command.arg("-a").arg(socket(folder)).args(words);
    command
}

pub fn import(folder: &Path, archive: &Path) {
    let import = ctr(folder, &["-n", "k8s.io", "images", "import", "--snapshotter", "native"]);
    let mut limited = Command::new("timeout");
    limited.arg(LIMIT_SECONDS).arg(import.get_program()).args(import.get_args());
    let done = limited.arg(archive).output().unwrap();
    assert!(done.status.success(), "{limited:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// What a test that failed left behind; the daemon itself has ended.
pub fn clean_up(folder: &Path) {
    for process in shims_and_children(folder) {
        let _ = Command::new("kill").arg("-KILL").arg(process.to_string()).stderr(Stdio::null()).status();
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    let below: Vec<&str> = points.filter(|point| Path::new(point).starts_with(folder)).collect();
    for mount in below.iter().rev() {
        let _ = Command::new("umount").args(["-l", mount]).stderr(Stdio::null()).status();
    }
}

fn shims_and_children(folder: &Path) -> Vec<u32> {
    let all = processes();
    let shims: Vec<u32> = all.iter().filter(|one| one.is_shim(folder)).map(|one| one.pid).collect();
    let of_shims = all
        .into_iter()
        .filter(|one| shims.contains(&one.pid) || one.parent.is_some_and(|parent| shims.contains(&parent)));
    of_shims.map(|one| one.pid).collect()
}

pub struct Process {
    pub pid: u32,
    pub parent: Option<u32>,
    command: String,
}

impl Process {
    /// Of the containerd in the folder.
    pub fn is_shim(&self, folder: &Path) -> bool {
        let socket = socket(folder).display().to_string();
        self.command.contains("containerd-shim") && self.command.contains(&socket)
    }
}

pub fn processes() -> Vec<Process> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
        all.push(Process { pid, parent, command });
    }
    all
}
