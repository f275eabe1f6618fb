//! From changes of Jobs and pods to keys of work.

use std::sync::Arc;

use client::resources::{JOBS, PODS};
use object::Obj;
use runtime::owners::{Owner, controller_of};
use runtime::queue::{LOW, NORMAL};
use runtime::{BY_CONTROLLER, Cause, Informer, InformerEvent, Key, WorkQueue};

use super::pods::is_tracked;
use super::view::job_view;
use super::{BATCH, Jobs};
use crate::claim::{matches, selecting};
use crate::pods::pod_view;

type Queue = Arc<WorkQueue<Key>>;

struct Handlers {
    state: Arc<Jobs>,
    queue: Queue,
    orphans: Queue,
}

pub(super) fn add(state: &Arc<Jobs>, queue: Queue, orphans: Queue) {
    let handlers = Arc::new(Handlers { state: state.clone(), queue, orphans });
    let for_pods = handlers.clone();
    state.jobs.add_resyncing_handler(Box::new(move |event| handlers.job(event)));
    state.pods.add_handler(None, Box::new(move |event| for_pods.pod(event)));
}

/// The Job an owner reference means, if it is the one there.
pub(super) fn resolve(jobs: &Informer, namespace: &str, owner: &Owner) -> Option<Arc<Obj>> {
    if owner.kind != "Job" || owner.group() != "batch" {
        return None;
    }
    jobs.store().get(namespace, &owner.name).filter(|job| job.uid() == owner.uid)
}

impl Handlers {
    fn job(&self, event: &InformerEvent<'_>) {
        match event {
            InformerEvent::Added { obj, initial } => {
                let priority = if *initial { LOW } else { NORMAL };
                self.state.metrics.appeared(&job_view(obj));
                self.queue.add(Key::of(obj), priority, Some(Cause::new(&JOBS, obj, "added")));
            }
            InformerEvent::Updated { old, new, .. } => {
                let view = job_view(new);
                if view.is_finished() {
                    // Its pods have no finalizers by now; if some do after all, nobody else takes them.
                    self.state.forget(&Key::of(new));
                    self.orphaned(new);
                    return;
                }
                let cause = Some(Cause::new(&JOBS, new, "updated"));
                if job_view(old).generation == view.generation {
                    self.queue.add_after(Key::of(new), BATCH, cause);
                } else {
                    self.queue.add(Key::of(new), NORMAL, cause);
                }
            }
            InformerEvent::Deleted { obj, .. } => {
                self.queue.add(Key::of(obj), NORMAL, Some(Cause::new(&JOBS, obj, "deleted")));
                self.state.forget(&Key::of(obj));
                self.orphaned(obj);
            }
        }
    }

    /// A Job is over or gone: pods that still have the finalizer are let go.
    fn orphaned(&self, job: &Obj) {
        for pod in self.state.pods.store().by_index(BY_CONTROLLER, job.uid()) {
            if is_tracked(&pod) {
                self.orphans.add(Key::of(&pod), NORMAL, Some(Cause::new(&JOBS, job, "over")));
            }
        }
    }

    fn pod(&self, event: &InformerEvent<'_>) {
        self.measure(event);
        match event {
            InformerEvent::Added { obj, .. } if obj.deleting() => self.pod_goes(obj, false),
            InformerEvent::Added { obj, .. } => match controller_of(obj) {
                Some(owner) => {
                    let Some(job) = resolve(&self.state.jobs, obj.namespace(), &owner) else { return };
                    self.state.expectations.creation_seen(&Key::of(&job));
                    self.soon(&job, obj, "added");
                }
                None => self.pod_is_free(obj, true),
            },
            InformerEvent::Updated { sync: true, .. } => {}
            InformerEvent::Updated { new, .. } if new.deleting() => self.pod_goes(new, false),
            InformerEvent::Updated { old, new, .. } => {
                let same_owners = old.owners() == new.owners();
                let owner = controller_of(new);
                let before = if same_owners { None } else { controller_of(old) };
                if let Some(before) = before.filter(|before| owner.as_ref() != Some(before))
                    && let Some(job) = resolve(&self.state.jobs, old.namespace(), &before)
                {
                    self.soon(&job, new, "released");
                }
                match owner {
                    Some(owner) => {
                        if let Some(job) = resolve(&self.state.jobs, new.namespace(), &owner) {
                            self.soon(&job, new, "updated");
                        }
                    }
                    None => self.pod_is_free(new, !same_owners || old.metadata() != new.metadata()),
                }
            }
            InformerEvent::Deleted { obj, .. } => self.pod_goes(obj, true),
        }
    }

    fn measure(&self, event: &InformerEvent<'_>) {
        let ended = |pod: &Obj| is_tracked(pod) && pod_view(pod).is_terminal();
        let (was, is) = match event {
            InformerEvent::Added { obj, .. } => (false, ended(obj)),
            InformerEvent::Updated { old, new, .. } => (ended(old), ended(new)),
            InformerEvent::Deleted { obj, .. } => (ended(obj), false),
        };
        self.state.metrics.ended_with_finalizer(was, is);
    }

    /// Nobody controls the pod: its finalizer is of no use, and somebody may want to adopt it.
    fn pod_is_free(&self, pod: &Obj, adoptable: bool) {
        if is_tracked(pod) {
            self.orphans.add(Key::of(pod), NORMAL, Some(Cause::new(&PODS, pod, "free")));
        }
        if !adoptable {
            return;
        }
        for job in selecting(&self.state.jobs, pod) {
            if matches(&job_view(&job).spec.selector, pod) {
                self.soon(&job, pod, "free");
            }
        }
    }

    fn pod_goes(&self, pod: &Obj, gone: bool) {
        let owner = controller_of(pod);
        let job = owner.and_then(|owner| resolve(&self.state.jobs, pod.namespace(), &owner));
        let Some(job) = job.filter(|job| !job_view(job).is_finished()) else {
            if !gone && is_tracked(pod) {
                self.orphans.add(Key::of(pod), NORMAL, Some(Cause::new(&PODS, pod, "orphaned")));
            }
            return;
        };
        self.state.expectations.deletion_seen(&Key::of(&job), &Key::of(pod));
        self.soon(&job, pod, "going");
    }

    fn soon(&self, job: &Obj, pod: &Obj, what: &'static str) {
        self.queue.add_after(Key::of(job), BATCH, Some(Cause::new(&PODS, pod, what)));
    }
}
