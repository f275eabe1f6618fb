//! `setpoint up --detach` and `setpoint down`: a server in the background that says how it is reached and stopped.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::harness::*;

/// The data directory of a detached server; what a test leaves running ends with it.
struct Dir {
    folder: tempfile::TempDir,
}

impl Dir {
    fn new() -> Dir {
        Dir { folder: folder() }
    }

    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    fn run(&self, words: &[&str]) -> Output {
        // A folder of its own: nothing may depend on where it is called.
        run(Command::new(SETPOINT)
            .args(words)
            .arg("--data-dir")
            .arg(self.data())
            .current_dir(self.folder.path()))
    }

    fn up(&self, flags: &[&str]) -> Output {
        let words = ["up", "--detach", "--listen", "127.0.0.1:0", "--controllers=-*", "--node=false"];
        self.run(&[&words, flags].concat())
    }

    fn down(&self) -> Output {
        self.run(&["down"])
    }

    fn pid(&self) -> u32 {
        std::fs::read_to_string(self.data().join("setpoint.pid")).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        self.down();
    }
}

fn good(output: &Output) -> String {
    let text = said(output);
    assert!(output.status.success(), "{text}");
    text
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn detached_server_has_a_session_of_its_own_and_no_terminal() {
    let dir = Dir::new();
    // That this returns also shows that the server does not hold our output open.
    let text = good(&dir.up(&[]));
    assert!(
        text.starts_with("setpoint is ready.\n") && text.contains("  API         https://127.0.0.1:"),
        "{text}"
    );
    assert!(
        text.contains(&format!("Stop it with: {SETPOINT} down --data-dir {}", dir.data().display())),
        "{text}"
    );
    let (pid, log) = (dir.pid(), dir.data().join("log"));
    assert!(text.contains(&format!("  log         {}\n", log.display())), "{text}");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // Behind the name: state, parent, group, session, terminal.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    assert_eq!((fields[2], fields[3], fields[4]), (&*pid.to_string(), &*pid.to_string(), "0"), "{stat}");
    let output = |number: u32| std::fs::read_link(format!("/proc/{pid}/fd/{number}")).unwrap();
    assert_eq!((output(0), output(1), output(2)), ("/dev/null".into(), log.clone(), log.clone()));
    assert_eq!(mode(&log), 0o600);
}

#[test]
fn second_detached_start_says_how_to_reach_the_first() {
    let dir = Dir::new();
    let first = good(&dir.up(&["--store", "memory"]));
    let api = first.split_whitespace().find(|word| word.starts_with("https://")).unwrap();
    let pid = dir.pid();
    let text = good(&dir.up(&["--simulated-nodes", "5"]));
    for part in [&format!("(pid {pid})"), api, "export KUBECONFIG=", "down --data-dir"] {
        assert!(text.contains(part), "{text:?} does not say {part:?}");
    }
    assert_eq!(dir.pid(), pid);
    let reset = said(&dir.run(&["reset", "--yes"]));
    assert!(reset.contains(&format!("in use by pid {pid}; stop that process")), "{reset}");
    // What it says to use is there.
    let path = text.split("KUBECONFIG=").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(std::fs::read_to_string(path).unwrap().contains(api));
}

#[test]
fn down_stops_a_foreground_server_too_and_is_idempotent() {
    let dir = Dir::new();
    assert!(good(&dir.down()).starts_with("Not running"));
    let mut server = Proc::start(&dir.data());
    assert!(good(&dir.down()).starts_with("Stopped."));
    assert!(server.ended_within(PATIENCE).expect("it has ended").success());
    assert!(!dir.data().join("setpoint.pid").exists());
    assert!(good(&dir.down()).starts_with("Not running"));
}

#[test]
fn errors_of_a_detached_start_are_reported() {
    let dir = Dir::new();
    // Flags are refused before anything is started.
    let refused = dir.up(&["--log", "=="]);
    assert!(said(&refused).starts_with("setpoint: --log == is not a filter"), "{}", said(&refused));
    assert!(!dir.data().exists());

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let failed = dir.run(&["up", "--detach", "--node=false", "--listen", &address]);
    let text = said(&failed);
    assert_eq!(failed.status.code(), Some(1), "{text}");
    for part in ["did not start", "data/log:", &address, "stop the process listening there"] {
        assert!(text.contains(part), "{text:?} does not say {part:?}");
    }
    assert!(good(&dir.down()).starts_with("Not running"));
    // The log of the earlier try is not shown as this one's.
    drop(taken);
    std::fs::write(dir.data().join("admin.kubeconfig"), "somebody's own").unwrap();
    let text = said(&dir.run(&["up", "--detach", "--node=false", "--listen", "127.0.0.1:0"]));
    assert!(
        text.contains("was not written by setpoint") && !text.contains("stop the process listening"),
        "{text}"
    );
}

#[test]
fn a_stale_pid_file_is_not_taken_for_a_server() {
    let dir = Dir::new();
    good(&dir.up(&[]));
    let pid = dir.pid();
    signal(pid, "KILL");
    // A zombie without threads has closed all its files, its lock among them; whoever should bury it may take its time.
    let is_over =
        |stat: String| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']));
    let is_alone = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(true, |tasks| tasks.count() <= 1);
    let is_gone = || std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, is_over) && is_alone();
    wait_until("it is gone", is_gone);
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    std::fs::write(dir.data().join("setpoint.pid"), format!("{}\n", other.id())).unwrap();
    assert!(good(&dir.down()).starts_with("Not running"));
    assert!(other.try_wait().unwrap().is_none(), "it goes on");
    assert!(good(&dir.up(&[])).starts_with("setpoint is ready."));
    assert_ne!(dir.pid(), other.id());
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let dir = Dir::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let up = ["up", "--detach", "--listen", "127.0.0.1:0", "--controllers=-*", "--node=false"];
    for words in [&up[..], &["down"]] {
        let mut command = Command::new(SETPOINT);
        command.args(words).arg("--data-dir").arg(dir.data()).stdout(writer.try_clone().unwrap());
        let output = command.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {}", said(&output));
    }
}

#[test]
fn output_that_is_lost_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(SETPOINT).arg("version").stdout(full).output().unwrap();
    let told = said(&output);
    assert!(!output.status.success() && told.contains("cannot write to the standard output"), "{told}");
}

#[test]
fn a_server_whose_announcement_is_lost_has_not_failed() {
    let dir = Dir::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(SETPOINT);
    command.args(["server", "--listen", "127.0.0.1:0", "--controllers=-*", "--data-dir"]).arg(dir.data());
    let mut server = command.stdout(full).stderr(Stdio::null()).spawn().unwrap();
    let has_started = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        dir.data().join("admin.kubeconfig").exists()
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&server), rustix::process::Signal::TERM)
        .unwrap();
    let ended = server.wait().unwrap();
    assert!(has_started && ended.success(), "{ended}");
}

#[test]
fn an_error_that_nobody_reads_is_an_error_still() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let code = |name: &str, words: &[&str]| {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(SETPOINT);
        let ended = command.arg0(name).args(words).stderr(writer.try_clone().unwrap()).output().unwrap();
        ended.status.code()
    };
    // Never 101, a panic.
    assert_eq!(code("setpoint", &["token", "list", "--data-dir", "/nowhere"]), Some(1));
    assert_eq!(code("setpoint", &["nonsense"]), Some(2));
    assert_eq!(code("kube-apiserver", &["--nonsense"]), Some(1));
    assert_eq!(code("etcd", &["--nonsense"]), Some(2));
}
