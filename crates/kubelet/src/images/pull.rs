//! One pull: its turn, its credentials, its words.

use std::time::Duration;

use image::{Credential, PulledBy};

use crate::generate::ImageUser;

use super::{ImageError, ImageReason, Images, PulledImage, Tell, WantedImage, normal, warning};

impl Images {
    /// Pulls, and writes down who may have the image now.
    pub(super) async fn pull(
        &self,
        wanted: &WantedImage<'_>,
        spec: &cri::ImageSpec,
        credentials: &[Credential],
        tell: Tell<'_>,
    ) -> Result<PulledImage, ImageError> {
        let image = wanted.image.to_owned();
        let begun = image.clone();
        self.recorded(move |records| records.begin(&begun)).await.map_err(|error| ImageError {
            reason: ImageReason::Pull,
            message: format!("Failed to record image pull intent for container image {image:?}: {error}"),
        })?;
        tell(normal("Pulling", format!("Pulling image {image:?}")));
        let asked = self.env.monotonic();
        let turn = match &self.turns {
            Some(turns) => turns.acquire().await.ok(),
            None => None,
        };
        let started = self.env.monotonic();
        let pulled = self.pull_with(wanted, spec, credentials).await;
        let (took, waited) = (started.elapsed(), asked.elapsed());
        drop(turn);
        let (image_ref, by) = match pulled {
            Ok(pulled) => pulled,
            Err(error) => {
                self.note(&image, self.recorded_failure(&image).await);
                tell(warning("Failed", format!("Failed to pull image {image:?}: {error}")));
                return Err(classify(&image, &error));
            }
        };
        let (name, id, now) = (image.clone(), image_ref.clone(), self.now_seconds());
        let written = self.recorded(move |records| records.succeeded(&name, &id, &by, now)).await;
        self.note(&image, written);
        let found = self.find(spec).await.ok().flatten();
        let size = found.as_ref().map_or(0, |image| image.size);
        let said = format!(
            "Successfully pulled image {image:?} in {} ({} including waiting). Image size: {size} bytes.",
            go_duration(took),
            go_duration(waited),
        );
        tell(normal("Pulled", said));
        Ok(wanted.pulled(image_ref, ImageUser::of(found.as_ref())))
    }

    /// Tries the credentials in order. The id of the image, and whose it is now.
    async fn pull_with(
        &self,
        wanted: &WantedImage<'_>,
        spec: &cri::ImageSpec,
        credentials: &[Credential],
    ) -> Result<(String, PulledBy), String> {
        let request = |auth| cri::PullImageRequest {
            image: Some(spec.clone()),
            auth,
            sandbox_config: wanted.sandbox.cloned(),
        };
        if credentials.is_empty() {
            let answer = self.runtime.pull_image(request(None)).await.map_err(|error| said(&error))?;
            return Ok((answer.image_ref, PulledBy::Node));
        }
        let mut errors = Vec::new();
        for credential in credentials {
            let login = &credential.login;
            let auth = cri::AuthConfig {
                username: login.username.clone(),
                password: login.password.clone(),
                identity_token: login.identity_token.clone(),
                registry_token: login.registry_token.clone(),
                ..Default::default()
            };
            match self.runtime.pull_image(request(Some(auth))).await {
                Ok(answer) => return Ok((answer.image_ref, PulledBy::from_credential(Some(credential)))),
                Err(error) => errors.push(said(&error)),
            }
        }
        Err(crate::volumes::aggregate(errors).unwrap_or_default())
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
