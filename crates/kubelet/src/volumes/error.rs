//! Why a pod has to wait for its volumes, in kubelet's words.

/// Why not all volumes of a pod could be mounted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.summary())]
pub struct VolumeError {
    pub failures: Vec<VolumeFailure>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFailure {
    /// Its name in the pod.
    pub volume: String,
    /// `None`: its claim is not ready, which kubelet tells only in the summary.
    pub event: Option<String>,
    pub cause: String,
}

impl VolumeError {
    /// The reason of its events.
    pub const REASON: &str = "FailedMount";

    /// The message of one event for each volume that failed.
    pub fn events(&self) -> impl Iterator<Item = &str> {
        self.failures.iter().filter_map(|failure| failure.event.as_deref())
    }

    /// What kubelet says when it has waited long enough; `Unable to attach or mount volumes: ` comes first in its event.
    pub fn summary(&self) -> String {
        let names = |which: &dyn Fn(&VolumeFailure) -> bool| {
            let names: Vec<&str> =
                self.failures.iter().filter(|f| which(f)).map(|f| f.volume.as_str()).collect();
            names.join(" ")
        };
        let claims: Vec<&str> =
            self.failures.iter().filter(|f| f.event.is_none()).map(|f| f.cause.as_str()).collect();
        let why = if claims.is_empty() { "context deadline exceeded".to_owned() } else { claims.join("; ") };
        format!(
            "unmounted volumes=[{}], unattached volumes=[], failed to process volumes=[{}]: {why}",
            names(&|_| true),
            names(&|failure| failure.event.is_none()),
        )
    }
}

/// Of a volume that could not be set up. `spec_name` is that of the PersistentVolume, where there is one.
pub(super) fn failure(volume: &str, spec_name: &str, cause: String) -> VolumeFailure {
    step_failure("MountVolume.SetUp failed", volume, spec_name, cause)
}

pub(super) fn step_failure(step: &str, volume: &str, spec_name: &str, cause: String) -> VolumeFailure {
    let event = Some(format!("{step} for volume {spec_name:?} : {cause}"));
    VolumeFailure { volume: volume.to_owned(), event, cause }
}
