//! Views of an object: Table rows, PartialObjectMetadata, other encodings.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use catalog::{Catalog, Resource, Storage};
use codec::{json, protobuf, yaml};
use kinds::columns::{self, Printer};
use object::normalise::{Strict, normalise};
use object::{Map, NotAnObject, Obj, Value, time};
use registry::served_body;

use crate::negotiate::{Encoding, MetaVersion};

/// What a Table's rows carry beside their cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    None,
    Metadata,
    Object,
}

/// How the objects of one resource become rows.
#[derive(Clone)]
pub struct TableView {
    include: Include,
    meta: MetaVersion,
    resource: Arc<Resource>,
}

impl TableView {
    pub fn new(resource: &Arc<Resource>, include: Include, meta: MetaVersion) -> TableView {
        TableView { include, meta, resource: resource.clone() }
    }

    fn printer(&self) -> &dyn Printer {
        kinds::kind_of_resource(&self.resource).printer(&self.resource.version)
    }

    /// `{"kind":"Table",...,"columnDefinitions":[..],"rows":[`.
    pub fn head(&self, metadata: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(2048);
        table_head(self.meta, metadata, Some(self.printer()), &mut out);
        out
    }

    /// Whether a Table without rows says `null` for them.
    pub fn empty_is_null(&self) -> bool {
        self.printer().is_generic()
    }

    /// A Table of one object, as a GET or a watch event shows it. Columns come with the first event only.
    pub fn one(&self, obj: &Obj, now: u64, with_columns: bool, out: &mut Vec<u8>) {
        let metadata = match obj.revision().0 {
            // Never stored.
            0 => "{}".to_owned(),
            revision => format!("{{\"resourceVersion\":\"{revision}\"}}"),
        };
        table_head(self.meta, &metadata, with_columns.then(|| self.printer()), out);
        self.row(obj, now, out);
        out.extend_from_slice(b"]}");
    }

    /// A bookmark: a row of an object with nothing but its version and annotations.
    pub fn bookmark(&self, bookmark: &Value, now: u64, with_columns: bool, out: &mut Vec<u8>) {
        let version = bookmark.str_at(&["metadata", "resourceVersion"]).unwrap_or("");
        let metadata = format!("{{\"resourceVersion\":\"{version}\"}}");
        table_head(self.meta, &metadata, with_columns.then(|| self.printer()), out);
        value_row(self.printer(), bookmark, self.include, self.meta, now, out);
        out.extend_from_slice(b"]}");
    }

    /// Cells come from the stored version, whatever version is requested: upstream too prints one version of all, except of
    /// custom resources.
    pub fn row(&self, obj: &Obj, now: u64, out: &mut Vec<u8>) {
        table_row(self.printer(), &self.tree(obj), now, out);
        match self.include {
            Include::None => out.extend_from_slice(b"null"),
            Include::Metadata => MetadataView::new(&self.resource, self.meta).write(obj, out),
            Include::Object => {
                out.extend_from_slice(&served_body(&self.resource, obj));
            }
        }
        out.push(b'}');
    }

    /// Most kinds come by name, as they are; flow schemas in the order they are tried.
    pub fn sort(&self, items: &mut [Arc<Obj>]) {
        if let Some(order) = self.printer().order() {
            items.sort_by_cached_key(|obj| order(&self.tree(obj)));
        }
    }

    fn tree(&self, obj: &Obj) -> Value {
        let stored = self.resource.storage.as_ref().map(|storage| (storage.schema(), storage.ty));
        if kinds::kind_of_resource(&self.resource).converts_last() {
            return json::parse(&served_body(&self.resource, obj), stored).unwrap_or(Value::Null);
        }
        let form = stored.unwrap_or((self.resource.schema(), self.resource.ty));
        // The table only holds bodies that parse; if one ever did not, a row of absent values is the best answer.
        json::parse(obj.body(), Some(form)).unwrap_or(Value::Null)
    }
}

/// A Table of an object that is made for the answer (`scale`).
pub fn table_of_value(
    printer: &dyn Printer,
    value: &Value,
    include: Include,
    meta: MetaVersion,
    now: u64,
) -> Vec<u8> {
    let mut metadata = Map::default();
    metadata.set("resourceVersion", value.str_at(&["metadata", "resourceVersion"]).unwrap_or(""));
    let metadata = String::from_utf8(json::to_vec(&Value::Map(metadata))).unwrap_or_default();
    table_of(printer, &metadata, std::slice::from_ref(value), include, meta, now)
}

/// A Table of objects that are in no store, and so have no version.
pub fn table_of_values(
    printer: &dyn Printer,
    values: &[Value],
    include: Include,
    meta: MetaVersion,
) -> Vec<u8> {
    table_of(printer, "{}", values, include, meta, 0)
}

fn table_of(
    printer: &dyn Printer,
    metadata: &str,
    values: &[Value],
    include: Include,
    meta: MetaVersion,
    now: u64,
) -> Vec<u8> {
    let mut out = Vec::new();
    table_head(meta, metadata, Some(printer), &mut out);
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        value_row(printer, value, include, meta, now, &mut out);
    }
    out.extend_from_slice(b"]}");
    out
}

fn value_row(
    printer: &dyn Printer,
    value: &Value,
    include: Include,
    meta: MetaVersion,
    now: u64,
    out: &mut Vec<u8>,
) {
    table_row(printer, value, now, out);
    match include {
        Include::None => out.extend_from_slice(b"null"),
        Include::Metadata => {
            partial_metadata(meta, out);
            json::write(value.get("metadata").unwrap_or(&Value::Null), out);
            out.push(b'}');
        }
        Include::Object => json::write(value, out),
    }
    out.push(b'}');
}

/// Up to the first row; without a printer the columns are null.
fn table_head(meta: MetaVersion, metadata: &str, printer: Option<&dyn Printer>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"kind\":\"Table\",\"apiVersion\":\"");
    out.extend_from_slice(meta.api_version().as_bytes());
    out.extend_from_slice(b"\",\"metadata\":");
    out.extend_from_slice(metadata.as_bytes());
    out.extend_from_slice(b",\"columnDefinitions\":");
    match printer {
        Some(printer) => columns::write_definitions(&printer.columns(), out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"rows\":[");
}

/// A row up to its object.
fn table_row(printer: &dyn Printer, value: &Value, now: u64, out: &mut Vec<u8>) {
    let mut cells = Vec::with_capacity(12);
    printer.cells(value, i64::try_from(now).unwrap_or(i64::MAX), &mut cells);
    out.extend_from_slice(b"{\"cells\":[");
    columns::write_cells(&cells, out);
    out.push(b']');
    if let Some(conditions) = printer.conditions(value) {
        out.extend_from_slice(b",\"conditions\":");
        out.extend_from_slice(conditions.as_bytes());
    }
    out.extend_from_slice(b",\"object\":");
}

/// PartialObjectMetadata up to its metadata.
fn partial_metadata(meta: MetaVersion, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"");
    out.extend_from_slice(meta.api_version().as_bytes());
    out.extend_from_slice(b"\",\"metadata\":");
}

/// The objects of one resource as PartialObjectMetadata.
#[derive(Clone, Copy)]
pub struct MetadataView {
    meta: MetaVersion,
    /// See [`kinds::Kind::field_annotation`].
    hidden: Option<&'static str>,
}

impl MetadataView {
    pub fn new(resource: &Resource, meta: MetaVersion) -> MetadataView {
        MetadataView { meta, hidden: kinds::kind_of_resource(resource).field_annotation() }
    }

    pub fn write(self, obj: &Obj, out: &mut Vec<u8>) {
        partial_metadata(self.meta, out);
        match self.hidden.and_then(|hidden| without_annotation(obj, hidden)) {
            Some(metadata) => json::write(&metadata, out),
            None => out.extend_from_slice(obj.metadata()),
        }
        out.push(b'}');
    }

    /// As an object of its own, for readers in this process.
    pub fn object(self, storage: &Storage, obj: &Obj) -> Result<Obj, NotAnObject> {
        let mut body = Vec::with_capacity(obj.metadata().len() + 64);
        self.write(obj, &mut body);
        obj.with_body(storage, &body)
    }

    /// As a protobuf message. Small, and so not kept: it is made for each reader.
    pub fn message(self, catalog: &Catalog, obj: &Obj) -> Bytes {
        let mut out = Vec::new();
        let schema = catalog.schema();
        if let Some(ty) = schema.find("meta.v1.PartialObjectMetadata") {
            let mut item = Vec::with_capacity(obj.metadata().len() + 16);
            MetadataView { meta: MetaVersion::V1, ..self }.write(obj, &mut item);
            // The table only holds bodies that parse.
            let value = json::parse(&item, Some((schema, ty))).unwrap_or(Value::Null);
            protobuf::encode_message(schema, ty, &value, &mut out);
        }
        out.into()
    }

    /// As a protobuf body.
    pub fn write_protobuf(self, catalog: &Catalog, obj: &Obj, out: &mut Vec<u8>) {
        let (message, version) = (self.message(catalog, obj), self.meta.api_version());
        protobuf::seal(version, "PartialObjectMetadata", out, |out| out.extend_from_slice(&message));
    }
}

/// `None` when the metadata has no such annotation.
fn without_annotation(obj: &Obj, hidden: &str) -> Option<Value> {
    let mut metadata = json::parse(obj.metadata(), None).ok()?;
    let map = metadata.as_map_mut()?;
    let annotations = map.get_mut("annotations")?.as_map_mut()?;
    annotations.remove(hidden)?;
    if annotations.is_empty() {
        map.remove("annotations");
    }
    Some(metadata)
}

/// PartialObjectMetadata of an object that is made for the answer.
pub fn metadata_of_value(value: &Value, meta: MetaVersion) -> Value {
    let mut map = Map::default();
    map.set("kind", "PartialObjectMetadata");
    map.set("apiVersion", meta.api_version());
    map.set("metadata", value.get("metadata").cloned().unwrap_or_else(Value::map));
    Value::Map(map)
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

/// ListMeta as a protobuf message.
pub fn list_metadata_message(catalog: &Catalog, metadata: &str) -> Vec<u8> {
    let mut out = Vec::new();
    if let (Some(ty), Ok(value)) =
        (catalog.schema().find("meta.v1.ListMeta"), json::parse(metadata.as_bytes(), None))
    {
        protobuf::encode_message(catalog.schema(), ty, &value, &mut out);
    }
    out
}

/// JSON bytes in the encoding the client wants.
pub fn encode(catalog: &Catalog, json_bytes: &[u8], encoding: Encoding) -> Vec<u8> {
    if encoding == Encoding::Json {
        return json_bytes.to_vec();
    }
    match json::parse(json_bytes, None) {
        Ok(value) => encode_value(catalog, &value, encoding),
        // Our own JSON always parses; if it ever did not, the JSON itself is the best answer.
        Err(_) => json_bytes.to_vec(),
    }
}

pub fn encode_value(catalog: &Catalog, value: &Value, encoding: Encoding) -> Vec<u8> {
    let mut out = Vec::new();
    match encoding {
        Encoding::Json => json::write(value, &mut out),
        Encoding::PrettyJson => json::write_pretty(value, &mut out),
        Encoding::Yaml => yaml::write(value, &mut out),
        Encoding::Protobuf => value_protobuf(catalog, value, &mut out),
    }
    out
}

/// A tree that names its kind as a protobuf body. Every kind made here is in the catalogue.
pub fn value_protobuf(catalog: &Catalog, value: &Value, out: &mut Vec<u8>) {
    let api_version = value.str_at(&["apiVersion"]).unwrap_or("");
    let kind = value.str_at(&["kind"]).unwrap_or("");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    // Discovery's first documents name no version; both versions of a view are written the same.
    let version =
        if version.is_empty() || api_version == MetaVersion::V1beta1.api_version() { "v1" } else { version };
    protobuf::seal(api_version, kind, out, |out| match catalog.find_type(group, version, kind) {
        Some(ty) => protobuf::encode_message(catalog.schema(), ty, value, out),
        None => tracing::error!(api_version, kind, "a kind without a type was to be sent as protobuf"),
    });
}

/// An object with nothing but its kind and version.
pub fn blank(kind: &str, api_version: &str) -> Value {
    let mut blank = Map::default();
    blank.set("kind", kind);
    blank.set("apiVersion", api_version);
    blank.set("metadata", Value::map());
    Value::Map(blank)
}

/// The same with the fields a resource's type always writes.
pub fn blank_object(resource: &Resource) -> Value {
    let mut blank = blank(&resource.kind, &resource.api_version());
    if let Some(storage) = &resource.storage {
        kinds::kind_of(storage).fill_blank(&mut blank);
    }
    // There is nothing in it that could not fit its type.
    let _ = normalise(resource.schema(), resource.ty, &mut blank, &mut Strict::off());
    blank
}

/// The object of a BOOKMARK event: a version, and whether the initial events end here.
pub fn bookmark(blank: &Value, revision: u64, end_of_initial: bool) -> Value {
    let mut bookmark = blank.clone();
    let metadata = bookmark.map_at(&["metadata"]);
    let mut annotations = metadata.remove("annotations");
    metadata.set("resourceVersion", revision.to_string());
    if end_of_initial {
        annotations.get_or_insert_with(Value::map).make_map().set("k8s.io/initial-events-end", "true");
    }
    if let Some(annotations) = annotations {
        metadata.set("annotations", annotations);
    }
    bookmark
}

/// RFC 3339 of unix seconds, for documents that carry a time.
pub fn timestamp(seconds: u64) -> String {
    time::format_seconds(seconds as i64)
}
