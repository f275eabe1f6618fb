//! The ConfigMaps and Secrets that pods of this node name, the Services and RuntimeClasses, and the pods' tokens.
//!
//! ```text
//!  pod ── register ──> one watch for each object it names, shared by all pods that do ──> get
//!                                        └── changed(uid of each of those pods)
//! ```
//! As kubelet's watch-based manager: an object is watched while a pod of the node names it, and an immutable one only until it is
//! there. Claims and volumes are read when they are needed: a node may not watch them.

mod names;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use client::resources::{CONFIG_MAPS, RUNTIME_CLASSES, SECRETS, SERVICES};
use client::{Client, Gvr, Obj, Value};
use env::Env;
use parking_lot::Mutex;
use runtime::fifo::Delta;
use runtime::{Informer, QueueKind, Reflector, Scope, Stop, Stopper, tree};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use tokens::{TokenError, TokenWanted};

use tokens::Tokens;

/// So long a reader waits for the first answer of a watch.
const SYNC_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    ConfigMap,
    Secret,
}

impl ObjectKind {
    fn resource(self) -> &'static Gvr {
        match self {
            ObjectKind::ConfigMap => &CONFIG_MAPS,
            ObjectKind::Secret => &SECRETS,
        }
    }
    /// As kubelet's messages have it.
    fn singular(self) -> &'static str {
        match self {
            ObjectKind::ConfigMap => "configmap",
            ObjectKind::Secret => "secret",
        }
    }
}

/// In kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    #[error("object {namespace:?}/{name:?} not registered")]
    NotRegistered { namespace: String, name: String },
    #[error("failed to sync {0} cache: timed out waiting for the condition")]
    NotSynced(&'static str),
    #[error("{kind} {name:?} not found")]
    NotFound { kind: &'static str, name: String },
}

impl ObjectError {
    pub fn is_not_found(&self) -> bool {
        matches!(self, ObjectError::NotFound { .. })
    }
}

/// Told the uid of a pod when an object it names came, changed or went. Called on the task of a watch: it must not wait.
pub type Changed = Arc<dyn Fn(&str) + Send + Sync>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    kind: ObjectKind,
    namespace: Box<str>,
    name: Box<str>,
}

pub struct Objects {
    env: Env,
    client: Arc<dyn Client>,
    changed: Changed,
    services: Arc<Informer>,
    runtime_classes: Arc<Informer>,
    tokens: Tokens,
    /// Guards which pod names what and what is known of it; held for lookups and updates, never while a pod is told.
    named: Mutex<Named>,
    this: Weak<Objects>,
}

#[derive(Default)]
struct Named {
    pods: BTreeMap<Box<str>, BTreeSet<Key>>,
    objects: BTreeMap<Key, Watched>,
}

/// One object that is named.
struct Watched {
    /// The uids of the pods that do.
    pods: BTreeSet<Box<str>>,
    state: watch::Sender<State>,
    /// Ends the watch when dropped. None once the object is here for good.
    stopper: Option<Stopper>,
}

#[derive(Clone, Default)]
struct State {
    synced: bool,
    obj: Option<Arc<Obj>>,
    /// A reader went without an answer: its pod is told of the first one.
    awaited: bool,
}

impl Objects {
    /// Begins to follow the Services and RuntimeClasses, whose tasks are returned; pods register as they come.
    pub fn start(
        env: &Env,
        client: Arc<dyn Client>,
        changed: Changed,
        stop: Stop,
    ) -> (Arc<Objects>, Vec<JoinHandle<()>>) {
        let follow = |resource: &Gvr| {
            Informer::new(env.clone(), client.clone(), Scope::all(resource), QueueKind::Real)
        };
        let (services, runtime_classes) = (follow(&SERVICES), follow(&RUNTIME_CLASSES));
        let mut tasks = services.start(stop.clone());
        tasks.extend(runtime_classes.start(stop));
        let objects = Arc::new_cyclic(|this| Objects {
            env: env.clone(),
            client,
            changed,
            services,
            runtime_classes,
            tokens: Tokens::default(),
            named: Mutex::default(),
            this: this.clone(),
        });
        (objects, tasks)
    }

    /// Begins to watch what the pod names; a pod that is known and names something else now is taken as it is now.
    pub fn register(&self, pod: &Value) {
        let Some(uid) = pod.str_at(&["metadata", "uid"]) else { return };
        let wanted = names::of(pod);
        let mut named = self.named.lock();
        let old = named.pods.insert(uid.into(), wanted.clone()).unwrap_or_default();
        for key in wanted.difference(&old) {
            if !named.objects.contains_key(key) {
                let watched = self.watch(key);
                named.objects.insert(key.clone(), watched);
            }
            if let Some(watched) = named.objects.get_mut(key) {
                watched.pods.insert(uid.into());
            }
        }
        for key in old.difference(&wanted) {
            named.forget(key, uid);
        }
    }

    /// The pod is gone: what nobody else names is watched no longer, and its tokens are forgotten.
    pub fn unregister(&self, uid: &str) {
        let mut named = self.named.lock();
        for key in named.pods.remove(uid).unwrap_or_default() {
            named.forget(&key, uid);
        }
        drop(named);
        self.tokens.forget(uid);
    }

    pub async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<Obj>, ObjectError> {
        self.get(ObjectKind::ConfigMap, namespace, name).await
    }

    pub async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Obj>, ObjectError> {
        self.get(ObjectKind::Secret, namespace, name).await
    }

    /// The newest state known of an object that a registered pod names.
    pub async fn get(&self, kind: ObjectKind, namespace: &str, name: &str) -> Result<Arc<Obj>, ObjectError> {
        let key = Key { kind, namespace: namespace.into(), name: name.into() };
        let state = self.named.lock().objects.get(&key).map(|watched| watched.state.subscribe());
        let Some(mut state) = state else {
            return Err(ObjectError::NotRegistered { namespace: namespace.into(), name: name.into() });
        };
        let synced = self.env.timeout(SYNC_TIMEOUT, state.wait_for(|state| state.synced)).await;
        let obj = match synced {
            Ok(Ok(state)) => state.obj.clone(),
            // It was let go meanwhile, or the server does not answer.
            _ => {
                if let Some(watched) = self.named.lock().objects.get(&key) {
                    watched.state.send_modify(|state| state.awaited = true);
                }
                return Err(ObjectError::NotSynced(kind.singular()));
            }
        };
        obj.ok_or_else(|| ObjectError::NotFound { kind: kind.singular(), name: name.to_owned() })
    }

    /// Every Service of the cluster: what containers find in their environment.
    pub fn services(&self) -> &Arc<Informer> {
        &self.services
    }

    /// The handler of the pod's RuntimeClass; empty: the runtime's own choice.
    pub fn runtime_handler(&self, pod: &Value) -> Result<String, ObjectError> {
        let Some(name) = pod.str_at(&["spec", "runtimeClassName"]).filter(|name| !name.is_empty()) else {
            return Ok(String::new());
        };
        let class = self.runtime_classes.store().get("", name).ok_or_else(|| ObjectError::NotFound {
            kind: "runtimeclass.node.k8s.io",
            name: name.to_owned(),
        })?;
        Ok(tree(&class).str_at(&["handler"]).unwrap_or_default().to_owned())
    }

    /// A token of the pod's service account, from the cache unless it is due for renewal.
    pub async fn token(&self, wanted: &TokenWanted<'_>) -> Result<String, TokenError> {
        self.tokens.get(&self.env, &*self.client, wanted).await
    }

    /// When the first of the pod's tokens is due for renewal, in Unix seconds; nobody renews it unless it is asked for then.
    pub fn token_due(&self, uid: &str) -> Option<i64> {
        self.tokens.due(uid)
    }

    /// The number of objects that are watched or kept.
    pub fn watched(&self) -> usize {
        self.named.lock().objects.len()
    }

    fn watch(&self, key: &Key) -> Watched {
        let (stopper, stop) = Stopper::new();
        let scope = Scope {
            namespace: key.namespace.to_string(),
            field_selector: format!("metadata.name={}", key.name),
            ..Scope::all(key.kind.resource())
        };
        let reflector = Reflector { env: self.env.clone(), client: self.client.clone(), scope, stop };
        let (this, watched) = (self.this.clone(), key.clone());
        let follow = reflector.run(move |deltas| {
            let Some(this) = this.upgrade() else { return };
            for delta in deltas.drain(..) {
                this.learned(&watched, delta);
            }
        });
        // Ends with its stopper.
        drop(self.env.spawn("watch of an object", follow));
        Watched { pods: BTreeSet::new(), state: watch::Sender::new(State::default()), stopper: Some(stopper) }
    }

    fn learned(&self, key: &Key, delta: Delta) {
        let obj = match delta {
            Delta::Added(obj) | Delta::Updated(obj) | Delta::Listed(obj) => Some(obj),
            Delta::Replaced { items, .. } => items.into_iter().find(|obj| obj.name() == &*key.name),
            Delta::Deleted { .. } => None,
            Delta::Sync | Delta::Synced(_) | Delta::Bookmark(_) => return,
        };
        let pods = {
            let mut named = self.named.lock();
            let Some(watched) = named.objects.get_mut(key) else { return };
            let same = |a: &Option<Arc<Obj>>, b: &Option<Arc<Obj>>| {
                a.as_ref().map(|obj| obj.revision()) == b.as_ref().map(|obj| obj.revision())
            };
            let mut tell = false;
            watched.state.send_modify(|state| {
                tell = (state.synced && !same(&state.obj, &obj)) || state.awaited;
                *state = State { synced: true, obj: obj.clone(), awaited: false };
            });
            if obj.is_some_and(|obj| is_immutable(&obj)) {
                watched.stopper = None;
            }
            if tell { watched.pods.iter().cloned().collect() } else { Vec::new() }
        };
        for uid in pods {
            (self.changed)(&uid);
        }
    }
}

impl Named {
    fn forget(&mut self, key: &Key, uid: &str) {
        if let Some(watched) = self.objects.get_mut(key) {
            watched.pods.remove(uid);
            if watched.pods.is_empty() {
                self.objects.remove(key);
            }
        }
    }
}

fn is_immutable(obj: &Obj) -> bool {
    tree(obj).get("immutable").and_then(Value::as_bool) == Some(true)
}
