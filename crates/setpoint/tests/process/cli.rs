//! The command line: an error is one line that says how to fix it, and nothing is damaged.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::*;

/// Runs `setpoint` with words that must be refused; the one line it wrote.
pub fn refused<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut command = Command::new(SETPOINT);
    command.args(words);
    let output = run(&mut command);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{command:?} was not refused");
    assert!(output.stdout.is_empty(), "{command:?} wrote {:?}", String::from_utf8_lossy(&output.stdout));
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines.len() == 1 && lines[0].starts_with("setpoint: "),
        "{command:?} must write one line, wrote:\n{text}"
    );
    lines[0].to_owned()
}

/// A server that must not start on this data directory.
pub fn no_server(data_dir: &Path, flags: &[&str]) -> String {
    let dir = data_dir.to_str().unwrap();
    let mut words = vec!["server", "--data-dir", dir];
    if !flags.contains(&"--listen") {
        words.extend(["--listen", "127.0.0.1:0"]);
    }
    words.extend(flags);
    refused(words)
}

fn says(line: &str, parts: &[&str]) {
    for part in parts {
        assert!(line.contains(part), "{line:?} does not say {part:?}");
    }
}

#[test]
fn wrong_flags_and_values_are_refused_in_one_line() {
    let folder = folder();
    let data = folder.path().join("data");
    let table: &[(&[&str], &[&str])] = &[
        (&["--listen", "nonsense"], &["--listen nonsense", "IP:PORT", "127.0.0.1:6443"]),
        (&["--listen", "127.0.0.1"], &["IP:PORT"]),
        (&["--listen", "192.0.2.77:7443"], &["192.0.2.77:7443", "no such address", "--listen"]),
        (&["--store", "disc"], &["--store disc", "use memory, disk, or etcd:URL"]),
        (&["--store", "etcd:"], &["etcd:http://127.0.0.1:2379"]),
        (&["--store", "etcd:ftp://a"], &["ftp://a", "http://"]),
        (
            &["--store", "etcd:http://127.0.0.1:1"],
            &["cannot use etcd at http://127.0.0.1:1", "check that it is running", "--store"],
        ),
        (&["--log", "=="], &["--log ==", "error, warn, info, debug or trace"]),
        (&["--token-file", "/no/such/file"], &["/no/such/file", "--token-file"]),
        (&["--kubeconfig", "/no/such/folder/config"], &["/no/such/folder", "--kubeconfig"]),
        (&["--datadir", "x"], &["--datadir", "--data-dir", "setpoint help"]),
        (&["--listen"], &["--listen", "value"]),
        (&["surplus"], &["surplus"]),
    ];
    for (flags, parts) in table {
        says(&no_server(&data, flags), parts);
    }
    says(&refused(["serve"]), &["serve", "setpoint help"]);
    // None of these left a data directory that would now hinder the right start.
    Proc::start(&data).stop();
}

#[test]
fn invalid_ranges_and_addresses_are_refused_in_one_line() {
    for (flag, value, parts) in [
        ("--service-cluster-ip-range", "10.96.0.0", &["--service-cluster-ip-range", "ADDRESS/BITS"][..]),
        ("--service-cluster-ip-range", "10.96.0.0/16,10.97.0.0/16", &["one of IPv4 and one of IPv6"]),
        ("--service-cluster-ip-range", "fd00::/48", &["too large", "fd00::/108"]),
        ("--service-node-port-range", "32767-30000", &["--service-node-port-range", "FIRST-LAST"]),
        ("--advertise-address", "0.0.0.0", &["--advertise-address", "192.168.1.10"]),
    ] {
        says(&refused(["server", flag, value]), parts);
    }
}

#[test]
fn without_a_command_the_help_is_shown() {
    let output = run(&mut Command::new(SETPOINT));
    assert_eq!(output.status.code(), Some(2));
    let help = run(Command::new(SETPOINT).arg("--help"));
    assert!(help.status.success());
    for command in ["up", "server", "kubeconfig", "reset", "version", "bench"] {
        assert!(String::from_utf8_lossy(&help.stdout).contains(command), "{command}");
    }
}

#[test]
fn version_names_the_program_and_the_api() {
    let output = run(Command::new(SETPOINT).arg("version"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(text.starts_with("setpoint ") && text.contains("Kubernetes API v1.36"), "{text}");
}

#[test]
fn a_second_server_on_the_data_directory_is_refused_and_the_first_goes_on() {
    let folder = folder();
    let data = folder.path().join("data");
    let server = Proc::start(&data);
    let before = std::fs::read(&server.kubeconfig).unwrap();
    says(&no_server(&data, &[]), &["already in use by pid", "stop that process"]);
    assert_eq!(std::fs::read(&server.kubeconfig).unwrap(), before, "the first one's kubeconfig stays");
    server.stop();
}

#[test]
fn an_occupied_port_is_refused_and_its_owner_keeps_its_kubeconfig() {
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    let before = std::fs::read(&server.kubeconfig).unwrap();
    let (address, shared) = (server.address(), server.kubeconfig.to_str().unwrap().to_owned());
    let line = no_server(&folder.path().join("other"), &["--listen", &address, "--kubeconfig", &shared]);
    says(&line, &[&address, "in use", "stop the process listening there", "--listen"]);
    assert_eq!(std::fs::read(&server.kubeconfig).unwrap(), before);
    server.stop();
}

#[test]
fn an_unusable_data_directory_is_refused() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    says(&no_server(&file, &[]), &["file", "--data-dir"]);
    says(&no_server(&file.join("below"), &[]), &["below", "--data-dir"]);
    says(&no_server(Path::new("/proc/setpoint"), &[]), &["/proc/setpoint", "--data-dir"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn data_of_a_newer_format_is_refused_and_left_as_it_is() {
    let folder = folder();
    let data = folder.path().join("data");
    Proc::start(&data).stop();
    let format = data.join("store/FORMAT");
    let ours = std::fs::read(&format).unwrap();
    std::fs::write(&format, "9999\n").unwrap();
    let before = contents(&data.join("store"));
    says(&no_server(&data, &[]), &["format 9999", "use the version of the program that wrote it"]);
    assert_eq!(contents(&data.join("store")), before);
    std::fs::write(&format, ours).unwrap();
    Proc::start(&data).stop();
}

#[test]
fn a_broken_line_of_the_token_file_is_named() {
    let folder = folder();
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "good,alice,1\nonly-a-token\n").unwrap();
    let line = no_server(&folder.path().join("data"), &["--token-file", tokens.to_str().unwrap()]);
    says(&line, &["tokens:2:", "token,user name,user uid", "--token-file"]);
    assert!(!line.contains("only-a-token"), "tokens are secrets");
}

#[test]
fn somebody_elses_kubeconfig_is_never_overwritten() {
    let folder = folder();
    let foreign = folder.path().join("config");
    std::fs::write(&foreign, "apiVersion: v1\nkind: Config\n").unwrap();
    let line = no_server(&folder.path().join("data"), &["--kubeconfig", foreign.to_str().unwrap()]);
    says(&line, &["was not written by setpoint", "--kubeconfig"]);
    assert_eq!(std::fs::read_to_string(&foreign).unwrap(), "apiVersion: v1\nkind: Config\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kubeconfig_appears_when_the_server_is_ready_and_is_private() {
    let folder = folder();
    let data = folder.path().join("data");
    for _ in 0..5 {
        // `start` returns at the moment the file is there.
        let server = Proc::start(&data);
        assert_eq!(call(&server.client().await, "GET", "/readyz", None).await, (200, "ok".into()));
        let mode = std::fs::metadata(&server.kubeconfig).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        server.kill();
    }
}

#[test]
fn a_later_start_replaces_the_kubeconfig_of_an_earlier_one() {
    let folder = folder();
    let data = folder.path().join("data");
    let chosen = folder.path().join("chosen");
    Proc::start(&data).stop();
    std::fs::rename(data.join("admin.kubeconfig"), &chosen).unwrap();
    let old = std::fs::read_to_string(&chosen).unwrap();
    let mut command = Command::new(SETPOINT);
    command
        .args(["up", "--node=false", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(&data)
        .arg("--kubeconfig")
        .arg(&chosen);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = String::new();
    // What it prints ends with the line that says what to type next.
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    while let Some(Ok(line)) = lines.next() {
        said.push_str(&format!("{line}\n"));
        if line.starts_with("Next:") {
            break;
        }
    }
    let new = std::fs::read_to_string(&chosen).unwrap_or_default();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(new != old && new.contains("https://127.0.0.1:"), "{new}");
    says(&said, &["ready", "https://127.0.0.1:", chosen.to_str().unwrap(), "kubectl get namespaces"]);
    assert!(!data.join("admin.kubeconfig").exists(), "only where it was asked for");
}

#[test]
fn kubeconfig_prints_what_the_server_wrote() {
    let folder = folder();
    let data = folder.path().join("data");
    let dir = data.to_str().unwrap();
    says(&refused(["kubeconfig", "--data-dir", dir]), &["no kubeconfig at", "setpoint up --data-dir"]);
    let server = Proc::start(&data);
    let output = run(Command::new(SETPOINT).args(["kubeconfig", "--data-dir", dir]));
    assert!(output.status.success());
    assert_eq!(output.stdout, std::fs::read(&server.kubeconfig).unwrap());
}

#[test]
fn kubeconfig_is_printed_wherever_the_server_wrote_it() {
    let folder = folder();
    let data = folder.path().join("data");
    let chosen = folder.path().join("chosen");
    // An earlier run's file, for another port.
    Proc::start(&data).stop();
    let mut command = Command::new(SETPOINT);
    command
        .args(["server", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(&data)
        .arg("--kubeconfig")
        .arg(&chosen);
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the server is ready", || chosen.exists());
    let output = run(Command::new(SETPOINT).args(["kubeconfig", "--data-dir"]).arg(&data));
    let wrote = std::fs::read_to_string(&chosen).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), wrote);
}

#[test]
fn reset_deletes_our_data_and_nothing_else() {
    let folder = folder();
    let data = folder.path().join("data");
    let dir = data.to_str().unwrap();
    let server = Proc::start(&data);
    says(&refused(["reset", "--data-dir", dir, "--yes"]), &["already in use by pid", "stop that process"]);
    server.stop();
    let before = contents(&data.join("store"));
    says(&refused(["reset", "--data-dir", dir]), &["--yes"]);
    assert_eq!(contents(&data.join("store")), before);
    std::fs::write(data.join("diary"), "mine").unwrap();
    // Left by a crash in the middle of a write.
    std::fs::write(data.join("etcd-revision.tmp"), "half").unwrap();
    std::fs::write(data.join("admin.kubeconfig.7.tmp"), "half").unwrap();
    let output = run(Command::new(SETPOINT).args(["reset", "--data-dir", dir, "--yes"]));
    assert!(output.status.success());
    assert_eq!(contents(&data), [("diary".to_owned(), b"mine".to_vec())]);
    says(&refused(["reset", "--data-dir", dir, "--yes"]), &["holds no setpoint data"]);
    // A new cluster can begin there.
    Proc::start(&data).stop();
}

/// The files of a folder with their bytes; the lock names its holder and may differ.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .filter(|(name, _)| name != "LOCK")
        .collect();
    files.sort();
    files
}
