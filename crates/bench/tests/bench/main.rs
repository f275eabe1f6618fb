//! The whole command against a small server over real TLS: what it measures, what it leaves behind, what it refuses.
// Clippy knows tests by their attribute and does not see that the helpers here serve nothing else.
#![allow(clippy::unwrap_used)]

mod server;

use std::path::{Path, PathBuf};

use server::Server;

/// Runs `setpoint bench` in this process and returns the JSON file's text.
fn bench(folder: &Path, server: &str, arguments: &[&str]) -> Result<String, bench::BenchError> {
    let kubeconfig = write_kubeconfig(folder, server);
    let json = folder.join("figures.json");
    let mut line =
        vec!["bench", "--kubeconfig", kubeconfig.to_str().unwrap(), "--json", json.to_str().unwrap()];
    line.extend(arguments);
    bench::run(&bench::command().try_get_matches_from(line).unwrap())?;
    Ok(std::fs::read_to_string(json).unwrap())
}

fn write_kubeconfig(folder: &Path, server: &str) -> PathBuf {
    let authority = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ca.crt");
    let path = folder.join("kubeconfig");
    let text = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\nclusters:\n- name: k\n  \
         cluster:\n    server: {server}\n    certificate-authority: {}\nusers:\n- name: u\n  user:\n    token: secret\n",
        authority.display()
    );
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn every_scenario_measures_without_failures_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start();
    let pid = std::process::id().to_string();
    let figures =
        bench(folder.path(), &server.url(), &["--seconds", "1", "--warmup", "0", "--pids", &pid]).unwrap();
    for name in ["create", "create-sequential", "create-pods", "get", "list", "watch", "watch-paced", "patch"]
    {
        let row = figures.lines().find(|line| line.contains(&format!("\"scenario\":\"{name}\""))).unwrap();
        assert!(row.contains("\"failures\":{}"), "{row}");
        assert!(!row.contains("\"requests\":0,"), "{row}");
        assert!(!row.contains("\"server_cpu_nanos\":null"), "{row}");
        assert_eq!(row.contains("\"lag_nanos\":{\"p50\":null"), !name.starts_with("watch"), "{row}");
        assert_eq!(row.contains("\"events\":0,"), !name.starts_with("watch"), "{row}");
    }
    assert_eq!(server.paths(), Vec::<String>::new());
}

#[test]
fn pods_are_counted_when_all_are_bound_and_the_made_nodes_go() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start();
    let pid = std::process::id().to_string();
    let figures = bench(folder.path(), &server.url(), &["--pids", &pid, "schedule"]).unwrap();
    let row = figures.lines().find(|line| line.contains("\"scenario\":\"schedule\"")).unwrap();
    assert!(row.contains("\"failures\":{}") && row.contains("\"requests\":5000,"), "{row}");
    assert_eq!(server.paths(), Vec::<String>::new());
}

const OVERLOAD: [&str; 7] = ["--seconds", "2", "--users", "4", "--connections", "24", "overload"];

#[test]
fn overload_reports_probes_and_load_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start();
    let pid = std::process::id().to_string();
    let figures = bench(folder.path(), &server.url(), &[&["--pids", &pid], &OVERLOAD[..]].concat()).unwrap();
    assert!(figures.contains("\"failures\":{}"), "{figures}");
    for part in [
        "24 connections of 4 service accounts",
        "/readyz: p50",
        "an administrator's GET: p50",
        "a node's Lease",
    ] {
        assert!(figures.contains(part), "{part}: {figures}");
    }
    for part in ["list: ", "create: ", "delete: ", "watch: 8 served", "nodes: ", "resident: "] {
        assert!(figures.contains(part), "{part}: {figures}");
    }
    assert!(!figures.contains("list: 0 served") && !figures.contains("create: 0 served"), "{figures}");
    assert_eq!(server.paths(), Vec::<String>::new());
}

#[test]
fn refusals_are_counted_by_whether_they_have_retry_after() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_busy();
    let figures = bench(folder.path(), &server.url(), &OVERLOAD).unwrap();
    let of = |kind: &str| {
        let rest = figures.split(&format!("{kind}: 0 served")).nth(1).unwrap_or_else(|| panic!("{figures}"));
        rest.split('"').next().unwrap_or_default().to_owned()
    };
    let list = of("list");
    assert!(!list.contains(" 0 refused with Retry-After") && list.contains(" 0 without"), "{list}");
    let create = of("create");
    assert!(create.contains(" 0 refused with Retry-After") && !create.contains(" 0 without"), "{create}");
}

#[test]
fn comparison_measures_both_servers_and_finalizes_a_stuck_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (Server::start(), Server::start_without_controllers());
    let other_folder = tempfile::tempdir().unwrap();
    let against = write_kubeconfig(other_folder.path(), &other.url());
    let arguments = [
        "--seconds",
        "1",
        "--warmup",
        "0",
        "--rounds",
        "2",
        "--against",
        against.to_str().unwrap(),
        "create",
    ];
    let figures = bench(folder.path(), &one.url(), &arguments).unwrap();
    assert!(figures.contains("\"target\":\"A\"") && figures.contains("\"target\":\"B\""), "{figures}");
    assert_eq!(figures.matches("\"round\":2").count(), 2, "two rounds of both: {figures}");
    assert_eq!((one.paths(), other.paths()), (Vec::new(), Vec::new()));
}

#[test]
fn server_on_another_machine_is_refused_unless_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let error = bench(folder.path(), "https://192.0.2.1:6443", &["create"]).unwrap_err();
    assert!(error.to_string().contains("--allow-remote"), "{error}");
}

#[test]
fn refused_set_up_says_what_the_server_answered() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_refusing();
    let error = bench(folder.path(), &server.url(), &["create"]).unwrap_err();
    assert!(matches!(error, bench::BenchError::Refused { status: 403, .. }), "{error}");
}

#[test]
fn an_unreachable_server_is_named() {
    let folder = tempfile::tempdir().unwrap();
    // Port 1 of the loopback is nobody's.
    let error = bench(folder.path(), "https://127.0.0.1:1", &["create"]).unwrap_err();
    assert!(matches!(error, bench::BenchError::Connect { .. }), "{error}");
}
