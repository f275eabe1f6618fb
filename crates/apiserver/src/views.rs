//! Other shapes of an object: Table rows, metadata only, another encoding.

use std::fmt::Write as _;

use codec::{json, yaml};
use object::{Value, time};
use table::Obj;

use crate::negotiate::Encoding;

/// What a Table's rows carry beside their cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    None,
    Metadata,
    Object,
}

/// The columns every kind has; each kind's own come with its folder.
const COLUMNS: &str = r#"[{"name":"Name","type":"string","format":"name","description":"Name of the object, unique within its namespace.","priority":0},{"name":"Created At","type":"date","format":"","description":"When the server created the object.","priority":0}]"#;

/// `{"kind":"Table",...,"columnDefinitions":[..],"rows":[` for a list.
pub fn table_head(metadata: &str) -> Vec<u8> {
    format!("{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata},\"columnDefinitions\":{COLUMNS},\"rows\":[")
        .into_bytes()
}

/// A Table of one object, as a GET or a watch event shows it. Column definitions come with the first event only.
pub fn table_of_one(obj: &Obj, body: &[u8], include: Include, with_columns: bool, out: &mut Vec<u8>) {
    let columns = if with_columns { COLUMNS } else { "null" };
    out.extend_from_slice(
        format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{{\"resourceVersion\":\"{}\"}},\"columnDefinitions\":{columns},\"rows\":[",
            obj.revision()
        )
        .as_bytes(),
    );
    table_row(obj, body, include, out);
    out.extend_from_slice(b"]}");
}

/// An empty Table, for a bookmark.
pub fn table_bookmark(metadata: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(
        format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata},\"columnDefinitions\":null,\"rows\":[]}}"
        )
        .as_bytes(),
    );
}

pub fn table_row(obj: &Obj, body: &[u8], include: Include, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"cells\":[");
    json::write_string(obj.name(), out);
    out.push(b',');
    let created = json::parse(obj.metadata(), None).ok();
    let created = created.as_ref().and_then(|m| m.str_at(&["creationTimestamp"])).unwrap_or("");
    json::write_string(created, out);
    out.extend_from_slice(b"],\"object\":");
    match include {
        Include::None => out.extend_from_slice(b"null"),
        Include::Metadata => metadata_of(obj, out),
        Include::Object => out.extend_from_slice(body),
    }
    out.push(b'}');
}

/// PartialObjectMetadata.
pub fn metadata_of(obj: &Obj, out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":",
    );
    out.extend_from_slice(obj.metadata());
    out.push(b'}');
}

/// PartialObjectMetadata as a list's item: without its type, as all list items.
pub fn metadata_item(obj: &Obj, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"metadata\":");
    out.extend_from_slice(obj.metadata());
    out.push(b'}');
}

/// ListMeta.
pub fn list_metadata(revision: u64, continue_token: Option<&str>, remaining: Option<usize>) -> String {
    let mut out = format!("{{\"resourceVersion\":\"{revision}\"");
    if let Some(token) = continue_token {
        let _ = write!(out, ",\"continue\":\"{token}\"");
    }
    if let Some(remaining) = remaining {
        let _ = write!(out, ",\"remainingItemCount\":{remaining}");
    }
    out.push('}');
    out
}

/// JSON bytes in the encoding the client wants.
pub fn encode(json_bytes: &[u8], encoding: Encoding) -> Vec<u8> {
    if encoding == Encoding::Json {
        return json_bytes.to_vec();
    }
    match json::parse(json_bytes, None) {
        Ok(value) => encode_value(&value, encoding),
        // Our own JSON always parses; if it ever did not, the JSON itself is the best answer.
        Err(_) => json_bytes.to_vec(),
    }
}

pub fn encode_value(value: &Value, encoding: Encoding) -> Vec<u8> {
    let mut out = Vec::new();
    match encoding {
        Encoding::Json => json::write(value, &mut out),
        Encoding::PrettyJson => json::write_pretty(value, &mut out),
        Encoding::Yaml => yaml::write(value, &mut out),
    }
    out
}

/// RFC 3339 of unix seconds, for documents that carry a time.
pub fn timestamp(seconds: u64) -> String {
    time::format_seconds(seconds as i64)
}
