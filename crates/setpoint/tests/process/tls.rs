//! Authentication: certificates, tokens, anonymous; over HTTP/1.1 and HTTP/2.

use std::process::Command;

use kube::client::Body;

use crate::harness::*;

const NAMESPACES: &str = "/api/v1/namespaces";

#[tokio::test(flavor = "multi_thread")]
async fn anonymous_requests_get_health_and_version_only() {
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    let nobody = server.anonymous().await;
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(call(&nobody, "GET", path, None).await.0, 200, "{path}");
    }
    for path in [NAMESPACES, "/api", "/apis", "/metrics", "/openapi/v3", "/", "/no/such/path"] {
        let (code, answer) = call(&nobody, "GET", path, None).await;
        assert_eq!((code, &answer["reason"]), (403, &"Forbidden".into()), "{path}");
        assert!(answer["message"].as_str().unwrap().contains("system:anonymous"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_authority_is_unauthorized() {
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    let other = Proc::start_with(&folder.path().join("other"), &["--store", "memory"]);
    let mut config = server.config().await;
    config.auth_info = other.config().await.auth_info;
    let stranger = kube::Client::try_from(config).unwrap();
    for path in [NAMESPACES, "/version"] {
        let (code, answer) = call(&stranger, "GET", path, None).await;
        assert_eq!((code, &answer["reason"]), (401, &"Unauthorized".into()), "{path}");
    }
    assert_eq!(call(&server.client().await, "GET", NAMESPACES, None).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn static_tokens_name_their_users() {
    let folder = folder();
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "admin-token,root,1,\"system:masters\"\nplain-token,alice,2\n").unwrap();
    let data = folder.path().join("data");
    let server = Proc::start_with(&data, &["--token-file", tokens.to_str().unwrap()]);
    let nobody = server.anonymous().await;
    for (token, code, reason) in
        [("admin-token", 200, ""), ("plain-token", 403, "Forbidden"), ("wrong-token", 401, "Unauthorized")]
    {
        let request = http::Request::get(NAMESPACES)
            .header("authorization", format!("Bearer {token}"))
            .body(Body::from(Vec::new()))
            .unwrap();
        let answer = nobody.send(request).await.unwrap();
        assert_eq!(answer.status().as_u16(), code, "{token} {reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_survive_a_restart_and_are_valid_wherever_the_key_is_given() {
    let folder = folder();
    let data = folder.path().join("data");
    let server = Proc::start_with(&data, &["--service-account-max-token-expiration", "1h"]);
    let client = server.client().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let robot = serde_json::json!({"metadata": {"name": "robot"}});
    assert_eq!(call(&client, "POST", accounts, Some(robot.clone())).await.0, 201);
    let (code, answer) =
        call(&client, "POST", &format!("{accounts}/robot/token"), Some(serde_json::json!({}))).await;
    assert_eq!(code, 201, "{answer}");
    let token = answer["status"]["token"].as_str().unwrap().to_owned();
    let with_token = async |server: &Proc| {
        let request = http::Request::get("/openid/v1/jwks")
            .header("authorization", format!("Bearer {token}"))
            .body(Body::from(Vec::new()))
            .unwrap();
        server.anonymous().await.send(request).await.unwrap().status().as_u16()
    };
    assert_eq!(with_token(&server).await, 200, "service accounts may read the issuer's keys");
    let (_, configuration) = call(&client, "GET", "/.well-known/openid-configuration", None).await;
    assert_eq!(configuration["jwks_uri"], format!("{}/openid/v1/jwks", server.url()));
    drop((client, server));
    let again = Proc::start(&data);
    assert_eq!(with_token(&again).await, 200);
    let key = again.pki("sa.key");

    // Another cluster does not know the token; one that was given the key knows it, but not the account's uid.
    let other = Proc::start_with(&folder.path().join("other"), &["--store", "memory"]);
    assert_eq!(with_token(&other).await, 401);
    let given = ["--store", "memory", "--service-account-key-file", key.to_str().unwrap()];
    let other = Proc::start_with(&folder.path().join("third"), &given);
    let client = other.client().await;
    assert_eq!(call(&client, "POST", accounts, Some(robot)).await.0, 201);
    let review = serde_json::json!({"spec": {"token": token}});
    let (_, answer) =
        call(&client, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", Some(review)).await;
    let error = answer["status"]["error"].as_str().unwrap();
    assert!(error.starts_with("[invalid bearer token, service account UID ("), "{error}");
}

#[test]
fn both_http_versions_are_spoken() {
    if !available("curl") {
        return;
    }
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let output = run(Command::new("curl")
            .args(["-s", flag, "-w", "|%{http_code}|%{http_version}", "--cacert"])
            .arg(server.pki("ca.crt"))
            .arg("--cert")
            .arg(server.pki("admin.crt"))
            .arg("--key")
            .arg(server.pki("admin.key"))
            .arg(format!("{}{NAMESPACES}", server.url())));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("NamespaceList") && text.ends_with(&format!("|200|{version}")),
            "{flag}: {text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_objects_survive_a_restart() {
    let folder = folder();
    let data = folder.path().join("data");
    let server = Proc::start(&data);
    let authority = std::fs::read(server.pki("ca.crt")).unwrap();
    let (_, system) = call(&server.client().await, "GET", "/api/v1/namespaces/kube-system", None).await;
    server.stop();
    let server = Proc::start(&data);
    assert_eq!(std::fs::read(server.pki("ca.crt")).unwrap(), authority);
    let (_, again) = call(&server.client().await, "GET", "/api/v1/namespaces/kube-system", None).await;
    assert_eq!(again, system);
}

/// What curl got: the code, and all it printed. `--fail-early` is not used: a refusal is an answer.
fn curl(server: &Proc, args: &[&str], path: &str) -> (String, String) {
    let output = run(Command::new("curl")
        .args(["-s", "-S", "-w", "|%{http_code}", "--cacert"])
        .arg(server.pki("ca.crt"))
        .arg("--cert")
        .arg(server.pki("admin.crt"))
        .arg("--key")
        .arg(server.pki("admin.key"))
        .args(args)
        .arg(format!("{}{path}", server.url())));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "curl {args:?} {path}: {}", String::from_utf8_lossy(&output.stderr));
    let (body, code) = text.rsplit_once('|').unwrap();
    (code.to_owned(), body.to_owned())
}

#[test]
fn responses_arrive_complete_whatever_the_request_was() {
    if !available("curl") {
        return;
    }
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    let maps = "/api/v1/namespaces/default/configmaps";
    // A body of several frames, so that there is something left to come when the answer is ready.
    let large = folder.path().join("large");
    std::fs::write(&large, format!("{{\"x\":\"{}\"}}", "x".repeat(1 << 20))).unwrap();
    let large = format!("@{}", large.display());
    for version in ["--http1.1", "--http2"] {
        let (code, head) = curl(&server, &[version, "-I"], "/healthz");
        assert_eq!(code, "200");
        assert!(head.to_ascii_lowercase().contains("content-length: 2\r\n"), "{head}");
        assert!(head.to_ascii_lowercase().contains("audit-id: "), "{head}");
        assert_eq!(curl(&server, &[version, "-I"], maps).0, "405");
        // Refused before the body is read: the refusal must reach the client all the same.
        for body in ["{}", &large] {
            // Sent at once: curl must not wait to be asked.
            let post = [
                version,
                "-X",
                "POST",
                "-H",
                "Expect:",
                "-H",
                "content-type: application/json",
                "--data-binary",
                body,
            ];
            for _ in 0..5 {
                assert_eq!(curl(&server, &post, &format!("{maps}/a")).0, "405", "{version}");
            }
            assert_eq!(curl(&server, &post, "/apis/no.such/v1/x").0, "404", "{version}");
        }
        let (_, head) = curl(&server, &[version, "-i", "-H", "audit-id: mine"], "/version");
        assert!(head.to_ascii_lowercase().contains("audit-id: mine\r\n"), "{head}");
        let groups: Vec<String> = (0..500).map(|n| format!("impersonate-group: g{n}")).collect();
        let mut args = vec![version, "-H", "impersonate-user: jane"];
        args.extend(groups.iter().flat_map(|g| ["-H", g]));
        assert_eq!(curl(&server, &args, maps).0, "403", "{version}");
    }
}

#[test]
fn certificates_and_cas_that_are_replaced_are_used_without_a_restart() {
    if !available("curl") {
        return;
    }
    let folder = folder();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let names = ["127.0.0.1".to_owned()];
    let [old, new] =
        ["old", "new"].map(|name| auth::Pki::open_or_create(&folder.path().join(name), now, &names).unwrap());
    let given = |name: &str| folder.path().join(name);
    let write = |pki: &auth::Pki| {
        std::fs::write(given("clients.crt"), pki.ca_pem()).unwrap();
        std::fs::write(given("proxies.crt"), pki.ca_pem()).unwrap();
        let chain = format!("{}{}", pki.serving().certificate_pem(), pki.ca_pem());
        std::fs::write(given("tls.crt"), chain).unwrap();
        std::fs::write(given("tls.key"), pki.serving().key_pem()).unwrap();
    };
    write(&old);
    let flags = [
        ("tls-cert-file", "tls.crt"),
        ("tls-private-key-file", "tls.key"),
        ("client-ca-file", "clients.crt"),
        ("requestheader-client-ca-file", "proxies.crt"),
    ];
    let flags = flags.map(|(flag, file)| format!("--{flag}={}", given(file).display()));
    let server = Proc::start_with(&folder.path().join("data"), &flags.each_ref().map(String::as_str));
    // The code of an answer to whoever holds the administrator's certificate of `client`, and believes the CA of `authority`.
    let ask = |authority: &str, client: &str, path: &str| {
        let pki = |name: &str, file: &str| folder.path().join(name).join(file);
        let output = run(Command::new("curl")
            .args(["-s", "-w", "|%{http_code}", "--cacert"])
            .arg(pki(authority, "ca.crt"))
            .arg("--cert")
            .arg(pki(client, "admin.crt"))
            .arg("--key")
            .arg(pki(client, "admin.key"))
            .arg(format!("{}{path}", server.url())));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(ask("old", "old", NAMESPACES).ends_with("|200"));
    assert!(ask("old", "new", NAMESPACES).ends_with("|401"));
    assert!(ask("new", "old", NAMESPACES).ends_with("|000"));

    // Half of a pair, and no certificates at all: nothing changes.
    std::fs::write(given("tls.key"), new.serving().key_pem()).unwrap();
    std::fs::write(given("clients.crt"), "nothing").unwrap();
    wait_until("both are refused", || {
        server.log().matches("cannot be used, what was read before stays in use").count() >= 2
    });
    assert!(ask("old", "old", NAMESPACES).ends_with("|200"));

    write(&new);
    wait_until("the new certificate is shown", || ask("new", "new", NAMESPACES).ends_with("|200"));
    wait_until("the old CA is not believed any more", || ask("new", "old", NAMESPACES).ends_with("|401"));
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let told = new.ca_pem().trim().replace('\n', "\\n");
    wait_until("others are told", || ask("new", "new", path).matches(&told).count() == 2);
    server.stop();
}
