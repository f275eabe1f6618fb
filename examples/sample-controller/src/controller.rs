//! The classic sample controller: a Foo names a Deployment and a number of replicas. The controller creates the Deployment, owns
//! it, holds it to that number and writes into the Foo's status how many are available.
#![allow(clippy::disallowed_names, reason = "a Foo is what the classic sample controller holds")]

use std::sync::Arc;

use client::{Client, Gvr, Obj, Value, resources::DEPLOYMENTS};
use runtime::{
    Action, BoxFuture, Controller, ControllerRegistry, Env, Failure, Informer, Informers, JoinHandle, Key,
    Reconcile, ReconcileRequest, Recorder, Severity, Stop, owners, parse, tree,
};

pub const CRD: &str = include_str!("../crd.yaml");
pub static FOOS: Gvr = Gvr::new("samplecontroller.k8s.io", "v1alpha1", "foos");
const BY_DEPLOYMENT: &str = "deployment";
type Tasks = Vec<JoinHandle<()>>;

struct Sample {
    client: Arc<dyn Client>,
    recorder: Recorder,
    foos: Arc<Informer>,
    deployments: Arc<Informer>,
}

/// Runs until `stop`; `client` decides whether that is inside the server or over HTTP. Foos may be defined later.
pub fn start(env: &Env, client: Arc<dyn Client>, registry: &Arc<ControllerRegistry>, stop: Stop) -> Tasks {
    let informers = Informers::new(env.clone(), client.clone(), stop.clone());
    let (foos, deployments) = (informers.of(&FOOS), informers.of(&DEPLOYMENTS));
    let named = foos.clone();
    let (recorder, events) = Recorder::start(env, client.clone(), "sample-controller", stop.clone());
    // A Deployment asks for a reconcile of every Foo that names it, whoever owns it: no Foo has to look again by the clock.
    foos.store().add_index(BY_DEPLOYMENT, |foo| {
        wanted(foo).map(|(name, _)| format!("{}/{name}", foo.namespace())).into_iter().collect()
    });
    let sample = Sample { client, recorder, foos: foos.clone(), deployments: deployments.clone() };
    let mut tasks = Controller::new(env, "sample-controller")
        .owns_keys_of(&foos)
        .watches(&deployments, move |change| {
            let foos = named.store().by_index(BY_DEPLOYMENT, change.obj().path());
            foos.iter().map(|foo| Key::of(foo)).collect()
        })
        .start(registry, Arc::new(sample), stop);
    tasks.extend(informers.take_tasks().into_iter().chain([events]));
    tasks
}

impl Reconcile for Sample {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(foo) = self.foos.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            let Some((name, replicas)) = wanted(&foo) else { return Ok(Action::AwaitChange) };
            let there = self.deployments.store().get(foo.namespace(), &name);
            let is_other = |it: &Obj| owners::controller_of(it).is_none_or(|owner| owner.uid != foo.uid());
            if there.as_deref().is_some_and(is_other) {
                let message = format!("Resource \"{name}\" already exists and is not managed by Foo");
                self.recorder.event(&FOOS, &foo, Severity::Warning, "ErrResourceExists", message);
                return Ok(Action::AwaitChange);
            }
            // All that the Foo asks for, and nothing else: the server creates it, or changes what differs, whoever changed it, or
            // writes nothing. What others add, such as an annotation, stays.
            let target = DEPLOYMENTS.at(foo.namespace(), &name);
            let wanted = nginx(&foo, there.as_deref(), replicas)?;
            let deployment = self.client.apply(target, wanted, request.apply_options()).await?;
            let spec = |of: &Obj| tree(of).get("spec").cloned();
            let mut changed = there.is_none_or(|there| spec(&there) != spec(&deployment));
            let available = |of: &Obj| tree(of).at(&["status", "availableReplicas"]).and_then(Value::as_int);
            let now = available(&deployment).unwrap_or(0);
            if available(&foo) != Some(now) {
                let status = parse(&format!("status: {{availableReplicas: {now}}}"))?;
                self.client.apply(FOOS.of(&foo).sub("status"), status, request.apply_options()).await?;
                changed = true;
            }
            if changed {
                self.recorder.event(&FOOS, &foo, Severity::Normal, "Synced", "Foo synced successfully");
            }
            Ok(Action::AwaitChange)
        })
    }
}

/// The Deployment a Foo asks for, by name, and its replicas; `None` until it names both.
fn wanted(foo: &Obj) -> Option<(String, i64)> {
    let foo = tree(foo);
    let name = foo.str_at(&["spec", "deploymentName"]).filter(|name| !name.is_empty())?;
    Some((name.to_owned(), foo.at(&["spec", "replicas"])?.as_int()?))
}

fn nginx(foo: &Obj, there: Option<&Obj>, replicas: i64) -> Result<Value, Failure> {
    let mut out = parse(include_str!("nginx.yaml"))?;
    // The one that was looked at: if it is gone by now this is a conflict, and another reconcile.
    there.iter().for_each(|there| out.map_at(&["metadata"]).set("uid", there.uid()));
    let owner = owners::controller_ref("samplecontroller.k8s.io/v1alpha1", "Foo", foo);
    out.map_at(&["metadata"]).set("ownerReferences", vec![owner]);
    out.map_at(&["spec"]).set("replicas", replicas);
    out.map_at(&["spec", "selector", "matchLabels"]).set("controller", foo.name());
    out.map_at(&["spec", "template", "metadata", "labels"]).set("controller", foo.name());
    Ok(out)
}
