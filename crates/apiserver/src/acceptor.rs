//! Accepts connections: the TLS handshake, and the client's certificate.

use std::sync::Arc;
use std::time::Duration;

use auth::pki::ServingCertificate;
use auth::x509::{self, AcceptAnyClientCert, X509Error};
use auth::{Authorities, CaBundle};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use crate::api::Api;
use crate::authenticate::Caller;
use crate::connection::Connection;
use crate::connections::OpenConnection;
use crate::serve_connection::serve_connection;
use crate::server::ServerError;

/// A client must finish its TLS handshake within this.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The serving certificate, and the CAs of client certificates: all of them may be replaced while the server runs.
pub struct Tls {
    pub certificate: Arc<ServingCertificate>,
    pub client_ca: Arc<CaBundle>,
    /// The CAs of front proxies, if there are any.
    pub request_header_ca: Option<Arc<CaBundle>>,
}

/// Accepts connections: TLS, and the client's certificate.
#[derive(Clone)]
pub struct Acceptor {
    tls: Arc<Tls>,
    /// Guards what handshakes are made with; held while it is made anew.
    handshakes: Arc<Mutex<Handshakes>>,
}

/// What handshakes are made with, as long as the CAs stay the same.
struct Handshakes {
    acceptor: TlsAcceptor,
    of: Trusted,
}

/// The CAs that count at a moment.
#[derive(Clone)]
struct Trusted {
    clients: Arc<Authorities>,
    proxies: Option<Arc<Authorities>>,
}

impl Trusted {
    fn is(&self, other: &Trusted) -> bool {
        let proxies = |of: &Trusted| of.proxies.as_ref().map(Arc::as_ptr);
        Arc::ptr_eq(&self.clients, &other.clients) && proxies(self) == proxies(other)
    }
}

impl Tls {
    fn trusted(&self) -> Trusted {
        Trusted {
            clients: self.client_ca.current(),
            proxies: self.request_header_ca.as_ref().map(|bundle| bundle.current()),
        }
    }

    fn acceptor(&self, trusted: &Trusted) -> Result<TlsAcceptor, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        // Clients choose a certificate by these names.
        let mut hints = trusted.clients.ca.hints();
        hints.extend(trusted.proxies.iter().flat_map(|authorities| authorities.ca.hints()));
        let verifier = AcceptAnyClientCert::new(hints);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(self.certificate.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Fewer, larger writes when a list or a watch has much to say.
        config.send_tls13_tickets = 1;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl Acceptor {
    pub fn new(tls: Tls) -> Result<Acceptor, ServerError> {
        let of = tls.trusted();
        let handshakes = Handshakes { acceptor: tls.acceptor(&of)?, of };
        Ok(Acceptor { tls: Arc::new(tls), handshakes: Arc::new(Mutex::new(handshakes)) })
    }

    fn current(&self) -> TlsAcceptor {
        let now = self.tls.trusted();
        let mut handshakes = self.handshakes.lock();
        if !handshakes.of.is(&now) {
            match self.tls.acceptor(&now) {
                Ok(acceptor) => *handshakes = Handshakes { acceptor, of: now },
                Err(error) => tracing::error!(%error, "handshakes name the old client CAs"),
            }
        }
        handshakes.acceptor.clone()
    }

    /// Serves one connection to its end: a socket, or a pipe in a test.
    pub async fn serve<S>(&self, api: Arc<Api>, stream: S) -> Result<(), String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let open = api.connections.open(api.registry().env());
        self.serve_open(api, stream, open).await
    }

    pub(crate) async fn serve_open<S>(
        &self,
        api: Arc<Api>,
        stream: S,
        open: OpenConnection,
    ) -> Result<(), String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let connection = open.connection();
        tokio::select! {
            biased;
            () = connection.aborted() => Err("closed to free its memory or descriptor".to_owned()),
            ended = serve(api, self, stream, connection) => ended,
        }
    }
}

async fn serve<S>(
    api: Arc<Api>,
    acceptor: &Acceptor,
    stream: S,
    connection: &Arc<Connection>,
) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = acceptor.current().accept(stream);
    let handshake = match api.registry().env().timeout(HANDSHAKE_TIMEOUT, handshake).await {
        Err(_) => Err("the TLS handshake took too long".to_owned()),
        Ok(Err(error)) => Err(format!("TLS handshake: {error}")),
        Ok(Ok(stream)) => Ok(stream),
    };
    let stream = handshake.inspect_err(|_| api.metrics.handshake_failed())?;
    let (_, session) = stream.get_ref();
    let http2 = session.alpn_protocol() == Some(b"h2");
    let chain = session.peer_certificates().filter(|chain| !chain.is_empty());
    let peer = chain.map(|chain| Peer::new(&api, &acceptor.tls, chain));
    let caller = move |now| peer.as_ref().map_or(Caller::Unknown, |peer| peer.caller(now));
    serve_connection(api, stream, http2, caller, connection).await
}

/// A client with a certificate. It is verified once per connection, and again when the CAs are replaced; its expiry is checked with
/// every request.
struct Peer {
    api: Arc<Api>,
    tls: Arc<Tls>,
    chain: Vec<CertificateDer<'static>>,
    /// Guards what was found last; held while it is compared, or found anew.
    verified: Mutex<Verified>,
}

struct Verified {
    by: Trusted,
    certificate: ClientCertificate,
    /// It is a front proxy's, so long.
    proxy_until: Option<u64>,
}

impl Peer {
    fn new(api: &Arc<Api>, tls: &Arc<Tls>, chain: &[CertificateDer<'static>]) -> Peer {
        let verified = verify(api, chain, tls.trusted(), api.registry().env().now_seconds());
        Peer { api: api.clone(), tls: tls.clone(), chain: chain.to_vec(), verified: Mutex::new(verified) }
    }

    fn caller(&self, now: u64) -> Caller {
        let trusted = self.tls.trusted();
        let mut verified = self.verified.lock();
        if !verified.by.is(&trusted) {
            *verified = verify(&self.api, &self.chain, trusted, now);
        }
        if let ClientCertificate::Valid { not_after, .. } = &verified.certificate {
            self.api.metrics.auth().certificate(not_after.saturating_sub(now));
        }
        let caller = verified.certificate.caller(now);
        match verified.proxy_until {
            Some(not_after) if now <= not_after => Caller::FrontProxy(Box::new(caller)),
            _ => caller,
        }
    }
}

fn verify(api: &Api, chain: &[CertificateDer<'_>], by: Trusted, now: u64) -> Verified {
    let proxy_until = api.cluster().request_headers.as_ref().and_then(|headers| headers.proxy(chain, now));
    let certificate = match x509::authenticate(chain, &by.clients.ca, now) {
        Ok(who) => {
            ClientCertificate::Valid { user: Arc::new(who.user.authenticated()), not_after: who.not_after }
        }
        // A valid certificate without a common name counts as none, as upstream has it.
        Err(X509Error::NoCommonName) => ClientCertificate::None,
        Err(error) => {
            if proxy_until.is_none() {
                tracing::info!(%error, "client certificate refused");
            }
            ClientCertificate::Invalid
        }
    };
    Verified { by, certificate, proxy_until }
}

#[derive(Clone)]
enum ClientCertificate {
    None,
    Valid { user: Arc<auth::UserInfo>, not_after: u64 },
    Invalid,
}

impl ClientCertificate {
    fn caller(&self, now: u64) -> Caller {
        match self {
            ClientCertificate::None => Caller::Unknown,
            ClientCertificate::Valid { user, not_after } if now <= *not_after => Caller::Known(user.clone()),
            ClientCertificate::Valid { .. } | ClientCertificate::Invalid => Caller::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_expires_on_an_open_connection_is_refused() {
        let user = Arc::new(auth::UserInfo::new("jane", &[]));
        let certificate = ClientCertificate::Valid { user, not_after: 100 };
        assert!(matches!(certificate.caller(100), Caller::Known(_)));
        assert!(matches!(certificate.caller(101), Caller::Refused));
    }
}
