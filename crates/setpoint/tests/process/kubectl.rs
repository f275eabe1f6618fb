//! kubectl, whichever version is installed, through everyday commands.

use std::path::Path;
use std::process::{Command, Output};

use crate::harness::*;

/// kubectl with a home of its own, so that it caches nothing of ours in the user's.
pub struct Kubectl {
    kubeconfig: std::path::PathBuf,
    home: std::path::PathBuf,
}

impl Kubectl {
    /// `None`, and a line that says so, where there is no kubectl.
    pub fn new(server: &Proc, home: &Path) -> Option<Kubectl> {
        available("kubectl").then(|| Kubectl { kubeconfig: server.kubeconfig.clone(), home: home.to_owned() })
    }

    pub fn try_run(&self, words: &str) -> Output {
        self.try_words(&words.split(' ').collect::<Vec<_>>())
    }

    /// Words that may hold spaces.
    pub fn try_words(&self, words: &[&str]) -> Output {
        run(&mut self.command(words))
    }

    /// Not started yet.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command
            .args(words)
            .current_dir(&self.home)
            .env("HOME", &self.home)
            .env("KUBECONFIG", &self.kubeconfig)
            // The one edit that a test makes.
            .env("KUBE_EDITOR", "sed -i s/v20/v21/");
        command
    }

    pub fn words(&self, words: &[&str]) -> String {
        let output = self.try_words(words);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {words:?}: {out}{err}");
        out.into_owned()
    }

    /// What it prints; it must succeed.
    pub fn run(&self, words: &str) -> String {
        self.words(&words.split(' ').collect::<Vec<_>>())
    }

    /// What it complains; it must fail.
    pub fn fails(&self, words: &str) -> String {
        let output = self.try_run(words);
        assert!(!output.status.success(), "kubectl {words} must fail");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// A file in its folder.
    pub fn file(&self, name: &str, text: &str) {
        std::fs::write(self.home.join(name), text).unwrap();
    }
}

pub fn with_kubectl(test: impl FnOnce(Kubectl, Proc)) {
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    if let Some(kubectl) = Kubectl::new(&server, folder.path()) {
        test(kubectl, server);
    }
}

pub fn holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

pub const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: busybox, ports: [{containerPort: 80}]}]
";

#[test]
fn get_componentstatuses_shows_the_control_plane() {
    with_kubectl(|k, _server| {
        let shown = k.run("get cs");
        let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["NAME", "STATUS", "MESSAGE", "ERROR"]);
        assert_eq!(rows[1..3], ["controller-manager", "etcd-0"].map(|name| vec![name, "Healthy", "ok"]));
        // Servers of these tests run the controllers of accounts alone.
        assert_eq!(rows[3][..2], ["scheduler", "Unhealthy"]);
        holds(&k.fails("get cs etcd-7"), &["NotFound", "componentstatus \"etcd-7\" not found"]);
    });
}

#[test]
fn an_object_goes_through_every_command() {
    with_kubectl(|k, _server| {
        k.file("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: '1'}\n");
        holds(&k.run("create -f map.yaml"), &["configmap/m created"]);
        holds(&k.fails("create -f map.yaml"), &["AlreadyExists", "configmaps \"m\" already exists"]);
        holds(&k.run("label configmap m tier=front"), &["configmap/m labeled"]);
        holds(&k.fails("label configmap m tier=back"), &["--overwrite"]);
        holds(&k.run("label configmap m tier=back --overwrite"), &["configmap/m labeled"]);
        holds(&k.run("annotate configmap m note=x"), &["configmap/m annotated"]);
        for (kind, patch) in [
            ("merge", r#"{"data":{"b":"2"}}"#),
            (
                "json",
                r#"[{"op":"add","path":"/data/c","value":"3"},{"op":"test","path":"/data/b","value":"2"}]"#,
            ),
            ("strategic", r#"{"data":{"a":null,"d":"4"}}"#),
        ] {
            holds(
                &k.words(&["patch", "configmap", "m", "--type", kind, "-p", patch]),
                &["configmap/m patched"],
            );
        }
        let data = k.words(&["get", "configmap", "m", "-o", "jsonpath={.data}"]);
        assert_eq!(data, r#"{"b":"2","c":"3","d":"4"}"#);
        holds(&k.words(&["patch", "configmap", "m", "-p", "{}"]), &["(no change)"]);

        holds(&k.run("get configmap m"), &["NAME", "m "]);
        holds(&k.run("get configmap m -o wide"), &["NAME"]);
        holds(&k.run("get configmap m -o yaml"), &["kind: ConfigMap", "tier: back", "note: x"]);
        holds(&k.run("get configmap m -o json"), &["\"kind\": \"ConfigMap\""]);
        let columns =
            k.run("get configmap -l tier=back -o custom-columns=N:.metadata.name,B:.data.b --no-headers");
        assert_eq!(columns.split_whitespace().collect::<Vec<_>>(), ["m", "2"]);
        assert_eq!(k.run("get configmap --field-selector metadata.name=m -o name").trim(), "configmap/m");
        holds(&k.run("get configmap m --show-labels"), &["tier=back"]);
        holds(&k.run("describe configmap m"), &["Name:", "tier=back"]);
        holds(&k.fails("get configmap missing"), &["NotFound", "configmaps \"missing\" not found"]);

        let full = k.run("get configmap m -o json");
        k.file("full.json", &full.replace("\"b\": \"2\"", "\"b\": \"20\""));
        holds(&k.run("replace -f full.json"), &["configmap/m replaced"]);
        holds(&k.fails("replace -f full.json"), &["Conflict"]);
        k.words(&["patch", "configmap", "m", "-p", r#"{"data":{"edited":"v20"}}"#]);
        holds(&k.run("edit configmap m"), &["configmap/m edited"]);
        assert_eq!(k.run("get configmap m -o jsonpath={.data.edited}"), "v21");
        holds(&k.run("delete configmap m"), &["deleted"]);
        k.run("wait --for=delete configmap/m --timeout=10s");
        holds(&k.fails("get configmap m"), &["not found"]);
    });
}

#[test]
fn apply_diff_and_scale_work() {
    with_kubectl(|k, _server| {
        k.file("web.yaml", DEPLOYMENT);
        holds(&k.run("apply -f web.yaml"), &["deployment.apps/web created"]);
        holds(&k.run("apply -f web.yaml"), &["deployment.apps/web unchanged"]);
        assert_eq!(k.run("get deployment web -o jsonpath={.metadata.generation}"), "1");
        k.file("web2.yaml", &DEPLOYMENT.replace("image: busybox", "image: busybox:2"));
        holds(&k.run("apply -f web2.yaml --dry-run=server"), &["configured (server dry run)"]);
        let difference = k.try_run("diff -f web2.yaml");
        assert_eq!(difference.status.code(), Some(1), "{}", String::from_utf8_lossy(&difference.stderr));
        holds(&String::from_utf8_lossy(&difference.stdout), &["+", "busybox:2"]);
        holds(&k.run("apply -f web2.yaml"), &["deployment.apps/web configured"]);
        assert_eq!(k.try_run("diff -f web2.yaml").status.code(), Some(0));
        holds(&k.run("scale deployment web --replicas=3"), &["deployment.apps/web scaled"]);
        holds(&k.fails("scale deployment web --current-replicas=7 --replicas=1"), &["7"]);
        let now = k.run("get deployment web -o jsonpath={.spec.replicas}/{.metadata.generation}");
        assert_eq!(now, "3/3");
        holds(
            &k.run("get --raw /apis/apps/v1/namespaces/default/deployments/web/scale"),
            &["\"replicas\":3"],
        );
        k.file("wrong.yaml", &DEPLOYMENT.replace("replicas: 1", "replicas: one\n  wrong: 1"));
        let refused = k.fails("apply -f wrong.yaml");
        assert!(refused.contains("wrong") || refused.contains("replicas"), "{refused}");
        holds(&k.run("delete -f web.yaml"), &["deleted"]);
    });
}

#[test]
fn the_api_describes_itself() {
    with_kubectl(|k, _server| {
        holds(&k.run("api-versions"), &["apps/v1\n", "rbac.authorization.k8s.io/v1\n", "v1\n"]);
        let resources = k.run("api-resources");
        holds(&resources, &["configmaps", "deploy", "horizontalpodautoscalers", "customresourcedefinitions"]);
        holds(&k.run("explain deployment.spec.replicas"), &["replicas", "integer"]);
        holds(&k.run("explain pod --recursive"), &["containers", "nodeName"]);
        holds(&k.run("version"), &["Server Version: v1.36"]);
        holds(&k.run("cluster-info"), &["https://127.0.0.1:"]);
        assert_eq!(k.run("get --raw /readyz").trim(), "ok");
        holds(&k.run("get --raw /readyz?verbose"), &["[+]ping ok", "readyz check passed"]);
        holds(&k.run("get --raw /version"), &["v1.36"]);
        holds(&k.run("get all -A"), &[]);
    });
}

#[test]
fn roles_take_effect_at_once() {
    with_kubectl(|k, _server| {
        assert_eq!(k.run("auth can-i create pods").trim(), "yes");
        let can = |words: &str| {
            let output = k.try_run(&format!("auth can-i {words} --as alice"));
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        assert_eq!(can("get pods"), "no");
        k.run("create role reader --verb=get,list --resource=pods");
        k.run("create rolebinding alice-reads --role=reader --user=alice");
        assert_eq!(can("get pods"), "yes");
        assert_eq!(can("delete pods"), "no");
        assert_eq!(can("get pods -n kube-system"), "no");
        k.run("create clusterrole node-reader --verb=get --resource=nodes");
        k.run("create clusterrolebinding alice-nodes --clusterrole=node-reader --user=alice");
        assert_eq!(can("get nodes"), "yes");
        holds(&k.run("get pods --as alice"), &[]);
        holds(
            &k.fails("get secrets --as alice"),
            &["Forbidden", "User \"alice\" cannot list resource \"secrets\""],
        );
        k.run("delete rolebinding alice-reads");
        assert_eq!(can("get pods"), "no");
        holds(&k.run("auth can-i --list --as alice"), &["nodes", "[get]"]);
        holds(&k.run("auth whoami"), &["kubernetes-admin", "system:masters"]);
        // What a role may not grant to itself.
        k.run("create role maker --verb=create,bind --resource=roles.rbac.authorization.k8s.io");
        k.run("create rolebinding alice-makes --role=maker --user=alice");
        let refused = k.fails("create role more --verb=delete --resource=secrets --as alice");
        holds(&refused, &["attempting to grant RBAC permissions not currently held"]);
    });
}

#[test]
fn typed_creates_work() {
    with_kubectl(|k, _server| {
        k.run("create namespace team");
        k.run("create configmap c --from-literal=a=1 -n team");
        k.run("create secret generic s --from-literal=password=x -n team");
        k.run("create serviceaccount robot -n team");
        k.run("create deployment d --image=busybox --replicas=2 -n team");
        k.run("create job j --image=busybox -n team -- true");
        k.run("create service clusterip svc --tcp=80 -n team");
        k.run("run pod --image=busybox -n team");
        assert_eq!(k.run("get secret s -n team -o jsonpath={.data.password}"), "eA==");
        assert_eq!(k.run("get deployment d -n team -o jsonpath={.spec.replicas}"), "2");
        assert_eq!(k.run("get pod pod -n team -o jsonpath={.spec.containers[0].image}"), "busybox");
        k.run("delete pod,job,deployment,service,configmap --all -n team");
        assert_eq!(k.run("get pod,job,deployment,service -n team -o name"), "");
        // The server's own comes back.
        assert_eq!(k.run("get configmap c -n team -o name --ignore-not-found"), "");
    });
}

#[test]
fn a_watch_prints_changes_as_they_come() {
    with_kubectl(|k, server| {
        k.file("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n");
        let log = std::fs::File::create(k.home.join("watch")).unwrap();
        let mut watching = Command::new("kubectl")
            .args(["get", "configmaps", "--watch", "--output-watch-events", "--no-headers"])
            .env("HOME", &k.home)
            .env("KUBECONFIG", &server.kubeconfig)
            .stdout(log)
            .spawn()
            .unwrap();
        let printed = || std::fs::read_to_string(k.home.join("watch")).unwrap();
        // Until the watch is open the first ones may already be in its list; both show as ADDED.
        k.run("create -f map.yaml");
        let result = std::panic::catch_unwind(|| {
            wait_until("ADDED is printed", || printed().contains("ADDED"));
            k.run("label configmap m a=b");
            wait_until("MODIFIED is printed", || printed().contains("MODIFIED"));
            k.run("delete configmap m");
            wait_until("DELETED is printed", || printed().contains("DELETED"));
        });
        let _ = watching.kill();
        let _ = watching.wait();
        if let Err(panic) = result {
            eprintln!("kubectl printed: {}", printed());
            std::panic::resume_unwind(panic);
        }
    });
}
