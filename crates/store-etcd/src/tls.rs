//! The files TLS to etcd is made from: whom we trust, and who we are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

/// PEM files, as `kube-apiserver --etcd-cafile` and its siblings take them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that may have signed etcd's certificate.
    pub ca: PathBuf,
    /// Our certificate and its key, for an etcd that asks for one.
    pub client: Option<(PathBuf, PathBuf)>,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsFileError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is not PEM: {why}", path.display())]
    Malformed { path: PathBuf, why: String },
    #[error("{} holds no certificate", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} holds no private key", .0.display())]
    NoKey(PathBuf),
    #[error("a certificate in {} cannot be used: {source}", path.display())]
    Unusable { path: PathBuf, source: rustls::Error },
    #[error("{} and {} do not belong together: {source}", certificate.display(), key.display())]
    Pair { certificate: PathBuf, key: PathBuf, source: rustls::Error },
    #[error("TLS cannot be set up")]
    Provider(#[source] rustls::Error),
}

impl TlsFiles {
    /// Reads them once; new files are seen by the next start.
    pub fn load(&self) -> Result<Arc<ClientConfig>, TlsFileError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.ca)? {
            roots
                .add(certificate)
                .map_err(|source| TlsFileError::Unusable { path: self.ca.clone(), source })?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsFileError::Provider)?
            .with_root_certificates(roots);
        let Some((certificate, key)) = &self.client else {
            return Ok(Arc::new(config.with_no_client_auth()));
        };
        let pair = |source| TlsFileError::Pair { certificate: certificate.clone(), key: key.clone(), source };
        Ok(Arc::new(
            config.with_client_auth_cert(certificates(certificate)?, private_key(key)?).map_err(pair)?,
        ))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    let found = found.map_err(|e| malformed(path, &e))?;
    if found.is_empty() { Err(TlsFileError::NoCertificate(path.to_owned())) } else { Ok(found) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsFileError::NoKey(path.to_owned()),
        error => malformed(path, &error),
    })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsFileError> {
    std::fs::read(path).map_err(|source| TlsFileError::Read { path: path.to_owned(), source })
}

fn malformed(path: &Path, why: &pem::Error) -> TlsFileError {
    TlsFileError::Malformed { path: path.to_owned(), why: why.to_string() }
}
