use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cri::{Call, Code, Error};
use object::Revision;
use parking_lot::Mutex;

use super::*;

/// A runtime that has images and pulls others, from registries that ask for a password or do not.
#[derive(Default)]
struct Fake {
    state: Mutex<State>,
    env: Option<Env>,
}

#[derive(Default)]
struct State {
    /// Ids by name.
    here: BTreeMap<String, String>,
    /// Names and the password they need; empty: none.
    remote: BTreeMap<String, &'static str>,
    error: Option<Error>,
    /// Of questions about an image.
    silent: Option<Error>,
    pulls: Vec<(String, String)>,
    pulling: usize,
    most_pulling: usize,
    /// Ids of images that containers are made of, that they mount, and that cannot be removed.
    used: Vec<String>,
    mounted: Vec<String>,
    stuck: Vec<String>,
}

impl cri::PartialRuntime for Fake {
    fn list_images(&self, _: cri::ListImagesRequest) -> Call<'_, cri::ListImagesResponse> {
        let here = self.state.lock().here.clone();
        let image = |(name, id): (String, String)| cri::Image {
            id,
            repo_tags: vec![name],
            size: 100,
            ..Default::default()
        };
        Box::pin(async move { Ok(cri::ListImagesResponse { images: here.into_iter().map(image).collect() }) })
    }

    fn list_containers(&self, _: cri::ListContainersRequest) -> Call<'_, cri::ListContainersResponse> {
        let container = |image: &String| cri::Container {
            id: format!("of-{image}"),
            image_id: image.clone(),
            ..Default::default()
        };
        let containers = self.state.lock().used.iter().map(container).collect();
        Box::pin(async { Ok(cri::ListContainersResponse { containers }) })
    }

    fn container_status(&self, _: cri::ContainerStatusRequest) -> Call<'_, cri::ContainerStatusResponse> {
        let image = |id: &String| cri::ImageSpec { image: id.clone(), ..Default::default() };
        let mount = |id: &String| cri::Mount { image: Some(image(id)), ..Default::default() };
        let mounts = self.state.lock().mounted.iter().map(mount).collect();
        let status = Some(cri::ContainerStatus { mounts, ..Default::default() });
        Box::pin(async { Ok(cri::ContainerStatusResponse { status, ..Default::default() }) })
    }

    fn remove_image(&self, request: cri::RemoveImageRequest) -> Call<'_, cri::RemoveImageResponse> {
        let id = request.image.unwrap_or_default().image;
        let mut state = self.state.lock();
        let stuck = state.stuck.contains(&id);
        if !stuck {
            state.here.retain(|_, here| *here != id);
        }
        Box::pin(async move {
            if stuck { Err(Error::new(Code::Internal, "stuck")) } else { Ok(cri::RemoveImageResponse {}) }
        })
    }

    fn image_status(&self, request: cri::ImageStatusRequest) -> Call<'_, cri::ImageStatusResponse> {
        let name = request.image.unwrap_or_default().image;
        let (id, silent) = {
            let state = self.state.lock();
            (state.here.get(&name).cloned(), state.silent.clone())
        };
        let image = id.map(|id| cri::Image { id, size: 1234, ..Default::default() });
        let answer = cri::ImageStatusResponse { image, ..Default::default() };
        Box::pin(async { silent.map_or(Ok(answer), Err) })
    }

    fn pull_image(&self, request: cri::PullImageRequest) -> Call<'_, cri::PullImageResponse> {
        let (name, auth) = (request.image.unwrap_or_default().image, request.auth.unwrap_or_default());
        Box::pin(async move {
            {
                let mut state = self.state.lock();
                state.pulls.push((name.clone(), auth.password.clone()));
                state.pulling += 1;
                state.most_pulling = state.most_pulling.max(state.pulling);
            }
            if let Some(env) = &self.env {
                env.sleep(Duration::from_millis(1500)).await;
            }
            let mut state = self.state.lock();
            state.pulling -= 1;
            if let Some(error) = state.error.clone() {
                return Err(error);
            }
            match state.remote.get(&name) {
                None => Err(Error::new(Code::NotFound, format!("{name}: not found"))),
                Some(password) if !password.is_empty() && *password != auth.password => {
                    Err(Error::new(Code::Unknown, format!("{name}: access denied")))
                }
                Some(_) => {
                    let id = format!("sha256:{name}");
                    state.here.insert(name, id.clone());
                    Ok(cri::PullImageResponse { image_ref: id })
                }
            }
        })
    }
}

struct Case {
    images: Images,
    runtime: Arc<Fake>,
    told: Mutex<Vec<String>>,
    folder: tempfile::TempDir,
}

impl Case {
    fn new(remote: &[(&str, &'static str)]) -> Case {
        Case::with(remote, None, ImageOptions::default())
    }

    fn with(remote: &[(&str, &'static str)], env: Option<Env>, options: ImageOptions) -> Case {
        let folder = tempfile::tempdir().unwrap();
        let remote = remote.iter().map(|(name, password)| ((*name).to_owned(), *password)).collect();
        let state = Mutex::new(State { remote, ..State::default() });
        let runtime = Arc::new(Fake { state, env: env.clone() });
        let config = Config::new("n1", folder.path().to_owned());
        let env = env.unwrap_or_else(Env::machine);
        let images = Images::new(env, &config, runtime.clone(), Arc::new(|job| job()), options).unwrap();
        Case { images, runtime, told: Mutex::default(), folder }
    }

    async fn ensure(
        &self,
        image: &str,
        policy: Option<&str>,
        secrets: &[Arc<Obj>],
    ) -> Result<String, ImageError> {
        self.pulled(image, policy, secrets).await.map(|pulled| pulled.image_ref)
    }

    async fn pulled(
        &self,
        image: &str,
        policy: Option<&str>,
        secrets: &[Arc<Obj>],
    ) -> Result<PulledImage, ImageError> {
        let pod =
            runtime::parse("{metadata: {name: web, namespace: default}}").unwrap_or_else(|_| panic!("a pod"));
        let wanted = WantedImage {
            pod: &pod,
            image,
            pull_policy: policy,
            secrets,
            sandbox: None,
            runtime_handler: "",
        };
        let tell = |event: ImageEvent| {
            let severity = if matches!(event.severity, Severity::Normal) { "Normal" } else { "Warning" };
            self.told.lock().push(format!("{severity} {}: {}", event.reason, event.message));
        };
        self.images.ensure(wanted, &tell).await
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock())
    }
}

/// A pull secret for a registry.
fn secret(name: &str, registry: &str, password: &str) -> Arc<Obj> {
    let config = serde_json::json!({"auths": {registry: {"username": "u", "password": password}}});
    let data = STANDARD.encode(config.to_string());
    let body = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "data": {".dockerconfigjson": data},
    });
    let catalog = catalog::Catalog::builtin();
    let storage = catalog.find_storage("", "secrets").unwrap();
    let key = storage.key("default", name);
    Arc::new(Obj::publish(storage, &key, body.to_string().as_bytes(), Revision(1), None).unwrap())
}

#[tokio::test]
async fn an_image_that_nobody_can_be_asked_about_is_not_one_of_root() {
    let case = Case::new(&[("r.io/app:1", "")]);
    let silent = Error::new(Code::Unavailable, "busy");
    for (says, user) in [(Some(silent.clone()), Err(silent.to_string())), (None, Ok(ImageUser::Uid(0)))] {
        case.runtime.state.lock().silent = says;
        let pulled = case.pulled("r.io/app:1", Some("Always"), &[]).await.unwrap();
        assert_eq!((&*pulled.image_ref, pulled.user), ("sha256:r.io/app:1", user));
    }
}

#[tokio::test]
async fn policies_decide_what_is_pulled() {
    let case = Case::new(&[("app:1", ""), ("app:latest", "")]);
    assert_eq!(case.ensure("app:1", None, &[]).await.as_deref(), Ok("sha256:app:1"));
    let told = case.told();
    assert_eq!(told[0], "Normal Pulling: Pulling image \"app:1\"");
    assert!(told[1].starts_with("Normal Pulled: Successfully pulled image \"app:1\" in "), "{told:?}");
    assert!(told[1].ends_with(" including waiting). Image size: 1234 bytes."), "{told:?}");
    case.ensure("app:1", None, &[]).await.unwrap();
    case.ensure("app:1", Some("Never"), &[]).await.unwrap();
    let present =
        "Normal Pulled: Container image \"app:1\" already present on machine and can be accessed by the pod";
    assert_eq!(case.told(), [present, present]);
    case.ensure("app:1", Some("Always"), &[]).await.unwrap();
    case.ensure("app", None, &[]).await.unwrap();
    case.ensure("app", None, &[]).await.unwrap();
    let pulls: Vec<String> = case.runtime.state.lock().pulls.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(pulls, ["app:1", "app:1", "app:latest", "app:latest"], "latest is always looked up");
}

#[tokio::test]
async fn what_goes_wrong_is_told_in_kubelets_words() {
    let case = Case::new(&[]);
    let error = case.ensure("app:1", Some("Never"), &[]).await.unwrap_err();
    assert_eq!(error.reason.to_string(), "ErrImageNeverPull");
    assert_eq!(error.message, "Container image \"app:1\" is not present with pull policy of Never");
    assert_eq!(case.told(), [format!("Warning ErrImageNeverPull: {}", error.message)]);
    assert!(!error.backs_off());

    let error = case.ensure("App:1", None, &[]).await.unwrap_err();
    assert_eq!(error.reason, ImageReason::InvalidName);
    let said = "Failed to apply default image tag \"App:1\": couldn't parse image name \"App:1\": invalid reference format: repository name (library/App) must be lowercase";
    assert_eq!(error.message, said);
    assert_eq!(case.told(), [format!("Warning InspectFailed: {said}")]);

    let error = case.ensure("gone:1", None, &[]).await.unwrap_err();
    let why = "rpc error: code = NotFound desc = gone:1: not found";
    assert_eq!((error.reason.to_string().as_str(), error.message.as_str()), ("ErrImagePull", why));
    let failed = format!("Warning Failed: Failed to pull image \"gone:1\": {why}");
    assert_eq!(case.told(), ["Normal Pulling: Pulling image \"gone:1\"", failed.as_str()]);
    assert_eq!(error.event().message, "Error: ErrImagePull");
    let (event, waiting) = error.back_off("gone:1");
    assert_eq!(event.message, "Back-off pulling image \"gone:1\"");
    assert_eq!(waiting, format!("Back-off pulling image \"gone:1\": ErrImagePull: {why}"));

    case.runtime.state.lock().error = Some(Error::new(Code::Unknown, "RegistryUnavailable: it sleeps"));
    let error = case.ensure("gone:1", None, &[]).await.unwrap_err();
    assert_eq!(error.reason.to_string(), "RegistryUnavailable");
    assert_eq!(error.message, "image pull failed for gone:1 because the registry is unavailable: it sleeps");
}

#[tokio::test]
async fn an_image_pulled_with_a_secret_is_not_for_pods_without_it() {
    let case = Case::new(&[("r.io/app:1", "p")]);
    let (own, wrong) = (secret("own", "r.io", "p"), secret("wrong", "r.io", "x"));
    let denied = case.ensure("r.io/app:1", None, &[]).await.unwrap_err();
    assert_eq!(denied.message, "r.io/app:1: access denied", "unknown codes say nothing and are left out");
    let both = [wrong.clone(), own.clone()];
    assert!(case.ensure("r.io/app:1", None, &both).await.is_ok(), "the second login opens it");
    case.told();
    assert!(case.ensure("r.io/app:1", None, std::slice::from_ref(&own)).await.is_ok());
    assert_eq!(case.runtime.state.lock().pulls.len(), 3, "the secret is known");

    let error = case.ensure("r.io/app:1", Some("Never"), &[]).await.unwrap_err();
    assert_eq!(error.reason, ImageReason::NeverPull, "as if it were not here");
    assert!(case.ensure("r.io/app:1", None, &[]).await.is_err());
    assert!(case.ensure("r.io/app:1", None, std::slice::from_ref(&wrong)).await.is_err());
    assert_eq!(case.runtime.state.lock().pulls.len(), 5, "each has to show the registry its own");
}

#[tokio::test]
async fn a_broken_secret_hurts_only_who_needs_one() {
    let case = Case::new(&[("r.io/app:1", "")]);
    case.runtime.state.lock().here.insert("r.io/preloaded:1".to_owned(), "id".to_owned());
    let body = r#"{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/dockerconfigjson","metadata":{"name":"broken","namespace":"default","uid":"u"},"data":{".dockerconfigjson":"e30K!"}}"#;
    let catalog = catalog::Catalog::builtin();
    let storage = catalog.find_storage("", "secrets").unwrap();
    let key = storage.key("default", "broken");
    let broken = [Arc::new(Obj::publish(storage, &key, body.as_bytes(), Revision(1), None).unwrap())];
    assert!(case.ensure("r.io/preloaded:1", None, &broken).await.is_ok());
    let error = case.ensure("r.io/app:1", None, &broken).await.unwrap_err();
    assert_eq!(error.message, "error occurred while trying to unmarshal json");
}

#[tokio::test(start_paused = true)]
async fn pulls_wait_for_each_other_and_say_how_long() {
    let env = Env::simulated(1);
    let remote = [("a:1", ""), ("b:1", "")];
    let case = Case::with(&remote, Some(env.clone()), ImageOptions::default());
    let (a, b) = tokio::join!(case.ensure("a:1", None, &[]), case.ensure("b:1", None, &[]));
    assert!(a.is_ok() && b.is_ok());
    assert_eq!(case.runtime.state.lock().most_pulling, 1);
    let told: BTreeSet<String> = case.told().into_iter().collect();
    let waited = "Normal Pulled: Successfully pulled image \"b:1\" in 1.5s (3s including waiting). Image size: 1234 bytes.";
    assert!(told.contains(waited), "{told:?}");
    let parallel = ImageOptions { parallel: None, ..ImageOptions::default() };
    let case = Case::with(&remote, Some(env), parallel);
    let (a, b) = tokio::join!(case.ensure("a:1", None, &[]), case.ensure("b:1", None, &[]));
    assert!(a.is_ok() && b.is_ok());
    assert_eq!(case.runtime.state.lock().most_pulling, 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_loses_the_images_nobody_uses() {
    let env = Env::simulated(2);
    let case = Case::with(&[("gone:1", "")], Some(env.clone()), ImageOptions::default());
    let mut config = Config::new("n1", std::path::PathBuf::new());
    config.image_minimum_gc_age = Duration::from_secs(120);
    case.ensure("gone:1", None, &[]).await.unwrap();
    for name in ["a", "b", "c", "d"] {
        case.runtime.state.lock().here.insert(name.to_owned(), format!("id-{name}"));
    }
    {
        let mut state = case.runtime.state.lock();
        (state.used, state.mounted) = (vec!["id-a".to_owned()], vec!["id-b".to_owned()]);
    }
    let here = || case.runtime.state.lock().here.keys().cloned().collect::<Vec<_>>();
    let nothing = ImageFileSystem { capacity: 0, available: 0 };
    let unknown = case.images.collect_garbage(&config, nothing).await.unwrap_err();
    let said = "invalid capacity 0 on image filesystem";
    assert_eq!((unknown.message.as_str(), unknown.event.unwrap().reason), (said, "InvalidDiskCapacity"));
    let disk = |available| ImageFileSystem { capacity: 1000, available };
    assert_eq!(case.images.collect_garbage(&config, disk(200)).await, Ok(0), "there is room");
    let young = case.images.collect_garbage(&config, disk(100)).await.unwrap_err();
    let said = "Insufficient free disk space on the node's image filesystem (90% of 1000 B used). Failed to free sufficient space by deleting unused images (freed 0 bytes). Investigate disk usage, as it could be used by active images, logs, volumes, or other data.";
    assert_eq!((young.message.as_str(), young.event.unwrap().reason), (said, "FreeDiskSpaceFailed"));

    env.sleep(Duration::from_secs(121)).await;
    case.runtime.state.lock().stuck.push("id-c".to_owned());
    let failed = case.images.collect_garbage(&config, disk(50)).await.unwrap_err();
    assert_eq!(
        failed.message,
        "wanted to free 150 bytes, but freed 200 bytes space with errors in image deletion: rpc error: code = Internal desc = stuck"
    );
    assert_eq!(here(), ["a", "b", "c"], "in use, mounted, stuck");
    assert_eq!(case.images.shared.records.get("sha256:gone:1").unwrap(), None, "its record went with it");
    case.runtime.state.lock().stuck.clear();
    assert_eq!(case.images.delete_unused(&config).await, Ok(100));
    assert_eq!(here(), ["a", "b"]);
}

#[tokio::test]
async fn image_volumes_are_pulled_like_images_of_containers() {
    let case = Case::new(&[("data:1", "")]);
    let pod = "{metadata: {name: web}, spec: {volumes: [{name: a, image: {reference: 'data:1'}}, {name: b, image: {reference: 'none:1'}}, {name: c, emptyDir: {}}]}}";
    let pod = runtime::parse(pod).unwrap_or_else(|_| panic!("a pod"));
    let images = case.images.ensure_volumes(&pod, &[], None, "", &|_| ()).await;
    assert_eq!(images.keys().collect::<Vec<_>>(), ["a", "b"]);
    let spec = images["a"].as_ref().unwrap();
    assert_eq!((spec.image.as_str(), spec.user_specified_image.as_str()), ("sha256:data:1", "data:1"));
    assert_eq!(images["b"].as_ref().unwrap_err().reason, ImageReason::Pull);
}

#[tokio::test(start_paused = true)]
async fn a_pull_whose_pod_goes_away_is_recorded_and_one_that_waits_ends() {
    let env = Env::simulated(3);
    let case = Case::with(&[("r.io/a:1", "p"), ("b:1", "")], Some(env.clone()), ImageOptions::default());
    let own = [secret("own", "r.io", "p")];
    let both = async { tokio::join!(case.ensure("r.io/a:1", None, &own), case.ensure("b:1", None, &[])) };
    assert!(env.timeout(Duration::from_millis(100), both).await.is_err());
    env.sleep(Duration::from_secs(10)).await;
    assert_eq!(case.runtime.state.lock().pulls, [("r.io/a:1".to_owned(), "p".to_owned())]);
    assert!(case.ensure("r.io/a:1", Some("Never"), &own).await.is_ok());
    assert!(case.ensure("r.io/a:1", Some("Never"), &[]).await.is_err(), "pulled with a secret");
    let intents = case.folder.path().join("image_manager/pulling");
    assert_eq!(std::fs::read_dir(intents).unwrap().count(), 0);
    assert!(case.ensure("b:1", None, &[]).await.is_ok(), "its turn comes again");
}

#[tokio::test(start_paused = true)]
async fn pulls_are_throttled_as_configured() {
    let env = Env::simulated(4);
    let options = ImageOptions { rate: Some((1, 2)), parallel: None, ..ImageOptions::default() };
    let case = Case::with(&[("a:1", "")], Some(env.clone()), options);
    let pull = || case.ensure("a:1", Some("Always"), &[]);
    let (a, b, c) = tokio::join!(pull(), pull(), pull());
    assert!(a.is_ok() && b.is_ok());
    let error = c.unwrap_err();
    assert_eq!((error.reason, &*error.message), (ImageReason::Pull, "pull QPS exceeded"));
    assert!(pull().await.is_ok(), "a second and a half later");
}

#[tokio::test]
async fn the_nodes_logins_open_images_for_all_pods() {
    let folder = tempfile::tempdir().unwrap();
    let login = r#"{"auths": {"r.io": {"username": "node", "password": "p"}}}"#;
    std::fs::write(folder.path().join("config.json"), login).unwrap();
    let logins = NodeLogins::of(folder.path(), None);
    let case = Case::with(&[("r.io/app:1", "p")], None, ImageOptions { logins, ..ImageOptions::default() });
    assert!(case.ensure("r.io/app:1", None, &[]).await.is_ok());
    assert!(case.ensure("r.io/app:1", Some("Never"), &[]).await.is_ok());
}

#[test]
fn as_many_pulls_go_on_at_once_as_the_configuration_lets() {
    let of = |fields: &str| {
        let file =
            format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{fields}\n");
        let config = Config::new("n", "/n".into()).with_file(file.as_bytes()).unwrap();
        parallel_pulls(&config)
    };
    assert_eq!(of(""), Some(1));
    assert_eq!(of("maxParallelImagePulls: 5"), Some(5));
    assert_eq!(of("serializeImagePulls: false"), None);
    let nobody_said = Config::new("n", "/n".into()).without_file();
    assert_eq!(
        parallel_pulls(&nobody_said),
        None,
        "differs from kubelet: pods need not wait for each other's images"
    );
}
