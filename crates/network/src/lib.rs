//! The network of one node: a bridge, a pair of interfaces for each pod, addresses from the node's range, and the rules by which
//! packets leave the node and host ports reach pods. Everything by netlink; nothing is spawned.
//!
//! ```text
//!   pod's namespace            host
//!   eth0 10.0.1.7/24 ──veth──> vethXXXX ── bridge 10.0.1.1/24 ── routing ── masquerade ──> the world
//! ```

pub mod addresses;
mod conntrack;
mod error;
mod link;
mod netlink;
mod nftables;
pub mod node;
pub mod rules;

pub use error::Error;
