//! OpenAPI documents of the catalogue: v3 per group version, v2 of everything, both as JSON and as protobuf. No I/O.
//!
//! ```text
//!                        ┌─ paths    PathItem, Operation ─┐   ┌─ v3, wire3   JSON and protobuf, one group version
//! Catalog ───────────────┤                                ├───┤
//!                        ├─ schemas  Definition, Node  ───┤   └─ v2, wire    JSON and protobuf, everything
//! CustomSchemas ─────────┴─ custom   a CRD's own schema ──┘      document    common to the JSON of v2 and v3
//! ```
//!
//! Routes, discovery and these documents are read from the same rows, so they cannot disagree. Keys are written in
//! alphabetical order: the same catalogue gives the same bytes. Of the built-in types only ObjectMeta has descriptions; custom
//! resources have those of their authors.

mod convert;
mod custom;
mod descriptions;
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

pub use custom::{CustomSchema, CustomSchemas, NoCustomSchemas};

/// The documents of one catalogue.
#[derive(Clone, Copy)]
pub struct Documents<'a> {
    catalog: &'a Catalog,
    custom: &'a dyn CustomSchemas,
}

/// Where the hash of a document comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A hash of the document, which does not change while the process runs.
    BuiltIn,
    /// This hash, of the definitions of the custom resources in the document.
    Custom(String),
}

impl<'a> Documents<'a> {
    pub fn new(catalog: &'a Catalog, custom: &'a dyn CustomSchemas) -> Documents<'a> {
        Documents { catalog, custom }
    }

    /// The entries of the index: `api/v1`, `apis/apps/v1`, `apis/apps`.
    pub fn v3_entries(self) -> BTreeMap<String, Entry> {
        let all = v3::entries(self.catalog).into_iter();
        all.map(|(path, custom)| (path.clone(), self.entry(&path, &custom))).collect()
    }

    /// One of these; `None` when there is no such document.
    pub fn v3_entry(self, path: &str) -> Option<Entry> {
        v3::entry(self.catalog, path).map(|custom| self.entry(path, &custom))
    }

    fn entry(self, path: &str, custom: &[usize]) -> Entry {
        if custom.is_empty() {
            return Entry::BuiltIn;
        }
        // Another release may publish the same definition differently.
        let mut text = format!("{path} {}", env!("CARGO_PKG_VERSION"));
        for i in custom {
            let resource = &self.catalog.resources()[*i];
            let state = self.custom.fingerprint(resource);
            text += &format!("\n{} {} {} {state}", resource.plural, resource.kind, resource.list_kind);
        }
        Entry::Custom(fingerprint(text.as_bytes()))
    }

    /// The OpenAPI 3.0 document of one entry of the index.
    pub fn v3(self, path: &str) -> Option<Vec<u8>> {
        v3::document(self, path)
    }

    /// The same as protobuf (gnostic's `openapi.v3.Document`), for
    /// `application/com.github.proto-openapi.spec.v3@v1.0+protobuf`.
    pub fn v3_protobuf(self, path: &str) -> Option<Vec<u8>> {
        wire3::document(self, path)
    }

    /// The Swagger 2.0 document of everything, as JSON.
    pub fn v2(self) -> Vec<u8> {
        v2::json(self)
    }

    /// The same as protobuf (gnostic's `openapi.v2.Document`), for
    /// `application/com.github.proto-openapi.spec.v2@v1.0+protobuf`.
    pub fn v2_protobuf(self) -> Vec<u8> {
        wire::document(self)
    }
}

/// Whether the index of v3 has this entry.
pub fn has_v3_entry(catalog: &Catalog, path: &str) -> bool {
    v3::entry(catalog, path).is_some()
}

/// A Swagger 2.0 document with parts of others as protobuf; title, version and security are ours.
pub fn v2_protobuf_of(document: &object::Value) -> Vec<u8> {
    wire::swagger::document(document)
}

/// An OpenAPI 3.0 document as protobuf.
pub fn v3_protobuf_of(document: &object::Value) -> Vec<u8> {
    wire::openapi3::document(document)
}

/// A Swagger 2.0 document as OpenAPI 3.0.
pub fn v3_of_v2(document: &object::Value) -> object::Value {
    convert::document(document)
}

/// The document at `/openapi/v3`: the URL of each group version's document.
pub fn v3_index(hashes: &BTreeMap<String, String>) -> Vec<u8> {
    v3::index(hashes)
}

/// A short name for a document's bytes: equal bytes have equal names. For entity tags and the index's hash.
pub fn fingerprint(document: &[u8]) -> String {
    // FNV-1a twice with different starts: not for secrets, only to tell two documents apart.
    let fnv =
        |start: u64| document.iter().fold(start, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    format!("{:016X}{:016X}", fnv(0xcbf2_9ce4_8422_2325), fnv(0x8422_2325_cbf2_9ce4))
}
