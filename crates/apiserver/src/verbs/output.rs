//! What handlers answer with: objects in the negotiated form, and the refusals of forms that do not exist.

use std::sync::Arc;

use object::normalise::normalise_written;
use object::{Map, Obj, Status, Value};
use registry::{BodyType, RequestContext, Written, protobuf_body, shared_body};

use super::Call;
use super::options::include;
use crate::gzip;
use crate::negotiate::{Encoding, Negotiated, View, negotiate_error};
use crate::respond::{self, Answer};
use crate::views::{self, MetadataView, TableView};

impl Call<'_> {
    /// An object in the negotiated form.
    pub(super) fn object(&self, code: u16, obj: &Arc<Obj>, wanted: Negotiated, may_compress: bool) -> Answer {
        let (catalog, resource) = (self.request.catalog, self.request.resource);
        let mut out = Vec::new();
        let bytes = match (wanted.view, wanted.encoding) {
            (View::Mismatch, _) => return self.mismatch(false),
            (View::Object, Encoding::Protobuf) => protobuf_body(resource, obj),
            (View::Object, _) => shared_body(resource, obj),
            (View::Metadata, Encoding::Protobuf) => {
                MetadataView::new(resource, wanted.meta).write_protobuf(catalog, obj, &mut out);
                out.into()
            }
            (View::Metadata, _) => {
                MetadataView::new(resource, wanted.meta).write(obj, &mut out);
                out.into()
            }
            (View::Table, _) => {
                match self.table_view(wanted) {
                    Ok(view) => view.one(obj, self.api.registry.env().now_seconds(), true, &mut out),
                    Err(status) => return self.refusal(&status),
                }
                out.into()
            }
        };
        let answer = if wanted.encoding == Encoding::Protobuf {
            respond::answer(code, wanted.content_type(), bytes.into())
        } else {
            respond::encoded(catalog, code, bytes, wanted)
        };
        if may_compress { gzip::compress_object(answer, &self.parts.headers) } else { answer }
    }

    /// Waits for what follows from a write, where this server acts on its resource. Meanwhile the request occupies nothing.
    pub(super) async fn effect(&self, request: &RequestContext<'_>, written: &Written) {
        let Some(storage) = request.resource.storage.as_ref().filter(|_| request.subresource.is_none())
        else {
            return;
        };
        let Some(effect) = self.api.effects.of(storage).filter(|_| !request.options.dry_run) else { return };
        drop(self.authorized.take_guard());
        self.api.effect(effect, &written.obj, self.authorized.deadline()).await;
    }

    pub(super) fn written(&self, written: Written, wanted: Negotiated) -> Answer {
        let code = if written.created { 201 } else { 200 };
        let mut answer = self.object(code, &written.obj, wanted, false);
        respond::warn(&mut answer, &written.warnings);
        answer
    }

    /// A Scale in the negotiated form.
    pub(super) fn scale(&self, scale: &Value, wanted: Negotiated) -> Answer {
        let catalog = self.request.catalog;
        match wanted.view {
            View::Object => respond::value(catalog, 200, scale, wanted),
            View::Metadata => {
                respond::value(catalog, 200, &views::metadata_of_value(scale, wanted.meta), wanted)
            }
            View::Mismatch => self.mismatch(false),
            View::Table => {
                let now = self.api.registry.env().now_seconds();
                let include = match include(self.query) {
                    Ok(include) => include,
                    Err(status) => return self.refusal(&status),
                };
                let printer = kinds::kind_of_resource(self.request.resource).scale_printer();
                let table = views::table_of_value(printer, scale, include, wanted.meta, now);
                respond::encoded(catalog, 200, table.into(), wanted)
            }
        }
    }

    /// The answer to a review, in the negotiated form; there is no Table of it.
    pub(super) fn answered(
        &self,
        of: BodyType<'_>,
        mut answer: Value,
        wanted: Negotiated,
        warnings: &[String],
    ) -> Answer {
        let catalog = self.request.catalog;
        // For the canonical order; our own answers fit their type. They are not stored, so an empty list is shown as one.
        let _ = normalise_written(of.schema, of.ty, &mut answer);
        let mut out = match wanted.view {
            View::Object | View::Table => respond::value(catalog, 201, &answer, wanted),
            View::Metadata => {
                respond::value(catalog, 201, &views::metadata_of_value(&answer, wanted.meta), wanted)
            }
            View::Mismatch => self.refusal(&mismatch_of_object(of.group, of.kind)),
        };
        respond::warn(&mut out, warnings);
        out
    }

    /// The answer to a create that stores no object.
    pub(super) fn carried_out(&self, wanted: Negotiated, warnings: &[String]) -> Answer {
        let mut success = status_document("Success");
        success.set("code", 201i64);
        let mut answer = respond::value(self.request.catalog, 201, &Value::Map(success), wanted);
        respond::warn(&mut answer, warnings);
        answer
    }

    /// A list was requested as PartialObjectMetadata, or an object as its List. Upstream notices last, and names its own type.
    pub(super) fn mismatch(&self, list: bool) -> Answer {
        let resource = self.request.resource;
        let group = resource.storage.as_ref().map_or(&resource.group, |storage| &storage.group);
        if !list {
            return self.refusal(&mismatch_of_object(group, &resource.kind));
        }
        let (package, kind) = (package(group), &resource.list_kind);
        self.refusal(&Status::not_acceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list (*{package}.{kind})"
        )))
    }

    /// The request succeeded, but its result cannot be shown in the requested form.
    pub(super) fn refusal(&self, status: &Status) -> Answer {
        let wanted = negotiate_error(&self.parts.headers, self.query);
        respond::status(self.request.catalog, status, wanted)
    }

    pub(super) fn table_view(&self, wanted: Negotiated) -> Result<TableView, Status> {
        let resource = self.request.resource;
        Ok(TableView::new(resource, include(self.query)?, wanted.meta))
    }
}

/// The common part of a Status that is no error.
pub(super) fn status_document(status: &str) -> Map {
    let mut document = Map::default();
    document.set("kind", "Status");
    document.set("apiVersion", "v1");
    document.set("metadata", Value::map());
    document.set("status", status);
    document
}

fn mismatch_of_object(group: &str, kind: &str) -> Status {
    let package = package(group);
    Status::not_acceptable(format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list (*{package}.{kind})"
    ))
}

/// The Go package of a group's internal types.
fn package(group: &str) -> &str {
    match group.split('.').next().unwrap_or("") {
        "" => "core",
        "internal" => "apiserverinternal",
        package => package,
    }
}
