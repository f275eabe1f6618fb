//! Certificate signing requests from request to certificate, and the permissions they need.

use std::time::Duration;

use auth::UserInfo;
use auth::pki::new_request;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::TestCluster;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn pem(common_name: &str, groups: &[&str], names: &[&str]) -> String {
    let owned = |list: &[&str]| list.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    new_request(common_name, &owned(groups), &owned(names)).unwrap().1
}

fn csr(name: &str, signer: &str, usages: &[&str], pem: &str) -> Value {
    let request = STANDARD.encode(pem);
    json!({"metadata": {"name": name}, "spec": {"signerName": signer, "usages": usages, "request": request}})
}

const CLIENT: [&str; 2] = ["digital signature", "client auth"];
const API_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";

async fn approve(cluster: &TestCluster, name: &str) -> Value {
    let mut object = cluster.get(format!("{REQUESTS}/{name}")).await.ok(200);
    object["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "Test"}]);
    cluster.put(format!("{REQUESTS}/{name}/approval"), object).await.ok(200)
}

async fn until(cluster: &TestCluster, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..2_000 {
        let object = cluster.get(format!("{REQUESTS}/{name}")).await.ok(200);
        if wanted(&object["status"]) {
            return object["status"].clone();
        }
        cluster.env().sleep(Duration::from_millis(10)).await;
    }
    panic!("it stays {}", cluster.get(format!("{REQUESTS}/{name}")).await.text());
}

fn failed(status: &Value) -> Option<String> {
    let conditions = status["conditions"].as_array()?;
    let failed = conditions.iter().find(|c| c["type"] == "Failed")?;
    assert_eq!(failed["reason"], "SignerValidationFailure");
    Some(failed["message"].as_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn approved_requests_are_signed() {
    let cluster = TestCluster::simulated(70).await;
    let mut asked = csr("jane", API_CLIENT, &CLIENT, &pem("jane", &["devs"], &[]));
    asked["spec"]["expirationSeconds"] = json!(3600);
    cluster.post(REQUESTS, asked).await.ok(201);
    cluster.env().sleep(Duration::from_secs(5)).await;
    let waiting = cluster.get(format!("{REQUESTS}/jane")).await.ok(200);
    assert_eq!(waiting["status"], json!({}), "nothing is signed unasked");
    approve(&cluster, "jane").await;
    let status = until(&cluster, "jane", |status| status["certificate"].is_string()).await;
    let pem = STANDARD.decode(status["certificate"].as_str().unwrap()).unwrap();
    let end = auth::pki::not_after(&pem).unwrap();
    let left = end - cluster.env().now_seconds();
    assert!((3500..=3600).contains(&left), "{left}");
    // What was issued stays.
    let mut forged = cluster.get(format!("{REQUESTS}/jane")).await.ok(200);
    forged["status"]["certificate"] = json!(STANDARD.encode("x"));
    let refused = cluster.put(format!("{REQUESTS}/jane/status"), forged).await.ok(422);
    let told = refused["message"].as_str().unwrap();
    assert!(told.contains("updates may not modify existing certificate content"), "{told}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn signers_fail_requests_their_rules_forbid() {
    let cluster = TestCluster::simulated(71).await;
    let node = ["system:nodes"];
    let serving = ["digital signature", "server auth"];
    let cases: [(&str, &str, &[&str], String, &str); 7] = [
        (
            "a",
            API_CLIENT,
            &["server auth"],
            pem("j", &[], &[]),
            "invalid usage for client certificate: server auth",
        ),
        (
            "b",
            API_CLIENT,
            &["digital signature"],
            pem("j", &[], &[]),
            "missing required usage for client certificate: client auth",
        ),
        (
            "c",
            KUBELET,
            &CLIENT,
            pem("system:node:n", &["x"], &[]),
            "subject organization is not system:nodes",
        ),
        ("d", KUBELET, &CLIENT, pem("system:node:n", &node, &["n"]), "DNS subjectAltNames are not allowed"),
        ("e", KUBELET, &CLIENT, pem("n", &node, &[]), "subject common name does not begin with system:node:"),
        (
            "f",
            KUBELET,
            &["client auth"],
            pem("system:node:n", &node, &[]),
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (
            "g",
            "kubernetes.io/kubelet-serving",
            &serving,
            pem("system:node:n", &node, &[]),
            "DNS or IP subjectAltName is required",
        ),
    ];
    for (name, signer, usages, pem, want) in &cases {
        cluster.post(REQUESTS, csr(name, signer, usages, pem)).await.ok(201);
        approve(&cluster, name).await;
        let status = until(&cluster, name, |status| failed(status).is_some()).await;
        assert_eq!(failed(&status).as_deref(), Some(*want), "{name}");
        assert!(status["certificate"].is_null());
    }
    let good = pem("system:node:n", &node, &["n", "192.0.2.1"]);
    cluster.post(REQUESTS, csr("good", "kubernetes.io/kubelet-serving", &serving, &good)).await.ok(201);
    approve(&cluster, "good").await;
    until(&cluster, "good", |status| status["certificate"].is_string()).await;
    // Other people's signers are other people's.
    cluster.post(REQUESTS, csr("other", "example.com/signer", &CLIENT, &pem("j", &[], &[]))).await.ok(201);
    approve(&cluster, "other").await;
    cluster.env().sleep(Duration::from_secs(60)).await;
    assert!(cluster.get(format!("{REQUESTS}/other")).await.ok(200)["status"]["certificate"].is_null());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn permitted_kubelets_are_approved_automatically() {
    let cluster = TestCluster::simulated(72).await;
    let bind = |name: &str, role: &str, group: &str| {
        json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}]})
    };
    let bindings = format!("{RBAC}/clusterrolebindings");
    let grant = json!({"metadata": {"name": "ask"}, "rules": [
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create", "get"]}]});
    cluster.post(format!("{RBAC}/clusterroles"), grant).await.ok(201);
    for (name, role, group) in [
        ("ask-nodes", "ask", "system:nodes"),
        ("ask-boots", "ask", "boots"),
        ("self", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"),
        ("boot", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", "boots"),
    ] {
        cluster.post(&bindings, bind(name, role, group)).await.ok(201);
    }
    let node = UserInfo::new("system:node:n", &["system:nodes"]);
    let boot = UserInfo::new("bootstrapper", &["boots"]);
    let own = pem("system:node:n", &["system:nodes"], &[]);
    let ask = |name: &str, user: UserInfo, pem: &str| {
        cluster.request("POST", REQUESTS).by(user).json(&csr(name, KUBELET, &CLIENT, pem))
    };
    ask("renewal", node.clone(), &own).send().await.ok(201);
    ask("first", boot.clone(), &own).send().await.ok(201);
    for name in ["renewal", "first"] {
        let status = until(&cluster, name, |status| status["certificate"].is_string()).await;
        assert_eq!(status["conditions"][0]["reason"], "AutoApproved");
        let word = if name == "renewal" { "Auto approving self kubelet" } else { "Auto approving kubelet" };
        assert!(status["conditions"][0]["message"].as_str().unwrap().starts_with(word), "{status}");
    }
    // Rights may come after the request.
    let late = UserInfo::new("late", &["late"]);
    cluster.post(&bindings, bind("ask-late", "ask", "late")).await.ok(201);
    ask("late", late, &own).send().await.ok(201);
    cluster.env().sleep(Duration::from_secs(10)).await;
    assert_eq!(cluster.get(format!("{REQUESTS}/late")).await.ok(200)["status"], json!({}));
    let role = "system:certificates.k8s.io:certificatesigningrequests:nodeclient";
    cluster.post(&bindings, bind("late", role, "late")).await.ok(201);
    until(&cluster, "late", |status| status["certificate"].is_string()).await;
    // Another node's name is nothing a node may ask for; serving certificates are people's decision.
    let other = pem("system:node:m", &["system:nodes"], &[]);
    let refused = ask("theirs", node.clone(), &other).send().await.ok(403);
    let told = refused["message"].as_str().unwrap();
    assert!(told.contains("can only create a node CSR with CN=system:node:n"), "{told}");
    let serving = pem("system:node:n", &["system:nodes"], &["n"]);
    let asked =
        csr("serving", "kubernetes.io/kubelet-serving", &["digital signature", "server auth"], &serving);
    cluster.request("POST", REQUESTS).by(node).json(&asked).send().await.ok(201);
    cluster.env().sleep(Duration::from_secs(10)).await;
    assert_eq!(cluster.get(format!("{REQUESTS}/serving")).await.ok(200)["status"], json!({}));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn approval_and_signing_need_permission() {
    let cluster = TestCluster::simulated(73).await;
    let rules = |signers: &[&str]| {
        json!({"metadata": {"name": "decide"}, "rules": [
            {"apiGroups": ["certificates.k8s.io"], "verbs": ["get", "update"], "resources":
                ["certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"]},
            {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": signers,
                "verbs": ["approve", "sign"]}]})
    };
    cluster.post(format!("{RBAC}/clusterroles"), rules(&["example.org/*"])).await.ok(201);
    let binding = json!({"metadata": {"name": "decide"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "decide"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
    cluster.post(format!("{RBAC}/clusterrolebindings"), binding).await.ok(201);
    let jane = || UserInfo::new("jane", &[]);
    cluster.post(REQUESTS, csr("x", "example.com/signer", &CLIENT, &pem("j", &[], &[]))).await.ok(201);
    let mut object = cluster.get(format!("{REQUESTS}/x")).await.ok(200);
    object["status"]["conditions"] = json!([{"type": "Approved", "status": "True"}]);
    let send = |sub: &str, object: &Value| {
        cluster.request("PUT", format!("{REQUESTS}/x/{sub}")).by(jane()).json(object)
    };
    let refused = send("approval", &object).send().await.ok(403);
    let told = refused["message"].as_str().unwrap();
    let want = "user not permitted to approve requests with signerName \"example.com/signer\"";
    assert!(told.ends_with(want), "{told}");
    let mut failing = object.clone();
    failing["status"]["conditions"] = json!([{"type": "Failed", "status": "True"}]);
    let refused = send("status", &failing).send().await.ok(403);
    let told = refused["message"].as_str().unwrap();
    assert!(
        told.ends_with("user not permitted to sign requests with signerName \"example.com/signer\""),
        "{told}"
    );
    // Nobody approves through the status.
    let refused = cluster.put(format!("{REQUESTS}/x/status"), object.clone()).await.ok(422);
    let told = refused["message"].as_str().unwrap();
    assert!(told.contains("updates may not add a condition of type \"Approved\""), "{told}");
    // A whole domain is a right too.
    cluster.put(format!("{RBAC}/clusterroles/decide"), rules(&["example.com/*"])).await.ok(200);
    send("approval", &object).send().await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn broken_requests_are_refused_with_a_reason() {
    let cluster = TestCluster::simulated(74).await;
    let good = pem("jane", &[], &[]);
    let tampered = {
        let body: String = good.lines().filter(|l| !l.starts_with("---")).collect();
        let mut der = STANDARD.decode(body).unwrap();
        let last = der.len() - 1;
        der[last] ^= 1;
        format!(
            "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
            STANDARD.encode(der)
        )
    };
    let not_der = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n";
    let giant = format!(
        "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
        "QUFB".repeat(250_000)
    );
    for (pem, want) in [
        ("nonsense", "PEM block type must be CERTIFICATE REQUEST"),
        (not_der, "asn1: structure error"),
        (&tampered, "x509: ECDSA verification failure"),
        (&giant, "asn1: structure error"),
    ] {
        let refused = cluster.post(REQUESTS, csr("x", "example.com/s", &CLIENT, pem)).await.ok(422);
        let told = refused["message"].as_str().unwrap();
        assert!(told.contains("spec.request: Invalid value") && told.contains(want), "{want}: {told}");
    }
    let mut wrong = csr("x", "nodomain", &["client auth", "client auth", "flying"], &good);
    wrong["spec"]["expirationSeconds"] = json!(1);
    let refused = cluster.post(REQUESTS, wrong).await.ok(422);
    let told = refused["message"].as_str().unwrap();
    for part in [
        "spec.usages[2]: Unsupported value: \"flying\"",
        "spec.usages[1]: Duplicate value: \"client auth\"",
        "spec.signerName: Invalid value: \"nodomain\": must be a fully qualified domain and path",
        "spec.expirationSeconds: Invalid value: 1: may not specify a duration less than 600 seconds (10 minutes)",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let masters = csr("m", API_CLIENT, &CLIENT, &pem("jane", &["system:masters"], &[]));
    let refused = cluster.post(REQUESTS, masters).await.ok(403);
    let told = refused["message"].as_str().unwrap();
    assert!(told.contains("signer with system:masters group is not allowed"), "{told}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn old_requests_are_removed() {
    let cluster = TestCluster::simulated(75).await;
    for name in ["pending", "signed"] {
        cluster.post(REQUESTS, csr(name, API_CLIENT, &CLIENT, &pem("j", &[], &[]))).await.ok(201);
    }
    approve(&cluster, "signed").await;
    until(&cluster, "signed", |status| status["certificate"].is_string()).await;
    cluster.env().sleep(Duration::from_secs(3 * 3600)).await;
    assert_eq!(cluster.get(format!("{REQUESTS}/signed")).await.status, 404);
    cluster.get(format!("{REQUESTS}/pending")).await.ok(200);
    cluster.env().sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(cluster.get(format!("{REQUESTS}/pending")).await.status, 404);
    cluster.shutdown().await;
}
