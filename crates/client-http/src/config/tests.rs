use std::path::Path;

use super::*;

fn text(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         contexts:\n- name: here\n  context: {{cluster: c, user: u, namespace: mine}}\n\
         clusters:\n- name: c\n  cluster: {cluster}\nusers:\n- name: u\n  user: {user}\n"
    )
}

fn refusal(text: &str) -> String {
    match Config::from_kubeconfig_text(text) {
        Ok(_) => panic!("taken: {text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_current_context_is_read_with_its_data() {
    let config = Config::from_kubeconfig_text(&text(
        "{server: 'https://h:1', certificate-authority-data: Y2E=, tls-server-name: other}",
        "{client-certificate-data: Y2VydA==, client-key-data: a2V5, as: jane, as-groups: [a, b], as-user-extra: {k: [v]}}",
    ))
    .unwrap();
    assert_eq!(config.server, "https://h:1");
    assert_eq!(config.tls_server_name.as_deref(), Some("other"));
    assert_eq!(config.authority_pem.as_deref(), Some(&b"ca"[..]));
    assert_eq!(config.certificate_pem, Some((b"cert".to_vec(), b"key".to_vec())));
    assert_eq!(config.namespace, "mine");
    let who = config.impersonate.unwrap();
    assert_eq!((who.user.as_str(), who.groups.len(), who.extra.len()), ("jane", 2, 1));
}

#[test]
fn relative_paths_are_relative_to_the_kubeconfig() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), "authority").unwrap();
    std::fs::write(folder.path().join("token"), "secret\n").unwrap();
    let path = folder.path().join("config");
    std::fs::write(
        &path,
        text("{server: 'https://h', certificate-authority: ca.pem}", "{tokenFile: token, token: stale}"),
    )
    .unwrap();
    let config = Config::from_kubeconfig(&path).unwrap();
    assert_eq!(config.authority_pem.as_deref(), Some(&b"authority"[..]));
    assert_eq!(config.credentials, Credentials::TokenFile(folder.path().join("token")));
}

/// `KUBECONFIG` of files in a folder, and what is made of them.
fn infer(folder: &Path, names: &[&str]) -> Result<Config, String> {
    let list = std::env::join_paths(names.iter().map(|name| folder.join(name))).unwrap();
    let nowhere = || Err(ConfigError::NotInCluster("no pod".to_owned()));
    infer_from(&list, nowhere).map_err(|error| error.to_string())
}

#[test]
fn several_kubeconfigs_are_merged_and_the_first_value_wins() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    for (name, text) in [
        ("empty", ""),
        // No cluster of its own, and a user of whom nothing is taken from later files.
        (
            "one",
            "current-context: here\ncontexts:\n- name: here\n  context: {cluster: c, user: u, namespace: first}\n\
             users:\n- name: u\n  user: {tokenFile: token}\n",
        ),
        (
            "two/config",
            &text("{server: 'https://second', certificate-authority: ca.pem}", "{token: second, as: jane}"),
        ),
        ("three", &text("{server: 'https://third'}", "{token: third}")),
    ] {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    std::fs::write(folder.join("token"), "t").unwrap();
    std::fs::write(folder.join("two/ca.pem"), "authority").unwrap();
    let config = infer(folder, &["missing", "empty", "one", "two/config", "one", "three"]).unwrap();
    assert_eq!((config.server.as_str(), config.namespace.as_str()), ("https://second", "first"));
    // Each file's relative names are beside it.
    assert_eq!(config.authority_pem.as_deref(), Some(&b"authority"[..]));
    assert_eq!(config.credentials, Credentials::TokenFile(folder.join("token")));
    assert!(config.impersonate.is_none(), "an entry counts whole");
    assert_eq!(infer(folder, &["three", "two/config"]).unwrap().server, "https://third");
}

#[test]
fn invalid_kubeconfigs_are_named_and_without_one_the_pod_is_used() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    std::fs::write(folder.join("one"), "current-context: here\n").unwrap();
    std::fs::write(folder.join("two"), "contexts: []\n").unwrap();
    std::fs::write(folder.join("broken"), "a: [").unwrap();
    let error = infer(folder, &["one", "two"]).err().unwrap();
    assert!(
        error.contains("/one:") && error.contains("/two cannot be used: it names the context"),
        "{error}"
    );
    let error = infer(folder, &["one", "broken"]).err().unwrap();
    assert!(error.contains("/broken cannot be used: it is neither YAML nor JSON"), "{error}");
    let error = infer(folder, &["missing", "other"]).err().unwrap();
    assert!(error.contains("/missing, or run in a pod (") && error.contains("no pod"), "{error}");
    let list = folder.join("missing").into_os_string();
    let pod = || Ok(Config { server: "https://pod".to_owned(), ..Config::default() });
    assert_eq!(infer_from(&list, pod).unwrap().server, "https://pod");
}

#[test]
fn a_relative_plugin_path_is_relative_to_the_kubeconfig() {
    let read = |exec: &str| {
        let user = format!("{{exec: {exec}}}");
        let text = text("{server: 'https://h', certificate-authority-data: YQ==}", &user);
        match kubeconfig::read(text.as_bytes(), Path::new("/etc/kube")).unwrap().credentials {
            Credentials::Plugin(plugin) => plugin,
            other => panic!("{other:?}"),
        }
    };
    let beta = "apiVersion: client.authentication.k8s.io/v1beta1";
    let plugin = read(&format!("{{{beta}, command: ./login, args: [a, b], env: [{{name: X, value: why}}]}}"));
    assert_eq!(plugin.command, "/etc/kube/./login");
    assert_eq!(plugin.args, ["a", "b"]);
    assert_eq!(plugin.env, [("X".to_owned(), "why".to_owned())]);
    assert!(plugin.cluster.is_none());
    let plugin = read(&format!("{{{beta}, command: login, provideClusterInfo: true}}"));
    assert_eq!(plugin.command, "login");
    let cluster = plugin.cluster.unwrap();
    assert_eq!(cluster.str_at(&["server"]), Some("https://h"));
    assert_eq!(cluster.str_at(&["certificate-authority-data"]), Some("YQ=="));
}

#[test]
fn unsupported_settings_are_refused_with_a_hint() {
    let server = "{server: 'https://h'}";
    for (text, part) in [
        (text(server, "{exec: {command: x}}"), "exec plugin: invalid apiVersion"),
        (
            text(server, "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1}}"),
            "interactiveMode must be specified for x",
        ),
        (
            text(
                server,
                "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always}}",
            ),
            "cannot support interactive mode",
        ),
        (text(server, "{auth-provider: {name: gcp}}"), "gke-gcloud-auth-plugin"),
        (text(server, "{client-key-data: a2V5}"), "but not both"),
        (text(server, "{as-groups: [a]}"), "add `as: NAME`"),
        (text(server, "{tokenFile: /no/such/file}"), "cannot read /no/such/file"),
        (text("{}", "{}"), "its cluster has no server"),
        (text("{server: 'https://h', certificate-authority-data: '*'}", "{}"), "is not base64"),
        (text("{server: 'https://h', proxy-url: 'ftp://p'}", "{}"), "proxy-url"),
        ("kind: Config\n".to_owned(), "no current-context"),
        ("current-context: x\n".to_owned(), "no list of contexts"),
        ("a: [".to_owned(), "neither YAML nor JSON"),
    ] {
        assert!(refusal(&text).contains(part), "{}: {part}", refusal(&text));
    }
    assert!(Config::from_kubeconfig(Path::new("/no/such/config")).is_err());
}

#[test]
fn a_pod_finds_its_cluster_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("token", "t"), ("ca.crt", "ca"), ("namespace", "mine\n")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let variable = |name: &str| match name {
        "KUBERNETES_SERVICE_HOST" => Some("fd00::1".to_owned()),
        "KUBERNETES_SERVICE_PORT" => Some("443".to_owned()),
        _ => None,
    };
    let config = in_cluster::read(&variable, folder.path()).unwrap();
    assert_eq!((config.server.as_str(), config.namespace.as_str()), ("https://[fd00::1]:443", "mine"));
    assert_eq!(config.credentials, Credentials::TokenFile(folder.path().join("token")));
    let nowhere = in_cluster::read(&|_| None, folder.path()).err().unwrap();
    assert!(nowhere.to_string().contains("KUBERNETES_SERVICE_HOST is not set"));
}
