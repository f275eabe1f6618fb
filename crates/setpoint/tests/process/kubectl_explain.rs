//! kubectl and custom resources: explained and validated by their own schemas, from the moment their definition is established.

use crate::harness::*;
use crate::kubectl::{Kubectl, holds};

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.io}
spec:
  group: example.io
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: A widget turns.
        required: [spec]
        properties:
          spec:
            type: object
            description: What it should be.
            required: [color]
            properties:
              color: {type: string, description: Its color., enum: [red, green]}
              nick: {type: string, nullable: true}
              port: {x-kubernetes-int-or-string: true}
              parts:
                type: array
                items: {type: object, properties: {name: {type: string}}}
              template:
                type: object
                x-kubernetes-embedded-resource: true
                x-kubernetes-preserve-unknown-fields: true
  - name: v2
    served: true
    storage: false
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
        description: Anything turns.
"#;

const WIDGET: &str = "
apiVersion: example.io/v1
kind: Widget
metadata: {name: w}
spec: {color: red, colour: blue}
";

fn with_widgets(test: impl FnOnce(&Kubectl)) {
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    if let Some(k) = Kubectl::new(&server, folder.path()) {
        k.file("crd.yaml", DEFINITION);
        k.run("apply -f crd.yaml");
        k.run("wait --for=condition=Established crd/widgets.example.io --timeout=60s");
        test(&k);
    }
    server.stop();
}

/// Its lines, without what surrounds the words.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| !row.is_empty()).collect()
}

fn has_rows(text: &str, wanted: &[&str]) {
    for row in wanted {
        let row: Vec<&str> = row.split(' ').collect();
        assert!(rows(text).contains(&row), "{row:?} is not in:\n{text}");
    }
}

#[test]
fn explain_shows_the_schema_of_a_custom_resource() {
    with_widgets(|k| {
        let shown = k.run("explain widgets --api-version=example.io/v1");
        has_rows(&shown, &["GROUP: example.io", "KIND: Widget", "VERSION: v1", "A widget turns."]);
        has_rows(&shown, &["apiVersion <string>", "metadata <ObjectMeta>", "spec <Object> -required-"]);
        let spec = k.run("explain widgets.spec --api-version=example.io/v1");
        has_rows(
            &spec,
            &["What it should be.", "color <string> -required-", "enum: red, green", "Its color."],
        );
        has_rows(&spec, &["nick <string>", "parts <[]Object>", "port <Object>", "template <Object>"]);
        let template = k.run("explain wd.spec.template --api-version=example.io/v1");
        has_rows(&template, &["apiVersion <string> -required-", "kind <string> -required-"]);
        holds(&k.run("explain widgets.metadata.labels --api-version=example.io/v1"), &["map[string]string"]);
        // The preferred version, which says nothing of its fields.
        has_rows(&k.run("explain widgets"), &["VERSION: v2", "Anything turns.", "kind <string>"]);
        holds(
            &k.fails("explain widgets.spec.size --api-version=example.io/v1"),
            &["field \"size\" does not exist"],
        );

        // kubectl's model of v2 has no null.
        let v2 = "--api-version=example.io/v1 --output plaintext-openapiv2";
        let spec = k.run(&format!("explain widgets.spec {v2}"));
        has_rows(
            &spec,
            &["KIND: Widget", "VERSION: example.io/v1", "color <string> -required-", "Its color."],
        );
        has_rows(&spec, &["nick <>", "port <>", "parts <[]Object>", "template <>"]);
        has_rows(&k.run(&format!("explain widgets {v2}")), &["A widget turns.", "spec <Object> -required-"]);
    });
}

#[test]
fn explain_follows_the_definition() {
    with_widgets(|k| {
        let explain = "explain widgets.spec.color --api-version=example.io/v1";
        holds(&k.run(explain), &["Its color."]);
        k.file("crd.yaml", &DEFINITION.replace("Its color.", "Red or green."));
        k.run("apply -f crd.yaml");
        wait_until("the new text is shown", || k.run(explain).contains("Red or green."));
        k.run("delete -f crd.yaml --wait --timeout=60s");
        wait_until("nothing is shown", || !k.try_run(explain).status.success());
    });
}

#[test]
fn fields_of_custom_resources_are_validated() {
    with_widgets(|k| {
        k.file("w.yaml", WIDGET);
        let unknown = "strict decoding error: unknown field \"spec.colour\"";
        holds(&k.fails("create -f w.yaml --validate=strict"), &["BadRequest", unknown]);
        holds(&k.fails("apply -f w.yaml --validate=true"), &["BadRequest", unknown]);
        let output = k.try_run("create -f w.yaml --validate=warn --dry-run=server");
        assert!(output.status.success());
        holds(&String::from_utf8_lossy(&output.stderr), &["Warning: unknown field \"spec.colour\""]);
        holds(&k.run("apply -f w.yaml --validate=ignore"), &["widget.example.io/w created"]);
        k.file("w.yaml", &WIDGET.replace("red", "blue"));
        holds(&k.fails("apply -f w.yaml --validate=ignore"), &["Unsupported value: \"blue\""]);
        holds(&k.run("apply -f w.yaml --validate=ignore --dry-run=client"), &["configured (dry run)"]);
        holds(&k.run("delete wd w"), &["widget.example.io \"w\" deleted"]);
    });
}
