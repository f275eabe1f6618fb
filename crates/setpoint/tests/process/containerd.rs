//! A containerd of one test's own, with runc and CNI: its folders, socket and network, and nothing of it left afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;

use crate::harness::*;
use crate::images::archive_of;

#[path = "../../../cri/tests/containerd/daemon.rs"]
mod daemon;

/// Sandboxes run it.
const PAUSE: &str = "docker.io/test/pause:1";

pub struct Containerd {
    process: Child,
    folder: PathBuf,
}

impl Containerd {
    /// In a folder, with addresses of a range for its pods. `None`, and a line that says why, where it is not installed.
    pub fn start(folder: &Path, range: &str) -> Option<Containerd> {
        if let Some(missing) = daemon::missing() {
            skipped(&format!("{missing} is not installed"));
            return None;
        }
        daemon::configure(folder, PAUSE, range);
        let process = daemon::spawn(folder);
        let containerd = Containerd { process, folder: folder.to_owned() };
        containerd.wait();
        fs::create_dir(folder.join("pause")).unwrap();
        containerd.import(&archive_of(&folder.join("pause"), PAUSE, &["/bin/busybox", "sleep", "100000"]));
        Some(containerd)
    }

    fn wait(&self) {
        let mut asked = || run(&mut daemon::ctr(&self.folder, &["version"])).status.success();
        wait_until("containerd answers", &mut asked);
    }

    /// As a reboot leaves it: no process, no mount, nothing in `/run`.
    pub fn lose(&mut self) {
        let ids = self.containers();
        let _ = self.process.kill();
        let _ = self.process.wait();
        wait_until("no shim is left", || {
            daemon::clean_up(&self.folder);
            !daemon::processes().iter().any(|one| one.is_shim(&self.folder))
        });
        fs::remove_dir_all(self.folder.join("state")).unwrap();
        for id in ids {
            let of_runc = Path::new("/run/containerd/runc/k8s.io").join(id);
            if of_runc.exists() {
                fs::remove_dir_all(of_runc).unwrap();
            }
        }
    }

    /// Once more, after it was lost.
    pub fn start_again(&mut self) {
        self.process = daemon::spawn(&self.folder);
        self.wait();
    }

    pub fn endpoint(&self) -> String {
        format!("unix://{}", daemon::socket(&self.folder).display())
    }

    pub fn import(&self, archive: &Path) {
        daemon::import(&self.folder, archive);
    }

    /// Ids of the containers there are; those of sandboxes are among them.
    pub fn containers(&self) -> Vec<String> {
        let listed = run(&mut daemon::ctr(&self.folder, &["-n", "k8s.io", "containers", "list", "--quiet"]));
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// How many containers and sandboxes run.
    pub fn tasks(&self) -> usize {
        let listed = run(&mut daemon::ctr(&self.folder, &["-n", "k8s.io", "tasks", "list"]));
        String::from_utf8(listed.stdout).unwrap().matches("RUNNING").count()
    }

    pub fn images(&self) -> String {
        let listed = run(&mut daemon::ctr(&self.folder, &["-n", "k8s.io", "images", "list", "--quiet"]));
        String::from_utf8(listed.stdout).unwrap()
    }

    /// The process that holds the containers of a pod: the parent of each of them.
    pub fn shim_of(&self, uid: &str) -> u32 {
        let of_pod = |pid: &u32| {
            let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            groups.contains(uid)
        };
        let all = daemon::processes();
        let shim = all.iter().filter(|one| one.is_shim(&self.folder)).map(|shim| shim.pid);
        let mut holds =
            shim.filter(|shim| all.iter().any(|one| one.parent == Some(*shim) && of_pod(&one.pid)));
        holds.next().expect("a shim of the pod")
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        daemon::clean_up(&self.folder);
    }
}
