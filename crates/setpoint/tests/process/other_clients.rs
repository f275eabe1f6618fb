//! Clients in other languages: the programs are in `tests/clients`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::harness::*;
use crate::kubectl::{Kubectl, holds as holds_parts};

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

/// Its defaulter, its validator and a handler by hand: what they answer comes to the client, and what they are asked to them.
#[test]
fn a_webhook_server_of_controller_runtime_decides_about_objects() {
    let folder = folder();
    let Some(program) = go_package("controller-runtime", "./webhook", folder.path()) else { return };
    let server = Proc::start(&folder.path().join("data"));
    holds(Command::new(&program).arg(&server.kubeconfig));
}

/// Python's own HTTPS server, which speaks HTTP/1.1.
#[test]
fn a_webhook_server_in_python_decides_about_objects() {
    let python = Path::new(HERE).join("../../target/python/bin/python");
    if !python.exists() || !available("openssl") {
        return skipped("the Python kubernetes client or openssl is not installed (scripts/test-setup)");
    }
    let folder = folder();
    let file = |name: &str| folder.path().join(name);
    let mut certificate = Command::new("openssl");
    certificate.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]);
    certificate.args(["-subj", "/CN=webhook", "-addext", "subjectAltName=IP:127.0.0.1"]);
    let made = run(certificate.arg("-keyout").arg(file("key.pem")).arg("-out").arg(file("certificate.pem")));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let server = Proc::start(&file("data"));
    let program = Path::new(HERE).join("tests/clients/python/webhook.py");
    let mut webhook = Command::new(python);
    webhook.arg(program).arg(&server.kubeconfig).arg(file("certificate.pem")).arg(file("key.pem"));
    holds(&mut webhook);
}

/// Kubernetes' own sample-controller as it is published: CRD, object, status, and a Deployment that is always there.
#[test]
fn the_sample_controller_of_kubernetes_runs_unchanged() {
    let folder = folder();
    let Some((source, program)) = sample_controller(folder.path()) else { return };
    let server = Proc::up(&folder.path().join("data"), &["--simulated-nodes", "1"]);
    let Some(k) = Kubectl::new(&server, folder.path()) else { return };
    let mut controller = Command::new(program);
    controller.arg(format!("--kubeconfig={}", server.kubeconfig.display())).stderr(Stdio::null());
    let running = Running(controller.spawn().unwrap());
    // It is there first, and waits for its resource.
    let examples = source.join("artifacts/examples");
    let file = |name: &str| examples.join(name).display().to_string();
    for _round in 0..2 {
        k.run(&format!("create -f {}", file("crd-status-subresource.yaml")));
        k.run("wait --for=condition=Established crd/foos.samplecontroller.k8s.io --timeout=60s");
        k.run(&format!("create -f {}", file("example-foo.yaml")));
        let available = "wait --for=jsonpath={.status.availableReplicas}=1 foo/example-foo --timeout=90s";
        wait_until("the Foo is there", || k.try_run("get foo example-foo").status.success());
        k.run(available);
        let uid = || k.run("get deployment example-foo -o jsonpath={.metadata.uid}");
        let first = uid();
        k.run("delete deployment example-foo");
        wait_until("the Deployment is made again", || {
            let again = k.try_run("get deployment example-foo -o jsonpath={.metadata.uid}");
            again.status.success() && again.stdout != first.as_bytes()
        });
        k.run(available);
        k.words(&["patch", "foo", "example-foo", "--type=merge", "-p", r#"{"spec":{"replicas":3}}"#]);
        k.run("wait --for=jsonpath={.status.availableReplicas}=3 foo/example-foo --timeout=90s");
        holds_parts(&k.run("get events"), &["Synced", "Foo synced successfully"]);
        // What a Foo owns goes with it.
        k.run("delete foo example-foo");
        k.run("wait --for=delete deployment/example-foo --timeout=90s");
        k.run("delete crd foos.samplecontroller.k8s.io --timeout=60s");
    }
    drop(running);
    server.stop();
}

/// Ends with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Its source and its program. `None`, and a line that says so, where there is none.
fn sample_controller(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    if !available("go") || !available("kubectl") {
        return None;
    }
    let mut download = Command::new("go");
    download.args(["mod", "download", "-json", "k8s.io/sample-controller@v0.36.4"]).current_dir(folder);
    let said = download.output().unwrap();
    let module: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
    let Some(cached) = module["Dir"].as_str() else {
        skipped("the Go module of the sample-controller cannot be downloaded");
        return None;
    };
    // Go does not build in its cache.
    let source = folder.join("sample-controller");
    run(Command::new("cp").args(["-r", "--no-preserve=mode", cached]).arg(&source));
    let program = folder.join("program");
    let mut build = Command::new("nice");
    build.args(["go", "build", "-buildvcs=false", "-o"]).arg(&program).arg(".").current_dir(&source);
    let built = build.output().unwrap();
    if !built.status.success() {
        skipped("the sample-controller cannot be built: its modules are missing");
        return None;
    }
    Some((source, program))
}

/// Builds a program of `tests/clients`. `None`, and a line that says so, where that cannot be done.
pub fn go_program(name: &str, folder: &Path) -> Option<PathBuf> {
    go_package(name, ".", folder)
}

/// The same for one of several in a module.
fn go_package(name: &str, package: &str, folder: &Path) -> Option<PathBuf> {
    if !available("go") {
        return None;
    }
    let source = Path::new(HERE).join("tests/clients").join(name);
    let modules = Command::new("go").args(["mod", "download"]).current_dir(&source).output().unwrap();
    if !modules.status.success() {
        skipped("the Go modules of a client cannot be downloaded");
        return None;
    }
    let program = folder.join(name.replace('/', "-"));
    // The first build takes minutes of CPU time: not at the cost of the tests beside it.
    let mut build = Command::new("nice");
    build.args(["go", "build", "-o"]).arg(&program).arg(package).current_dir(&source);
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

pub fn holds(command: &mut Command) {
    let output = run(command);
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("all facts hold"), "{text}");
}
