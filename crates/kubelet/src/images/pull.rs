//! One pull: its turn, its credentials, its words.

use std::sync::Arc;
use std::time::Duration;

use image::{Credential, PulledBy};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::generate::ImageUser;

use super::{ImageError, ImageReason, Images, PulledImage, Shared, Tell, WantedImage, normal, warning};

impl Images {
    /// Pulls, and writes down who may have the image now.
    pub(super) async fn pull(
        &self,
        wanted: &WantedImage<'_>,
        spec: &cri::ImageSpec,
        credentials: Vec<Credential>,
        tell: Tell<'_>,
    ) -> Result<PulledImage, ImageError> {
        let image = wanted.image.to_owned();
        let failed = |message: String| ImageError { reason: ImageReason::Pull, message };
        let (begun, has_begun) = oneshot::channel();
        let (asker, _asks) = oneshot::channel();
        let pull = Pull {
            shared: self.shared.clone(),
            image: image.clone(),
            spec: spec.clone(),
            sandbox: wanted.sandbox.cloned(),
            credentials,
        };
        let mut agent = self.alive.subscribe();
        let task = self.shared.env.spawn("pull-image", async move {
            tokio::select! {
                biased;
                pulled = pull.run(begun, asker) => Some(pulled),
                // The intent stays: the next agent finds out what became of it.
                _ = agent.changed() => None,
            }
        });
        let given_up = || failed("the pull was given up".to_owned());
        has_begun.await.map_err(|_| given_up())?.map_err(|error| {
            failed(format!("Failed to record image pull intent for container image {image:?}: {error}"))
        })?;
        tell(normal("Pulling", format!("Pulling image {image:?}")));
        let pulled = task.await.ok().flatten().ok_or_else(given_up)?;
        let Pulled { image_ref, took, waited } = pulled.map_err(|error| {
            tell(warning("Failed", format!("Failed to pull image {image:?}: {error}")));
            classify(&image, &error)
        })?;
        let found = self.find(spec).await;
        let size = found.as_ref().ok().and_then(Option::as_ref).map_or(0, |image| image.size);
        let said = format!(
            "Successfully pulled image {image:?} in {} ({} including waiting). Image size: {size} bytes.",
            go_duration(took),
            go_duration(waited),
        );
        tell(normal("Pulled", said));
        let user = found.map(|found| ImageUser::of(found.as_ref())).map_err(|error| error.to_string());
        Ok(wanted.pulled(image_ref, user))
    }
}

/// A pull with its record, a task of its own: a runtime may go on with a pull whose pod is gone, and an image that is here without a
/// record of whose credentials opened it is for nobody.
struct Pull {
    shared: Arc<Shared>,
    image: String,
    spec: cri::ImageSpec,
    sandbox: Option<cri::PodSandboxConfig>,
    credentials: Vec<Credential>,
}

struct Pulled {
    image_ref: String,
    took: Duration,
    waited: Duration,
}

impl Pull {
    /// `begun` hears that the intent is written; a pull that still waits for its turn ends with `asker`'s other end.
    async fn run(
        self,
        begun: oneshot::Sender<Result<(), String>>,
        mut asker: oneshot::Sender<()>,
    ) -> Result<Pulled, String> {
        let (shared, image) = (&*self.shared, &self.image);
        let name = image.clone();
        let intent = shared.recorded(move |records| records.begin(&name)).await;
        let failed = intent.is_err();
        // Who is gone already is noticed below.
        let _ = begun.send(intent);
        if failed {
            return Err(String::new());
        }
        let asked = shared.env.monotonic();
        let turn = async {
            match &shared.turns {
                Some(turns) => turns.acquire().await.ok(),
                None => None,
            }
        };
        let turn = tokio::select! {
            biased;
            () = asker.closed() => {
                self.record_failure().await;
                return Err("the pod is gone".to_owned());
            }
            turn = turn => turn,
        };
        let started = shared.env.monotonic();
        let pulled = self.pull().await;
        let (took, waited) = (started.elapsed(), asked.elapsed());
        drop(turn);
        let (image_ref, by) = match pulled {
            Ok(pulled) => pulled,
            Err(error) => {
                self.record_failure().await;
                return Err(error);
            }
        };
        let (name, id, now) = (image.clone(), image_ref.clone(), shared.now_seconds());
        let written = shared.recorded(move |records| records.succeeded(&name, &id, &by, now)).await;
        self.note(written);
        Ok(Pulled { image_ref, took, waited })
    }

    async fn record_failure(&self) {
        let name = self.image.clone();
        let written = self.shared.recorded(move |records| records.failed(&name)).await;
        self.note(written);
    }

    fn note(&self, written: Result<(), String>) {
        if let Err(error) = written {
            tracing::error!(image = self.image, error, "failed to write the record of an image");
        }
    }

    /// With each login until one opens it.
    async fn pull(&self) -> Result<(String, PulledBy), String> {
        let shared = &*self.shared;
        if shared.throttle.as_ref().is_some_and(|throttle| !throttle.accept(shared.env.monotonic())) {
            return Err("pull QPS exceeded".to_owned());
        }
        let request = |auth| cri::PullImageRequest {
            image: Some(self.spec.clone()),
            auth,
            sandbox_config: self.sandbox.clone(),
        };
        if self.credentials.is_empty() {
            let answer = shared.runtime.pull_image(request(None)).await.map_err(|error| said(&error))?;
            return Ok((answer.image_ref, PulledBy::Node));
        }
        let mut errors = Vec::new();
        for credential in &self.credentials {
            let login = &credential.login;
            let auth = cri::AuthConfig {
                username: login.username.clone(),
                password: login.password.clone(),
                identity_token: login.identity_token.clone(),
                registry_token: login.registry_token.clone(),
                ..Default::default()
            };
            match shared.runtime.pull_image(request(Some(auth))).await {
                Ok(answer) => return Ok((answer.image_ref, PulledBy::from_credential(Some(credential)))),
                Err(error) => errors.push(said(&error)),
            }
        }
        Err(crate::volumes::aggregate(errors).unwrap_or_default())
    }
}

/// `registryPullQPS`: pulls a second on average, `registryBurst` at once.
pub(super) struct Throttle {
    qps: f64,
    burst: f64,
    /// Guards what may be pulled now, and when that was counted.
    tokens: Mutex<(f64, Instant)>,
}

impl Throttle {
    pub(super) fn new(now: Instant, qps: u32, burst: u32) -> Throttle {
        let burst = f64::from(burst);
        Throttle { qps: f64::from(qps), burst, tokens: Mutex::new((burst, now)) }
    }

    fn accept(&self, now: Instant) -> bool {
        let (tokens, at) = &mut *self.tokens.lock();
        *tokens = (*tokens + now.saturating_duration_since(*at).as_secs_f64() * self.qps).min(self.burst);
        *at = now;
        if *tokens < 1.0 {
            return false;
        }
        *tokens -= 1.0;
        true
    }
}

/// A runtime's error without the code that says nothing.
fn said(error: &cri::Error) -> String {
    if error.code == cri::Code::Unknown { error.message.clone() } else { error.to_string() }
}

fn classify(image: &str, error: &str) -> ImageError {
    let known = [
        (ImageReason::RegistryUnavailable, "the registry is unavailable"),
        (ImageReason::SignatureValidationFailed, "the signature validation failed"),
    ];
    for (reason, why) in known {
        if let Some(rest) = error.strip_prefix(&reason.to_string()) {
            let message = format!("image pull failed for {image} because {why}{rest}");
            return ImageError { reason, message };
        }
    }
    ImageError { reason: ImageReason::Pull, message: error.to_owned() }
}

/// In Go's notation, to the millisecond: `0s`, `350ms`, `1.5s`, `1m0.25s`.
fn go_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 {
        return "0s".to_owned();
    }
    if millis < 1000 {
        return format!("{millis}ms");
    }
    let (seconds, rest) = (millis / 1000, millis % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction =
        if rest == 0 { String::new() } else { format!(".{rest:03}").trim_end_matches('0').to_owned() };
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{fraction}s"),
        (0, _) => format!("{minutes}m{seconds}{fraction}s"),
        _ => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_does() {
        for (millis, text) in [
            (0, "0s"),
            (1, "1ms"),
            (999, "999ms"),
            (1000, "1s"),
            (1500, "1.5s"),
            (61_020, "1m1.02s"),
            (3_600_001, "1h0m0.001s"),
        ] {
            assert_eq!(go_duration(Duration::from_millis(millis)), text);
        }
    }
}
