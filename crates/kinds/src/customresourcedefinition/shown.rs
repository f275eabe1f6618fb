//! The versions of a definition the way upstream's messages show them: Go's structs, with Go's names and a zero for what is absent.

use object::Value;

use crate::check::internal::{FALSE, Field, Go, NULL, TEXT, ZERO};
use crate::metadata::shown;

/// All versions together; more are shown as they were written.
const MAX_BYTES: usize = 4 * 1024 * 1024;

const VERSIONS: Go = Go::List(&VERSION);
const VERSION: [Field; 9] = [
    ("name", "Name", TEXT),
    ("served", "Served", FALSE),
    ("storage", "Storage", FALSE),
    ("deprecated", "Deprecated", FALSE),
    ("deprecationWarning", "DeprecationWarning", NULL),
    ("schema", "Schema", Go::Pointer(&[("openAPIV3Schema", "OpenAPIV3Schema", Go::Own(structural::rules::shown_schema))])),
    (
        "subresources",
        "Subresources",
        Go::Pointer(&[
            ("status", "Status", Go::Pointer(&[])),
            (
                "scale",
                "Scale",
                Go::Pointer(&[
                    ("specReplicasPath", "SpecReplicasPath", TEXT),
                    ("statusReplicasPath", "StatusReplicasPath", TEXT),
                    ("labelSelectorPath", "LabelSelectorPath", NULL),
                ]),
            ),
        ]),
    ),
    (
        "additionalPrinterColumns",
        "AdditionalPrinterColumns",
        Go::List(&[
            ("name", "Name", TEXT),
            ("type", "Type", TEXT),
            ("format", "Format", TEXT),
            ("description", "Description", TEXT),
            ("priority", "Priority", ZERO),
            ("jsonPath", "JSONPath", TEXT),
        ]),
    ),
    ("selectableFields", "SelectableFields", Go::List(&[("jsonPath", "JSONPath", TEXT)])),
];

/// The versions of a definition.
pub(super) fn versions(versions: Option<&Value>) -> String {
    let plain = || versions.map_or_else(|| "null".to_owned(), shown);
    VERSIONS.show_within(MAX_BYTES, versions).unwrap_or_else(plain)
}

/// A text behind a pointer.
pub(super) fn json(text: &str) -> String {
    let mut out = Vec::new();
    codec::json::write_string(text, &mut out);
    String::from_utf8(out).unwrap_or_default()
}
