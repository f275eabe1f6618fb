//! The cluster CA, the serving certificate and the admin client certificate.
//!
//! ```text
//! dir/ca.crt, ca.key                 10 years; trusted by every client, signs the others
//! dir/apiserver.crt, apiserver.key    1 year; serving certificate
//! dir/admin.crt, admin.key            1 year; CN=kubernetes-admin, O=system:masters
//! dir/front-proxy-ca.crt, .key       10 years; trusted by servers whose APIs are aggregated (`front_proxy`)
//! dir/front-proxy-client.crt, .key    1 year; CN=front-proxy-client
//! ```
//! Missing files are generated, in milliseconds (ECDSA P-256). An existing key is never overwritten: a renewal
//! signs a new certificate for the same key, so it replaces exactly one file, and a crash leaves either the old one or
//! the new one. The key is written before its certificate: a key without a certificate is the result of a crash and gets
//! one, while a certificate without its key is an error.

mod certificate;
pub(crate) mod der;
mod files;
mod front_proxy;
mod identity;
mod issuer;
pub(crate) mod pem;
mod request;
mod service_account;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use rustls_pki_types::CertificateDer;

pub use certificate::CryptoError;
pub(crate) use certificate::{
    ANY_PURPOSE, CLIENT_AUTH, COMMON_NAME, KUBERNETES_UID, ORGANIZATION, Parsed, SERVER_AUTH, Signed,
    name_parts,
};
use certificate::{Request, Signer, Usage};
pub(crate) use der::sequence;
pub use front_proxy::FrontProxy;
pub use identity::{Identity, ServingCertificate, certified_pem, kubeconfig, kubeconfig_with_token};
pub use issuer::{IssueError, Issuer, not_after};
pub use pem::{
    certificates as certificates_from_pem, of_certificates as certificates_to_pem,
    private_key as private_key_from_pem,
};
pub use request::{RequestError, SigningRequest, new_request, request_of};
pub use service_account::service_account_key;

use crate::ca_bundle::CaBundle;
use crate::x509::ClientCa;
use crate::{groups, user};

pub const YEAR_SECONDS: u64 = 365 * 86_400;

/// Names in every serving certificate, whatever the host name.
pub const SERVING_NAMES: [&str; 8] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
];

#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("cannot {action} {}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{} is damaged: {why}; restore it from a backup{hint}", path.display())]
    Damaged { path: PathBuf, why: String, hint: &'static str },
    #[error("{} exists but {} does not; {hint}", present.display(), missing.display())]
    KeyMissing { present: PathBuf, missing: PathBuf, hint: &'static str },
    #[error("{} does not match the key {}; restore the matching file, or delete the certificate to get a new one for the key", certificate.display(), key.display())]
    Mismatch { certificate: PathBuf, key: PathBuf },
    #[error("{} was not issued by {}; delete it to get a new one, or restore the CA that signed it", certificate.display(), authority.display())]
    ForeignIssuer { certificate: PathBuf, authority: PathBuf },
    #[error("the CA certificate {} expired at {not_after} (Unix seconds), it is now {now}; delete it, but keep its key, to get a new one, then distribute new kubeconfig files", path.display())]
    AuthorityExpired { path: PathBuf, not_after: u64, now: u64 },
    #[error("{0:?} is not a valid name for a certificate: use a host name or an IP address")]
    BadName(String),
    #[error(transparent)]
    Crypto(#[from] CryptoError),
}

/// Which certificates a renewal replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// Pass the new one to the server: [`ServingCertificate::swap`].
    pub serving: bool,
    /// Write the admin kubeconfig again.
    pub admin: bool,
}

pub struct Pki {
    dir: PathBuf,
    random: SystemRandom,
    ca: Arc<Authority>,
    serving: Identity,
    admin: Identity,
    /// DNS names and IP addresses the serving certificate must have.
    names: Vec<String>,
}

struct Authority {
    /// Where its certificate is.
    path: PathBuf,
    key: EcdsaKeyPair,
    /// The issuing certificate first; others in the file are trusted too (CA rotation).
    certificates: Vec<CertificateDer<'static>>,
    pem: String,
    subject: Vec<u8>,
    not_after: u64,
}

impl Pki {
    /// Loads the files in `dir`, generates missing ones, renews those that are due. `names` (host names and IP addresses
    /// of the server) are added to [`SERVING_NAMES`].
    pub fn open_or_create(dir: &Path, now_unix: u64, names: &[String]) -> Result<Pki, PkiError> {
        files::make_dir(dir).map_err(|source| PkiError::File {
            action: "create the directory",
            path: dir.into(),
            source,
        })?;
        let random = crate::random();
        let names = serving_names(names)?;
        let ca = Arc::new(Authority::open_or_create(dir, &CLUSTER, now_unix, &random)?);
        let serving = leaf(dir, &ca, &SERVING, &names, now_unix, &random)?.0;
        let admin = leaf(dir, &ca, &ADMIN, &[], now_unix, &random)?.0;
        Ok(Pki { dir: dir.into(), random, ca, serving, admin, names })
    }

    /// Renews certificates with less than a third of their lifetime left.
    pub fn renew_if_due(&mut self, now_unix: u64) -> Result<Renewed, PkiError> {
        let (serving, new_serving) =
            leaf(&self.dir, &self.ca, &SERVING, &self.names, now_unix, &self.random)?;
        let (admin, new_admin) = leaf(&self.dir, &self.ca, &ADMIN, &[], now_unix, &self.random)?;
        let changed = Renewed {
            serving: new_serving || serving.certificate != self.serving.certificate,
            admin: new_admin || admin.certificate != self.admin.certificate,
        };
        (self.serving, self.admin) = (serving, admin);
        Ok(changed)
    }

    /// Issues a client certificate that is not written to a file.
    pub fn issue_client(
        &self,
        common_name: &str,
        groups: &[String],
        lifetime_seconds: u64,
        now_unix: u64,
    ) -> Result<Identity, PkiError> {
        let key = certificate::generate_key(&self.random)?;
        let request = Request {
            usage: Usage::Client,
            common_name,
            organizations: groups,
            names: &[],
            not_before: now_unix.saturating_sub(CLOCK_SKEW_SECONDS),
            not_after: now_unix.saturating_add(lifetime_seconds).min(self.ca.not_after),
        };
        let pair = key_pair(&key, &self.random).ok_or(CryptoError("use a key it generated"))?;
        let certificate = certificate::issue(&request, &pair, Some(self.ca.signer()), &self.random)?;
        Ok(Identity { certificate: certificate.into(), key })
    }

    pub fn serving(&self) -> &Identity {
        &self.serving
    }
    pub fn admin(&self) -> &Identity {
        &self.admin
    }
    /// The content of ca.crt: the trust anchor for clients (also in `kube-root-ca.crt`).
    pub fn ca_pem(&self) -> &str {
        &self.ca.pem
    }
    /// Signs certificate signing requests with the CA.
    pub fn issuer(&self) -> Issuer {
        Issuer::new(self.ca.clone())
    }
    /// For [`crate::x509::authenticate`].
    pub fn client_ca(&self) -> ClientCa {
        ClientCa::new(&self.ca.certificates)
    }
    /// The same for those who may be given others later.
    pub fn ca_bundle(&self) -> CaBundle {
        CaBundle::new(&self.ca.certificates)
    }
    /// The admin kubeconfig.
    pub fn admin_kubeconfig(&self, server_url: &str) -> String {
        self.kubeconfig(server_url, "kubernetes-admin", &self.admin)
    }
    pub fn kubeconfig(&self, server_url: &str, user: &str, identity: &Identity) -> String {
        kubeconfig(server_url, &self.ca.pem, user, identity)
    }
}

/// Backdating, so that clients whose clock is slightly behind accept a new certificate.
const CLOCK_SKEW_SECONDS: u64 = 300;
const KEY_MODE: u32 = 0o600;
const CERTIFICATE_MODE: u32 = 0o644;

/// A leaf certificate stored in files.
struct Leaf {
    file: &'static str,
    usage: Usage,
    common_name: &'static str,
    organizations: &'static [&'static str],
}

const SERVING: Leaf =
    Leaf { file: "apiserver", usage: Usage::Server, common_name: "kube-apiserver", organizations: &[] };
const ADMIN: Leaf = Leaf {
    file: "admin",
    usage: Usage::Client,
    common_name: "kubernetes-admin",
    organizations: &[groups::MASTERS],
};

/// A CA stored in files.
struct Root {
    file: &'static str,
    common_name: &'static str,
    /// What to do without its key.
    hint: &'static str,
}

const CLUSTER: Root = Root {
    file: "ca",
    common_name: "kubernetes",
    hint: "restore the key from a backup; without it no certificate can be signed. To start over with a \
           new CA (every kubeconfig must then be replaced), move ca.crt, apiserver.crt and \
           admin.crt away",
};

impl Authority {
    fn open_or_create(
        dir: &Path,
        root: &Root,
        now: u64,
        random: &SystemRandom,
    ) -> Result<Authority, PkiError> {
        let pair = Pair::at(dir, root.file);
        let pkcs8 = pair.key_or_create(root.hint, random)?;
        let key = pair.key_pair(&pkcs8, random)?;
        let pem = match pair.read_certificate()? {
            Some(pem) => pem,
            None => {
                let request = Request {
                    usage: Usage::Authority,
                    common_name: root.common_name,
                    organizations: &[],
                    names: &[],
                    not_before: now.saturating_sub(CLOCK_SKEW_SECONDS),
                    not_after: now.saturating_add(10 * YEAR_SECONDS),
                };
                let pem = pem::encode(pem::CERTIFICATE, &certificate::issue(&request, &key, None, random)?);
                pair.write_certificate(&pem)?;
                pem.into_bytes()
            }
        };
        let certificates = pem::certificates(&pem).map_err(|why| pair.damaged(why))?;
        let parsed = pair.parse(&certificates[0])?;
        if parsed.public_key != key.public_key().as_ref() {
            return Err(pair.mismatch());
        }
        if now >= parsed.not_after {
            return Err(PkiError::AuthorityExpired {
                path: pair.certificate,
                not_after: parsed.not_after,
                now,
            });
        }
        let (subject, not_after) = (parsed.subject.to_vec(), parsed.not_after);
        let pem = String::from_utf8_lossy(&pem).into_owned();
        Ok(Authority { path: pair.certificate, key, certificates, pem, subject, not_after })
    }

    fn signer(&self) -> Signer<'_> {
        Signer { key: &self.key, subject: &self.subject }
    }
}

/// Loads a leaf certificate, or signs one if it is missing, due or lacks a name; returns whether it signed.
fn leaf(
    dir: &Path,
    ca: &Authority,
    leaf: &Leaf,
    names: &[String],
    now: u64,
    random: &SystemRandom,
) -> Result<(Identity, bool), PkiError> {
    let pair = Pair::at(dir, leaf.file);
    let hint = "restore the key, or delete the certificate to generate a new pair";
    let key = pair.key_or_create(hint, random)?;
    let key_pair = pair.key_pair(&key, random)?;
    if let Some(pem) = pair.read_certificate()? {
        let found = pem::certificates(&pem).map_err(|why| pair.damaged(why))?;
        let parsed = pair.parse(&found[0])?;
        if parsed.public_key != key_pair.public_key().as_ref() {
            return Err(pair.mismatch());
        }
        if !ClientCa::new(&ca.certificates).has_issued(&found[0], parsed.not_before) {
            return Err(PkiError::ForeignIssuer {
                certificate: pair.certificate,
                authority: ca.path.clone(),
            });
        }
        let life = parsed.not_after.saturating_sub(parsed.not_before);
        let left = parsed.not_after.saturating_sub(now);
        let fresh = left > life / 3 && now >= parsed.not_before;
        if fresh && names.iter().all(|n| parsed.names.contains(n)) {
            return Ok((Identity { certificate: found[0].clone(), key }, false));
        }
    }
    let organizations: Vec<String> = leaf.organizations.iter().map(|o| (*o).to_owned()).collect();
    let request = Request {
        usage: leaf.usage,
        common_name: leaf.common_name,
        organizations: &organizations,
        names,
        not_before: now.saturating_sub(CLOCK_SKEW_SECONDS),
        not_after: now.saturating_add(YEAR_SECONDS).min(ca.not_after),
    };
    let certificate = certificate::issue(&request, &key_pair, Some(ca.signer()), random)?;
    pair.write_certificate(&pem::encode(pem::CERTIFICATE, &certificate))?;
    Ok((Identity { certificate: certificate.into(), key }, true))
}

/// `name.crt` and `name.key`.
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

impl Pair {
    fn at(dir: &Path, name: &str) -> Pair {
        Pair { certificate: dir.join(format!("{name}.crt")), key: dir.join(format!("{name}.key")) }
    }

    /// The key in PKCS#8; generated if neither file exists.
    fn key_or_create(&self, hint: &'static str, random: &SystemRandom) -> Result<Vec<u8>, PkiError> {
        let file = |action| move |source| PkiError::File { action, path: self.key.clone(), source };
        if let Some(pem) = files::read(&self.key).map_err(file("read"))? {
            return pem::private_key(&pem).map_err(|why| PkiError::Damaged {
                path: self.key.clone(),
                why,
                hint: " (a private key is never overwritten)",
            });
        }
        if self.read_certificate()?.is_some() {
            let (present, missing) = (self.certificate.clone(), self.key.clone());
            return Err(PkiError::KeyMissing { present, missing, hint });
        }
        let key = certificate::generate_key(random)?;
        let pem = pem::encode(pem::PRIVATE_KEY, &key);
        files::create(&self.key, pem.as_bytes(), KEY_MODE).map_err(file("write"))?;
        Ok(key)
    }

    fn key_pair(&self, key: &[u8], random: &SystemRandom) -> Result<EcdsaKeyPair, PkiError> {
        key_pair(key, random).ok_or_else(|| PkiError::Damaged {
            path: self.key.clone(),
            why: "not an ECDSA P-256 key".to_owned(),
            hint: " (a private key is never overwritten)",
        })
    }

    fn read_certificate(&self) -> Result<Option<Vec<u8>>, PkiError> {
        files::read(&self.certificate).map_err(|source| PkiError::File {
            action: "read",
            path: self.certificate.clone(),
            source,
        })
    }

    fn write_certificate(&self, pem: &str) -> Result<(), PkiError> {
        files::replace(&self.certificate, pem.as_bytes(), CERTIFICATE_MODE).map_err(|source| PkiError::File {
            action: "write",
            path: self.certificate.clone(),
            source,
        })
    }

    fn parse<'a>(&self, der: &'a [u8]) -> Result<Parsed<'a>, PkiError> {
        Parsed::parse(der).ok_or_else(|| self.damaged("not an X.509 certificate".to_owned()))
    }

    fn damaged(&self, why: String) -> PkiError {
        let hint = ", or delete it to get a new one for its key";
        PkiError::Damaged { path: self.certificate.clone(), why, hint }
    }

    fn mismatch(&self) -> PkiError {
        PkiError::Mismatch { certificate: self.certificate.clone(), key: self.key.clone() }
    }
}

/// `sha256:HEX` of a certificate's public key, as kubeadm's `--discovery-token-ca-cert-hash`; `None`: it is no certificate.
pub fn public_key_hash(certificate: &[u8]) -> Option<String> {
    let parsed = Parsed::parse(certificate)?;
    let digest = ring::digest::digest(&ring::digest::SHA256, parsed.key_info);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("sha256:{hex}"))
}

/// The DNS names and IP addresses a certificate is for; `None`: it is no certificate.
pub fn certificate_names(certificate: &[u8]) -> Option<Vec<String>> {
    Parsed::parse(certificate).map(|parsed| parsed.names)
}

fn key_pair(pkcs8: &[u8], random: &SystemRandom) -> Option<EcdsaKeyPair> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, random).ok()
}

/// The fixed names and the caller's, deduplicated, IP addresses in canonical form.
fn serving_names(extra: &[String]) -> Result<Vec<String>, PkiError> {
    let mut out: Vec<String> = SERVING_NAMES.iter().map(|n| (*n).to_owned()).collect();
    for name in extra {
        let name = match name.parse::<std::net::IpAddr>() {
            Ok(ip) => ip.to_string(),
            Err(_) => name.to_ascii_lowercase(),
        };
        // Clients reject a certificate with a malformed name, for all of its names.
        if name.parse::<std::net::IpAddr>().is_err() && !user::is_dns_subdomain(name.trim_start_matches("*."))
        {
            return Err(PkiError::BadName(name));
        }
        if !out.contains(&name) {
            out.push(name);
        }
    }
    Ok(out)
}
