//! `kubectl apply --server-side`, and the field managers that kubectl's other commands leave.

use serde_json::{Value, json};

use crate::harness::*;
use crate::kubectl::{DEPLOYMENT, Kubectl, holds, with_kubectl};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn object(k: &Kubectl, what: &str) -> Value {
    serde_json::from_str(&k.run(&format!("get {what} -o json --show-managed-fields"))).unwrap()
}

/// The managers of an object, `name operation subresource`, sorted.
fn managers(k: &Kubectl, what: &str) -> Vec<String> {
    let entries = object(k, what)["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or("-").to_owned();
    let names = ["manager", "operation", "subresource"];
    let mut out: Vec<String> = entries.iter().map(|e| names.map(|name| text(e, name)).join(" ")).collect();
    out.sort();
    out
}

/// What a manager owns, whatever else it is called there.
fn fields(k: &Kubectl, what: &str, manager: &str) -> Value {
    let entries = object(k, what)["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let found = entries.into_iter().find(|entry| entry["manager"] == manager);
    found.unwrap_or_else(|| panic!("{manager} manages nothing of {what}"))["fieldsV1"].clone()
}

/// What it prints, however it ends.
fn output(k: &Kubectl, words: &str) -> (Option<i32>, String) {
    let output = k.try_run(words);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn objects_are_applied_by_the_server() {
    with_kubectl(|k, _server| {
        k.file("web.yaml", DEPLOYMENT);
        k.file("three.yaml", &DEPLOYMENT.replace("replicas: 1", "replicas: 3"));
        holds(&k.run("apply --server-side -f web.yaml"), &["deployment.apps/web serverside-applied"]);
        assert_eq!(managers(&k, "deployment/web"), ["kubectl Apply -"]);
        assert_eq!(
            object(&k, "deployment/web")["metadata"]["annotations"],
            Value::Null,
            "no last-applied-configuration"
        );
        let version = |k: &Kubectl| object(k, "deployment/web")["metadata"]["resourceVersion"].clone();
        let before = version(&k);
        holds(&k.run("apply --server-side -f web.yaml"), &["serverside-applied"]);
        assert_eq!(version(&k), before, "the same again writes nothing");
        holds(
            &k.run("apply --server-side -f three.yaml --dry-run=server"),
            &["serverside-applied (server dry run)"],
        );
        assert_eq!(version(&k), before);

        let refused = k.fails("apply --server-side -f three.yaml --field-manager=other");
        holds(
            &refused,
            &[
                "error: Apply failed with 1 conflict: conflict with \"kubectl\": .spec.replicas",
                "Please review the fields above--they currently have other managers.",
                "command with the `--force-conflicts` flag.",
            ],
        );
        holds(
            &k.run("apply --server-side -f three.yaml --field-manager=other --force-conflicts"),
            &["serverside-applied"],
        );
        assert_eq!(managers(&k, "deployment/web"), ["kubectl Apply -", "other Apply -"]);
        assert_eq!(fields(&k, "deployment/web", "kubectl")["f:spec"].get("f:replicas"), None);
        assert_eq!(fields(&k, "deployment/web", "other")["f:spec"]["f:replicas"], json!({}));

        // What is not named any more goes, unless another manager names it.
        k.file(
            "bare.yaml",
            &DEPLOYMENT
                .replace("replicas: 1", "minReadySeconds: 5")
                .replace(", ports: [{containerPort: 80}]", ""),
        );
        k.run("apply --server-side -f bare.yaml");
        let web = object(&k, "deployment/web");
        assert_eq!((&web["spec"]["replicas"], &web["spec"]["minReadySeconds"]), (&json!(3), &json!(5)));
        assert!(
            web["spec"]["template"]["spec"]["containers"][0]["ports"].is_array(),
            "the other still names them"
        );
        k.file(
            "less.yaml",
            &DEPLOYMENT.replace("  replicas: 1\n", "").replace(", ports: [{containerPort: 80}]", ""),
        );
        for manager in ["kubectl", "other"] {
            k.run(&format!("apply --server-side -f less.yaml --field-manager={manager}"));
        }
        let web = object(&k, "deployment/web");
        assert_eq!(web["spec"].get("minReadySeconds"), None);
        assert_eq!(web["spec"]["template"]["spec"]["containers"][0].get("ports"), None);
        assert_eq!(web["spec"]["replicas"], 1, "the default again");

        let shown = k.run("get deployment web -o yaml --show-managed-fields");
        holds(
            &shown,
            &["managedFields:", "fieldsType: FieldsV1", "f:template:", "manager: other", "operation: Apply"],
        );
        assert!(!k.run("get deployment web -o yaml").contains("managedFields"));
        k.file("unknown.yaml", &DEPLOYMENT.replace("replicas: 1", "replica: 1"));
        holds(
            &k.fails("apply --server-side -f unknown.yaml"),
            &[".spec.replica: field not declared in schema"],
        );
    });
}

#[test]
fn client_side_apply_migrates_to_the_server() {
    with_kubectl(|k, _server| {
        k.file("web.yaml", DEPLOYMENT);
        k.run("apply -f web.yaml");
        assert_eq!(managers(&k, "deployment/web"), ["kubectl-client-side-apply Update -"]);
        holds(&k.run("apply view-last-applied deployment/web"), &["replicas: 1", "image: busybox"]);
        k.file(
            "five.yaml",
            &DEPLOYMENT.replace("replicas: 1", "replicas: 5").replace(", ports: [{containerPort: 80}]", ""),
        );
        // Kubectl first turns what it managed from the client's side into an apply: nothing conflicts, and what was given up goes.
        holds(&k.run("apply --server-side -f five.yaml"), &["serverside-applied"]);
        let web = object(&k, "deployment/web");
        // The annotation it gives a manager of its own, so that no apply removes it.
        let migrated = ["kubectl Apply -", "kubectl-last-applied Apply -"];
        assert_eq!(managers(&k, "deployment/web"), migrated, "{web}");
        assert_eq!(web["spec"]["replicas"], 5);
        assert_eq!(web["spec"]["template"]["spec"]["containers"][0].get("ports"), None);
        let last: Value =
            serde_json::from_str(web["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap()).unwrap();
        assert_eq!(last["spec"]["replicas"], 5, "the annotation follows");

        // And back again.
        k.file("six.yaml", &DEPLOYMENT.replace("replicas: 1", "replicas: 6"));
        holds(&k.run("apply -f six.yaml"), &["deployment.apps/web configured"]);
        assert_eq!(object(&k, "deployment/web")["spec"]["replicas"], 6);
        assert_eq!(managers(&k, "deployment/web"), ["kubectl Apply -", "kubectl-client-side-apply Update -"]);
        holds(&k.run("apply view-last-applied deployment/web"), &["replicas: 6"]);
        k.file("seven.yaml", &DEPLOYMENT.replace("replicas: 1", "replicas: 7"));
        k.run("apply --server-side -f seven.yaml");
        assert_eq!(managers(&k, "deployment/web"), migrated);
        assert_eq!(object(&k, "deployment/web")["spec"]["replicas"], 7);

        // Another manager finds the fields taken.
        let refused = k.fails("apply --server-side -f six.yaml --field-manager=ci");
        holds(&refused, &["conflict with \"kubectl\": .spec.replicas"]);
    });
}

#[test]
fn diff_asks_the_server() {
    with_kubectl(|k, _server| {
        k.file("web.yaml", DEPLOYMENT);
        k.file("two.yaml", &DEPLOYMENT.replace("replicas: 1", "replicas: 2"));
        assert_eq!(output(&k, "diff --server-side -f web.yaml").0, Some(1), "it is not there yet");
        k.run("apply --server-side -f web.yaml");
        assert_eq!(output(&k, "diff --server-side -f web.yaml"), (Some(0), String::new()));
        let (code, text) = output(&k, "diff --server-side -f two.yaml");
        assert_eq!(code, Some(1), "{text}");
        holds(&text, &["-  replicas: 1", "+  replicas: 2"]);
        assert!(!text.contains("managedFields"), "{text}");
        let (_, text) = output(
            &k,
            "diff --server-side --show-managed-fields --field-manager=ci --force-conflicts -f two.yaml",
        );
        holds(&text, &["+    manager: ci", "+  replicas: 2"]);
        let (code, text) = output(&k, "diff --server-side --field-manager=ci -f two.yaml");
        holds(&text, &["conflict with \"kubectl\": .spec.replicas"]);
        assert!(code > Some(1), "a conflict is an error, not a difference");
        let (code, text) = output(&k, "diff -f two.yaml");
        assert_eq!(code, Some(1), "{text}");
        holds(&text, &["-  replicas: 1", "+  replicas: 2"]);
        assert_eq!(object(&k, "deployment/web")["spec"]["replicas"], 1, "nothing was written");
    });
}

#[test]
fn every_command_leaves_its_manager() {
    with_kubectl(|k, _server| {
        k.file("web.yaml", &DEPLOYMENT.replace("busybox", "busybox:v20"));
        k.run("create -f web.yaml");
        let web = "deployment/web";
        assert_eq!(managers(&k, web), ["kubectl-create Update -"]);
        k.run("scale deployment web --replicas=2");
        k.run("label deployment web tier=front");
        k.run("annotate deployment web note=x");
        k.run("set image deployment/web c=busybox:v19");
        k.run("set env deployment/web A=1");
        k.words(&["patch", "deployment", "web", "--type=merge", "-p", r#"{"spec":{"minReadySeconds":1}}"#]);
        k.words(&[
            "patch",
            "deployment",
            "web",
            "--type=json",
            "-p",
            r#"[{"op":"add","path":"/spec/paused","value":true}]"#,
        ]);
        k.run("set image deployment/web c=busybox:v20");
        k.run("edit deployment web");
        assert_eq!(object(&k, web)["spec"]["template"]["spec"]["containers"][0]["image"], "busybox:v21");
        k.words(&[
            "patch",
            "deployment",
            "web",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"replicas":2}}"#,
        ]);
        k.run("rollout resume deployment/web");
        let left = [
            "kubectl Update scale",
            "kubectl-annotate Update -",
            "kubectl-create Update -",
            "kubectl-edit Update -",
            "kubectl-label Update -",
            "kubectl-patch Update -",
            "kubectl-patch Update status",
            "kubectl-set Update -",
        ];
        assert_eq!(managers(&k, web), left);
        assert_eq!(fields(&k, web, "kubectl-label"), json!({"f:metadata": {"f:labels": {"f:tier": {}}}}));
        let env = json!({"f:env": {".": {}, r#"k:{"name":"A"}"#: {".": {}, "f:name": {}, "f:value": {}}}});
        let containers = json!({"f:containers": {r#"k:{"name":"c"}"#: env}});
        assert_eq!(fields(&k, web, "kubectl-set"), json!({"f:spec": {"f:template": {"f:spec": containers}}}));
        // A name of one's own.
        k.run("label deployment web tier=back --overwrite --field-manager=mine");
        assert_eq!(fields(&k, web, "mine"), json!({"f:metadata": {"f:labels": {"f:tier": {}}}}));
        assert!(!managers(&k, web).contains(&"kubectl-label Update -".to_owned()), "it has nothing left");

        k.file("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: '1'}\n");
        k.run("create -f map.yaml");
        k.file("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: '1', b: '2'}\n");
        k.run("replace -f map.yaml");
        assert_eq!(managers(&k, "configmap/m"), ["kubectl-create Update -", "kubectl-replace Update -"]);
    });
}

#[test]
fn the_status_is_applied_on_its_own() {
    with_kubectl(|k, _server| {
        if !k.run("apply --help").contains("--subresource") {
            return skipped("this kubectl applies no subresources");
        }
        k.file("web.yaml", DEPLOYMENT);
        k.run("apply --server-side -f web.yaml");
        let config = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nstatus: {replicas: 4}\n";
        k.file("status.yaml", config);
        holds(
            &k.run("apply --server-side --subresource=status -f status.yaml --field-manager=node"),
            &["serverside-applied"],
        );
        assert_eq!(object(&k, "deployment/web")["status"]["replicas"], 4);
        assert_eq!(managers(&k, "deployment/web"), ["kubectl Apply -", "node Apply status"]);
        k.file("status.yaml", &config.replace("replicas: 4", "replicas: 5"));
        let refused = k.fails("apply --server-side --subresource=status -f status.yaml");
        holds(&refused, &["conflict with \"node\" with subresource \"status\": .status.replicas"]);
        k.run("apply --server-side --subresource=status -f status.yaml --force-conflicts");
        assert_eq!(object(&k, "deployment/web")["status"]["replicas"], 5);
        assert_eq!(managers(&k, "deployment/web"), ["kubectl Apply -", "kubectl Apply status"]);
    });
}

#[test]
fn many_objects_are_applied_and_pruned() {
    with_kubectl(|k, _server| {
        let map = |name: &str| {
            format!(
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{set: s}}}}\ndata: {{k: '1'}}\n"
            )
        };
        k.file("all.yaml", &(map("a") + &map("b")));
        holds(
            &k.run("apply --server-side -f all.yaml"),
            &["configmap/a serverside-applied", "configmap/b serverside-applied"],
        );
        // Pruning goes by what the client applied last, so it needs applies of the client's.
        k.run("apply -f all.yaml");
        k.file("all.yaml", &map("a"));
        holds(
            &k.run("apply --prune -l set=s --prune-allowlist=core/v1/ConfigMap -f all.yaml"),
            &["configmap/b pruned"],
        );
        assert_eq!(k.run("get configmap -l set=s -o name").trim(), "configmap/a");
    });
}

#[test]
fn a_custom_resource_is_applied_by_the_server() {
    let folder = folder();
    let server = Proc::start_cluster(&folder.path().join("data"), &[]);
    let Some(k) = Kubectl::new(&server, folder.path()) else { return };
    k.file("crd.yaml", include_str!("widgets.yaml"));
    holds(&k.run("apply --server-side -f crd.yaml"), &["widgets.example.io serverside-applied"]);
    k.run("wait --for=condition=Established crd/widgets.example.io --timeout=60s");
    let widget = |spec: &str| {
        format!("apiVersion: example.io/v1\nkind: Widget\nmetadata: {{name: a}}\nspec: {{{spec}}}\n")
    };
    k.file("a.yaml", &widget("color: red, note: v20"));
    holds(&k.run("apply --server-side -f a.yaml"), &["widget.example.io/a serverside-applied"]);
    assert_eq!(
        fields(&k, "widget/a", "kubectl"),
        json!({"f:spec": {"f:color": {}, "f:note": {}}}),
        "defaults are nobody's"
    );
    k.file("blue.yaml", &widget("color: blue"));
    holds(
        &k.fails("apply --server-side -f blue.yaml --field-manager=ci"),
        &["conflict with \"kubectl\": .spec.color"],
    );
    let (code, text) = output(&k, "diff --server-side -f blue.yaml");
    assert_eq!(code, Some(1));
    holds(&text, &["-  color: red", "+  color: blue", "-  note: v20"]);
    k.run("apply --server-side -f blue.yaml --field-manager=ci --force-conflicts");
    k.run("scale widget a --replicas=3");
    k.words(&[
        "patch",
        "widget",
        "a",
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status":{"replicas":3}}"#,
    ]);
    k.run("edit widget a");
    assert_eq!(object(&k, "widget/a")["spec"], json!({"color": "blue", "note": "v21", "replicas": 3}));
    // kubectl sends the scale of a custom resource whole and unchanged but for its number: nobody owns that, as upstream.
    assert_eq!(
        managers(&k, "widget/a"),
        ["ci Apply -", "kubectl-edit Update -", "kubectl-patch Update status"]
    );
    // An object that kubectl applied from its own side, too.
    k.file("b.yaml", &widget("color: red").replace("name: a", "name: b"));
    k.run("apply -f b.yaml");
    k.file("b.yaml", &widget("color: blue").replace("name: a", "name: b"));
    k.run("apply --server-side -f b.yaml");
    assert_eq!(managers(&k, "widget/b"), ["kubectl Apply -", "kubectl-last-applied Apply -"]);
    assert_eq!(object(&k, "widget/b")["spec"]["color"], "blue");
    server.stop();
}
