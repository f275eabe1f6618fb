//! The client for components of this process: the chain from *authorize* on, without sockets and encoding.
//!
//! Each controller has its own user and roles, like any other client. Only what kube-apiserver itself writes is written as an
//! administrator (`loopback.rs`, ADR 9).

use std::sync::Arc;
use std::time::Duration;

use admission::{Seats, Trace};
use auth::node::{IN_PROCESS, SOURCE_ADDRESS};
use auth::{Attributes, UserInfo};
use catalog::{Catalog, Name, Resource, Storage, Verbs};
use client::{
    Answer, CONTROLLERS, Client, Clients, DeleteOptions, Event, Gvr, List, ListOptions, Patch, Target, Watch,
    WatchOptions, WriteOptions, field_manager_of, with_type,
};
use client_http::HttpClient;
use flowcontrol::{Seat, WatchGuard};
use futures_util::future::BoxFuture;
use object::{Obj, Status, Value};
use parking_lot::Mutex;
use registry::{LeaderFence, RequestContext, WatchStart, served_object, serves_stored_objects};
use store::Revision;
use table::{Cursor, EventKind, Selection, WatchEvent};
use tokio::time::Instant;

use crate::aggregation::local::OnBehalf;
use crate::api::Api;
use crate::attributes::selected_name;
use crate::negotiate::MetaVersion;
use crate::shutdown::Shutdown;
use crate::verbs::{answer_review, issue_token};
use crate::views::MetadataView;
use crate::{aggregation, deadline, flow_control, resource_metrics};

/// Bytes of events per pull.
const PULL_BYTES: usize = 4 << 20;

/// The subresource that is an object of its own kind.
const SCALE: &str = "scale";
/// The subresource that is asked like a review.
const TOKEN: &str = "token";

/// The API as one user.
#[derive(Clone)]
pub struct LocalClient {
    api: Arc<Api>,
    user: Arc<UserInfo>,
    /// The field manager of writes that set none.
    field_manager: Arc<str>,
    fence: Option<Arc<LeaderFence>>,
}

/// Clients of one server, one for each controller.
#[derive(Clone)]
pub struct LocalClients {
    api: Arc<Api>,
    fence: Option<Arc<LeaderFence>>,
}

impl LocalClients {
    pub fn new(api: Arc<Api>) -> LocalClients {
        LocalClients { api, fence: None }
    }

    fn client(&self, user: UserInfo, field_manager: &str) -> Arc<dyn Client> {
        let client = LocalClient::new(self.api.clone(), user, field_manager);
        Arc::new(LocalClient { fence: self.fence.clone(), ..client })
    }
}

impl Clients for LocalClients {
    fn controller(&self, name: &str) -> Arc<dyn Client> {
        self.client(UserInfo::service_account("kube-system", name, ""), CONTROLLERS)
    }
    fn user(&self, name: &str, groups: &[&str]) -> Arc<dyn Client> {
        let mut user = UserInfo::new(name, groups).authenticated();
        if auth::node::name_of(&user).is_some() {
            user.extra.insert(SOURCE_ADDRESS.to_owned(), vec![IN_PROCESS.to_owned()]);
        }
        self.client(user, field_manager_of(name))
    }
    fn fenced(&self, namespace: &str, lease: &str, holder: &str) -> Option<Arc<dyn Clients>> {
        let fence = LeaderFence {
            namespace: namespace.to_owned(),
            lease: lease.to_owned(),
            holder: holder.to_owned(),
        };
        Some(Arc::new(LocalClients { api: self.api.clone(), fence: Some(Arc::new(fence)) }))
    }
}

impl LocalClient {
    /// `field_manager` is that of writes that set none.
    pub fn new(api: Arc<Api>, user: UserInfo, field_manager: &str) -> LocalClient {
        LocalClient { api, user: Arc::new(user), field_manager: field_manager.into(), fence: None }
    }

    /// The request, once it is authorized and has its seats. It waits for them as long as it takes: a remote client would be told to
    /// retry, and would.
    async fn admitted<'a>(
        &'a self,
        verb: &'static str,
        target: &Target<'a>,
        fields: &str,
        lists: Option<u64>,
    ) -> Result<Admitted<'a>, Status> {
        let catalog = self.api.registry().catalog();
        let resource = target.resource.find(&catalog).ok_or_else(Status::no_such_resource)?.clone();
        self.admitted_to(catalog, resource, verb, target, fields, lists).await
    }

    /// The same for a resource that need not be served.
    async fn admitted_to<'a>(
        &'a self,
        catalog: Arc<Catalog>,
        resource: Arc<Resource>,
        verb: &'static str,
        target: &Target<'a>,
        fields: &str,
        lists: Option<u64>,
    ) -> Result<Admitted<'a>, Status> {
        let gvr = target.resource;
        let namespace = if resource.namespaced { target.namespace } else { "" };
        let wanted = Attributes {
            verb,
            group: &gvr.group,
            resource: &gvr.plural,
            subresource: target.subresource,
            name: if target.name.is_empty() { selected_name(fields) } else { target.name },
            namespace,
            field_selector: fields,
            path: None,
        };
        self.api.authorizer.check(&self.user, &wanted)?;
        let digest = flow_control::digest(&self.user, &wanted);
        let classified = self.api.flow.classify(&digest);
        let estimate = flow_control::estimate_of(&self.api, &catalog, &classified, &wanted, lists, 0);
        let about = flow_control::about(&self.user, &wanted, None);
        let seat = self.api.flow.seat(&classified, &digest, about, estimate, None).await;
        let seat = seat.map_err(|r| Status::too_many_requests("no seat", r.retry_after_seconds))?;
        let (options, deadline) =
            (WriteOptions::default(), self.api.registry().env().monotonic() + deadline::longest(verb));
        let target = *target;
        Ok(Admitted {
            client: self,
            verb,
            target,
            options,
            deadline,
            catalog,
            resource,
            trace: Trace::default(),
            seat: Mutex::new(Some(seat)),
        })
    }

    fn on_behalf(&self) -> OnBehalf {
        OnBehalf { api: self.api.clone(), user: self.user.clone(), fence: self.fence.clone() }
    }

    /// A client of the server that serves this resource, where that is another one.
    fn remote(&self, target: &Target<'_>) -> Option<HttpClient> {
        let Gvr { group, version, .. } = target.resource;
        self.api.aggregation.serves(group, version).then(|| self.on_behalf().client(&self.field_manager))
    }

    /// Deletes every object of a storage in a namespace, whatever versions of it are served.
    pub(crate) async fn delete_stored(&self, storage: &Arc<Storage>, namespace: &str) -> Result<(), Status> {
        let catalog = self.api.registry().catalog();
        let resource = Arc::new(storage.as_resource());
        let gvr = Gvr::from(&*resource);
        let target = gvr.within(namespace);
        let admitted = self.admitted_to(catalog, resource, "deletecollection", &target, "", None).await?;
        let (options, all) = (DeleteOptions::default(), ListOptions::default());
        self.api.registry().delete_unseen(&admitted.request(), &options, &all).await
    }
}

/// An authorized request with its seats.
struct Admitted<'a> {
    client: &'a LocalClient,
    verb: &'static str,
    target: Target<'a>,
    options: WriteOptions<'a>,
    /// The deadline of a request over HTTP.
    deadline: Instant,
    catalog: Arc<Catalog>,
    resource: Arc<Resource>,
    trace: Trace,
    /// Guards the seats; taken where they are given back before the end.
    seat: Mutex<Option<Seat>>,
}

impl Seats for Admitted<'_> {
    fn give_back(&self) {
        drop(self.seat.lock().take());
    }

    /// There are no more of them than there are workers of controllers.
    fn keep(&self) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Admitted<'_> {
    /// What came of a write, noted for those who ask why.
    fn traced<T>(&self, outcome: Result<T, Status>) -> Result<T, Status> {
        let (api, request) = (&self.client.api, self.request());
        // Over HTTP it would have an Audit-ID.
        api.admission_log.record(&request, String::new, api.registry().env(), outcome.as_ref().err().into());
        outcome
    }

    fn request(&self) -> RequestContext<'_> {
        let Target { namespace, name, subresource, .. } = self.target;
        RequestContext {
            user: &self.client.user,
            user_agent: "",
            verb: Verbs::parse(self.verb).unwrap_or_default(),
            catalog: &self.catalog,
            resource: &self.resource,
            subresource: Some(subresource).filter(|sub| !sub.is_empty()),
            namespace: if self.resource.namespaced { namespace } else { "" },
            name,
            options: self.options.managed_by(&self.client.field_manager),
            deadline: self.deadline,
            fence: self.client.fence.as_deref(),
            trace: Some(&self.trace),
            seats: Some(self),
        }
    }
}

impl Client for LocalClient {
    fn catalog(&self) -> Arc<Catalog> {
        self.api.registry().catalog()
    }

    fn get<'a>(&'a self, target: Target<'a>) -> Answer<'a, Arc<Obj>> {
        Box::pin(async move {
            if let Some(remote) = self.remote(&target) {
                return remote.get(target).await;
            }
            let admitted = self.admitted("get", &target, "", None).await?;
            let request = admitted.request();
            if target.subresource == SCALE {
                return scale(&admitted, self.api.registry().get_scale(&request, "").await?);
            }
            let obj = self.api.registry().get(&request, "").await?;
            answer(&admitted, served_object(&admitted.resource, &obj)?)
        })
    }

    fn get_raw<'a>(&'a self, path: &'a str) -> Answer<'a, Value> {
        Box::pin(async move {
            match self.api.aggregation.find(self.api.registry(), path) {
                Some(_) => self.on_behalf().raw(http::Method::GET, path).await,
                None => resource_metrics::get_raw(&self.api, &self.user, path),
            }
        })
    }

    fn delete_raw<'a>(&'a self, path: &'a str) -> Answer<'a, Value> {
        Box::pin(async move {
            match self.api.aggregation.find(self.api.registry(), path) {
                Some(_) => self.on_behalf().raw(http::Method::DELETE, path).await,
                None => Err(Status::no_such_resource()),
            }
        })
    }

    fn aggregated(&self) -> client::Aggregated {
        aggregation::local::aggregated(&self.api)
    }

    fn list<'a>(&'a self, target: Target<'a>, options: ListOptions) -> Answer<'a, List> {
        Box::pin(async move {
            if let Some(remote) = self.remote(&target) {
                return remote.list(target, options).await;
            }
            let limit = Some(u64::try_from(options.limit).unwrap_or(0));
            let admitted = self.admitted("list", &target, &options.field_selector, limit).await?;
            let request = admitted.request();
            let mut list = self.api.registry().list(&request, &options).await?;
            serve_all(&admitted, &mut list.items)?;
            Ok(List {
                items: list.items,
                revision: list.revision,
                continue_token: list.continue_token.unwrap_or_default(),
            })
        })
    }

    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(async move {
            if let Some(remote) = self.remote(&target) {
                return remote.watch(target, options).await;
            }
            let version = &*options.resource_version;
            let begins = flow_control::begins_with_state(version, options.initial_events);
            let lists = begins.then_some(0);
            // A watch holds its seats only while it starts.
            let admitted = self.admitted("watch", &target, &options.field_selector, lists).await?;
            let request = admitted.request();
            let (within, fields) = (request.namespace, &options.field_selector);
            let watched = flow_control::watched(&self.api, request.resource, within, request.name, fields);
            let timeout = options.timeout_seconds;
            let wanted = ListOptions {
                label_selector: options.label_selector,
                field_selector: options.field_selector,
                resource_version: options.resource_version,
                resource_version_match: if options.initial_events { "NotOlderThan" } else { "" }.to_owned(),
                watch: true,
                allow_bookmarks: true,
                send_initial_events: options.initial_events.then_some(true),
                ..ListOptions::default()
            };
            let registry::Watch { start, cursor, selection } =
                self.api.registry().watch(&request, &wanted).await?;
            let env = self.api.registry().env();
            let end: BoxFuture<'static, ()> = match timeout {
                0 => Box::pin(std::future::pending()),
                seconds => {
                    let env = env.clone();
                    Box::pin(async move { env.sleep(Duration::from_secs(seconds)).await })
                }
            };
            let first = match start {
                WatchStart::Changes => Vec::new(),
                WatchStart::State { mut items, revision, end_bookmark } => {
                    serve_all(&admitted, &mut items)?;
                    let end = Event::Bookmark { revision, initial_events_end: end_bookmark };
                    items.into_iter().map(Event::Added).chain([end]).collect()
                }
            };
            let shutdown = self.api.shutdown();
            let resource = admitted.resource.clone();
            let restrict = target.metadata_only.then(|| resource.clone());
            let convert =
                (!serves_stored_objects(&resource)).then(|| (self.api.clone(), resource, selection));
            let watch: Box<dyn Watch> = Box::new(LocalWatch {
                first,
                cursor,
                convert,
                restrict,
                pulled: Vec::new(),
                told: Revision(0),
                end,
                over: false,
                shutdown,
                _watched: watched,
            });
            Ok(watch)
        })
    }

    fn create<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        Box::pin(async move {
            if let Some(remote) = self.remote(&target) {
                return remote.create(target, body, options).await;
            }
            let admitted = self.admitted("create", &target, "", None).await?;
            let admitted = Admitted { options, ..admitted };
            let request = admitted.request();
            let body = with_type(&admitted.resource, target.subresource, body);
            let copy = body.clone();
            let again = || Ok(copy.clone());
            let written = admitted.traced(self.api.registry().create(&request, body, &again).await)?;
            answer_of_write(&admitted, written.obj)
        })
    }

    fn update<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        Box::pin(async move {
            if let Some(remote) = self.remote(&target) {
                return remote.update(target, body, options).await;
            }
            let admitted = self.admitted("update", &target, "", None).await?;
            let admitted = Admitted { options, ..admitted };
            let body = with_type(&admitted.resource, target.subresource, body);
            if target.subresource == SCALE {
                let changed = self.api.registry().update_scale(&admitted.request(), body).await;
                let (changed, _) = admitted.traced(changed)?;
                return scale(&admitted, changed);
            }
            let written = admitted.traced(self.api.registry().update(&admitted.request(), body).await)?;
            answer_of_write(&admitted, written.obj)
        })
    }

    fn patch<'a>(
        &'a self,
        target: Target<'a>,
        patch: Patch,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        Box::pin(async move {
            if let Some(remote) = self.remote(&target) {
                return remote.patch(target, patch, options).await;
            }
            let admitted = self.admitted("patch", &target, "", None).await?;
            let admitted = Admitted { options, ..admitted };
            let patch = client::with_applied_type(&admitted.resource, &target, patch);
            if target.subresource == SCALE {
                let changed = self.api.registry().patch_scale(&admitted.request(), patch).await;
                let (changed, _) = admitted.traced(changed)?;
                return scale(&admitted, changed);
            }
            let written = admitted.traced(self.api.registry().patch(&admitted.request(), patch).await)?;
            answer_of_write(&admitted, written.obj)
        })
    }

    fn delete<'a>(&'a self, target: Target<'a>, options: DeleteOptions) -> Answer<'a, ()> {
        Box::pin(async move {
            if let Some(remote) = self.remote(&target) {
                return remote.delete(target, options).await;
            }
            let admitted = self.admitted("delete", &target, "", None).await?;
            let request = admitted.request();
            admitted.traced(self.api.registry().delete(&request, &options).await.map(|_| ()))
        })
    }

    fn delete_collection<'a>(
        &'a self,
        target: Target<'a>,
        options: DeleteOptions,
        which: ListOptions,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            if let Some(remote) = self.remote(&target) {
                return remote.delete_collection(target, options, which).await;
            }
            let admitted = self.admitted("deletecollection", &target, &which.field_selector, None).await?;
            let request = admitted.request();
            admitted.traced(self.api.registry().delete_unseen(&request, &options, &which).await)
        })
    }

    fn review<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, Value> {
        Box::pin(async move {
            let admitted = self.admitted("create", &target, "", None).await?;
            let resource = &admitted.resource;
            let review = with_type(resource, target.subresource, body);
            if target.subresource == TOKEN {
                return Ok(issue_token(&self.api, &admitted.request(), review).await?.answer);
            }
            answer_review(&self.api, &self.user, resource, target.namespace, review).await
        })
    }

    fn act<'a>(&'a self, target: Target<'a>, body: Value, options: WriteOptions<'a>) -> Answer<'a, ()> {
        Box::pin(async move {
            let admitted = self.admitted("create", &target, "", None).await?;
            let admitted = Admitted { options, ..admitted };
            let acted = match target.subresource {
                "binding" => self.api.registry().bind(&admitted.request(), body).await.map(|_| ()),
                "eviction" => self.api.registry().evict(&admitted.request(), body).await.map(|_| ()),
                _ => Err(Status::method_not_allowed()),
            };
            admitted.traced(acted)
        })
    }

    fn writer(&self, revision: Revision) -> Option<Name> {
        self.api.registry().writer(revision)
    }
}

/// A scale as an object, at the revision of the one it belongs to.
fn scale(admitted: &Admitted<'_>, mut scale: Value) -> Result<Arc<Obj>, Status> {
    let resource = &admitted.resource;
    let Some(storage) = &resource.storage else { return Err(Status::method_not_allowed()) };
    let key = storage.key(admitted.request().namespace, admitted.target.name);
    let version = scale.map_at(&["metadata"]).remove("resourceVersion");
    let revision = version.as_ref().and_then(Value::as_str).and_then(|digits| digits.parse().ok());
    let value = codec::json::to_vec(&scale);
    let made = match revision {
        Some(revision) => Obj::publish(storage, &key, &value, Revision(revision), None),
        // Of a dry run.
        None => Obj::unpublished(storage, &key, &value),
    };
    answer(admitted, Arc::new(made.map_err(|_| Status::internal("a scale is no object"))?))
}

/// Makes the objects what was asked for.
fn serve_all(admitted: &Admitted<'_>, objects: &mut [Arc<Obj>]) -> Result<(), Status> {
    let resource = &admitted.resource;
    if admitted.target.metadata_only || !serves_stored_objects(resource) {
        for obj in objects {
            *obj = answer(admitted, served_object(resource, obj)?)?;
        }
    }
    Ok(())
}

/// An object the resource serves, as it was asked for.
fn answer(admitted: &Admitted<'_>, obj: Arc<Obj>) -> Result<Arc<Obj>, Status> {
    if admitted.target.metadata_only { metadata_of(&admitted.resource, &obj) } else { Ok(obj) }
}

fn metadata_of(resource: &Resource, obj: &Obj) -> Result<Arc<Obj>, Status> {
    let Some(storage) = &resource.storage else { return Err(Status::method_not_allowed()) };
    let view = MetadataView::new(resource, MetaVersion::V1);
    let made = view.object(storage, obj).map_err(|_| Status::internal("metadata could not be read"))?;
    Ok(Arc::new(made))
}

/// Of built-in kinds it is the stored object, whatever the version: event recorders write events in a version they are not
/// stored in, and do not read the answer.
fn answer_of_write(admitted: &Admitted<'_>, obj: Arc<Obj>) -> Result<Arc<Obj>, Status> {
    let resource = &admitted.resource;
    answer(admitted, if resource.custom { served_object(resource, &obj)? } else { obj })
}

/// A watcher resumes from its last event. After this many revisions of other objects it gets a bookmark, because the history may
/// not reach back to the event.
const PROGRESS: u64 = 1000;

/// A cursor on the table.
struct LocalWatch {
    /// The initial events.
    first: Vec<Event>,
    cursor: Cursor,
    /// Where objects are not all served as they are stored.
    convert: Option<(Arc<Api>, Arc<Resource>, Option<Selection>)>,
    /// Where only metadata is wanted.
    restrict: Option<Arc<Resource>>,
    /// Events that are not told yet: a conversion may be awaited.
    pulled: Vec<WatchEvent>,
    /// The last revision the watcher knows.
    told: Revision,
    /// The timeout. One timer for all waits.
    end: BoxFuture<'static, ()>,
    /// The timeout fired, and must not be polled again.
    over: bool,
    shutdown: Shutdown,
    /// Counts it among the watches a write wakes.
    _watched: Option<WatchGuard>,
}

impl Watch for LocalWatch {
    fn pull<'a>(&'a mut self, into: &'a mut Vec<Event>) -> Answer<'a, bool> {
        Box::pin(async move {
            if !self.first.is_empty() {
                into.append(&mut self.first);
                return Ok(true);
            }
            loop {
                if self.shutdown.has_begun() {
                    return Ok(false);
                }
                let at_end = if self.pulled.is_empty() {
                    let Ok(at_end) = self.cursor.pull(&mut self.pulled, PULL_BYTES) else {
                        return Err(Status::expired("too old resource version: the history is gone"));
                    };
                    at_end
                } else {
                    false
                };
                if let Some((api, resource, selection)) = &self.convert {
                    // A copy: whoever asks again after this was dropped gets the same events.
                    let events = self.pulled.clone();
                    self.pulled = api.registry().convert_events(resource, selection.as_ref(), events).await?;
                    for event in &mut self.pulled {
                        event.obj = served_object(resource, &event.obj)?;
                    }
                }
                if let Some(resource) = &self.restrict {
                    for event in &mut self.pulled {
                        event.obj = metadata_of(resource, &event.obj)?;
                    }
                }
                if let Some(last) = self.pulled.last() {
                    self.told = self.told.max(last.obj.revision());
                    into.extend(self.pulled.drain(..).map(|WatchEvent { kind, obj, .. }| match kind {
                        EventKind::Added => Event::Added(obj),
                        EventKind::Modified => Event::Modified(obj),
                        EventKind::Deleted => Event::Deleted(obj),
                    }));
                    let revision = self.cursor.caught_up();
                    if revision.0 > self.told.0 + PROGRESS {
                        self.told = revision;
                        into.push(Event::Bookmark { revision, initial_events_end: false });
                    }
                    return Ok(true);
                }
                if !at_end {
                    // A long log without a match: other tasks run in between.
                    tokio::task::yield_now().await;
                    continue;
                }
                if self.over {
                    // A clean end. The watcher resumes from this revision, not from its last event, which may be older than the
                    // history.
                    let revision = self.cursor.caught_up();
                    into.push(Event::Bookmark { revision, initial_events_end: false });
                    return Ok(false);
                }
                tokio::select! {
                    biased;
                    () = self.shutdown.begun() => return Ok(false),
                    () = self.cursor.changed() => {}
                    () = &mut self.end, if !self.over => self.over = true,
                }
            }
        })
    }
}
