//! A cluster with one real node and kubectl, on either runtime, with an image the tests make. Needs root.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::containerd::Containerd;
use crate::harness::*;
use crate::images::{archive, can_run, image};
use crate::kubectl::Kubectl;

/// `IMAGE` in what is applied.
pub const IMAGE: &str = "test/busybox:1";
/// For what takes seconds on an idle machine, on one that is as busy as CI's.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    Embedded,
    Containerd,
}

pub struct Cluster {
    pub server: Option<Proc>,
    pub kubectl: Kubectl,
    pub flags: Vec<String>,
    pub bridge: String,
    pub containerd: Option<Containerd>,
    /// Last, so that it is removed after all that lives in it.
    pub folder: tempfile::TempDir,
}

impl Cluster {
    /// `number`: tests that run beside each other have other addresses and names.
    pub fn start(number: u8) -> Option<Cluster> {
        Cluster::with(number, Runtime::Embedded, "")
    }

    /// `config`: more lines of the KubeletConfiguration.
    pub fn with(number: u8, runtime: Runtime, config: &str) -> Option<Cluster> {
        Cluster::with_flags(number, runtime, config, &[])
    }

    pub fn with_flags(number: u8, runtime: Runtime, config: &str, more: &[&str]) -> Option<Cluster> {
        Cluster::in_folder(folder(), number, runtime, config, more)
    }

    /// Its data directory is reached by a link, and has a space in its name.
    pub fn behind_link(number: u8) -> Option<Cluster> {
        let folder = folder();
        std::fs::create_dir(folder.path().join("real place")).unwrap();
        std::os::unix::fs::symlink("real place", folder.path().join("data")).unwrap();
        Cluster::in_folder(folder, number, Runtime::Embedded, "", &[])
    }

    fn in_folder(
        folder: tempfile::TempDir,
        number: u8,
        runtime: Runtime,
        config: &str,
        more: &[&str],
    ) -> Option<Cluster> {
        if !can_run() || !available("kubectl") {
            return None;
        }
        let data = folder.path().join("data");
        let process = std::process::id() % 60_000;
        let bridge = format!("t{process}n{number:02}");
        let range = format!("10.{}.{}.0/24", 100 + process % 100, number);
        let mut flags = vec![
            "--node-port=0".to_owned(),
            "--node-name=one".to_owned(),
            format!("--bridge={bridge}"),
            format!("--node-config={}", write_config(folder.path(), config).display()),
        ];
        // Root has a node without asking for it, but beside simulated ones.
        if more.iter().any(|flag| flag.starts_with("--simulated-nodes")) {
            flags.push("--node".to_owned());
        }
        if !more.iter().any(|flag| flag.starts_with("--pod-cidr=")) {
            flags.push(format!("--pod-cidr={range}"));
        }
        flags.extend(more.iter().map(|flag| (*flag).to_owned()));
        std::fs::create_dir_all(folder.path().join("image")).unwrap();
        let file = archive(&folder.path().join("image"), &format!("docker.io/{IMAGE}"));
        let mut containerd = None;
        match runtime {
            Runtime::Embedded => drop(image(&data, &["import", file.to_str().unwrap()])),
            Runtime::Containerd => {
                let own = folder.path().join("c");
                std::fs::create_dir(&own).unwrap();
                let started = Containerd::start(&own, &range)?;
                started.import(&file);
                flags.push(format!("--container-runtime-endpoint={}", started.endpoint()));
                containerd = Some(started);
            }
        }
        let server = start(&data, &flags);
        let kubectl = Kubectl::new(&server, folder.path())?;
        let cluster = Cluster { folder, flags, bridge, containerd, server: Some(server), kubectl };
        cluster.wait("the node has a certificate", |cluster| {
            cluster.kubectl.try_run("get --raw /api/v1/nodes/one/proxy/healthz").status.success()
        });
        Some(cluster)
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Once more, after it was stopped or killed.
    pub fn restart(&mut self) {
        self.server = Some(start(&self.data(), &self.flags));
    }

    /// By another program, which becomes it.
    pub fn restart_as(&mut self, program: Command) {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        self.server = Some(Proc::start_as(program, "up", &self.folder.path().join("data"), &flags));
    }

    /// With other lines of the KubeletConfiguration.
    pub fn restart_with(&mut self, config: &str) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
        write_config(self.folder.path(), config);
        self.restart();
    }

    pub fn apply(&self, text: &str) {
        self.kubectl.file("pods.yaml", &text.replace("IMAGE", IMAGE));
        self.kubectl.run("apply -f pods.yaml");
    }

    /// One pod with containers and other fields of its spec, in YAML's flow style.
    pub fn run_pod(&self, name: &str, spec: &str) {
        let head = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{of: test}}}}");
        self.apply(&format!("{head}\nspec: {{terminationGracePeriodSeconds: 1, {spec}}}\n"));
    }

    pub fn pod(&self, name: &str) -> Value {
        serde_json::from_str(&self.kubectl.run(&format!("get pod {name} -o json"))).unwrap()
    }

    pub fn uid(&self, pod: &str) -> String {
        self.pod(pod)["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    pub fn container(&self, pod: &str, container: &str) -> Value {
        let pod = self.pod(pod);
        let of = |list: &str| pod["status"][list].as_array().cloned().unwrap_or_default();
        let all = [of("initContainerStatuses"), of("containerStatuses"), of("ephemeralContainerStatuses")];
        all.concat().into_iter().find(|one| one["name"] == container).unwrap_or_default()
    }

    pub fn phase(&self, pod: &str) -> String {
        self.pod(pod)["status"]["phase"].as_str().unwrap_or_default().to_owned()
    }

    pub fn condition(&self, pod: &str, name: &str) -> Value {
        let pod = self.pod(pod);
        let all = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["type"] == name).unwrap_or_default()
    }

    /// `REASON: message` of each event of an object, one a line.
    fn events(&self, object: &str) -> String {
        self.kubectl.words(&[
            "get",
            "events",
            &format!("--field-selector=involvedObject.name={object}"),
            "-o",
            "jsonpath={range .items[*]}{.reason}: {.message}{\"\\n\"}{end}",
        ])
    }

    /// Events are written behind what they tell of.
    pub fn wait_for_event(&self, object: &str, told: &str) {
        self.wait(&format!("{object}: {told}"), |cluster| cluster.events(object).contains(told));
    }

    pub fn exec(&self, pod: &str, script: &str) -> Output {
        let words = ["exec", pod, "--", "/bin/busybox", "sh", "-c", script];
        let done = self.kubectl.try_words(&words);
        // kubectl 1.32 may read what is sent before it has made its streams, and then throws it away; newer ones wait for them.
        let is_lost = String::from_utf8_lossy(&done.stderr).contains("Unknown stream id");
        if is_lost { self.kubectl.try_words(&words) } else { done }
    }

    /// What a script says that must succeed.
    pub fn said(&self, pod: &str, script: &str) -> String {
        let done = self.exec(pod, script);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert!(done.status.success(), "{script}: {}{}", text(&done.stdout), text(&done.stderr));
        text(&done.stdout)
    }

    pub fn wait(&self, what: &str, mut happened: impl FnMut(&Cluster) -> bool) {
        let begun = Instant::now();
        while !happened(self) {
            if begun.elapsed() > LIMIT {
                let log = self.server.as_ref().map(Proc::log).unwrap_or_default();
                let pods = self.kubectl.run("get pods -A -o yaml");
                let events = self.kubectl.run("get events -A");
                panic!(
                    "{what} did not happen:\n{pods}\n{events}\n{}",
                    &log[log.len().saturating_sub(4000)..]
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Until all of them run, or have ended.
    pub fn wait_for(&self, phase: &str, pods: &[&str]) {
        for pod in pods {
            self.wait(&format!("{pod}: {phase}"), |cluster| cluster.phase(pod) == phase);
        }
    }

    pub fn log_folder(&self, pod: &str) -> PathBuf {
        let folders = std::fs::read_dir(self.data().join("node/logs")).unwrap();
        let of_pod = |entry: &std::fs::DirEntry| {
            entry.file_name().to_string_lossy().starts_with(&format!("default_{pod}_"))
        };
        folders.map(|entry| entry.unwrap()).find(of_pod).expect("a folder of logs").path()
    }

    pub fn log(&self, pod: &str, container: &str) -> String {
        std::fs::read_to_string(self.log_folder(pod).join(container).join("0.log")).unwrap()
    }

    /// How many pods the runtime has anything of.
    pub fn sandboxes(&self) -> usize {
        match &self.containerd {
            Some(containerd) => containerd.containers().len(),
            None => std::fs::read_dir(self.data().join("node/sandboxes")).unwrap().count(),
        }
    }

    /// How many containers the runtime has, those that ended among them.
    pub fn container_count(&self) -> usize {
        match &self.containerd {
            // Each pod has one of its own.
            Some(containerd) => containerd.containers().len() - self.pod_count(),
            None => std::fs::read_dir(self.data().join("node/containers")).unwrap().count(),
        }
    }

    fn pod_count(&self) -> usize {
        self.kubectl.run("get pods -o name").lines().count()
    }

    pub fn import(&self, archive: &Path) {
        match &self.containerd {
            Some(containerd) => containerd.import(archive),
            None => drop(image(&self.data(), &["import", archive.to_str().unwrap()])),
        }
    }

    /// Names of images, among other things.
    pub fn images(&self) -> String {
        match &self.containerd {
            Some(containerd) => containerd.images(),
            None => String::from_utf8(image(&self.data(), &["list"]).stdout).unwrap(),
        }
    }

    /// The process that holds a pod.
    pub fn helper_of(&self, pod: &str) -> u32 {
        let uid = self.uid(pod);
        match &self.containerd {
            Some(containerd) => containerd.shim_of(&uid),
            None => helper_in(&self.data(), &uid),
        }
    }

    /// A file of the kernel for the cgroup of a pod or, below it, of a container.
    pub fn cgroup_file(&self, controller: &str, pod: &str, container: Option<&str>, file: &str) -> String {
        let uid = self.uid(pod);
        let root = Path::new("/sys/fs/cgroup").join(controller).join(&self.bridge);
        let id = container.map(|name| self.container(pod, name)["containerID"].as_str().unwrap().to_owned());
        let id = id.map(|id| id.rsplit('/').next().unwrap().to_owned());
        let mut open = vec![root];
        while let Some(directory) = open.pop() {
            let path = directory.display().to_string();
            if path.contains(&uid) && id.as_deref().is_none_or(|id| path.contains(&id[..12])) {
                return std::fs::read_to_string(directory.join(file)).unwrap().trim().to_owned();
            }
            let inner = std::fs::read_dir(&directory).into_iter().flatten().flatten();
            open.extend(inner.map(|entry| entry.path()).filter(|path| path.is_dir()));
        }
        panic!("no cgroup of {pod} {container:?}")
    }
}

/// The process that holds a pod of the embedded runtime of a data directory.
pub fn helper_in(data: &Path, uid: &str) -> u32 {
    for sandbox in std::fs::read_dir(data.join("node/sandboxes")).unwrap() {
        let sandbox = sandbox.unwrap().path();
        let record = std::fs::read(sandbox.join("record")).unwrap_or_default();
        if String::from_utf8_lossy(&record).contains(uid) {
            return std::fs::read_to_string(sandbox.join("helper.pid")).unwrap().trim().parse().unwrap();
        }
    }
    panic!("no helper of {uid} in {}", data.display())
}

/// What is answered to who asks from the network of a process: the text, and its code behind a `|`.
pub fn ask_from(pid: u32, url: &str, flags: &[&str]) -> String {
    let mut curl = Command::new("nsenter");
    curl.args(["-n", "-t", &pid.to_string(), "curl", "-s", "--max-time", "30", "-w", "|%{http_code}"]);
    let output = run(curl.args(flags).arg(url));
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn start(data: &Path, flags: &[String]) -> Proc {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Proc::start_by("up", data, &flags)
}

/// Whatever else fills the disk of this machine, or eats its memory, unless a test says otherwise.
pub fn write_config(folder: &Path, more: &str) -> PathBuf {
    let config = folder.join("kubelet.yaml");
    let mut text =
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n".to_owned() + more;
    for line in [
        "evictionHard: {nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}",
        "imageGCHighThresholdPercent: 100",
    ] {
        let field = line.split(':').next().unwrap();
        if !more.contains(field) {
            text += &format!("\n{line}");
        }
    }
    std::fs::write(&config, text).unwrap();
    config
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // One that panics already must not once more.
        let well = !std::thread::panicking();
        match self.server.take() {
            Some(server) if well => server.stop(),
            other => drop(other),
        }
        let mut reset = Command::new(SETPOINT);
        let done = run(reset.args(["reset", "--yes", "--data-dir"]).arg(self.data()));
        let containerd = self.containerd.take();
        if well {
            let containers = containerd.as_ref().map(Containerd::containers).unwrap_or_default();
            drop(containerd);
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            assert_eq!(containers, Vec::<String>::new());
            assert_eq!(left_behind(&self.bridge, self.folder.path()), Vec::<String>::new());
        }
    }
}

/// What a node may have on a machine outside of its directory.
pub fn left_behind(bridge: &str, folder: &Path) -> Vec<String> {
    let mut left = Vec::new();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    left.extend(mounts.lines().filter(|line| line.contains(folder.to_str().unwrap())).map(str::to_owned));
    let interfaces = std::fs::read_dir("/sys/class/net").unwrap();
    let names = interfaces.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    left.extend(names.filter(|name| name.starts_with(bridge)));
    let tables = network::rules::tables().unwrap().into_iter();
    left.extend(tables.filter(|table| [bridge, &format!("{bridge}-guard")].contains(&table.as_str())));
    let lock = Path::new("/run/setpoint").join(format!("{bridge}.lock"));
    left.extend(lock.exists().then(|| lock.display().to_string()));
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(groups) = std::fs::read_to_string(process.path().join("cgroup")) else { continue };
        if groups.contains(&format!("/{bridge}")) {
            left.push(format!("{}: {groups}", process.path().display()));
        }
    }
    let groups = groups(bridge).into_iter().filter(|group| group.exists());
    left.extend(groups.map(|group| group.display().to_string()));
    left
}

/// Where a node's cgroup may be: in the one hierarchy of cgroup v2, or in each of v1.
pub fn groups(bridge: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    std::iter::once(root.to_owned()).chain(hierarchies).map(|root| root.join(bridge)).collect()
}

/// A program that is read while it runs; killed when dropped.
pub struct Background {
    child: std::process::Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Background {
    pub fn start(mut command: Command, input: &str) -> Background {
        use std::io::{BufRead, BufReader, Write};
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        // One that ended already does not read it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Background { child, lines }
    }

    /// The first line from now on that satisfies.
    pub fn line(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        loop {
            let line = self.lines.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no line: {what}"));
            if wanted(&line) {
                return line;
            }
        }
    }

    pub fn ends(mut self) -> bool {
        wait(&mut self.child, LIMIT).expect("it ends").success()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
