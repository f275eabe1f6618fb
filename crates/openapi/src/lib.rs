//! OpenAPI documents of the catalogue: v3 per group version, v2 of everything, both as JSON and as protobuf. No I/O.
//!
//! ```text
//!             ┌─ paths    PathItem, Operation ─┐   ┌─ v3, wire3   JSON and protobuf, one group version
//! Catalog ────┤                                ├───┤
//!             └─ schemas  Definition, Node  ───┘   └─ v2, wire    JSON and protobuf, everything
//!                                                     document    common to the JSON of v2 and v3
//! ```
//!
//! Routes, discovery and these documents are read from the same rows, so they cannot disagree. Keys are written in
//! alphabetical order: the same catalogue gives the same bytes.

mod document;
mod json;
mod names;
mod paths;
mod schemas;
mod v2;
mod v3;
mod wire;
mod wire3;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use catalog::Catalog;

/// The `info` of the documents, as in kube-apiserver.
const API_VERSION: &str = "1.36";

/// The entries of the index: `api/v1`, `apis/apps/v1`, `apis/apps`.
pub fn v3_entries(catalog: &Catalog) -> Vec<String> {
    v3::entries(catalog)
}

/// The hash of a document for caches: equal documents have equal hashes. Builds the document.
pub fn v3_hash(catalog: &Catalog, path: &str) -> Option<String> {
    v3::document(catalog, path).map(|document| fingerprint(&document))
}

/// The document at `/openapi/v3`: the URL of each group version's document.
pub fn v3_index(hashes: &BTreeMap<String, String>) -> Vec<u8> {
    v3::index(hashes)
}

/// The OpenAPI 3.0 document of one entry of the index (`api/v1`, `apis/apps/v1`, `apis/apps`); `None` when there is none.
pub fn v3_group(catalog: &Catalog, path: &str) -> Option<Vec<u8>> {
    v3::document(catalog, path)
}

/// The same as protobuf (gnostic's `openapi.v3.Document`), for
/// `application/com.github.proto-openapi.spec.v3@v1.0+protobuf`.
pub fn v3_group_protobuf(catalog: &Catalog, path: &str) -> Option<Vec<u8>> {
    wire3::document(catalog, path)
}

/// The Swagger 2.0 document of everything, as JSON.
pub fn v2(catalog: &Catalog) -> Vec<u8> {
    v2::json(catalog)
}

/// The same as protobuf (gnostic's `openapi.v2.Document`), for
/// `application/com.github.proto-openapi.spec.v2@v1.0+protobuf`.
pub fn v2_protobuf(catalog: &Catalog) -> Vec<u8> {
    wire::document(catalog)
}

/// A short name for a document's bytes: equal bytes have equal names. For entity tags and the index's hash.
pub fn fingerprint(document: &[u8]) -> String {
    // FNV-1a twice with different starts: not for secrets, only to tell two documents apart.
    let fnv =
        |start: u64| document.iter().fold(start, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    format!("{:016X}{:016X}", fnv(0xcbf2_9ce4_8422_2325), fnv(0x8422_2325_cbf2_9ce4))
}
