//! Authentication by tokens: service accounts, reviews, bootstrap tokens, OpenID discovery; and the node authorizer.

use std::time::Duration;

use auth::jwt::{SigningKey, sign};
use auth::service_account::Settings;
use auth::{Tokens, UserInfo};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use env::Env;
use serde_json::{Value, json};
use testkit::{Reply, TestCluster};

const CORE: &str = "/api/v1/namespaces/default";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

async fn cluster_with_robot(seed: u64) -> TestCluster {
    let cluster = TestCluster::simulated(seed).await;
    add_robot(&cluster).await;
    cluster
}

async fn add_robot(cluster: &TestCluster) {
    let robot = json!({"metadata": {"name": "robot"}, "automountServiceAccountToken": false});
    cluster.post(format!("{CORE}/serviceaccounts"), robot).await.ok(201);
}

async fn add_pod(cluster: &TestCluster, name: &str, node: &str, more: Value) -> String {
    let mut spec = json!({"serviceAccountName": "robot", "nodeName": node, "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let pod =
        cluster.post(format!("{CORE}/pods"), json!({"metadata": {"name": name}, "spec": spec})).await.ok(201);
    pod["metadata"]["uid"].as_str().unwrap().to_owned()
}

async fn ask_token(cluster: &TestCluster, spec: Value) -> Reply {
    cluster.post(format!("{CORE}/serviceaccounts/robot/token"), json!({"spec": spec})).await
}

async fn token(cluster: &TestCluster, spec: Value) -> String {
    ask_token(cluster, spec).await.ok(201)["status"]["token"].as_str().unwrap().to_owned()
}

async fn whoami(cluster: &TestCluster, token: &str) -> Reply {
    let bearer = format!("Bearer {token}");
    cluster.request("POST", WHO).unproven().header("Authorization", &bearer).json(&json!({})).send().await
}

async fn review(cluster: &TestCluster, token: &str, audiences: Value) -> Value {
    cluster.post(REVIEWS, json!({"spec": {"token": token, "audiences": audiences}})).await.ok(201)["status"]
        .clone()
}

fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_requested_token_authenticates_the_account() {
    let cluster = cluster_with_robot(70).await;
    let uid = cluster.get(format!("{CORE}/serviceaccounts/robot")).await.ok(200)["metadata"]["uid"].clone();
    let reply = ask_token(&cluster, json!({})).await.ok(201);
    assert_eq!(
        (&reply["kind"], &reply["apiVersion"]),
        (&json!("TokenRequest"), &json!("authentication.k8s.io/v1"))
    );
    assert_eq!(reply["metadata"]["name"], json!("robot"));
    assert_eq!(reply["metadata"]["namespace"], json!("default"));
    assert_eq!(
        reply["spec"],
        json!({"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": null})
    );
    let token = reply["status"]["token"].as_str().unwrap();
    let said = claims(token);
    assert_eq!(said["sub"], json!("system:serviceaccount:default:robot"));
    assert_eq!(said["exp"].as_i64().unwrap() - said["iat"].as_i64().unwrap(), 3600);
    assert_eq!(
        said["kubernetes.io"],
        json!({"namespace": "default", "serviceaccount": {"name": "robot", "uid": uid}})
    );

    let who = whoami(&cluster, token).await.ok(201)["status"]["userInfo"].clone();
    assert_eq!(who["username"], json!("system:serviceaccount:default:robot"));
    assert_eq!(who["uid"], uid);
    assert_eq!(
        who["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    let id = format!("JTI={}", said["jti"].as_str().unwrap());
    assert_eq!(who["extra"], json!({"authentication.kubernetes.io/credential-id": [id]}));
    // Proven is not yet allowed.
    let bearer = format!("Bearer {token}");
    let list =
        cluster.request("GET", format!("{CORE}/configmaps")).unproven().header("Authorization", &bearer);
    let refused = list.send().await;
    assert!(refused.ok(403)["message"].as_str().unwrap().contains("system:serviceaccount:default:robot"));

    let gone = cluster.post(format!("{CORE}/serviceaccounts/nobody/token"), json!({})).await.ok(404);
    assert_eq!(gone["message"], json!("serviceaccounts \"nobody\" not found"));
    let short = ask_token(&cluster, json!({"expirationSeconds": 599})).await.ok(422);
    assert_eq!(
        short["message"],
        json!(
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"
        )
    );
    let odd = cluster
        .post(format!("{CORE}/serviceaccounts/robot/token"), json!({"kind": "Pod", "apiVersion": "v1"}))
        .await;
    assert_eq!(odd.status, 400);
    assert_eq!(cluster.get(format!("{CORE}/serviceaccounts/robot/token")).await.status, 405);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_pods_token_names_pod_and_node_and_is_invalid_without_the_pod() {
    let cluster = cluster_with_robot(71).await;
    let uid = add_pod(&cluster, "web", "n1", json!({})).await;
    let bound = |name: &str, uid: &str| json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}});
    let mut spec = bound("web", &uid);
    spec["expirationSeconds"] = json!(3607);
    let token = token(&cluster, spec).await;
    let said = claims(&token);
    assert_eq!(said["kubernetes.io"]["pod"], json!({"name": "web", "uid": uid}));
    assert_eq!(
        said["kubernetes.io"]["node"],
        json!({"name": "n1"}),
        "there is no such node, its name is known"
    );
    let issued = said["iat"].as_i64().unwrap();
    assert_eq!(said["exp"].as_i64().unwrap() - issued, 365 * 86_400);
    assert_eq!(said["kubernetes.io"]["warnafter"].as_i64().unwrap() - issued, 3607);
    let extra = whoami(&cluster, &token).await.ok(201)["status"]["userInfo"]["extra"].clone();
    assert_eq!(extra["authentication.kubernetes.io/pod-name"], json!(["web"]));
    assert_eq!(extra["authentication.kubernetes.io/pod-uid"], json!([uid]));
    assert_eq!(extra["authentication.kubernetes.io/node-name"], json!(["n1"]));

    let conflict = ask_token(&cluster, bound("web", "other")).await.ok(409);
    assert_eq!(
        conflict["message"],
        json!(
            "Operation cannot be fulfilled on Pod \"web\": the UID in the bound object reference (other) does not match the UID in record. The object might have been deleted and then recreated"
        )
    );
    assert_eq!(ask_token(&cluster, bound("gone", "")).await.status, 404);

    // Another pod of the same name is another pod.
    cluster.delete(format!("{CORE}/pods/web?gracePeriodSeconds=0")).await.ok(200);
    assert_eq!(whoami(&cluster, &token).await.status, 401);
    assert_eq!(
        review(&cluster, &token, json!([])).await["error"],
        json!("[invalid bearer token, service account token has been invalidated]")
    );
    let again = add_pod(&cluster, "web", "n1", json!({})).await;
    assert_eq!(
        review(&cluster, &token, json!([])).await["error"],
        json!(format!(
            "[invalid bearer token, pod UID ({again}) does not match service account pod ref claim ({uid})]"
        ))
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn tokens_are_invalid_after_their_expiry_secret_or_account() {
    let cluster = cluster_with_robot(72).await;
    let secret = cluster.post(format!("{CORE}/secrets"), json!({"metadata": {"name": "s"}})).await.ok(201);
    let bound = json!({"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": secret["metadata"]["uid"]}});
    let by_secret = token(&cluster, bound).await;
    let short = token(&cluster, json!({"expirationSeconds": 600})).await;
    let long = token(&cluster, json!({"expirationSeconds": 86_400})).await;
    for token in [&by_secret, &short, &long] {
        whoami(&cluster, token).await.ok(201);
    }
    cluster.delete(format!("{CORE}/secrets/s")).await.ok(200);
    assert_eq!(whoami(&cluster, &by_secret).await.status, 401);
    cluster.env().sleep(Duration::from_secs(659)).await;
    whoami(&cluster, &short).await.ok(201);
    cluster.env().sleep(Duration::from_secs(2)).await;
    assert_eq!(whoami(&cluster, &short).await.status, 401);
    assert_eq!(
        review(&cluster, &short, json!([])).await["error"],
        json!("[invalid bearer token, service account token has expired]")
    );

    // Being deleted counts a minute later; gone counts at once; a new one of the same name is another.
    cluster
        .merge(
            format!("{CORE}/serviceaccounts/robot"),
            json!({"metadata": {"finalizers": ["example.com/keep"]}}),
        )
        .await
        .ok(200);
    cluster.delete(format!("{CORE}/serviceaccounts/robot")).await.ok(200);
    whoami(&cluster, &long).await.ok(201);
    cluster.env().sleep(Duration::from_secs(62)).await;
    assert_eq!(
        review(&cluster, &long, json!([])).await["error"],
        json!("[invalid bearer token, service account default/robot has been deleted]")
    );
    cluster
        .merge(format!("{CORE}/serviceaccounts/robot"), json!({"metadata": {"finalizers": null}}))
        .await
        .ok(200);
    assert_eq!(
        review(&cluster, &long, json!([])).await["error"],
        json!("[invalid bearer token, serviceaccounts \"robot\" not found]")
    );
    add_robot(&cluster).await;
    assert_eq!(whoami(&cluster, &long).await.status, 401);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn only_tokens_signed_by_this_cluster_authenticate() {
    let cluster = cluster_with_robot(73).await;
    let good = token(&cluster, json!({})).await;
    whoami(&cluster, &good).await.ok(201);
    let parts: Vec<&str> = good.split('.').collect();
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let other = SigningKey::from_pkcs8(&SigningKey::generate_pkcs8().unwrap()).unwrap();
    let payload = codec_value(&claims(&good));
    let kid = cluster.get("/openid/v1/jwks").await.ok(200)["keys"][0]["kid"].as_str().unwrap().to_owned();
    let mut claimed = claims(&good);
    claimed["sub"] = json!("system:serviceaccount:kube-system:root");
    let mut bad = vec![
        format!("{}.{}.", encode(&json!({"alg": "none"})), parts[1]),
        format!("{}.{}.{}", encode(&json!({"alg": "none", "kid": kid})), parts[1], parts[2]),
        format!("{}.{}.{}", encode(&json!({"alg": "HS256", "kid": kid})), parts[1], parts[2]),
        format!("{}.{}.{}", encode(&json!({"alg": "RS256", "kid": kid})), parts[1], parts[2]),
        format!("{}.{}.{}", parts[0], encode(&claimed), parts[2]),
        format!("{}.{}", parts[0], parts[1]),
        format!("{good}.{}", parts[2]),
        format!("{good}="),
        good[..good.len() - 1].to_owned(),
        sign(&other, &payload).unwrap(),
        token(&cluster, json!({"audiences": ["vault"]})).await,
        "x".repeat(20_000),
        format!("{}.{}.{}", parts[0], "A".repeat(100_000), parts[2]),
        "a.b.c".to_owned(),
        "..".to_owned(),
        "{}".to_owned(),
        "%00".to_owned(),
    ];
    // Every byte of a good token, one bit turned.
    for at in (0..good.len()).step_by(7) {
        let mut bytes = good.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        bad.push(String::from_utf8(bytes).unwrap());
    }
    for token in bad.iter().filter(|t| **t != good) {
        assert_eq!(whoami(&cluster, token).await.status, 401, "{:.120}", token);
    }
    // Still good: the memory of verified tokens did not mix them up.
    whoami(&cluster, &good).await.ok(201);
    for header in ["Bearer", "Bearer ", "Basic abc", "bearer\tx"] {
        let reply = cluster.request("GET", CORE).unproven().header("Authorization", header).send().await;
        assert_eq!(reply.status, 403, "{header:?}");
        assert!(reply.text().contains("system:anonymous"), "{header:?}: {}", reply.text());
    }
    cluster.shutdown().await;
}

/// The payload as the signer takes it.
fn codec_value(value: &Value) -> object::Value {
    codec::json::parse(value.to_string().as_bytes(), None).unwrap()
}

#[tokio::test(start_paused = true)]
async fn token_reviews_report_user_and_audiences() {
    let tokens = Tokens::parse("tokens".as_ref(), b"s3cret,jane,7,\"devs,ops\"\n").unwrap();
    let cluster = TestCluster::with_tokens(Env::simulated(74), Some(tokens)).await;
    add_robot(&cluster).await;
    let own = token(&cluster, json!({})).await;
    let status = review(&cluster, &own, json!([])).await;
    assert_eq!(status["authenticated"], json!(true));
    assert_eq!(status["user"]["username"], json!("system:serviceaccount:default:robot"));
    assert_eq!(status["audiences"], json!([ISSUER]));
    let both = token(&cluster, json!({"audiences": ["vault", ISSUER]})).await;
    assert_eq!(review(&cluster, &both, json!(["vault", "db"])).await["audiences"], json!(["vault"]));
    assert_eq!(
        review(&cluster, &own, json!(["vault"])).await,
        json!({"user": {}, "error": format!("[invalid bearer token, token audiences [\"{ISSUER}\"] is invalid for the target audiences [\"vault\"]]")})
    );
    let jane = review(&cluster, "s3cret", json!([])).await;
    assert_eq!(
        jane["user"],
        json!({"username": "jane", "uid": "7", "groups": ["devs", "ops", "system:authenticated"]})
    );
    assert_eq!(jane["audiences"], json!([ISSUER]));
    let unknown = json!({"user": {}, "error": "invalid bearer token"});
    assert_eq!(review(&cluster, "s3cret", json!(["vault"])).await, unknown);
    assert_eq!(review(&cluster, "nope", json!([])).await, unknown);
    let empty = cluster.post(REVIEWS, json!({"spec": {}})).await.ok(400);
    assert_eq!(empty["message"], json!("token is required for TokenReview in authentication"));
    let whole = cluster.post(REVIEWS, json!({"spec": {"token": "nope"}})).await.ok(201);
    assert_eq!(whole["spec"]["token"], json!("nope"), "the question is repeated");
    // Asking about others' tokens is a right.
    let by = UserInfo::new("system:serviceaccount:default:robot", &["system:serviceaccounts"]);
    let refused = cluster.request("POST", REVIEWS).by(by).json(&json!({"spec": {"token": "x"}})).send().await;
    assert_eq!(refused.status, 403);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn bootstrap_tokens_live_in_secrets() {
    let cluster = TestCluster::simulated(75).await;
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let text = |t: &str| STANDARD.encode(t);
    let secret = json!({"metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token", "data": {
        "token-id": text("abcdef"), "token-secret": text("0123456789abcdef"), "usage-bootstrap-authentication": text("true"),
        "auth-extra-groups": text("system:bootstrappers:workers"), "expiration": text("2026-01-01T01:00:00Z")}});
    let token = "abcdef.0123456789abcdef";
    assert_eq!(whoami(&cluster, token).await.status, 401);
    cluster.post(secrets, secret).await.ok(201);
    let who = whoami(&cluster, token).await.ok(201)["status"]["userInfo"].clone();
    assert_eq!(who["username"], json!("system:bootstrap:abcdef"));
    assert_eq!(
        who["groups"],
        json!(["system:bootstrappers", "system:bootstrappers:workers", "system:authenticated"])
    );
    assert_eq!(whoami(&cluster, "abcdef.0123456789abcdee").await.status, 401);
    let path = format!("{secrets}/bootstrap-token-abcdef");
    let usage = |value: &str| json!({"data": {"usage-bootstrap-authentication": text(value)}});
    cluster.merge(path.as_str(), usage("false")).await.ok(200);
    assert_eq!(whoami(&cluster, token).await.status, 401);
    cluster.merge(path.as_str(), usage("true")).await.ok(200);
    whoami(&cluster, token).await.ok(201);
    cluster.env().sleep(Duration::from_secs(3600)).await;
    assert_eq!(whoami(&cluster, token).await.status, 401, "expired");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn tokens_in_secrets_are_valid_as_long_as_their_secret() {
    let cluster = cluster_with_robot(76).await;
    let account = cluster.get(format!("{CORE}/serviceaccounts/robot")).await.ok(200);
    let uid = account["metadata"]["uid"].as_str().unwrap();
    let token =
        testkit::service_accounts(Settings::default()).legacy_token("default", "robot", uid, "kept").unwrap();
    assert_eq!(
        review(&cluster, &token, json!([])).await["error"],
        json!("[invalid bearer token, Token has been invalidated]")
    );
    let secret = json!({"metadata": {"name": "kept", "annotations": {"kubernetes.io/service-account.name": "robot"}},
        "type": "kubernetes.io/service-account-token", "data": {"token": STANDARD.encode(&token)}});
    cluster.post(format!("{CORE}/secrets"), secret).await.ok(201);
    let who = whoami(&cluster, &token).await.ok(201)["status"]["userInfo"].clone();
    assert_eq!(who["username"], json!("system:serviceaccount:default:robot"));
    assert_eq!(who.get("extra"), None);
    cluster.delete(format!("{CORE}/secrets/kept")).await.ok(200);
    assert_eq!(whoami(&cluster, &token).await.status, 401);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn openid_discovery_publishes_the_keys() {
    let cluster = cluster_with_robot(77).await;
    let token = token(&cluster, json!({})).await;
    let reply = cluster.get("/.well-known/openid-configuration").await;
    assert_eq!(
        reply.ok(200),
        json!({"issuer": ISSUER, "jwks_uri": format!("{ISSUER}/openid/v1/jwks"), "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256"]})
    );
    assert_eq!(reply.content_type(), "application/json");
    assert_eq!(reply.headers["cache-control"], "public, max-age=3600");
    let keys = cluster.get("/openid/v1/jwks").await;
    assert_eq!(keys.content_type(), "application/jwk-set+json");
    assert_eq!(keys.headers["cache-control"], "public, max-age=3600");
    let header: Value =
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap()).unwrap();
    assert_eq!(header, json!({"alg": "ES256", "kid": keys.ok(200)["keys"][0]["kid"]}));
    let paths = cluster.get("/").await.ok(200)["paths"].to_string();
    assert!(paths.contains("\"/openid/v1/jwks\"") && paths.contains("\"/.well-known/openid-configuration\""));
    // Service accounts may look, the anonymous may not.
    let bearer = format!("Bearer {token}");
    for (path, own) in
        [("/openid/v1/jwks", 200), ("/.well-known/openid-configuration/", 200), ("/metrics", 403)]
    {
        let by_token = cluster.request("GET", path).unproven().header("Authorization", &bearer).send().await;
        assert_eq!(by_token.status, own, "{path}");
        assert_eq!(cluster.request("GET", path).unproven().send().await.status, 403, "{path}");
    }
    assert_eq!(cluster.post("/openid/v1/jwks", json!({})).await.status, 405);
    cluster.api().set_external_address("127.0.0.1:6443");
    let moved = cluster.get("/.well-known/openid-configuration").await.ok(200);
    assert_eq!(moved["jwks_uri"], json!("https://127.0.0.1:6443/openid/v1/jwks"));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_reach_what_their_pods_use_and_nothing_else() {
    let cluster = cluster_with_robot(78).await;
    let node = || UserInfo::new("system:node:n1", &["system:nodes"]);
    for name in ["used", "volume", "unused"] {
        cluster.post(format!("{CORE}/secrets"), json!({"metadata": {"name": name}})).await.ok(201);
    }
    let get = |path: String| cluster.request("GET", path).by(node()).send();
    let unrelated = "secrets \"used\" is forbidden: User \"system:node:n1\" cannot get resource \"secrets\" in API group \"\" in the namespace \"default\": no relationship found between node 'n1' and this object";
    assert_eq!(get(format!("{CORE}/secrets/used")).await.ok(403)["message"], json!(unrelated));
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "disk",
        "resources": {"requests": {"storage": "1Gi"}}}});
    cluster.post(format!("{CORE}/persistentvolumeclaims"), claim).await.ok(201);
    let disk = json!({"metadata": {"name": "disk"}, "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": "default", "name": "data"},
        "csi": {"driver": "d.example.com", "volumeHandle": "h", "nodeStageSecretRef": {"namespace": "default", "name": "volume"}}}});
    cluster.post("/api/v1/persistentvolumes", disk).await.ok(201);
    let volumes = json!({"automountServiceAccountToken": true, "volumes": [{"name": "s", "secret": {"secretName": "used"}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]});
    let uid = add_pod(&cluster, "mine", "n1", volumes).await;
    add_pod(&cluster, "other", "n2", json!({"volumes": [{"name": "s", "secret": {"secretName": "unused"}}]}))
        .await;

    for (path, code) in [
        ("secrets/used", 200),
        ("secrets/volume", 200),
        ("secrets/unused", 403),
        ("secrets", 403),
        ("secrets?fieldSelector=metadata.name%3Dused", 200),
        ("persistentvolumeclaims/data", 200),
        ("serviceaccounts/robot", 200),
        ("serviceaccounts/default", 403),
        ("pods/mine", 200),
        ("pods/other", 403),
        ("pods", 403),
        ("pods?fieldSelector=spec.nodeName%3Dn1", 200),
        ("pods?fieldSelector=spec.nodeName%3Dn2", 403),
        ("services", 200),
    ] {
        assert_eq!(get(format!("{CORE}/{path}")).await.status, code, "{path}");
    }
    for (path, code) in [
        ("/api/v1/persistentvolumes/disk", 200),
        ("/api/v1/nodes/n1", 404),
        ("/api/v1/nodes/n2", 403),
        ("/api/v1/nodes", 403),
        ("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1", 404),
        ("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n2", 403),
        ("/apis/storage.k8s.io/v1/csinodes/n1", 404),
        ("/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Dn1", 200),
        ("/apis/resource.k8s.io/v1/resourceslices", 403),
    ] {
        assert_eq!(get(path.to_owned()).await.status, code, "{path}");
    }
    // Tokens for the accounts of its pods, and theirs alone.
    let ask = |account: &str| {
        let bound = json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "mine", "uid": uid}}});
        cluster
            .request("POST", format!("{CORE}/serviceaccounts/{account}/token"))
            .by(node())
            .json(&bound)
            .send()
    };
    ask("robot").await.ok(201);
    assert_eq!(ask("default").await.status, 403);
    // Not a member of system:nodes: just a name.
    let impostor =
        cluster.request("GET", format!("{CORE}/secrets/used")).by(UserInfo::new("system:node:n1", &[]));
    assert_eq!(impostor.send().await.status, 403);
    cluster.delete(format!("{CORE}/pods/mine?gracePeriodSeconds=0")).await.ok(200);
    assert_eq!(get(format!("{CORE}/secrets/used")).await.status, 403, "the pod is gone");
    cluster.shutdown().await;
}

/// Signed by the cluster's own key, and yet refused.
#[tokio::test(start_paused = true)]
async fn a_token_is_invalid_before_its_time_or_with_a_bad_signature() {
    let cluster = cluster_with_robot(301).await;
    let good = token(&cluster, json!({})).await;
    let key = SigningKey::from_pem(include_bytes!("../../src/service_account.key")).unwrap();
    let mut said = claims(&good);
    let begins = said["nbf"].as_i64().unwrap() + 3600;
    said["nbf"] = json!(begins);
    said["exp"] = json!(begins + 3600);
    let early = sign(&key, &codec_value(&said)).unwrap();
    assert_eq!(whoami(&cluster, &early).await.status, 401);
    let refused = |why: &str| json!({"user": {}, "error": format!("[invalid bearer token, {why}]")});
    assert_eq!(review(&cluster, &early, json!([])).await, refused("service account token is not valid yet"));
    cluster.env().sleep(Duration::from_secs(3600)).await;
    whoami(&cluster, &early).await.ok(201);
    // What follows a token in its header is no part of it.
    assert_eq!(review(&cluster, &format!("{early} more"), json!([])).await["authenticated"], true);

    let other = SigningKey::from_pkcs8(&SigningKey::generate_pkcs8().unwrap()).unwrap();
    let forged = sign(&other, &codec_value(&said)).unwrap();
    let (signed, _) = early.rsplit_once('.').unwrap();
    let (_, signature) = forged.rsplit_once('.').unwrap();
    assert_eq!(
        review(&cluster, &format!("{signed}.{signature}"), json!([])).await,
        refused("go-jose/go-jose: error in cryptographic primitive")
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_bound_to_a_node_is_invalid_without_the_node() {
    let cluster = cluster_with_robot(302).await;
    let node = cluster.post("/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await.ok(201);
    let bound = json!({"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "n1"}});
    let token = token(&cluster, bound).await;
    let uid = node["metadata"]["uid"].as_str().unwrap();
    assert_eq!(claims(&token)["kubernetes.io"]["node"], json!({"name": "n1", "uid": uid}));
    let extra = whoami(&cluster, &token).await.ok(201)["status"]["userInfo"]["extra"].clone();
    assert_eq!(extra["authentication.kubernetes.io/node-name"], json!(["n1"]));
    assert_eq!(extra["authentication.kubernetes.io/node-uid"], json!([uid]));

    cluster.delete("/api/v1/nodes/n1").await.ok(200);
    assert_eq!(whoami(&cluster, &token).await.status, 401);
    assert_eq!(
        review(&cluster, &token, json!([])).await["error"],
        json!("[invalid bearer token, service account token has been invalidated]")
    );
    let again = cluster.post("/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await.ok(201);
    let again = again["metadata"]["uid"].as_str().unwrap();
    assert_eq!(whoami(&cluster, &token).await.status, 401);
    assert_eq!(
        review(&cluster, &token, json!([])).await["error"],
        json!(format!(
            "[invalid bearer token, node UID ({again}) does not match service account node ref claim ({uid})]"
        ))
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_for_an_object_without_a_name_is_a_bad_request() {
    let cluster = cluster_with_robot(303).await;
    for kind in ["Pod", "Node", "Secret"] {
        let bound = |name: &str| json!({"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}});
        let refused = |reply: Reply| reply.ok(400)["message"].as_str().unwrap().to_owned();
        assert_eq!(refused(ask_token(&cluster, bound("")).await), "Name parameter required.");
        assert_eq!(
            refused(ask_token(&cluster, bound("a/%")).await),
            "Name parameter invalid: \"a/%\": may not contain '/';may not contain '%'"
        );
    }
    cluster.shutdown().await;
}

/// What is asked is asked in the namespace of the path, and of nothing the server makes up itself.
#[tokio::test(start_paused = true)]
async fn a_review_names_the_namespace_of_its_path_or_none() {
    let cluster = cluster_with_robot(304).await;
    let elsewhere = json!({"metadata": {"namespace": "zz"}, "spec": {"user": "u", "resourceAttributes":
        {"namespace": "default", "verb": "get"}}});
    let local = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    for path in [local.to_owned(), format!("{CORE}/serviceaccounts/robot/token")] {
        let refused = cluster.post(path, elsewhere.clone()).await.ok(400);
        assert_eq!(
            refused["message"],
            "the namespace of the provided object does not match the namespace sent on the request"
        );
    }
    let metadata = json!({"name": "x", "namespace": "zz", "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z",
        "labels": {"a": "b"}});
    let asked = json!({"metadata": metadata, "spec": {"token": "junk"}});
    let metadata_of = |mut answer: Value| {
        let mut metadata = answer["metadata"].take();
        assert!(metadata.as_object_mut().unwrap().remove("managedFields").is_some());
        metadata
    };
    let answer = cluster.post(REVIEWS, asked).await.ok(201);
    assert_eq!(metadata_of(answer), json!({"name": "x", "labels": {"a": "b"}}));
    // This one wants none at all; what is taken away does not count.
    let asked =
        json!({"metadata": {"namespace": "zz", "uid": "u"}, "spec": {"resourceAttributes": {"verb": "get"}}});
    let own = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(metadata_of(cluster.post(own, asked).await.ok(201)), json!({}));
    cluster.shutdown().await;
}
