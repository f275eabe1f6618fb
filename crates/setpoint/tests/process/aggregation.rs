//! One server aggregates another: kubectl asks the first, which passes its requests on as their front proxy.

use crate::harness::*;
use crate::kubectl::{Kubectl, holds};

fn rows(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn kubectl_shows_api_services_and_uses_those_of_another_server() {
    let folder = folder();
    let front = Proc::start_cluster(&folder.path().join("front"), &[]);
    let Some(kubectl) = Kubectl::new(&front, folder.path()) else {
        front.stop();
        return;
    };
    let listed = kubectl.run("get apiservices");
    assert_eq!(rows(&listed)[0], ["NAME", "SERVICE", "AVAILABLE", "AGE"], "{listed}");
    assert_eq!(rows(&listed)[1][..3], ["v1.", "Local", "True"], "{listed}");
    assert!(rows(&listed).iter().any(|row| row[..3] == ["v2.autoscaling", "Local", "True"]), "{listed}");

    // The other one has Widgets, and believes whom the first names.
    let ca = front.pki("front-proxy-ca.crt");
    let trust = format!("--requestheader-client-ca-file={}", ca.display());
    let back = Proc::start_cluster(
        &folder.path().join("back"),
        &[&trust, "--requestheader-allowed-names=front-proxy-client"],
    );
    let other = folder.path().join("other");
    std::fs::create_dir_all(&other).unwrap();
    let behind = Kubectl::new(&back, &other).unwrap();
    behind.file("crd.yaml", include_str!("widgets.yaml"));
    holds(&behind.run("create -f crd.yaml"), &["widgets.example.io created"]);
    holds(
        &behind.run("wait --for=condition=Established crd/widgets.example.io --timeout=60s"),
        &["condition met"],
    );

    let address = back.address();
    let port = address.rsplit(':').next().unwrap();
    kubectl.file(
        "api.yaml",
        &format!(
            "apiVersion: v1
kind: Service
metadata: {{name: widgets, namespace: default}}
spec: {{type: ExternalName, externalName: localhost}}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {{name: v1.example.io}}
spec:
  group: example.io
  version: v1
  groupPriorityMinimum: 2000
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {{namespace: default, name: widgets, port: {port}}}
"
        ),
    );
    holds(&kubectl.run("apply -f api.yaml"), &["v1.example.io created"]);
    holds(
        &kubectl.run("wait --for=condition=Available apiservice/v1.example.io --timeout=60s"),
        &["condition met"],
    );
    let shown = kubectl.run("get apiservice v1.example.io");
    assert_eq!(rows(&shown)[1][..3], ["v1.example.io", "default/widgets", "True"], "{shown}");
    wait_until("its resources are known", || {
        kubectl.run("api-resources --api-group=example.io").contains("Widget")
    });
    kubectl.file(
        "widget.yaml",
        "apiVersion: example.io/v1\nkind: Widget\nmetadata: {name: a}\nspec: {color: red}\n",
    );
    holds(&kubectl.run("create -f widget.yaml"), &["widget.example.io/a created"]);
    let shown = kubectl.run("get widgets");
    assert_eq!(rows(&shown)[1][..2], ["a", "red"], "{shown}");
    holds(&behind.run("get widgets -o name"), &["widget.example.io/a"]);
    wait_until("its schema is known", || kubectl.run("explain widgets.spec").contains("color"));
    // Who may not is refused here; the other one knows the user by name.
    let refused = kubectl.fails("get widgets --as=jane");
    holds(&refused, &["cannot list resource \"widgets\" in API group \"example.io\""]);

    back.stop();
    holds(
        &kubectl.run("wait --for=condition=Available=False apiservice/v1.example.io --timeout=60s"),
        &["condition met"],
    );
    let gone = kubectl.fails("get --raw /apis/example.io/v1/widgets");
    holds(&gone, &["the server is currently unable to handle the request"]);
    holds(&kubectl.run("get namespaces"), &["kube-system"]);
    holds(&kubectl.run("delete apiservice v1.example.io"), &["deleted"]);
    front.stop();
}
