//! Reads what a node uses from its kubelet, over HTTPS.

use std::sync::Arc;

use bytes::Bytes;
use env::Env;
use futures_util::future::BoxFuture;
use http::header::HOST;
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::scrape::NodeScraper;
use super::targets::NodeEndpoint;

/// Some kilobytes for each pod, of the many nodes that are asked at the same time.
const MAX_TEXT: usize = 8 << 20;

/// Asks kubelets with a TLS configuration that has the identity of this server, and the CA of theirs.
pub struct KubeletScraper {
    env: Env,
    tls: TlsConnector,
}

impl KubeletScraper {
    pub fn new(env: &Env, tls: Arc<ClientConfig>) -> KubeletScraper {
        KubeletScraper { env: env.clone(), tls: TlsConnector::from(tls) }
    }

    async fn get(&self, host: &str, port: u16) -> Result<String, String> {
        let tcp = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let tls = self.tls.connect(name, tcp).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(tls)).await.map_err(|error| error.to_string())?;
        // Ends with the sender.
        let driven = self.env.spawn("scrape-connection", async move {
            let _ = connection.await;
        });
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = http::Uri::from_static("/metrics/resource");
        let authority =
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let authority = HeaderValue::from_str(&authority).map_err(|error| error.to_string())?;
        request.headers_mut().insert(HOST, authority);
        let answered = async {
            let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_TEXT).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            if status != StatusCode::OK {
                let text = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
                return Err(format!("request failed, status: {status:?}: {text}"));
            }
            String::from_utf8(body.to_vec()).map_err(|error| error.to_string())
        }
        .await;
        driven.abort();
        answered
    }
}

impl NodeScraper for KubeletScraper {
    fn scrape<'a>(&'a self, node: &'a NodeEndpoint) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let (host, port) = (node.host.as_deref().ok_or("it has no address")?, node.port);
            self.get(host, port).await.map_err(|error| format!("https://{host}:{port}: {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use auth::Pki;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use rustls::{RootCertStore, ServerConfig};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    #[tokio::test]
    async fn a_kubelet_is_asked_and_verified() {
        let env = Env::machine();
        let provider = || Arc::new(rustls::crypto::ring::default_provider());
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let pki = |directory: &tempfile::TempDir| {
            Pki::open_or_create(directory.path(), env.now_seconds(), &["127.0.0.1".to_owned()]).unwrap()
        };
        let (ours, theirs) = (pki(&ours), pki(&theirs));
        let server =
            ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
        let server = server.with_no_client_auth();
        let server = server.with_single_cert(ours.serving().chain(), ours.serving().key()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(server));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = env.spawn("test-kubelet", async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let Ok(mut tls) = acceptor.accept(tcp).await else { continue };
                let mut head = [0; 1024];
                let read = tls.read(&mut head).await.unwrap();
                assert!(head[..read].starts_with(b"GET /metrics/resource HTTP/1.1\r\n"));
                tls.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await.unwrap();
                let _ = tls.shutdown().await;
            }
        });
        let scraper = |authority: &Pki| {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(authority.ca_pem().as_bytes()).unwrap()).unwrap();
            let tls = ClientConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()
                .unwrap();
            let tls = tls.with_root_certificates(roots).with_no_client_auth();
            KubeletScraper::new(&env, Arc::new(tls))
        };
        let node = NodeEndpoint { node: "n".to_owned(), host: Some("127.0.0.1".to_owned()), port };
        assert_eq!(scraper(&ours).scrape(&node).await.as_deref(), Ok("hello"));
        let refused = scraper(&theirs).scrape(&node).await.unwrap_err();
        assert!(refused.contains("certificate"), "{refused}");
        serving.abort();
    }
}
