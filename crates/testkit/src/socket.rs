//! The same cluster behind a real TLS socket, for clients that need an address.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use apiserver::{Server, Tls};
use auth::pki::ServingCertificate;
use auth::{CaBundle, Pki};
use tempfile::TempDir;

use crate::TestCluster;

/// Where the cluster listens. The certificates live as long as this value.
pub struct Served {
    pub address: SocketAddr,
    /// The administrator's kubeconfig, as text.
    pub kubeconfig: String,
    pub pki: Pki,
    /// The serving certificate; can be replaced while the server runs.
    pub certificate: Arc<ServingCertificate>,
    /// The CAs of clients; can be replaced, too.
    pub client_ca: Arc<CaBundle>,
    directory: TempDir,
}

impl Served {
    /// Where the CA's files are.
    pub fn pki_directory(&self) -> PathBuf {
        self.directory.path().join("pki")
    }
}

impl TestCluster {
    /// Listens on a free port of this machine until the cluster shuts down. Only with the system clock:
    /// paused time would advance while a socket waits.
    pub async fn serve(&mut self) -> Result<Served> {
        let directory = tempfile::tempdir().context("a directory for certificates")?;
        let now = self.env().now_seconds();
        let pki = Pki::open_or_create(&directory.path().join("pki"), now, &["127.0.0.1".to_owned()])?;
        let certificate = Arc::new(ServingCertificate::new(pki.serving()).map_err(|e| anyhow!("{e}"))?);
        let request_header_ca = self.api().request_headers().map(|headers| headers.authority().clone());
        let client_ca = Arc::new(pki.ca_bundle());
        let tls = Tls { certificate: certificate.clone(), client_ca: client_ca.clone(), request_header_ca };
        let server = Server::bind(self.api().clone(), "127.0.0.1:0", tls).await?;
        let address = server.address()?;
        let task = self.env().spawn("server", server.run());
        self.sockets.push(task);
        let kubeconfig = pki.admin_kubeconfig(&format!("https://{address}"));
        Ok(Served { address, kubeconfig, pki, certificate, client_ca, directory })
    }
}
