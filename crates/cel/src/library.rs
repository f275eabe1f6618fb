//! The libraries expressions may use, and since which version of Kubernetes new ones may.
//!
//! A library is one file here that says what it declares, and one row of [`LIBRARIES`].

mod args;
pub mod authz;
pub mod cidr;
pub mod format;
pub mod ip;
pub mod jsonpatch;
mod netip;
pub mod quantity;
mod quote;
pub mod semver;
mod shared_cost;
pub mod standard;
pub mod urls;

use crate::environment::{Feature, Version};
use crate::function::Function;
use crate::types::Type;

/// What a library adds to an environment.
#[derive(Default)]
pub struct Library {
    pub functions: Vec<Function>,
    /// Types that have a name in expressions (`net.IP`), each declared as a variable of its own type's type.
    pub types: Vec<Type>,
    /// Changes of the language itself.
    pub features: Vec<Feature>,
}

/// A row: a library in the versions that have it.
pub struct Row {
    pub name: &'static str,
    pub introduced: Version,
    /// The first version without it.
    pub removed: Option<Version>,
    pub library: fn() -> Library,
}

const fn since(minor: u32, name: &'static str, library: fn() -> Library) -> Row {
    Row { name, introduced: Version(1, minor), removed: None, library }
}

/// In upstream's order, which overload resolution and messages depend on.
pub static LIBRARIES: &[Row] = &[
    since(0, "standard", standard::library),
    since(0, "urls", urls::library),
    since(27, "authz", authz::library),
    since(28, "quantity", quantity::library),
    since(30, "ip", ip::library),
    since(30, "cidr", cidr::library),
    since(31, "format", format::library),
    since(31, "authz selectors", authz::selectors),
    since(33, "semver", semver::library),
];
