//! How this server speaks to kubelets: as whom, whom it believes to be one, and at which of a node's addresses.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use auth::Pki;
use auth::pki::{PkiError, YEAR_SECONDS};
use client_http::Config;
use env::Env;
use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use streaming::Io;
use webhook::HostPort;

/// kubeadm's name for this identity.
const CLIENT_NAME: &str = "kube-apiserver-kubelet-client";

/// What a kubelet client is made of.
#[derive(Clone)]
pub struct KubeletClientConfig {
    /// The CA of kubelets' serving certificates, as PEM. Without one any certificate will do, as upstream has it.
    pub authority_pem: Option<String>,
    /// The identity of this server; without one it is anonymous there.
    pub certificate: Option<Arc<dyn ResolvesClientCert>>,
    /// Types of node addresses, best first.
    pub preferred_address_types: Vec<String>,
    /// How long a connection may take to be opened.
    pub timeout: Duration,
    /// Opens connections to nodes and pods; None: TCP.
    pub dialer: Option<Dialer>,
}

/// Opens a connection without TLS.
pub type Dialer = Arc<dyn Fn(HostPort) -> BoxFuture<'static, io::Result<Io>> + Send + Sync>;

impl Default for KubeletClientConfig {
    fn default() -> KubeletClientConfig {
        let types = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
        KubeletClientConfig {
            authority_pem: None,
            certificate: None,
            preferred_address_types: types.map(str::to_owned).to_vec(),
            timeout: Duration::from_secs(5),
            dialer: None,
        }
    }
}

/// Ready to connect.
#[derive(Clone)]
pub struct KubeletClient {
    verified: Arc<ClientConfig>,
    unverified: Arc<ClientConfig>,
    /// For pods: as nobody, and without verification, because their certificates name no addresses.
    pub(super) pods: Arc<ClientConfig>,
    pub(super) preferred_address_types: Vec<String>,
    pub(super) timeout: Duration,
    pub(super) dialer: Option<Dialer>,
}

impl fmt::Debug for KubeletClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeletClient").finish_non_exhaustive()
    }
}

impl KubeletClient {
    /// The error says what is wrong with the CA.
    pub fn new(env: &Env, config: KubeletClientConfig) -> Result<KubeletClient, String> {
        let tls = |authority_pem: Option<&String>| {
            let authority_pem = authority_pem.map(|pem| pem.clone().into_bytes());
            let base = Config { skip_verify: authority_pem.is_none(), authority_pem, ..Config::default() };
            let provider = rustls::crypto::ring::default_provider();
            let tls = client_http::tls::client_config(&base, provider, &[b"http/1.1"]);
            let mut tls = tls.map_err(|error| error.to_string())?;
            tls.time_provider = Arc::new(client_http::tls::Clock(env.clone()));
            Ok::<_, String>(tls)
        };
        let with_identity = |mut tls: ClientConfig| {
            if let Some(certificate) = &config.certificate {
                tls.client_auth_cert_resolver = certificate.clone();
            }
            Arc::new(tls)
        };
        Ok(KubeletClient {
            verified: with_identity(tls(config.authority_pem.as_ref())?),
            unverified: with_identity(tls(None)?),
            pods: Arc::new(tls(None)?),
            preferred_address_types: config.preferred_address_types,
            timeout: config.timeout,
            dialer: config.dialer,
        })
    }

    /// What opens connections to nodes and pods; None: TCP.
    pub(crate) fn dialer(&self) -> Option<Dialer> {
        self.dialer.clone()
    }

    /// `skip_verify`: whatever the configuration says.
    pub(crate) fn tls(&self, skip_verify: bool) -> Arc<ClientConfig> {
        if skip_verify { self.unverified.clone() } else { self.verified.clone() }
    }
}

impl Default for KubeletClient {
    fn default() -> KubeletClient {
        KubeletClient::new(&Env::machine(), KubeletClientConfig::default())
            .expect("nothing in it can be wrong")
    }
}

/// This server's certificate for kubelets, issued by the cluster's CA and never written to a file.
#[derive(Debug)]
pub struct KubeletClientCertificate {
    /// Guards the certificate and the second it was issued; held while cloning an `Arc`.
    current: RwLock<(Arc<CertifiedKey>, u64)>,
}

impl KubeletClientCertificate {
    pub fn issue(pki: &Pki, now: u64) -> Result<Arc<KubeletClientCertificate>, PkiError> {
        Ok(Arc::new(KubeletClientCertificate { current: RwLock::new((issue(pki, now)?, now)) }))
    }

    /// From files; never renewed. The error says what is wrong with them.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Arc<KubeletClientCertificate>, String> {
        let (key, never) = (certified_key(certificate, key)?, u64::MAX);
        Ok(Arc::new(KubeletClientCertificate { current: RwLock::new((Arc::new(key), never)) }))
    }

    /// Issues another one when a third of its time is left; true if it did.
    pub fn renew_if_due(&self, pki: &Pki, now: u64) -> Result<bool, PkiError> {
        let issued = self.current.read().1;
        if now.saturating_sub(issued) < YEAR_SECONDS / 3 * 2 {
            return Ok(false);
        }
        *self.current.write() = (issue(pki, now)?, now);
        Ok(true)
    }
}

/// A certificate and its key, both in PEM; the error says what is wrong with them.
pub(crate) fn certified_key(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
    let chain = client_http::tls::certificates(certificate)
        .map_err(|problem| format!("the certificate {problem}"))?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| format!("the key is no private key in PEM: {error}"))?;
    let key = rustls::crypto::ring::sign::any_supported_type(&key)
        .map_err(|error| format!("the key cannot be used: {error}"))?;
    let key = CertifiedKey::new(chain, key);
    // An unknown match is not a mismatch.
    if let Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) = key.keys_match() {
        return Err("the key is not the certificate's".to_owned());
    }
    Ok(key)
}

fn issue(pki: &Pki, now: u64) -> Result<Arc<CertifiedKey>, PkiError> {
    let groups = [auth::groups::MASTERS.to_owned()];
    Ok(pki.issue_client(CLIENT_NAME, &groups, YEAR_SECONDS, now)?.certified_key()?)
}

impl ResolvesClientCert for KubeletClientCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}
