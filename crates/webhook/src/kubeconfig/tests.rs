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
async fn shown(kubeconfig: &Kubeconfig, config: &ClientConfig) -> Option<String> {
    let known = kubeconfig.authenticate(&Env::simulated(1), config).await.unwrap().config;
    known.credentials.as_ref().and_then(|known| known.authorization.clone())
}

#[tokio::test(start_paused = true)]
async fn users_are_found_by_upstreams_precedence() {
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
        assert_eq!(shown(&kubeconfig, &config).await, Some(format!("Bearer {user}")), "{config:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_star_the_current_context_counts_and_else_nobody() {
    let text = "current-context: c\ncontexts: [{name: c, context: {user: u}}]\nusers: [{name: u, user: {username: me, password: pw}}]";
    let kubeconfig = Kubeconfig::parse(text.as_bytes(), Path::new("")).unwrap();
    assert_eq!(shown(&kubeconfig, &target("https://a.b")).await, Some("Basic bWU6cHc=".to_owned()));
    let nobody = Kubeconfig::parse(b"users: [{name: u, user: {token: t}}]", Path::new("")).unwrap();
    assert_eq!(shown(&nobody, &target("https://a.b")).await, None);
}

#[tokio::test(start_paused = true)]
async fn files_are_read_again_after_a_minute() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "one\n").unwrap();
    let kubeconfig =
        Kubeconfig::parse(b"users: [{name: '*', user: {tokenFile: token}}]", folder.path()).unwrap();
    let env = Env::simulated(1);
    let config = target("https://a.b");
    let token = async || {
        let known = kubeconfig.authenticate(&env, &config).await.unwrap().config;
        known.credentials.unwrap().authorization.clone().unwrap()
    };
    assert_eq!(token().await, "Bearer one");
    std::fs::write(folder.path().join("token"), "two\n").unwrap();
    assert_eq!(token().await, "Bearer one");
    env.sleep(Duration::from_secs(61)).await;
    assert_eq!(token().await, "Bearer two");
    std::fs::remove_file(folder.path().join("token")).unwrap();
    env.sleep(Duration::from_secs(61)).await;
    assert_eq!(token().await, "Bearer two", "the last one goes on");
}

#[test]
fn what_cannot_be_used_is_named_with_its_user() {
    for (user, problem) in [
        ("{exec: {command: x}}", "exec plugin: invalid apiVersion"),
        ("{auth-provider: {name: gcp}}", "auth provider not supported"),
        ("{as-groups: [a]}", "but nobody"),
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

#[tokio::test(start_paused = true)]
async fn a_user_may_act_as_somebody_else() {
    let text = "users: [{name: '*', user: {token: t, as: jane, as-uid: u, as-groups: [a, b], as-user-extra: {x.io/y: [z]}}}]";
    let kubeconfig = Kubeconfig::parse(text.as_bytes(), Path::new("")).unwrap();
    let known = kubeconfig.authenticate(&Env::simulated(1), &target("https://a.b")).await.unwrap().config;
    let headers = known.credentials.unwrap().headers().unwrap();
    let all =
        |name: &str| headers.get_all(name).iter().map(|v| v.to_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(
        (all("authorization"), all("impersonate-user")),
        (vec!["Bearer t".into()], vec!["jane".into()])
    );
    assert_eq!(
        (all("impersonate-uid"), all("impersonate-group")),
        (vec!["u".into()], vec!["a".into(), "b".into()])
    );
    assert_eq!(all("impersonate-extra-x.io%2fy"), ["z"]);
}

/// Writes down how often it ran and what it was told, and prints a token.
const PLUGIN: &str = r#"#!/bin/sh
echo "$KUBERNETES_EXEC_INFO" >> "$1"
count=$(wc -l < "$1")
[ -n "$2" ] && [ "$count" -gt "$2" ] && { echo no more >&2; exit 3; }
echo "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"t$count\"}}"
"#;

fn plugin(folder: &Path, more: &str) -> Kubeconfig {
    use std::os::unix::fs::PermissionsExt as _;
    let script = folder.join("plugin");
    std::fs::write(&script, PLUGIN).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = format!(
        "users: [{{name: '*', user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: ./plugin, interactiveMode: Never, {more}}}}}}}]"
    );
    Kubeconfig::parse(text.as_bytes(), folder).unwrap()
}

#[tokio::test]
async fn a_plugin_gives_the_token_and_is_asked_again_when_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    let kubeconfig = plugin(folder.path(), &format!("args: [{}, '2']", told.display()));
    let env = Env::machine();
    let config = target("https://a.b");
    let ask = async || kubeconfig.authenticate(&env, &config).await;
    let token =
        |known: &Authenticated| known.config.credentials.as_ref().unwrap().authorization.clone().unwrap();
    assert_eq!(token(&ask().await.unwrap()), "Bearer t1");
    let known = ask().await.unwrap();
    assert_eq!(token(&known), "Bearer t1", "it is kept");
    known.refused();
    let known = ask().await.unwrap();
    assert_eq!(token(&known), "Bearer t2");
    assert!(!std::fs::read_to_string(&told).unwrap().contains("cluster"));
    known.refused();
    let error = ask().await.err().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "getting credentials: exec: executable {}/./plugin failed with exit code 3: no more",
            folder.path().display()
        )
    );
}

#[tokio::test]
async fn a_plugin_may_be_told_whom_its_credentials_are_for() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    let kubeconfig =
        plugin(folder.path(), &format!("args: [{}, ''], provideClusterInfo: true", told.display()));
    let env = Env::machine();
    for config in [target("https://a.b/x"), service("ns", "hook", 8443), target("https://a.b/y")] {
        kubeconfig.authenticate(&env, &config).await.unwrap();
    }
    let told = std::fs::read_to_string(&told).unwrap();
    assert_eq!(told.lines().count(), 2, "{told}");
    assert!(told.contains(r#""cluster":{"server":"https://a.b"}"#), "{told}");
    assert!(told.contains(r#""tls-server-name":"hook.ns.svc""#), "{told}");
}
