//! The logins a pod can show a registry.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Obj, Value};
use image::{Credential, Keyring, Reference, SecretSource};

use super::{ImageError, ImageEvent, ImageReason, Images, WantedImage, warning};
use crate::objects::Objects;

impl Images {
    /// The logins to try: those of the pod's secrets, then the node's.
    pub(super) async fn credentials(
        &self,
        wanted: &WantedImage<'_>,
        reference: &Reference,
    ) -> Result<Vec<Credential>, ImageError> {
        let mut ring = Keyring::default();
        for secret in wanted.secrets {
            add_secret(&mut ring, secret)
                .map_err(|message| ImageError { reason: ImageReason::Pull, message })?;
        }
        let name = reference.name();
        let mut found = ring.find(&name);
        let (logins, now) = (self.shared.logins.clone(), self.shared.env.monotonic());
        // Without its file the node has no logins of its own.
        let of_node = self.shared.recorded(move |_| Ok(logins.keyring(now))).await.unwrap_or_default();
        found.extend(of_node.find(&name));
        Ok(found)
    }
}

/// The pull secrets of a pod that are there, and the event that tells of those that are not.
pub async fn pull_secrets(objects: &Objects, pod: &Value) -> (Vec<Arc<Obj>>, Option<ImageEvent>) {
    let namespace = pod.str_at(&["metadata", "namespace"]).unwrap_or_default();
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    let named = pod.at(&["spec", "imagePullSecrets"]).and_then(Value::as_list).unwrap_or_default();
    for name in named.iter().filter_map(|secret| secret.str_at(&["name"])).filter(|name| !name.is_empty()) {
        match objects.secret(namespace, name).await {
            Ok(secret) => found.push(secret),
            Err(_) => missing.push(name),
        }
    }
    let event = (!missing.is_empty()).then(|| {
        let message = format!(
            "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
            missing.join(", ")
        );
        warning("FailedToRetrieveImagePullSecret", message)
    });
    (found, event)
}

fn add_secret(ring: &mut Keyring, secret: &Obj) -> Result<(), String> {
    let tree = runtime::tree(secret);
    let source = SecretSource {
        namespace: secret.namespace().to_owned(),
        name: secret.name().to_owned(),
        uid: secret.uid().to_owned(),
    };
    let data = |key: &str| {
        let text = tree.get("data").and_then(|data| data.str_at(&[key])).unwrap_or_default();
        STANDARD.decode(text).unwrap_or_default()
    };
    let added = match tree.str_at(&["type"]) {
        Some("kubernetes.io/dockerconfigjson") => {
            ring.add_config_json(&data(".dockerconfigjson"), Some(&source))
        }
        Some("kubernetes.io/dockercfg") => ring.add_dockercfg(&data(".dockercfg"), Some(&source)),
        _ => return Ok(()),
    };
    added.map_err(|error| error.to_string())
}
