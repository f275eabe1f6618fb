//! PEM blocks and what is inside them: as much of requests and certificates as validation needs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OID: u8 = 0x06;
const VERSION: u8 = 0xa0;
const ATTRIBUTES: u8 = 0xa0;

pub(crate) struct Block {
    pub label: String,
    pub has_headers: bool,
    pub bytes: Vec<u8>,
}

/// The first block and what follows it.
pub(crate) fn block(text: &str) -> Option<(Block, &str)> {
    let mut rest = text;
    loop {
        let (found, after) = begin(rest)?;
        if let Some(done) = body(&found, after) {
            return Some(done);
        }
        rest = after;
    }
}

/// The label of the next BEGIN line, and what follows the line.
fn begin(text: &str) -> Option<(String, &str)> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.find("-----BEGIN ")?;
        let after = &text[at + "-----BEGIN ".len()..];
        let (line, rest) = after.split_once('\n').unwrap_or((after, ""));
        let starts_line = at == 0 || text.as_bytes()[at - 1] == b'\n';
        if let Some(label) = line.trim_end().strip_suffix("-----").filter(|_| starts_line) {
            return Some((label.to_owned(), rest));
        }
        from = at + 1;
    }
}

fn body<'t>(label: &str, text: &'t str) -> Option<(Block, &'t str)> {
    let mut rest = text;
    let mut has_headers = false;
    while let Some((line, after)) = rest.split_once('\n')
        && line.contains(':')
    {
        has_headers = true;
        rest = after;
    }
    let end = format!("-----END {label}-----");
    let at = rest.find(&end).filter(|at| *at == 0 || rest.as_bytes()[at - 1] == b'\n')?;
    let clean: String = rest[..at].split_whitespace().collect();
    let bytes = STANDARD.decode(clean).ok()?;
    let after = &rest[at + end.len()..];
    let after = after.split_once('\n').map_or("", |(_, after)| after);
    Some((Block { label: label.to_owned(), has_headers, bytes }, after))
}

/// What is wrong with a certificate signing request: its form, or that its key did not sign it.
pub(super) fn request_problem(pem: &str) -> Option<String> {
    let wrong = || Some("PEM block type must be CERTIFICATE REQUEST".to_owned());
    let Some((block, _)) = block(pem) else { return wrong() };
    if block.label != "CERTIFICATE REQUEST" {
        return wrong();
    }
    if let Some(why) = outer_problem(&block.bytes) {
        return Some(why);
    }
    let (whole, rest) = element(&block.bytes, SEQUENCE)?;
    if !rest.is_empty() {
        return Some("asn1: syntax error: trailing data".to_owned());
    }
    match read_request(whole.content) {
        Some(request) => request.signature_problem(),
        None => Some("asn1: structure error: no certificate request".to_owned()),
    }
}

/// Why bytes do not start with a sequence, with the messages and in the order of Go's parser.
fn outer_problem(der: &[u8]) -> Option<String> {
    let syntax = |why: &str| Some(format!("asn1: syntax error: {why}"));
    let structure = |why: &str| Some(format!("asn1: structure error: {why}"));
    let Some((&first, after)) = der.split_first() else { return syntax("sequence truncated") };
    let (class, compound, mut tag) = (first >> 6, first & 0x20 != 0, u64::from(first & 0x1f));
    let mut rest = after;
    if tag == 0x1f {
        let length = rest.iter().take(4).position(|b| b & 0x80 == 0);
        let Some(last) = length else {
            return if rest.len() < 4 {
                syntax("truncated base 128 integer")
            } else {
                structure("base 128 integer too large")
            };
        };
        tag = rest[..=last].iter().fold(0, |sum, b| sum << 7 | u64::from(b & 0x7f));
        rest = &rest[last + 1..];
        if tag < 0x1f {
            return syntax("non-minimal tag");
        }
    }
    let Some((&short, mut rest)) = rest.split_first() else { return syntax("truncated tag or length") };
    let mut length = usize::from(short);
    if short == 0x80 {
        return syntax("indefinite length found (not DER)");
    }
    if short > 0x80 {
        length = 0;
        for _ in 0..short & 0x7f {
            let Some((&byte, after)) = rest.split_first() else { return syntax("truncated tag or length") };
            if length >= 1 << 23 {
                return structure("length too large");
            }
            length = length << 8 | usize::from(byte);
            if length == 0 {
                return structure("superfluous leading zeros in length");
            }
            rest = after;
        }
        if length < 0x80 {
            return structure("non-minimal length");
        }
    }
    if (class, compound, tag) != (0, true, 16) {
        let found = format!("{{class:{class} tag:{tag} length:{length} isCompound:{compound}}}");
        let nothing = "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 \
                       timeType:0 set:false omitEmpty:false}";
        let at = der.len() - rest.len();
        return structure(&format!("tags don't match (16 vs {found}) {nothing} certificateRequest @{at}"));
    }
    if length > rest.len() {
        return syntax("data truncated");
    }
    if length == 0 {
        return syntax("sequence truncated");
    }
    None
}

/// What is wrong with issued certificates.
pub(super) fn certificates_problem(pem: &str) -> Option<String> {
    let (mut rest, mut blocks) = (pem, 0);
    while let Some((block, after)) = block(rest) {
        if block.label != "CERTIFICATE" {
            let label = object::quote(&block.label);
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {label}"));
        }
        if block.has_headers {
            return Some("no PEM block headers are permitted".to_owned());
        }
        blocks += 1;
        if block.bytes.is_empty() {
            return Some("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        let mut der = &block.bytes[..];
        while !der.is_empty() {
            let Some((whole, after)) = element(der, SEQUENCE) else {
                return Some("x509: malformed certificate".to_owned());
            };
            if let Err(part) = read_certificate(whole.content) {
                return Some(format!("x509: malformed {part}"));
            }
            der = after;
        }
        rest = after;
    }
    (blocks == 0).then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}

/// What is wrong with one certificate.
pub(crate) fn certificate_problem(der: &[u8]) -> Option<String> {
    let Some((whole, rest)) = element(der, SEQUENCE) else {
        return Some("x509: malformed certificate".to_owned());
    };
    if !rest.is_empty() {
        return Some("x509: trailing data".to_owned());
    }
    read_certificate(whole.content).err().map(|part| format!("x509: malformed {part}"))
}

struct Element<'d> {
    /// With tag and length.
    whole: &'d [u8],
    content: &'d [u8],
}

/// The element of this tag at the start, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(Element<'_>, &[u8])> {
    let (found, rest) = any(der)?;
    (*der.first()? == tag).then_some((found, rest))
}

fn any(der: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let short = usize::from(*der.get(1)?);
    let (header, length) = match short {
        0..=0x7f => (2, short),
        0x81..=0x84 => {
            let bytes = der.get(2..2 + short - 0x80)?;
            let length = bytes.iter().fold(0usize, |sum, b| sum << 8 | usize::from(*b));
            (2 + short - 0x80, length)
        }
        _ => return None,
    };
    let end = header.checked_add(length)?;
    Some((Element { whole: der.get(..end)?, content: der.get(header..end)? }, der.get(end..)?))
}

struct Request<'d> {
    /// What the signature is over.
    signed: &'d [u8],
    key: Key<'d>,
    algorithm: &'d [u8],
    signature: &'d [u8],
}

struct Key<'d> {
    algorithm: &'d [u8],
    curve: &'d [u8],
    bits: &'d [u8],
}

fn read_request(content: &[u8]) -> Option<Request<'_>> {
    let (info, rest) = element(content, SEQUENCE)?;
    let (algorithm, rest) = element(rest, SEQUENCE)?;
    let (signature, _) = element(rest, BIT_STRING)?;
    let (_version, inner) = element(info.content, INTEGER)?;
    let (_subject, inner) = element(inner, SEQUENCE)?;
    let (key, inner) = element(inner, SEQUENCE)?;
    if !inner.is_empty() {
        element(inner, ATTRIBUTES)?;
    }
    let (algorithm, _) = element(algorithm.content, OID)?;
    Some(Request {
        signed: info.whole,
        key: read_key(key.content)?,
        algorithm: algorithm.content,
        signature: signature.content.get(1..)?,
    })
}

fn read_key(content: &[u8]) -> Option<Key<'_>> {
    let (algorithm, rest) = element(content, SEQUENCE)?;
    let (bits, _) = element(rest, BIT_STRING)?;
    let (oid, parameters) = element(algorithm.content, OID)?;
    let curve = element(parameters, OID).map_or(&[][..], |(curve, _)| curve.content);
    Some(Key { algorithm: oid.content, curve, bits: bits.content.get(1..)? })
}

fn read_certificate(content: &[u8]) -> Result<(), &'static str> {
    let (tbs, rest) = element(content, SEQUENCE).ok_or("tbs certificate")?;
    let (_, rest) = element(rest, SEQUENCE).ok_or("signature algorithm identifier")?;
    element(rest, BIT_STRING).ok_or("signature")?;
    let inner = element(tbs.content, VERSION).map_or(tbs.content, |(_, rest)| rest);
    let (_, inner) = element(inner, INTEGER).ok_or("serial number")?;
    let (_, inner) = element(inner, SEQUENCE).ok_or("signature algorithm identifier")?;
    let (_, inner) = element(inner, SEQUENCE).ok_or("issuer")?;
    let (_, inner) = element(inner, SEQUENCE).ok_or("validity")?;
    let (_, inner) = element(inner, SEQUENCE).ok_or("issuer")?;
    let (key, _) = element(inner, SEQUENCE).ok_or("spki")?;
    read_key(key.content).map(|_| ()).ok_or("public key")
}

const RSA_MD5: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x04];
const RSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05];
const RSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
const RSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c];
const RSA_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d];
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const ECDSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];

impl Request<'_> {
    /// Differs from kube-apiserver: signatures that ring cannot verify (P-521, RSA-PSS, ECDSA with SHA-1) pass unverified; the signer
    /// that reads the request verifies them.
    fn signature_problem(&self) -> Option<String> {
        let (how, failure): (&dyn VerificationAlgorithm, &str) = match (self.algorithm, self.key.curve) {
            (RSA_MD5, _) => {
                return Some("x509: cannot verify signature: insecure algorithm MD5-RSA".to_owned());
            }
            _ if self.key.algorithm == RSA => {
                let how: &dyn VerificationAlgorithm = match self.algorithm {
                    // Of requests Go takes it, though not of certificates.
                    RSA_SHA1 => &signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
                    RSA_SHA256 => &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
                    RSA_SHA384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    RSA_SHA512 => &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
                    _ => return None,
                };
                (how, "crypto/rsa: verification error")
            }
            (ECDSA_SHA256, P256) => (&signature::ECDSA_P256_SHA256_ASN1, ECDSA_FAILURE),
            (ECDSA_SHA384, P256) => (&signature::ECDSA_P256_SHA384_ASN1, ECDSA_FAILURE),
            (ECDSA_SHA256, P384) => (&signature::ECDSA_P384_SHA256_ASN1, ECDSA_FAILURE),
            (ECDSA_SHA384, P384) => (&signature::ECDSA_P384_SHA384_ASN1, ECDSA_FAILURE),
            (ED25519, _) => (&signature::ED25519, "x509: Ed25519 verification failure"),
            _ => return None,
        };
        let key = UnparsedPublicKey::new(how, self.key.bits);
        key.verify(self.signed, self.signature).is_err().then(|| failure.to_owned())
    }
}

const ECDSA_FAILURE: &str = "x509: ECDSA verification failure";

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    /// Recorded from Go's `x509.ParseCertificateRequest`.
    #[test]
    fn invalid_signing_requests_get_gos_error() {
        let flags = "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 \
                     timeType:0 set:false omitEmpty:false} certificateRequest @2";
        let tags = |found: &str| format!("asn1: structure error: tags don't match (16 vs {found}) {flags}");
        let truncated = "asn1: syntax error: truncated tag or length".to_owned();
        for (bytes, words) in [
            (&[][..], "asn1: syntax error: sequence truncated".into()),
            (b"a", truncated.clone()),
            (&[0x30], truncated.clone()),
            (&[0x30, 0x80], "asn1: syntax error: indefinite length found (not DER)".into()),
            (&[0x30, 0x82, 1], truncated),
            (&[0x30, 0x81, 0], "asn1: structure error: superfluous leading zeros in length".into()),
            (&[0x30, 0x81, 5], "asn1: structure error: non-minimal length".into()),
            (&[0x30, 0x85, 1, 1, 1, 1, 1], "asn1: structure error: length too large".into()),
            (&[0x30, 0x84, 1, 0, 0, 0], "asn1: syntax error: data truncated".into()),
            (&[0x30, 5], "asn1: syntax error: data truncated".into()),
            (&[0x30, 0], "asn1: syntax error: sequence truncated".into()),
            (&[0x1f], "asn1: syntax error: truncated base 128 integer".into()),
            (&[0x5f, 0x81], "asn1: syntax error: truncated base 128 integer".into()),
            (&[0x31, 0], tags("{class:0 tag:17 length:0 isCompound:true}")),
            (b"abc", tags("{class:1 tag:1 length:98 isCompound:true}")),
            (&[2, 1, 0], tags("{class:0 tag:2 length:1 isCompound:false}")),
        ] {
            let body = STANDARD.encode(bytes);
            let pem =
                format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n");
            assert_eq!(super::request_problem(&pem), Some(words), "{bytes:x?}");
        }
    }

    /// As Go's `CheckSignature` of a request: SHA-1 is verified, MD5 is not.
    #[test]
    fn old_digests_are_verified_or_refused() {
        let pem = |body: &str| {
            format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n")
        };
        let sha1 = "MIIBSzCBtQIBADAMMQowCAYDVQQDDAF4MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCqaed4rQ4ai8jiPztmTi73MnHW4dZXscz+TmxRi5/Rcuh/HW+ravkmLUYKV0ZJC3MQTWRL+eZS8iUee6SatWeW6GdIlRwBaMLbxXfX5oXCVTjNDQ5CXTPncrQffS8trk+ONLbrLWLQygLTTZ6/+LHzH34nrZ1TFjmjUSH9kW6soQIDAQABoAAwDQYJKoZIhvcNAQEFBQADgYEAAxjvARLYomiPUCgJQpdBDnHjWeeo0aumvO24RAbU1k4uxM5tuQN57RkxuHbbvfQSPjt/M55eHXk9aGOCTEK+ZC8jztKkP7ls7xdwmQwtefNWuFx3wbSQbVAyk/uo9xFN00q/ad0G/tY+45NCxgd4KPE+1rK14umuPD6AEIBzlL0=";
        let md5 = "MIIBSzCBtQIBADAMMQowCAYDVQQDDAF4MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC90vinfNgezIU1VklG1hBDu/uaREVcfcfbwRRsNLkDXsGsrwvCZuj/Zb8o6bzZcBNbfjSkkpdMQuuQWB+qtWvsbqGNUgW7tvB8aYh461WQ6adC4GPGjddaWgRmUJYi5AXEGUYGpspD7yRKr86MhqCB/zmkXZbtOgoxjU46BJiQUwIDAQABoAAwDQYJKoZIhvcNAQEEBQADgYEAq4eUdNpuNrW5u3de7Qe1UfmTfoNq/dOJcI6nyoR2hKPE38mQic9jmqvs/uuEt2NJK5vYb7IMX2IG3MfRj9CAK8+yjxPo7gqqCc1MBXMRxbabfvuYf+o4OEB0UkKFwD9frAji76HN46mvflurk06PlTxSkYS90Y7lY2FZGZXswHY=";
        assert_eq!(super::request_problem(&pem(sha1)), None);
        let changed = sha1.replace("HW+ravkm", "HW+ravkn");
        assert_eq!(super::request_problem(&pem(&changed)).as_deref(), Some("crypto/rsa: verification error"));
        let insecure = "x509: cannot verify signature: insecure algorithm MD5-RSA";
        assert_eq!(super::request_problem(&pem(md5)).as_deref(), Some(insecure));
    }
}
