//! A node's certificates: the first one for a bootstrap token, and each next one before the last ends.
//!
//! ```text
//! token ── discovery: whom to trust ── CSR of kube-apiserver-client-kubelet ── kubelet-client-current.pem ─┐
//!                                                                                                          v
//!                      CSR of kubelet-serving (names, addresses) ── kubelet-server-current.pem     system:node:NAME
//!                                        └─── again after 70 to 90 % of their life, or when the names change
//! ```
//! Keys are ECDSA P-256, made here, and never leave the machine.

pub mod discovery;
mod join;
mod keep;
mod request;
mod serving;
mod store;
#[cfg(test)]
mod tests;

pub use join::{Join, JoinError, Joined, Trust, join};
pub use keep::{Keeper, rotation_due};
pub use request::{CertificateError, Purpose, SigningRequests, Wanted, obtain};
pub use serving::ServingSlot;
pub use store::{CLIENT_FILE, KUBECONFIG, SERVER_FILE, Store};
