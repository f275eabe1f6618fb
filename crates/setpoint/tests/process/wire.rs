//! TLS and raw bytes, for what no client library allows.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::{PATIENCE, Proc};

/// An HTTP/1.1 connection with the administrator's certificate.
pub async fn connect(server: &Proc) -> TlsStream<TcpStream> {
    let key = PrivateKeyDer::from_pem_file(server.pki("admin.key")).unwrap();
    let chain = vec![certificate(&server.pki("admin.crt"))];
    dial(server, trusting(server).with_client_auth_cert(chain, key).unwrap()).await
}

/// The same over HTTP/2.
pub async fn connect_http2(server: &Proc) -> TlsStream<TcpStream> {
    let key = PrivateKeyDer::from_pem_file(server.pki("admin.key")).unwrap();
    let chain = vec![certificate(&server.pki("admin.crt"))];
    let mut config = trusting(server).with_client_auth_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    dial(server, config).await
}

/// The same without a certificate.
pub async fn connect_as_nobody(server: &Proc) -> TlsStream<TcpStream> {
    dial(server, trusting(server).with_no_client_auth()).await
}

fn trusting(server: &Proc) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&server.pki("ca.crt"))).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
}

async fn dial(server: &Proc, config: ClientConfig) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// Sends the text as it is.
pub async fn send(stream: &mut TlsStream<TcpStream>, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
}

/// Everything until the server closes; fails if it closes without saying so.
pub async fn rest(stream: &mut TlsStream<TcpStream>) -> String {
    let mut bytes = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the server closes").unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends what the server is willing to take, and gives what it said, however it ended.
pub async fn exchange(stream: &mut TlsStream<TcpStream>, text: &str) -> String {
    let mut bytes = Vec::new();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let both = async {
        let write = async {
            let _ = writer.write_all(text.as_bytes()).await;
            let _ = writer.flush().await;
        };
        let read = async {
            let _ = reader.read_to_end(&mut bytes).await;
        };
        tokio::join!(write, read);
    };
    let _ = tokio::time::timeout(std::time::Duration::from_secs(5), both).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

fn certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).unwrap()
}
