//! Authorization over whole requests: anonymous users, roles, impersonation, escalation, aggregation, reviews.

use apiserver::{ApiConfig, Authorization, AuthorizationMode};
use auth::{Tokens, UserInfo, groups};
use env::Env;
use serde_json::{Value, json};
use testkit::{Ask, TestCluster};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn jane() -> UserInfo {
    UserInfo::new("jane", &["devs"])
}

fn rule(resources: &[&str], verbs: &[&str]) -> Value {
    json!([{"apiGroups": [""], "resources": resources, "verbs": verbs}])
}

async fn grant(cluster: &TestCluster, role: &str, rules: Value, namespace: Option<&str>) {
    let place = namespace.map_or(RBAC.to_owned(), |n| format!("{RBAC}/namespaces/{n}"));
    let (roles, bindings, kind) = match namespace {
        None => ("clusterroles", "clusterrolebindings", "ClusterRole"),
        Some(_) => ("roles", "rolebindings", "Role"),
    };
    cluster
        .post(format!("{place}/{roles}"), json!({"metadata": {"name": role}, "rules": rules}))
        .await
        .ok(201);
    let binding = json!({
        "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    cluster.post(format!("{place}/{bindings}"), binding).await.ok(201);
}

#[tokio::test(start_paused = true)]
async fn anonymous_users_see_health_and_version_only() {
    let cluster = TestCluster::simulated(30).await;
    for path in ["/healthz", "/livez", "/readyz", "/version", "/readyz?verbose", "/livez?exclude=ping"] {
        assert_eq!(cluster.request("GET", path).unproven().send().await.status, 200, "{path}");
    }
    for path in [
        "/metrics",
        "/healthz/ping",
        "/api",
        "/apis",
        "/api/v1",
        "/openapi/v3",
        "/openapi/v2",
        MAPS,
        "/api/v1/namespaces",
        "/nope",
    ] {
        let reply = cluster.request("GET", path).unproven().send().await;
        assert_eq!(reply.status, 403, "{path}: {}", reply.text());
    }
    assert_eq!(cluster.request("POST", MAPS).unproven().json(&json!({})).send().await.status, 403);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_is_anonymous_where_that_is_refused() {
    let refuse = |config: &mut ApiConfig| config.cluster.refuse_anonymous = true;
    let cluster = TestCluster::with(Env::simulated(32), refuse).await;
    for path in ["/healthz", "/version", MAPS] {
        assert_eq!(cluster.request("GET", path).unproven().send().await.status, 401, "{path}");
        assert_eq!(cluster.request("GET", path).send().await.status, 200, "{path}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_chosen_modes_decide_and_masters_may_everything() {
    use AuthorizationMode::{AlwaysAllow, AlwaysDeny, Node, Rbac};
    let list = |cluster: &TestCluster| cluster.request("GET", MAPS).by(jane()).send();
    let role = json!({"metadata": {"name": "all"}, "rules": rule(&["*"], &["*"])});
    for (modes, expected) in [
        (vec![Node, Rbac], 403),
        (vec![AlwaysDeny], 403),
        (vec![Rbac, AlwaysAllow], 200),
        (vec![AlwaysDeny, Rbac], 403),
    ] {
        let choose = |config: &mut ApiConfig| config.cluster.authorization = Authorization(modes.clone());
        let cluster = TestCluster::bare(Env::simulated(33), choose).await;
        let reply = list(&cluster).await;
        assert_eq!(reply.status, expected, "{modes:?}: {}", reply.text());
        assert_eq!(reply.text().contains("Everything is forbidden."), modes.contains(&AlwaysDeny));
        assert_eq!(cluster.request("GET", MAPS).send().await.status, 200, "{modes:?}");
        // Who may everything may grant it, too.
        let grant =
            cluster.request("POST", format!("{RBAC}/clusterroles")).by(jane()).json(&role).send().await;
        assert_eq!(grant.status, if expected == 200 { 201 } else { 403 }, "{modes:?}: {}", grant.text());
        let ask = json!({"spec": {"namespace": "default"}});
        let review = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let status = async |user: Option<UserInfo>| {
            let asked = cluster.request("POST", review).json(&ask);
            let asked = if let Some(user) = user { asked.by(user) } else { asked };
            asked.send().await.ok(201)["status"].clone()
        };
        let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        let has_all = |rules: &Value| rules.as_array().is_some_and(|rules| rules.contains(&everything));
        let rules = status(None).await["resourceRules"].clone();
        assert_eq!(has_all(&rules), modes != [AlwaysDeny], "{modes:?}: {rules}");
        if modes != [AlwaysDeny] {
            let rules = status(Some(jane())).await["resourceRules"].clone();
            assert_eq!(has_all(&rules), expected == 200, "{modes:?}: {rules}");
            let node = UserInfo::new("system:node:n", &[groups::NODES, groups::AUTHENTICATED]);
            let node = status(Some(node)).await;
            assert_eq!(node["incomplete"], json!(modes.contains(&Node)), "{modes:?}: {node}");
        }
        cluster.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_authenticate_their_user() {
    let tokens = Tokens::parse("tokens".as_ref(), b"s3cret,jane,7,\"devs,ops\"\n").expect("a token file");
    let cluster = TestCluster::with_tokens(Env::simulated(31), Some(tokens)).await;
    let who = |header: &'static str| {
        let body = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        cluster.request("POST", path).unproven().header("Authorization", header).json(&body).send()
    };
    let review = who("Bearer s3cret").await.ok(201);
    let user = &review["status"]["userInfo"];
    assert_eq!((&user["username"], &user["uid"]), (&json!("jane"), &json!("7")));
    assert_eq!(user["groups"], json!(["devs", "ops", "system:authenticated"]));
    // Two spaces: no token at all, and a word about it.
    let nobody = who("Bearer  s3cret").await;
    assert_eq!(nobody.status, 403, "{}", nobody.text());
    let words =
        "the provided Authorization header contains extra space before the bearer token, and is ignored";
    assert_eq!(nobody.warnings(), [format!("299 - \"{words}\"")]);
    assert_eq!(who("Bearer  ").await.warnings(), [""; 0]);
    for wrong in ["Bearer s3cre", "Bearer s3crets"] {
        let status = who(wrong).await.ok(401);
        assert_eq!(status["reason"], json!("Unauthorized"), "{wrong}");
    }
    for nothing in ["Bearer ", "Basic czNjcmV0", "s3cret"] {
        let status = who(nothing).await.ok(403);
        assert!(status["message"].as_str().unwrap().contains("system:anonymous"), "{nothing}: {status}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_role_counts_for_the_next_request() {
    let cluster = TestCluster::simulated(32).await;
    cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(201);
    let get = || cluster.request("GET", format!("{MAPS}/a")).by(jane()).send();
    assert_eq!(get().await.status, 403);
    grant(&cluster, "reader", rule(&["configmaps"], &["get"]), Some("default")).await;
    assert_eq!(get().await.status, 200);
    assert_eq!(cluster.request("GET", MAPS).by(jane()).send().await.status, 403, "get is not list");
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps/a";
    assert_eq!(cluster.request("GET", elsewhere).by(jane()).send().await.status, 403);
    cluster
        .merge(
            format!("{RBAC}/namespaces/default/roles/reader"),
            json!({"rules": rule(&["configmaps"], &["list"])}),
        )
        .await
        .ok(200);
    assert_eq!(get().await.status, 403);
    assert_eq!(cluster.request("GET", MAPS).by(jane()).send().await.status, 200);
    cluster.delete(format!("{RBAC}/namespaces/default/rolebindings/reader")).await.ok(200);
    assert_eq!(cluster.request("GET", MAPS).by(jane()).send().await.status, 403);

    // Names, watches by name, subresources.
    let named = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["list", "watch", "get"]},
        {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["get"]}]);
    grant(&cluster, "named", named, None).await;
    let ask = |path: &str| cluster.request("GET", path.to_owned()).by(jane()).send();
    assert_eq!(ask(&format!("{MAPS}?fieldSelector=metadata.name%3Da")).await.status, 200);
    assert_eq!(ask(&format!("{MAPS}?fieldSelector=metadata.name%3Db")).await.status, 403);
    assert_eq!(ask(MAPS).await.status, 403);
    assert_eq!(
        ask(&format!("{MAPS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Da")).await.status,
        200
    );
    assert_eq!(
        ask("/api/v1/namespaces/default/pods/x/status").await.status,
        404,
        "allowed, but there is none"
    );
    assert_eq!(ask("/api/v1/namespaces/default/pods/x").await.status, 403);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn impersonation_needs_permission() {
    let cluster = TestCluster::simulated(33).await;
    let who = |ask: Ask| {
        ask.json(&json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"})).send()
    };
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let asked = cluster
        .request("POST", review)
        .header("Impersonate-User", "jane")
        .header("Impersonate-Group", "devs")
        .header("Impersonate-Group", "ops")
        .header("Impersonate-Extra-Scope", "a")
        .header("Impersonate-Uid", "u1");
    let user = who(asked).await.ok(201)["status"]["userInfo"].clone();
    assert_eq!(user["username"], json!("jane"));
    assert_eq!(user["groups"], json!(["devs", "ops", "system:authenticated"]));
    assert_eq!((&user["uid"], &user["extra"]), (&json!("u1"), &json!({"scope": ["a"]})));

    // A name that is not ASCII is a name, and never anonymous.
    let other = cluster.request("POST", review).header("Impersonate-User", "jörg");
    assert_eq!(who(other).await.ok(201)["status"]["userInfo"]["username"], json!("jörg"));
    let refused = cluster.request("GET", MAPS).by(jane()).header("Impersonate-User", "jörg").send().await;
    assert_eq!(refused.status, 403);

    let refused =
        cluster.request("GET", MAPS).by(jane()).header("Impersonate-User", "kubernetes-admin").send().await;
    let message = refused.ok(403)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("User \"jane\" cannot impersonate"), "{message}");
    grant(&cluster, "as-bob", json!([{"apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"], "verbs": ["impersonate"]}]), None).await;
    let as_bob = cluster.request("POST", review).by(jane()).header("Impersonate-User", "bob");
    assert_eq!(who(as_bob).await.ok(201)["status"]["userInfo"]["username"], json!("bob"));
    let group = cluster
        .request("GET", MAPS)
        .by(jane())
        .header("Impersonate-User", "bob")
        .header("Impersonate-Group", "system:masters")
        .send()
        .await;
    assert_eq!(group.status, 403);
    // Only parts without a name make no sense.
    let nameless = cluster.request("GET", MAPS).header("Impersonate-Group", "devs").send().await;
    assert!(nameless.status >= 400, "{}", nameless.text());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_grants_more_than_they_have() {
    let cluster = TestCluster::simulated(34).await;
    let mut rules = rule(&["configmaps"], &["get"]);
    rules.as_array_mut().unwrap().push(json!({"apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles", "rolebindings", "clusterroles", "clusterrolebindings"], "verbs": ["create", "update", "patch", "get"]}));
    grant(&cluster, "granter", rules, None).await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let create = |name: &str, rules: Value| {
        cluster
            .request("POST", roles.clone())
            .by(jane())
            .json(&json!({"metadata": {"name": name}, "rules": rules}))
            .send()
    };
    assert_eq!(create("fine", rule(&["configmaps"], &["get"])).await.status, 201);
    let refused = create("more", rule(&["secrets"], &["get"])).await;
    let message = refused.ok(403)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("is attempting to grant RBAC permissions not currently held"), "{message}");
    let patch = json!({"rules": rule(&["secrets"], &["*"])}).to_string();
    let patched = cluster
        .request("PATCH", format!("{roles}/fine"))
        .by(jane())
        .typed("application/merge-patch+json", patch)
        .send()
        .await;
    assert_eq!(patched.status, 403);
    let dry = cluster
        .request("POST", format!("{roles}?dryRun=All"))
        .by(jane())
        .json(&json!({"metadata": {"name": "dry"}, "rules": rule(&["secrets"], &["get"])}))
        .send()
        .await;
    assert_eq!(dry.status, 403, "a dry run is no way around");

    let bind = |role: &str| {
        let body = json!({"metadata": {"name": role}, "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}});
        cluster.request("POST", format!("{RBAC}/clusterrolebindings")).by(jane()).json(&body).send()
    };
    assert_eq!(bind("cluster-admin").await.status, 403);
    cluster
        .merge(
            format!("{RBAC}/clusterroles/granter"),
            json!({"rules": [{"apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterrolebindings", "clusterroles"], "verbs": ["create", "bind"]}]}),
        )
        .await
        .ok(200);
    assert_eq!(bind("view").await.status, 201, "the verb bind allows it");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn aggregated_roles_follow_their_parts() {
    let cluster = TestCluster::simulated(35).await;
    let view =
        || async { cluster.get(format!("{RBAC}/clusterroles/view")).await.ok(200)["rules"].to_string() };
    assert!(view().await.contains("configmaps"), "the default roles are aggregated");
    let part = json!({"metadata": {"name": "view-widgets", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}]});
    cluster.post(format!("{RBAC}/clusterroles"), part).await.ok(201);
    cluster.env().sleep(std::time::Duration::from_millis(1)).await;
    assert!(view().await.contains("widgets"));
    let edit = cluster.get(format!("{RBAC}/clusterroles/edit")).await.ok(200)["rules"].to_string();
    assert!(edit.contains("widgets"), "edit contains view");
    cluster.delete(format!("{RBAC}/clusterroles/view-widgets")).await.ok(200);
    cluster.env().sleep(std::time::Duration::from_millis(1)).await;
    assert!(!view().await.contains("widgets"));

    // Parts that go take their rules along, also the last.
    let role = json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"in": "all"}}]}});
    let part = json!({"metadata": {"name": "part", "labels": {"in": "all"}},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    for role in [role, part] {
        cluster.post(format!("{RBAC}/clusterroles"), role).await.ok(201);
    }
    let all = || async {
        cluster.env().sleep(std::time::Duration::from_millis(1)).await;
        cluster.get(format!("{RBAC}/clusterroles/all")).await.ok(200)
    };
    let applied = all().await;
    assert_eq!(applied["rules"][0]["resources"], json!(["pods"]));
    let manager = &applied["metadata"]["managedFields"][0];
    assert_eq!(manager["manager"], "clusterrole-aggregation-controller");
    assert_eq!(manager["operation"], "Apply");
    assert_eq!(manager["fieldsV1"], json!({"f:rules": {}}));
    cluster.delete(format!("{RBAC}/clusterroles/part")).await.ok(200);
    let empty = all().await;
    assert_eq!(empty["rules"], json!(null));
    assert!(!empty["metadata"]["managedFields"].to_string().contains("aggregation-controller"), "{empty}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn access_reviews_agree_with_requests() {
    let cluster = TestCluster::simulated(36).await;
    grant(&cluster, "reader", rule(&["configmaps"], &["get", "list"]), Some("default")).await;
    const REVIEWS: &str = "/apis/authorization.k8s.io/v1";
    for (namespace, verb, allowed) in
        [("default", "get", true), ("default", "delete", false), ("kube-system", "get", false)]
    {
        let attributes = json!({"namespace": namespace, "verb": verb, "resource": "configmaps"});
        let mine = json!({"spec": {"resourceAttributes": attributes}});
        let reply = cluster
            .request("POST", format!("{REVIEWS}/selfsubjectaccessreviews"))
            .by(jane())
            .json(&mine)
            .send()
            .await;
        assert_eq!(reply.ok(201)["status"]["allowed"], json!(allowed), "{namespace} {verb}");
        let theirs = json!({"spec": {"user": "jane", "resourceAttributes": attributes}});
        let reply = cluster.post(format!("{REVIEWS}/subjectaccessreviews"), theirs.clone()).await;
        assert_eq!(reply.ok(201)["status"]["allowed"], json!(allowed));
        let local = cluster
            .post(format!("{REVIEWS}/namespaces/{namespace}/localsubjectaccessreviews"), theirs.clone())
            .await;
        assert_eq!(local.ok(201)["status"]["allowed"], json!(allowed));
        let refused = cluster
            .request("POST", format!("{REVIEWS}/subjectaccessreviews"))
            .by(jane())
            .json(&theirs)
            .send()
            .await;
        assert_eq!(refused.status, 403, "who may ask about others is a right");
    }
    let rules = cluster
        .request("POST", format!("{REVIEWS}/selfsubjectrulesreviews"))
        .by(jane())
        .json(&json!({"spec": {"namespace": "default"}}))
        .send()
        .await
        .ok(201);
    assert!(rules["status"]["resourceRules"].to_string().contains("configmaps"), "{rules}");
    let path = json!({"spec": {"nonResourceAttributes": {"path": "/version", "verb": "get"}}});
    let reply = cluster
        .request("POST", format!("{REVIEWS}/selfsubjectaccessreviews"))
        .by(jane())
        .json(&path)
        .send()
        .await;
    assert_eq!(reply.ok(201)["status"]["allowed"], json!(true));
    cluster.shutdown().await;
}
