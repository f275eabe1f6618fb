//! etcd behind TLS, with certificates on both sides.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use store::Engine;
use store::testing::MapState;
use store_etcd::{EtcdEngine, Options};

use crate::server::{EtcdServer, PATIENCE};
use crate::sharing::put;

/// Makes `ca.pem`, and `etcd.pem` with `etcd.key`, good for both sides of a connection to this machine.
pub fn make_certificates(dir: &Path) {
    let openssl = |more: &[&str]| {
        let common = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split(' ');
        let made = Command::new("openssl").args(common).args(more).current_dir(dir).output();
        let made = made.expect("openssl is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    openssl(&["-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem"]);
    let names = ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"];
    let issuer = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "extendedKeyUsage=serverAuth,clientAuth"];
    let out = ["-subj", "/CN=etcd", "-keyout", "etcd.key", "-out", "etcd.pem"];
    openssl(&[&names[..], &issuer, &out].concat());
}

#[tokio::test]
async fn commits_pass_through_tls_and_need_the_right_certificates() {
    if Command::new("openssl").arg("version").output().is_err() {
        println!("\nskipped: openssl is not installed");
        return;
    }
    let etcd = EtcdServer::start_tls();
    let der = |file| CertificateDer::from_pem_file(etcd.certificates().join(file)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(der("ca.pem")).unwrap();
    let builder = || {
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
    };
    let key = PrivateKeyDer::from_pem_file(etcd.certificates().join("etcd.key")).unwrap();
    let good = builder()
        .with_root_certificates(roots.clone())
        .with_client_auth_cert(vec![der("etcd.pem")], key)
        .unwrap();
    let state = Arc::new(MapState::default());
    let connect = |tls: ClientConfig| {
        let options = Options {
            endpoints: vec![etcd.endpoint()],
            prefix: "/tls/".into(),
            tls: Some(Arc::new(tls)),
            high_water_mark: None,
        };
        EtcdEngine::connect_with(options, Env::machine(), state.clone())
    };
    let (env, mut last) = (Env::machine(), None);
    let limit = env.monotonic() + PATIENCE;
    let engine = loop {
        assert!(env.monotonic() < limit, "{last:?}");
        match connect(good.clone()).await {
            Ok(engine) => break engine,
            // Not listening yet.
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    engine.commit(put("/tls/a", "1")).await.unwrap();
    assert_eq!(state.get("/tls/a").unwrap().value, "1");

    // Nobody else's certificate, no certificate of our own: no connection.
    let nobody = builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    assert!(connect(nobody).await.is_err());
    let nameless = builder().with_root_certificates(roots).with_no_client_auth();
    assert!(connect(nameless).await.is_err());
}
