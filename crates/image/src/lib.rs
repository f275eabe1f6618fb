//! Container images on a node: names, pulls, storage, layers.
//!
//! ```text
//! pod's image ── Reference ─┐                         ┌─ Store: blobs, layers, index
//! pull secrets ── Keyring ──┴─ Puller ── registry ──> │    │ layers(image) ── lowerdir of overlayfs
//!                  certs.d ────┘                      │    │ image.config  ── command, env, user
//! FILE ──────────────────────────────── import ─────> └─   └ image.pulled  ── whose credentials opened it
//! ```
//! Everything that comes from outside (registries, archives, layers) is checked against its digest, bounded, and unpacked where it
//! cannot leave its directory.

mod blocking;
mod config;
mod digest;
#[cfg(test)]
mod hostile;
mod hosts;
mod import;
mod keyring;
mod manifest;
mod pull;
mod reference;
mod registry;
mod store;
mod tar;
#[cfg(test)]
mod testing;
mod unpack;

pub use blocking::{Blocking, blocking_pool};
pub use config::{Config, User};
pub use digest::{Digest, DigestError};
pub use hosts::HostsError;
pub use import::{ImportOptions, import};
pub use keyring::{Credential, Keyring, KeyringError, Login, SecretSource};
pub use manifest::{ManifestError, Platform};
pub use pull::{Progress, Pull, PullError, PullOptions, Puller};
pub use reference::{Reference, ReferenceError, ReferenceProblem};
pub use registry::{Proxies, RegistryError, machine_roots};
pub use store::{
    Image, LayerRecord, Pruned, PulledBy, PulledSecret, Store, StoreError, Verification, chain_id,
};
pub use unpack::{Limits, UnpackError};
