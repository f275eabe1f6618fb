//! Resources of the catalogue as loops name them.

use catalog::{Name, Resource};
use client::Gvr;

/// How a client is told of a resource; `None` for one that came after the program was built.
pub(crate) fn gvr(resource: &Resource) -> Option<Gvr> {
    let fixed = |name: &Name| match name {
        Name::Static(text) => Some(*text),
        Name::Shared(_) => None,
    };
    Some(Gvr::new(fixed(&resource.group)?, fixed(&resource.version)?, fixed(&resource.plural)?))
}
