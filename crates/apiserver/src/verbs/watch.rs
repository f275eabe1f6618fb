//! Watches: how events are encoded, and over which transport they are sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use codec::json;
use object::Status;
use registry::{protobuf_body, served_body, shared_body};
use table::Selection;

use super::{Call, include, list_options};
use crate::body::Body;
use crate::negotiate::{Encoding, Offer, View, check_stream};
use crate::request_metrics::route;
use crate::respond::{self, Answer};
use crate::views::{self, MetadataView};
use crate::watch_body::{ConvertEvents, ShareObject, WatchBody, WatchSettings, WriteObject};
use crate::watch_framing::{Framing, error_event};
use crate::{flow_control, websocket};

/// A watch without a timeout lives this long at least, and up to twice as long, so that clients don't all come
/// back at once.
const WATCH_SECONDS: u64 = 1800;

impl Call<'_> {
    pub(super) async fn watch(&self) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Events)?;
        let protobuf = wanted.encoding == Encoding::Protobuf;
        let framing = if protobuf { Framing::Protobuf } else { Framing::Lines };
        let catalog = self.request.catalog;
        let mut options = list_options(self.query, self.info)?;
        let mut request = self.request;
        if !request.name.is_empty() {
            // The deprecated path of a watch on one object.
            options.field_selector = format!("metadata.name={}", request.name);
            request.name = "";
        }
        let env = self.api.registry.env().clone();
        let seconds = match options.timeout_seconds {
            Some(seconds) if seconds > 0 => seconds,
            _ => WATCH_SECONDS + env.random_below(WATCH_SECONDS),
        };
        let watch = match self.api.registry.watch(&request, &options).await {
            // "Too old" and "too large" versions are reported in the stream, where reflectors expect them.
            Err(status) if !matches!(status.code, 410 | 504) => return Err(status),
            watch => watch,
        };
        if wanted.view == View::Table {
            include(self.query)?;
        }
        check_stream(wanted)?;
        let mut watch = match watch {
            Ok(watch) => watch,
            Err(status) => {
                let mut event = Vec::new();
                error_event(catalog, framing, &status, &mut event);
                return self.watching(framing, event.into());
            }
        };
        let route = route(self.api, self.request.catalog, self.info, &self.parts.headers)
            .ok_or_else(Status::method_not_allowed)?;
        let begun = env.monotonic();
        let (within, fields) = (request.namespace, &options.field_selector);
        let watched =
            flow_control::watched(self.api, request.resource, within, self.authorized.name(), fields);
        let share: Option<ShareObject> = (wanted.view == View::Object).then(|| {
            let resource = request.resource.clone();
            let share: ShareObject = Box::new(move |obj| match framing {
                Framing::Protobuf => protobuf_body(&resource, obj),
                Framing::Lines => {
                    let line = shared_body(&resource, obj);
                    line.slice(..line.len() - 1)
                }
            });
            share
        });
        let settings = WatchSettings {
            share,
            convert: self.convert_events(watch.selection.take()),
            catalog: catalog.clone(),
            framing,
            bookmarks: options.allow_bookmarks,
            mismatched: wanted.view == View::Mismatch,
            timeout: Duration::from_secs(seconds),
            env,
            shutdown: self.api.shutdown(),
            gauge: self.api.metrics.long_running(route, begun).counted(watched),
        };
        let resource = request.resource;
        // The columns of a Table come with the first event, whichever that is.
        let first = Arc::new(AtomicBool::new(true));
        let write_object: WriteObject = match wanted.view {
            View::Metadata if protobuf => {
                let (catalog, view) = (catalog.clone(), MetadataView::new(resource, wanted.meta));
                Box::new(move |obj, out| view.write_protobuf(&catalog, obj, out))
            }
            View::Object if protobuf => {
                let resource = resource.clone();
                Box::new(move |obj, out| out.extend_from_slice(&protobuf_body(&resource, obj)))
            }
            // A mismatch ends the watch before anything is shown.
            View::Object | View::Mismatch => {
                let resource = resource.clone();
                Box::new(move |obj, out| out.extend_from_slice(&served_body(&resource, obj)))
            }
            View::Metadata => {
                let view = MetadataView::new(resource, wanted.meta);
                Box::new(move |obj, out| view.write(obj, out))
            }
            View::Table => {
                let (view, env) = (self.table_view(wanted)?, self.api.registry.env().clone());
                let first = first.clone();
                Box::new(move |obj, out| {
                    view.one(obj, env.now_seconds(), first.swap(false, Relaxed), out);
                })
            }
        };
        let blank = match wanted.view {
            View::Metadata => views::blank("PartialObjectMetadata", wanted.meta.api_version()),
            _ => views::blank_object(resource),
        };
        let table = if wanted.view == View::Table { Some(self.table_view(wanted)?) } else { None };
        let catalog = catalog.clone();
        let write_bookmark = Box::new(move |revision: u64, end: bool, out: &mut Vec<u8>| {
            let bookmark = views::bookmark(&blank, revision, end);
            if let Some(table) = &table {
                // It has no age to show.
                table.bookmark(&bookmark, 0, first.swap(false, Relaxed), out);
                return;
            }
            match framing {
                Framing::Lines => json::write(&bookmark, out),
                Framing::Protobuf => views::value_protobuf(&catalog, &bookmark, out),
            }
        });
        let body = WatchBody::new(watch, settings, write_object, write_bookmark);
        self.watching(framing, Body::Watch(Box::new(body)))
    }

    /// For objects that a webhook converts.
    fn convert_events(&self, selection: Option<Selection>) -> Option<ConvertEvents> {
        let resource = self.request.resource;
        if !kinds::kind_of_resource(resource).converts_by_webhook() {
            return None;
        }
        let (api, resource, selection) = (self.api.clone(), Arc::clone(resource), Arc::new(selection));
        Some(Box::new(move |events| {
            let (api, resource, selection) = (api.clone(), resource.clone(), selection.clone());
            Box::pin(async move {
                api.registry.convert_events(&resource, Option::as_ref(&selection), events).await
            })
        }))
    }

    /// As the body of the answer, or over a WebSocket.
    fn watching(&self, framing: Framing, events: Body) -> Result<Answer, Status> {
        match websocket::open(self.parts, framing, events) {
            Ok(opened) => Ok(opened),
            Err(events) => Ok(respond::answer(200, framing.content_type(), events)),
        }
    }
}
