//! Removes images that nobody uses when their disk is nearly full.

use std::collections::BTreeSet;

use codec::json;

use super::collect::{self, Pressure};
use super::{ImageEvent, Images, warning};
use crate::config::Config;

/// The file system images are on, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFileSystem {
    pub capacity: u64,
    pub available: u64,
}

/// Why not enough was freed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct GarbageError {
    pub message: String,
    /// An event of the node, if people should know.
    pub event: Option<ImageEvent>,
}

impl GarbageError {
    fn plain(error: impl std::fmt::Display) -> GarbageError {
        GarbageError { message: error.to_string(), event: None }
    }
    fn told(reason: &'static str, message: String) -> GarbageError {
        GarbageError { event: Some(warning(reason, message.clone())), message }
    }
}

impl Images {
    /// Takes note of which images are used; to be called every few minutes, as their age begins with it. Those in use, by id.
    pub async fn detect(&self) -> Result<BTreeSet<String>, GarbageError> {
        let now = self.now_nanos();
        let images = self.shared.runtime.list_images(cri::ListImagesRequest::default()).await;
        let mut images = images.map_err(GarbageError::plain)?.images;
        self.pin_sandbox_image(&mut images).await;
        let containers = self.shared.runtime.list_containers(cri::ListContainersRequest::default()).await;
        let containers = containers.map_err(GarbageError::plain)?.containers;
        let mut statuses = Vec::new();
        for container in &containers {
            let request = cri::ContainerStatusRequest { container_id: container.id.clone(), verbose: false };
            match self.shared.runtime.container_status(request).await {
                Ok(answer) => statuses.extend(answer.status),
                // It is gone meanwhile, and what it used with it.
                Err(error) if error.code == cri::Code::NotFound => {}
                Err(error) => return Err(GarbageError::plain(format!("get container status: {error}"))),
            }
        }
        let in_use = collect::images_in_use(&containers, &statuses);
        self.known.lock().detect(&images, &in_use, now);
        Ok(in_use)
    }

    /// Differs from kubelet: what sandboxes run of a runtime that does not pin it yet (containerd before 1.7.3) is kept. It is in no
    /// container, and where there is no registry no pod would start without it.
    async fn pin_sandbox_image(&self, images: &mut [cri::Image]) {
        let Ok(status) = self.shared.runtime.status(cri::StatusRequest { verbose: true }).await else {
            return;
        };
        let config = status.info.get("config").and_then(|text| json::parse(text.as_bytes(), None).ok());
        let Some(name) = config.as_ref().and_then(|config| config.str_at(&["sandboxImage"])) else { return };
        for image in images.iter_mut().filter(|image| image.repo_tags.iter().any(|tag| tag == name)) {
            image.pinned = true;
        }
    }

    /// Frees space down to the low threshold if the high one is passed. The bytes that were freed.
    pub async fn collect_garbage(&self, config: &Config, disk: ImageFileSystem) -> Result<u64, GarbageError> {
        let began = self.shared.now_seconds();
        let in_use = self.detect().await?;
        let (high, low) = (config.image_gc_high_threshold_percent, config.image_gc_low_threshold_percent);
        let pressure = collect::pressure(disk.capacity, disk.available, high, low)
            .map_err(|message| GarbageError::told("InvalidDiskCapacity", message))?;
        let Some(pressure) = pressure else { return Ok(0) };
        let freed = self.free(pressure.to_free, &in_use, config, began).await?;
        self.enough(&pressure, freed)
    }

    /// Removes all images that nobody uses: the last resort against a full disk.
    pub async fn delete_unused(&self, config: &Config) -> Result<u64, GarbageError> {
        let began = self.shared.now_seconds();
        let in_use = self.detect().await?;
        self.free(u64::MAX, &in_use, config, began).await
    }

    /// Removes images that nobody used for longer than they may be kept. To be called only by a process as old as that: it does not
    /// know what was used before. How many were removed.
    pub async fn delete_old(&self, config: &Config) -> Result<usize, GarbageError> {
        let in_use = self.detect().await?;
        let now = self.now_nanos();
        let old = self.known.lock().unused_for(config.image_maximum_gc_age, &in_use, now);
        let mut removed = 0;
        for image in old {
            let spec = cri::ImageSpec { image: image.clone(), ..Default::default() };
            match self.shared.runtime.remove_image(cri::RemoveImageRequest { image: Some(spec) }).await {
                Ok(_) => {
                    tracing::info!(image, "removed an image that was not used for long");
                    self.known.lock().forget(&image);
                    removed += 1;
                }
                Err(error) => tracing::warn!(image, %error, "failed to remove an old image"),
            }
        }
        Ok(removed)
    }

    fn enough(&self, pressure: &Pressure, freed: u64) -> Result<u64, GarbageError> {
        if freed >= pressure.to_free {
            return Ok(freed);
        }
        Err(GarbageError::told("FreeDiskSpaceFailed", pressure.not_relieved(freed)))
    }

    /// `began`: when the images were looked at. Records of those that came since stay.
    async fn free(
        &self,
        wanted: u64,
        in_use: &BTreeSet<String>,
        config: &Config,
        began: i64,
    ) -> Result<u64, GarbageError> {
        // A moment after the look: an image that was in use then is never a candidate.
        let now = self.now_nanos().saturating_add(1);
        let (mut freed, mut errors) = (0_u64, Vec::new());
        // One that cannot be removed makes room for the next.
        let mut skipped = in_use.clone();
        while freed < wanted {
            let plan = self.known.lock().plan(1, &skipped, config.image_minimum_gc_age, now);
            let Some(image) = plan.remove.into_iter().next() else { break };
            let spec = cri::ImageSpec { image: image.clone(), ..Default::default() };
            match self.shared.runtime.remove_image(cri::RemoveImageRequest { image: Some(spec) }).await {
                Ok(_) => {
                    tracing::info!(image, size = plan.freed, "removed image to free space");
                    freed = freed.saturating_add(plan.freed);
                    self.known.lock().forget(&image);
                }
                Err(error) => errors.push(error.to_string()),
            }
            skipped.insert(image);
        }
        let left = self.known.lock().ids();
        if let Err(error) = self.prune_records(left, began).await {
            tracing::error!(error, "failed to forget records of images");
        }
        match crate::volumes::aggregate(errors) {
            None => Ok(freed),
            Some(errors) => Err(GarbageError::plain(format!(
                "wanted to free {wanted} bytes, but freed {freed} bytes space with errors in image deletion: {errors}"
            ))),
        }
    }

    fn now_nanos(&self) -> i128 {
        i128::try_from(self.shared.env.now_nanos()).unwrap_or(i128::MAX)
    }
}
