//! Admission webhooks, mutating and validating, over TLS: who is asked about what, and what becomes of the answer. Messages are
//! kube-apiserver's.

use std::sync::Arc;
use std::time::Duration;

use apiserver::{Caller, serve_stream};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use testkit::TestCluster;

use crate::webhook_server::{Reply, WebhookServer};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The review that answers another.
fn answer(review: &Value, response: Value) -> Value {
    let mut response = response;
    response["uid"] = review["request"]["uid"].clone();
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

fn allow(_: &str, review: &Value) -> Reply {
    Reply::Review(answer(review, json!({"allowed": true})))
}

fn patch(review: &Value, operations: Value) -> Reply {
    let patch = STANDARD.encode(operations.to_string());
    Reply::Review(answer(review, json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})))
}

/// A webhook of a configuration, about config maps.
fn hook(server: &WebhookServer, name: &str, path: &str, more: Value) -> Value {
    let mut hook = json!({
        "name": format!("{name}.example.io"), "clientConfig": server.config(path), "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    });
    hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    hook
}

async fn configure(cluster: &TestCluster, path: &str, name: &str, hooks: Vec<Value>) {
    cluster.post(path, json!({"metadata": {"name": name}, "webhooks": hooks})).await.ok(201);
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

fn operations(server: &WebhookServer) -> Vec<String> {
    let reviews = server.asked().into_iter();
    reviews.map(|(_, review)| review["request"]["operation"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_validating_webhook_sees_the_request_and_may_refuse_it() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    configure(&cluster, VALIDATING, "v", vec![hook(&server, "v", "/v", json!({}))]).await;
    let made = cluster.post(MAPS, map("a")).await.ok(201);
    let asked = server.asked();
    let request = &asked[0].1["request"];
    assert_eq!((asked.len(), asked[0].0.as_str()), (1, "/v"));
    assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!((&request["name"], &request["namespace"]), (&json!("a"), &json!("default")));
    assert_eq!((&request["operation"], &request["dryRun"]), (&json!("CREATE"), &json!(false)));
    assert_eq!(request["object"]["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(request["oldObject"], Value::Null);
    assert_eq!(request["options"]["kind"], "CreateOptions");
    assert_eq!(request["userInfo"]["username"], "kubernetes-admin");

    let path = format!("{MAPS}/a");
    cluster.merge(&path, json!({"data": {"a": "2"}})).await.ok(200);
    cluster.delete(&path).await.ok(200);
    let asked = server.asked();
    let [(_, update), (_, delete)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(update["request"]["oldObject"]["data"]["a"], "1");
    assert_eq!(update["request"]["object"]["data"]["a"], "2");
    assert_eq!(
        (&delete["request"]["operation"], &delete["request"]["object"]),
        (&json!("DELETE"), &Value::Null)
    );
    assert_eq!(delete["request"]["oldObject"]["data"]["a"], "2");
    assert_eq!(delete["request"]["options"]["kind"], "DeleteOptions");

    server.answers(|_, review| {
        let status = json!({"message": "not today", "code": 418, "reason": "Teapot"});
        Reply::Review(answer(review, json!({"allowed": false, "status": status, "warnings": ["careful"]})))
    });
    let refused = cluster.post(MAPS, map("b")).await;
    let said = refused.ok(418);
    assert_eq!(said["message"], r#"admission webhook "v.example.io" denied the request: not today"#);
    assert_eq!(said["reason"], "Teapot");
    cluster.get(&format!("{MAPS}/b")).await.ok(404);
    server.answers(|_, review| Reply::Review(answer(review, json!({"allowed": false}))));
    let said = cluster.post(MAPS, map("b")).await.ok(400);
    assert_eq!(said["message"], r#"admission webhook "v.example.io" denied the request without explanation"#);
}

#[tokio::test]
async fn mutating_webhooks_change_the_object_one_after_the_other() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    server.answers(|path, review| match path {
        "/first" => patch(review, json!([{"op": "add", "path": "/data/first", "value": "yes"}])),
        // Sees what the one before did.
        _ => match review["request"]["object"]["data"].get("first") {
            Some(_) => {
                patch(review, json!([{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]))
            }
            None => Reply::Raw(500, ""),
        },
    });
    let hooks = vec![hook(&server, "a", "/first", json!({})), hook(&server, "b", "/second", json!({}))];
    configure(&cluster, MUTATING, "m", hooks).await;
    let made = cluster.post(MAPS, map("a")).await.ok(201);
    assert_eq!((&made["data"]["first"], &made["metadata"]["labels"]["seen"]), (&json!("yes"), &json!("yes")));
    let shown = cluster.get(&format!("{MAPS}/a")).await.ok(200);
    assert_eq!(shown["data"], json!({"a": "1", "first": "yes"}));
    // Nobody is asked about what admission itself is configured by.
    server.asked();
    cluster.delete(&format!("{MUTATING}/m")).await.ok(200);
    assert_eq!(operations(&server), Vec::<String>::new());
    cluster.post(MAPS, map("b")).await.ok(201);
    assert_eq!(operations(&server), Vec::<String>::new());
}

#[tokio::test]
async fn a_webhook_is_called_again_if_needed_and_only_then() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    server.answers(|path, review| match path {
        "/late" if review["request"]["object"]["data"].get("late").is_none() => {
            patch(review, json!([{"op": "add", "path": "/data/late", "value": "yes"}]))
        }
        _ => allow(path, review),
    });
    let hooks = vec![
        hook(&server, "again", "/again", json!({"reinvocationPolicy": "IfNeeded"})),
        hook(&server, "once", "/once", json!({})),
        hook(&server, "late", "/late", json!({})),
    ];
    configure(&cluster, MUTATING, "m", hooks).await;
    cluster.post(MAPS, map("a")).await.ok(201);
    let paths: Vec<String> = server.asked().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["/again", "/once", "/late", "/again"]);
    cluster.merge(&format!("{MAPS}/a"), json!({"data": {"b": "1"}})).await.ok(200);
    assert_eq!(server.asked().len(), 3, "nothing changed, so nobody is called again");
}

#[tokio::test]
async fn failure_policies_timeouts_and_bad_answers() {
    let (cluster, mut server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    let ignored = hook(&server, "ignored", "/v", json!({"failurePolicy": "Ignore", "timeoutSeconds": 1}));
    configure(&cluster, VALIDATING, "ignored", vec![ignored]).await;
    server.answers(|_, _| Reply::Raw(500, "broken"));
    cluster.post(MAPS, map("a")).await.ok(201);
    server.answers(|_, _| Reply::Never);
    cluster.post(MAPS, map("b")).await.ok(201);
    cluster.delete(&format!("{VALIDATING}/ignored")).await.ok(200);

    let strict = hook(&server, "strict", "/v", json!({"timeoutSeconds": 1}));
    configure(&cluster, VALIDATING, "strict", vec![strict]).await;
    let message = async |cluster: &TestCluster| {
        let refused = cluster.post(MAPS, map("c")).await.ok(500);
        refused["message"].as_str().unwrap().to_owned()
    };
    let failed = r#"Internal error occurred: failed calling webhook "strict.example.io": "#;
    let url = server.url("/v?timeout=1s");
    let said = message(&cluster).await;
    assert_eq!(said, format!("{failed}failed to call webhook: Post \"{url}\": context deadline exceeded"));
    server.answers(|_, review| {
        Reply::Review(answer(&json!({"request": {"uid": "x"}}), review["none"].clone()))
    });
    let said = message(&cluster).await;
    assert!(
        said.starts_with(&format!("{failed}received invalid webhook response: expected response.uid=")),
        "{said}"
    );
    server.answers(|_, review| patch(review, json!([{"op": "remove", "path": "/data"}])));
    let said = message(&cluster).await;
    assert_eq!(
        said,
        format!(
            "{failed}received invalid webhook response: validating webhook may not return response.patch"
        )
    );
    server.down().await;
    let said = message(&cluster).await;
    assert!(
        said.starts_with(&format!("{failed}failed to call webhook: Post"))
            && said.ends_with("connection refused"),
        "{said}"
    );
    cluster.get(&format!("{MAPS}/c")).await.ok(404);
}

#[tokio::test]
async fn selectors_conditions_and_equivalent_resources_decide_who_is_asked() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    let rules = |group: &str, version: &str, resource: &str| json!([{"operations": ["CREATE"], "apiGroups": [group], "apiVersions": [version], "resources": [resource]}]);
    let hooks = vec![
        hook(&server, "object", "/object", json!({"objectSelector": {"matchLabels": {"on": "yes"}}})),
        hook(
            &server,
            "namespace",
            "/namespace",
            json!({"namespaceSelector": {"matchLabels": {"on": "yes"}}}),
        ),
        hook(
            &server,
            "condition",
            "/condition",
            json!({"matchConditions": [{"name": "n", "expression": "object.metadata.name == 'wanted' && authorizer.requestResource.check('create').allowed()"}]}),
        ),
        hook(
            &server,
            "scaler",
            "/scaler",
            json!({"rules": rules("autoscaling", "v1", "horizontalpodautoscalers")}),
        ),
        hook(
            &server,
            "exact",
            "/exact",
            json!({"matchPolicy": "Exact", "rules": rules("autoscaling", "v1", "horizontalpodautoscalers")}),
        ),
    ];
    configure(&cluster, VALIDATING, "v", hooks).await;
    let asked = |server: &WebhookServer| -> Vec<String> {
        let mut paths: Vec<String> = server.asked().into_iter().map(|(path, _)| path).collect();
        paths.sort();
        paths
    };
    cluster.post(MAPS, map("a")).await.ok(201);
    assert_eq!(asked(&server), Vec::<String>::new());
    let mut labelled = map("b");
    labelled["metadata"]["labels"] = json!({"on": "yes"});
    cluster.post(MAPS, labelled).await.ok(201);
    cluster.post(MAPS, map("wanted")).await.ok(201);
    assert_eq!(asked(&server), ["/condition", "/object"]);
    let namespace = json!({"metadata": {"name": "other", "labels": {"on": "yes"}}});
    cluster.post("/api/v1/namespaces", namespace).await.ok(201);
    cluster.post("/api/v1/namespaces/other/configmaps", map("a")).await.ok(201);
    assert!(asked(&server).contains(&"/namespace".to_owned()));
    let scaler = json!({"metadata": {"name": "s"}, "spec": {"maxReplicas": 3, "minReplicas": 1,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}});
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    cluster.post(path, scaler).await.ok(201);
    let reviews = server.asked();
    let [(path, review)] = &reviews[..] else { panic!("{reviews:?}") };
    assert_eq!(path, "/scaler");
    assert_eq!(review["request"]["object"]["apiVersion"], "autoscaling/v1");
    assert_eq!(review["request"]["object"]["spec"]["targetCPUUtilizationPercentage"], 50);
    assert_eq!(review["request"]["requestResource"]["version"], "v2");
}

#[tokio::test]
async fn dry_runs_scales_and_evictions_are_asked_about_as_themselves() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": ["deployments", "deployments/scale", "pods", "pods/eviction", "configmaps"]}]);
    configure(&cluster, VALIDATING, "v", vec![hook(&server, "v", "/v", json!({"rules": rules}))]).await;
    let made = cluster.post(&format!("{MAPS}?dryRun=All"), map("dry")).await;
    made.ok(201);
    assert_eq!(server.asked()[0].1["request"]["dryRun"], true);
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    cluster.post(path, deployment).await.ok(201);
    server.asked();
    let scale = json!({"metadata": {"name": "d", "namespace": "default"}, "spec": {"replicas": 3}});
    cluster.put(&format!("{path}/d/scale"), scale).await.ok(200);
    let asked = server.asked();
    let [(_, review)] = &asked[..] else { panic!("{asked:?}") };
    let request = &review["request"];
    assert_eq!((&request["kind"]["kind"], &request["subResource"]), (&json!("Scale"), &json!("scale")));
    assert_eq!(request["object"]["spec"]["replicas"], 3);
    assert_eq!(request["oldObject"]["spec"]["replicas"], 1);

    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.post(pods, pod).await.ok(201);
    server.asked();
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "default"}});
    cluster.post(&format!("{pods}/p/eviction"), eviction).await.ok(201);
    let asked = server.asked();
    let [(_, review)] = &asked[..] else { panic!("about the eviction, not about the pod: {asked:?}") };
    let request = &review["request"];
    assert_eq!(request["kind"], json!({"group": "policy", "version": "v1", "kind": "Eviction"}));
    assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "pods"}));
    assert_eq!((&request["subResource"], &request["operation"]), (&json!("eviction"), &json!("CREATE")));
    assert_eq!((&request["name"], &request["object"]["metadata"]["name"]), (&json!("p"), &json!("p")));
    cluster.get(&format!("{pods}/p")).await.ok(404);
}

#[tokio::test]
async fn a_deletion_is_shown_with_the_grace_period_that_was_chosen() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    let rules = json!([{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods", "configmaps"]}]);
    configure(&cluster, VALIDATING, "v", vec![hook(&server, "v", "/v", json!({"rules": rules}))]).await;
    let pods = "/api/v1/namespaces/default/pods";
    let grace =
        |server: &WebhookServer| server.asked()[0].1["request"]["options"].get("gracePeriodSeconds").cloned();
    for (name, node, chosen) in [("waits", json!(null), 0), ("runs", json!("n"), 17)] {
        let spec = json!({"nodeName": node, "terminationGracePeriodSeconds": 17, "containers": [{"name": "c", "image": "i"}]});
        cluster.post(pods, json!({"metadata": {"name": name}, "spec": spec})).await.ok(201);
        cluster.delete(format!("{pods}/{name}")).await.ok(200);
        assert_eq!(grace(&server), Some(json!(chosen)), "{name}");
    }
    cluster.post(MAPS, map("a")).await.ok(201);
    cluster.delete(format!("{MAPS}/a")).await.ok(200);
    assert_eq!(grace(&server), None, "a config map goes at once");
    for (asked, shown) in [(-1, 1), (5, 5)] {
        cluster.post(MAPS, map("a")).await.ok(201);
        cluster.delete(format!("{MAPS}/a?gracePeriodSeconds={asked}")).await.ok(200);
        assert_eq!(grace(&server), Some(json!(shown)), "a negative period is one second");
    }
    // Of a collection each object is deleted with options of its own.
    for (query, shown) in [("", None), ("?gracePeriodSeconds=-1", Some(json!(-1)))] {
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        cluster.post(pods, json!({"metadata": {"name": "all"}, "spec": spec})).await.ok(201);
        cluster.delete(format!("{pods}{query}")).await.ok(200);
        assert_eq!(grace(&server), shown, "the client's own: {query}");
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_mutating_webhook_is_asked_about_each_object_of_a_collection_that_is_deleted() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    for name in ["a", "b", "stays"] {
        let mut made = map(name);
        made["metadata"]["labels"] = json!({"stays": (name == "stays").to_string()});
        cluster.post(MAPS, made).await.ok(201);
    }
    configure(&cluster, MUTATING, "m", vec![hook(&server, "m", "/m", json!({}))]).await;
    cluster.delete(format!("{MAPS}?labelSelector=stays%3Dfalse")).await.ok(200);
    let reviews: Vec<Value> =
        server.asked().into_iter().map(|(_, review)| review["request"].clone()).collect();
    let operations: Vec<&Value> = reviews.iter().map(|review| &review["operation"]).collect();
    assert_eq!(operations, ["DELETE", "DELETE"]);
    let mut names: Vec<&str> =
        reviews.iter().map(|review| review["oldObject"]["metadata"]["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b"]);
    assert!(reviews.iter().all(|review| review["object"].is_null()));
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_webhook_has_no_more_time_than_the_request() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    let with = |name: &str, seconds: u64| hook(&server, name, "/v", json!({"timeoutSeconds": seconds}));
    configure(&cluster, MUTATING, "m", vec![with("long", 30), with("short", 2)]).await;
    configure(&cluster, VALIDATING, "v", vec![with("last", 30)]).await;
    cluster.post(&format!("{MAPS}?timeout=20s"), map("a")).await.ok(201);
    let told = server.queries();
    let seconds: Vec<u64> = told
        .iter()
        .map(|query| {
            query.strip_prefix("timeout=").and_then(|it| it.strip_suffix('s')).unwrap().parse().unwrap()
        })
        .collect();
    let [long, 2, last] = seconds[..] else { panic!("{told:?}") };
    assert!(long <= 20 && last <= long && last > 2, "{told:?}");
    cluster.shutdown().await;
}

#[tokio::test]
async fn what_webhooks_make_of_owners_and_managers_is_mended_and_warned_about() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    configure(&cluster, MUTATING, "m", vec![hook(&server, "m", "/m", json!({}))]).await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "of-o"});
    server.answers(move |_, review| {
        patch(review, json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [owner, owner]}]))
    });
    let made = cluster.post(MAPS, map("a")).await;
    let warning = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner \
                   references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) \
                   observed: of-o";
    assert_eq!(made.warnings(), [format!("299 - \"{warning}\"")]);
    assert_eq!(made.ok(201)["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));

    server.answers(|_, review| {
        let managers = json!([{"manager": "m", "operation": "Sometimes", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]);
        patch(review, json!([{"op": "add", "path": "/metadata/managedFields", "value": managers}]))
    });
    let made = cluster.post(MAPS, map("b")).await;
    let warnings = made.warnings();
    let begins = "299 - \".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
                  mutating admission controller; please fix your requests: ";
    assert!(warnings.len() == 1 && warnings[0].starts_with(begins), "{warnings:?}");
    let managers = made.ok(201)["metadata"]["managedFields"].clone();
    assert_eq!(managers[0]["operation"], "Update", "{managers}");
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_slow_webhook_keeps_no_other_request_waiting() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(|_, _| Reply::Never).await);
    let selected = json!({"objectSelector": {"matchLabels": {"slow": "yes"}}, "timeoutSeconds": 30});
    configure(&cluster, VALIDATING, "slow", vec![hook(&server, "slow", "/v", selected)]).await;
    let mut slow = map("slow");
    slow["metadata"]["labels"] = json!({"slow": "yes"});
    let waiting = cluster.post(MAPS, slow);
    tokio::select! {
        biased;
        _ = waiting => panic!("nobody answered"),
        () = async {
            server.is_asked().await;
            cluster.post(MAPS, map("quick")).await.ok(201);
        } => {}
        () = cluster.env().sleep(Duration::from_secs(20)) => panic!("the other request waits"),
    }
}

#[tokio::test]
async fn a_call_is_counted_by_what_came_of_all_of_it() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    server.answers(|path, review| {
        let patched = |patch_type: &str, patch: &str| {
            let (patch, status) = (STANDARD.encode(patch), json!({"code": 601}));
            let response =
                json!({"allowed": true, "patchType": patch_type, "patch": patch, "status": status});
            Reply::Review(answer(review, response))
        };
        match path {
            "/undecodable" => patched("JSONPatch", "{"),
            "/unsupported" => patched("Other", r#"[{"op": "remove", "path": "/data"}]"#),
            "/inapplicable" => patched("JSONPatch", r#"[{"op": "remove", "path": "/none"}]"#),
            _ => allow(path, review),
        }
    });
    let cases = [
        ("undecodable", json!({}), 500, "503", Some("calling_webhook_error")),
        ("unsupported", json!({}), 500, "600", Some("calling_webhook_error")),
        ("undecodable", json!({"failurePolicy": "Ignore"}), 201, "503", None),
        ("inapplicable", json!({}), 500, "0", Some("apiserver_internal_error")),
        ("dry", json!({"sideEffects": "NoneOnDryRun"}), 201, "200", None),
    ];
    for (number, (path, more, status, code, error)) in cases.into_iter().enumerate() {
        let name = format!("{path}-{number}");
        configure(&cluster, MUTATING, "m", vec![hook(&server, &name, &format!("/{path}"), more)]).await;
        let reply = cluster.post(&format!("{MAPS}?dryRun=All"), map("a")).await;
        assert_eq!(reply.status, status, "{name}: {}", reply.text());
        cluster.delete(&format!("{MUTATING}/m")).await.ok(200);
        let metrics = cluster.get("/metrics").await.text();
        let counted = |line: String| assert!(metrics.lines().any(|l| l == line), "{line}");
        let rejected = error.is_some();
        counted(format!(
            r#"apiserver_admission_webhook_request_total{{code="{code}",name="{name}.example.io",operation="CREATE",rejected="{rejected}",type="admit"}} 1"#
        ));
        if let Some(error) = error {
            counted(format!(
                r#"apiserver_admission_webhook_rejection_count{{error_type="{error}",name="{name}.example.io",operation="CREATE",rejection_code="{code}",type="admit"}} 1"#
            ));
        }
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn conditions_of_a_webhook_that_is_not_called_again_are_evaluated_all_the_same() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    server.answers(|path, review| match path {
        "/late" => patch(review, json!([{"op": "add", "path": "/data/late", "value": "yes"}])),
        _ => allow(path, review),
    });
    // It cannot be evaluated once the other has changed the object.
    let condition = json!([{"name": "c", "expression": "!has(object.data.late) || [true][1]"}]);
    let hooks = vec![
        hook(&server, "once", "/once", json!({"matchConditions": condition})),
        hook(&server, "late", "/late", json!({})),
    ];
    configure(&cluster, MUTATING, "m", hooks).await;
    let refused = cluster.post(MAPS, map("a")).await.ok(403);
    assert!(refused["message"].as_str().unwrap().contains("index out of bounds"), "{refused}");
    let paths: Vec<String> = server.asked().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["/once", "/late"]);
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_call_that_is_given_up_at_the_end_is_no_failure_of_the_webhook() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(|_, _| Reply::Never).await);
    let ignored = json!({"failurePolicy": "Ignore", "timeoutSeconds": 30});
    configure(&cluster, VALIDATING, "v", vec![hook(&server, "ignored", "/v", ignored)]).await;
    let end = async {
        server.is_asked().await;
        cluster.api().begin_shutdown();
    };
    let (made, ()) = tokio::join!(cluster.post(MAPS, map("a")), end);
    made.ok(201);
    let metrics = cluster.get("/metrics").await.text();
    let called = r#"apiserver_admission_webhook_request_total{code="503",name="ignored.example.io""#;
    assert!(metrics.contains(called), "{metrics}");
    assert!(!metrics.contains("apiserver_admission_webhook_fail_open_count{"), "{metrics}");
    let told = cluster.get("/debug/admission").await.text();
    assert!(
        told.contains("webhook ignored.example.io of v: failed") && !told.contains("failed-open"),
        "{told}"
    );
}

/// The client resets the stream of its request; upstream's context is canceled then.
#[tokio::test]
async fn a_call_whose_client_is_gone_is_counted_and_told() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(|_, _| Reply::Never).await);
    let (near, far) = tokio::io::duplex(64 << 10);
    let (api, known) = (cluster.api().clone(), Arc::new(testkit::admin().authenticated()));
    let served = async move { serve_stream(api, far, true, move |_| Caller::Known(known.clone())).await };
    cluster.env().spawn("server", served);
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(near)).await.unwrap();
    cluster.env().spawn("client", connection);
    for (path, policy, kind, rejected) in [
        (MUTATING, "Fail", "admit", true),
        (MUTATING, "Ignore", "admit", false),
        (VALIDATING, "Fail", "validating", true),
        (VALIDATING, "Ignore", "validating", false),
    ] {
        let name = format!("{kind}-{}", policy.to_lowercase());
        let more = json!({"failurePolicy": policy, "timeoutSeconds": 30});
        configure(&cluster, path, "w", vec![hook(&server, &name, "/w", more)]).await;
        let request = http::Request::post(MAPS).header("content-type", "application/json");
        let request = request.header("audit-id", &name).body(map(&name).to_string()).unwrap();
        tokio::select! {
            biased;
            answer = client.send_request(request) => panic!("{answer:?}"),
            () = server.is_asked() => {}
        }
        let told = loop {
            let told = cluster.get(format!("/debug/admission?auditID={name}")).await.text();
            if told.contains(&name) {
                break told;
            }
            cluster.env().sleep(Duration::from_millis(1)).await;
        };
        for line in [
            format!("webhook {name}.example.io of w: given up by the client ["),
            "\n  given up by the client before it was answered\n".to_owned(),
        ] {
            assert!(told.contains(&line), "{line}\n{told}");
        }
        assert_eq!(told.contains("\"mutated\":false"), kind == "admit", "{told}");
        server.asked();
        cluster.delete(&format!("{path}/w")).await.ok(200);
        let metrics = cluster.get("/metrics").await.text();
        let counted = format!(
            r#"apiserver_admission_webhook_request_total{{code="503",name="{name}.example.io",operation="CREATE",rejected="{rejected}",type="{kind}"}} 1"#
        );
        assert!(metrics.lines().any(|line| line == counted), "{counted}\n{metrics}");
        let took = format!(
            r#"apiserver_admission_webhook_admission_duration_seconds_count{{name="{name}.example.io",operation="CREATE",rejected="{rejected}",type="{kind}"}} 1"#
        );
        assert!(metrics.lines().any(|line| line == took), "{took}\n{metrics}");
        // It says nothing about the webhook.
        for family in
            ["apiserver_admission_webhook_rejection_count{", "apiserver_admission_webhook_fail_open_count{"]
        {
            assert!(!metrics.contains(family), "{metrics}");
        }
    }
    let metrics = cluster.get("/metrics").await.text();
    let requests = metrics.lines().find(|line| {
        line.starts_with("apiserver_request_total{code=\"504\"") && line.contains("resource=\"configmaps\"")
    });
    assert!(requests.is_some_and(|line| line.ends_with("} 4")), "{metrics}");
    cluster.get(&format!("{MAPS}/admit-fail")).await.ok(404);
    cluster.shutdown().await;
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

async fn deploy(cluster: &TestCluster, name: &str) {
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": name}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    cluster.post(DEPLOYMENTS, deployment).await.ok(201);
}

#[tokio::test]
async fn a_scale_is_judged_after_webhooks_changed_it() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    deploy(&cluster, "d").await;
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["deployments/scale"]}]);
    configure(&cluster, MUTATING, "m", vec![hook(&server, "m", "/m", json!({"rules": rules}))]).await;
    let scale = |replicas: i64| json!({"metadata": {"name": "d", "namespace": "default"}, "spec": {"replicas": replicas}});
    let path = format!("{DEPLOYMENTS}/d/scale");
    let refused = cluster.put(&path, scale(-1)).await.ok(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.replicas");
    let (_, review) = &server.asked()[0];
    assert_eq!(review["request"]["object"]["spec"]["replicas"], -1);
    assert_eq!(review["request"]["oldObject"]["spec"]["replicas"], 1);
    server
        .answers(|_, review| patch(review, json!([{"op": "replace", "path": "/spec/replicas", "value": 4}])));
    let scaled = cluster.put(&path, scale(-1)).await.ok(200);
    assert_eq!(scaled["spec"]["replicas"], 4);
    // Validating ones see what came of it.
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["deployments/scale"]}]);
    configure(&cluster, VALIDATING, "v", vec![hook(&server, "v", "/v", json!({"rules": rules}))]).await;
    server.asked();
    server.answers(|path, review| match path {
        "/m" => patch(review, json!([{"op": "replace", "path": "/spec/replicas", "value": 5}])),
        path => allow(path, review),
    });
    cluster.merge(&path, json!({"spec": {"replicas": 2}})).await.ok(200);
    let asked = server.asked();
    let shown =
        |at: usize| (asked[at].0.as_str(), asked[at].1["request"]["object"]["spec"]["replicas"].clone());
    assert_eq!([shown(0), shown(1)], [("/m", json!(2)), ("/v", json!(5))]);
    assert_eq!(cluster.get(&path).await.ok(200)["spec"]["replicas"], 5);
}

#[tokio::test]
async fn warnings_come_with_the_refusal_of_what_is_not_stored() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.post(pods, pod).await.ok(201);
    server.answers(|path, review| {
        let response = json!({"allowed": path == "/m", "warnings": [format!("said by {path}")]});
        Reply::Review(answer(review, response))
    });
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": ["pods/eviction", "pods/binding", "bindings", "pods/exec", "serviceaccounts/token", "subjectaccessreviews"]}]);
    configure(&cluster, MUTATING, "m", vec![hook(&server, "m", "/m", json!({"rules": rules}))]).await;
    configure(&cluster, VALIDATING, "v", vec![hook(&server, "v", "/v", json!({"rules": rules}))]).await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let review = json!({"spec": {"user": "jane", "resourceAttributes": {"verb": "get", "resource": "pods"}}});
    for (path, body) in [
        (format!("{pods}/p/eviction"), json!({"metadata": {"name": "p"}})),
        (format!("{pods}/p/binding"), binding.clone()),
        ("/api/v1/namespaces/default/bindings".to_owned(), binding),
        (format!("{pods}/p/exec?command=ls&stdout=true"), json!({})),
        (
            "/api/v1/namespaces/default/serviceaccounts/default/token".to_owned(),
            json!({"spec": {"audiences": []}}),
        ),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned(), review),
    ] {
        let refused = cluster.post(&path, body).await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text());
        let said = ["299 - \"said by /m\"", "299 - \"said by /v\""];
        assert_eq!(refused.warnings(), said, "{path}");
    }
}

#[tokio::test]
async fn a_refusal_is_read_by_its_type() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    configure(&cluster, VALIDATING, "v", vec![hook(&server, "v", "/v", json!({}))]).await;
    server.answers(|_, review| {
        let status = json!({"message": "later", "code": 429, "reason": "TooManyRequests", "unknown": {"a": 1},
            "details": {"retryAfterSeconds": 7, "causes": [], "more": true}});
        Reply::Review(answer(review, json!({"allowed": false, "status": status})))
    });
    let refused = cluster.post(MAPS, map("a")).await;
    assert_eq!(refused.headers.get("retry-after").map(|value| value.as_bytes()), Some(&b"7"[..]));
    let said = refused.ok(429);
    assert_eq!(said["details"], json!({"retryAfterSeconds": 7}));
    assert_eq!(said.get("unknown"), None);
    // Of another type: it is no answer, so the failure policy decides.
    server.answers(|_, review| {
        Reply::Review(answer(review, json!({"allowed": false, "status": {"code": "429"}})))
    });
    let failed = cluster.post(MAPS, map("a")).await.ok(500);
    let words = "Internal error occurred: failed calling webhook \"v.example.io\": failed to call webhook: json: cannot unmarshal string into Go struct field";
    assert!(failed["message"].as_str().unwrap().starts_with(words), "{failed}");
    let ignored =
        json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]).to_string();
    let path = format!("{VALIDATING}/v");
    cluster.request("PATCH", path).typed("application/json-patch+json", ignored).send().await.ok(200);
    cluster.post(MAPS, map("a")).await.ok(201);
}

#[tokio::test]
async fn a_generated_name_that_is_taken_asks_no_mutating_webhook_again() {
    let (cluster, server) = (TestCluster::start().await, WebhookServer::start(allow).await);
    let addresses = "/apis/networking.k8s.io/v1/ipaddresses";
    // Their names get no suffix: the second is always taken.
    let parent = json!({"resource": "services", "namespace": "default", "name": "x"});
    let address = json!({"metadata": {"generateName": "192.0.2.7"}, "spec": {"parentRef": parent}});
    cluster.post(addresses, address.clone()).await.ok(201);
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["ipaddresses"]}]);
    configure(&cluster, MUTATING, "m", vec![hook(&server, "m", "/m", json!({"rules": rules}))]).await;
    configure(&cluster, VALIDATING, "v", vec![hook(&server, "v", "/v", json!({"rules": rules}))]).await;
    cluster.post(addresses, address).await.ok(409);
    let asked = server.asked();
    let times = |of: &str| asked.iter().filter(|(path, _)| path == of).count();
    assert_eq!((times("/m"), times("/v")), (1, 8));
}
