//! Clients in other languages: the programs are in `tests/clients`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::*;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn the_python_client_works() {
    // Made by scripts/test-setup.
    let python = Path::new(HERE).join("../../target/python/bin/python");
    if !python.exists() {
        return skipped("the Python kubernetes client is not installed (scripts/test-setup)");
    }
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    let program = Path::new(HERE).join("tests/clients/python/client.py");
    holds(Command::new(python).arg(program).arg(&server.kubeconfig));
}

#[test]
fn a_program_on_client_go_works() {
    let folder = folder();
    let Some(program) = go_program("go", folder.path()) else { return };
    for (name, media) in [("json", "application/json"), ("protobuf", "application/vnd.kubernetes.protobuf")] {
        let server = Proc::start(&folder.path().join(name));
        holds(Command::new(&program).arg(&server.kubeconfig).arg(media));
    }
}

/// It installs a CRD, reconciles its objects, and goes on when the CRD is deleted and created again.
#[test]
fn a_controller_runtime_manager_owns_a_custom_resource() {
    let folder = folder();
    let Some(program) = go_program("controller-runtime", folder.path()) else { return };
    let server = Proc::up(&folder.path().join("data"), &["--simulated-nodes", "1"]);
    holds(Command::new(&program).arg(&server.kubeconfig));
    server.stop();
}

/// Builds a program of `tests/clients`. `None`, and a line that says so, where that cannot be done.
fn go_program(name: &str, folder: &Path) -> Option<PathBuf> {
    if !available("go") {
        return None;
    }
    let source = Path::new(HERE).join("tests/clients").join(name);
    let modules = Command::new("go").args(["mod", "download"]).current_dir(&source).output().unwrap();
    if !modules.status.success() {
        skipped("the Go modules of a client cannot be downloaded");
        return None;
    }
    let program = folder.join(name);
    // The first build takes minutes of CPU time: not at the cost of the tests beside it.
    let mut build = Command::new("nice");
    build.args(["go", "build", "-o"]).arg(&program).arg(".").current_dir(&source);
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

fn holds(command: &mut Command) {
    let output = run(command);
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("all facts hold"), "{text}");
}
