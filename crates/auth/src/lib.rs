//! Authentication and authorization: client certificates, tokens, RBAC, node authorizer, impersonation, access reviews.
//!
//! ```text
//! TLS client certificate ─ x509::authenticate ─┐
//! X-Remote-User ────────── RequestHeaders ──────┤
//! Authorization: Bearer ── Tokens ──────────────┤
//!                          bootstrap_token ─────┼─ UserInfo ─ impersonation ─ UserInfo ─ node, rbac::Policy
//!                          ServiceAccounts ─────┤
//! no credentials ───────── UserInfo::anonymous ─┘
//! ```
//!
//! Nothing here reads the clock or knows HTTP: functions take data and return data. Only `pki` and `tokens` touch files, at startup or
//! when a certificate is renewed, and [`FollowedFiles`], which looks at those that others replace.

mod attributes;
pub mod bootstrap_token;
mod ca_bundle;
mod followed_files;
pub mod impersonation;
pub mod jwt;
pub mod node;
pub mod pki;
pub mod rbac;
mod request_header;
pub mod reviews;
mod roots;
pub mod service_account;
pub mod tokens;
mod user;
pub mod x509;

pub use attributes::{Attributes, Decision, forbidden};
pub use ca_bundle::{Authorities, CaBundle};
pub use followed_files::{FollowedFiles, UnreadableFile};
pub use pki::{Pki, PkiError};
pub use rbac::{Policy, Rule};
pub use request_header::{RequestHeaderNames, RequestHeaders};
pub use roots::{ChainError, Purpose, Roots};
pub use service_account::ServiceAccounts;
pub use tokens::Tokens;
pub use user::{UserInfo, groups, names};

/// The operating system's randomness, for keys and signatures only. Everything else in a simulated cluster follows from its
/// seed, but a key that can be guessed from a seed must never sign for a real cluster.
#[allow(clippy::disallowed_methods, reason = "keys must not follow from a seed")]
pub(crate) fn random() -> ring::rand::SystemRandom {
    ring::rand::SystemRandom::new()
}
