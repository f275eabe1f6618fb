//! What the volumes of pods hold and could hold, for `/stats/summary` and the metrics of claims.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use container::disk_usage;
use object::Value;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::local::{self, LocalVolume};
use super::source::{self, LOCAL_VOLUME, Source};
use super::{Volumes, claim};
use crate::server::stats::{FsStats, VolumeStats, fs_of};

/// Kubelet's `volumeStatsAggPeriod`: to count the files of a volume may take long.
const KEPT: Duration = Duration::from_secs(60);

/// How the numbers of a volume are had.
enum Measured {
    /// Its files are counted; all else is the file system's.
    Files,
    /// All are the file system's, which is the volume's own.
    FileSystem,
}

struct Place {
    name: String,
    path: PathBuf,
    measured: Measured,
    claim: Option<(String, String)>,
    is_ephemeral: bool,
}

impl Volumes {
    /// Those that are made and can be measured, in the order of the spec: directories of the machine and images are not.
    pub async fn stats(&self, pod: &Value) -> Vec<VolumeStats> {
        let uid = pod.str_at(&["metadata", "uid"]).unwrap_or_default();
        if !local::is_name(uid) {
            return Vec::new();
        }
        let (mounts, _) = source::used(pod);
        let mut places = Vec::new();
        for volume in pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default() {
            let name = volume.str_at(&["name"]).unwrap_or_default();
            if mounts.contains(name) && local::is_name(name) {
                places.extend(self.place(pod, uid, name, &Source::read(pod, volume)).await);
            }
        }
        let now = i64::try_from(self.env.now_nanos()).unwrap_or(i64::MAX);
        let measure = move || places.into_iter().filter_map(|place| measure(place, now)).collect();
        self.blocking(measure).await.unwrap_or_default()
    }

    async fn place(&self, pod: &Value, uid: &str, name: &str, source: &Source<'_>) -> Option<Place> {
        let volumes = self.pod_directory(uid).join("volumes");
        let is_ephemeral = match source {
            Source::ConfigMap(_) => true,
            Source::EmptyDir(source) => source.str_at(&["medium"]).unwrap_or_default().is_empty(),
            _ => false,
        };
        match source {
            Source::Claim { name: of, ephemeral, .. } => {
                let volume = claim::volume(&*self.client, pod, of, *ephemeral).await.ok()?;
                let path = match local::read(&volume, &self.provisioned, name, true, false).ok()? {
                    LocalVolume::Local { .. } => {
                        volumes.join(LOCAL_VOLUME).join(volume.str_at(&["metadata", "name"])?)
                    }
                    LocalVolume::Provisioned { path } => PathBuf::from(path),
                    LocalVolume::HostPath { .. } => return None,
                };
                let namespace = pod.str_at(&["metadata", "namespace"]).unwrap_or_default();
                let claim = Some((namespace.to_owned(), of.clone()));
                let measured = Measured::FileSystem;
                Some(Place { name: name.to_owned(), path, measured, claim, is_ephemeral })
            }
            Source::HostPath { .. } | Source::Image { .. } | Source::Unsupported(_) => None,
            files => {
                let path = volumes.join(files.directory()).join(name);
                let measured = Measured::Files;
                Some(Place { name: name.to_owned(), path, measured, claim: None, is_ephemeral })
            }
        }
    }
}

fn measure(place: Place, now: i64) -> Option<VolumeStats> {
    let Place { name, path, measured, claim, is_ephemeral } = place;
    let whole = fs_of(&path, now).ok()?;
    let fs = match measured {
        Measured::FileSystem => whole,
        Measured::Files => {
            let used = disk_usage::measure(&path).ok()?;
            FsStats { used_bytes: Some(used.bytes), inodes_used: Some(used.inodes), ..whole }
        }
    };
    Some(VolumeStats { name, fs, claim, is_ephemeral })
}

/// What was measured within the last minute.
pub struct KeptStats {
    volumes: Arc<Volumes>,
    /// By the pod's uid. Held to look something up.
    kept: Mutex<BTreeMap<String, (Instant, Vec<VolumeStats>)>>,
}

impl KeptStats {
    pub fn new(volumes: Arc<Volumes>) -> KeptStats {
        KeptStats { volumes, kept: Mutex::default() }
    }

    pub async fn of(&self, pod: &Value) -> Vec<VolumeStats> {
        let uid = pod.str_at(&["metadata", "uid"]).unwrap_or_default();
        let now = self.volumes.env.monotonic();
        let is_new = |measured: &Instant| now.duration_since(*measured) < KEPT;
        if let Some((measured, stats)) = self.kept.lock().get(uid)
            && is_new(measured)
        {
            return stats.clone();
        }
        let stats = self.volumes.stats(pod).await;
        let mut kept = self.kept.lock();
        kept.retain(|_, (measured, _)| is_new(measured));
        kept.insert(uid.to_owned(), (now, stats.clone()));
        stats
    }
}
