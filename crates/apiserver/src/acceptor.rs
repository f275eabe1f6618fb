//! Accepts connections: the TLS handshake, and the client's certificate.

use std::sync::Arc;
use std::time::Duration;

use auth::pki::ServingCertificate;
use auth::x509::{self, AcceptAnyClientCert, ClientCa, X509Error};
use rustls::ServerConfig;
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

/// The serving certificate, and the CA of client certificates.
pub struct Tls {
    pub certificate: Arc<ServingCertificate>,
    pub client_ca: ClientCa,
    /// The CA of front proxies, if there are any.
    pub request_header_ca: Option<ClientCa>,
}

/// Accepts connections: TLS, and the client's certificate.
#[derive(Clone)]
pub struct Acceptor {
    acceptor: TlsAcceptor,
    client_ca: Arc<ClientCa>,
}

impl Acceptor {
    pub fn new(tls: Tls) -> Result<Acceptor, ServerError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        // Clients choose a certificate by these names.
        let mut hints = tls.client_ca.hints();
        hints.extend(tls.request_header_ca.iter().flat_map(ClientCa::hints));
        let verifier = AcceptAnyClientCert::new(hints);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(tls.certificate);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Fewer, larger writes when a list or a watch has much to say.
        config.send_tls13_tickets = 1;
        Ok(Acceptor { acceptor: TlsAcceptor::from(Arc::new(config)), client_ca: Arc::new(tls.client_ca) })
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
            ended = serve(api, &self.acceptor, &self.client_ca, stream, connection) => ended,
        }
    }
}

async fn serve<S>(
    api: Arc<Api>,
    acceptor: &TlsAcceptor,
    client_ca: &ClientCa,
    stream: S,
    connection: &Arc<Connection>,
) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = match api.registry().env().timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Err(_) => Err("the TLS handshake took too long".to_owned()),
        Ok(Err(error)) => Err(format!("TLS handshake: {error}")),
        Ok(Ok(stream)) => Ok(stream),
    };
    let stream = handshake.inspect_err(|_| api.metrics.handshake_failed())?;
    let (_, session) = stream.get_ref();
    let http2 = session.alpn_protocol() == Some(b"h2");
    // Verified once per connection; its expiry is checked with every request.
    let now = api.registry().env().now_seconds();
    let chain = session.peer_certificates().filter(|chain| !chain.is_empty());
    let request_headers = api.cluster().request_headers.as_deref();
    let proxy_until = chain.zip(request_headers).and_then(|(chain, headers)| headers.proxy(chain, now));
    let certificate = match chain {
        None => ClientCertificate::None,
        Some(chain) => match x509::authenticate(chain, client_ca, now) {
            Ok(who) => ClientCertificate::Valid {
                user: Arc::new(who.user.authenticated()),
                not_after: who.not_after,
            },
            // A valid certificate without a common name counts as none, as upstream has it.
            Err(X509Error::NoCommonName) => ClientCertificate::None,
            Err(error) => {
                if proxy_until.is_none() {
                    tracing::info!(%error, "client certificate refused");
                }
                ClientCertificate::Invalid
            }
        },
    };
    let metrics = api.metrics.clone();
    let caller = move |now| {
        if let ClientCertificate::Valid { not_after, .. } = &certificate {
            metrics.auth().certificate(not_after.saturating_sub(now));
        }
        let caller = certificate.caller(now);
        match proxy_until {
            Some(not_after) if now <= not_after => Caller::FrontProxy(Box::new(caller)),
            _ => caller,
        }
    };
    serve_connection(api, stream, http2, caller, connection).await
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
