//! The verbs: what get, list, watch, create, update, patch and delete mean on a table and a store. No HTTP.
//!
//! ```text
//! read   barrier? ── table at a revision ── Arc<Obj>s
//! write  decode ── loop { old ── verb ── strategy ── validate ── admission ── encode ── commit guarded by old }
//! ```
//! Every change of state, whoever wants it, goes through `write.rs`.

mod admit;
mod answered;
mod apply;
mod bind;
mod contended;
mod convert;
mod create;
mod decode;
mod definition_guard;
mod delete;
mod evict;
mod fence;
mod internal_objects;
mod managed_fields;
mod patch;
mod read;
mod scheme;
mod subresource;
mod token;
mod versions;
mod watch;
mod write;
mod writers;

use std::sync::Arc;

use admission::{Attempt, Body, Chain, Operation};
pub use admission::{LeaderFence, RequestContext};
use catalog::{Catalog, DefineError, Name, ResourceDef, Storage};
use cel_schema::Meter;
use env::Env;
use object::{Obj, Status};
use store::{CommitError, Engine, Revision, State, Unreadable};
use table::Table;

use contended::ContendedKeys;

pub use convert::webhook::ConversionWebhook;
pub use convert::{protobuf_body, served_body, served_object, serves_stored_objects, shared_body};
pub use create::Again;
pub use decode::{BodyType, unreadable_type};
pub use delete::Deleted;
pub use read::{List, Match, validate as check_list_options};
pub use watch::{Watch, WatchStart};
pub use write::Written;

/// Knows the resources that other servers serve through this one.
pub trait ResourceResolver: Send + Sync {
    /// The plural of a kind, if another server serves it.
    fn plural(&self, group: &str, version: &str, kind: &str) -> Option<String>;
}

/// The verbs on one cluster.
pub struct Registry {
    table: Arc<Table>,
    engine: Arc<dyn Engine>,
    env: Env,
    admission: Chain,
    conversion: Option<Arc<dyn ConversionWebhook>>,
    resolver: Option<Arc<dyn ResourceResolver>>,
    turns: convert::webhook::Turns,
    contended: ContendedKeys,
    writers: writers::Writers,
    /// Of the rules of schemas.
    meter: Meter,
}

impl Registry {
    pub fn new(table: Arc<Table>, engine: Arc<dyn Engine>, env: Env, admission: Chain) -> Registry {
        let meter = Meter::new(&env);
        Registry {
            table,
            engine,
            env,
            admission,
            conversion: None,
            resolver: None,
            turns: Default::default(),
            contended: ContendedKeys::default(),
            writers: Default::default(),
            meter,
        }
    }

    /// Custom resources whose versions a webhook converts are served too.
    pub fn convert_with(mut self, webhook: Arc<dyn ConversionWebhook>) -> Registry {
        self.conversion = Some(webhook);
        self
    }

    /// Kinds that other servers serve have resources too.
    pub fn resolve_with(mut self, resolver: Arc<dyn ResourceResolver>) -> Registry {
        self.resolver = Some(resolver);
        self
    }

    /// How long the rules of schemas take.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// What is defined now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.table.catalog()
    }
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Registers a resource, or replaces its definition: objects stored under its keys are served from now on.
    pub fn define(&self, def: ResourceDef) -> Result<ResourceDef, DefineError> {
        let def = self.table.define(def)?;
        if let Some(storage) = &def.storage {
            tracing::info!(group = %storage.group, resource = %storage.plural, "resource defined");
        }
        Ok(def)
    }

    /// Unregisters a resource; objects stored under its keys stay there.
    pub fn undefine(&self, group: &str, plural: &str) -> Option<ResourceDef> {
        let def = self.table.undefine(group, plural)?;
        tracing::info!(group, resource = plural, "resource no longer defined");
        Some(def)
    }

    /// Who wrote a revision, as long as that is remembered.
    pub fn writer(&self, revision: Revision) -> Option<Name> {
        self.writers.of(revision)
    }

    /// Waits for those who came before to write a side object, for a controller that lost to them; see `contended.rs`.
    pub async fn lock_contended(&self, key: &str) -> impl Sized + '_ {
        self.contended.lock(key).await
    }

    /// A write as admission sees it.
    pub(crate) fn attempt<'a>(
        &'a self,
        request: &'a RequestContext<'a>,
        storage: &'a Storage,
        operation: Operation,
        name: &'a str,
        dry_run: bool,
    ) -> Attempt<'a> {
        Attempt {
            request,
            operation,
            storage,
            name,
            generate_name: "",
            old: None,
            body: Body::Resource,
            delete_options: None,
            dry_run,
            versions: self,
            table: &self.table,
            env: &self.env,
        }
    }

    /// Before a write is tried again that lost to another: its client may have given up by now.
    pub(crate) fn check_deadline(&self, request: &RequestContext<'_>) -> Result<(), Status> {
        match self.env.monotonic() < request.deadline {
            true => Ok(()),
            false => Err(Status::out_of_time()),
        }
    }

    /// The newest object of a key; an error if it cannot be read, or the definition of its resource was replaced meanwhile.
    pub(crate) fn find(&self, storage: &Storage, key: &str) -> Result<Option<Arc<Obj>>, Status> {
        let found = self.table.read(storage.id, key).map_err(not_readable)?;
        if found.is_none() && !self.table.is_defined(storage.id) {
            return Err(redefined(storage));
        }
        Ok(found)
    }

    /// Makes the table at least as new as every write acknowledged anywhere before now.
    pub async fn linearizable_read(&self) -> Result<(), Status> {
        match self.engine.barrier().await {
            Ok(_) => Ok(()),
            Err(error) => Err(store_failed(error)),
        }
    }

    /// Checked before a retry: a guard on a value that cannot be read never holds.
    pub(crate) fn check_readable(&self, key: &str) -> Result<(), Status> {
        self.table.unreadable_at(key).map_or(Ok(()), |unreadable| Err(not_readable(unreadable)))
    }
}

/// A request that began under another definition of its resource, or under one that is gone.
pub(crate) fn redefined(storage: &Storage) -> Status {
    let (plural, group) = (&storage.plural, &storage.group);
    Status::unavailable(format!(
        "the definition of {plural}.{group} changed during the request; please try again"
    ))
}

/// Another client of the store wrote a value that is no object. Upstream's message, and how to repair it.
pub(crate) fn not_readable(unreadable: Unreadable) -> Status {
    Status::internal(format!(
        "StorageError: corrupt object, Code: 7, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: {unreadable}; write an object \
         in JSON there or delete that key, with etcdctl",
        unreadable.key
    ))
}

/// A failure of the store that is no conflict.
pub(crate) fn store_failed(error: CommitError) -> Status {
    match error {
        CommitError::Unknown(why) => Status::timeout(format!(
            "the store did not answer in time, the request may have been carried out: {why}"
        )),
        CommitError::TooLarge(why) => Status::too_large(format!("etcdserver: request is too large: {why}")),
        CommitError::NoSpace(why) => Status::insufficient_storage(why),
        CommitError::Stopped(why) => Status::unavailable(format!("the store has stopped: {why}")),
        CommitError::Conflict { key } => Status::internal(format!("unexpected conflict on {key}")),
    }
}
