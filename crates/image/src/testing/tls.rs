//! Certificates of the tests' own registry, good for a hundred years and for nothing else: the key is public.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The authority that signed [`SERVER`]; nobody has its key any more.
pub const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----
MIIBmTCCAT+gAwIBAgIUTs0Xie7MQPzO+Jc+ISrE6veXK48wCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOc2V0cG9pbnQgdGVzdHMwIBcNMjYxMTE3MjAyMTI0WhgPMjEy
NjEwMjQyMDIxMjRaMBkxFzAVBgNVBAMMDnNldHBvaW50IHRlc3RzMFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEqtvanToEeCSNMkz99Xf3R8EH39s8rxV6fPi8LXw+
4agydlBilz+b7tfQ3TzT6c9SDYumgmb0HnGmTZsVLaG8iqNjMGEwHQYDVR0OBBYE
FAMYWaFY0Wa7xTq8M6H0t+0Wh+K6MB8GA1UdIwQYMBaAFAMYWaFY0Wa7xTq8M6H0
t+0Wh+K6MA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgIEMAoGCCqGSM49
BAMCA0gAMEUCIQCYkDd/NMEGFBKa1HAfg8puKx/7zRuKcJB0Sm9GZLlaoAIgHaQo
j3J4eGULPe+orOt8A1Yns3gL5yhlVuqJ7Lyh+Eg=
-----END CERTIFICATE-----
";

/// For `localhost` and 127.0.0.1.
const SERVER: &str = "-----BEGIN CERTIFICATE-----
MIIBrzCCAVSgAwIBAgIUCPbXhaN/G/PB7lp2ZNv7ZpdqwHswCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOc2V0cG9pbnQgdGVzdHMwIBcNMjYxMTE3MjAyMTI0WhgPMjEy
NjEwMjQyMDIxMjRaMBMxETAPBgNVBAMMCHJlZ2lzdHJ5MFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAE2vhb9Q17P16gfXFxc+2jrizX8DiW7/CsYIjo+/tO0NzrDUQ0
a9iF93eddqq+j4BM5jLXfgTocRdCZNnU20bO2qN+MHwwGgYDVR0RBBMwEYIJbG9j
YWxob3N0hwR/AAABMBMGA1UdJQQMMAoGCCsGAQUFBwMBMAkGA1UdEwQCMAAwHQYD
VR0OBBYEFPtmMfKv+KdjxPXsFriiRgOXcCleMB8GA1UdIwQYMBaAFAMYWaFY0Wa7
xTq8M6H0t+0Wh+K6MAoGCCqGSM49BAMCA0kAMEYCIQCmiQpiL3DpQKSW/YG9NQB3
2YEti6nvln/rrz2lKLZ7igIhAJ6g7WbcIu90jvzqqhmXWjNpW+52DMxKW/xMvGkZ
5Yd4
-----END CERTIFICATE-----
";

const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgbadIiKCkYmeu0SKT
qF2eFmjBxtlcgk6Mcm13+x9HzN+hRANCAATa+Fv1DXs/XqB9cXFz7aOuLNfwOJbv
8KxgiOj7+07Q3OsNRDRr2IX3d512qr6PgEzmMtd+BOhxF0Jk2dTbRs7a
-----END PRIVATE KEY-----
";

pub fn acceptor() -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = CertificateDer::pem_slice_iter(SERVER.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap()))
}
