//! kubectl with a custom resource: from its definition to its end.

use crate::harness::*;
use crate::kubectl::{Kubectl, holds};

const WIDGET: &str = "
apiVersion: example.io/v1
kind: Widget
metadata: {name: a, labels: {tier: front}}
spec: {color: red, note: v20}
";

/// A cluster where Widgets are defined.
fn with_widgets(test: impl FnOnce(&Kubectl)) {
    let folder = folder();
    let server = Proc::start_cluster(&folder.path().join("data"), &[]);
    if let Some(kubectl) = Kubectl::new(&server, folder.path()) {
        kubectl.file("crd.yaml", include_str!("widgets.yaml"));
        holds(&kubectl.run("create -f crd.yaml"), &["widgets.example.io created"]);
        let established =
            kubectl.run("wait --for=condition=Established crd/widgets.example.io --timeout=60s");
        holds(&established, &["condition met"]);
        kubectl.file("widget.yaml", WIDGET);
        test(&kubectl);
    }
    server.stop();
}

fn rows(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}

/// Rows without their age.
fn cells<'a>(row: &[&'a str]) -> Vec<&'a str> {
    row[..row.len() - 1].to_vec()
}

#[test]
fn a_custom_resource_is_found_by_all_its_names_and_shown_as_a_table() {
    with_widgets(|k| {
        let known = k.run("api-resources --api-group=example.io");
        assert_eq!(rows(&known)[1], ["widgets", "wd", "example.io/v1", "true", "Widget"], "{known}");
        holds(&k.run("apply -f widget.yaml"), &["widget.example.io/a created"]);
        for name in ["wd", "widget", "widgets", "widgets.example.io", "widgets.v1.example.io"] {
            let shown = k.run(&format!("get {name}"));
            let rows = rows(&shown);
            assert_eq!(rows[0], ["NAME", "COLOR", "REPLICAS", "AGE"], "{name}: {shown}");
            assert_eq!(cells(&rows[1]), ["a", "red", "1"], "the default is there; {name}: {shown}");
        }
        let wide = k.run("get wd -o wide");
        assert_eq!(rows(&wide)[0], ["NAME", "COLOR", "REPLICAS", "NOTE", "AGE"], "{wide}");
        assert_eq!(cells(&rows(&wide)[1]), ["a", "red", "1", "v20"], "{wide}");
        holds(&k.run("get all"), &["widget.example.io/a"]);
        holds(&k.run("get widget a -o name"), &["widget.example.io/a"]);
        holds(&k.run("get wd --field-selector spec.color=red"), &["a"]);
        assert!(!k.run("get wd --field-selector spec.color=blue").contains("red"));
        holds(&k.run("get wd -A -l tier=front --no-headers"), &["default", "a"]);
        holds(&k.run("describe widget a"), &["API Version:  example.io/v1", "Color:", "red"]);
    });
}

#[test]
fn a_custom_resource_is_applied_patched_edited_scaled_and_deleted() {
    with_widgets(|k| {
        let spec = || k.words(&["get", "widget", "a", "-o", "jsonpath={.spec}"]);
        k.run("apply -f widget.yaml");
        k.file("blue.yaml", &WIDGET.replace("red", "blue").replace(", note: v20", ""));
        let diff = k.try_run("diff -f blue.yaml");
        assert_eq!(diff.status.code(), Some(1));
        holds(&String::from_utf8_lossy(&diff.stdout), &["-  color: red", "+  color: blue"]);
        holds(&k.run("apply -f blue.yaml"), &["widget.example.io/a configured"]);
        assert_eq!(spec(), r#"{"color":"blue","replicas":1}"#, "what is applied no more is gone");
        holds(&k.run("apply -f blue.yaml"), &["unchanged"]);

        holds(&k.run(r#"patch widget a --type=merge -p {"spec":{"note":"v20"}}"#), &["patched"]);
        let json = r#"[{"op":"replace","path":"/spec/color","value":"red"}]"#;
        holds(&k.run(&format!("patch widget a --type=json -p {json}")), &["patched"]);
        let refused = k.fails(r#"patch widget a --type=merge -p {"spec":{"color":"green"}}"#);
        let why = r#"The Widget "a" is invalid: spec.color: Unsupported value: "green": supported values: "red", "blue""#;
        holds(&refused, &[why]);
        let strategic = k.fails(r#"patch widget a -p {"spec":{"color":"blue"}}"#);
        holds(&strategic, &["application/strategic-merge-patch+json is not supported by example.io/v1"]);
        holds(&k.run("edit widget a"), &["widget.example.io/a edited"]);
        assert_eq!(spec(), r#"{"color":"red","note":"v21","replicas":1}"#);

        holds(&k.run("scale widget a --replicas=3"), &["widget.example.io/a scaled"]);
        holds(
            &k.fails("scale widget a --current-replicas=1 --replicas=4"),
            &["Expected replicas to be 1, was 3"],
        );
        assert_eq!(spec(), r#"{"color":"red","note":"v21","replicas":3}"#);
        k.run(r#"patch widget a --subresource=status --type=merge -p {"status":{"phase":"Ready"}}"#);
        k.run("wait --for=jsonpath={.status.phase}=Ready widget/a --timeout=60s");
        holds(&k.run("label widget a tier=back --overwrite"), &["labeled"]);
        holds(&k.run("annotate widget a note=x"), &["annotated"]);

        k.file(
            "wrong.yaml",
            "apiVersion: example.io/v1\nkind: Widget\nmetadata: {name: b}\nspec: {color: red, wrong: 1}\n",
        );
        holds(&k.fails("create -f wrong.yaml"), &["strict decoding error: unknown field \"spec.wrong\""]);
        k.run("create -f wrong.yaml --validate=false");
        assert_eq!(
            k.words(&["get", "widget", "b", "-o", "jsonpath={.spec}"]),
            r#"{"color":"red","replicas":1}"#,
            "what the schema does not know is pruned"
        );
        holds(&k.run("delete widget b"), &["widget.example.io \"b\" deleted"]);
        holds(&k.fails("get widget b"), &["widgets.example.io \"b\" not found"]);

        // With their definition the objects go, and nothing of them comes back with another one.
        holds(&k.run("delete crd widgets.example.io --timeout=60s"), &["deleted"]);
        holds(&k.fails("get wd"), &["the server"]);
        k.run("create -f crd.yaml");
        k.run("wait --for=condition=Established crd/widgets.example.io --timeout=60s");
        assert_eq!(k.run("get wd --no-headers"), "");
    });
}

/// Owned by a custom resource, and in a namespace with one: garbage collection and namespace deletion know no difference.
#[test]
fn what_a_custom_resource_owns_is_collected_with_it() {
    with_widgets(|k| {
        k.run("create namespace shop");
        k.run("apply -f widget.yaml -n shop");
        let uid = k.words(&["get", "widget", "a", "-n", "shop", "-o", "jsonpath={.metadata.uid}"]);
        let owner = format!("{{apiVersion: example.io/v1, kind: Widget, name: a, uid: {uid}}}");
        k.file(
            "owned.yaml",
            &format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: owned, namespace: shop, ownerReferences: [{owner}]}}\n"),
        );
        k.run("create -f owned.yaml");
        k.run("delete widget a -n shop --cascade=foreground --timeout=60s");
        holds(&k.fails("get configmap owned -n shop"), &["not found"]);

        k.run("apply -f widget.yaml -n shop");
        k.run("delete namespace shop --timeout=60s");
        holds(&k.fails("get widget a -n shop"), &["not found"]);
    });
}
