//! Who are you, may you: identities, certificates, tokens, RBAC, impersonation, access reviews.
//!
//! ```text
//! TLS client certificate ─ x509::authenticate ─┐
//! Authorization: Bearer ── Tokens ──────────────┤
//!                          bootstrap_token ─────┼─ UserInfo ─ impersonation ─ UserInfo ─ node, rbac::Policy
//!                          ServiceAccounts ─────┤
//! neither ──────────────── UserInfo::anonymous ─┘
//! ```
//!
//! Nothing here waits, asks for the time or knows HTTP: every function takes data and gives data. Only `pki`
//! and `tokens` touch files, when the program starts or a certificate is renewed.

mod attributes;
pub mod bootstrap_token;
pub mod impersonation;
pub mod jwt;
pub mod node;
pub mod pki;
pub mod rbac;
pub mod reviews;
pub mod service_account;
pub mod tokens;
mod user;
pub mod x509;

pub use attributes::{Attributes, Decision, forbidden};
pub use pki::{Pki, PkiError};
pub use rbac::{Policy, Rule};
pub use service_account::ServiceAccounts;
pub use tokens::Tokens;
pub use user::{UserInfo, groups, names};

/// The machine's randomness, for keys and signatures alone: a world under a seed repeats everything else, but nothing that
/// could be guessed from its seed may ever sign for a real one.
#[allow(clippy::disallowed_methods, reason = "keys must not follow from a seed")]
pub(crate) fn random() -> ring::rand::SystemRandom {
    ring::rand::SystemRandom::new()
}
