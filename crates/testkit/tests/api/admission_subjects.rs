//! What admission policies are asked about: custom resources and parameters, equivalent resources, subresources, CONNECT, dry runs.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::TestCluster;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.io/v1/namespaces/default/widgets";

fn rules(group: &str, versions: &str, operations: Value, resource: &str) -> Value {
    json!({"resourceRules": [{"apiGroups": [group], "apiVersions": [versions], "operations": operations, "resources": [resource]}]})
}

/// A policy and its binding, whose spec is `binding`.
async fn policy(cluster: &TestCluster, name: &str, spec: Value, binding: Value) {
    cluster.post(POLICIES, json!({"metadata": {"name": name}, "spec": spec})).await.ok(201);
    let mut spec = json!({"policyName": name, "validationActions": ["Deny"]});
    spec.as_object_mut().unwrap().extend(binding.as_object().unwrap().clone());
    cluster.post(BINDINGS, json!({"metadata": {"name": name}, "spec": spec})).await.ok(201);
}

fn validation(expression: &str) -> Value {
    json!([{"expression": expression, "message": expression}])
}

/// Waits until a path answers with that code.
async fn until(cluster: &TestCluster, path: &str, code: u16) {
    for _ in 0..5000 {
        if cluster.get(path).await.status == code {
            return;
        }
        cluster.env().sleep(Duration::from_millis(1)).await;
    }
    panic!("{path} never answers {code}");
}

/// Serves `kind` of example.io in v1 and v2, with these fields of `spec`.
async fn define(cluster: &TestCluster, plural: &str, kind: &str, fields: Value) {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": fields},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}})
    };
    let crd = json!({"metadata": {"name": format!("{plural}.example.io")}, "spec": {"group": "example.io", "scope": "Namespaced",
        "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind}, "versions": [version("v1", true), version("v2", false)]}});
    cluster.post(CRDS, crd).await.ok(201);
    until(cluster, &format!("/apis/example.io/v2/namespaces/default/{plural}"), 200).await;
}

fn widget(name: &str, size: i64) -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}})
}

fn message(refused: &Value) -> &str {
    refused["message"].as_str().unwrap()
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_judged_and_changed_by_policies() {
    let cluster = TestCluster::simulated(2101).await;
    define(&cluster, "widgets", "Widget", json!({"size": {"type": "integer"}, "color": {"type": "string"}}))
        .await;
    let constraints = rules("example.io", "v1", json!(["CREATE", "UPDATE"]), "widgets");
    let spec = json!({"matchConstraints": constraints, "validations": validation("object.spec.size < 5 && object.spec.color == 'red'")});
    policy(&cluster, "small", spec, json!({})).await;
    let mutating = json!({"matchConstraints": constraints, "reinvocationPolicy": "Never", "mutations": [{"patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{spec: Object.spec{color: 'red'}}"}}]});
    cluster
        .post(
            format!("{GROUP}/mutatingadmissionpolicies"),
            json!({"metadata": {"name": "paint"}, "spec": mutating}),
        )
        .await
        .ok(201);
    let binding = json!({"metadata": {"name": "paint"}, "spec": {"policyName": "paint"}});
    cluster.post(format!("{GROUP}/mutatingadmissionpolicybindings"), binding).await.ok(201);

    let made = cluster.post(WIDGETS, widget("a", 3)).await.ok(201);
    assert_eq!(made["spec"], json!({"size": 3, "color": "red"}));
    let refused = cluster.post(WIDGETS, widget("b", 7)).await.ok(422);
    assert!(
        message(&refused).contains("ValidatingAdmissionPolicy 'small' with binding 'small' denied request"),
        "{refused}"
    );
    // Equivalent, the default: a request in v2 is shown as v1.
    let mut other = widget("c", 7);
    other["apiVersion"] = json!("example.io/v2");
    let v2 = "/apis/example.io/v2/namespaces/default/widgets";
    cluster.post(v2, other.clone()).await.ok(422);
    cluster
        .merge(format!("{POLICIES}/small"), json!({"spec": {"matchConstraints": {"matchPolicy": "Exact"}}}))
        .await
        .ok(200);
    cluster.post(v2, other).await.ok(201);
    // The status is another resource.
    cluster.merge(format!("{WIDGETS}/c/status"), json!({"status": {"phase": "x"}})).await.ok(200);
    cluster.merge(format!("{WIDGETS}/c"), json!({"metadata": {"labels": {"a": "b"}}})).await.ok(422);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn parameters_may_be_custom_resources() {
    let cluster = TestCluster::simulated(2102).await;
    define(&cluster, "limits", "Limit", json!({"max": {"type": "integer"}})).await;
    let limits = "/apis/example.io/v1/namespaces/default/limits";
    let limit = |name: &str, max: i64| json!({"apiVersion": "example.io/v1", "kind": "Limit", "metadata": {"name": name, "labels": {"of": "maps"}}, "spec": {"max": max}});
    let spec = json!({"matchConstraints": rules("", "v1", json!(["CREATE"]), "configmaps"), "paramKind": {"apiVersion": "example.io/v2", "kind": "Limit"},
        "validations": [{"expression": "object.metadata.name.size() <= params.spec.max", "messageExpression": "'longer than ' + string(params.spec.max) + ' of ' + params.apiVersion"}]});
    // In the namespace of the request, as the reference names none.
    let named = json!({"paramRef": {"name": "short", "parameterNotFoundAction": "Deny"}});
    policy(&cluster, "limited", spec, named).await;
    let map = |name: &str| json!({"metadata": {"name": name}});
    let refused = cluster.post(MAPS, map("a")).await.ok(422);
    assert!(
        message(&refused).ends_with("no params found for policy binding with `Deny` parameterNotFoundAction"),
        "{refused}"
    );
    cluster.post(limits, limit("short", 2)).await.ok(201);
    cluster.post(MAPS, map("ab")).await.ok(201);
    let refused = cluster.post(MAPS, map("abc")).await.ok(422);
    assert!(message(&refused).ends_with("longer than 2 of example.io/v2"), "{refused}");
    // Changed: counts at once.
    cluster.merge(format!("{limits}/short"), json!({"spec": {"max": 3}})).await.ok(200);
    cluster.post(MAPS, map("abc")).await.ok(201);
    // Selected: all of them count.
    let selected = json!({"spec": {"paramRef": {"name": null, "selector": {"matchLabels": {"of": "maps"}}}}});
    cluster.merge(format!("{BINDINGS}/limited"), selected).await.ok(200);
    cluster.post(limits, limit("shorter", 1)).await.ok(201);
    let refused = cluster.post(MAPS, map("xy")).await.ok(422);
    assert!(message(&refused).ends_with("longer than 1 of example.io/v2"), "{refused}");
    // Vanished, and allowed.
    cluster
        .merge(
            format!("{BINDINGS}/limited"),
            json!({"spec": {"paramRef": {"parameterNotFoundAction": "Allow"}}}),
        )
        .await
        .ok(200);
    for name in ["short", "shorter"] {
        cluster.delete(format!("{limits}/{name}")).await.ok(200);
    }
    cluster.post(MAPS, map("as-long-as-you-like")).await.ok(201);
    // The kind itself vanishes: the policy cannot be evaluated.
    cluster.delete(format!("{CRDS}/limits.example.io")).await.ok(200);
    until(&cluster, limits, 404).await;
    let refused = cluster.post(MAPS, map("b")).await.ok(422);
    assert!(
        message(&refused)
            .contains("failed to find resource referenced by paramKind: 'example.io/v2, Kind=Limit'"),
        "{refused}"
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn parameters_of_mutations_may_be_custom_resources() {
    let cluster = TestCluster::simulated(2107).await;
    define(&cluster, "limits", "Limit", json!({"max": {"type": "integer"}})).await;
    let label = "Object{metadata: Object.metadata{labels: {'max': string(params.spec.max), 'of': params.apiVersion.replace('/', '.')}}}";
    let spec = json!({"matchConstraints": rules("", "v1", json!(["CREATE"]), "configmaps"), "paramKind": {"apiVersion": "example.io/v2", "kind": "Limit"},
        "reinvocationPolicy": "Never", "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": label}}]});
    let made = json!({"metadata": {"name": "labels"}, "spec": spec});
    cluster.post(format!("{GROUP}/mutatingadmissionpolicies"), made).await.ok(201);
    // In the namespace of the request, as the reference names none.
    let binding = json!({"metadata": {"name": "labels"}, "spec": {
        "policyName": "labels", "paramRef": {"name": "short", "parameterNotFoundAction": "Deny"}}});
    cluster.post(format!("{GROUP}/mutatingadmissionpolicybindings"), binding).await.ok(201);
    let limits = "/apis/example.io/v1/namespaces/default/limits";
    let limit = json!({"apiVersion": "example.io/v1", "kind": "Limit", "metadata": {"name": "short"}, "spec": {"max": 2}});
    let map = |name: &str| json!({"metadata": {"name": name}});
    cluster.post(MAPS, map("a")).await.ok(403);
    cluster.post(limits, limit).await.ok(201);
    let made = cluster.post(MAPS, map("a")).await.ok(201);
    assert_eq!(made["metadata"]["labels"], json!({"max": "2", "of": "example.io.v2"}));
    // The kind itself vanishes: the policy cannot be evaluated.
    cluster.delete(format!("{CRDS}/limits.example.io")).await.ok(200);
    until(&cluster, limits, 404).await;
    let refused = cluster.post(MAPS, map("b")).await.ok(403);
    let words = "policy \"labels\" denied request: failed to configure policy: failed to find resource referenced by paramKind: 'example.io/v2, Kind=Limit'";
    assert_eq!(message(&refused), words);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_without_a_binding_and_a_binding_without_a_policy_do_nothing() {
    let cluster = TestCluster::simulated(2103).await;
    let spec = json!({"matchConstraints": rules("", "v1", json!(["CREATE"]), "configmaps"), "validations": validation("false")});
    cluster.post(POLICIES, json!({"metadata": {"name": "unbound"}, "spec": spec})).await.ok(201);
    let binding = json!({"metadata": {"name": "early"}, "spec": {"policyName": "later", "validationActions": ["Deny"]}});
    cluster.post(BINDINGS, binding).await.ok(201);
    cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(201);
    cluster.post(POLICIES, json!({"metadata": {"name": "later"}, "spec": spec})).await.ok(201);
    cluster.post(MAPS, json!({"metadata": {"name": "b"}})).await.ok(422);
    cluster.delete(format!("{POLICIES}/later")).await.ok(200);
    cluster.post(MAPS, json!({"metadata": {"name": "b"}})).await.ok(201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn subresources_and_dry_runs_are_asked_about() {
    let cluster = TestCluster::simulated(2104).await;
    let constraints = json!({"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"],
        "resources": ["deployments/scale", "pods/eviction", "pods/binding", "serviceaccounts/token"]}]});
    let spec = json!({"matchConstraints": constraints, "validations": [{"expression": "false",
        "messageExpression": "request.kind.kind + ' of ' + request.resource.resource + '/' + request.subResource + (request.dryRun ? ', dry' : '')"}]});
    policy(&cluster, "none", spec, json!({})).await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = json!({"metadata": {"name": "d"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    cluster.post(deployments, made).await.ok(201);
    let pods = "/api/v1/namespaces/default/pods";
    cluster.post(pods, json!({"metadata": {"name": "p"}, "spec": template["spec"]})).await.ok(201);
    let scale = json!({"metadata": {"name": "d", "namespace": "default"}, "spec": {"replicas": 3}});
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    for (method, path, body, expected) in [
        ("PUT", format!("{deployments}/d/scale"), scale.clone(), "Scale of deployments/scale"),
        ("PUT", format!("{deployments}/d/scale?dryRun=All"), scale, "Scale of deployments/scale, dry"),
        (
            "POST",
            format!("{pods}/p/eviction"),
            json!({"metadata": {"name": "p"}}),
            "Eviction of pods/eviction",
        ),
        ("POST", format!("{pods}/p/binding"), binding, "Binding of pods/binding"),
        (
            "POST",
            "/api/v1/namespaces/default/serviceaccounts/default/token".to_owned(),
            json!({"spec": {"audiences": []}}),
            "TokenRequest of serviceaccounts/token",
        ),
    ] {
        let refused = cluster.request(method, &path).json(&body).send().await.ok(422);
        assert!(message(&refused).ends_with(&format!("denied request: {expected}")), "{path}: {refused}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_old_resource_bindings_is_asked_about_as_itself() {
    let cluster = TestCluster::simulated(2105).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.post(pods, pod).await.ok(201);
    let about = |resources: Value| {
        json!({"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": resources}]},
        "validations": [{"expression": "false", "messageExpression": "request.kind.kind + ' of ' + request.resource.resource + ', ' + request.name + ' to ' + object.target.name"}]})
    };
    // Neither what it stands for nor what it leads to.
    policy(&cluster, "pods", about(json!(["pods", "pods/binding"])), json!({})).await;
    policy(&cluster, "bindings", about(json!(["bindings"])), json!({})).await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let path = "/api/v1/namespaces/default/bindings";
    let refused = cluster.post(path, binding.clone()).await.ok(422);
    let expected = "ValidatingAdmissionPolicy 'bindings' with binding 'bindings' denied request: Binding of bindings, p to n";
    assert!(message(&refused).ends_with(expected), "{refused}");
    cluster.delete(format!("{POLICIES}/bindings")).await.ok(200);
    cluster.post(path, binding).await.ok(201);
    assert_eq!(cluster.get(format!("{pods}/p")).await.ok(200)["spec"]["nodeName"], "n");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn requests_into_pods_are_asked_about_with_their_options() {
    let cluster = TestCluster::simulated(2106).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.post(pods, pod).await.ok(201);
    let spec = json!({"matchConstraints": rules("", "v1", json!(["CONNECT"]), "pods/exec"),
        "validations": [{"expression": "object.command[0] != 'sh'", "messageExpression": "request.operation + ' ' + object.kind"}]});
    policy(&cluster, "no-shell", spec, json!({})).await;
    let refused = cluster
        .request("POST", format!("{pods}/p/exec?command=sh&container=c&stdout=true"))
        .send()
        .await
        .ok(422);
    assert!(message(&refused).ends_with("denied request: CONNECT PodExecOptions"), "{refused}");
    // Another command comes as far as the pod, which runs nowhere.
    let answer =
        cluster.request("POST", format!("{pods}/p/exec?command=ls&container=c&stdout=true")).send().await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn types_of_custom_resources_are_checked_in_the_status() {
    let cluster = TestCluster::simulated(2107).await;
    define(&cluster, "widgets", "Widget", json!({"size": {"type": "integer"}})).await;
    let spec = json!({"matchConstraints": rules("example.io", "v1", json!(["CREATE"]), "widgets"), "validations": validation("object.spec.size == 'large'")});
    policy(&cluster, "typed", spec, json!({})).await;
    let plane =
        cluster.controllers(cluster.local_clients(), &["validatingadmissionpolicy-status-controller"]);
    let path = format!("{POLICIES}/typed");
    for _ in 0..5000 {
        let shown = cluster.get(path.clone()).await.ok(200);
        if let Some(warnings) = shown["status"]["typeChecking"]["expressionWarnings"].as_array() {
            assert_eq!(warnings[0]["fieldRef"], "spec.validations[0].expression");
            let text = warnings[0]["warning"].as_str().unwrap();
            assert!(
                text.contains("example.io/v1, Kind=Widget")
                    && text.contains("no matching overload for '_==_'"),
                "{text}"
            );
            plane.stop().await;
            return cluster.shutdown().await;
        }
        cluster.env().sleep(Duration::from_millis(1)).await;
    }
    panic!("the status never says it");
}

#[tokio::test]
async fn changes_count_at_once_also_under_load() {
    let cluster = TestCluster::start().await;
    let spec = json!({"matchConstraints": rules("", "v1", json!(["CREATE"]), "configmaps"), "validations": validation("object.metadata.name.startsWith('v0')")});
    policy(&cluster, "named", spec, json!({})).await;
    // Whoever was told that a change is made is judged by it.
    for n in 1..6 {
        let expression = format!("object.metadata.name.startsWith('v{n}')");
        let change = json!({"spec": {"validations": validation(&expression)}});
        cluster.merge(format!("{POLICIES}/named"), change).await.ok(200);
        let create = |name: String| cluster.post(MAPS, json!({"metadata": {"name": name}}));
        let all = (0..20).map(|at| create(format!("v{n}-{at}")));
        for made in futures_util::future::join_all(all).await {
            made.ok(201);
        }
        create(format!("v{}-x", n + 1)).await.ok(422);
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn both_phases_of_every_operation_are_timed() {
    let cluster = TestCluster::simulated(2109).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.post(pods, pod).await.ok(201);
    cluster.merge(format!("{pods}/p"), json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    cluster.request("POST", format!("{pods}/p/exec?command=ls&stdout=true")).send().await.ok(400);
    cluster.delete(format!("{pods}/p?gracePeriodSeconds=0")).await.ok(200);
    let metrics = cluster.get("/metrics").await.text();
    for operation in ["CREATE", "UPDATE", "CONNECT", "DELETE"] {
        for phase in ["admit", "validate"] {
            for form in ["", "_summary"] {
                let series = format!(
                    "apiserver_admission_step_admission_duration_seconds{form}_count{{operation=\"{operation}\",rejected=\"false\",type=\"{phase}\"}} "
                );
                assert!(metrics.contains(&series), "{series}");
            }
        }
    }
    cluster.shutdown().await;
}
