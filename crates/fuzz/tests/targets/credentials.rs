//! Tokens, certificates, certificate signing requests, impersonation, kubeconfigs.

use std::path::Path;

use auth::jwt::{SigningKey, Unverified, sign};
use auth::pki::{
    Issuer, SigningRequest, certificates_from_pem, new_request, not_after, private_key_from_pem,
};
use auth::service_account::{ServiceAccounts, Settings};
use auth::{Tokens, bootstrap_token, impersonation, x509};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use client_http::{Config, Proxy, Url};
use codec::json;
use fuzz::{Fuzz, Growth};
use rustls_pki_types::CertificateDer;

const NOW: u64 = 1_700_000_000;

fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

fn der(pem: &str) -> Vec<u8> {
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    STANDARD.decode(body).unwrap()
}

#[test]
fn jwt() {
    let key = SigningKey::from_pkcs8(&SigningKey::generate_pkcs8().unwrap()).unwrap();
    let accounts = ServiceAccounts::new(Settings::default(), key, Vec::new());
    let payload = r#"{"iss":"https://kubernetes.default.svc","aud":["https://kubernetes.default.svc"],"exp":1800000000,"iat":1600000000,"nbf":1600000000,"sub":"system:serviceaccount:a:b","kubernetes.io":{"namespace":"a","serviceaccount":{"name":"b","uid":"1"},"pod":{"name":"p","uid":"2"}}}"#;
    let signer = SigningKey::from_pkcs8(&SigningKey::generate_pkcs8().unwrap()).unwrap();
    let signed = sign(&signer, &json::parse(payload.as_bytes(), None).unwrap()).unwrap();
    // The three parts as they are; whole tokens are made of them, so that mutations reach the JSON inside.
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let seeds = [
        format!("{{\"alg\":\"ES256\",\"kid\":\"k\"}}\n{payload}\nxx"),
        "{\"alg\":\"none\"}\n{}\n".to_owned(),
        "{\"alg\":\"RS256\",\"crit\":[\"b64\"],\"b64\":false}\n{\"exp\":1e300,\"aud\":\"x\"}\nsig".to_owned(),
    ];
    let tokens = &[
        "\"alg\":\"ES256\"",
        "\"alg\":\"HS256\"",
        "\"kid\":",
        "\"exp\":",
        "\"aud\":[",
        "\"kubernetes.io\":{",
        "null",
        "\n",
        ".",
    ];
    let growth = [
        Growth::new("", ".", "", 16_000),
        Growth::new("", "A", "", 16_000),
        Growth::new("{}\n{\"aud\":[", "\"a\",", "1]}\nx", 5000),
    ];
    let check = |token: &str| match Unverified::parse(token) {
        Some(unverified) => match unverified.verify(accounts.keys()) {
            Ok(()) => panic!("nobody here has the key: {token}"),
            Err(error) => error.to_string(),
        },
        None => "no token".to_owned(),
    };
    assert_eq!(check(&signed), "invalid signature, no keys found");
    Fuzz::new("jwt").seeds(seeds).tokens(tokens).allocates(64 << 10, 1000).grows(&growth).inputs(800).run(
        |input| {
            let Some(text) = text(input) else { return "no text".to_owned() };
            let plain = check(text);
            let parts: Vec<&str> = text.split('\n').collect();
            let made = parts.iter().map(|text| part(text)).collect::<Vec<_>>().join(".");
            format!("{plain}, {}", check(&made))
        },
    );
}

#[test]
fn bootstrap_token() {
    let secret = |id: &str, word: &str, expires: &str| {
        let data = |text: &str| STANDARD.encode(text);
        let text = format!(
            r#"{{"metadata":{{"name":"bootstrap-token-{id}"}},"type":"bootstrap.kubernetes.io/token","data":{{"token-id":"{}","token-secret":"{}","usage-bootstrap-authentication":"{}","expiration":"{}","auth-extra-groups":"{}"}}}}"#,
            data(id),
            data(word),
            data("true"),
            data(expires),
            data("system:bootstrappers:x")
        );
        json::parse(text.as_bytes(), None).unwrap()
    };
    let good = secret("abcdef", "0123456789abcdef", "2099-01-01T00:00:00Z");
    let token = "abcdef.0123456789abcdef";
    assert!(bootstrap_token::authenticate(token, &good, 1).is_some());
    let seeds = [token, "abcdef.0123456789abcdeF", "abcdef", ".", "abcdef.0123456789abcdef."];
    Fuzz::new("bootstrap_token")
        .seeds(seeds)
        .tokens(&[".", "abcdef", "0123456789abcdef"])
        .allocates(4096, 100)
        .inputs(2000)
        .run(|input| {
            let Some(text) = text(input) else { return "no text" };
            let user = bootstrap_token::authenticate(text, &good, 1);
            assert!(user.is_none() || text == token, "{text:?} is not the token");
            assert!(user.is_none_or(|user| !user.is_in("system:masters")), "a token gives no such group");
            match bootstrap_token::secret_name(text) {
                Some(name) if name == "bootstrap-token-abcdef" => "its name",
                Some(_) => "a name",
                None => "none",
            }
        });
}

#[test]
fn static_tokens() {
    let seeds =
        ["t,u,1,\"a,b\"\n", "t,u,1\n\nv,w,2,g\n", "\"quo\"\"ted\",u,1,\"g\"\r\n", "# no comment\nt,,\n"];
    Fuzz::new("static_tokens")
        .seeds(seeds)
        .tokens(&[",", "\"", "\"\"", "\n", "\r\n"])
        .allocates(8192, 400)
        .inputs(1000)
        .run(|input| match Tokens::parse(Path::new("tokens.csv"), input) {
            Ok(tokens) => {
                assert!(tokens.authenticate("a token that is in no file").is_none());
                format!("ok {}", tokens.warnings().len())
            }
            Err(error) => error.to_string(),
        });
}

#[test]
fn certificate() {
    let issuer = Issuer::in_memory(NOW).unwrap();
    let ca = issuer.client_ca();
    let (_, request) =
        new_request("alice", &["dev".into(), "ops".into()], &["a.example".into(), "10.0.0.1".into()])
            .unwrap();
    let request = SigningRequest::from_pem(request.as_bytes()).unwrap();
    let usages: Vec<String> = ["digital signature", "client auth"].map(str::to_owned).to_vec();
    let usages: Vec<&str> = usages.iter().map(String::as_str).collect();
    let issued = issuer.issue(&request, &usages, 3600, NOW).unwrap();
    let (leaf, authority) = (der(&issued), der(issuer.ca_pem()));
    let chain = [CertificateDer::from(leaf.clone())];
    assert_eq!(x509::authenticate(&chain, &ca, NOW).unwrap().user.name, "alice");
    let growth = [Growth::new("0\u{7f}", "0", "", 20_000), Growth::new("", "0\u{0}", "", 20_000)];
    Fuzz::new("certificate")
        .seeds([leaf.clone(), authority.clone()])
        .allocates(16 << 10, 100)
        .grows(&growth)
        .inputs(1500)
        .run(|input| {
            let chain = [CertificateDer::from(input.to_vec())];
            // Without the key no other certificate verifies; the CA's own does.
            match x509::authenticate(&chain, &ca, NOW) {
                Ok(_) => {
                    assert!(input == leaf || input == authority, "an unsigned certificate verifies");
                    "ok".to_owned()
                }
                Err(error) => error.to_string(),
            }
        });
}

#[test]
fn signing_request() {
    let issuer = Issuer::in_memory(NOW).unwrap();
    let (_, plain) =
        new_request("system:node:n", &["system:nodes".into()], &["a.example".into(), "::1".into()]).unwrap();
    let (_, bare) = new_request("x", &[], &[]).unwrap();
    let growth =
        [Growth::new("", "0\u{0}", "", 20_000), Growth::new("0\u{3}", "\u{2}\u{1}\u{0}", "", 20_000)];
    Fuzz::new("signing_request")
        .seeds([der(&plain), der(&bare)])
        .allocates(16 << 10, 200)
        .grows(&growth)
        .inputs(1500)
        .run(|input| {
            let request = match SigningRequest::from_der(input) {
                Ok(request) => request,
                Err(error) => return error.to_string(),
            };
            let verified = request.verify().map_or_else(|error| error.to_string(), |()| "verified".into());
            // What is read can be certified, and what is certified is read with the same name.
            match issuer.issue(&request, &["client auth"], 3600, NOW) {
                Ok(pem) => {
                    let chain = certificates_from_pem(pem.as_bytes()).expect("PEM of our own");
                    let user = x509::authenticate(&chain, &issuer.client_ca(), NOW);
                    if let Ok(authenticated) = &user {
                        assert_eq!(authenticated.user.name, request.common_name());
                    }
                    format!("{verified}, {}", user.map_or_else(|error| error.to_string(), |_| "ok".into()))
                }
                Err(error) => format!("{verified}, {error}"),
            }
        });
}

#[test]
fn pem() {
    let issuer = Issuer::in_memory(NOW).unwrap();
    let (key, request) = new_request("x", &[], &[]).unwrap();
    let key = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(key));
    let tokens = &[
        "-----BEGIN CERTIFICATE-----\n",
        "-----END CERTIFICATE-----\n",
        "-----BEGIN PRIVATE KEY-----\n",
        "-----",
        "\n",
        "Proc-Type: 4,ENCRYPTED\n",
        "=",
    ];
    let growth = [
        Growth::new("", "-----BEGIN CERTIFICATE-----\n", "", 2000),
        Growth::new("-----BEGIN CERTIFICATE-----\n", "A", "", 50_000),
        Growth::new("", "-", "", 50_000),
    ];
    Fuzz::new("pem")
        .seeds([issuer.ca_pem(), &key, &request])
        .tokens(tokens)
        .allocates(64 << 10, 100)
        .grows(&growth)
        .inputs(800)
        .run(|input| {
            let certificates = certificates_from_pem(input);
            let _ = (
                not_after(input),
                private_key_from_pem(input).is_ok(),
                client_http::tls::certificates(input).is_ok(),
                client_http::tls::authorities(input).is_ok(),
            );
            let signing =
                SigningRequest::from_pem(input).map_or_else(|error| error.to_string(), |_| "ok".into());
            let keys = SigningKey::from_pem(input).is_ok();
            format!("{:?} {signing} {keys}", certificates.map(|all| all.is_empty()))
        });
}

#[test]
fn impersonation() {
    let seeds = [
        "Impersonate-User: a\nImpersonate-Group: b\nImpersonate-Group: c",
        "Impersonate-Extra-Scopes%2fx: a\nImpersonate-User: system:serviceaccount:a:b",
        "Impersonate-Uid: 1",
        "impersonate-extra-%zz: 1\nImpersonate-User: system:node:x",
    ];
    let tokens = &[
        "Impersonate-User: ",
        "Impersonate-Uid: ",
        "Impersonate-Extra-",
        "Impersonate-Group: system:masters",
        "\n",
        "%2f",
        "%",
    ];
    Fuzz::new("impersonation").seeds(seeds).tokens(tokens).allocates(8192, 600).inputs(2000).run(|input| {
        let Some(text) = text(input) else { return "no text".to_owned() };
        let headers: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once(": ")).collect();
        match impersonation::requested(headers.iter().copied()) {
            Ok(Some(user)) => {
                let named = |wanted: &str| {
                    headers
                        .iter()
                        .any(|(name, value)| name.eq_ignore_ascii_case(wanted) && *value == user.name)
                };
                assert!(named("impersonate-user"), "{user:?}");
                format!("user {}", user.extra.len())
            }
            Ok(None) => "nobody".into(),
            Err(status) => status.message,
        }
    });
}

#[test]
fn kubeconfig() {
    let issuer = Issuer::in_memory(NOW).unwrap();
    let config = auth::pki::kubeconfig_with_token("https://127.0.0.1:6443", issuer.ca_pem(), "u", "t");
    let exec = r#"{"current-context":"a","contexts":[{"name":"a","context":{"cluster":"c","user":"u","namespace":"n"}}],"clusters":[{"name":"c","cluster":{"server":"http://[::1]:1/p","insecure-skip-tls-verify":true,"proxy-url":"socks5://h:1","tls-server-name":"x"}}],"users":[{"name":"u","user":{"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"true","args":["a"],"env":[{"name":"A","value":"b"}],"interactiveMode":"Never"},"as":"x","as-groups":["g"],"as-user-extra":{"k":["v"]}}}]}"#;
    let tokens = &[
        "server: ",
        "token: ",
        "exec: ",
        "client-certificate-data: ",
        "proxy-url: http://a:b@c:1",
        "current-context: ",
        "username: ",
        "as: ",
    ];
    Fuzz::new("kubeconfig").seeds([config.as_str(), exec]).tokens(tokens).allocates(512 << 10, 8000).run(
        |input| {
            let Some(text) = text(input) else { return "no text".to_owned() };
            match Config::from_kubeconfig_text(text) {
                Ok(_) => "ok".into(),
                Err(error) => error.to_string(),
            }
        },
    );
}

#[test]
fn url() {
    let seeds = [
        "https://127.0.0.1:6443",
        "http://[::1]:80/a/b?c",
        "https://u:p@host",
        "host:1",
        "https://",
        "HTTP://x:99999/",
    ];
    let tokens = &["https://", "http://", "socks5://", "@", ":", "[", "]", "//", "?", "#", "%41"];
    Fuzz::new("url").seeds(seeds).tokens(tokens).allocates(4096, 200).inputs(2000).run(|input| {
        let Some(text) = text(input) else { return "no text".to_owned() };
        let url =
            Url::parse(text).map_or_else(|error| error.to_string(), |url| format!("ok {}", url.is_tls()));
        let proxy = Proxy::parse(text).map_or_else(|error| error, |_| "ok".into());
        format!("{url}, {proxy}")
    });
}
