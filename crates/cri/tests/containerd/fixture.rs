//! A containerd of the test's own: its folders, socket, network and image, and nothing of it left afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use cri::{Client, Runtime, VersionRequest};
use env::Env;

use crate::daemon;

pub const IMAGE: &str = "test.local/busybox:1";

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
        let missing = if !rustix::process::geteuid().is_root() {
            Some("root")
        } else if !Path::new("/bin/busybox").exists() {
            Some("/bin/busybox")
        } else {
            daemon::missing()
        };
        if let Some(missing) = missing {
            println!("\nskipped: {test} needs {missing}");
            return None;
        }
        let (env, folder) = (Env::machine(), tempfile::tempdir().unwrap());
        // Nothing that two tests could both want but the range.
        daemon::configure(folder.path(), IMAGE, &format!("10.241.{}.0/24", std::process::id() % 256));
        let socket = daemon::socket(folder.path());
        let client = Client::new(&env, &format!("unix://{}", socket.display())).unwrap();
        let mut containerd = Containerd { env, client, process: None, folder };
        containerd.run().await;
        daemon::import(containerd.path(), &image(containerd.path()));
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
        self.process = Some(daemon::spawn(self.path()));
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
        daemon::clean_up(self.path());
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
