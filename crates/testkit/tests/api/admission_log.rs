//! `/debug/admission`: which plugins, policies and webhooks took part in a request, and what each did.

use std::io::{self, Write};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::TestCluster;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::webhook_server::{Reply, WebhookServer};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

async fn page(cluster: &TestCluster, query: &str) -> String {
    let reply = cluster.get(format!("/debug/admission{query}")).await;
    assert_eq!(reply.status, 200);
    reply.text()
}

fn rules(resource: &str) -> Value {
    json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource]}])
}

async fn policy(cluster: &TestCluster, name: &str, spec: Value, actions: Value) {
    let mut spec = spec;
    spec.as_object_mut()
        .unwrap()
        .entry("matchConstraints")
        .or_insert_with(|| json!({"resourceRules": rules("configmaps")}));
    let made = json!({"metadata": {"name": name}, "spec": spec});
    cluster.post(format!("{GROUP}/validatingadmissionpolicies"), made).await.ok(201);
    let binding = json!({"metadata": {"name": format!("{name}-b")}, "spec": {"policyName": name, "validationActions": actions}});
    cluster.post(format!("{GROUP}/validatingadmissionpolicybindings"), binding).await.ok(201);
}

#[tokio::test]
async fn a_request_is_told_with_those_who_took_part() {
    let cluster = TestCluster::start().await;
    let server = WebhookServer::start(|path, review| {
        let patch = json!([{"op": "add", "path": "/data/added", "value": "hidden-value"}]).to_string();
        let response = match path {
            "/m" => json!({"uid": review["request"]["uid"], "allowed": true, "patchType": "JSONPatch",
                "patch": STANDARD.encode(patch), "auditAnnotations": {"seen": "yes", "not a key": "no"}}),
            _ => {
                json!({"uid": review["request"]["uid"], "allowed": false, "status": {"message": "not today"}})
            }
        };
        Reply::Review(
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
        )
    })
    .await;
    let hook = |name: &str, path: &str, more: Value| {
        let mut hook = json!({"name": format!("{name}.example.io"), "clientConfig": server.config(path), "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "rules": rules("configmaps")});
        hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        hook
    };
    let labelled = json!({"objectSelector": {"matchLabels": {"x": "y"}}});
    let named = json!({"matchConditions": [{"name": "is-b", "expression": "object.metadata.name == 'b'"}]});
    let hooks = json!([hook("m", "/m", json!({})), hook("other", "/m", labelled), hook("late", "/m", named)]);
    let made = json!({"metadata": {"name": "hooks"}, "webhooks": hooks});
    cluster.post(format!("{GROUP}/mutatingwebhookconfigurations"), made).await.ok(201);
    let validations = json!({"validations": [{"expression": "object.data.size() < 9"}, {"expression": "object.metadata.name != 'a'", "message": "no a"}]});
    policy(&cluster, "sizes", validations, json!(["Warn", "Audit"])).await;

    let asked = cluster.request("POST", MAPS).header("Audit-ID", "ask-1");
    asked.json(&json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).send().await.ok(201);
    let text = page(&cluster, "?auditID=ask-1").await;
    for line in [
        "create configmaps default/a by kubernetes-admin",
        "  Audit-ID ask-1",
        "MutatingAdmissionWebhook, webhook m.example.io of hooks: allowed, changed: data.added added [",
        "MutatingAdmissionWebhook, webhook other.example.io of hooks: not called: the object does not match objectSelector",
        "MutatingAdmissionWebhook, webhook late.example.io of hooks: not called: its match condition \"is-b\" does not hold",
        "ValidatingAdmissionPolicy, policy sizes, binding sizes-b: did not hold (action Warn, Audit), CEL cost ",
        ": no a",
        "  audit annotation m.example.io/seen: yes",
        "  audit annotation mutation.webhook.admission.k8s.io/round_0_index_0: {\"configuration\":\"hooks\",\"webhook\":\"m.example.io\",\"mutated\":true}",
        "  audit annotation validation.policy.admission.k8s.io/validation_failure: [{\"message\":\"no a\"",
        "  admitted",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("hidden-value") && !text.contains("not a key"), "{text}");
    let metrics = cluster.get("/metrics").await.text();
    assert!(metrics.contains("\nsetpoint_audit_annotations_total 3\n"), "{metrics}");

    // A refusal, and what finds it.
    let refusing = json!({"metadata": {"name": "no"}, "webhooks": [hook("v", "/v", json!({}))]});
    cluster.post(format!("{GROUP}/validatingwebhookconfigurations"), refusing).await.ok(201);
    cluster.post(MAPS, json!({"metadata": {"name": "b"}, "data": {"k": "v"}})).await.ok(400);
    let text =
        page(&cluster, "?verdict=refused&resource=configmaps&namespace=default&name=b&user=kubernetes-admin")
            .await;
    let denied = "admission webhook \"v.example.io\" denied the request: not today";
    assert!(text.contains(&format!("webhook v.example.io of no: refused: {denied}")), "{text}");
    assert!(text.contains(&format!("refused with 400: {denied}")), "{text}");
    assert!(!text.contains("default/a"), "{text}");
    assert!(page(&cluster, "?name=nobody").await.contains("None of the last requests"));
    cluster.get("/debug/admission?verdict=maybe").await.ok(400);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_is_told_in_full() {
    let cluster = TestCluster::simulated(3).await;
    let only_secrets = json!({"matchConstraints": {"resourceRules": rules("secrets")}, "validations": [{"expression": "false"}]});
    policy(&cluster, "elsewhere", only_secrets, json!(["Deny"])).await;
    let unbound = json!({"metadata": {"name": "unbound"}, "spec": {"matchConstraints": {"resourceRules": rules("pods")}, "validations": [{"expression": "false"}]}});
    cluster.post(format!("{GROUP}/validatingadmissionpolicies"), unbound).await.ok(201);
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    // Nobody has anything to say of an ordinary one.
    let real = json!({"metadata": {"name": "real"}, "spec": pod["spec"]});
    cluster.post(pods, real).await.ok(201);
    cluster.post(format!("{pods}?dryRun=All"), pod).await.ok(201);
    let text = page(&cluster, "?resource=pods").await;
    for line in [
        "create pods default/web (dry run) by kubernetes-admin",
        "  mutating   ServiceAccount: changed: spec.containers[0].volumeMounts added, spec.serviceAccountName added, ",
        "  mutating   DefaultTolerationSeconds: changed: spec.tolerations added [0 µs]",
        "  validating ValidatingAdmissionPolicy: no rule matches: policy elsewhere; policy unbound (no binding)",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("default/real"), "{text}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn refusals_by_plugins_are_told_and_secrets_are_kept() {
    let cluster = TestCluster::simulated(4).await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "0"}}});
    cluster.post("/api/v1/namespaces/default/resourcequotas", quota).await.ok(201);
    cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(403);
    let text = page(&cluster, "?resource=configmaps").await;
    assert!(
        text.contains(
            "  validating ResourceQuota: refused: configmaps \"a\" is forbidden: exceeded quota: q"
        ),
        "{text}"
    );

    let leaky = json!({"matchConstraints": {"resourceRules": rules("secrets")},
        "validations": [{"expression": "false", "messageExpression": "'it holds ' + string(object.data.k)"}]});
    policy(&cluster, "leaky", leaky, json!(["Deny", "Audit"])).await;
    let secret = json!({"metadata": {"name": "s"}, "data": {"k": STANDARD.encode("swordfish")}});
    let refused = cluster.post("/api/v1/namespaces/default/secrets", secret).await.ok(422);
    assert!(refused["message"].as_str().unwrap().contains("it holds"), "{refused}");
    let text = page(&cluster, "?resource=secrets").await;
    assert!(text.contains("policy leaky") && text.contains("withheld"), "{text}");
    assert!(!text.contains("it holds"), "{text}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn only_who_may_read_the_path_reads_it() {
    let cluster = TestCluster::simulated(5).await;
    let nobody = auth::UserInfo::new("jane", &[auth::groups::AUTHENTICATED]);
    let reply = cluster.request("GET", "/debug/admission").by(nobody).send().await;
    assert_eq!(reply.status, 403);
    cluster.shutdown().await;
}

#[tokio::test]
async fn requests_that_nobody_was_asked_about_and_long_messages_push_nothing_out() {
    let cluster = TestCluster::start().await;
    let server = WebhookServer::start(|_, review| {
        let message = "long ".repeat(500_000);
        let response =
            json!({"uid": review["request"]["uid"], "allowed": false, "status": {"message": message}});
        Reply::Review(
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
        )
    })
    .await;
    let hook = |name: &str, rules: Value, selector: Value| {
        json!({"name": format!("{name}.example.io"), "clientConfig": server.config("/v"), "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "rules": rules, "namespaceSelector": selector})
    };
    let everything =
        json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    let elsewhere = json!({"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}});
    let hooks = [hook("wide", everything, elsewhere), hook("long", rules("endpoints"), json!({}))];
    let made = json!({"metadata": {"name": "hooks"}, "webhooks": hooks});
    cluster.post(format!("{GROUP}/validatingwebhookconfigurations"), made).await.ok(201);
    policy(&cluster, "first", json!({"validations": [{"expression": "false"}]}), json!(["Deny"])).await;
    cluster.post(MAPS, json!({"metadata": {"name": "first"}})).await.ok(422);
    for _ in 0..2 {
        let refused = json!({"metadata": {"generateName": "e-"}});
        cluster.post("/api/v1/namespaces/default/endpoints", refused).await.ok(400);
    }
    cluster
        .post("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "quiet"}}))
        .await
        .ok(201);
    let text = page(&cluster, "").await;
    assert!(text.contains("default/first") && text.contains("refused with 400: "), "{}", text.len());
    assert!(!text.contains("default/quiet"), "{text}");
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_dry_run_that_nobody_has_to_do_with_is_shown() {
    let cluster = TestCluster::start().await;
    let map = json!({"metadata": {"name": "quiet"}});
    cluster.post(MAPS, map.clone()).await.ok(201);
    assert!(!page(&cluster, "").await.contains("quiet"), "nobody asked");
    let other = json!({"metadata": {"name": "asked"}});
    cluster.post(format!("{MAPS}?dryRun=All"), other).await.ok(201);
    cluster.merge(format!("{MAPS}/quiet?dryRun=All"), json!({"data": {"a": "b"}})).await.ok(200);
    cluster.request("DELETE", format!("{MAPS}/quiet?dryRun=All")).send().await.ok(200);
    cluster.request("DELETE", format!("{MAPS}/nobody?dryRun=All")).send().await.ok(404);
    cluster.get(format!("{MAPS}/quiet?dryRun=All")).await.ok(200);
    let text = page(&cluster, "?resource=configmaps").await;
    let nothing = "  no plugin changed anything, and no policy or webhook is configured\n  admitted\n";
    for line in [
        "create configmaps default/asked (dry run)",
        "patch configmaps default/quiet (dry run)",
        "delete configmaps default/quiet (dry run)",
    ] {
        let of = text
            .split("\n\n")
            .find(|record| record.contains(line))
            .unwrap_or_else(|| panic!("{line}: {text}"));
        assert!(format!("{}\n", of.trim_end()).ends_with(nothing), "{of}");
    }
    assert!(
        text.contains("delete configmaps default/nobody (dry run)") && text.contains("  refused with 404: "),
        "{text}"
    );
    assert!(!text.contains(" get "), "{text}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_of_a_subresource_is_told_as_what_policies_see() {
    let cluster = TestCluster::simulated(6).await;
    let about = |resources: Value| {
        json!({"matchConstraints": {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": resources}]},
            "validations": [{"expression": "true"}]})
    };
    policy(&cluster, "scales", about(json!(["deployments/scale"])), json!(["Deny"])).await;
    policy(&cluster, "elsewhere", about(json!(["secrets"])), json!(["Deny"])).await;
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    cluster.post(deployments, deployment).await.ok(201);
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": template["spec"]});
    cluster.post(pods, pod).await.ok(201);
    let scale = json!({"spec": {"replicas": 3}});
    cluster.merge(format!("{deployments}/d/scale?dryRun=All"), scale).await.ok(200);
    let eviction = json!({"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}});
    cluster.post(format!("{pods}/p/eviction?dryRun=All"), eviction).await.ok(201);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    cluster.post(format!("{pods}/p/binding?dryRun=All"), binding).await.ok(201);
    cluster.request("DELETE", format!("{pods}/p?dryRun=All")).send().await.ok(200);
    let review = json!({"spec": {"user": "jane", "resourceAttributes": {"verb": "get", "resource": "pods"}}});
    cluster.post("/apis/authorization.k8s.io/v1/subjectaccessreviews?dryRun=All", review).await.ok(201);
    let text = page(&cluster, "").await;
    let of = |what: &str| {
        let record = text.split("\n\n").find(|record| record.contains(what));
        record.unwrap_or_else(|| panic!("{what}: {text}")).to_owned()
    };
    let scaled = of("deployments.apps/scale");
    assert!(scaled.contains("no rule matches: policy elsewhere\n"), "{scaled}");
    assert!(scaled.contains("policy scales"), "{scaled}");
    let nobody = "  validating ValidatingAdmissionPolicy: no rule matches: policy elsewhere; policy scales\n";
    for what in ["pods/eviction", "pods/binding", "delete pods", "subjectaccessreviews"] {
        let record = of(what);
        assert_eq!(record.matches(nobody).count(), 1, "{record}");
    }
    cluster.shutdown().await;
}

/// What was logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn audit_annotations_are_logged_with_the_audit_id() {
    let lines = Lines::default();
    let writer = lines.clone();
    let layer = tracing_subscriber::fmt::layer().without_time().with_ansi(false);
    let layer = layer.with_writer(move || writer.clone());
    let audit = Targets::new().with_target("audit", LevelFilter::DEBUG);
    // Beside a single subscriber tracing believes threads that have none, and asks nobody about what they log first.
    let _beside = tracing_subscriber::registry().with(LevelFilter::OFF).set_default();
    // As `--log audit=debug`; for this thread, which this test has to itself.
    let _logging = tracing_subscriber::registry().with(layer.with_filter(audit)).set_default();
    let cluster = TestCluster::simulated(2210).await;
    let spec = json!({"validations": [{"expression": "false", "message": "never"}],
        "auditAnnotations": [{"key": "name", "valueExpression": "'named ' + object.metadata.name"}]});
    policy(&cluster, "w", spec, json!(["Audit"])).await;
    let id = "the-id-of-this-one";
    let made = cluster.request("POST", MAPS).json(&json!({"metadata": {"name": "a"}}));
    made.header("audit-id", id).send().await.ok(201);
    let logged = String::from_utf8(lines.0.lock().clone()).unwrap();
    let about = format!(
        r#"audit_id="{id}" user="kubernetes-admin" verb="create" resource="configmaps" namespace="default" name="a""#
    );
    for rest in [
        r#"key="w/name" value="named a""#,
        r#"key="validation.policy.admission.k8s.io/validation_failure" value="[{\"message\":\"never\""#,
    ] {
        assert!(
            logged.lines().any(|line| line.contains(&about) && line.contains(rest)),
            "{about} {rest}:\n{logged}"
        );
    }
    cluster.shutdown().await;
}
