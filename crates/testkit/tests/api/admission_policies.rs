//! Admission policies over whole requests: what they deny, warn about, audit and change, and what goes wrong.

use serde_json::{Value, json};
use testkit::TestCluster;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn rules(operations: Value) -> Value {
    json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": ["configmaps"]}]})
}

/// A policy of that kind and a binding to it, with what is added to their specs.
async fn bind(cluster: &TestCluster, kind: &str, name: &str, mut policy: Value, mut binding: Value) {
    let spec = policy.as_object_mut().unwrap();
    spec.entry("matchConstraints").or_insert_with(|| rules(json!(["CREATE", "UPDATE"])));
    if kind == "mutating" {
        spec.entry("reinvocationPolicy").or_insert(json!("Never"));
    } else {
        binding.as_object_mut().unwrap().entry("validationActions").or_insert(json!(["Deny"]));
    }
    binding["policyName"] = json!(name);
    let made = json!({"metadata": {"name": name}, "spec": policy});
    cluster.post(format!("{GROUP}/{kind}admissionpolicies"), made).await.ok(201);
    let made = json!({"metadata": {"name": format!("{name}-binding")}, "spec": binding});
    cluster.post(format!("{GROUP}/{kind}admissionpolicybindings"), made).await.ok(201);
}

async fn validate(cluster: &TestCluster, name: &str, policy: Value, binding: Value) {
    bind(cluster, "validating", name, policy, binding).await;
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

#[tokio::test(start_paused = true)]
async fn a_denial_says_which_policy_and_why() {
    let cluster = TestCluster::simulated(2001).await;
    let validations = json!([
        {"expression": "object.data.size() < 2", "message": "too much data"},
        {"expression": "!has(object.data.secret)", "messageExpression": "'no secrets in ' + object.metadata.name", "reason": "Forbidden"},
    ]);
    validate(&cluster, "small", json!({"validations": validations}), json!({})).await;
    cluster.post(CONFIG_MAPS, config_map("fine", json!({"a": "1"}))).await.ok(201);
    let denied = cluster.post(CONFIG_MAPS, config_map("big", json!({"a": "1", "b": "2"}))).await.ok(422);
    let why = "ValidatingAdmissionPolicy 'small' with binding 'small-binding' denied request: too much data";
    assert_eq!(denied["message"], json!(format!("configmaps \"big\" is forbidden: {why}")));
    assert_eq!(denied["reason"], json!("Invalid"));
    assert_eq!(denied["details"]["causes"], json!([{"message": why}]));
    let denied = cluster.post(CONFIG_MAPS, config_map("s", json!({"secret": "x"}))).await.ok(403);
    assert_eq!(denied["reason"], json!("Forbidden"));
    assert!(denied["message"].as_str().unwrap().ends_with("denied request: no secrets in s"), "{denied}");
    // Updates and patches are looked at too; deletions are not in the rules.
    let patched = cluster.merge(format!("{CONFIG_MAPS}/fine"), json!({"data": {"b": "2"}})).await;
    assert_eq!(patched.status, 422, "{}", patched.text());
    cluster.delete(format!("{CONFIG_MAPS}/fine")).await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn changes_of_policies_and_bindings_count_at_once() {
    let cluster = TestCluster::simulated(2002).await;
    validate(
        &cluster,
        "p",
        json!({"validations": [{"expression": "object.metadata.name != 'no'"}]}),
        json!({}),
    )
    .await;
    let denied = cluster.post(CONFIG_MAPS, config_map("no", json!({}))).await.ok(422);
    let message = denied["message"].as_str().unwrap();
    assert!(
        message.ends_with("denied request: failed expression: object.metadata.name != 'no'"),
        "{message}"
    );
    let path = format!("{GROUP}/validatingadmissionpolicies/p");
    let changed = json!({"spec": {"validations": [{"expression": "object.metadata.name != 'other'"}]}});
    cluster.merge(path.clone(), changed).await.ok(200);
    cluster.post(CONFIG_MAPS, config_map("no", json!({}))).await.ok(201);
    assert_eq!(cluster.post(CONFIG_MAPS, config_map("other", json!({}))).await.status, 422);
    cluster.delete(format!("{GROUP}/validatingadmissionpolicybindings/p-binding")).await.ok(200);
    cluster.post(CONFIG_MAPS, config_map("other", json!({}))).await.ok(201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn warn_and_audit_do_not_deny() {
    let cluster = TestCluster::simulated(2003).await;
    let policy = json!({"validations": [{"expression": "false", "message": "never"}], "auditAnnotations": [{"key": "name", "valueExpression": "'named ' + object.metadata.name"}]});
    validate(&cluster, "w", policy, json!({"validationActions": ["Warn", "Audit"]})).await;
    let made = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let warnings = made.warnings().join("|");
    assert!(
        warnings
            .contains("Validation failed for ValidatingAdmissionPolicy 'w' with binding 'w-binding': never"),
        "{warnings}"
    );
    let metrics = cluster.get("/metrics").await.text();
    for action in ["warn", "audit"] {
        let series = format!(
            "apiserver_validating_admission_policy_check_total{{enforcement_action=\"{action}\",error_type=\"invalid_error\",policy=\"w\",policy_binding=\"w-binding\"}} 1"
        );
        assert!(metrics.contains(&series), "{series}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn errors_follow_the_failure_policy() {
    let cluster = TestCluster::simulated(2004).await;
    let broken = json!({"validations": [{"expression": "object.data.missing == 'x'"}]});
    validate(&cluster, "broken", broken.clone(), json!({})).await;
    let denied = cluster.post(CONFIG_MAPS, config_map("a", json!({"k": "v"}))).await.ok(422);
    let message = denied["message"].as_str().unwrap();
    let words = "expression 'object.data.missing == 'x'' resulted in error: no such key: missing";
    assert!(message.ends_with(words), "{message}");
    let path = format!("{GROUP}/validatingadmissionpolicies/broken");
    cluster.merge(path.clone(), json!({"spec": {"failurePolicy": "Ignore"}})).await.ok(200);
    cluster.post(CONFIG_MAPS, config_map("a", json!({"k": "v"}))).await.ok(201);
    let zero = json!({"spec": {"failurePolicy": "Fail", "validations": [{"expression": "1 / int(object.data.n) == 1"}]}});
    cluster.merge(path, zero).await.ok(200);
    let denied = cluster.post(CONFIG_MAPS, config_map("b", json!({"n": "0"}))).await.ok(422);
    assert!(denied["message"].as_str().unwrap().ends_with("resulted in error: division by zero"), "{denied}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_expression_that_costs_too_much_is_stopped() {
    let cluster = TestCluster::simulated(2005).await;
    let digits = "[0,1,2,3,4,5,6,7,8,9]";
    let costly = ["a", "b", "c", "d", "e", "f"]
        .iter()
        .rev()
        .fold("true".to_owned(), |inner, name| format!("{digits}.all({name}, {inner})"));
    validate(&cluster, "costly", json!({"validations": [{"expression": costly}]}), json!({})).await;
    let denied = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.ok(422);
    let message = denied["message"].as_str().unwrap();
    assert!(
        message.ends_with("resulted in error: operation cancelled: actual cost limit exceeded"),
        "{message}"
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn parameters_are_named_or_selected_and_may_vanish() {
    let cluster = TestCluster::simulated(2006).await;
    let param = |name: &str, max: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}, "data": {"max": max}});
    let secrets = json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}]});
    cluster.post(CONFIG_MAPS, param("limit", "3", json!({"role": "limit"}))).await.ok(201);
    let policy = json!({"matchConstraints": secrets, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "object.metadata.name.size() <= int(params.data.max)", "messageExpression": "'longer than ' + params.data.max"}]});
    let named =
        json!({"paramRef": {"name": "limit", "namespace": "default", "parameterNotFoundAction": "Deny"}});
    validate(&cluster, "limited", policy, named).await;
    let path = "/api/v1/namespaces/default/secrets";
    let secret = |name: &str| json!({"metadata": {"name": name}});
    cluster.post(path, secret("abc")).await.ok(201);
    let denied = cluster.post(path, secret("abcd")).await.ok(422);
    assert!(denied["message"].as_str().unwrap().ends_with("denied request: longer than 3"), "{denied}");
    // Selected: all parameters count.
    let binding = format!("{GROUP}/validatingadmissionpolicybindings/limited-binding");
    let selected =
        json!({"spec": {"paramRef": {"name": null, "selector": {"matchLabels": {"role": "limit"}}}}});
    cluster.merge(binding.clone(), selected).await.ok(200);
    cluster.post(CONFIG_MAPS, param("stricter", "2", json!({"role": "limit"}))).await.ok(201);
    let denied = cluster.post(path, secret("xyz")).await.ok(422);
    assert!(denied["message"].as_str().unwrap().ends_with("denied request: longer than 2"), "{denied}");
    // Gone: the binding says what then.
    for name in ["limit", "stricter"] {
        cluster.delete(format!("{CONFIG_MAPS}/{name}")).await.ok(200);
    }
    let denied = cluster.post(path, secret("x")).await.ok(422);
    let words =
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert!(denied["message"].as_str().unwrap().ends_with(words), "{denied}");
    cluster.merge(binding, json!({"spec": {"paramRef": {"parameterNotFoundAction": "Allow"}}})).await.ok(200);
    cluster.post(path, secret("longer-than-any")).await.ok(201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn mutations_are_made_once_for_each_parameter_and_parameters_may_vanish() {
    let cluster = TestCluster::simulated(2016).await;
    let param = |name: &str, value: &str| json!({"metadata": {"name": name, "labels": {"role": "label"}}, "data": {"value": value}});
    let secrets = json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}]});
    cluster.post(CONFIG_MAPS, param("one", "1")).await.ok(201);
    let labels = "Object{metadata: Object.metadata{labels: {params.metadata.name: params.data.value}}}";
    let policy = json!({"matchConstraints": secrets, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": labels}}]});
    let named =
        json!({"paramRef": {"name": "one", "namespace": "default", "parameterNotFoundAction": "Deny"}});
    bind(&cluster, "mutating", "labels", policy, named).await;
    let path = "/api/v1/namespaces/default/secrets";
    let secret = |name: &str| json!({"metadata": {"name": name}});
    let made = cluster.post(path, secret("a")).await.ok(201);
    assert_eq!(made["metadata"]["labels"], json!({"one": "1"}));
    // Changed: counts at once.
    cluster.merge(format!("{CONFIG_MAPS}/one"), json!({"data": {"value": "first"}})).await.ok(200);
    let made = cluster.post(path, secret("b")).await.ok(201);
    assert_eq!(made["metadata"]["labels"], json!({"one": "first"}));
    // Selected: once for each.
    let binding = format!("{GROUP}/mutatingadmissionpolicybindings/labels-binding");
    let selected =
        json!({"spec": {"paramRef": {"name": null, "selector": {"matchLabels": {"role": "label"}}}}});
    cluster.merge(binding.clone(), selected).await.ok(200);
    cluster.post(CONFIG_MAPS, param("two", "2")).await.ok(201);
    let made = cluster.post(path, secret("c")).await.ok(201);
    assert_eq!(made["metadata"]["labels"], json!({"one": "first", "two": "2"}));
    // Gone: the binding says what then, and the policy what of that.
    for name in ["one", "two"] {
        cluster.delete(format!("{CONFIG_MAPS}/{name}")).await.ok(200);
    }
    let denied = cluster.post(path, secret("d")).await.ok(403);
    let words = "policy 'labels' with binding 'labels-binding' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert_eq!(denied["message"], words);
    let policy = format!("{GROUP}/mutatingadmissionpolicies/labels");
    cluster.merge(policy.clone(), json!({"spec": {"failurePolicy": "Ignore"}})).await.ok(200);
    let made = cluster.post(path, secret("d")).await.ok(201);
    assert_eq!(made["metadata"].get("labels"), None);
    cluster.merge(policy, json!({"spec": {"failurePolicy": "Fail"}})).await.ok(200);
    cluster.merge(binding, json!({"spec": {"paramRef": {"parameterNotFoundAction": "Allow"}}})).await.ok(200);
    let made = cluster.post(path, secret("e")).await.ok(201);
    assert_eq!(made["metadata"].get("labels"), None);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_kind_of_parameters_is_a_configuration_error() {
    let cluster = TestCluster::simulated(2007).await;
    let policy = json!({"paramKind": {"apiVersion": "none.io/v1", "kind": "Nothing"}, "validations": [{"expression": "true"}]});
    validate(
        &cluster,
        "unknown",
        policy,
        json!({"paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}}),
    )
    .await;
    let denied = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.ok(422);
    assert_eq!(
        denied["details"]["causes"][0]["message"],
        json!(
            "ValidatingAdmissionPolicy 'unknown' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'none.io/v1, Kind=Nothing'"
        )
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn bindings_narrow_by_namespace_and_match_conditions_by_the_request() {
    let cluster = TestCluster::simulated(2008).await;
    let marked = json!({"metadata": {"name": "marked", "labels": {"env": "test"}}});
    cluster.post("/api/v1/namespaces", marked).await.ok(201);
    let policy = json!({"matchConditions": [{"name": "not-free", "expression": "!object.metadata.name.startsWith('free')"}],
        "variables": [{"name": "env", "expression": "namespaceObject.metadata.labels['env']"}],
        "validations": [{"expression": "variables.env != 'test'", "messageExpression": "'not in ' + namespaceObject.metadata.name"}]});
    let binding = json!({"matchResources": {"namespaceSelector": {"matchLabels": {"env": "test"}}}});
    validate(&cluster, "n", policy, binding).await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.ok(201);
    let path = "/api/v1/namespaces/marked/configmaps";
    cluster.post(path, config_map("free-1", json!({}))).await.ok(201);
    let denied = cluster.post(path, config_map("a", json!({}))).await.ok(422);
    assert!(denied["message"].as_str().unwrap().ends_with("denied request: not in marked"), "{denied}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn deletions_and_the_authorizer_are_seen() {
    let cluster = TestCluster::simulated(2009).await;
    let policy = json!({"matchConstraints": rules(json!(["DELETE"])), "validations": [
        {"expression": "object == null && oldObject.metadata.name != 'kept'", "message": "kept"},
        {"expression": "authorizer.group('').resource('configmaps').namespace('default').check('delete').allowed()"}]});
    cluster.post(CONFIG_MAPS, config_map("kept", json!({}))).await.ok(201);
    cluster.post(CONFIG_MAPS, config_map("free", json!({}))).await.ok(201);
    validate(&cluster, "d", policy, json!({})).await;
    let denied = cluster.delete(format!("{CONFIG_MAPS}/kept")).await.ok(422);
    assert!(denied["message"].as_str().unwrap().ends_with("denied request: kept"), "{denied}");
    cluster.delete(format!("{CONFIG_MAPS}/free")).await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn policies_never_judge_policies() {
    let cluster = TestCluster::simulated(2010).await;
    let all = json!({"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]});
    let policy = json!({"matchConstraints": all, "validations": [{"expression": "false"}]});
    validate(&cluster, "lockout", policy, json!({})).await;
    assert_eq!(cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.status, 422);
    cluster.delete(format!("{GROUP}/validatingadmissionpolicybindings/lockout-binding")).await.ok(200);
    cluster.delete(format!("{GROUP}/validatingadmissionpolicies/lockout")).await.ok(200);
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.ok(201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn mutations_apply_in_order_and_are_defaulted() {
    let cluster = TestCluster::simulated(2011).await;
    let deployments = json!({"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]});
    let sidecar = "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: 'side', image: 'car'}]}}}}";
    let policy = json!({"matchConstraints": deployments, "variables": [{"name": "n", "expression": "object.spec.replicas"}], "mutations": [
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": sidecar}},
        {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'n': string(variables.n)}}, JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/side'), value: object.spec.template.spec.containers[1].name}]"}}]});
    bind(&cluster, "mutating", "m", policy, json!({})).await;
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}});
    let made = cluster
        .post(
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"metadata": {"name": "d"}, "spec": spec}),
        )
        .await
        .ok(201);
    assert_eq!(made["metadata"]["labels"], json!({"n": "2", "example.com/side": "side"}));
    let side = &made["spec"]["template"]["spec"]["containers"][1];
    assert_eq!((&side["name"], &side["imagePullPolicy"]), (&json!("side"), &json!("Always")), "{side}");
    let metrics = cluster.get("/metrics").await.text();
    let series = "apiserver_mutating_admission_policy_check_total{error_type=\"no_error\",policy=\"m\",policy_binding=\"m-binding\"} 2";
    assert!(metrics.contains(series), "{series}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn mutations_that_fail_deny_or_are_ignored() {
    let cluster = TestCluster::simulated(2012).await;
    let patch = |expression: &str| json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]);
    bind(
        &cluster,
        "mutating",
        "m",
        json!({"mutations": patch("Object{spec: Object.spec{a: 1}}")}),
        json!({}),
    )
    .await;
    let denied = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.ok(403);
    let words = "policy 'm' with binding 'm-binding' denied request: error applying patch: failed to convert patch object to typed object: .spec: field not declared in schema";
    assert_eq!(denied["message"], json!(words));
    assert_eq!(
        (&denied["reason"], &denied["details"]["causes"]),
        (&json!("Invalid"), &json!([{"message": words}]))
    );
    let path = format!("{GROUP}/mutatingadmissionpolicies/m");
    cluster.merge(path, json!({"spec": {"failurePolicy": "Ignore"}})).await.ok(200);
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.ok(201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn mutations_that_cost_too_much_deny_or_are_ignored() {
    let cluster = TestCluster::simulated(2017).await;
    let digits = "[0,1,2,3,4,5,6,7,8,9]";
    let nested = |names: &[&str]| {
        names.iter().rev().fold("true".to_owned(), |inner, name| format!("{digits}.all({name}, {inner})"))
    };
    let add = |value: &str| {
        json!([{"patchType": "JSONPatch", "jsonPatch": {
        "expression": format!("[JSONPatch{{op: 'add', path: '/data/held', value: string({value})}}]")}}])
    };
    // One expression beyond the limit of its own, and many within theirs that together are beyond the budget.
    let (one, part) = (nested(&["a", "b", "c", "d", "e", "f"]), nested(&["a", "b", "c", "d", "e"]));
    let parts: Vec<Value> = (0..40).map(|n| json!({"name": format!("v{n}"), "expression": part})).collect();
    let all: Vec<String> = (0..40).map(|n| format!("variables.v{n}")).collect();
    for (name, policy, words) in [
        ("costly", json!({"mutations": add(&one)}), "operation cancelled: actual cost limit exceeded"),
        (
            "budget",
            json!({"variables": parts, "mutations": add(&all.join(" && "))}),
            "validation failed due to running out of cost budget, no further validation rules will be run",
        ),
    ] {
        bind(&cluster, "mutating", name, policy, json!({})).await;
        let denied = cluster.post(CONFIG_MAPS, config_map(name, json!({"a": "1"}))).await.ok(403);
        let message = denied["message"].as_str().unwrap();
        let start = format!("policy '{name}' with binding '{name}-binding' denied request: ");
        assert!(message.starts_with(&start) && message.ends_with(words), "{message}");
        let path = format!("{GROUP}/mutatingadmissionpolicies/{name}");
        cluster.merge(path, json!({"spec": {"failurePolicy": "Ignore"}})).await.ok(200);
        let made = cluster.post(CONFIG_MAPS, config_map(name, json!({"a": "1"}))).await.ok(201);
        assert_eq!(made["data"], json!({"a": "1"}), "as it came");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_asked_again_after_another_changed_the_object() {
    let cluster = TestCluster::simulated(2013).await;
    let counting = |reinvocation: &str| {
        let expression = "[JSONPatch{op: 'add', path: '/data/seen', value: string(object.data.size())}]";
        json!({"reinvocationPolicy": reinvocation, "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]})
    };
    bind(&cluster, "mutating", "a-counts", counting("IfNeeded"), json!({})).await;
    let adds = "Object{data: {'more': 'data'}}";
    let policy = json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": adds}}]});
    bind(&cluster, "mutating", "b-adds", policy, json!({})).await;
    let made = cluster.post(CONFIG_MAPS, config_map("a", json!({"k": "v"}))).await.ok(201);
    assert_eq!(made["data"], json!({"k": "v", "more": "data", "seen": "3"}));
    cluster
        .merge(
            format!("{GROUP}/mutatingadmissionpolicies/a-counts"),
            json!({"spec": {"reinvocationPolicy": "Never"}}),
        )
        .await
        .ok(200);
    let made = cluster.post(CONFIG_MAPS, config_map("b", json!({"k": "v"}))).await.ok(201);
    assert_eq!(made["data"], json!({"k": "v", "more": "data", "seen": "1"}));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn validating_policies_see_what_mutating_ones_made() {
    let cluster = TestCluster::simulated(2014).await;
    let adds = json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{metadata: Object.metadata{labels: {'checked': 'yes'}}}"}}]});
    bind(&cluster, "mutating", "adds", adds, json!({})).await;
    let needs = json!({"validations": [{"expression": "object.metadata.labels['checked'] == 'yes'"}]});
    validate(&cluster, "needs", needs, json!({})).await;
    let made = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.ok(201);
    assert_eq!(made["metadata"]["labels"]["checked"], json!("yes"));
    cluster.delete(format!("{GROUP}/mutatingadmissionpolicybindings/adds-binding")).await.ok(200);
    assert_eq!(cluster.post(CONFIG_MAPS, config_map("b", json!({}))).await.status, 422);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn only_who_may_read_parameters_makes_policies_read_them() {
    let cluster = TestCluster::simulated(2015).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rule = |groups: Value, resources: Value, verbs: Value| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let grant = async |name: &str, kind: &str, at: String, rule: Value| {
        let role = json!({"metadata": {"name": name}, "rules": [rule]});
        let plural = format!("{}s", kind.to_lowercase());
        cluster.post(format!("{at}/{plural}"), role).await.ok(201);
        let group = "rbac.authorization.k8s.io";
        let binding = json!({"metadata": {"name": name}, "roleRef": {"apiGroup": group, "kind": kind, "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "eve"}]});
        cluster.post(format!("{at}/{}", plural.replace("role", "rolebinding")), binding).await.ok(201);
    };
    let writes = rule(json!(["admissionregistration.k8s.io"]), json!(["*"]), json!(["*"]));
    grant("policies", "ClusterRole", rbac.to_owned(), writes).await;
    let eve = || auth::UserInfo::new("eve", &[auth::groups::AUTHENTICATED]);
    let by_eve = async |method: &str, path: &str, body: &Value| {
        cluster.request(method, format!("{GROUP}/{path}")).json(body).by(eve()).send().await
    };
    let policy = |name: &str, kind: &str| {
        json!({"metadata": {"name": name}, "spec": {"paramKind": {"apiVersion": "v1", "kind": kind}, "matchConstraints": rules(json!(["CREATE"])),
            "validations": [{"expression": "object != params"}]}})
    };
    let mutating = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "matchConstraints": rules(json!(["CREATE"])),
            "reinvocationPolicy": "Never", "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'test', path: '/kind', value: 'X'}]"}}]}})
    };
    let user = "&{eve  [system:authenticated] map[]}";

    // Of a policy: all there are of the kind, in all namespaces.
    let refused = by_eve("POST", "validatingadmissionpolicies", &policy("p", "ConfigMap")).await.ok(422);
    let why = format!(
        "user {user} must have \"get\" permission on all objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)"
    );
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.paramKind");
    assert_eq!(refused["details"]["causes"][0]["message"], format!("Forbidden: {why}"));
    by_eve("POST", "mutatingadmissionpolicies", &mutating("m")).await.ok(422);
    let maps = || rule(json!([""]), json!(["configmaps"]), json!(["get"]));
    let own = format!("{rbac}/namespaces/default");
    grant("maps", "Role", own, maps()).await;
    by_eve("POST", "validatingadmissionpolicies", &policy("p", "ConfigMap")).await.ok(422);

    // Of a binding: what it refers to. Without the policy nobody knows what that is.
    let reference = |name: Value, namespace: &str| {
        let by = if name.is_string() { "name" } else { "selector" };
        json!({by: name, "namespace": namespace, "parameterNotFoundAction": "Deny"})
    };
    let binding = |name: &str, reference: Value| json!({"metadata": {"name": name}, "spec": {"policyName": "p", "validationActions": ["Deny"], "paramRef": reference}});
    let bindings = "validatingadmissionpolicybindings";
    let message = |refused: Value| refused["details"]["causes"][0]["message"].as_str().unwrap().to_owned();
    let refused = by_eve("POST", bindings, &binding("b", reference(json!("x"), "default"))).await.ok(422);
    let unknown = "to determine minimum required permissions and user &{eve  [system:authenticated] map[]} does not have \"get\" permission for all groups, versions and resources";
    assert_eq!(message(refused), format!("Forbidden: unable to get policy p {unknown}"));
    cluster.post(format!("{GROUP}/validatingadmissionpolicies"), policy("p", "ConfigMap")).await.ok(201);
    by_eve("POST", bindings, &binding("b", reference(json!("x"), "default"))).await.ok(201);
    let refused = by_eve("POST", bindings, &binding("other", reference(json!("x"), "kube-system"))).await;
    let lacks = format!("user {user} does not have \"get\" permission on the object referenced by paramRef");
    assert_eq!(message(refused.ok(422)), format!("Forbidden: {lacks}"));
    let refused = by_eve("POST", bindings, &binding("all", reference(json!({}), "default"))).await.ok(422);
    assert_eq!(message(refused), format!("Forbidden: {}", lacks.replace("\"get\"", "\"list\"")));
    cluster.post(format!("{GROUP}/mutatingadmissionpolicies"), mutating("p")).await.ok(201);
    let mut swapped = binding("b", reference(json!("x"), "kube-system"));
    swapped["spec"].as_object_mut().unwrap().remove("validationActions");
    let refused = by_eve("POST", "mutatingadmissionpolicybindings", &swapped).await.ok(422);
    let lacks = format!("user get does not have \"{user}\" permission on the object referenced by paramRef");
    assert_eq!(message(refused), format!("Forbidden: {lacks}"));
    cluster.post(format!("{GROUP}/validatingadmissionpolicies"), policy("q", "Nothing")).await.ok(201);
    let mut nothing = binding("nothing", reference(json!("x"), "default"));
    nothing["spec"]["policyName"] = json!("q");
    let refused = by_eve("POST", bindings, &nothing).await.ok(422);
    assert_eq!(message(refused), format!("Forbidden: unable to resolve paramKind &{{v1 Nothing}} {unknown}"));

    // Who may change a policy need not read what it read before.
    let patched = async |spec: Value| {
        let patch = json!({"spec": spec}).to_string();
        let asked = cluster.request("PATCH", format!("{GROUP}/validatingadmissionpolicies/p")).by(eve());
        asked.typed("application/merge-patch+json", patch).send().await
    };
    patched(json!({"failurePolicy": "Ignore"})).await.ok(200);
    patched(json!({"paramKind": {"kind": "Secret"}})).await.ok(422);
    grant("all-maps", "ClusterRole", rbac.to_owned(), maps()).await;
    by_eve("POST", "validatingadmissionpolicies", &policy("r", "ConfigMap")).await.ok(201);
    by_eve("POST", "mutatingadmissionpolicies", &mutating("m")).await.ok(201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_may_be_called_again_is_also_when_it_is_alone() {
    let cluster = TestCluster::simulated(2016).await;
    let expression = "Object{metadata: Object.metadata{annotations: {'times': string(int(object.metadata.?annotations['times'].orValue('0')) + 1)}}}";
    let policy = |reinvocation: &str| {
        json!({"reinvocationPolicy": reinvocation,
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]})
    };
    bind(&cluster, "mutating", "counts", policy("IfNeeded"), json!({})).await;
    let made = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.ok(201);
    assert_eq!(made["metadata"]["annotations"]["times"], "2");
    let once = json!({"spec": {"reinvocationPolicy": "Never"}});
    cluster.merge(format!("{GROUP}/mutatingadmissionpolicies/counts"), once).await.ok(200);
    let made = cluster.post(CONFIG_MAPS, config_map("b", json!({}))).await.ok(201);
    assert_eq!(made["metadata"]["annotations"]["times"], "1");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_json_patch_may_not_leave_fields_that_the_type_does_not_have() {
    let cluster = TestCluster::simulated(2017).await;
    let expression = "[JSONPatch{op: 'add', path: '/metadata/nope', value: 'x'}]";
    let policy = json!({"failurePolicy": "Ignore", "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]});
    bind(&cluster, "mutating", "adds", policy, json!({})).await;
    let refused = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.ok(500);
    let why = "Internal error occurred: strict decoding error: unknown field \"metadata.nope\"";
    assert_eq!(refused["message"], why);
    let metrics = cluster.get("/metrics").await.text();
    let series = "apiserver_mutating_admission_policy_check_total{error_type=\"invalid_error\",policy=\"adds\",policy_binding=\"adds-binding\"} 1";
    assert!(
        metrics.contains(series) && !metrics.contains(&series.replace("invalid_error", "no_error")),
        "{metrics}"
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_authorizer_is_asked_with_field_selectors() {
    let cluster = TestCluster::simulated(2018).await;
    let node = || auth::UserInfo::new("system:node:n1", &["system:nodes", auth::groups::AUTHENTICATED]);
    let check = |of: &str| format!("authorizer.group('').resource('pods'){of}.check('list').allowed()");
    let narrowed = check(".fieldSelector('spec.nodeName=n1')");
    let expression = format!("!{} && {narrowed}", check(""));
    let about = json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"]}]});
    let policy = json!({"matchConstraints": about, "validations": [{"expression": expression}]});
    validate(&cluster, "told", policy, json!({})).await;
    let made = json!({"metadata": {"name": "n1"}});
    cluster.request("POST", "/api/v1/nodes").json(&made).by(node()).send().await.ok(201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_fields_that_type_checking_warns_about_are_paths() {
    let cluster = TestCluster::simulated(2019).await;
    validate(&cluster, "p", json!({"validations": [{"expression": "true"}]}), json!({})).await;
    let path = format!("{GROUP}/validatingadmissionpolicies/p/status");
    let warned = |field: &str| json!({"status": {"typeChecking": {"expressionWarnings": [{"fieldRef": field, "warning": "w"}]}}});
    cluster.merge(path.clone(), warned("spec.validations[0].expression")).await.ok(200);
    let refused = cluster.merge(path, warned("spec.validations[")).await.ok(422);
    let cause = &refused["details"]["causes"][0];
    assert_eq!(cause["field"], "status.typeChecking.expressionWarnings[0].fieldRef");
    assert_eq!(
        cause["message"],
        "Invalid value: \"spec.validations[\": invalid JSONPath: unterminated array"
    );
    cluster.shutdown().await;
}
