use std::collections::BTreeSet;
use std::fs;
use std::slice::from_ref;

use http::StatusCode;

use super::*;
use crate::keyring::{Login, SecretSource};
use crate::store::PulledBy;
use crate::testing::registry::{Auth, Registry};
use crate::testing::{Tar, folder, root, zstd};
use crate::unpack::Limits;

struct Case {
    env: Env,
    registry: Registry,
    home: tempfile::TempDir,
    store: Store,
    puller: Puller,
}

#[allow(clippy::disallowed_methods, reason = "a test's own threads, which end with their jobs")]
fn threads() -> Blocking {
    Arc::new(|job| drop(std::thread::spawn(job)))
}

impl Case {
    async fn new() -> Case {
        let env = Env::machine();
        let home = folder();
        let store = Store::open(&home.path().join("store"), &env, Limits::default()).unwrap();
        let options = PullOptions {
            certs: vec![home.path().join("certs.d")],
            platform: Platform::current(),
            parallel: 2,
        };
        let puller = Puller::new(&store, &env, threads(), options);
        Case { registry: Registry::start(&env).await, env, home, store, puller }
    }

    fn reference(&self, repository: &str) -> Reference {
        Reference::parse(&self.registry.name(repository)).unwrap()
    }

    async fn pull_with(&self, repository: &str, credentials: &[Credential]) -> Result<Image, PullError> {
        let mut pull = self.puller.pull(&self.reference(repository), credentials.to_vec());
        self.env.timeout(std::time::Duration::from_secs(60), pull.wait()).await.expect("a pull ends")
    }

    async fn pull(&self, repository: &str) -> Result<Image, PullError> {
        self.pull_with(repository, &[]).await
    }

    fn read(&self, image: &Image, path: &str) -> Option<Vec<u8>> {
        self.store.layers(image).iter().find_map(|layer| fs::read(layer.join(path)).ok())
    }

    /// Nothing is left of a pull that failed.
    fn check_clean(&self) {
        let names = |folder: &str| -> BTreeSet<_> {
            fs::read_dir(self.home.path().join("store").join(folder))
                .unwrap()
                .map(|e| e.unwrap().file_name())
                .collect()
        };
        assert!(names("tmp").is_empty(), "{:?}", names("tmp"));
        assert!(self.store.list().unwrap().is_empty());
    }
}

fn credential(secret: &str, user: &str, password: &str) -> Credential {
    Credential {
        login: Login { username: user.into(), password: password.into(), ..Login::default() },
        source: Some(SecretSource { namespace: "ns".into(), name: secret.into(), uid: "u".into() }),
    }
}

fn layers() -> (Vec<u8>, Vec<u8>) {
    let noise: Vec<u8> = (0..200_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    (Tar::default().file("base", &noise).bytes(), Tar::default().file("top", b"top").bytes())
}

#[tokio::test]
async fn an_image_is_pulled_by_tag_and_by_digest_and_only_once() {
    if !root("an_image_is_pulled_by_tag_and_by_digest_and_only_once") {
        return;
    }
    let case = Case::new().await;
    let (base, top) = layers();
    case.registry.state.lock().auth = Auth::Token("me", "pw");
    // The same layer twice, as builders do with empty ones.
    let digest = case.registry.put("app", "1", &[&base, &top, &top]);
    let image = case.pull("app:1").await.unwrap();
    assert_eq!(case.read(&image, "top").as_deref(), Some(&b"top"[..]));
    assert_eq!(image.config.entrypoint, ["app:1"]);
    assert_eq!(image.names, BTreeSet::from([case.registry.name("app:1")]));
    assert_eq!(image.digests, BTreeSet::from([case.registry.name(&format!("app@{digest}"))]));
    let blobs = case.registry.asked("/blobs/");
    assert!(blobs >= 3, "{blobs}");
    // Again: what the tag means is asked, and nothing else.
    assert_eq!(case.pull("app:1").await.unwrap().id, image.id);
    assert_eq!(case.pull(&format!("app:1@{digest}")).await.unwrap().id, image.id);
    assert_eq!(case.registry.asked("/blobs/"), blobs);
    // Another image shares what is here.
    case.registry.put_with("other", "1", &[&base, &Tar::default().file("new", b"new").bytes()], zstd);
    case.registry.state.lock().seen.clear();
    let other = case.pull("other:1").await.unwrap();
    assert_eq!(case.read(&other, "new").as_deref(), Some(&b"new"[..]));
    assert_eq!(case.registry.asked("/blobs/"), 2, "its config and its own layer");
    // The archives of layers do not stay.
    assert_eq!(fs::read_dir(case.home.path().join("store/blobs/sha256")).unwrap().count(), 4);
}

#[tokio::test]
async fn credentials_are_tried_in_order_and_remembered() {
    if !root("credentials_are_tried_in_order_and_remembered") {
        return;
    }
    let case = Case::new().await;
    let (base, _) = layers();
    case.registry.put("private/app", "1", &[&base]);
    let (wrong, right) = (credential("wrong", "me", "no"), credential("right", "me", "pw"));
    for auth in [Auth::Token("me", "pw"), Auth::Basic("me", "pw")] {
        case.registry.state.lock().auth = auth;
        for credentials in [&[][..], from_ref(&wrong), &[wrong.clone(), wrong.clone()]] {
            let error = case.pull_with("private/app:1", credentials).await.unwrap_err().to_string();
            assert!(
                error.contains("pull access denied, repository does not exist or may require authorization"),
                "{error}"
            );
            assert_eq!(error.starts_with('['), credentials.len() == 2, "{error}");
        }
        let image = case.pull_with("private/app:1", &[wrong.clone(), right.clone()]).await.unwrap();
        let by = image.pulled.unwrap().into_values().next().unwrap();
        assert_eq!(by, PulledBy::from_credential(Some(&right)), "the one that opened it");
    }
    // Who proves nothing anew is not told that the image is here.
    assert!(case.pull("private/app:1").await.is_err());
}

#[tokio::test]
async fn identity_tokens_are_exchanged() {
    if !root("identity_tokens_are_exchanged") {
        return;
    }
    let case = Case::new().await;
    case.registry.put("app", "1", &[&layers().1]);
    case.registry.state.lock().auth = Auth::Identity("id&t=ken");
    let with = |token: &str| Credential {
        login: Login { identity_token: token.into(), ..Login::default() },
        source: None,
    };
    assert!(case.pull_with("app:1", &[with("other")]).await.is_err());
    case.pull_with("app:1", &[with("id&t=ken")]).await.unwrap();
}

#[tokio::test]
async fn a_broken_download_goes_on_where_it_broke() {
    if !root("a_broken_download_goes_on_where_it_broke") {
        return;
    }
    for ignores_ranges in [false, true] {
        let case = Case::new().await;
        let (base, _) = layers();
        case.registry.put_with("app", "1", &[&base], <[u8]>::to_vec);
        {
            let mut state = case.registry.state.lock();
            state.breaks = (60_000, 3);
            state.ignores_ranges = ignores_ranges;
        }
        let image = case.pull("app:1").await.unwrap();
        assert_eq!(case.read(&image, "base").unwrap().len(), 200_000);
        let state = case.registry.state.lock();
        let ranges: Vec<_> = state.seen.iter().filter_map(|seen| seen.range.clone()).collect();
        // The first of the three was the config's, which had come whole by then.
        let expected =
            if ignores_ranges { ["bytes=60000-", "bytes=60000-"] } else { ["bytes=60000-", "bytes=120000-"] };
        assert_eq!(ranges, expected);
    }
}

#[tokio::test]
async fn a_redirect_is_followed_without_our_credentials() {
    if !root("a_redirect_is_followed_without_our_credentials") {
        return;
    }
    let case = Case::new().await;
    let elsewhere = Registry::start(&case.env).await;
    let (base, _) = layers();
    case.registry.put("private/app", "1", &[&base]);
    elsewhere.put("cdn", "1", &[&base]);
    {
        let mut state = case.registry.state.lock();
        state.auth = Auth::Token("me", "pw");
        state.redirect = Some(format!("http://{}/v2/cdn/blobs", elsewhere.address));
        let blobs = state.blobs.clone();
        elsewhere.state.lock().blobs.extend(blobs);
    }
    case.pull_with("private/app:1", &[credential("s", "me", "pw")]).await.unwrap();
    let state = elsewhere.state.lock();
    assert_eq!(state.seen.len(), 2, "config and layer");
    assert!(state.seen.iter().all(|seen| seen.authorization.is_none()));
}

#[tokio::test]
async fn the_image_of_this_platform_is_pulled() {
    if !root("the_image_of_this_platform_is_pulled") {
        return;
    }
    let case = Case::new().await;
    let (base, top) = layers();
    let mine = Platform::current().architecture;
    let (right, wrong) =
        (case.registry.put("app", "right", &[&top]), case.registry.put("app", "wrong", &[&base]));
    let index = case.registry.put_index(
        "app",
        "1",
        &[("windows", &mine, &wrong), ("linux", "s390x", &wrong), ("linux", &mine, &right)],
    );
    let image = case.pull("app:1").await.unwrap();
    assert!(case.read(&image, "top").is_some() && case.read(&image, "base").is_none());
    // Known by the digest of the index, as the tag means that.
    assert_eq!(image.digests, BTreeSet::from([case.registry.name(&format!("app@{index}"))]));
    case.registry.put_index("app", "2", &[("windows", &mine, &wrong), ("linux", "s390x", &wrong)]);
    let error = case.pull("app:2").await.unwrap_err().to_string();
    assert!(error.ends_with("no match for platform in manifest: not found"), "{error}");
}

#[tokio::test]
async fn content_that_is_not_what_it_should_be_is_refused() {
    if !root("content_that_is_not_what_it_should_be_is_refused") {
        return;
    }
    for what in [
        "other bytes",
        "more bytes",
        "fewer bytes",
        "missing",
        "a bad layer",
        "a wrong diff id",
        "a broken manifest",
        "another manifest",
    ] {
        let case = Case::new().await;
        let (base, top) = layers();
        let bad = Tar::default().file("../../escaped", b"x").bytes();
        let layer = if what == "a bad layer" { &bad } else { &base };
        let digest = case.registry.put("app", "1", &[layer]);
        let mut name = "app:1".to_owned();
        {
            let mut state = case.registry.state.lock();
            let manifest = state.manifests[&("app".to_owned(), "1".to_owned())].1.clone();
            let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
            let layer: Digest = manifest["layers"][0]["digest"].as_str().unwrap().parse().unwrap();
            let blob = state.blobs.get_mut(&layer).unwrap();
            match what {
                "other bytes" => blob[100] ^= 1,
                "more bytes" => blob.push(0),
                "fewer bytes" => drop(blob.pop()),
                "missing" => drop(state.blobs.remove(&layer)),
                "a wrong diff id" => {
                    // The config is whole, the layer too, but they do not belong together.
                    let config = crate::testing::config(&[&top], "x");
                    let packed = vec![crate::testing::gzip(&base)];
                    let (config_descriptor, layers) = crate::testing::registry::describe(&config, &packed);
                    let manifest = serde_json::json!({"schemaVersion": 2, "config": config_descriptor, "layers": layers});
                    state.blobs.insert(Digest::of(&config), config);
                    let text = serde_json::to_vec(&manifest).unwrap();
                    state.manifests.insert(("app".into(), "1".into()), (manifest::OCI_MANIFEST.into(), text));
                }
                "a broken manifest" => {
                    state
                        .manifests
                        .insert(("app".into(), "1".into()), (manifest::OCI_MANIFEST.into(), b"{".to_vec()));
                }
                "another manifest" => {
                    name = format!("app@{digest}");
                    state.manifests.insert(
                        ("app".into(), digest.to_string()),
                        (manifest::OCI_MANIFEST.into(), b"{}".to_vec()),
                    );
                }
                _ => {}
            }
        }
        let error = case.pull(&name).await.unwrap_err();
        assert!(error.to_string().starts_with("failed to pull and unpack image"), "{what}: {error}");
        case.check_clean();
        assert!(!case.home.path().join("store/escaped").exists());
    }
}

#[tokio::test]
async fn many_who_wait_are_one_pull() {
    if !root("many_who_wait_are_one_pull") {
        return;
    }
    let case = Case::new().await;
    case.registry.put("app", "1", &[&layers().0]);
    let mut pulls: Vec<Pull> = (0..20).map(|_| case.puller.pull(&case.reference("app:1"), vec![])).collect();
    // With other credentials it is another pull: they may be allowed something else.
    let mut other = case.puller.pull(&case.reference("app:1"), vec![credential("s", "u", "p")]);
    for pull in &mut pulls {
        pull.wait().await.unwrap();
        let progress = pull.progress();
        assert_eq!((progress.layers, progress.layers_done), (1, 1));
        assert_eq!(progress.bytes, progress.bytes_done);
    }
    other.wait().await.unwrap();
    assert_eq!(case.registry.asked("/manifests/"), 2);
}

#[tokio::test]
async fn pulls_wait_for_their_turn() {
    if !root("pulls_wait_for_their_turn") {
        return;
    }
    let case = Case::new().await;
    case.registry.put("app", "1", &[&layers().1]);
    // Two registries that say nothing take both turns.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stuck = |name: &str| Reference::parse(&format!("{}/{name}", silent.local_addr().unwrap())).unwrap();
    let mut stuck = [case.puller.pull(&stuck("a"), vec![]), case.puller.pull(&stuck("b"), vec![])];
    let accepted = [silent.accept().await.unwrap(), silent.accept().await.unwrap()];
    let mut waiting = case.puller.pull(&case.reference("app:1"), vec![]);
    tokio::task::yield_now().await;
    assert_eq!(case.registry.state.lock().seen.len(), 0);
    // One of them is gone: the next has its turn.
    drop((accepted, silent));
    assert!(stuck[0].wait().await.is_err() && stuck[1].wait().await.is_err());
    waiting.wait().await.unwrap();
    assert!(!waiting.took().is_zero());
}

#[tokio::test]
async fn mirrors_are_asked_first_and_the_registry_last() {
    if !root("mirrors_are_asked_first_and_the_registry_last") {
        return;
    }
    let case = Case::new().await;
    let mirror = Registry::start(&case.env).await;
    let (base, top) = layers();
    mirror.put("mirrored", "1", &[&base]);
    case.registry.put("mirrored", "1", &[&base]);
    case.registry.put("own", "1", &[&top]);
    // A port nobody listens on.
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = case.home.path().join("certs.d/r.example");
    fs::create_dir_all(&folder).unwrap();
    let text = format!(
        "server = \"http://{}\"\n[host.\"http://{dead}\"]\n[host.\"http://{}\"]\ncapabilities = [\"pull\", \"resolve\"]\n",
        case.registry.address, mirror.address
    );
    fs::write(folder.join("hosts.toml"), text).unwrap();
    let pull = |name: &str| {
        let mut pull = case.puller.pull(&Reference::parse(name).unwrap(), vec![]);
        async move { pull.wait().await }
    };
    let image = pull("r.example/mirrored:1").await.unwrap();
    assert_eq!(image.names, BTreeSet::from(["r.example/mirrored:1".to_owned()]));
    assert_eq!(case.registry.state.lock().seen.len(), 0);
    assert!(mirror.asked("?ns=r%2Eexample") >= 3);
    pull("r.example/own:1").await.unwrap();
    assert!(case.registry.asked("/own/") >= 3);
    let error = pull("r.example/nowhere:1").await.unwrap_err().to_string();
    let image = "r.example/nowhere:1";
    // The dead mirror is what somebody can do something about.
    assert!(error.contains(&format!("failed to resolve reference {image:?}")), "{error}");
}

#[tokio::test]
async fn a_busy_registry_is_asked_again_and_a_missing_image_is_not() {
    if !root("a_busy_registry_is_asked_again_and_a_missing_image_is_not") {
        return;
    }
    let case = Case::new().await;
    case.registry.put("app", "1", &[&layers().1]);
    case.registry.state.lock().refuse = vec![
        ("/manifests/", StatusCode::SERVICE_UNAVAILABLE),
        ("/manifests/", StatusCode::TOO_MANY_REQUESTS),
        ("/blobs/", StatusCode::BAD_GATEWAY),
    ];
    case.pull("app:1").await.unwrap();
    case.registry.state.lock().seen.clear();
    let error = case.pull("none:1").await.unwrap_err().to_string();
    let image = case.registry.name("none:1");
    assert_eq!(
        error,
        format!(
            "failed to pull and unpack image {image:?}: failed to resolve reference {image:?}: {image}: not found"
        )
    );
    assert_eq!(case.registry.asked("/manifests/"), 1);
    case.registry.state.lock().refuse = vec![("/manifests/", StatusCode::INTERNAL_SERVER_ERROR); 10];
    let error = case.pull("app:1").await.unwrap_err().to_string();
    assert!(error.ends_with("500 Internal Server Error: toomany: slow down"), "{error}");
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_said_so() {
    let case = Case::new().await;
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let reference = Reference::parse(&format!("{dead}/app")).unwrap();
    let error = case.puller.pull(&reference, vec![]).wait().await.unwrap_err().to_string();
    assert!(error.ends_with(&format!("dial tcp {dead}: connect: connection refused")), "{error}");
    case.check_clean();
}

#[tokio::test]
async fn pulls_end_with_their_puller() {
    let case = Case::new().await;
    // A registry that takes the connection and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let reference = Reference::parse(&format!("{}/app", silent.local_addr().unwrap())).unwrap();
    let mut pull = case.puller.pull(&reference, vec![]);
    drop(case.puller);
    assert!(matches!(pull.wait().await, Err(PullError::Cancelled)));
}

/// A real registry, as Debian has it, on a port of its own choosing.
struct DockerRegistry {
    process: std::process::Child,
    address: String,
    /// Kept open: a program that cannot write its log dies.
    _log: std::io::BufReader<std::process::ChildStderr>,
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl DockerRegistry {
    /// Serves what lies in `folder`; nothing if the program is not installed.
    fn start(folder: &std::path::Path) -> Option<DockerRegistry> {
        use std::io::{BufRead as _, Read as _};
        let config = folder.join("config.yml");
        let text = format!(
            "version: 0.1\nlog: {{level: info, formatter: json}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '127.0.0.1:0'}}\n",
            folder.display()
        );
        fs::write(&config, text).unwrap();
        let process = std::process::Command::new("docker-registry")
            .arg("serve")
            .arg(&config)
            .stderr(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn();
        let mut process = process.ok()?;
        let mut log = std::io::BufReader::new(process.stderr.take().unwrap());
        let found = log.by_ref().lines().find_map(|line| {
            let line = line.ok()?;
            let at = line.split("listening on ").nth(1)?;
            Some(at.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect())
        });
        Some(DockerRegistry { process, address: found.expect("it says where it listens"), _log: log })
    }
}

/// Lays an image into the folder of a registry, as it keeps them itself.
fn lay(folder: &std::path::Path, repository: &str, tag: &str, layers: &[&[u8]]) -> Digest {
    let root = folder.join("docker/registry/v2");
    let write = |path: String, content: &[u8]| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let blob = |content: &[u8]| {
        let digest = Digest::of(content);
        write(format!("blobs/sha256/{}/{}/data", &digest.hex()[..2], digest.hex()), content);
        digest
    };
    let link = |path: String, digest: &Digest| {
        write(format!("repositories/{repository}/{path}/link"), digest.as_str().as_bytes());
    };
    let packed: Vec<Vec<u8>> = layers.iter().map(|layer| crate::testing::gzip(layer)).collect();
    let config = crate::testing::config(layers, "real");
    for content in packed.iter().chain([&config]) {
        let digest = blob(content);
        link(format!("_layers/sha256/{}", digest.hex()), &digest);
    }
    let (config, layers) = crate::testing::registry::describe(&config, &packed);
    let manifest = serde_json::json!({
        "schemaVersion": 2, "mediaType": manifest::OCI_MANIFEST, "config": config, "layers": layers,
    });
    let digest = blob(manifest.to_string().as_bytes());
    link(format!("_manifests/revisions/sha256/{}", digest.hex()), &digest);
    link(format!("_manifests/tags/{tag}/current"), &digest);
    link(format!("_manifests/tags/{tag}/index/sha256/{}", digest.hex()), &digest);
    digest
}

#[tokio::test]
async fn a_real_registry_is_pulled_from() {
    if !root("a_real_registry_is_pulled_from") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (base, top) = layers();
    let digest = lay(folder.path(), "me/app", "1", &[&base, &top]);
    let Some(registry) = DockerRegistry::start(folder.path()) else {
        return eprintln!("skipped: there is no docker-registry (apt-get install docker-registry)");
    };
    let case = Case::new().await;
    let pull = |name: String| {
        let mut pull = case.puller.pull(&Reference::parse(&name).unwrap(), vec![]);
        async move { pull.wait().await }
    };
    let image = pull(format!("{}/me/app:1", registry.address)).await.unwrap();
    assert_eq!(case.read(&image, "top").as_deref(), Some(&b"top"[..]));
    assert_eq!(case.read(&image, "base").map(|base| base.len()), Some(200_000));
    assert_eq!(pull(format!("{}/me/app@{digest}", registry.address)).await.unwrap().id, image.id);
    let missing = format!("{}/me/app:2", registry.address);
    let error = pull(missing.clone()).await.unwrap_err().to_string();
    assert!(error.ends_with(&format!("{missing}: not found")), "{error}");
}

#[tokio::test]
async fn a_registry_behind_tls_must_be_trusted() {
    if !root("a_registry_behind_tls_must_be_trusted") {
        return;
    }
    let case = Case::new().await;
    let registry = Registry::start_tls(&case.env).await;
    registry.put("app", "1", &[&layers().1]);
    let folder = case.home.path().join("certs.d/r.example");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("ca.pem"), crate::testing::tls::AUTHORITY).unwrap();
    let host = format!("[host.\"https://{}\"]", registry.address);
    let reference = Reference::parse("r.example/app:1").unwrap();
    for (settings, works) in [
        ("", false),
        ("ca = \"missing.pem\"", false),
        ("ca = \"hosts.toml\"", false),
        ("ca = \"ca.pem\"", true),
        ("skip_verify = true", true),
    ] {
        fs::write(
            folder.join("hosts.toml"),
            format!("server = \"http://127.0.0.1:1\"\n{host}\n{settings}\n"),
        )
        .unwrap();
        let pulled = case.puller.pull(&reference, vec![]).wait().await;
        assert_eq!(pulled.is_ok(), works, "{settings}: {pulled:?}");
    }
    // On this machine no authority is asked for, as by containerd.
    let local = Reference::parse(&format!("{}/app:1", registry.address)).unwrap();
    case.puller.pull(&local, vec![]).wait().await.unwrap();
}

/// A proxy that lets everybody through to one address, whatever they ask for; what it was asked.
async fn proxy(env: &Env, to: std::net::SocketAddr) -> (std::net::SocketAddr, Arc<Mutex<Vec<String>>>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let (env, heads) = (env.clone(), asked.clone());
    env.clone().spawn("test-proxy", async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let heads = heads.clone();
            env.spawn("test-proxied", async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(client.read_u8().await.unwrap());
                }
                let text = String::from_utf8(head.clone()).unwrap();
                heads.lock().push(text.clone());
                let mut server = tokio::net::TcpStream::connect(to).await.unwrap();
                if text.starts_with("CONNECT ") {
                    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                } else {
                    server.write_all(&head).await.unwrap();
                }
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, asked)
}

#[tokio::test]
async fn registries_are_reached_through_proxies() {
    if !root("registries_are_reached_through_proxies") {
        return;
    }
    let case = Case::new().await;
    let secure = Registry::start_tls(&case.env).await;
    for registry in [&case.registry, &secure] {
        registry.put("app", "1", &[&layers().1]);
    }
    let (plain_proxy, plain_asked) = proxy(&case.env, case.registry.address).await;
    let (secure_proxy, secure_asked) = proxy(&case.env, secure.address).await;
    for (name, settings) in [
        ("plain.example", "server = \"http://plain.example\"\n"),
        ("secure.example", "server = \"https://secure.example\"\nskip_verify = true\n"),
    ] {
        let folder = case.home.path().join("certs.d").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("hosts.toml"), settings).unwrap();
    }
    let proxies =
        Proxies::new(&plain_proxy.to_string(), &format!("http://me:secret@{secure_proxy}"), "other.example");
    let options = PullOptions {
        certs: vec![case.home.path().join("certs.d")],
        platform: Platform::current(),
        parallel: 1,
    };
    let puller = Puller::with_proxies(&case.store, &case.env, threads(), options, proxies);
    for name in ["plain.example/app:1", "secure.example/app:1"] {
        puller.pull(&Reference::parse(name).unwrap(), vec![]).wait().await.unwrap();
    }
    let plain = plain_asked.lock().clone();
    assert!(plain[0].starts_with("GET http://plain.example/v2/app/manifests/1"), "{plain:?}");
    let asked = secure_asked.lock().clone();
    assert!(asked[0].starts_with("CONNECT secure.example:443 HTTP/1.1\r\n"), "{asked:?}");
    assert!(asked[0].contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"), "{asked:?}");
    // What is asked inside the tunnel is the registry's business.
    assert!(!asked.concat().contains("/v2/"));
}

/// Keeps what the log says, as `field=value`.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Line(String);
        impl tracing::field::Visit for Line {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{}={value:?} ", field.name());
            }
        }
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().push(line.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn the_log_tells_how_far_a_long_pull_is() {
    let (env, log) = (Env::simulated(1), Log::default());
    let _log = tracing::subscriber::set_default(log.clone());
    let reference = Reference::parse("r.io/app:1").unwrap();
    let (sender, state) = watch::channel(State::default());
    let pulling = async {
        env.sleep(Duration::from_secs(15)).await;
        let progress = Progress { layers: 3, layers_done: 1, bytes: 300, bytes_done: 150 };
        sender.send_modify(|state| state.progress = progress);
        env.sleep(Duration::from_secs(10)).await;
        "done"
    };
    assert_eq!(report(&env, &reference, &state, pulling).await, "done");
    let lines = log.0.lock().clone();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(
        lines[1].trim(),
        "message=pulling image image=r.io/app:1 layers=3 layers_done=1 bytes=300 bytes_done=150"
    );
}
