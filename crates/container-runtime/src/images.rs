//! The images of the node, as CRI shows them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use container::disk_usage::Usage;
use cri::{Code, Error};
use image::{
    Credential, Digest, Image, LayerRecord, Login, PullError, Reference, RegistryError, StoreError, User,
};

use crate::Inner;
use crate::error::{Context, invalid, unknown};
use crate::stats;

impl Inner {
    /// By id, tag, or repository and digest.
    pub fn find_image(&self, name: &str) -> Result<Option<Image>, Error> {
        let failed = || format!("failed to look up image {name:?}");
        if let Ok(id) = name.parse::<Digest>() {
            return self.images.get(&id).context(failed);
        }
        // An id without its algorithm, as some people copy it.
        if name.len() == 64
            && let Ok(id) = format!("sha256:{name}").parse::<Digest>()
        {
            return self.images.get(&id).context(failed);
        }
        let reference = Reference::parse(name).map_err(invalid)?;
        self.images.find(&reference).context(failed)
    }

    pub fn list_images(&self, request: cri::ListImagesRequest) -> Result<Vec<cri::Image>, Error> {
        let wanted =
            request.filter.and_then(|filter| filter.image).map(|image| image.image).unwrap_or_default();
        let all = if wanted.is_empty() {
            self.images.list().context(|| "failed to list images".to_owned())?
        } else {
            self.find_image(&wanted)?.into_iter().collect()
        };
        Ok(all.into_iter().map(shown).collect())
    }

    pub fn image_status(&self, request: &cri::ImageStatusRequest) -> Result<cri::ImageStatusResponse, Error> {
        let name = request.image.as_ref().map_or("", |image| &image.image);
        let Some(image) = self.find_image(name)? else { return Ok(cri::ImageStatusResponse::default()) };
        let mut response =
            cri::ImageStatusResponse { image: Some(shown(image.clone())), ..Default::default() };
        if request.verbose {
            // As `crictl inspecti` shows it.
            let info = serde_json::json!({ "imageSpec": { "config": image.config } });
            response.info.insert("info".to_owned(), info.to_string());
        }
        Ok(response)
    }

    /// With all its names; one that is gone already is removed.
    pub fn remove_image(&self, request: &cri::RemoveImageRequest) -> Result<(), Error> {
        let name = request.image.as_ref().map_or("", |image| &image.image);
        let Some(image) = self.find_image(name)? else { return Ok(()) };
        let containers: Vec<_> = self.pods.lock().containers.values().cloned().collect();
        let mut used = BTreeSet::new();
        for container in containers {
            let record = container.record.lock().clone();
            used.extend(record.image_id.parse::<Digest>());
            for mount in record.config.unwrap_or_default().mounts {
                let mounted = mount.image.and_then(|image| self.find_image(&image.image).ok().flatten());
                used.extend(mounted.map(|image| image.id));
            }
        }
        match self.images.remove(image.id.as_str(), &used) {
            Ok(_) | Err(StoreError::NotFound(_)) => Ok(()),
            Err(error @ StoreError::InUse(_)) => Err(Error::new(Code::FailedPrecondition, error.to_string())),
            Err(error) => Err(unknown(format!("failed to remove image {name:?}: {error}"))),
        }
    }

    /// What images and the files that containers wrote take.
    pub fn image_fs_info(&self) -> Result<cri::ImageFsInfoResponse, Error> {
        let failed = || "failed to look at the images' file system".to_owned();
        let used = self.images.used_bytes().context(failed)?;
        let mountpoint = self.images.root().to_string_lossy().into_owned();
        let value = |value| Some(cri::UInt64Value { value });
        let usage = |mountpoint: String, bytes, inodes| cri::FilesystemUsage {
            timestamp: self.now(),
            fs_id: Some(cri::FilesystemIdentifier { mountpoint }),
            used_bytes: value(bytes),
            inodes_used: value(inodes),
        };
        let containers: Vec<_> = self.pods.lock().containers.values().cloned().collect();
        let written = self.stats.written(&containers, stats::PATIENCE);
        let written: Usage = written.into_iter().flatten().sum();
        let of_containers =
            crate::records::containers(&self.settings.directory).to_string_lossy().into_owned();
        Ok(cri::ImageFsInfoResponse {
            image_filesystems: vec![usage(mountpoint, used, layer_entries(self.images.root()))],
            container_filesystems: vec![usage(of_containers, written.bytes, written.inodes)],
        })
    }
}

/// Files of all layers.
fn layer_entries(root: &Path) -> u64 {
    let read = |layer: std::fs::DirEntry| {
        let text = std::fs::read(layer.path().join("layer.json")).ok()?;
        Some(serde_json::from_slice::<LayerRecord>(&text).ok()?.entries)
    };
    let layers = std::fs::read_dir(root.join("layers")).into_iter().flatten().flatten();
    layers.filter_map(read).sum()
}

/// Pulls it, or waits for who does already.
pub async fn pull(inner: Arc<Inner>, request: cri::PullImageRequest) -> Result<String, Error> {
    let name = request.image.unwrap_or_default().image;
    let reference = Reference::parse(&name)
        .map_err(|error| invalid(format!("failed to parse image reference {name:?}: {error}")))?;
    let login = request.auth.map(|auth| login(auth, reference.domain())).transpose()?.flatten();
    let credentials = login.map(|login| Credential { login, source: None }).into_iter().collect();
    let mut pull = inner.puller.pull(&reference, credentials);
    let image = pull.wait().await.map_err(|error| Error::new(code_of(&error), error.to_string()))?;
    Ok(image.id.to_string())
}

fn code_of(error: &PullError) -> Code {
    match error {
        PullError::Resolve { error: RegistryError::NotFound(_), .. } => Code::NotFound,
        PullError::Cancelled => Code::Canceled,
        _ => Code::Unknown,
    }
}

/// `None`: nothing that is meant for this registry.
fn login(auth: cri::AuthConfig, domain: &str) -> Result<Option<Login>, Error> {
    let server = auth.server_address.as_str();
    let server =
        server.split_once("://").map_or(server, |(_, rest)| rest).split('/').next().unwrap_or_default();
    let is_docker = |name: &str| ["docker.io", "index.docker.io", "registry-1.docker.io"].contains(&name);
    if !(server.is_empty() || server == domain || (is_docker(server) && is_docker(domain))) {
        return Ok(None);
    }
    let mut login = Login {
        username: auth.username,
        password: auth.password,
        identity_token: auth.identity_token,
        registry_token: auth.registry_token,
    };
    let is_empty = login.username.is_empty()
        && login.password.is_empty()
        && login.identity_token.is_empty()
        && login.registry_token.is_empty();
    if is_empty && !auth.auth.is_empty() {
        let wrong = || invalid("invalid auth config");
        let decoded =
            base64::engine::general_purpose::STANDARD.decode(auth.auth.trim()).map_err(|_| wrong())?;
        let decoded = String::from_utf8(decoded).map_err(|_| wrong())?;
        let (username, password) = decoded.split_once(':').ok_or_else(wrong)?;
        login.username = username.to_owned();
        login.password = password.trim_end_matches('\0').to_owned();
    } else if is_empty {
        return Ok(None);
    }
    Ok(Some(login))
}

fn shown(image: Image) -> cri::Image {
    let (uid, username) = match image.config.user() {
        User::Uid(value) => (Some(cri::Int64Value { value }), String::new()),
        User::Name(name) => (None, name),
    };
    cri::Image {
        id: image.id.to_string(),
        repo_tags: image.names.into_iter().collect(),
        repo_digests: image.digests.into_iter().collect(),
        size: image.content_bytes,
        uid,
        username,
        spec: None,
        pinned: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_for_its_registry() {
        let auth = |server: &str, auth: &str| cri::AuthConfig {
            server_address: server.to_owned(),
            auth: auth.to_owned(),
            ..Default::default()
        };
        let found = login(auth("https://registry.example/v1", "dXNlcjpwYXNz"), "registry.example").unwrap();
        let found = found.map(|login| (login.username, login.password));
        assert_eq!(found, Some(("user".to_owned(), "pass".to_owned())));
        assert!(login(auth("other.example", "dXNlcjpwYXNz"), "registry.example").unwrap().is_none());
        assert!(login(auth("", ""), "registry.example").unwrap().is_none());
        assert!(login(auth("", "%"), "registry.example").is_err());
        assert!(login(auth("https://index.docker.io/v1/", "dXNlcjpwYXNz"), "docker.io").unwrap().is_some());
    }
}
