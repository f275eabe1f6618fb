//! Sockets and TLS to the servers of a registry.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use client_http::{Wire, tls};
use env::Env;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::proxy::{Proxies, Proxy};
use super::url::Url;
use crate::hosts::{Endpoint, HostsError, Scheme};

/// Where machines keep the authorities they trust.
const MACHINE_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
/// As containerd's dialer has it.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// How to reach a server, and the servers it sends us to.
#[derive(Clone)]
pub(crate) struct Connector {
    https: bool,
    /// For the server itself: with our certificate, if it wants one.
    own: Arc<ClientConfig>,
    /// For token servers and redirects: they have no business with our certificate.
    others: Arc<ClientConfig>,
    proxies: Arc<Proxies>,
}

/// A connection to a server, or to the proxy that passes single requests on.
pub(crate) struct Connection {
    pub wire: Box<dyn Wire>,
    pub proxy: Option<Proxy>,
}

impl Connector {
    /// Reads the certificates of an endpoint, so it belongs on a thread that may block.
    pub fn new(endpoint: &Endpoint, proxies: &Arc<Proxies>) -> Result<Connector, HostsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let wrong = |path: &Path, problem: String| HostsError { path: path.to_owned(), problem };
        let roots = if endpoint.tls.skip_verify { None } else { Some(roots(&endpoint.tls.authorities)?) };
        let bare = Path::new("TLS");
        let verifier = tls::verifier(roots, &provider).map_err(|problem| wrong(bare, problem))?;
        let builder = || {
            let builder = ClientConfig::builder_with_provider(provider.clone());
            let builder = builder.with_safe_default_protocol_versions();
            let builder = builder.map_err(|error| wrong(bare, error.to_string()))?;
            Ok::<_, HostsError>(builder.dangerous().with_custom_certificate_verifier(verifier.clone()))
        };
        let others = Arc::new(builder()?.with_no_client_auth());
        let own = match endpoint.tls.clients.first() {
            Some((certificate, key)) => {
                let chain = tls::certificates(&read(certificate)?)
                    .map_err(|problem| wrong(certificate, format!("it {problem}")))?;
                let path = key.as_ref().unwrap_or(certificate);
                let key = PrivateKeyDer::from_pem_slice(&read(path)?)
                    .map_err(|error| wrong(path, format!("it is no private key in PEM: {error}")))?;
                let config = builder()?.with_client_auth_cert(chain, key);
                Arc::new(config.map_err(|error| wrong(certificate, error.to_string()))?)
            }
            None => others.clone(),
        };
        let https = endpoint.scheme != Scheme::Http;
        Ok(Connector { https, own, others, proxies: proxies.clone() })
    }

    /// Finds out what is spoken where the name does not say.
    pub async fn settle(&mut self, env: &Env, endpoint: &Endpoint) {
        if endpoint.scheme != Scheme::Either {
            return;
        }
        let url = Url { https: true, authority: endpoint.authority.clone(), path: String::new() };
        let speaks_tls = async {
            // Not to be reached at all: that is for the request to say.
            let Ok(tcp) = TcpStream::connect((url.host(), url.port())).await else { return true };
            let Ok(name) = ServerName::try_from(url.host().to_owned()) else { return false };
            TlsConnector::from(self.others.clone()).connect(name, tcp).await.is_ok()
        };
        self.https = env.timeout(CONNECT_LIMIT, speaks_tls).await.unwrap_or(false);
    }

    pub fn https(&self) -> bool {
        self.https
    }

    /// `own`: whether it is the server itself.
    pub async fn connect(&self, env: &Env, url: &Url, own: bool) -> Result<Connection, String> {
        let proxy = self.proxies.find(url)?;
        let connect = async {
            let first = proxy.as_ref().map_or(url, |proxy| &proxy.url);
            let mut wire = dial(first).await?;
            if let Some(proxy) = &proxy {
                if first.https {
                    // Not the registry: it has no business with our certificate.
                    wire = secure(&self.others, first, wire).await?;
                }
                if url.https {
                    proxy.tunnel(&mut wire, url).await?;
                }
            }
            if url.https {
                let config = if own { &self.own } else { &self.others };
                wire = secure(config, url, wire).await?;
            }
            Ok(wire)
        };
        match env.timeout(CONNECT_LIMIT, connect).await {
            Ok(Ok(wire)) => Ok(Connection { wire, proxy: proxy.filter(|_| !url.https) }),
            Ok(Err(error)) => {
                Err(words(proxy.as_ref().map_or(&url.authority, |proxy| &proxy.url.authority), &error))
            }
            Err(_) => Err(format!("dial tcp {}: i/o timeout", url.authority)),
        }
    }
}

async fn dial(url: &Url) -> io::Result<Box<dyn Wire>> {
    let tcp = TcpStream::connect((url.host(), url.port())).await?;
    tcp.set_nodelay(true)?;
    Ok(Box::new(tcp))
}

async fn secure(config: &Arc<ClientConfig>, url: &Url, wire: Box<dyn Wire>) -> io::Result<Box<dyn Wire>> {
    let name = ServerName::try_from(url.host().to_owned())
        .map_err(|_| io::Error::other(format!("{:?} is no name of a server", url.host())))?;
    Ok(Box::new(TlsConnector::from(config.clone()).connect(name, wire).await?))
}

/// The common failures in the words people search for.
fn words(authority: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("dial tcp {authority}: connect: connection refused"),
        _ => error.to_string(),
    }
}

/// The authorities this machine trusts.
pub fn machine_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = MACHINE_AUTHORITIES.iter().find_map(|path| fs::read(path).ok()) {
        roots.add_parsable_certificates(tls::authorities(&pem).unwrap_or_default());
    }
    roots
}

/// The machine's authorities, and those of the registry.
fn roots(authorities: &[PathBuf]) -> Result<RootCertStore, HostsError> {
    let mut roots = machine_roots();
    for path in authorities {
        let wrong = |problem: String| HostsError { path: path.clone(), problem };
        for certificate in
            tls::certificates(&read(path)?).map_err(|problem| wrong(format!("it {problem}")))?
        {
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
        }
    }
    if roots.is_empty() {
        let path = PathBuf::from(MACHINE_AUTHORITIES[0]);
        return Err(HostsError {
            path,
            problem: "this machine trusts no authority, and none is given".to_owned(),
        });
    }
    Ok(roots)
}

fn read(path: &Path) -> Result<Vec<u8>, HostsError> {
    fs::read(path).map_err(|error| HostsError { path: path.to_owned(), problem: error.to_string() })
}
