//! The libraries expressions may use, and since which version of Kubernetes new ones may.
//!
//! A library is one file here that says what it declares, and one row of [`LIBRARIES`].

mod arguments;
mod costs;
pub mod ext_lists;
pub mod lists;
pub mod regex;
#[cfg(test)]
mod replay;
pub mod sets;
pub mod standard;
pub mod strings;

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
    since(0, "regex", regex::library),
    since(0, "lists", lists::library),
    Row {
        name: "strings",
        introduced: Version(1, 0),
        removed: Some(Version(1, 29)),
        library: strings::version_0,
    },
    since(29, "strings", strings::library),
    since(29, "sets", sets::library),
    since(34, "ext_lists", ext_lists::library),
];
