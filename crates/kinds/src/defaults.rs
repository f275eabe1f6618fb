//! Defaults of fields the client left out, in the version of the request. A kind's defaults are in its folder.
//!
//! ```text
//! body ─ normalise ─ apply ─ to_storage ─ admission ─ prepare ─ normalise ─ validate ─ encode
//! ```
//! Missing members are added at the end of their map, so the result is canonical except for their order, which the
//! normalisation after every preparation corrects. Defaulting is idempotent and pure: addresses and ports are allocated
//! elsewhere, tokens and tolerations are added by admission. Fields behind a feature gate are here when the gate is on by
//! default in v1.36. What upstream does in the conversion to its internal types and back (`serviceAccount` beside
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
