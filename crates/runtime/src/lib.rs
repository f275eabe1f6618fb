//! The machinery of controllers: read the state, change the world, write the status, until there is nothing left to do.
//!
//! ```text
//! server ── Reflector ── Fifo ── Indexer ── handlers ── WorkQueue ── workers ── Reconcile::reconcile(key)
//!            list, watch   order    state      map to keys   each key once       reads the Indexer, writes through a Client
//! ```
//!
//! A controller holds the world to what an object says. It is told *that* something changed, never *what to do about it*: it is
//! given a key, looks at the state there is now, decides, acts, and is called again when that changed something. So it may
//! be killed anywhere and started again, may see ten changes as one, and may be called for nothing: the end is the same.
//!
//! # Words
//!
//! **[`Key`]**: `namespace/name`. Queues hold keys, not objects: by the time a key is worked on, an object would be old.
//!
//! **[`Client`](client::Client)**: the API, as one identity sees it. In process it is the server itself without the
//! socket; over HTTP it is any cluster. A controller cannot tell which it has.
//!
//! **[`Reflector`]**: keeps a copy in step with a resource. It asks for the state as the beginning of a watch, or lists,
//! then follows the changes, goes on where it was cut, and begins anew when the server has forgotten that place.
//!
//! **[`fifo`]**: the order in which changes are applied. [`RealFifo`](fifo::RealFifo) keeps every one, as it came;
//! [`DeltaFifo`](fifo::DeltaFifo) gathers those of a key at the place of its first.
//!
//! **[`Gvr`](client::Gvr)**: a resource by group, version and plural. It need not be known when the program is compiled
//! ([`Client::discover`](client::Client::discover) tells what there is), nor be served yet: a reflector waits for it, and finds it
//! again after its definition was deleted and made anew.
//!
//! **[`Indexer`]**: the state, by key, by namespace and by whatever is added ([`IndexBy`]). In process it holds the
//! server's own objects and copies nothing. What it gives is shared: to change an object take its [`tree`].
//!
//! **[`Informer`]**: a reflector, a fifo, an indexer and the handlers that are told ([`InformerEvent`]). One for each resource of a
//! process, shared by all ([`Informers`]). A handler that comes late is told of everything first, one may leave
//! ([`Registration`]). A deletion that was
//! missed is told when it is noticed, with the last state seen; an object deleted and made again meanwhile is one update
//! between two uids.
//!
//! **[`WorkQueue`]**: keys that need work. A key is in it once, however often it was added; never with two workers at a
//! time; and comes again if it was added while it was worked on. Keys that fail wait longer each time, and an event that
//! comes meanwhile neither waits with them nor makes them wait longer. What came with the first list goes behind what
//! changes now. Each key keeps its [`Causes`] for people who ask.
//!
//! **[`Controller`]**: the wiring of one controller: which changes ask for which keys, how many workers, how stubborn.
//!
//! **[`Reconcile`]**, **[`ReconcileRequest`]**: the controller's own part. A reconcile ends well ([`Action::AwaitChange`], or [`Action::Requeue`] to look again)
//! or fails ([`Failure`]) and is tried again. Keep the decision in a pure function and the reconcile thin: read, decide,
//! say what ([`ReconcileRequest::plan`]), act.
//!
//! **[`Trigger`]**: what makes a reconcile. By default a change does, and the reconcile looks at the state, and looks again now and
//! then even if nothing changed. Resyncs come from the informer's own store and cost the server nothing; they make up
//! for work that was lost in the controller. For what the *watch* might have lost, a reconcile must read from the server.
//!
//! **[`Expectations`]**, **[`OwnWrites`]**: a store may be older than the controller's own last write, and a controller that counts its
//! pods in it makes them twice. Expectations wait for creations and deletions to be seen; own writes, for a revision.
//!
//! **[`batch`]**: many calls, one at first and then twice as many each time, so that what must fail does so early.
//!
//! **[`owners`]**: who an object belongs to; how an owner adopts what its selector means and lets go of what it no longer
//! does ([`owners::claim`]).
//!
//! **[`finalizers`]**: a name on an object that keeps it until the controller has cleaned up behind it.
//!
//! **Server-side apply** ([`Client::apply`](client::Client::apply)): a controller says all it wants of an object, and nothing else,
//! under its own field manager. The server finds out what is missing, removes what the controller no longer wants, leaves alone what
//! others set, and writes nothing if nothing changes. So there is no version to conflict with and nothing to retry. With
//! [`ReconcileRequest::apply_options`] the manager is the controller's name, and drift is put right whoever made it.
//!
//! **[`retry`]**: another wrote first: read again, decide again. Conflicts are normal.
//!
//! **[`Recorder`]**: events for people. Never waited for; the same again is counted, similar ones are combined, too many are
//! dropped. **[`SeriesRecorder`]** is the newer form (events.k8s.io), as the scheduler writes it: the same again is a series.
//!
//! **[`Elector`]**: where several processes run the same controllers, one leads and the others wait for its lease to end.
//!
//! **[`ControllerRegistry`]**: what all controllers of a process are doing, for `/debug/controllers` and for Prometheus.
//!
//! **[`Env`](env::Env)**, **[`Stop`]**: time, chance and tasks come from the first, so that a test can run a day of a controller's
//! life at once, and twice the same. The second ends it.
//!
//! # One controller
//!
//! Every ConfigMap with the label `mirror` has a copy under the name the label gives, which goes when it goes. What the controller
//! needs to know is in two stores; what it decides, in `plan`; the reconcile does it.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use client::{Client, WriteOptions};
//! use client::resources::CONFIG_MAPS;
//! use env::Env;
//! use futures_util::future::BoxFuture;
//! use object::Value;
//! use runtime::{
//!     ControllerRegistry, Controller, Failure, Informer, Informers, Key, Action, Reconcile, Recorder, Severity, Stop, ReconcileRequest, owners, tree,
//! };
//! use object::Obj;
//! use tokio::task::JoinHandle;
//!
//! #[derive(Debug, PartialEq)]
//! enum Plan {
//!     Nothing,
//!     Create(Value),
//!     Update(Value),
//!     /// Somebody else has that name.
//!     Taken,
//! }
//!
//! /// What there is to do; no clock, no server, so a test is a line.
//! fn plan(source: &Obj, copy: Option<&Obj>) -> Plan {
//!     let data = tree(source).get("data").cloned().unwrap_or_else(Value::map);
//!     let Some(copy) = copy else {
//!         let mut made = Value::map();
//!         let metadata = made.map_at(&["metadata"]);
//!         metadata.set("name", source.label("mirror").unwrap_or_default());
//!         metadata.set("namespace", source.namespace());
//!         metadata.set("ownerReferences", vec![owners::controller_ref("v1", "ConfigMap", source)]);
//!         made.make_map().set("data", data);
//!         return Plan::Create(made);
//!     };
//!     if owners::controller_of(copy).is_none_or(|owner| owner.uid != source.uid()) {
//!         return Plan::Taken;
//!     }
//!     let mut wanted = tree(copy); // with its resourceVersion: a conflict if another wrote meanwhile
//!     wanted.make_map().set("data", data);
//!     if wanted == tree(copy) { Plan::Nothing } else { Plan::Update(wanted) }
//! }
//!
//! struct Mirror {
//!     maps: Arc<Informer>,
//!     client: Arc<dyn Client>,
//!     events: Recorder,
//! }
//!
//! impl Reconcile for Mirror {
//!     fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
//!         Box::pin(async move {
//!             let Some(source) = self.maps.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
//!             let Some(name) = source.label("mirror") else { return Ok(Action::AwaitChange) };
//!             let copy = self.maps.store().get(source.namespace(), name);
//!             let planned = plan(&source, copy.as_deref());
//!             request.plan(|| format!("{planned:?}"));
//!             match planned {
//!                 Plan::Nothing => {}
//!                 Plan::Create(made) => {
//!                     self.client.create(CONFIG_MAPS.within(source.namespace()), made, WriteOptions::default()).await?;
//!                     self.events.event(&CONFIG_MAPS, &source, Severity::Normal, "Mirrored", "Made a copy");
//!                 }
//!                 Plan::Update(wanted) => {
//!                     self.client.update(CONFIG_MAPS.at(source.namespace(), name), wanted, WriteOptions::default()).await?;
//!                 }
//!                 Plan::Taken => {
//!                     let message = format!("ConfigMap {name} belongs to somebody else");
//!                     self.events.event(&CONFIG_MAPS, &source, Severity::Warning, "NameTaken", message);
//!                 }
//!             }
//!             Ok(Action::AwaitChange)
//!         })
//!     }
//! }
//!
//! /// In process or over HTTP: only `client` differs.
//! fn start(env: &Env, client: Arc<dyn Client>, controllers: &Arc<ControllerRegistry>, stop: Stop) -> Vec<JoinHandle<()>> {
//!     let informers = Informers::new(env.clone(), client.clone(), stop.clone());
//!     let maps = informers.of(&CONFIG_MAPS);
//!     let (events, recording) = Recorder::start(env, client.clone(), "mirror", stop.clone());
//!     let mirror = Arc::new(Mirror { maps: maps.clone(), client, events });
//!     let mut tasks = Controller::new(env, "mirror")
//!         .workers(2)
//!         .owns_keys_of(&maps)
//!         // A copy that was changed or deleted asks for its owner.
//!         .watches(&maps, |event| {
//!             let owner = owners::controller_of(event.obj());
//!             owner.map(|owner| Key::new(event.obj().namespace(), &owner.name)).into_iter().collect()
//!         })
//!         .start(controllers, mirror, stop);
//!     tasks.push(recording);
//!     tasks.extend(informers.take_tasks());
//!     tasks
//! }
//! ```

pub mod backoff;
pub mod batch;
mod cause;
mod controller;
mod controller_registry;
pub mod election;
mod expectations;
pub mod fifo;
pub mod finalizers;
mod indexer;
mod informer;
mod informers;
mod key;
mod metrics;
mod order;
mod own_writes;
pub mod owners;
pub mod queue;
mod recorder;
mod reflector;
pub mod retry;
mod stop;
#[cfg(test)]
mod testing;
mod trigger;

use object::{Obj, Value};

// What the signatures below are made of: a controller needs `client` and this crate, nothing else.
pub use env::Env;
pub use futures_util::future::BoxFuture;
pub use tokio::task::JoinHandle;

pub use cause::{Cause, Causes};
pub use controller::{Action, Controller, Failure, Reconcile, ReconcileRequest};
pub use controller_registry::ControllerRegistry;
pub use election::Elector;
pub use expectations::Expectations;
pub use indexer::{IndexBy, Indexer, Tally};
pub use informer::{Handler, Informer, InformerEvent, Loss, QueueKind, Registration};
pub use informers::{BY_CONTROLLER, Informers};
pub use key::Key;
pub use metrics::{Counters, Histogram, Histograms};
pub use order::{CONDITIONS_ORDER, conditions_with};
pub use own_writes::OwnWrites;
pub use queue::WorkQueue;
pub use recorder::{EventBody, NewEvent, ObjectRef, Recorder, SeriesRecorder, Severity};
pub use reflector::{Reflector, Scope};
pub use stop::{Stop, Stopper};
pub use trigger::{Change, Trigger};

/// An object as a tree, to read deep inside or to change; an empty map if it is no JSON (which the server never stores).
pub fn tree(obj: &Obj) -> Value {
    codec::json::parse(obj.body(), None).unwrap_or_else(|_| Value::map())
}

/// A tree from YAML (or JSON), for what a program writes down of its own.
pub fn parse(text: &str) -> Result<Value, Failure> {
    codec::yaml::parse(text.as_bytes())
        .map_err(|error| Failure::Other(format!("{text:?} is no YAML: {error}")))
}
