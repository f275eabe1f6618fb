//! Whether the image of a container is there, may be used, or must be pulled first.
//!
//! ```text
//! pull policy ── here? ── records: may this pod have it? ── pull, with the pod's secrets and the node's logins ── record
//! ```
//! Back-off between pulls is the pod worker's: here each call tries once.

pub mod collect;
mod garbage;
mod node_logins;
mod pull;
mod records;
mod secrets;

use std::collections::BTreeMap;
use std::sync::Arc;

use client::{Obj, Value};
use env::Env;
use image::{Blocking, Reference, Verification};
use parking_lot::Mutex;
use runtime::Severity;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::config::Config;
use crate::generate::ImageUser;
use collect::ImageUse;
use node_logins::NodeLogins;
use pull::Throttle;
use records::Records;

pub use garbage::{GarbageError, ImageFileSystem};
pub use secrets::pull_secrets;

pub struct Images {
    shared: Arc<Shared>,
    verification: Verification,
    /// Guards what is known of the use of images; held to look and to take note.
    known: Mutex<ImageUse>,
    /// Pulls under way end when this does.
    alive: watch::Sender<()>,
}

/// What a pull has that goes on after the pod that asked for it.
struct Shared {
    env: Env,
    runtime: Arc<dyn cri::Runtime>,
    records: Arc<Records>,
    blocking: Blocking,
    /// A permit for each pull; others wait in the order they came.
    turns: Option<Semaphore>,
    throttle: Option<Throttle>,
    logins: Arc<NodeLogins>,
}

pub struct ImageOptions {
    pub verification: Verification,
    /// Pulls at the same time; `None`: as many as there are. `serializeImagePulls`, kubelet's default, is 1.
    pub parallel: Option<usize>,
    /// `registryPullQPS` and `registryBurst`; `None`: no limit.
    pub rate: Option<(u32, u32)>,
    /// Where the node's own logins may be, which every pod may use.
    pub logins: NodeLogins,
}

impl Default for ImageOptions {
    fn default() -> ImageOptions {
        ImageOptions {
            verification: Verification::default(),
            parallel: Some(1),
            rate: None,
            logins: NodeLogins::default(),
        }
    }
}

impl ImageOptions {
    /// As the configuration has it; `home` is the user's, if there is one.
    pub fn of(config: &Config, home: Option<&std::path::Path>) -> ImageOptions {
        ImageOptions {
            verification: config.image_verification.clone(),
            parallel: parallel_pulls(config),
            rate: (config.registry_pull_qps > 0).then_some((config.registry_pull_qps, config.registry_burst)),
            logins: NodeLogins::of(&config.root_directory, home),
        }
    }
}

/// How many pulls `serializeImagePulls` and `maxParallelImagePulls` let go on at once; `None`: any number.
pub fn parallel_pulls(config: &Config) -> Option<usize> {
    if config.serialize_image_pulls { Some(1) } else { config.max_parallel_image_pulls }
}

/// The image of a container or of an image volume.
#[derive(Clone, Copy)]
pub struct WantedImage<'a> {
    pub pod: &'a Value,
    /// As the pod has it.
    pub image: &'a str,
    /// `imagePullPolicy`; what API servers fill in where it is missing.
    pub pull_policy: Option<&'a str>,
    pub secrets: &'a [Arc<Obj>],
    pub sandbox: Option<&'a cri::PodSandboxConfig>,
    pub runtime_handler: &'a str,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PulledImage {
    /// The runtime's id of the image.
    pub image_ref: String,
    /// What containers are created with.
    pub spec: cri::ImageSpec,
    /// As whom it wants to run. `Err`: the runtime did not say, which is not to be taken for root.
    pub user: Result<ImageUser, String>,
}

/// The images of a pod's image volumes by the volume's name, or why a container that mounts one cannot start.
pub type ImageVolumes = BTreeMap<String, Result<cri::ImageSpec, ImageError>>;

/// An event of the pod, about the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageEvent {
    pub severity: Severity,
    pub reason: &'static str,
    pub message: String,
}

/// Told at once: a pull may take minutes.
pub type Tell<'a> = &'a (dyn Fn(ImageEvent) + Send + Sync);

/// Why a container has no image, in kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct ImageError {
    pub reason: ImageReason,
    pub message: String,
}

/// The reason of a container that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageReason {
    #[error("ErrImagePull")]
    Pull,
    #[error("ErrImageNeverPull")]
    NeverPull,
    #[error("InvalidImageName")]
    InvalidName,
    #[error("ImageInspectError")]
    Inspect,
    #[error("RegistryUnavailable")]
    RegistryUnavailable,
    #[error("SignatureValidationFailed")]
    SignatureValidationFailed,
}

impl ImageError {
    /// The event of a container that could not be started for it.
    pub fn event(&self) -> ImageEvent {
        warning("Failed", format!("Error: {}", self.reason))
    }

    /// Only a pull that failed is tried again later and later.
    pub fn backs_off(&self) -> bool {
        use ImageReason::{Pull, RegistryUnavailable, SignatureValidationFailed};
        matches!(self.reason, Pull | RegistryUnavailable | SignatureValidationFailed)
    }

    /// Event and message of a container whose pull waits for its turn after this.
    pub fn back_off(&self, image: &str) -> (ImageEvent, String) {
        let said = format!("Back-off pulling image {image:?}");
        let message = format!("{said}: {self}");
        (normal("BackOff", said), message)
    }
}

fn normal(reason: &'static str, message: String) -> ImageEvent {
    ImageEvent { severity: Severity::Normal, reason, message }
}

fn warning(reason: &'static str, message: String) -> ImageEvent {
    ImageEvent { severity: Severity::Warning, reason, message }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Always,
    IfNotPresent,
    Never,
}

impl Policy {
    fn read(said: Option<&str>, reference: &Reference) -> Policy {
        match said {
            Some("Always") => Policy::Always,
            Some("IfNotPresent") => Policy::IfNotPresent,
            Some("Never") => Policy::Never,
            _ if reference.tag() == Some("latest") => Policy::Always,
            _ => Policy::IfNotPresent,
        }
    }
}

impl Images {
    /// `Err`: the directory of the records cannot be used.
    pub fn new(
        env: Env,
        config: &Config,
        runtime: Arc<dyn cri::Runtime>,
        blocking: Blocking,
        options: ImageOptions,
    ) -> std::io::Result<Images> {
        let records = Arc::new(Records::open(&config.root_directory)?);
        let shared = Shared {
            throttle: options.rate.map(|(qps, burst)| Throttle::new(env.monotonic(), qps, burst)),
            turns: options.parallel.map(|parallel| Semaphore::new(parallel.max(1))),
            logins: Arc::new(options.logins),
            env,
            runtime,
            records,
            blocking,
        };
        Ok(Images {
            shared: Arc::new(shared),
            verification: options.verification,
            known: Mutex::default(),
            alive: watch::Sender::new(()),
        })
    }

    /// Finds out what became of pulls that an earlier agent had begun. Before the first pull.
    pub async fn recover(&self) -> Result<(), String> {
        let images = self.shared.runtime.list_images(cri::ListImagesRequest::default()).await;
        let images = images.map_err(|error| error.to_string())?.images;
        let named =
            images.into_iter().map(|image| (image.id, [image.repo_tags, image.repo_digests].concat()));
        let (named, now) = (named.collect::<Vec<_>>(), self.shared.now_seconds());
        self.shared.recorded(move |records| records.recover(&named, now)).await
    }

    /// Makes sure that the image is here and that the pod may have it; pulls it if need be. Tells of it on the way.
    pub async fn ensure(&self, wanted: WantedImage<'_>, tell: Tell<'_>) -> Result<PulledImage, ImageError> {
        let image = wanted.image;
        let reference = Reference::parse(image).map_err(|error| {
            let message = format!("Failed to apply default image tag {image:?}: {error}");
            tell(warning("InspectFailed", message.clone()));
            ImageError { reason: ImageReason::InvalidName, message }
        })?;
        let policy = Policy::read(wanted.pull_policy, &reference);
        let spec = wanted.spec(with_default_tag(image, &reference));
        let credentials = self.credentials(&wanted, &reference).await;
        if policy != Policy::Always {
            let here = self.find(&spec).await.map_err(|error| {
                let message = format!("Failed to inspect image {:?}: {error}", "");
                tell(warning("InspectFailed", message.clone()));
                ImageError { reason: ImageReason::Inspect, message }
            })?;
            if let Some(found) = here {
                let image_ref = found.id.clone();
                // A secret that cannot be read opens nothing, and is in nobody's way who needs none.
                let known = credentials.clone().unwrap_or_default();
                let (name, id) = (image.to_owned(), image_ref.clone());
                let (policy, now) = (self.verification.clone(), self.shared.now_seconds());
                let must =
                    self.shared.recorded(move |records| records.must_pull(&name, &id, &known, &policy, now));
                // Records that cannot be read let nobody in.
                if !must.await.unwrap_or(true) {
                    let said = format!(
                        "Container image {image:?} already present on machine and can be accessed by the pod"
                    );
                    tell(normal("Pulled", said));
                    return Ok(wanted.pulled(image_ref, Ok(ImageUser::of(Some(&found)))));
                }
            }
            // That an image is here which the pod may not have is nobody's business.
            if policy == Policy::Never {
                let message = format!("Container image {image:?} is not present with pull policy of Never");
                tell(warning("ErrImageNeverPull", message.clone()));
                return Err(ImageError { reason: ImageReason::NeverPull, message });
            }
        }
        self.pull(&wanted, &spec, credentials?, tell).await
    }

    /// The same for every image volume of the pod: what `image` of a container's mounts is.
    pub async fn ensure_volumes(
        &self,
        pod: &Value,
        secrets: &[Arc<Obj>],
        sandbox: Option<&cri::PodSandboxConfig>,
        runtime_handler: &str,
        tell: Tell<'_>,
    ) -> ImageVolumes {
        let mut images = ImageVolumes::new();
        for volume in pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default() {
            let (Some(name), Some(source)) = (volume.str_at(&["name"]), volume.get("image")) else {
                continue;
            };
            let wanted = WantedImage {
                pod,
                image: source.str_at(&["reference"]).unwrap_or_default(),
                pull_policy: source.str_at(&["pullPolicy"]),
                secrets,
                sandbox,
                runtime_handler,
            };
            let pulled = self.ensure(wanted, tell).await;
            images.insert(name.to_owned(), pulled.map(|pulled| pulled.spec));
        }
        images
    }

    /// What the runtime knows of an image; `None`: it is not here.
    async fn find(&self, spec: &cri::ImageSpec) -> Result<Option<cri::Image>, cri::Error> {
        let request = cri::ImageStatusRequest { image: Some(spec.clone()), verbose: false };
        let answer = self.shared.runtime.image_status(request).await?;
        Ok(answer.image.filter(|image| !image.id.is_empty()))
    }

    /// Forgets records of images that are not here any more; `here` are ids, as they were found at `began` (unix seconds).
    pub async fn prune_records(&self, here: Vec<String>, began: i64) -> Result<(), String> {
        self.shared.recorded(move |records| records.prune(&here, began)).await
    }
}

impl Shared {
    async fn recorded<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Records) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let (sender, receiver) = oneshot::channel();
        let records = self.records.clone();
        (self.blocking)(Box::new(move || drop(sender.send(job(&records)))));
        match receiver.await {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(_) => Err("the thread that keeps records ended".to_owned()),
        }
    }

    fn now_seconds(&self) -> i64 {
        i64::try_from(self.env.now_seconds()).unwrap_or(i64::MAX)
    }
}

impl WantedImage<'_> {
    fn spec(&self, image: String) -> cri::ImageSpec {
        let annotations = self.pod.at(&["metadata", "annotations"]).and_then(Value::as_map);
        let pairs = annotations.into_iter().flat_map(|map| map.iter());
        cri::ImageSpec {
            image,
            annotations: pairs
                .map(|(k, v)| (k.to_string(), v.as_str().unwrap_or_default().to_owned()))
                .collect(),
            runtime_handler: self.runtime_handler.to_owned(),
            ..Default::default()
        }
    }

    fn pulled(&self, image_ref: String, user: Result<ImageUser, String>) -> PulledImage {
        let spec =
            cri::ImageSpec { user_specified_image: self.image.to_owned(), ..self.spec(image_ref.clone()) };
        PulledImage { image_ref, spec, user }
    }
}

/// The name as the pod has it, with the tag that is meant: runtimes complete short names themselves.
fn with_default_tag(image: &str, reference: &Reference) -> String {
    match reference.tag() {
        Some(tag) if reference.digest().is_none() && !image.ends_with(&format!(":{tag}")) => {
            format!("{image}:{tag}")
        }
        _ => image.to_owned(),
    }
}

#[cfg(test)]
mod tests;
