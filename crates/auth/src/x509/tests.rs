//! Client certificates: real handshakes, good and bad certificates, and bytes that are none.

use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use rustls_pki_types::ServerName;

use super::*;
use crate::pki::{Identity, Pki, ServingCertificate, certificates_from_pem};

const NOW: u64 = 1_767_225_600;
const DAY: u64 = 86_400;

fn pki() -> (tempfile::TempDir, Pki) {
    let dir = tempfile::tempdir().expect("a folder");
    let pki = Pki::open_or_create(dir.path(), NOW, &[]).expect("made");
    (dir, pki)
}

fn groups(list: &[&str]) -> Vec<String> {
    list.iter().map(|g| (*g).to_owned()).collect()
}

#[test]
fn all_groups_survive() {
    let (_dir, pki) = pki();
    let wanted = groups(&["z", "a", "gruppe ü", "a"]);
    let jane = pki.issue_client("jane", &wanted, DAY, NOW).expect("signed");
    let found = authenticate(&jane.chain(), &pki.client_ca(), NOW).expect("good");
    assert_eq!(found.user.name, "jane");
    assert_eq!(found.user.groups, wanted);
    assert_eq!(found.not_after, NOW + DAY);
    assert!(found.user.extra[names::CREDENTIAL_ID_KEY][0].starts_with("X509SHA256="));
}

#[test]
fn invalid_certificates_are_refused_with_their_reason() {
    let ((_dir, pki), (_other_dir, other)) = (pki(), self::pki());
    let ca = pki.client_ca();
    let ask = |identity: &Identity, now| authenticate(&identity.chain(), &ca, now).map(|a| a.user.name);
    let jane = pki.issue_client("jane", &[], DAY, NOW).expect("signed");
    assert_eq!(ask(&jane, NOW), Ok("jane".into()));
    assert_eq!(ask(&jane, NOW + DAY + 5), Err(X509Error::Expired(5)));
    assert_eq!(ask(&jane, NOW - 400), Err(X509Error::NotYetValid(100)));
    let stranger = other.issue_client("jane", &[], DAY, NOW).expect("signed");
    // Same authority name, another key: a bad signature, told as an unknown authority.
    let refused = ask(&stranger, NOW).expect_err("unknown authority");
    assert!(matches!(refused, X509Error::UnknownAuthority), "{refused:?}");
    let nobody = pki.issue_client("", &groups(&["devs"]), DAY, NOW).expect("signed");
    assert_eq!(ask(&nobody, NOW), Err(X509Error::NoCommonName));
    assert_eq!(ask(pki.serving(), NOW), Err(X509Error::NotForClients));
    assert_eq!(authenticate(&[], &ca, NOW), Err(X509Error::NoCertificate));
    assert_eq!(authenticate(&[vec![0x30, 0x00].into()], &ca, NOW), Err(X509Error::Malformed));
}

/// A client that sends what it is given, even a certificate that is not its own.
#[derive(Debug)]
struct Sends(Arc<rustls::sign::CertifiedKey>);

impl rustls::client::ResolvesClientCert for Sends {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<rustls::sign::CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
    fn has_certs(&self) -> bool {
        true
    }
}

/// Runs a handshake in memory and says what the server got.
fn handshake(
    pki: &Pki,
    client: Option<&Identity>,
    tls12: bool,
) -> Result<Option<Vec<CertificateDer<'static>>>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions: &[&rustls::SupportedProtocolVersion] =
        if tls12 { &[&rustls::version::TLS12] } else { &[&rustls::version::TLS13] };
    let serving = ServingCertificate::new(pki.serving()).expect("usable");
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)?
        .with_client_cert_verifier(AcceptAnyClientCert::new(pki.client_ca().hints()))
        .with_cert_resolver(Arc::new(serving));
    let mut roots = RootCertStore::empty();
    for ca in certificates_from_pem(pki.ca_pem().as_bytes()).expect("ours") {
        roots.add(ca)?;
    }
    #[derive(Debug)]
    struct At(u64);
    impl rustls::time_provider::TimeProvider for At {
        fn current_time(&self) -> Option<UnixTime> {
            Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0)))
        }
    }
    let builder = ClientConfig::builder_with_details(provider, Arc::new(At(NOW)))
        .with_protocol_versions(versions)?
        .with_root_certificates(roots);
    let config = match client {
        Some(identity) => {
            builder.with_client_cert_resolver(Arc::new(Sends(identity.certified_key().expect("usable"))))
        }
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from("kubernetes.default.svc").expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name)?;
    let mut server = ServerConnection::new(Arc::new(server))?;
    for _ in 0..10 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).expect("memory");
        }
        let mut bytes = wire.as_slice();
        while !bytes.is_empty() {
            server.read_tls(&mut bytes).expect("memory");
            server.process_new_packets()?;
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).expect("memory");
        }
        let mut bytes = wire.as_slice();
        while !bytes.is_empty() {
            client.read_tls(&mut bytes).expect("memory");
            client.process_new_packets()?;
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(server.peer_certificates().map(|chain| chain.iter().map(|c| c.clone().into_owned()).collect()))
}

#[test]
fn a_handshake_passes_the_client_certificate_on() {
    let ((_dir, pki), (_other_dir, other)) = (pki(), self::pki());
    let jane = pki.issue_client("jane", &groups(&["devs", "ops"]), DAY, NOW).expect("signed");
    for tls12 in [false, true] {
        let chain = handshake(&pki, Some(&jane), tls12).expect("handshake").expect("a certificate");
        let user = authenticate(&chain, &pki.client_ca(), NOW).expect("good").user;
        assert_eq!((user.name.as_str(), user.groups.len()), ("jane", 2));
        assert_eq!(handshake(&pki, None, tls12).expect("handshake"), None);
        // A stranger's certificate does not break the handshake; we answer 401 afterwards.
        let chain = handshake(&pki, Some(other.admin()), tls12).expect("handshake").expect("a certificate");
        assert_eq!(authenticate(&chain, &pki.client_ca(), NOW), Err(X509Error::UnknownAuthority));
    }
}

#[test]
fn a_certificate_without_its_key_breaks_the_handshake() {
    let (_dir, pki) = pki();
    let jane = pki.issue_client("jane", &[], DAY, NOW).expect("signed");
    let thief = pki.admin().with_key_of(&jane);
    for tls12 in [false, true] {
        let refused = handshake(&pki, Some(&thief), tls12).expect_err("no proof of the key");
        let expected = rustls::Error::InvalidCertificate(rustls::CertificateError::BadSignature);
        assert_eq!(refused, expected);
    }
}

/// Certificates as openssl makes them, all for one key: those Go takes are good, and the others are refused behind the handshake.
#[test]
fn unusual_certificates_are_verified_as_go_does_and_break_no_handshake() {
    let certificates = |pem: &str| certificates_from_pem(pem.as_bytes()).expect("PEM");
    let key = crate::pki::private_key_from_pem(include_bytes!("certificates/key.pem")).expect("a key");
    let ca = ClientCa::new(&certificates(include_str!("certificates/ca.pem")));
    let (_dir, pki) = pki();
    let now = 1_800_000_000;
    for (name, pem, expected) in [
        ("any", include_str!("certificates/any.pem"), Ok(())),
        ("authority", include_str!("certificates/authority.pem"), Ok(())),
        (
            "authority-server",
            include_str!("certificates/authority-server.pem"),
            Err(X509Error::NotForClients),
        ),
        // Of an authority with the same name and another key.
        (
            "authority-forged",
            include_str!("certificates/authority-forged.pem"),
            Err(X509Error::UnknownAuthority),
        ),
        (
            "critical",
            include_str!("certificates/critical.pem"),
            Err(X509Error::Refused("UnsupportedCriticalExtension".into())),
        ),
    ] {
        let identity = Identity::new(certificates(pem).remove(0), key.clone());
        for tls12 in [false, true] {
            let chain = handshake(&pki, Some(&identity), tls12);
            let chain = chain.unwrap_or_else(|e| panic!("{name}: {e}")).expect("a certificate");
            let found = authenticate(&chain, &ca, now);
            assert_eq!(found.clone().map(|_| ()), expected, "{name}");
            if let Ok(found) = found {
                assert_eq!((found.user.name.as_str(), found.user.groups), (name, groups(&["devs"])));
                assert!(matches!(authenticate(&chain, &ca, 1_000), Err(X509Error::NotYetValid(_))));
                let end = found.not_after;
                assert_eq!(authenticate(&chain, &ca, end + 1), Err(X509Error::Expired(1)), "{name}");
            }
            // Without its key it is worth nothing, whoever can read it.
            let thief = identity.with_key_of(pki.admin());
            let refused = handshake(&pki, Some(&thief), tls12).expect_err("no proof of the key");
            let expected = rustls::Error::InvalidCertificate(rustls::CertificateError::BadSignature);
            assert_eq!(refused, expected, "{name}");
        }
    }
}

#[test]
fn an_authority_that_has_expired_signs_nobody_in() {
    let certificates = |pem: &str| certificates_from_pem(pem.as_bytes()).expect("PEM");
    let expired = certificates(include_str!("certificates/expired-ca.pem"));
    // The same name and key.
    let renewed = certificates(include_str!("certificates/renewed-ca.pem"));
    let end = Parsed::parse(&expired[0]).expect("a certificate").not_after;
    for (name, pem) in [
        ("of-expired-ca", include_str!("certificates/of-expired-ca.pem")),
        ("authority-of-expired-ca", include_str!("certificates/authority-of-expired-ca.pem")),
    ] {
        let chain = certificates(pem);
        let ask = |ca: &[CertificateDer<'_>], now| {
            authenticate(&chain, &ClientCa::new(ca), now).map(|who| (who.user.name, who.not_after))
        };
        assert_eq!(ask(&expired, end), Ok((name.into(), end)), "the connection asks again then");
        let refused = Err(X509Error::AuthorityNotValid("expired-ca".into()));
        assert_eq!(ask(&expired, end + 1), refused);
        let long = Parsed::parse(&chain[0]).expect("a certificate").not_after;
        for now in [end, end + 1] {
            assert_eq!(ask(&[expired.clone(), renewed.clone()].concat(), now), Ok((name.into(), long)));
        }
        // What the leaf itself lacks comes first.
        let late = authenticate(&chain, &ClientCa::new(&expired), long + 5);
        assert_eq!(late, Err(X509Error::Expired(5)));
    }
}

#[test]
fn hints_are_the_authorities_names() {
    let (_dir, pki) = pki();
    let ca = certificates_from_pem(pki.ca_pem().as_bytes()).expect("ours").remove(0);
    let hints = pki.client_ca().hints();
    assert_eq!(hints.len(), 1);
    assert_eq!(hints[0].as_ref(), Parsed::parse(&ca).expect("ours").subject);
}

#[test]
fn a_uid_in_the_subject_is_read_and_must_be_unique() {
    let tlv = |tag: u8, content: &[u8]| [&[tag, content.len() as u8], content].concat();
    let part =
        |oid: &[u8], tag: u8, text: &[u8]| tlv(0x31, &tlv(0x30, &[tlv(6, oid), tlv(tag, text)].concat()));
    let user = |parts: &[Vec<u8>]| user_of(b"", &tlv(0x30, &parts.concat()));
    let cn = part(COMMON_NAME, 0x13, b"jane");
    let uid = |text: &[u8]| part(KUBERNETES_UID, 0x0c, text);
    assert_eq!(user(&[cn.clone(), uid(b"42")]).expect("good").uid, "42");
    assert_eq!(user(&[cn.clone(), uid(b"42"), uid(b"43")]), Err(X509Error::BadUid));
    assert_eq!(user(&[cn.clone(), uid(b"")]), Err(X509Error::BadUid));
    assert_eq!(user(&[cn.clone(), part(ORGANIZATION, 0x0c, b"\xff")]), Err(X509Error::UnreadableName));
    assert_eq!(user(&[part(COMMON_NAME, 0x1e, &[0, b'j', 0, b'o'])]).expect("BMP").name, "jo");
    assert_eq!(user(&[cn, part(COMMON_NAME, 0x0c, b"last")]).expect("good").name, "last");
}

#[test]
fn a_renewed_serving_certificate_takes_over() {
    let (_dir, mut pki) = pki();
    let serving = ServingCertificate::new(pki.serving()).expect("usable");
    let old = format!("{serving:?}");
    assert!(pki.renew_if_due(NOW + 300 * DAY).expect("fine").serving);
    serving.swap(pki.serving()).expect("usable");
    assert_ne!(old, format!("{serving:?}"));
}

#[test]
fn no_bytes_make_it_panic() {
    let (_dir, pki) = pki();
    let ca = pki.client_ca();
    let good = pki.issue_client("jane", &groups(&["devs"]), DAY, NOW).expect("signed").chain().remove(0);
    let seed: u64 = 0x5eed;
    println!("seed {seed}");
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for round in 0..20_000 {
        let mut bytes = good.to_vec();
        match round % 3 {
            0 => bytes = (0..next() % 300).map(|_| next() as u8).collect(),
            1 => bytes.truncate(next() % bytes.len()),
            _ => {}
        }
        for _ in 0..=next() % 4 {
            if !bytes.is_empty() {
                let at = next() % bytes.len();
                bytes[at] = next() as u8;
            }
        }
        let changed = bytes.as_slice() != good.as_ref();
        let result = authenticate(&[CertificateDer::from(bytes)], &ca, NOW);
        assert!(!(changed && result.is_ok()), "a changed certificate was believed");
    }
}
