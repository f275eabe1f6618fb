use super::*;
use crate::config::Target;

fn target(url: &str) -> ClientConfig {
    let mut config = Value::map();
    config.make_map().set("url", url);
    ClientConfig::from_value(&config).unwrap()
}

fn service(namespace: &str, name: &str, port: i64) -> ClientConfig {
    let text = format!(r#"{{"service":{{"namespace":"{namespace}","name":"{name}","port":{port}}}}}"#);
    ClientConfig::from_value(&codec::json::parse(text.as_bytes(), None).unwrap()).unwrap()
}

/// What is shown to a webhook.
fn shown(kubeconfig: &Kubeconfig, config: &ClientConfig) -> Option<String> {
    let known = kubeconfig.authenticate(&Env::simulated(1), config).unwrap();
    known.credentials.as_ref().and_then(|known| known.authorization.clone())
}

#[test]
fn users_are_found_by_upstreams_precedence() {
    let names = [
        "hook.example.com:8443",
        "hook.example.com",
        "*.example.com:8443",
        "*.com",
        "*.other.svc",
        "a.b.svc",
        "*",
    ];
    let users: Vec<String> =
        names.iter().map(|name| format!("- name: '{name}'\n  user: {{token: '{name}'}}\n")).collect();
    let kubeconfig =
        Kubeconfig::parse(format!("users:\n{}", users.concat()).as_bytes(), Path::new("")).unwrap();
    for (config, user) in [
        (target("https://hook.example.com:8443/x"), "hook.example.com:8443"),
        (target("https://hook.example.com/x"), "hook.example.com"),
        (target("https://hook.example.com:443/x"), "hook.example.com"),
        (target("https://other.example.com:8443"), "*.example.com:8443"),
        // The port counts, unless it is 443.
        (target("https://other.example.com:9443"), "*"),
        (target("https://other.example.com"), "*.com"),
        (service("b", "a", 443), "a.b.svc"),
        (service("other", "a", 443), "*.other.svc"),
        (service("other", "a", 8443), "*"),
        (target("https://[::1]/x"), "*"),
    ] {
        assert_eq!(shown(&kubeconfig, &config), Some(format!("Bearer {user}")), "{config:?}");
    }
}

#[test]
fn without_a_star_the_current_context_counts_and_else_nobody() {
    let text = "current-context: c\ncontexts: [{name: c, context: {user: u}}]\nusers: [{name: u, user: {username: me, password: pw}}]";
    let kubeconfig = Kubeconfig::parse(text.as_bytes(), Path::new("")).unwrap();
    assert_eq!(shown(&kubeconfig, &target("https://a.b")), Some("Basic bWU6cHc=".to_owned()));
    let nobody = Kubeconfig::parse(b"users: [{name: u, user: {token: t}}]", Path::new("")).unwrap();
    assert_eq!(shown(&nobody, &target("https://a.b")), None);
}

#[tokio::test(start_paused = true)]
async fn files_are_read_again_after_a_minute() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "one\n").unwrap();
    let kubeconfig =
        Kubeconfig::parse(b"users: [{name: '*', user: {tokenFile: token}}]", folder.path()).unwrap();
    let env = Env::simulated(1);
    let config = target("https://a.b");
    let token = || {
        let known = kubeconfig.authenticate(&env, &config).unwrap();
        known.credentials.unwrap().authorization.clone().unwrap()
    };
    assert_eq!(token(), "Bearer one");
    std::fs::write(folder.path().join("token"), "two\n").unwrap();
    assert_eq!(token(), "Bearer one");
    env.sleep(Duration::from_secs(61)).await;
    assert_eq!(token(), "Bearer two");
    std::fs::remove_file(folder.path().join("token")).unwrap();
    env.sleep(Duration::from_secs(61)).await;
    assert_eq!(token(), "Bearer two", "the last one goes on");
}

#[test]
fn what_cannot_be_used_is_named_with_its_user() {
    for (user, problem) in [
        ("{exec: {command: x}}", "credential plugins (exec) are not supported"),
        ("{auth-provider: {name: gcp}}", "auth provider not supported"),
        ("{as: jane}", "impersonation (as) is not supported"),
        ("{token: t, username: u}", "username/password or bearer token may be set, but not both"),
        ("{tokenFile: missing}", "cannot read /nowhere/missing: "),
        ("{client-certificate: c}", "client-certificate needs a client-key"),
        ("{client-key-data: '!', client-certificate: c}", "client-key-data is not base64"),
        ("{client-key-data: YQ==, client-certificate-data: YQ==}", "client-certificate"),
    ] {
        let text = format!("users: [{{name: hook, user: {user}}}]");
        let error = Kubeconfig::parse(text.as_bytes(), Path::new("/nowhere")).err().unwrap();
        assert!(error.starts_with("user \"hook\": ") && error.contains(problem), "{error}");
    }
}

#[test]
fn a_target_always_has_a_port() {
    for (url, port) in [
        ("https://a.b", "a.b:443"),
        ("https://a.b:8443/x", "a.b:8443"),
        ("https://[::1]", "[::1]:443"),
        ("https://[::1]:9", "[::1]:9"),
    ] {
        assert_eq!(target(url).target.host_port(), port);
    }
    assert!(matches!(service("b", "a", 1).target, Target::Service(_)));
}
