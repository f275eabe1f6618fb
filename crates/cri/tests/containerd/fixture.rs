//! A containerd of the test's own: its folders, socket, network and image, and nothing of it left afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cri::{Client, Runtime, VersionRequest};
use env::Env;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

pub const IMAGE: &str = "test.local/busybox:1";
const PLUGINS: &str = "/usr/lib/cni";

pub struct Containerd {
    pub env: Env,
    pub client: Client,
    process: Option<Child>,
    /// Last, so that it is removed after all that lives in it.
    folder: tempfile::TempDir,
}

impl Containerd {
    /// `None`, and a word about why, where this cannot be tried.
    pub async fn start(test: &str) -> Option<Containerd> {
        let installed = |program: &str| Command::new(program).arg("--version").output().is_ok();
        let missing = if !rustix::process::geteuid().is_root() {
            Some("root")
        } else if !["containerd", "ctr", "runc"].into_iter().all(installed) {
            Some("containerd and runc")
        } else if !Path::new(PLUGINS).join("ptp").exists() {
            Some("containernetworking-plugins")
        } else if !Path::new("/bin/busybox").exists() {
            Some("/bin/busybox")
        } else {
            None
        };
        if let Some(missing) = missing {
            eprintln!("{test} is skipped: it needs {missing}");
            return None;
        }
        let (env, folder) = (Env::machine(), tempfile::tempdir().unwrap());
        configure(folder.path());
        let socket = folder.path().join("c.sock");
        let client = Client::new(&env, &format!("unix://{}", socket.display())).unwrap();
        let mut containerd = Containerd { env, client, process: None, folder };
        containerd.run().await;
        let archive = image(containerd.path());
        let import = ["-n", "k8s.io", "images", "import", "--snapshotter", "native"];
        let ctr = Command::new("ctr").arg("-a").arg(socket).args(import).arg(archive).output().unwrap();
        assert!(ctr.status.success(), "{}", String::from_utf8_lossy(&ctr.stderr));
        Some(containerd)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Below it are the cgroups of the test's pods.
    pub fn cgroup(&self) -> String {
        format!(
            "/setpoint-cri-{}",
            self.path().file_name().unwrap().to_string_lossy().trim_start_matches('.')
        )
    }

    /// Starts the daemon and waits until it answers.
    pub async fn run(&mut self) {
        let log = fs::File::create(self.path().join("log")).unwrap();
        let mut daemon = Command::new("containerd");
        daemon.arg("-c").arg(self.path().join("config.toml")).stdin(Stdio::null());
        daemon.stdout(log.try_clone().unwrap()).stderr(log);
        self.process = Some(daemon.spawn().unwrap());
        self.eventually("containerd answers", async |client| {
            client.version(VersionRequest::default()).await.ok().map(|_| ())
        })
        .await;
    }

    /// Ends the daemon; containers go on.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub async fn eventually<T>(&self, what: &str, look: impl AsyncFn(&Client) -> Option<T>) -> T {
        for _ in 0..1500 {
            if let Some(seen) = look(&self.client).await {
                return seen;
            }
            self.env.sleep(Duration::from_millis(40)).await;
        }
        let log = fs::read_to_string(self.path().join("log")).unwrap_or_default();
        panic!("not seen within a minute: {what}\n{log}")
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        self.kill();
        // What a test that failed left behind.
        for process in shims_and_children(self.path()) {
            let _ = kill_process(process, Signal::KILL);
        }
        for mount in mounts_below(self.path()).iter().rev() {
            let _ = unmount(mount, UnmountFlags::DETACH);
        }
        for hierarchy in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            remove_cgroup(&hierarchy.path().join(&self.cgroup()[1..]));
        }
    }
}

/// With those below it, as soon as the processes that were killed are gone.
fn remove_cgroup(path: &Path) {
    for _ in 0..1000 {
        for inner in fs::read_dir(path).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(inner.path());
        }
        if fs::remove_dir(path).is_ok() || !path.exists() {
            return;
        }
        std::thread::yield_now();
    }
}

fn shims_and_children(folder: &Path) -> Vec<Pid> {
    let socket = folder.join("c.sock").display().to_string();
    let mut shims = Vec::new();
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        if command.contains("containerd-shim") && command.contains(&socket) {
            shims.push(pid);
        }
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<i32>().ok());
        all.push((pid, parent));
    }
    let of_shims = all
        .into_iter()
        .filter(|(pid, parent)| shims.contains(pid) || parent.is_some_and(|parent| shims.contains(&parent)));
    of_shims.filter_map(|(pid, _)| Pid::from_raw(pid)).collect()
}

fn mounts_below(folder: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    points.filter(|point| point.starts_with(folder)).collect()
}

fn configure(folder: &Path) {
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
        sandbox_image = "{IMAGE}"
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
    // One pair of interfaces a pod, no bridge: nothing that two tests could both want but the range.
    let range = format!("10.241.{}.0/24", std::process::id() % 256);
    let network = format!(
        r#"{{"cniVersion":"0.4.0","name":"test","plugins":[{{"type":"ptp","ipam":{{"type":"host-local",
            "dataDir":"{at}/ipam","ranges":[[{{"subnet":"{range}"}}]]}}}}]}}"#
    );
    fs::write(folder.join("cni/10-test.conflist"), network).unwrap();
}

/// An archive as `docker save` writes it: busybox, which waits unless it is told otherwise.
fn image(folder: &Path) -> PathBuf {
    let (layer, archive) = (folder.join("layer.tar"), folder.join("image.tar"));
    let tar = |file: &Path, from: &str, names: &[&str]| {
        let tar = Command::new("tar").arg("-cf").arg(file).arg("-C").arg(from).args(names).output().unwrap();
        assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
    };
    let root = folder.join("image");
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    std::os::unix::fs::symlink("busybox", root.join("bin/sh")).unwrap();
    tar(&layer, root.to_str().unwrap(), &["bin"]);
    let sum = Command::new("sha256sum").arg(&layer).output().unwrap();
    let digest = String::from_utf8_lossy(&sum.stdout).split(' ').next().unwrap().to_owned();
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = format!(
        r#"{{"architecture":"{architecture}","os":"linux","config":{{"Entrypoint":["/bin/busybox","sleep","100000"],
            "Env":["PATH=/bin"]}},"rootfs":{{"type":"layers","diff_ids":["sha256:{digest}"]}}}}"#
    );
    fs::write(folder.join("image.json"), config).unwrap();
    let manifest = format!(r#"[{{"Config":"image.json","RepoTags":["{IMAGE}"],"Layers":["layer.tar"]}}]"#);
    fs::write(folder.join("manifest.json"), manifest).unwrap();
    tar(&archive, folder.to_str().unwrap(), &["manifest.json", "image.json", "layer.tar"]);
    archive
}
