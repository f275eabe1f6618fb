//! Kubeconfigs of cloud providers and companies: credentials from an exec plugin, a server behind a proxy.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use auth::Tokens;
use client::resources::NAMESPACES;
use client::{Client, ListOptions};
use client_http::{Config, Credentials, HttpClient, Plugin, Proxy};
use env::Env;
use object::Status;
use testkit::{Served, TestCluster};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const V1: &str = "client.authentication.k8s.io/v1";

struct World {
    cluster: TestCluster,
    served: Served,
    folder: tempfile::TempDir,
}

impl World {
    async fn new() -> World {
        let tokens = "good,jane,1,system:masters\nalso-good,joe,2,system:masters\n";
        let tokens = Tokens::parse(Path::new("tokens"), tokens.as_bytes()).unwrap();
        let mut cluster = TestCluster::with_tokens(Env::machine(), Some(tokens)).await;
        let served = cluster.serve().await.unwrap();
        World { cluster, served, folder: tempfile::tempdir().unwrap() }
    }

    /// The server, without credentials.
    fn config(&self) -> Config {
        let config = Config::from_kubeconfig_text(&self.served.kubeconfig).unwrap();
        Config { certificate_pem: None, ..config }
    }

    /// A client whose credentials come from a shell script; `$0` counts its runs in `runs`.
    fn plugin(&self, script: &str) -> (HttpClient, Plugin) {
        let path = self.folder.path().join("plugin.sh");
        let runs = self.folder.path().join("runs");
        std::fs::write(&path, format!("echo run >> {}\n{script}\n", runs.display())).unwrap();
        let plugin = Plugin {
            api_version: V1.to_owned(),
            // Not the script itself: a file that was just written may be busy.
            command: "/bin/sh".to_owned(),
            args: vec![path.to_string_lossy().into_owned(), "an argument".to_owned()],
            env: vec![("EXTRA".to_owned(), "from the kubeconfig".to_owned())],
            ..Plugin::default()
        };
        (self.client(Config { credentials: Credentials::Plugin(plugin.clone()), ..self.config() }), plugin)
    }

    fn client(&self, config: Config) -> HttpClient {
        HttpClient::new(self.cluster.env().clone(), self.cluster.catalog().clone(), &config).unwrap()
    }

    fn runs(&self) -> usize {
        let text = std::fs::read_to_string(self.folder.path().join("runs")).unwrap_or_default();
        text.lines().count()
    }
}

async fn ask(client: &HttpClient) -> Result<usize, Status> {
    let list = client.list(NAMESPACES.everywhere(), ListOptions::default()).await?;
    Ok(list.items.len())
}

fn token(token: &str, more: &str) -> String {
    format!(r#"echo '{{"kind":"ExecCredential","apiVersion":"{V1}","status":{{"token":"{token}"{more}}}}}'"#)
}

#[tokio::test]
async fn an_exec_plugins_token_is_cached_until_it_expires_or_is_refused() {
    let world = World::new().await;
    let (client, _) = world.plugin(&token("good", ""));
    for _ in 0..3 {
        assert!(ask(&client).await.unwrap() > 0);
    }
    assert_eq!(world.runs(), 1, "without an end it is good for ever");

    // The first token is refused, so the plugin is asked once more, and what it gives then is taken.
    let twice = format!(
        "if [ $(wc -l < {}) -gt 2 ]; then {}; else {}; fi",
        world.folder.path().join("runs").display(),
        token("good", ""),
        token("stale", "")
    );
    let (client, _) = world.plugin(&twice);
    assert!(ask(&client).await.unwrap() > 0);
    assert_eq!(world.runs(), 3);

    let (client, _) = world.plugin(&token("good", r#","expirationTimestamp":"2020-01-01T00:00:00Z""#));
    // The connection asks, too: a plugin may give a certificate.
    assert!(ask(&client).await.unwrap() > 0);
    let before = world.runs();
    assert!(ask(&client).await.unwrap() > 0);
    assert_eq!(world.runs(), before + 1, "what has ended is not used again");

    let (client, _) = world.plugin(&token("stale", ""));
    assert_eq!(ask(&client).await.unwrap_err().code, 401, "asked again once, not for ever");
    assert_eq!(world.runs(), before + 3);
    world.cluster.shutdown().await;
}

#[tokio::test]
async fn a_token_refused_to_many_requests_is_replaced_once() {
    let world = World::new().await;
    let runs = world.folder.path().join("runs");
    let stale_first = format!(
        "if [ $(wc -l < {}) -gt 1 ]; then {}; else {}; fi",
        runs.display(),
        token("good", ""),
        token("stale", "")
    );
    let (client, _) = world.plugin(&stale_first);
    let answers = futures_util::future::join_all((0..100).map(|_| ask(&client))).await;
    for answer in answers {
        assert!(answer.unwrap() > 0);
    }
    assert_eq!(world.runs(), 2);
    world.cluster.shutdown().await;
}

#[tokio::test]
async fn an_exec_plugin_gets_its_exec_info() {
    let world = World::new().await;
    let said = world.folder.path().join("said");
    let tell = format!("printf '%s|%s|%s' \"$1\" \"$EXTRA\" \"$KUBERNETES_EXEC_INFO\" > {}", said.display());
    let (client, plugin) = world.plugin(&format!("{tell}\n{}", token("good", "")));
    ask(&client).await.unwrap();
    let info = format!(r#"{{"kind":"ExecCredential","apiVersion":"{V1}","spec":{{"interactive":false}}}}"#);
    assert_eq!(std::fs::read_to_string(&said).unwrap(), format!("an argument|from the kubeconfig|{info}"));
    assert!(!format!("{plugin:?}").contains("argument"), "arguments are not for logs");
    world.cluster.shutdown().await;
}

#[tokio::test]
async fn an_exec_plugins_certificate_is_used_until_it_returns_another() {
    let world = World::new().await;
    let now = world.cluster.env().now_seconds();
    let issue = |name: &str, group: &str| {
        world.served.pki.issue_client(name, &[group.to_owned()], 3600, now).unwrap()
    };
    let given = world.folder.path().join("given");
    let give = |identity: &auth::pki::Identity| {
        let line = |pem: String| pem.replace('\n', "\\n");
        let (certificate, key) = (line(identity.certificate_pem()), line(identity.key_pem()));
        // In the past: the plugin is asked with every request.
        let text = format!(
            r#"{{"kind":"ExecCredential","apiVersion":"{V1}","status":{{"clientCertificateData":"{certificate}","clientKeyData":"{key}","expirationTimestamp":"2020-01-01T00:00:00Z"}}}}"#
        );
        std::fs::write(&given, text).unwrap();
    };
    let (client, _) = world.plugin(&format!("cat {}", given.display()));
    give(&issue("jane", "system:masters"));
    assert!(ask(&client).await.unwrap() > 0);
    give(&issue("joe", "nobodies"));
    let refused = ask(&client).await.unwrap_err();
    assert!(refused.code == 403 && refused.message.contains("\"joe\""), "{}", refused.message);
    give(&issue("jane", "system:masters"));
    assert!(ask(&client).await.unwrap() > 0);
    world.cluster.shutdown().await;
}

#[tokio::test]
async fn a_failing_exec_plugin_is_reported_with_its_install_hint() {
    let world = World::new().await;
    let cases = [
        ("echo 'log in first' >&2; exit 3", "failed with exit code 3: log in first"),
        ("echo nonsense", "decoding stdout"),
        (r#"echo '{"kind":"ExecCredential","apiVersion":"v1"}'"#, "plugin returned version v1"),
        (
            r#"echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"}'"#,
            "exec plugin didn't return a status field",
        ),
        (
            r#"echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{}}'"#,
            "exec plugin didn't return a token or cert/key pair",
        ),
        ("head -c 2000000 /dev/zero", "printed more than"),
    ];
    for (script, part) in cases {
        let refused = ask(&world.plugin(script).0).await.unwrap_err();
        assert_eq!(refused.code, 503);
        assert!(refused.message.contains(part), "{part}: {}", refused.message);
    }
    let plugin = Plugin {
        command: "/no/such/plugin".to_owned(),
        install_hint: "install it with: apt install plugin".to_owned(),
        ..world.plugin("true").1
    };
    let client = world.client(Config { credentials: Credentials::Plugin(plugin), ..world.config() });
    let refused = ask(&client).await.unwrap_err().message;
    assert!(refused.contains("/no/such/plugin not found") && refused.contains("apt install"), "{refused}");
    world.cluster.shutdown().await;
}

/// A proxy that leads where it is asked to, if it is asked as it wants to be. Gives its address.
async fn proxy(env: &Env, passed: Arc<AtomicUsize>, socks: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let own = env.clone();
    drop(env.spawn("proxy", async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let passed = passed.clone();
            drop(own.spawn("proxied", async move {
                let target =
                    if socks { socks_target(&mut client).await } else { connect_target(&mut client).await };
                let Some(target) = target else { return };
                let mut server = TcpStream::connect(target).await.unwrap();
                passed.fetch_add(1, Ordering::Relaxed);
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }));
        }
    }));
    address
}

async fn connect_target(client: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    // me:secret
    if !head.contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n") {
        client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await.ok()?;
        return None;
    }
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.ok()?;
    Some(head.strip_prefix("CONNECT ")?.split(' ').next()?.to_owned())
}

async fn socks_target(client: &mut TcpStream) -> Option<String> {
    let mut hello = [0; 3];
    client.read_exact(&mut hello).await.ok()?;
    assert_eq!(hello, [5, 1, 0]);
    client.write_all(&[5, 0]).await.ok()?;
    let mut request = [0; 10];
    client.read_exact(&mut request).await.ok()?;
    assert_eq!(request[..4], [5, 1, 0, 1], "an address of IPv4");
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.ok()?;
    let [a, b, c, d] = [request[4], request[5], request[6], request[7]];
    Some(format!("{a}.{b}.{c}.{d}:{}", u16::from_be_bytes([request[8], request[9]])))
}

#[tokio::test]
async fn a_server_behind_a_proxy_is_reached_through_it() {
    let world = World::new().await;
    let passed = Arc::new(AtomicUsize::new(0));
    let through = |url: String| {
        let proxy = Some(Proxy::parse(&url).unwrap());
        let credentials = Credentials::Token("good".to_owned());
        world.client(Config { proxy, credentials, ..world.config() })
    };
    let env = world.cluster.env();
    let http = proxy(env, passed.clone(), false).await;
    let client = through(format!("http://me:secret@{http}"));
    assert!(ask(&client).await.unwrap() > 0 && ask(&client).await.unwrap() > 0);
    assert_eq!(passed.load(Ordering::Relaxed), 1, "one connection, kept");
    let refused = ask(&through(format!("http://{http}"))).await.unwrap_err();
    assert_eq!(refused.code, 503);
    assert!(refused.message.contains("it wants a user and a password"), "{}", refused.message);
    let socks = proxy(env, passed.clone(), true).await;
    assert!(ask(&through(format!("socks5://{socks}"))).await.unwrap() > 0);
    assert_eq!(passed.load(Ordering::Relaxed), 2);
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert_eq!(ask(&through(format!("http://{nobody}"))).await.unwrap_err().code, 503);
    world.cluster.shutdown().await;
}
