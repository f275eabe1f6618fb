//! Kubeconfigs as tools write them, and broken ones with the message that says what is wrong.

use super::*;

fn no_files(path: PathBuf) -> Result<Vec<u8>, String> {
    Err(format!("no file {}", path.display()))
}

const WITH_DATA: &str = "
apiVersion: v1
kind: Config
preferences: {}
current-context: two
clusters:
- cluster:
    server: https://127.0.0.1:1
  name: first
- name: second
  cluster:
    certificate-authority-data: Q0EK
    server: https://127.0.0.1:6443/prefix
    tls-server-name: kubernetes
contexts:
- {name: one, context: {cluster: first, user: a}}
- context:
    cluster: second
    user: 'b'
    namespace: default
  name: two
users:
- name: a
  user: {}
- name: \"b\"   # the one in use
  user:
    client-certificate-data: Q0VSVAo=
    client-key-data: S0VZCg==
";

#[test]
fn current_context_is_followed() {
    let access = read(WITH_DATA, &mut no_files).unwrap();
    assert_eq!(
        access,
        Access {
            server: "https://127.0.0.1:6443/prefix".to_string(),
            tls_server_name: Some("kubernetes".to_string()),
            authority_pem: Some(b"CA\n".to_vec()),
            skip_verify: false,
            certificate_pem: Some(b"CERT\n".to_vec()),
            key_pem: Some(b"KEY\n".to_vec()),
            token: None,
        }
    );
}

#[test]
fn json_is_read_too() {
    let text = r#"{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],
        "clusters":[{"name":"k","cluster":{"server":"https://[::1]:6443","insecure-skip-tls-verify":true}}],
        "users":[{"name":"u","user":{"token":"abc"}}]}"#;
    let access = read(text, &mut no_files).unwrap();
    assert!(access.skip_verify);
    assert_eq!(access.token.as_deref(), Some("abc"));
}

#[test]
fn files_are_read_where_the_kubeconfig_names_them() {
    let text = "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],
        clusters: [{name: k, cluster: {server: 'https://x', certificate-authority: pki/ca.crt}}],
        users: [{name: u, user: {client-certificate: a.crt, client-key: a.key, tokenFile: t}}]}";
    let mut asked = Vec::new();
    let access = read(text, &mut |path| {
        asked.push(path.display().to_string());
        Ok(format!("{}\n", path.display()).into_bytes())
    })
    .unwrap();
    assert_eq!(access.authority_pem.as_deref(), Some(b"pki/ca.crt\n".as_slice()));
    assert_eq!(access.token.as_deref(), Some("t"));
    assert_eq!(asked, ["pki/ca.crt", "a.crt", "a.key", "t"]);
}

#[test]
fn what_is_wrong_is_said() {
    let deep = "[".repeat(100);
    for (text, expected) in [
        ("", "empty"),
        ("a: [", "neither YAML nor JSON"),
        (deep.as_str(), "deeper"),
        ("a: &x 1\nb: *x\n", "alias"),
        ("current-context: ''\n", "no current-context"),
        ("current-context: c\n", "no list of contexts"),
        ("{current-context: c, contexts: [{name: d, context: {}}]}", "\"c\""),
        (&WITH_DATA.replace("Q0EK", "Q0*"), "certificate-authority-data is not base64"),
        (&WITH_DATA.replace("client-key-data: S0VZCg==", ""), "not both"),
        (&WITH_DATA.replace("client-key-data: S0VZCg==", "exec: {command: x}"), "plugin (exec)"),
    ] {
        let problem = read(text, &mut no_files).unwrap_err();
        assert!(problem.contains(expected), "{text:?} gave {problem:?}");
    }
}
