//! The libraries expressions may use, and since which version of Kubernetes new ones may.
//!
//! A library is one file here that says what it declares, and one row of [`LIBRARIES`].

mod arguments;
pub mod authz;
pub mod cidr;
pub mod comprehensions;
mod costs;
pub mod ext_lists;
pub mod format;
pub mod ip;
pub mod jsonpatch;
pub mod lists;
mod netip;
pub mod optional;
pub mod quantity;
mod quote;
pub mod regex;
pub mod semver;
pub mod sets;
pub mod standard;
pub mod strings;
mod time;
pub mod urls;

use catalog::Name;

use crate::environment::{Feature, Version};
use crate::function::Function;
use crate::types::Type;

/// What a library adds to an environment.
#[derive(Default)]
pub struct Library {
    pub functions: Vec<Function>,
    /// Types that have a name in expressions (`net.IP`), each declared as a variable of its own type's type.
    pub types: Vec<Type>,
    /// Types that expressions know by another name than their own.
    pub named: Vec<(Name, Type)>,
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
    since(0, "regex", regex::library),
    since(0, "lists", lists::library),
    since(27, "authz", authz::library),
    since(28, "cross-type numeric comparisons", || Library::of_feature(Feature::CrossTypeNumericComparisons)),
    since(28, "optional types", optional::library),
    since(28, "quantity", quantity::library),
    since(29, "literal validation", || Library::of_feature(Feature::LiteralValidation)),
    Row {
        name: "strings",
        introduced: Version(1, 0),
        removed: Some(Version(1, 29)),
        library: strings::version_0,
    },
    since(29, "strings", strings::library),
    since(29, "sets", sets::library),
    since(30, "ip", ip::library),
    since(30, "cidr", cidr::library),
    since(31, "format", format::library),
    // Its feature gate, which is on, decides before the version: upstream says 1.31.
    since(0, "authz selectors", authz::selectors),
    since(32, "two-variable comprehensions", comprehensions::library),
    since(33, "semver", semver::library),
    since(34, "ext_lists", ext_lists::library),
];

impl Library {
    fn of_feature(feature: Feature) -> Library {
        Library { features: vec![feature], ..Library::default() }
    }
}
