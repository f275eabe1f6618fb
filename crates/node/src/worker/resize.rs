//! In-place resize: what a pod asks for now may be more than its node has to give.
//!
//! ```text
//!  spec.resources ──fits?── yes ──> given: limits are set anew, or the container is restarted ──> PodResizeInProgress, until it is so
//!                    └────── no ──> PodResizePending, and the pod keeps what the status says it was given
//! ```
//! The status says what the containers have: until a resize is done, what they had before. A process that comes later goes by that.
//! Of containers that were not started it says nothing: those have what the pod was admitted with, as far as this process did that.

use std::collections::BTreeSet;

use object::{Map, Value};
use runtime::Severity;

use crate::admit::Rejection;
use crate::container_runtime::{Container as State, Millis, Sandbox};
use crate::pod::{Container, Pod, Role};
use crate::worker::{PodWorker, SyncResult};

/// How long a resize that does not fit waits for the next attempt, if no other pod makes room before.
const RETRY_MILLIS: Millis = 180_000;
/// How long one that failed waits.
const FAILED_MILLIS: Millis = 10_000;

#[derive(Debug, Default)]
pub struct Resize {
    pub pending: Option<Box<Pending>>,
    pub progress: Option<Box<Progress>>,
    /// What this process gave last: the status a pod is read with may be older.
    given: Option<Box<Asked>>,
    /// What the pod has that this process admitted, until the status says it of all its containers.
    admitted: Option<Box<Asked>>,
}

/// What a pod asks for as a whole, and each of its containers.
pub type Asked = Vec<Option<Value>>;

/// There is no room for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Pending {
    pub message: String,
    pub generation: i64,
}

/// It was given, and is not everywhere yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub generation: i64,
    pub error: Option<String>,
    /// Containers that get it by a restart, by their place.
    restarts: BTreeSet<usize>,
}

/// Of a container that asked for nothing.
static NOTHING: Value = Value::Null;

impl Resize {
    /// The pod gets what it asks for, as it is new to the node.
    pub fn admit(&mut self, pod: &Pod<'_>) {
        self.admitted = Some(Box::new(asked(pod)));
    }

    /// What the pod was given, if that is not what it asks for.
    pub fn given(&mut self, pod: &Pod<'_>) -> Option<Value> {
        let mut resizable = pod.containers.iter().filter(|c| is_resizable(c));
        if self.admitted.is_some() && resizable.all(|container| said(pod, container).is_some()) {
            self.admitted = None;
        }
        given(pod, self.admitted.as_deref())
    }

    /// Was something else given than the pod asks for now?
    pub fn is_overtaken(&self, pod: &Pod<'_>) -> bool {
        self.progress.is_some() && self.given.as_deref().is_some_and(|given| *given != asked(pod))
    }

    /// What the status shows of the pod, or of one of its containers, until the resize is done.
    pub fn shown<'a>(&self, pod: &Pod<'a>, container: Option<&Container<'_>>) -> Option<&'a Value> {
        self.progress.as_ref()?;
        match container {
            Some(container) => said(pod, container),
            None => pod.tree.at(&["status", "resources"]),
        }
    }

    /// Is the container to be restarted with what it was given?
    pub fn restarts(&self, index: usize) -> bool {
        self.progress.as_ref().is_some_and(|progress| progress.restarts.contains(&index))
    }

    /// It was asked for.
    pub fn restarted(&mut self, index: usize) {
        if let Some(progress) = &mut self.progress {
            progress.restarts.remove(&index);
        }
    }
}

/// What the pod was given, as its status has it or as it was `admitted`, if that is not what it asks for.
pub fn given(pod: &Pod<'_>, admitted: Option<&Asked>) -> Option<Value> {
    let had = |index: usize, container: &Container<'_>| {
        let at_first = || admitted?.get(index + 1).map(|asked| asked.as_ref().unwrap_or(&NOTHING));
        said(pod, container).or_else(at_first)
    };
    let changed = |(index, container): (usize, &Container<'_>)| {
        is_resizable(container)
            && had(index, container).is_some_and(|had| differs(Some(had), resources(container.spec)))
    };
    let of_pod = of_pod(pod, admitted);
    if of_pod.is_none() && !pod.containers.iter().enumerate().any(changed) {
        return None;
    }
    let mut tree = pod.tree.clone();
    for list in ["initContainers", "containers"] {
        let Some(Value::List(all)) = tree.map_at(&["spec"]).get_mut(list) else { continue };
        for spec in all {
            let name = spec.str_at(&["name"]).unwrap_or_default().to_owned();
            let mut all = pod.containers.iter().enumerate();
            let container = all.find(|(_, c)| c.name == name && is_resizable(c));
            match container.and_then(|(index, container)| had(index, container)) {
                Some(Value::Null) => drop(spec.make_map().remove("resources")),
                Some(had) => spec.make_map().set("resources", had.clone()),
                None => {}
            }
        }
    }
    if let Some(said) = of_pod {
        tree.map_at(&["spec"]).set("resources", said);
    }
    Some(tree)
}

/// What the pod as a whole was given, if that is not what it asks for. The status has more than what the pod asks for: what its
/// containers have in sum.
fn of_pod(pod: &Pod<'_>, admitted: Option<&Asked>) -> Option<Value> {
    let wanted = pod.tree.at(&["spec", "resources"])?;
    let at_first = || admitted?.first().map(|asked| asked.as_ref().unwrap_or(&NOTHING));
    let said = pod.tree.at(&["status", "resources"]).or_else(at_first)?;
    let mut given = wanted.clone();
    for list in ["requests", "limits"] {
        let Some(Value::Map(amounts)) = given.make_map().get_mut(list) else { continue };
        let names: Vec<String> = amounts.iter().map(|(name, _)| name.as_str().to_owned()).collect();
        for name in names {
            match said.at(&[list, &name]) {
                Some(said) => amounts.set(name, said.clone()),
                // It was added; nothing else can be.
                None if matches!(name.as_str(), "cpu" | "memory") => drop(amounts.remove(&name)),
                None => {}
            }
        }
        if amounts.is_empty() {
            given.make_map().remove(list);
        }
    }
    differs(Some(&given), Some(wanted)).then_some(given)
}

fn asked(pod: &Pod<'_>) -> Asked {
    let of_pod = pod.tree.at(&["spec", "resources"]).cloned();
    std::iter::once(of_pod).chain(pod.containers.iter().map(|c| resources(c.spec).cloned())).collect()
}

fn is_resizable(container: &Container<'_>) -> bool {
    container.role != Role::Ephemeral
}

fn resources(spec: &Value) -> Option<&Value> {
    spec.get("resources")
}

/// What the status says a container was given.
fn said<'a>(pod: &Pod<'a>, container: &Container<'_>) -> Option<&'a Value> {
    let (_, list) = container.role.lists();
    let all = pod.tree.at(&["status", list]).and_then(Value::as_list)?;
    all.iter().find(|status| status.str_at(&["name"]) == Some(container.name))?.get("resources")
}

/// In what can be changed while the pod runs.
fn differs(a: Option<&Value>, b: Option<&Value>) -> bool {
    let of = |value: Option<&Value>, list: &str| value.and_then(|value| value.get(list)).cloned();
    ["requests", "limits"].into_iter().any(|list| !kinds::same(of(a, list).as_ref(), of(b, list).as_ref()))
}

/// Does the container have to be restarted for it? The pod's limit is that of a container without one of its own.
fn needs_restart(pod: &Pod<'_>, container: &Container<'_>) -> bool {
    let Some(said) = said(pod, container) else { return false };
    let wanted = resources(container.spec);
    let wanted_of_pod = pod.tree.at(&["spec", "resources"]);
    let given_of_pod = of_pod(pod, None);
    let given_of_pod = given_of_pod.as_ref().or(wanted_of_pod);
    let policies = container.spec.get("resizePolicy").and_then(Value::as_list).unwrap_or_default();
    policies.iter().filter(|policy| policy.str_at(&["restartPolicy"]) == Some("RestartContainer")).any(
        |policy| {
            let name = policy.str_at(&["resourceName"]).unwrap_or_default();
            let of =
                |value: Option<&Value>, list: &str| value.and_then(|value| value.at(&[list, name])).cloned();
            let limit = |own, of_pod| of(own, "limits").or_else(|| of(of_pod, "limits"));
            let (given, asked) = (limit(Some(said), given_of_pod), limit(wanted, wanted_of_pod));
            let requested = (of(Some(said), "requests"), of(wanted, "requests"));
            !kinds::same(given.as_ref(), asked.as_ref())
                || !kinds::same(requested.0.as_ref(), requested.1.as_ref())
        },
    )
}

impl PodWorker {
    /// Something else is asked for than was given, and `fits` is what the node says to it. Whether it is given.
    pub(super) fn resize(
        &mut self,
        pod: &Pod<'_>,
        fits: Result<(), Rejection>,
        sandbox: &Sandbox,
        now: Millis,
        step: &mut SyncResult,
    ) -> bool {
        let generation = pod.generation;
        match fits {
            Ok(()) => {
                self.resize.pending = None;
                let asked = asked(pod);
                if let Some(admitted) = &mut self.resize.admitted {
                    **admitted = asked.clone();
                }
                if self.resize.given.as_deref() == Some(&asked) {
                    return true;
                }
                self.resize.given = Some(Box::new(asked));
                let runs = |index: usize| {
                    matches!(sandbox.container(index).map(|c| &c.state), Some(State::Running { .. }))
                };
                let all = pod.containers.iter().enumerate();
                let restarts = all.filter(|(index, c)| runs(*index) && needs_restart(pod, c));
                let restarts = restarts.map(|(index, _)| index).collect();
                self.resize.progress = Some(Box::new(Progress { generation, error: None, restarts }));
                if !is_said(pod, super::conditions::RESIZE_IN_PROGRESS, generation) {
                    let told = told(pod, "Pod resize started", generation, "");
                    step.tell(None, Severity::Normal, "ResizeStarted", told);
                }
                true
            }
            Err(Rejection { reason, message }) => {
                let is_new =
                    self.resize.pending.as_ref().is_none_or(|before| before.generation != generation);
                if is_new && !is_said(pod, super::conditions::RESIZE_PENDING, generation) {
                    let told = told(pod, &format!("Pod resize {reason}"), generation, &message);
                    step.tell(None, Severity::Warning, "ResizeDeferred", told);
                }
                self.resize.pending = Some(Box::new(Pending { message, generation }));
                step.wake = super::earlier(step.wake, Some(now + RETRY_MILLIS));
                false
            }
        }
    }

    /// Has the runtime what was given?
    pub(super) fn resize_progress(
        &mut self,
        pod: &Pod<'_>,
        sandbox: &Sandbox,
        now: Millis,
        step: &mut SyncResult,
    ) {
        let Some(progress) = &mut self.resize.progress else { return };
        let generation = progress.generation;
        if let Some(error) = &sandbox.resize_error {
            if progress.error.as_ref() != Some(error) {
                let told = told(pod, "Pod resize error", generation, error);
                step.tell(None, Severity::Warning, "ResizeError", told);
            }
            progress.error = Some(error.clone());
            step.wake = super::earlier(step.wake, Some(now + FAILED_MILLIS));
            return;
        }
        let is_starting = |state: &State| matches!(state, State::Created | State::Restarting(_));
        let starting = sandbox.containers.iter().flatten().any(|c| is_starting(&c.state));
        if sandbox.resizing || starting || !progress.restarts.is_empty() {
            return;
        }
        self.resize.progress = None;
        let told = told(pod, "Pod resize completed", generation, "");
        step.tell(None, Severity::Normal, "ResizeCompleted", told);
    }
}

/// People know that this one is waited for, or under way.
fn is_said(pod: &Pod<'_>, condition: &str, generation: i64) -> bool {
    let conditions = pod.tree.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    conditions.iter().any(|c| {
        c.str_at(&["type"]) == Some(condition)
            && c.get("observedGeneration").and_then(Value::as_int) == Some(generation)
    })
}

/// What is asked for, in the words of kubelet's events.
fn told(pod: &Pod<'_>, what: &str, generation: i64, error: &str) -> String {
    let mut summary = Map::with_capacity(4);
    for (list, init) in [("initContainers", true), ("containers", false)] {
        let of = pod.containers.iter().filter(|c| is_resizable(c) && c.role.is_init() == init);
        let entries: Vec<Value> = of
            .map(|container| {
                let mut entry = Map::with_capacity(2);
                entry.set("name", container.name);
                entry.set("resources", resources(container.spec).cloned().unwrap_or_else(Value::map));
                Value::Map(entry)
            })
            .collect();
        if !entries.is_empty() {
            summary.set(list, Value::List(entries));
        }
    }
    summary.set("generation", Value::Int(generation));
    if !error.is_empty() {
        summary.set("error", error);
    }
    format!("{what}: {}", String::from_utf8_lossy(&codec::json::to_vec(&Value::Map(summary))))
}
