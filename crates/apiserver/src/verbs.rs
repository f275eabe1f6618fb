//! The registry's verbs as HTTP: parameters in, answers out.

mod delete;
mod lists;
mod patch;
mod review;
mod token;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use catalog::{Catalog, Resource, Verbs};
use http::header::{CONTENT_ENCODING, HeaderValue, USER_AGENT, VARY};
use http::request::Parts;
use http::{HeaderMap, Method};
use kinds::columns;
use object::normalise::{Strict, normalise};
use object::{
    Details, FieldValidation, ListOptions, Map, Obj, PatchType, Status, Value, WriteOptions, quote,
};
use registry::{BodyType, RequestContext, Written, protobuf_body, shared_body};

use crate::body::{Body, RequestBody, decode};
use crate::bulk::{LARGE_BYTES, Turn};
use crate::chain::{Api, keeps_alive};
use crate::flow_control::Gate;
use crate::info::{Query, RequestInfo};
use crate::negotiate::{Encoding, Offer, View, Wanted, accepts_gzip, negotiate, negotiate_error};
use crate::respond::{self, Answer};
use crate::views::{self, Include, TableView};
use crate::{component_statuses, connect, gzip};

/// Answers smaller than this are not worth compressing.
const GZIP_FROM: usize = 128 * 1024;

pub async fn serve(gate: &Gate<'_>, body: RequestBody, info: &RequestInfo<'_>) -> Result<Answer, Status> {
    let Gate { api, parts, query, .. } = gate;
    let catalog = api.registry.catalog();
    let Some(resource) = info.find(&catalog) else { return missing(&catalog, info) };
    let answer = serve_resource(gate, body, info, &catalog, resource).await;
    let known = info.subresource.is_empty() || resource.subresource(&info.subresource).is_some();
    let Some(deprecation) = resource.deprecation.as_ref().filter(|_| known) else { return answer };
    if answer.as_ref().is_err_and(is_unrouted) {
        return answer;
    }
    // Whatever comes of the request: the resource itself is on its way out.
    let mut answer = answer.unwrap_or_else(|status| {
        let wanted = negotiate_error(&parts.headers, query);
        respond::status(&catalog, &status, wanted)
    });
    respond::warn_first(&mut answer, deprecation);
    Ok(answer)
}

/// Refused while upstream looks for a handler: none of the resource's words belongs to it.
fn is_unrouted(status: &Status) -> bool {
    matches!(status.code, 405 | 406 | 415) && status.details == Some(Details::default())
}

async fn serve_resource(
    gate: &Gate<'_>,
    body: RequestBody,
    info: &RequestInfo<'_>,
    catalog: &Arc<Catalog>,
    resource: &Arc<Resource>,
) -> Result<Answer, Status> {
    let Gate { api, user, parts, query, .. } = gate;
    let aside = !info.name.is_empty() || info.old_watch || resource.namespaced && !info.inside;
    if resource.verbs == Verbs::CREATE && aside {
        // What is only ever asked has no items and no list across namespaces: one path leads to it.
        return Err(Status::no_such_resource());
    }
    let verb = info.verb_bit().ok_or_else(Status::method_not_allowed)?;
    check_name(&info.name)?;
    let sub = match &*info.subresource {
        "" => None,
        name => Some(resource.subresource(name).ok_or_else(Status::no_such_resource)?),
    };
    let allowed = sub.map_or(resource.verbs, |s| s.verbs);
    let fits_path = match verb {
        _ if parts.method == Method::HEAD || info.old_watch && parts.method != Method::GET => false,
        Verbs::CREATE | Verbs::DELETE_COLLECTION if resource.namespaced && !info.inside => false,
        Verbs::CREATE => info.name.is_empty() != sub.is_some(),
        Verbs::UPDATE | Verbs::PATCH => !info.name.is_empty(),
        _ => true,
    };
    if !allowed.contains(verb) || !fits_path {
        return Err(Status::method_not_allowed());
    }
    if resource.namespaced && info.inside && info.namespace.is_empty() {
        // `namespaces//pods`: all of them can be read, but nothing can be one object's place.
        let across = matches!(verb, Verbs::LIST | Verbs::WATCH) && info.name.is_empty();
        if !across {
            return Err(Status::bad_request("Namespace parameter required."));
        }
    }
    let request = RequestContext {
        user,
        user_agent: parts.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or(""),
        verb,
        catalog,
        resource,
        subresource: sub.map(|s| s.name.as_str()),
        namespace: if resource.namespaced { &info.namespace } else { "" },
        name: &info.name,
        options: WriteOptions::default(),
        deadline: gate.deadline(),
        fence: None,
    };
    let call = Call { api, parts, query, info, request, gate };
    if resource.storage.is_none() {
        if resource.kind == "Binding" {
            return call.bind_by_body(body).await;
        }
        if resource.kind == "ComponentStatus" {
            return component_statuses::serve(api, parts, query, info, &request).await;
        }
        return call.review(body).await;
    }
    match (request.subresource, verb) {
        (None | Some("status"), Verbs::GET) => call.get().await,
        (None, Verbs::LIST) => call.list().await,
        (None, Verbs::WATCH) => call.watch().await,
        (None, Verbs::CREATE) => call.create(body).await,
        (
            None | Some("status" | "finalize" | "approval" | "resize" | "ephemeralcontainers"),
            Verbs::UPDATE,
        ) => call.update(body).await,
        (None | Some("status" | "approval" | "resize" | "ephemeralcontainers"), Verbs::PATCH) => {
            call.patch(body).await
        }
        (Some("approval" | "resize" | "ephemeralcontainers"), Verbs::GET) => call.get().await,
        (None, Verbs::DELETE) => call.delete(body).await,
        (None, Verbs::DELETE_COLLECTION) => call.delete_collection(body).await,
        (Some("token"), Verbs::CREATE) => call.create_token(body).await,
        (Some("scale"), Verbs::GET) => call.get_scale().await,
        (Some("scale"), Verbs::UPDATE) => call.update_scale(body).await,
        (Some("scale"), Verbs::PATCH) => call.patch_scale(body).await,
        (Some("binding"), Verbs::CREATE) => call.bind(body).await,
        (Some("eviction"), Verbs::CREATE) => call.evict(body).await,
        (Some(name @ ("log" | "exec" | "attach" | "portforward" | "proxy")), _) => {
            if name == "log" {
                call.wanted(Offer::Log)?;
            }
            connect::serve(api, user, query, &request).await
        }
        (Some(other), _) => Err(Status::unavailable(format!(
            "the subresource {other} of {} is not served by this version of setpoint yet",
            resource.plural
        ))),
        _ => Err(Status::method_not_allowed()),
    }
}

/// A Status that is no refusal, as far as all of them are the same.
fn status_document(status: &str) -> Map {
    let mut document = Map::default();
    document.set("kind", "Status");
    document.set("apiVersion", "v1");
    document.set("metadata", Value::map());
    document.set("status", status);
    document
}

/// A path that names no resource: a whole unknown group is no API at all.
fn missing(catalog: &Catalog, info: &RequestInfo<'_>) -> Result<Answer, Status> {
    let known = info.group.is_empty() || catalog.groups().iter().any(|g| g.name == *info.group);
    if known { Err(Status::no_such_resource()) } else { Ok(respond::page_not_found()) }
}

/// Names that could not be part of a key; a path without one is no mistake yet.
fn check_name(name: &str) -> Result<(), Status> {
    if name.is_empty() { Ok(()) } else { Status::check_key_name(name) }
}

struct Call<'a> {
    api: &'a Arc<Api>,
    parts: &'a Parts,
    query: &'a Query<'a>,
    info: &'a RequestInfo<'a>,
    request: RequestContext<'a>,
    gate: &'a Gate<'a>,
}

impl Call<'_> {
    /// The body, and the request's seats once it is there; with a turn to decode it, if it is large.
    async fn read(&self, body: RequestBody) -> Result<(Bytes, Option<Turn>), Status> {
        let bytes = body.read().await?;
        self.gate.pass(bytes.len()).await?;
        // Who is in the slow lane has one already.
        let alone = bytes.len() > LARGE_BYTES && keeps_alive(self.gate.level());
        let turn = if alone { self.api.bulk.turn().await } else { None };
        Ok((bytes, turn))
    }

    fn wanted(&self, offer: Offer) -> Result<Wanted, Status> {
        let has_table = match self.request.subresource {
            None | Some("scale") => true,
            Some("status") => kinds::kind_of_resource(self.request.resource).status_has_table(),
            Some(_) => false,
        };
        let offer = if has_table || offer != Offer::Object { offer } else { Offer::Part };
        negotiate(&self.parts.headers, self.query, offer)
    }

    async fn get(&self) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let obj = self.api.registry.get(&self.request, self.query.get("resourceVersion")).await?;
        Ok(self.object(200, &obj, wanted, true))
    }

    async fn create(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let request = self.writing(None)?;
        let of = BodyType::of(request.resource);
        let (bytes, _turn) = self.read(body).await?;
        let (value, warnings) = self.decode(&bytes, of, request.options.field_validation)?;
        // The body itself is all that another try needs.
        let form = Some((of.schema, of.ty));
        let again =
            || decode(request.catalog, &self.parts.headers, &bytes, of.kind, form).map(|again| again.value);
        let mut written = self.api.registry.create(&request, value, &again).await?;
        written.warnings.splice(0..0, warnings);
        Ok(self.written(written, wanted))
    }

    async fn update(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let request = self.writing(None)?;
        let of = BodyType::of(request.resource);
        let (value, warnings) = self.decoded(body, of, request.options.field_validation).await?;
        let mut written = self.api.registry.update(&request, value).await?;
        written.warnings.splice(0..0, warnings);
        Ok(self.written(written, wanted))
    }

    async fn bind(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let request = self.writing(None)?;
        let value = self.subresource_body(body, "Binding", "core.v1.Binding").await?;
        let warnings = self.api.registry.bind(&request, value).await?;
        Ok(self.carried_out(wanted, &warnings))
    }

    /// The old resource `bindings`: the name of the pod stands in the body.
    pub async fn bind_by_body(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let request = self.writing(None)?;
        let value = self.subresource_body(body, "Binding", "core.v1.Binding").await?;
        let catalog = self.request.catalog;
        let pods = catalog.find("", "v1", "pods").ok_or_else(Status::no_such_resource)?;
        let name = value.str_at(&["metadata", "name"]).unwrap_or("").to_owned();
        let request = RequestContext { resource: pods, subresource: Some("binding"), name: &name, ..request };
        let warnings = self.api.registry.bind_by_body(&request, value).await?;
        Ok(self.carried_out(wanted, &warnings))
    }

    async fn evict(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let request = self.writing(None)?;
        let value = self.subresource_body(body, "Eviction", "policy.v1.Eviction").await?;
        let warnings = self.api.registry.evict(&request, value).await?;
        Ok(self.carried_out(wanted, &warnings))
    }

    /// The answer to a create that leaves no object behind.
    fn carried_out(&self, wanted: Wanted, warnings: &[String]) -> Answer {
        let mut success = status_document("Success");
        success.set("code", 201i64);
        let mut answer = respond::value(self.request.catalog, 201, &Value::Map(success), wanted);
        respond::warn(&mut answer, warnings);
        answer
    }

    /// A body whose type is not the resource's own.
    async fn subresource_body(&self, body: RequestBody, kind: &str, ty: &str) -> Result<Value, Status> {
        let catalog = self.request.catalog;
        let ty = catalog.schema().find(ty).map(|ty| (catalog.schema(), ty));
        Ok(decode(catalog, &self.parts.headers, &self.read(body).await?.0, kind, ty)?.value)
    }

    async fn get_scale(&self) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let scale = self.api.registry.get_scale(&self.request, self.query.get("resourceVersion")).await?;
        Ok(self.scale(&scale, wanted))
    }

    async fn update_scale(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let request = self.writing(None)?;
        let value = self.subresource_body(body, "Scale", "autoscaling.v1.Scale").await?;
        let (scale, warnings) = self.api.registry.update_scale(&request, value).await?;
        let mut answer = self.scale(&scale, wanted);
        respond::warn(&mut answer, &warnings);
        Ok(answer)
    }

    async fn patch_scale(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let (patch, request) = self.read_patch(body).await?;
        let (scale, warnings) = self.api.registry.patch_scale(&request, patch).await?;
        let mut answer = self.scale(&scale, wanted);
        respond::warn(&mut answer, &warnings);
        Ok(answer)
    }

    /// The body of what is answered and never stored, and what its sender is warned of.
    async fn asked(&self, body: RequestBody, of: BodyType<'_>) -> Result<(Value, Vec<String>), Status> {
        let validation = self.writing(None)?.options.field_validation;
        let (body, mut warnings) = self.decoded(body, of, validation).await?;
        let read = self.api.registry.read_answered(&self.request, of, body, validation);
        let (asked, unknown) = read.map_err(|status| status.after_warnings(warnings.clone()))?;
        warnings.extend(unknown);
        Ok((asked, warnings))
    }

    async fn decoded(
        &self,
        body: RequestBody,
        of: BodyType<'_>,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Status> {
        let (bytes, _turn) = self.read(body).await?;
        self.decode(&bytes, of, validation)
    }

    fn decode(
        &self,
        bytes: &[u8],
        of: BodyType<'_>,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Status> {
        let (catalog, form) = (self.request.catalog, (of.schema, of.ty));
        let decoded = decode(catalog, &self.parts.headers, bytes, of.kind, Some(form))?;
        match (decoded.duplicates, validation) {
            (Some(duplicates), FieldValidation::Strict) => {
                let mut strict = Strict::on();
                let mut tree = decoded.value.clone();
                if normalise(of.schema, of.ty, &mut tree, &mut strict).is_err() {
                    // What does not fit its type at all is told before anything of this.
                    return Ok((decoded.value, Vec::new()));
                }
                let mut all = vec![duplicates];
                all.extend(strict.into_messages());
                Err(Status::bad_request(format!(
                    "{kind} in version \"{}\" cannot be handled as a {kind}: strict decoding error: {}",
                    of.version,
                    all.join(", "),
                    kind = of.kind,
                )))
            }
            (Some(duplicates), FieldValidation::Warn) => {
                // A warning each, without the line they stand under.
                let lines = duplicates.lines().filter(|line| *line != "yaml: unmarshal errors:");
                Ok((decoded.value, lines.map(|line| line.trim().to_owned()).collect()))
            }
            _ => Ok((decoded.value, Vec::new())),
        }
    }

    /// The answer to a question, in the shape the client wants. It was made for this one client: there is no Table of it.
    fn answered(&self, of: BodyType<'_>, mut answer: Value, wanted: Wanted, warnings: &[String]) -> Answer {
        let catalog = self.request.catalog;
        // In canonical order; ours always fits its type.
        let _ = normalise(of.schema, of.ty, &mut answer, &mut Strict::off());
        let mut out = match wanted.view {
            View::Object | View::Table => respond::value(catalog, 201, &answer, wanted),
            View::Metadata => {
                respond::value(catalog, 201, &views::metadata_of_value(&answer, wanted.meta), wanted)
            }
            View::Misfit => self.refusal(&misfit_of_object(of.group, of.kind)),
        };
        respond::warn(&mut out, warnings);
        out
    }

    /// An object in the shape the client wants.
    fn object(&self, code: u16, obj: &Arc<Obj>, wanted: Wanted, may_compress: bool) -> Answer {
        let (catalog, resource) = (self.request.catalog, self.request.resource);
        let mut out = Vec::new();
        let bytes = match (wanted.view, wanted.encoding) {
            (View::Misfit, _) => return self.misfit(false),
            (View::Object, Encoding::Protobuf) => protobuf_body(resource, obj),
            (View::Object, _) => shared_body(resource, obj),
            (View::Metadata, Encoding::Protobuf) => {
                views::metadata_protobuf(catalog, wanted.meta, obj, &mut out);
                out.into()
            }
            (View::Metadata, _) => {
                views::metadata_of(wanted.meta, obj, &mut out);
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
        if may_compress { compressed(answer, &self.parts.headers) } else { answer }
    }

    /// The metadata of a list was asked for as if it were one object's, or of an object as if it were a list's. Upstream sees that
    /// last of all, and names the type it holds.
    fn misfit(&self, list: bool) -> Answer {
        let resource = self.request.resource;
        let group = resource.storage.as_ref().map_or(&resource.group, |storage| &storage.group);
        if !list {
            return self.refusal(&misfit_of_object(group, &resource.kind));
        }
        let (package, kind) = (package(group), &resource.list_kind);
        self.refusal(&Status::not_acceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list (*{package}.{kind})"
        )))
    }

    /// What was asked for is done, and cannot be shown.
    fn refusal(&self, status: &Status) -> Answer {
        let wanted = negotiate_error(&self.parts.headers, self.query);
        respond::status(self.request.catalog, status, wanted)
    }

    fn table_view(&self, wanted: Wanted) -> Result<TableView, Status> {
        let resource = self.request.resource;
        Ok(TableView::new(resource, include(self.query)?, wanted.meta))
    }

    /// A scale in the shape the client wants.
    fn scale(&self, scale: &Value, wanted: Wanted) -> Answer {
        let catalog = self.request.catalog;
        match wanted.view {
            View::Object => respond::value(catalog, 200, scale, wanted),
            View::Metadata => {
                respond::value(catalog, 200, &views::metadata_of_value(scale, wanted.meta), wanted)
            }
            View::Misfit => self.misfit(false),
            View::Table => {
                let now = self.api.registry.env().now_seconds();
                let include = match include(self.query) {
                    Ok(include) => include,
                    Err(status) => return self.refusal(&status),
                };
                let printer = columns::scale_printer();
                let table = views::table_of_value(printer, scale, include, wanted.meta, now);
                respond::encoded(catalog, 200, table.into(), wanted)
            }
        }
    }

    fn written(&self, written: Written, wanted: Wanted) -> Answer {
        let code = if written.created { 201 } else { 200 };
        let mut answer = self.object(code, &written.obj, wanted, false);
        respond::warn(&mut answer, &written.warnings);
        answer
    }

    /// The request with the options of a write; `patch` is the type of a patch.
    fn writing(&self, patch: Option<PatchType>) -> Result<RequestContext<'_>, Status> {
        let query = kinds::WriteQuery {
            dry_run: self.query.all("dryRun").collect(),
            field_manager: self.query.get("fieldManager"),
            field_validation: self.query.get("fieldValidation"),
            force: self.query.find("force").map(|_| self.query.flag("force")),
        };
        Ok(RequestContext { options: query.parse(self.request.verb, patch)?, ..self.request })
    }
}

fn misfit_of_object(group: &str, kind: &str) -> Status {
    let package = package(group);
    Status::not_acceptable(format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list (*{package}.{kind})"
    ))
}

/// Upstream's own types of a group stand in a package of this name.
fn package(group: &str) -> &str {
    match group.split('.').next().unwrap_or("") {
        "" => "core",
        "internal" => "apiserverinternal",
        package => package,
    }
}

fn parse_int(text: &str) -> Result<i64, Status> {
    object::parse_int(text).map_err(Status::bad_request)
}

pub(crate) fn list_options(query: &Query<'_>, info: &RequestInfo<'_>) -> Result<ListOptions, Status> {
    let number = |name: &str| query.find(name).map(parse_int).transpose();
    let mut options = ListOptions {
        label_selector: query.get("labelSelector").to_owned(),
        field_selector: query.get("fieldSelector").to_owned(),
        resource_version: query.get("resourceVersion").to_owned(),
        resource_version_match: query.get("resourceVersionMatch").to_owned(),
        limit: number("limit")?.unwrap_or(0),
        continue_token: query.get("continue").to_owned(),
        // The old path makes a watch of what else is taken for a list.
        watch: info.verb == "watch" && query.flag("watch"),
        allow_bookmarks: query.flag("allowWatchBookmarks"),
        send_initial_events: query.find("sendInitialEvents").map(|_| query.flag("sendInitialEvents")),
        timeout_seconds: number("timeoutSeconds")?.and_then(|n| u64::try_from(n).ok()),
    };
    // A watch that begins with the state and says nothing of how is one with initial events, their end told.
    let from_the_state = matches!(options.resource_version.as_str(), "" | "0");
    if options.watch
        && from_the_state
        && options.send_initial_events.is_none()
        && options.resource_version_match.is_empty()
    {
        options.send_initial_events = Some(true);
        options.resource_version_match = "NotOlderThan".to_owned();
    }
    Ok(options)
}

pub(crate) fn include(query: &Query<'_>) -> Result<Include, Status> {
    match query.get("includeObject") {
        "None" => Ok(Include::None),
        "Object" => Ok(Include::Object),
        "" | "Metadata" => Ok(Include::Metadata),
        other => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', \
             'None', or empty",
            quote(other)
        ))),
    }
}

pub(crate) fn mark_gzip(answer: &mut Answer) {
    answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    answer.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// The object, packed if it is large and the client can unpack it.
fn compressed(answer: Answer, headers: &HeaderMap) -> Answer {
    packed(answer, GZIP_FROM + 1, accepts_gzip(headers))
}

/// The answer, packed if it has so many bytes and that is `wanted`.
pub(crate) fn packed(mut answer: Answer, from: usize, wanted: bool) -> Answer {
    if let Body::Whole(Some(bytes)) = answer.body()
        && bytes.len() >= from
        && wanted
    {
        *answer.body_mut() = gzip::gzip(bytes).into();
        mark_gzip(&mut answer);
    }
    answer
}
