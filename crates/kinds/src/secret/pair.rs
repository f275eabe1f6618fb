//! Whether a certificate and a private key in PEM belong together, with the errors of Go's `tls.X509KeyPair`.
//!
//! Differs from kube-apiserver: a certificate that cannot be read is always "malformed" (Go names the field), and keys of elliptic
//! curves are compared only where the key carries its public half: there is no arithmetic of curves here.

#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const UNREADABLE_KEY: &str = "tls: failed to parse private key";
const MALFORMED: &str = "x509: malformed certificate";

/// DER tags.
const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const TAGGED_0: u8 = 0xa0;
const TAGGED_1: u8 = 0xa1;

/// Why they do not belong together.
pub(super) fn check(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let mut skipped = Vec::new();
    let mut found = None;
    for block in blocks(certificate) {
        match block.kind.as_str() {
            "CERTIFICATE" => found = found.or(Some(block.bytes)),
            _ => skipped.push(block.kind),
        }
    }
    let Some(certificate) = found else { return Err(no_certificate(&skipped)) };
    let mut skipped = Vec::new();
    let mut found = None;
    for block in blocks(key) {
        if block.kind == "PRIVATE KEY" || block.kind.ends_with(" PRIVATE KEY") {
            found = Some(block.bytes);
            break;
        }
        skipped.push(block.kind);
    }
    let Some(key) = found else { return Err(no_key(&skipped)) };
    let public = public_of_certificate(&certificate).ok_or(MALFORMED)?;
    let private = private_key(&key).ok_or(UNREADABLE_KEY)?;
    compare(&public, &private)
}

fn no_certificate(skipped: &[String]) -> String {
    match skipped {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [only] if only.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may \
             have been switched"
                .to_owned()
        }
        _ => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following \
             types: [{}]",
            skipped.join(" ")
        ),
    }
}

fn no_key(skipped: &[String]) -> String {
    match skipped {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        _ => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of \
             the following types: [{}]",
            skipped.join(" ")
        ),
    }
}

/// What is known of the public half of a key.
#[derive(PartialEq)]
enum Public {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// The point, if it is said.
    Ec(Option<Vec<u8>>),
    Ed25519(Option<Vec<u8>>),
    Other,
}

fn compare(public: &Public, private: &Public) -> Result<(), String> {
    let matching = match (public, private) {
        (Public::Other, _) => return Err("tls: unknown public key algorithm".to_owned()),
        (Public::Rsa { .. }, Public::Rsa { .. }) => public == private,
        (Public::Ec(a), Public::Ec(b)) | (Public::Ed25519(a), Public::Ed25519(b)) => b.is_none() || a == b,
        _ => return Err("tls: private key type does not match public key type".to_owned()),
    };
    if matching { Ok(()) } else { Err("tls: private key does not match public key".to_owned()) }
}

fn public_of_certificate(der: &[u8]) -> Option<Public> {
    let mut signed = Der(Der(Der(der).take(SEQUENCE)?).take(SEQUENCE)?);
    // The version is left out by version 1.
    if signed.peek() == Some(TAGGED_0) {
        signed.take(TAGGED_0)?;
    }
    signed.take(INTEGER)?;
    // Signature algorithm, issuer, validity, subject.
    for _ in 0..4 {
        signed.take(SEQUENCE)?;
    }
    let mut info = Der(signed.take(SEQUENCE)?);
    let algorithm = Der(info.take(SEQUENCE)?).take(OID)?;
    let bits = bit_string(info.take(BITS)?)?;
    Some(match algorithm {
        RSA => {
            let mut numbers = Der(Der(bits).take(SEQUENCE)?);
            Public::Rsa { modulus: number(&mut numbers)?, exponent: number(&mut numbers)? }
        }
        EC => Public::Ec(Some(bits.to_vec())),
        ED25519 => Public::Ed25519(Some(bits.to_vec())),
        _ => Public::Other,
    })
}

/// PKCS #1, PKCS #8 or SEC 1, whatever the block is called.
fn private_key(der: &[u8]) -> Option<Public> {
    let mut key = Der(Der(der).take(SEQUENCE)?);
    let version = key.take(INTEGER)?;
    match key.peek()? {
        INTEGER => rsa_key(der),
        SEQUENCE => {
            let algorithm = Der(key.take(SEQUENCE)?).take(OID)?;
            let inner = key.take(OCTETS)?;
            match algorithm {
                RSA => rsa_key(inner),
                EC => ec_key(inner),
                ED25519 if Der(inner).take(OCTETS)?.len() == 32 => Some(Public::Ed25519(None)),
                _ => None,
            }
        }
        OCTETS if version == [1] => ec_key(der),
        _ => None,
    }
}

fn rsa_key(der: &[u8]) -> Option<Public> {
    let mut key = Der(Der(der).take(SEQUENCE)?);
    key.take(INTEGER)?;
    let (modulus, exponent) = (number(&mut key)?, number(&mut key)?);
    // The private exponent and the primes are there.
    for _ in 0..3 {
        key.take(INTEGER)?;
    }
    Some(Public::Rsa { modulus, exponent })
}

fn ec_key(der: &[u8]) -> Option<Public> {
    let mut key = Der(Der(der).take(SEQUENCE)?);
    key.take(INTEGER)?;
    key.take(OCTETS)?;
    if key.peek() == Some(TAGGED_0) {
        key.take(TAGGED_0)?;
    }
    if key.peek() != Some(TAGGED_1) {
        return Some(Public::Ec(None));
    }
    let point = bit_string(Der(key.take(TAGGED_1)?).take(BITS)?)?;
    Some(Public::Ec(Some(point.to_vec())))
}

fn number(numbers: &mut Der<'_>) -> Option<Vec<u8>> {
    let digits = numbers.take(INTEGER)?;
    Some(digits.iter().copied().skip_while(|b| *b == 0).collect())
}

/// Bits that fill whole bytes.
fn bit_string(content: &[u8]) -> Option<&[u8]> {
    content.strip_prefix(&[0])
}

/// A reader over the values of one level of DER.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }
    /// The content of the next value, which has this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_first()?;
        let (length, rest) = rest.split_first()?;
        let (length, rest) = match *length {
            short @ 0..=0x7f => (usize::from(short), rest),
            long => {
                let count = usize::from(long & 0x7f);
                let digits = rest.get(..count).filter(|_| (1..=4).contains(&count))?;
                (digits.iter().fold(0, |n, d| n << 8 | usize::from(*d)), &rest[count..])
            }
        };
        let content = rest.get(..length).filter(|_| *first == tag)?;
        self.0 = &rest[length..];
        Some(content)
    }
}

struct Block {
    kind: String,
    bytes: Vec<u8>,
}

/// The PEM blocks of a text; what cannot be read is passed over.
fn blocks(text: &[u8]) -> Vec<Block> {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().map(str::trim_end);
    let mut blocks = Vec::new();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("-----BEGIN ").and_then(|l| l.strip_suffix("-----")) else {
            continue;
        };
        let end = format!("-----END {kind}-----");
        let mut body = String::new();
        let mut closed = false;
        for line in lines.by_ref() {
            if line == end {
                closed = true;
                break;
            }
            // Headers such as `Proc-Type: …` are not part of it.
            if !line.contains(':') {
                body.push_str(line.trim());
            }
        }
        if let Some(bytes) = STANDARD.decode(&body).ok().filter(|_| closed) {
            blocks.push(Block { kind: kind.to_owned(), bytes });
        }
    }
    blocks
}
