//! Signing, verifying, and everything that must not verify.
#![allow(clippy::unwrap_used)]

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

const RSA: &[u8] = include_bytes!("testdata/rsa1.pem");
const RSA_PUBLIC: &[u8] = include_bytes!("testdata/rsapub.pem");
const P256: &[u8] = include_bytes!("testdata/ec256.pem");
const P256_PUBLIC: &[u8] = include_bytes!("testdata/ec256pub.pem");
const P256_CERTIFICATE: &[u8] = include_bytes!("testdata/cert.pem");
const P384: &[u8] = include_bytes!("testdata/ec384p8.pem");
const P521_PUBLIC: &[u8] = include_bytes!("testdata/ec521pub.pem");

fn payload() -> Value {
    json::parse(br#"{"iss":"x"}"#, None).unwrap()
}

fn verified(token: &str, keys: &KeySet) -> bool {
    Unverified::parse(token).is_some_and(|t| t.verify(keys).is_ok())
}

#[test]
fn every_kind_of_key_signs_what_its_public_part_verifies() {
    for (private, public, algorithm, id) in [
        (RSA, RSA_PUBLIC, "RS256", Some("jjmaej2Xy-8Yd96xt7AD0wjIQasF2hBw_rPxVN2-Wzg")),
        (P256, P256_PUBLIC, "ES256", Some("1Zyss9bChhI5jBGYl40382gXbqAe5oCI4iq9GRpXgQA")),
        (P384, P384, "ES384", None),
    ] {
        let key = SigningKey::from_pem(private).unwrap();
        let token = sign(&key, &payload()).unwrap();
        let parsed = Unverified::parse(&token).unwrap();
        assert_eq!((parsed.algorithm.as_str(), parsed.key_id.as_str()), (algorithm, key.public().id()));
        // The ids are those openssl computes.
        assert!(id.is_none_or(|id| id == key.public().id()));
        let keys = KeySet::new(PublicKey::all_from_pem(public).unwrap());
        assert_eq!(keys.iter().next(), Some(key.public()));
        assert_eq!(parsed.verify(&keys), Ok(()));
        assert_eq!(PublicKey::all_from_pem(key.public().to_pem().as_bytes()).unwrap()[0], *key.public());
    }
    let made = SigningKey::from_pkcs8(&SigningKey::generate_pkcs8().unwrap()).unwrap();
    assert!(verified(&sign(&made, &payload()).unwrap(), &KeySet::new([made.public().clone()])));
}

#[test]
fn signatures_of_other_programs_verify() {
    let keys = KeySet::new(PublicKey::all_from_pem(RSA_PUBLIC).unwrap());
    assert!(verified(include_str!("testdata/rs512.jwt"), &keys), "RS512 by openssl");
    assert!(verified(include_str!("testdata/ps256.jwt"), &keys), "PS256 by openssl");
}

#[test]
fn files_may_hold_several_keys_and_certificates() {
    let text = [RSA_PUBLIC, P256_CERTIFICATE, P256].concat();
    let keys = PublicKey::all_from_pem(&text).unwrap();
    assert_eq!(keys.len(), 3);
    assert_eq!(keys[1], keys[2], "the certificate's key");
    let set = KeySet::new(keys);
    assert_eq!(set.iter().count(), 2, "each once");
    assert_eq!(set.algorithms(), ["ES256", "RS256"]);
    let jwks = String::from_utf8(json::to_vec(&set.to_jwks())).unwrap();
    assert!(jwks.starts_with(r#"{"keys":[{"use":"sig","kty":"RSA","kid":"jjmaej"#), "{jwks}");
    assert!(jwks.contains(r#""alg":"RS256","n":""#) && jwks.contains(r#""e":"AQAB"}"#), "{jwks}");
    assert!(jwks.contains(
        r#""kty":"EC","kid":"1Zyss9bChhI5jBGYl40382gXbqAe5oCI4iq9GRpXgQA","crv":"P-256","alg":"ES256","x":""#
    ));
}

#[test]
fn unusable_keys_are_refused_when_they_are_loaded() {
    assert!(matches!(PublicKey::all_from_pem(P521_PUBLIC), Err(KeyError::Unusable)));
    assert!(matches!(PublicKey::all_from_pem(b""), Err(KeyError::Empty)));
    assert!(matches!(SigningKey::from_pem(RSA_PUBLIC), Err(KeyError::Empty)));
    assert!(PublicKey::all_from_pem(b"-----BEGIN PUBLIC KEY-----\n!!\n-----END PUBLIC KEY-----\n").is_err());
    let mut damaged = P256_PUBLIC.to_vec();
    damaged.truncate(damaged.len() / 2);
    assert!(PublicKey::all_from_pem(&damaged).is_err());
}

#[test]
fn the_key_decides_the_algorithm() {
    let key = SigningKey::from_pem(P256).unwrap();
    let keys = KeySet::new([key.public().clone()]);
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let body = encode(r#"{"iss":"x"}"#);
    let head = |alg: &str| encode(&format!(r#"{{"alg":"{alg}"}}"#));
    for alg in ["none", "None", "", "HS256", "ES384", "RS256", "EdDSA"] {
        // Even with a signature the key has made over exactly this text.
        let signed = format!("{}.{body}", head(alg));
        let signature = URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).unwrap());
        assert!(!verified(&format!("{signed}.{signature}"), &keys), "{alg}");
        assert!(!verified(&format!("{signed}."), &keys), "{alg} without a signature");
    }
    let signed = format!("{}.{body}", encode(r#"{"alg":"ES256","crit":["b64"],"b64":false}"#));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).unwrap());
    assert!(!verified(&format!("{signed}.{signature}"), &keys), "demands what we do not know");
    let signed = format!("{}.{body}", head("ES256"));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).unwrap());
    assert!(verified(&format!("{signed}.{signature}"), &keys), "no key named: all are tried");
}

#[test]
fn other_keys_and_unknown_key_ids_do_not_verify() {
    let key = SigningKey::from_pem(P256).unwrap();
    let other = SigningKey::from_pkcs8(&SigningKey::generate_pkcs8().unwrap()).unwrap();
    let token = sign(&other, &payload()).unwrap();
    let keys = KeySet::new([key.public().clone()]);
    assert_eq!(Unverified::parse(&token).unwrap().verify(&keys), Err(VerifyError::NoKey));
    let signed = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"ES256","kid":"{}"}}"#, key.public().id())),
        URL_SAFE_NO_PAD.encode("{}")
    );
    let signature = URL_SAFE_NO_PAD.encode(other.sign(signed.as_bytes()).unwrap());
    let token = format!("{signed}.{signature}");
    assert_eq!(Unverified::parse(&token).unwrap().verify(&keys), Err(VerifyError::Signature));
}

#[test]
fn no_flipped_bit_survives_and_garbage_never_panics() {
    let key = SigningKey::from_pem(P256).unwrap();
    let keys = KeySet::new([key.public().clone()]);
    let token = sign(&key, &payload()).unwrap();
    for at in 0..token.len() {
        for bit in 0..7 {
            let mut bytes = token.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let text = String::from_utf8(bytes).unwrap();
            assert!(!verified(&text, &keys), "bit {bit} of byte {at}");
        }
        assert!(!verified(&token[..at], &keys));
    }
    let deep = format!("{}.{}.x", URL_SAFE_NO_PAD.encode("[".repeat(5000)), "e30");
    for garbage in ["", ".", "..", "...", "a.b.c", "e30.e30.", "é.é.é", "e30.e30.e30.e30", "{}", &deep] {
        assert!(!verified(garbage, &keys), "{garbage}");
    }
    assert!(Unverified::parse(&"e30.".repeat(10_000)).is_none(), "too long to be looked at");
}
