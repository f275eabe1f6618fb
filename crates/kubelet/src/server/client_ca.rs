//! The CAs of client certificates: the cluster's, or those of `authentication.x509.clientCAFile`, which is read again when it changes.

use std::path::Path;
use std::sync::Arc;

use auth::pki::certificates_from_pem;
use auth::{Authorities, CaBundle, FollowedFiles, UnreadableFile};
use env::Env;
use parking_lot::Mutex;
use runtime::Stop;
use tokio::sync::watch;

#[derive(Debug, thiserror::Error)]
#[error("unable to load client CA file {file}: {why}")]
pub struct ClientCaError {
    file: String,
    why: String,
}

pub struct ClientCas {
    bundle: Arc<CaBundle>,
    /// Until it is followed. Held to take it.
    file: Mutex<Option<FollowedFiles>>,
}

impl ClientCas {
    /// Differs from kubelet, which without a file knows no client certificates: then they are those of the cluster.
    pub fn open(file: Option<&Path>, of_cluster: Arc<CaBundle>) -> Result<ClientCas, ClientCaError> {
        let Some(path) = file else { return Ok(ClientCas { bundle: of_cluster, file: Mutex::default() }) };
        let failed = |why: String| ClientCaError { file: path.display().to_string(), why };
        let files = FollowedFiles::open("the CAs of clients", &[path]);
        let files = files.map_err(|UnreadableFile { source, .. }| failed(source.to_string()))?;
        let certificates = files.contents().iter().map(|pem| certificates_from_pem(pem));
        let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(failed)?.concat();
        Ok(ClientCas { bundle: Arc::new(CaBundle::new(&certificates)), file: Mutex::new(Some(files)) })
    }

    pub fn current(&self) -> Arc<Authorities> {
        self.bundle.current()
    }

    pub fn subscribe(&self) -> watch::Receiver<Arc<Authorities>> {
        self.bundle.subscribe()
    }

    #[cfg(test)]
    pub fn reload(&self) {
        if let Some(file) = &mut *self.file.lock() {
            file.reload(|contents| self.bundle.swap_pem(&contents.concat()));
        }
    }

    /// Looks at the file until the node stops. One that cannot be used changes nothing: its last content counts.
    pub async fn follow(self: Arc<ClientCas>, env: Env, stop: Stop) {
        let Some(files) = self.file.lock().take() else { return };
        let take = |contents: &[Vec<u8>]| self.bundle.swap_pem(&contents.concat());
        files.follow(env, stop.stopped(), take).await;
    }
}
