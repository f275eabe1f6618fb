//! A client certificate from the key to the first request: openssl requests, kubectl approves, the server accepts.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::*;
use crate::kubectl::Kubectl;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const NAMESPACES: &str = "/api/v1/namespaces";

/// A client that shows this certificate and nothing else.
async fn client_with(server: &Proc, certificate: &str, key: &[u8]) -> kube::Client {
    let mut config = server.config().await;
    let auth = json!({"client-certificate-data": certificate, "client-key-data": STANDARD.encode(key)});
    config.auth_info = serde_json::from_value(auth).unwrap();
    kube::Client::try_from(config).unwrap()
}

async fn issued(admin: &kube::Client, name: &str) -> String {
    for _ in 0..500 {
        let (_, object) = call(admin, "GET", &format!("{REQUESTS}/{name}"), None).await;
        if let Value::String(certificate) = &object["status"]["certificate"] {
            return certificate.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{name} was not signed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_signing_request_yields_a_working_client_certificate() {
    if !available("openssl") {
        return;
    }
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    let Some(kubectl) = Kubectl::new(&server, folder.path()) else { return };
    let admin = server.client().await;
    // Every kind of key people bring.
    let kinds: [(&str, &[&str]); 4] = [
        ("rsa", &["-newkey", "rsa:2048"]),
        ("p256", &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]),
        ("p384", &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"]),
        ("ed25519", &["-newkey", "ed25519"]),
    ];
    for (name, new_key) in kinds {
        let (key, request) =
            (folder.path().join(format!("{name}.key")), folder.path().join(format!("{name}.csr")));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-new", "-nodes", "-subj", &format!("/O=devs/CN={name}")]).args(new_key);
        let made = run(openssl.arg("-keyout").arg(&key).arg("-out").arg(&request));
        assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
        let body = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {
                "request": STANDARD.encode(std::fs::read(&request).unwrap()),
                "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
                "expirationSeconds": 3600,
            },
        });
        let (code, answer) = call(&admin, "POST", REQUESTS, Some(body)).await;
        assert_eq!(code, 201, "{answer}");
        let said = kubectl.run(&format!("certificate approve {name}"));
        assert!(said.contains("approved"), "{said}");
        let certificate = issued(&admin, name).await;
        let key = std::fs::read(&key).unwrap();
        let somebody = client_with(&server, &certificate, &key).await;
        let (code, answer) = call(&somebody, "GET", NAMESPACES, None).await;
        assert_eq!(code, 403, "{answer}");
        let told = answer["message"].as_str().unwrap();
        assert!(told.contains(&format!("User \"{name}\" cannot list")), "{told}");
    }
    // Its organizations are its groups.
    kubectl.run("create clusterrolebinding devs --clusterrole=view --group=devs");
    let certificate = issued(&admin, "p256").await;
    let key = std::fs::read(folder.path().join("p256.key")).unwrap();
    let dev = client_with(&server, &certificate, &key).await;
    assert_eq!(call(&dev, "GET", NAMESPACES, None).await.0, 200);
    let listed = kubectl.run("get csr");
    assert!(listed.contains("Approved,Issued"), "{listed}");

    // What is denied gets nothing, also later.
    let again = std::fs::read(folder.path().join("rsa.csr")).unwrap();
    let body = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "denied"},
        "spec": {"request": STANDARD.encode(again), "usages": ["client auth"],
            "signerName": "kubernetes.io/kube-apiserver-client"},
    });
    assert_eq!(call(&admin, "POST", REQUESTS, Some(body)).await.0, 201);
    kubectl.run("certificate deny denied");
    kubectl.fails("certificate approve denied");
    let (_, denied) = call(&admin, "GET", &format!("{REQUESTS}/denied"), None).await;
    assert!(denied["status"]["certificate"].is_null(), "{denied}");
}
