//! The CAs of client certificates: the cluster's, or those of `authentication.x509.clientCAFile`, which is read again when it changes.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use auth::pki::certificates_from_pem;
use auth::x509::ClientCa;
use env::Env;
use parking_lot::Mutex;
use runtime::Stop;
use tokio::sync::watch;

use crate::blocking::block;

/// Between two looks at the file.
const LOOK: Duration = Duration::from_secs(10);
const MAX_BYTES: u64 = 4 << 20;

#[derive(Debug, thiserror::Error)]
#[error("unable to load client CA file {file}: {why}")]
pub struct ClientCaError {
    file: String,
    why: String,
}

pub struct ClientCas {
    current: watch::Sender<Arc<ClientCa>>,
    file: Option<CaFile>,
}

struct CaFile {
    path: PathBuf,
    /// What it said when it was last looked at; held while it is compared.
    content: Mutex<Vec<u8>>,
}

impl ClientCas {
    /// Differs from kubelet, which without a file knows no client certificates: then they are those of the cluster.
    pub fn open(file: Option<&Path>, of_cluster: ClientCa) -> Result<ClientCas, ClientCaError> {
        let Some(path) = file else {
            return Ok(ClientCas { current: watch::Sender::new(Arc::new(of_cluster)), file: None });
        };
        let failed = |why: String| ClientCaError { file: path.display().to_string(), why };
        let content = read(path).map_err(|error| failed(error.to_string()))?;
        let authority = parse(&content).map_err(failed)?;
        let file = Some(CaFile { path: path.to_owned(), content: Mutex::new(content) });
        Ok(ClientCas { current: watch::Sender::new(Arc::new(authority)), file })
    }

    pub fn current(&self) -> Arc<ClientCa> {
        self.current.borrow().clone()
    }

    pub fn subscribe(&self) -> watch::Receiver<Arc<ClientCa>> {
        self.current.subscribe()
    }

    /// A file that cannot be used changes nothing: its last content counts.
    pub fn reload(&self) {
        let Some(CaFile { path, content }) = &self.file else { return };
        let file = path.display();
        let read = match read(path) {
            Ok(read) => read,
            Err(error) => return tracing::error!(%file, %error, "failed to read client CA file"),
        };
        let mut content = content.lock();
        if *content == read {
            return;
        }
        let parsed = parse(&read);
        *content = read;
        match parsed {
            Ok(authority) => {
                tracing::info!(%file, "client CA file changed");
                self.current.send_replace(Arc::new(authority));
            }
            Err(error) => tracing::error!(%file, error, "client CA file cannot be used"),
        }
    }

    /// Looks at the file until the node stops.
    pub async fn follow(self: Arc<ClientCas>, env: Env, stop: Stop) {
        while self.file.is_some() {
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = env.sleep(LOOK) => {}
            }
            let cas = self.clone();
            let _ = block(move || cas.reload()).await;
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("it is too large for certificates"));
    }
    Ok(content)
}

fn parse(content: &[u8]) -> Result<ClientCa, String> {
    certificates_from_pem(content).map(|certificates| ClientCa::new(&certificates))
}
