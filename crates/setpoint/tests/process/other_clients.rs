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
    if !available("go") {
        return;
    }
    let folder = folder();
    let source: PathBuf = Path::new(HERE).join("tests/clients/go");
    let modules = Command::new("go").args(["mod", "download"]).current_dir(&source).output().unwrap();
    if !modules.status.success() {
        return skipped("the Go modules of client-go cannot be had");
    }
    let program = folder.path().join("client");
    // The first build takes minutes of CPU time: not at the cost of the tests beside it.
    let mut build = Command::new("nice");
    build.args(["go", "build", "-o"]).arg(&program).arg(".").current_dir(&source);
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for (name, media) in [("json", "application/json"), ("protobuf", "application/vnd.kubernetes.protobuf")] {
        let server = Proc::start(&folder.path().join(name));
        holds(Command::new(&program).arg(&server.kubeconfig).arg(media));
    }
}

fn holds(command: &mut Command) {
    let output = run(command);
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("all facts hold"), "{text}");
}
