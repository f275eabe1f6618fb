//! Registers an APIService for every group version that is served here, and removes those of custom resources that are gone.
//!
//! Those of built-in groups are written when the server starts, and left alone then; those of custom resources follow their
//! CustomResourceDefinitions for as long as it runs. What carries no label of ours is never touched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use client::{Gvr, resources};
use futures_util::stream::{FuturesUnordered, StreamExt};
use object::{Status, Value};
use parking_lot::Mutex;
use runtime::{Action, BoxFuture, Failure, InformerEvent, JoinHandle, Key, Reconcile, ReconcileRequest};

use super::Context;
use crate::aggregation::priorities::{self, Managed, Wanted, automanaged};
use crate::api::Api;
use crate::custom_resources::DEFINITIONS;
use crate::loopback::{GroupResource, LoopbackClient, lost_race};

pub(crate) const API_SERVICES: GroupResource = ("apiregistration.k8s.io", "apiservices");
pub(crate) static API_SERVICE: Gvr = Gvr::new(API_SERVICES.0, "v1", API_SERVICES.1);

/// The group versions CustomResourceDefinitions serve.
#[derive(Default)]
struct CustomVersions {
    /// By the name of the CRD.
    of_definition: BTreeMap<String, BTreeSet<(String, String)>>,
    /// How many definitions serve a group version.
    served: BTreeMap<(String, String), usize>,
}

impl CustomVersions {
    /// Replaces what a CRD serves; `None`: it is gone. Returns what may have changed.
    fn set(&mut self, name: &str, crd: Option<&Value>) -> BTreeSet<(String, String)> {
        let now = crd.map(served_versions).unwrap_or_default();
        let before = match now.is_empty() {
            true => self.of_definition.remove(name),
            false => self.of_definition.insert(name.to_owned(), now.clone()),
        };
        let before = before.unwrap_or_default();
        for version in &before {
            if let Some(count) = self.served.get_mut(version) {
                *count -= 1;
                if *count == 0 {
                    self.served.remove(version);
                }
            }
        }
        for version in &now {
            *self.served.entry(version.clone()).or_default() += 1;
        }
        &before ^ &now
    }

    fn wanted(&self) -> impl Iterator<Item = Wanted> {
        self.served.keys().map(|(group, version)| Wanted::custom(group, version))
    }
}

fn served_versions(crd: &Value) -> BTreeSet<(String, String)> {
    let group = crd.str_at(&["spec", "group"]).unwrap_or("");
    let versions = crd.at(&["spec", "versions"]).and_then(Value::as_list).unwrap_or_default();
    let served = versions.iter().filter(|v| v.get("served").and_then(Value::as_bool) == Some(true));
    served.filter_map(|v| Some((group.to_owned(), v.str_at(&["name"])?.to_owned()))).collect()
}

/// All that are wanted, by name: the built-in ones, and those of the CRDs there are.
fn all_wanted(client: &LoopbackClient<'_>, custom: &mut CustomVersions) -> Result<Vec<Wanted>, Status> {
    for crd in client.list(DEFINITIONS)? {
        custom.set(crd.str_at(&["metadata", "name"]).unwrap_or(""), Some(&crd));
    }
    let mut wanted = priorities::wanted_built_in(&client.api().registry().catalog());
    let known: BTreeSet<String> = wanted.iter().map(Wanted::name).collect();
    // A definition may share its group version with us.
    wanted.extend(custom.wanted().filter(|wanted| !known.contains(&wanted.name())));
    Ok(wanted)
}

/// Once, when the server starts: all that are wanted are there, and none that was ours and is not wanted any more.
pub(crate) async fn register_all(client: &LoopbackClient<'_>) -> Result<(), Status> {
    let wanted = all_wanted(client, &mut CustomVersions::default())?;
    let current: BTreeMap<String, Value> = client
        .list(API_SERVICES)?
        .into_iter()
        .map(|object| (object.str_at(&["metadata", "name"]).unwrap_or("").to_owned(), object))
        .collect();
    let names: BTreeSet<String> = wanted.iter().map(Wanted::name).collect();
    let spurious = current.iter().filter(|(name, object)| !names.contains(*name) && is_ours(object));
    // Concurrently, so that the disk sees a few large batches.
    let mut writes: FuturesUnordered<BoxFuture<'_, Result<(), Status>>> = FuturesUnordered::new();
    for wanted in &wanted {
        writes.push(Box::pin(sync(client, Some(wanted), current.get(&wanted.name()))));
    }
    for (_, object) in spurious {
        writes.push(Box::pin(sync(client, None, Some(object))));
    }
    while let Some(done) = writes.next().await {
        done?;
    }
    Ok(())
}

fn is_ours(object: &Value) -> bool {
    matches!(automanaged(object), "onstart" | "true")
}

/// Makes one what is wanted.
async fn sync(
    client: &LoopbackClient<'_>,
    wanted: Option<&Wanted>,
    current: Option<&Value>,
) -> Result<(), Status> {
    let written = match (wanted, current) {
        (None, None) => Ok(()),
        (Some(wanted), None) => client.create(API_SERVICES, "", wanted.object()).await,
        (_, Some(current)) if !is_ours(current) => Ok(()),
        (None, Some(current)) => client.delete(API_SERVICES, current).await,
        (Some(wanted), Some(current)) if wanted.differs(current) => {
            let mut new = current.clone();
            new.make_map().set("spec", wanted.spec());
            client.update(API_SERVICES, new).await
        }
        _ => Ok(()),
    };
    match written {
        // Whoever changed it meanwhile has woken us again.
        Err(status) if lost_race(&status) => Ok(()),
        other => other,
    }
}

pub(crate) fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let client = LoopbackClient::new(&context.api);
    let mut custom = CustomVersions::default();
    // All before the first key is looked at: none is deleted because its definition was not heard of yet.
    if let Err(status) = all_wanted(&client, &mut custom) {
        tracing::warn!(error = status.message, "CustomResourceDefinitions could not be listed");
    }
    let built_in = priorities::wanted_built_in(&context.api.registry().catalog());
    let built_in = built_in.into_iter().map(|wanted| (wanted.name(), wanted)).collect();
    let custom = Arc::new(Mutex::new(custom));
    let told = custom.clone();
    let controller = context
        .controller("autoregister")
        .workers(5)
        .owns_keys_of(&context.informers.of(&API_SERVICE))
        .watches(&context.informers.of(&resources::CUSTOM_RESOURCE_DEFINITIONS), move |event| {
            let name = event.obj().name();
            let changed = match event {
                InformerEvent::Deleted { .. } => told.lock().set(name, None),
                _ => {
                    let crd = codec::json::parse(event.obj().body(), None).ok();
                    told.lock().set(name, crd.as_ref())
                }
            };
            changed.iter().map(|(group, version)| Key::new("", &priorities::name(group, version))).collect()
        });
    for wanted in custom.lock().wanted() {
        controller.queue().add(Key::new("", &wanted.name()), runtime::queue::NORMAL, None);
    }
    context.start(controller, Registering { api: context.api.clone(), built_in, custom })
}

struct Registering {
    api: Arc<Api>,
    built_in: BTreeMap<String, Wanted>,
    /// Guards which group versions the definitions serve; held for a look-up.
    custom: Arc<Mutex<CustomVersions>>,
}

impl Registering {
    fn wanted(&self, name: &str) -> Option<Wanted> {
        if let Some(wanted) = self.built_in.get(name) {
            return Some(wanted.clone());
        }
        let (version, group) = name.split_once('.')?;
        let served = self.custom.lock().served.contains_key(&(group.to_owned(), version.to_owned()));
        served.then(|| Wanted::custom(group, version))
    }
}

impl Reconcile for Registering {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let name = request.key.name();
            let wanted = self.wanted(name);
            // Synced when the server started, and left to others since.
            if wanted.as_ref().is_some_and(|wanted| wanted.managed == Managed::OnStart) {
                return Ok(Action::AwaitChange);
            }
            let client = LoopbackClient::new(&self.api);
            let current = client.get(API_SERVICES, "", name);
            if current.as_ref().is_some_and(|current| automanaged(current) == "onstart") {
                return Ok(Action::AwaitChange);
            }
            sync(&client, wanted.as_ref(), current.as_ref()).await?;
            Ok(Action::AwaitChange)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(group: &str, versions: &[(&str, bool)]) -> Value {
        let mut crd = Value::map();
        let one = |(name, served): &(&str, bool)| {
            let mut version = Value::map();
            version.make_map().set("name", *name);
            version.make_map().set("served", *served);
            version
        };
        let spec = crd.map_at(&["spec"]);
        spec.set("group", group);
        spec.set("versions", versions.iter().map(one).collect::<Vec<_>>());
        crd
    }

    #[test]
    fn a_group_version_stays_while_any_definition_serves_it() {
        let mut custom = CustomVersions::default();
        let names = |custom: &CustomVersions| custom.wanted().map(|w| w.name()).collect::<Vec<_>>();
        custom.set("a.x.io", Some(&crd("x.io", &[("v1", true), ("v2", false)])));
        custom.set("b.x.io", Some(&crd("x.io", &[("v1", true), ("v2", true)])));
        assert_eq!(names(&custom), ["v1.x.io", "v2.x.io"]);
        let changed = custom.set("b.x.io", Some(&crd("x.io", &[("v1", true)])));
        assert_eq!(changed.into_iter().map(|(_, v)| v).collect::<Vec<_>>(), ["v2"]);
        assert_eq!(names(&custom), ["v1.x.io"]);
        custom.set("b.x.io", None);
        assert_eq!(names(&custom), ["v1.x.io"]);
        custom.set("a.x.io", None);
        assert!(names(&custom).is_empty());
    }
}
