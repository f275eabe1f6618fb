//! Lists: streamed, unless the client wants an encoding that needs the whole list.

use bytes::Bytes;
use codec::protobuf;
use object::{Obj, Status};
use registry::{List, protobuf_body, served_body};

use super::{Call, list_options};
use crate::body::Body;
use crate::gzip;
use crate::list_body::{ListBody, ListFormat, WriteItem};
use crate::negotiate::{Encoding, MetaVersion, Negotiated, Offer, View, accepts_gzip};
use crate::respond::{self, Answer};
use crate::views::{self, MetadataView};

/// Bytes of a protobuf list that are encoded before other tasks run.
const YIELD_AFTER: usize = 256 * 1024;

impl Call<'_> {
    pub(super) async fn list(&self) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::List)?;
        let options = list_options(self.query, self.info)?;
        let list = self.api.registry.list(&self.request, &options).await?;
        self.api.metrics.routes().listed(self.request.resource, list.items.len());
        Ok(self.list_answer(list, wanted).await)
    }

    pub(super) async fn list_answer(&self, mut list: List, wanted: Negotiated) -> Answer {
        if wanted.view == View::Mismatch {
            return self.mismatch(true);
        }
        let resource = self.request.resource;
        // Upstream's list of custom resources has no type that would leave out what is empty.
        let last = (resource.custom && wanted.view == View::Object).then_some("");
        let token = list.continue_token.as_deref().or(last);
        let metadata = views::list_metadata(list.revision.0, token, list.remaining);
        let (kind, api_version) = match wanted.view {
            View::Metadata => ("PartialObjectMetadataList", wanted.meta.api_version().to_owned()),
            _ => (resource.list_kind.as_str(), resource.api_version()),
        };
        let protobuf = wanted.encoding == Encoding::Protobuf;
        let (head, write_item): (Vec<u8>, WriteItem) = match wanted.view {
            _ if protobuf => self.protobuf_list(&list, wanted.view, kind, &api_version, &metadata).await,
            View::Table => {
                let view = match self.table_view(wanted) {
                    Ok(view) => view,
                    Err(status) => return self.refusal(&status),
                };
                view.sort(&mut list.items);
                // One time for the whole list, however long it takes to send.
                let now = self.api.registry.env().now_seconds();
                let head = view.head(&metadata);
                if list.items.is_empty() && view.empty_is_null() {
                    // Upstream's default printer leaves the rows nil.
                    return self.null_list(head, wanted);
                }
                (head, Box::new(move |obj, out| view.row(obj, now, out)))
            }
            View::Metadata | View::Object | View::Mismatch => {
                let head = format!(
                    "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
                );
                if wanted.view != View::Metadata {
                    (head.into_bytes(), self.item_writer())
                } else if list.items.is_empty() {
                    // Upstream leaves the items nil.
                    return self.null_list(head.into_bytes(), wanted);
                } else {
                    let view = MetadataView::new(self.request.resource, wanted.meta);
                    (head.into_bytes(), Box::new(move |obj, out| view.write(obj, out)))
                }
            }
        };
        let size: usize = list.items.iter().map(|o| o.body().len()).sum();
        let format = if protobuf { ListFormat::PROTOBUF } else { ListFormat::JSON };
        let streams = protobuf || wanted.encoding == Encoding::Json;
        let compressed = size >= gzip::OBJECT_FROM && streams && accepts_gzip(&self.parts.headers);
        let mut body = ListBody::new(head, list.items, write_item, format, compressed);
        if !streams {
            // Rare, and for people: encoded as a whole.
            let mut whole = Vec::new();
            while let Some(chunk) = body.next_chunk() {
                whole.extend_from_slice(&chunk);
            }
            let answer = respond::encoded(self.request.catalog, 200, whole.into(), wanted);
            return gzip::compress_object(answer, &self.parts.headers);
        }
        let mut answer = if size < 64 * 1024 {
            // Small lists have a content length, and are sent at once.
            let mut whole = body.next_chunk().map(Vec::from).unwrap_or_default();
            while let Some(chunk) = body.next_chunk() {
                whole.extend_from_slice(&chunk);
            }
            respond::answer(200, wanted.content_type(), whole.into())
        } else {
            respond::answer(200, wanted.content_type(), Body::List(Box::new(body)))
        };
        if compressed {
            gzip::mark(&mut answer);
        }
        answer
    }

    /// A list with `null` for its items, from its head up to the open bracket.
    fn null_list(&self, mut head: Vec<u8>, wanted: Negotiated) -> Answer {
        head.truncate(head.len() - 1);
        head.extend_from_slice(b"null}");
        respond::encoded(self.request.catalog, 200, head.into(), wanted)
    }

    /// The envelope starts with the total length, so every item is measured before the first byte is sent.
    async fn protobuf_list(
        &self,
        list: &List,
        view: View,
        kind: &str,
        api_version: &str,
        metadata: &str,
    ) -> (Vec<u8>, WriteItem) {
        let catalog = self.request.catalog;
        let message = self.item_message(view);
        let mut lengths = Vec::with_capacity(list.items.len());
        let mut encoded = 0;
        for obj in &list.items {
            let length = message(obj).len();
            lengths.push(length);
            encoded += length;
            // Other tasks run while a long list is encoded for the first time.
            if encoded > YIELD_AFTER {
                encoded = 0;
                tokio::task::yield_now().await;
            }
        }
        let metadata = views::list_metadata_message(catalog, metadata);
        let mut head = Vec::new();
        protobuf::list_head(api_version, kind, &metadata, lengths, &mut head);
        (head, Box::new(move |obj, out| protobuf::list_item(&message(obj), out)))
    }

    /// An item's protobuf without its envelope; the same bytes on each call.
    fn item_message(&self, view: View) -> Box<dyn Fn(&Obj) -> Bytes + Send + Sync> {
        let (catalog, resource) = (self.request.catalog.clone(), self.request.resource.clone());
        if view == View::Metadata {
            let view = MetadataView::new(&resource, MetaVersion::V1);
            return Box::new(move |obj| view.message(&catalog, obj));
        }
        Box::new(move |obj| {
            let body = protobuf_body(&resource, obj);
            // Our own envelope always opens.
            protobuf::open(&body).map_or_else(|_| Bytes::new(), |sealed| body.slice_ref(sealed.message))
        })
    }

    /// Items of built-in resources carry no kind and apiVersion of their own.
    fn item_writer(&self) -> WriteItem {
        let resource = self.request.resource.clone();
        if resource.custom {
            return Box::new(move |obj, out| out.extend_from_slice(&served_body(&resource, obj)));
        }
        let stored = resource.storage.as_ref();
        if stored.is_some_and(|s| s.group == resource.group && s.version == resource.version) {
            return Box::new(|obj, out| {
                out.push(b'{');
                out.extend_from_slice(obj.body_after_type());
            });
        }
        Box::new(move |obj, out| {
            let body = served_body(&resource, obj);
            let type_meta =
                format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", resource.kind, resource.api_version());
            out.push(b'{');
            out.extend_from_slice(body.strip_prefix(type_meta.as_bytes()).unwrap_or(&body[1..]));
        })
    }
}
