//! Requests as openssl writes them, and as nobody should.

use super::*;
use crate::pki::{certificates_from_pem, new_request};
use crate::x509::authenticate;

const NOW: u64 = 1_767_225_600;
const DAY: u64 = 86_400;
const P256: &str = include_str!("../requests/p256.csr");
const P384: &str = include_str!("../requests/p384.csr");
const P521: &str = include_str!("../requests/p521.csr");
const RSA_2048: &str = include_str!("../requests/rsa2048.csr");
const RSA_1024: &str = include_str!("../requests/rsa1024.csr");
const ED25519: &str = include_str!("../requests/ed25519.csr");

fn parse(pem: &str) -> SigningRequest {
    SigningRequest::from_pem(pem.as_bytes()).expect("a request")
}

fn issuer() -> Issuer {
    Issuer::in_memory(NOW).expect("an authority")
}

#[test]
fn requests_of_openssl_are_read_and_verified() {
    let request = parse(P256);
    assert_eq!((request.common_name(), request.organizations()), ("system:node:a", vec!["system:nodes"]));
    assert_eq!(request.dns_names, ["a.example.com"]);
    assert_eq!(request.emails, ["a@example.com"]);
    assert_eq!(request.uris, ["https://a.example.com/x"]);
    let addresses: Vec<String> = request.addresses.iter().map(|a| a.to_string()).collect();
    assert_eq!(addresses, ["192.0.2.1", "2001:db8::1"]);
    assert_eq!(parse(P384).organizations(), ["devs", "ops"]);
    for (name, pem) in [("p256", P256), ("p384", P384), ("rsa", RSA_2048), ("ed25519", ED25519)] {
        assert_eq!(parse(pem).verify(), Ok(()), "{name}");
    }
    assert_eq!(parse(P521).verify(), Err(RequestError::Unsupported));
    assert_eq!(parse(RSA_1024).verify(), Err(RequestError::BadSignature("crypto/rsa: verification error")));
}

#[test]
fn issued_certificates_name_the_requested_subject() {
    let issuer = issuer();
    for pem in [P384, RSA_2048, ED25519] {
        let request = parse(pem);
        let issued = issuer.issue(&request, &["digital signature", "client auth"], DAY, NOW).expect("signed");
        let chain = certificates_from_pem(issued.as_bytes()).expect("PEM");
        let user = authenticate(&chain, &issuer.client_ca(), NOW).expect("good").user;
        // In the order of a sorted set, not of the request.
        let (mut asked, mut groups) =
            (request.organizations(), user.groups.iter().map(String::as_str).collect::<Vec<_>>());
        asked.sort_unstable();
        groups.sort_unstable();
        assert_eq!((user.name.as_str(), groups), ("jane", asked));
    }
}

#[test]
fn names_and_times_are_the_requests_and_the_policys() {
    let issuer = issuer();
    let request = parse(P256);
    let usages = ["digital signature", "key encipherment", "server auth"];
    let lives = [(600, 600), (DAY, DAY - 300), (100 * YEAR_SECONDS, 10 * YEAR_SECONDS)];
    for (wanted, given) in lives {
        let issued = issuer.issue(&request, &usages, wanted, NOW).expect("signed");
        let chain = certificates_from_pem(issued.as_bytes()).expect("PEM");
        let parsed = Parsed::parse(&chain[0]).expect("a certificate");
        assert_eq!((parsed.not_before, parsed.not_after), (NOW - 300, NOW + given), "{wanted}");
        assert_eq!(parsed.names, ["a.example.com", "192.0.2.1", "2001:db8::1"]);
        assert_eq!(not_after(issued.as_bytes()), Some(NOW + given));
    }
    let expired = issuer.issue(&request, &usages, DAY, NOW + 11 * YEAR_SECONDS);
    assert!(matches!(expired, Err(IssueError::SignerExpired(_))));
    let unknown = issuer.issue(&request, &["time travel"], DAY, NOW);
    assert_eq!(unknown.expect_err("unknown").to_string(), "unrecognized usage values: [\"time travel\"]");
}

/// The bytes Go's `pkix.Name` is written as: one set an attribute, sorted, plain text where it can be.
#[test]
fn a_subject_is_written_as_go_writes_it() {
    let mut request = parse(P256);
    let oid = |last: u8| vec![0x55, 4, last];
    let said =
        [(10, "devs"), (10, "ops"), (10, "a_b"), (11, "z:1"), (7, "l"), (8, "s*"), (3, "x"), (3, "jo&e")];
    request.subject = said.iter().map(|(last, text)| (oid(*last), (*text).to_owned())).collect();
    let hex: String = subject(&request).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(
        hex,
        "305d310b300906035504080c02732a310a3008060355040713016c3125300a060355040a0c03615f62300a060355040a13036f7073300b06\
         0355040a130464657673310c300a060355040b13037a3a31310d300b06035504030c046a6f2665"
    );
}

#[test]
fn our_own_requests_are_valid() {
    let names = ["a.example.com".to_owned(), "192.0.2.1".to_owned()];
    let (_, pem) = new_request("system:node:a", &["system:nodes".to_owned()], &names).expect("made");
    let request = parse(&pem);
    assert_eq!(request.verify(), Ok(()));
    assert_eq!((request.common_name(), request.organizations()), ("system:node:a", vec!["system:nodes"]));
    assert_eq!((request.dns_names.len(), request.addresses.len()), (1, 1));
    assert_eq!(parse(&new_request("jane", &[], &[]).expect("made").1).verify(), Ok(()));
}

#[test]
fn a_request_that_was_tampered_with_is_refused() {
    let der = pem_bytes(P256);
    let (mut refused, mut unreadable) = (0, 0);
    for at in 0..der.len() {
        let mut broken = der.clone();
        broken[at] ^= 0x01;
        match SigningRequest::from_der(&broken) {
            Ok(request) => {
                assert!(request.verify().is_err(), "byte {at} can be changed");
                refused += 1;
            }
            Err(_) => unreadable += 1,
        }
    }
    assert!(refused > 100 && unreadable > 10, "{refused} refused, {unreadable} unreadable");
}

#[test]
fn broken_bytes_are_refused_without_a_panic() {
    let der = pem_bytes(RSA_2048);
    for end in 0..der.len() {
        assert!(SigningRequest::from_der(&der[..end]).is_err(), "cut at {end}");
    }
    let longer = [&der[..], &[0]].concat();
    assert_eq!(SigningRequest::from_der(&longer), Err(RequestError::TrailingData));
    let certificate = issuer().ca_pem().to_owned();
    let garbage = "-----BEGIN CERTIFICATE REQUEST-----\n!!!!\n-----END CERTIFICATE REQUEST-----\n";
    for pem in ["", "x", "-----BEGIN CERTIFICATE REQUEST-----", garbage, &certificate, &"A".repeat(1 << 20)] {
        assert_eq!(SigningRequest::from_pem(pem.as_bytes()), Err(RequestError::NotPem));
    }
    let huge = pem::encode("CERTIFICATE REQUEST", &vec![0x30; 1 << 20]);
    assert!(SigningRequest::from_pem(huge.as_bytes()).is_err());
    // Deep nesting costs nothing: only the places that matter are looked into.
    let deep = (0..10_000)
        .fold(vec![], |inner: Vec<u8>, _| if inner.len() < 4096 { value(0x30, &inner) } else { inner });
    assert!(SigningRequest::from_der(&deep).is_err());
}

fn pem_bytes(pem: &str) -> Vec<u8> {
    use rustls_pki_types::pem::PemObject as _;
    rustls_pki_types::CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).expect("PEM").to_vec()
}
