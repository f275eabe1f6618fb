//! Keeps the catalogue in step with the CustomResourceDefinitions: an established one is served, within the same moment in
//! which the table shows it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use apiextensions::{Fingerprint, Served};
use catalog::{Resource, Storage, Verified};
use futures_util::future::BoxFuture;
use object::{Obj, Revision, Status, Value};
use parking_lot::Mutex;
use registry::Registry;

use crate::api::Api;
use crate::conversion::ConversionWebhooks;
use crate::effects::{Bell, Effect};
use crate::loopback::{GroupResource, LoopbackClient};

pub(crate) const DEFINITIONS: GroupResource = ("apiextensions.k8s.io", "customresourcedefinitions");

/// What is defined now, by the name of the CRD.
pub(crate) struct CustomResources {
    conversion: Arc<ConversionWebhooks>,
    defined: Mutex<BTreeMap<String, Defined>>,
    /// Definitions that replaced others, whose last requests may still be writing.
    replaced: Mutex<Vec<Replaced>>,
    /// Up to which revision of each CRD everything was done that follows from it.
    done: Mutex<BTreeMap<String, Revision>>,
    /// Rung when more is done.
    bell: Bell,
}

struct Defined {
    fingerprint: Fingerprint,
    group: String,
    plural: String,
    /// Those it is served in.
    versions: Vec<String>,
}

struct Replaced {
    /// Dropped with the last request that began under it.
    before: Weak<Storage>,
    verified: Verified,
}

impl CustomResources {
    pub fn new(conversion: Arc<ConversionWebhooks>) -> CustomResources {
        CustomResources {
            conversion,
            defined: Mutex::default(),
            replaced: Mutex::default(),
            done: Mutex::default(),
            bell: Bell::default(),
        }
    }

    /// Every established CRD there is.
    pub fn define_all(&self, client: &LoopbackClient<'_>) -> Result<(), Status> {
        let registry = client.api().registry();
        for crd in client.list(DEFINITIONS)? {
            let name = crd.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
            self.sync(registry, &name, Some(&crd));
        }
        Ok(())
    }

    /// Serves what the CRD of that name defines now; `None`: it is gone.
    pub fn sync(&self, registry: &Registry, name: &str, crd: Option<&Value>) {
        let mut defined = self.defined.lock();
        let Some(served) = crd.and_then(Served::of) else {
            if let Some(old) = defined.remove(name) {
                registry.undefine(&old.group, &old.plural);
                self.conversion.sync(&old.group, &old.plural, None);
            }
            return;
        };
        let fingerprint = served.fingerprint();
        let (group, plural) = (served.group(), served.plural());
        if defined.get(name).is_some_and(|now| now.fingerprint == fingerprint) {
            if served.is_terminating() {
                registry.table().mark_terminating(group, plural);
            }
            return;
        }
        let catalog = registry.catalog();
        let before = catalog.find_storage(group, plural).map(Arc::downgrade);
        if before.is_some() && !defined.contains_key(name) {
            tracing::warn!(crd = name, "a built-in resource has that name: the definition is not served");
            return;
        }
        let def = match served.resource_def(&catalog) {
            Ok(def) => def,
            Err(error) => {
                tracing::warn!(crd = name, %error, "a CustomResourceDefinition cannot be served");
                return;
            }
        };
        drop(catalog);
        self.conversion.sync(group, plural, crd);
        match registry.define(def) {
            Ok(def) => {
                let storage = def.storage.filter(|_| !registry.engine().is_shared());
                if let Some(storage) = storage.filter(|storage| writes_are_complete(storage, &def.served)) {
                    match before {
                        None => storage.verified.after(registry.table().revision().0),
                        Some(before) => {
                            let verified = storage.verified.clone();
                            self.replaced.lock().push(Replaced { before, verified });
                        }
                    }
                }
                let now = Defined {
                    fingerprint,
                    group: group.to_owned(),
                    plural: plural.to_owned(),
                    versions: def.served.iter().map(|resource| resource.version.to_string()).collect(),
                };
                defined.insert(name.to_owned(), now);
            }
            Err(error) => tracing::warn!(crd = name, %error, "a CustomResourceDefinition cannot be served"),
        }
    }

    /// Everything was done that follows from this state of a CRD; `None`: it is gone.
    pub fn done(&self, name: &str, revision: Option<Revision>) {
        match revision {
            Some(revision) => drop(self.done.lock().insert(name.to_owned(), revision)),
            None => drop(self.done.lock().remove(name)),
        }
        self.bell.ring(name);
    }

    /// Returns when that is so, for this state or a later one.
    async fn until_done(&self, name: &str, revision: Revision) {
        let so = || self.done.lock().get(name).is_some_and(|done| *done >= revision);
        self.bell.until(name, so).await;
    }

    /// The group versions a CRD serves now.
    fn versions_of(&self, name: &str) -> Vec<(String, String)> {
        let defined = self.defined.lock();
        let Some(Defined { group, versions, .. }) = defined.get(name) else { return Vec::new() };
        versions.iter().map(|version| (group.clone(), version.clone())).collect()
    }

    /// Trusts what is written under definitions whose predecessors nobody uses any more. Returns whether some are still used.
    pub fn settle(&self, registry: &Registry) -> bool {
        let mut replaced = self.replaced.lock();
        replaced.retain(|one| {
            let gone = one.before.strong_count() == 0;
            if gone {
                one.verified.after(registry.table().revision().0);
            }
            !gone
        });
        !replaced.is_empty()
    }
}

/// What follows from a CRD: its names are decided on, and where they are accepted its resource is served, and its group versions
/// are registered.
pub(crate) struct Definition;

impl Effect for Definition {
    fn in_place<'a>(&'a self, api: &'a Api, crd: &'a Obj) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let resources = &api.custom_resources;
            resources.until_done(crd.name(), crd.revision()).await;
            for (group, version) in resources.versions_of(crd.name()) {
                api.aggregation.until_registered(&group, &version).await;
            }
        })
    }
}

/// Is what is written also what is read in the stored version? An object that came in another version gets the defaults of the
/// stored one only when it is read.
fn writes_are_complete(storage: &Storage, served: &[Arc<Resource>]) -> bool {
    served.iter().all(|resource| resource.version == storage.version)
        || kinds::kind_of(storage).defaults(&storage.version).is_none()
}
