//! What CRI is asked for: a pod and its containers in the terms of the runtime. Pure.
//!
//! ```text
//!  Pod ─┬─ sandbox_config ── hostname, DNS, ports, sysctls, namespaces ──> cri::PodSandboxConfig
//!       ├─ container_config ─ env ── mounts ── security ── limits ───────> cri::ContainerConfig
//!       └─ groups ── QoS class and pod: shares, quotas, memory, pids ─────> cgroups (made here, not by the runtime)
//! ```
//! What must be read or written meanwhile is behind traits ([`EnvSources`], which [`Fetched`] is; [`UserNamespaces`],
//! which [`UserRanges`] is) or done by the caller first ([`Wanted`], [`wanted_parts`], [`files`], [`cgroups`]).

pub mod admission;
pub mod cgroups;
mod container;
pub mod dns;
pub mod env;
mod error;
pub mod expansion;
mod fetched;
pub mod files;
pub mod groups;
pub mod hosts;
pub mod labels;
pub mod limits;
mod mounts;
mod namespaces;
mod node_view;
pub mod oom;
mod read;
pub mod resources;
mod sandbox;
mod security;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod user_ranges;

pub use container::{ContainerInputs, DeviceResources, ImageUser, container_config, target_id};
pub use dns::{NO_RESOLV, Resolv};
pub use env::EnvSources;
pub use error::{About, Event, GenerateError};
pub use fetched::{Fetched, Wanted};
pub use mounts::{MountedVolume, WantedPart, absolute, wanted_parts};
pub use namespaces::{IdRange, UserNamespaces, has_own_users};
pub use node_view::NodeView;
pub use read::{pod_directory, qos_class};
pub use sandbox::{Sandbox, sandbox_config};
pub use user_ranges::{CLAIMS as USER_RANGES, UserRanges, forget as forget_user_ranges};
