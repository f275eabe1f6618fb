//! A world for unit tests: objects in a table, and requests about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use admission::{Attempt, Authorize, Body, Operation, RequestContext, UnknownFields, Versions};
use auth::{Decision, UserInfo};
use catalog::{Catalog, Resource, Verbs};
use codec::json;
use env::Env;
use object::{Status, Value};
use store::{BoxFuture, Commit, Engine, MemoryEngine, Op};
use table::Table;

pub struct World {
    pub env: Env,
    catalog: Arc<Catalog>,
    table: Arc<Table>,
    engine: Arc<dyn Engine>,
    pub versions: Counted,
    user: UserInfo,
}

/// Nothing is converted; how often it was to be is counted.
#[derive(Default)]
pub struct Counted(pub AtomicUsize);

impl Versions for Counted {
    fn to_version<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        resource: &'a Arc<Resource>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        ().to_version(attempt, resource, object)
    }
    fn decode<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        resource: &'a Arc<Resource>,
        object: Value,
        unknown: UnknownFields,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        ().decode(attempt, resource, object, unknown)
    }
    fn from_version<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        resource: &'a Arc<Resource>,
        object: Value,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        ().from_version(attempt, resource, object)
    }
}

impl World {
    pub fn new() -> World {
        let catalog = Arc::new(Catalog::builtin());
        let env = Env::machine();
        let table = Table::new(catalog.clone(), env.clone());
        let engine = MemoryEngine::open(table.clone());
        let user = UserInfo::new("u", &[]);
        World { env, catalog, table, engine, versions: Counted::default(), user }
    }

    /// Stores an object; `rest` is all but its names.
    pub async fn put(&self, group: &str, plural: &str, (namespace, name): (&str, &str), rest: &str) {
        let storage = self.catalog.find_storage(group, plural).unwrap();
        let place =
            if namespace.is_empty() { String::new() } else { format!(r#","namespace":"{namespace}""#) };
        let (kind, version) = (&storage.kind, &storage.version);
        let api_version = if group.is_empty() { version.to_string() } else { format!("{group}/{version}") };
        let value = format!(
            r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{{"name":"{name}"{place},"uid":"{name}","generation":1,"labels":{{"any":"thing"}}}},{rest}}}"#
        );
        let ops =
            vec![(storage.key(namespace, name).into(), Op::Put { value: value.into(), expires_at: None })];
        self.engine.commit(Commit { guards: Vec::new(), ops, removal: false }).await.unwrap();
    }

    /// A request of namespace `n` that may take so long.
    pub fn with<R>(
        &self,
        operation: Operation,
        (group, plural, subresource): (&str, &str, Option<&str>),
        limit: Duration,
        work: impl FnOnce(&Attempt<'_>) -> R,
    ) -> R {
        let resource = self.catalog.find(group, "v1", plural).unwrap();
        let deadline = self.env.monotonic() + limit;
        let request = RequestContext {
            namespace: "n",
            subresource,
            ..RequestContext::new(&self.user, &self.catalog, resource, Verbs::CREATE, deadline)
        };
        work(&Attempt {
            request: &request,
            operation,
            storage: resource.storage.as_ref().unwrap(),
            name: "a",
            generate_name: "",
            old: None,
            body: Body::Resource,
            delete_options: None,
            versions: &self.versions,
            dry_run: false,
            table: &self.table,
            env: &self.env,
        })
    }
}

pub fn everybody_may() -> Authorize {
    Arc::new(|_, _| Decision { allowed: true, reason: String::new() })
}

pub fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), None).unwrap()
}
