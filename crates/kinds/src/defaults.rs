//! What an object gets that its writer left out, in the version the writer speaks. A kind's defaults are in its folder.
//!
//! ```text
//! body ─ normalise ─ apply ─ to_storage ─ admission ─ prepare ─ normalise ─ validate ─ encode
//! ```
//! Missing members are added at the end of their map, so what comes out is canonical but for their order; the
//! pass that follows every preparation puts them in their place. Applying twice is applying once. Nothing is
//! looked up, drawn or dated here: addresses and ports are allocated elsewhere, tokens and tolerations are
//! admission's. Fields behind a feature gate are here when the gate is on by default in v1.36. What upstream
//! does on the way through its internal types to the same version (`serviceAccount` beside
//! `serviceAccountName`, `podIP` beside `podIPs`) is here too: there are no internal types.

pub(crate) mod amounts;
pub(crate) mod fill;

#[cfg(test)]
mod tests;

use object::Value;

use crate::kind::Kind;

/// Fills in what is missing from an object of that kind in that served version. The tree is normalised.
pub fn apply(kind: &dyn Kind, version: &str, value: &mut Value) {
    if let Some(defaults) = kind.defaults(version)
        && let Value::Map(object) = value
    {
        defaults(object);
    }
}
