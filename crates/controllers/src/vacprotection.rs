//! Protection of VolumeAttributesClasses: one that a volume or a claim names is not deleted before them.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::Client;
use client::resources::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTRIBUTES_CLASSES};
use futures_util::future::BoxFuture;
use object::Obj;
use runtime::{Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, tree};
use tokio::task::JoinHandle;

use crate::Context;
use crate::pods::mentions;
use crate::volumes::in_use;
use plan::{FINALIZER, classes_of, left};

pub const NAME: &str = "volumeattributesclass-protection-controller";
/// The index of claims and volumes by the classes they name.
const BY_CLASS: &str = "volume attributes class";

struct Protect {
    client: Arc<dyn Client>,
    classes: Arc<Informer>,
    users: [Arc<Informer>; 2],
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let classes = context.informers.of(&VOLUME_ATTRIBUTES_CLASSES);
    let users =
        [&PERSISTENT_VOLUME_CLAIMS, &PERSISTENT_VOLUMES].map(|resource| context.informers.of(resource));
    let mut controller = Controller::new(&context.env, NAME).workers(1).max_retries(None);
    controller = controller.watches(&classes, |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ if !in_use::is_concern(event.obj(), FINALIZER) => Vec::new(),
        _ => vec![Key::of(event.obj())],
    });
    for informer in &users {
        informer.store().add_index(BY_CLASS, named);
        controller = controller.watches(informer, |event| {
            let names = match event {
                InformerEvent::Added { .. } => Vec::new(),
                InformerEvent::Updated { old, new, .. } => left(named(old), &named(new)),
                InformerEvent::Deleted { obj, .. } => named(obj),
            };
            names.iter().map(|name| Key::new("", name)).collect()
        });
    }
    let client = context.clients.controller(NAME);
    let protect = Arc::new(Protect { client, classes, users });
    controller.start(&context.controllers, protect, context.stop.clone())
}

/// Most name none, and are not read.
fn named(obj: &Obj) -> Vec<String> {
    let may = mentions(obj.body(), "olumeAttributesClassName\"");
    if may { classes_of(&tree(obj)) } else { Vec::new() }
}

impl Reconcile for Protect {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let class = self.classes.store().get_key(request.key);
            let class = class.filter(|class| in_use::is_concern(class, FINALIZER));
            let Some(class) = class else { return Ok(Action::AwaitChange) };
            let uses = |users: &Arc<Informer>| !users.store().by_index(BY_CLASS, class.name()).is_empty();
            let what = plan::plan(class.deleting(), self.users.iter().any(uses));
            request.plan(|| format!("{what:?} the finalizer"));
            in_use::apply(&*self.client, &VOLUME_ATTRIBUTES_CLASSES, &class, FINALIZER, what).await?;
            Ok(Action::AwaitChange)
        })
    }
}
