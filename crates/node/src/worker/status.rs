//! A pod's status as kubelet writes it, from what runs; `None` when the API has it already.

use std::borrow::Cow;
use std::collections::BTreeMap;

use object::{Map, Value, time};

use crate::admit::Rejection;
use crate::allocation;
use crate::container_runtime::{
    Container as State, Evicted, Exit, HOOK_FAILED, LinuxUser, Millis, Sandbox, StartError,
};
use crate::pod::{Container, Pod, Role, resources};
use crate::worker::backoff::{BackOff, StartBackOff};
use crate::worker::conditions;
use crate::worker::devices::{ClaimDevices, allocated_status};
use crate::worker::forgotten;
use crate::worker::resize::Resize;
use crate::worker::restart_all::{self, RestartAll};

const CRASH_LOOP: &str = "CrashLoopBackOff";
pub const DEADLINE_REASON: &str = "DeadlineExceeded";
pub const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// What the containers of a pod left behind may have so many bytes, each an equal share.
const MOST_MESSAGE_BYTES: usize = 12 << 10;

/// What the machine is to the pod.
pub struct Host<'a> {
    /// The primary first, then that of the other family.
    pub ips: &'a [String],
    /// Mounts can be read-only with all that is mounted below them.
    pub recursive_read_only: bool,
    /// Why the pod cannot start yet: a device it claims is not there.
    pub unprepared: Option<&'a str>,
    /// If it asks for something else than it was given, it is its turn to get that.
    pub may_resize: bool,
}

/// All a status is made of.
pub struct View<'a> {
    pub pod: &'a Pod<'a>,
    pub host: &'a Host<'a>,
    pub sandbox: &'a Sandbox,
    /// By the runtime, or for another pod's sake.
    pub evicted: Option<&'a Evicted>,
    pub backoffs: &'a [BackOff],
    pub failures: &'a BTreeMap<usize, StartBackOff>,
    pub restart_all: &'a RestartAll,
    pub resize: &'a Resize,
    pub devices: &'a [ClaimDevices],
    /// Nothing will be started again.
    pub terminal: bool,
    pub now: Millis,
}

/// A container as people are shown it.
pub struct ContainerStatus {
    pub state: ContainerState,
    pub last: Option<Exit>,
    pub started: bool,
    pub ready: bool,
    pub restarts: u32,
    pub id: String,
    pub image_id: String,
    /// Empty: as the pod has it.
    pub image: String,
    pub user: Option<Box<LinuxUser>>,
}

pub enum ContainerState {
    Waiting {
        reason: Cow<'static, str>,
        message: String,
    },
    Running {
        since: Millis,
    },
    Ended(Exit),
    /// It should have run, and nobody knows what became of it.
    Lost,
}

/// What is said of a container that should have run.
pub const LOST: &str = "The container could not be located when the pod was terminated";

pub fn changed(view: &View<'_>) -> Option<Value> {
    let pod = view.pod;
    let shown: Vec<ContainerStatus> = (0..pod.containers.len()).map(|index| show(view, index)).collect();
    // Told when nothing runs any more: what takes the pod's place may count on that.
    let late = view.terminal && deadline_passed(pod, view.now);
    let evicted = view.evicted.filter(|_| view.terminal && !pod.is_over());
    let natural = phase(view, &shown);
    let phase = match natural {
        // What is over never comes back, whatever runs.
        _ if pod.is_over() => pod.phase,
        _ if late || evicted.is_some() => "Failed",
        "Pending" | "Running" | "Unknown" if view.terminal => "Failed",
        phase => phase,
    };
    let mut status = old_status(pod);
    let map = status.make_map();
    // Reason and message belong to a phase: of the same phase they stay.
    if phase != pod.phase {
        map.remove("reason");
        map.remove("message");
    }
    if late && !pod.is_over() {
        map.set("reason", DEADLINE_REASON);
        map.set("message", DEADLINE_MESSAGE);
    }
    if let Some(evicted) = evicted {
        map.set("reason", &*evicted.reason);
        map.set("message", &*evicted.message);
    }
    map.set("phase", phase);
    if pod.generation > 0 {
        map.set("observedGeneration", Value::Int(pod.generation));
    }
    if let Some(first) = view.host.ips.first() {
        map.set("hostIP", &**first);
        map.set("hostIPs", addresses(view.host.ips));
    }
    let ips = if pod.host_network { view.host.ips } else { &*view.sandbox.ips };
    if let Some(first) = ips.first() {
        map.set("podIP", &**first);
        map.set("podIPs", addresses(ips));
    }
    if pod.started.is_none() {
        map.set("startTime", time::format_seconds(view.now / 1000));
    }
    let of = |role: Role| {
        let (_, list) = role.lists();
        let mine = pod.containers.iter().zip(&shown).filter(|(c, _)| c.role.lists().1 == list);
        let status = |(c, s): (&Container<'_>, &ContainerStatus)| {
            let mut status = container_status(view, c, s);
            if let Some(shown) = view.resize.shown(pod, Some(c)).filter(|_| status.get("resources").is_some())
            {
                status.make_map().set("resources", shown.clone());
            }
            if let Some(devices) = device_status(view, c) {
                status.make_map().set("allocatedResourcesStatus", devices);
            }
            status
        };
        let mut all: Vec<(&str, Value)> = mine.map(|of| (of.0.name, status(of))).collect();
        if !role.is_init() {
            // Kubelet sorts these by name, and keeps init containers in their order.
            all.sort_by_key(|(name, _)| *name);
        }
        (list, Value::List(all.into_iter().map(|(_, status)| status).collect()))
    };
    for role in [Role::Main, Role::Init, Role::Ephemeral] {
        let (list, statuses) = of(role);
        if role == Role::Main || statuses.as_list().is_some_and(|list| !list.is_empty()) {
            map.set(list, statuses);
        }
    }
    let (resources, allocated) = resources::of_status(pod.tree);
    map.set("resources", view.resize.shown(pod, None).cloned().unwrap_or(Value::Map(resources)));
    match allocated.is_empty() {
        true => drop(map.remove("allocatedResources")),
        false => map.set("allocatedResources", allocated),
    }
    // In kubelet, a pod that never came to run fails after its conditions were made.
    let is_lost = |shown: &ContainerStatus| matches!(shown.state, ContainerState::Lost);
    let was_pending = view.terminal && natural == "Pending" && !late && !pod.is_over();
    let of_conditions = if was_pending || shown.iter().any(is_lost) { "Pending" } else { phase };
    conditions::set(map, view, &shown, of_conditions);
    if let Some(message) = evicted.and_then(|evicted| evicted.disruption.as_deref()) {
        conditions::set_disrupted(map, view, message);
    }
    differs(pod, status)
}

/// Of a pod the node does not take.
pub fn rejected(pod: &Pod<'_>, rejection: &Rejection, now: Millis) -> Option<Value> {
    if pod.is_over() {
        return None;
    }
    let mut status = old_status(pod);
    let map = status.make_map();
    map.set("phase", "Failed");
    map.set("reason", rejection.reason.clone());
    map.set("message", format!("Pod was rejected: {}", rejection.message));
    map.set("startTime", time::format_seconds(now / 1000));
    if pod.generation > 0 {
        map.set("observedGeneration", Value::Int(pod.generation));
    }
    differs(pod, status)
}

/// The pod had its time. Whole seconds, as its start is known in.
pub fn deadline_passed(pod: &Pod<'_>, now: Millis) -> bool {
    let Some((seconds, started)) = pod.active_deadline_seconds.zip(pod.started) else { return false };
    now / 1000 - started >= seconds
}

fn old_status(pod: &Pod<'_>) -> Value {
    pod.tree.get("status").cloned().unwrap_or_else(Value::map)
}

fn differs(pod: &Pod<'_>, status: Value) -> Option<Value> {
    (!kinds::same(pod.tree.get("status"), Some(&status))).then_some(status)
}

fn addresses(ips: &[String]) -> Value {
    let entry = |ip: &String| {
        let mut entry = Map::default();
        entry.set("ip", &**ip);
        Value::Map(entry)
    };
    Value::List(ips.iter().map(entry).collect())
}

fn show(view: &View<'_>, index: usize) -> ContainerStatus {
    let (pod, container) = (view.pod, &view.pod.containers[index]);
    let waiting = if pod.has_init_containers() { "PodInitializing" } else { "ContainerCreating" };
    let failure = view.failures.get(&index);
    let creating = || match (view.terminal, container.role) {
        // One that was never to start, because an init container failed, still waits.
        (true, Role::Main) if was_initialized(view) => ContainerState::Lost,
        // Of these, all that came before one that ran were to run, and the first one always.
        (true, Role::Init | Role::Sidecar) if was_begun(view, index) => ContainerState::Lost,
        _ if let Some(failure) = failure => failed(failure, view.now),
        _ => ContainerState::Waiting { reason: Cow::Borrowed(waiting), message: String::new() },
    };
    let restarting_all = || ContainerState::Waiting {
        reason: Cow::Borrowed(restart_all::REASON),
        message: restart_all::MESSAGE.to_owned(),
    };
    let first = view.restart_all.first(pod, index);
    let Some(there) = view.sandbox.container(index) else {
        let last = if first > 0 { view.restart_all.last(pod, index, first) } else { None };
        let state = match &last {
            Some(_) if failure.is_none() && !view.terminal => restarting_all(),
            _ => creating(),
        };
        return ContainerStatus {
            state,
            last,
            started: false,
            ready: false,
            restarts: first,
            id: String::new(),
            image_id: String::new(),
            image: String::new(),
            user: None,
        };
    };
    let restarts = forgotten::shown_restarts(pod, index, there).max(first);
    let before = view.restart_all.last(pod, index, restarts).or_else(|| there.last.clone());
    let before = before.or_else(|| forgotten::last(pod, index, there));
    let (mut last, mut started, mut ready) = (before, false, false);
    let is_of_all =
        |last: &Option<Exit>| last.as_ref().is_some_and(|exit| exit.reason == restart_all::REASON);
    let state = match &there.state {
        State::Created | State::Restarting(_) if is_of_all(&last) && failure.is_none() && !view.terminal => {
            restarting_all()
        }
        // What people were told of it holds until it runs again.
        State::Restarting(exit) => match waits_still(view, index, exit) {
            Some(state) => {
                last = Some(exit.clone());
                state
            }
            None => ContainerState::Ended(exit.clone()),
        },
        State::Created | State::Failed(_) | State::Interrupted { .. } => match (&there.last, view.terminal) {
            // Not to be started again: what counts is how it ended.
            (Some(exit), true) => {
                last = None;
                ContainerState::Ended(exit.clone())
            }
            _ => creating(),
        },
        State::Running { since, started: is_started, ready: is_ready } => {
            started = *is_started;
            ready = *is_ready && matches!(container.role, Role::Main | Role::Sidecar);
            ContainerState::Running { since: *since }
        }
        State::Exited(exit) if forgotten::waits(pod, index, there) => {
            last = Some(exit.clone());
            if view.terminal { ContainerState::Lost } else { creating() }
        }
        State::Exited(exit) => {
            ready = container.role == Role::Init && exit.code == 0;
            let waits = crash_loop(view, index, exit).or_else(|| hook_failed(view, index, exit));
            match waits {
                Some(state) => {
                    last = Some(exit.clone());
                    state
                }
                None => ContainerState::Ended(exit.clone()),
            }
        }
    };
    let (id, image_id, image) = (there.id.clone(), there.image_id.clone(), there.image.clone());
    let user = there.user.clone();
    ContainerStatus { state, last, started, ready, restarts, id, image_id, image, user }
}

/// It could not be started.
fn failed(failure: &StartBackOff, now: Millis) -> ContainerState {
    let StartError { reason, message, .. } = &failure.error;
    if !failure.is_pull_back_off(now) {
        return ContainerState::Waiting { reason: reason.clone(), message: message.clone() };
    }
    let message =
        format!("Back-off pulling image {}: {reason}: {message}", object::quote(failure.missing_image()));
    ContainerState::Waiting { reason: Cow::Borrowed("ImagePullBackOff"), message }
}

/// Of one whose successor is on its way: that it waits, as people were told or because its hook failed.
fn waits_still(view: &View<'_>, index: usize, exit: &Exit) -> Option<ContainerState> {
    if view.terminal {
        return None;
    }
    hook_failed(view, index, exit).or_else(|| waiting_said(view.pod, &view.pod.containers[index]))
}

/// That the container waits, and why, as the API has it: because it keeps ending.
fn waiting_said(pod: &Pod<'_>, container: &Container<'_>) -> Option<ContainerState> {
    let waiting = allocation::container_status(pod, container)?.at(&["state", "waiting"])?;
    let reason = [CRASH_LOOP, HOOK_FAILED].into_iter().find(|r| waiting.str_at(&["reason"]) == Some(r))?;
    let message = waiting.str_at(&["message"]).unwrap_or_default().to_owned();
    Some(ContainerState::Waiting { reason: Cow::Borrowed(reason), message })
}

/// Ended because the hook after its start failed, and to be started again.
fn hook_failed(view: &View<'_>, index: usize, exit: &Exit) -> Option<ContainerState> {
    let error = view.sandbox.container(index)?.hook_error.as_ref()?;
    let goes_on = !view.terminal && view.pod.deletion.is_none();
    let waits = goes_on && view.pod.restarts(&view.pod.containers[index], exit.code);
    waits.then(|| ContainerState::Waiting { reason: error.reason.clone(), message: error.message.clone() })
}

/// Did it ever come to the containers proper?
fn was_initialized(view: &View<'_>) -> bool {
    let all = || view.pod.containers.iter().enumerate();
    let begun = |index: usize| {
        let there = view.sandbox.container(index);
        let ran =
            |state: &State| matches!(state, State::Running { .. } | State::Exited(_) | State::Restarting(_));
        there.is_some_and(|c| c.last.is_some() || ran(&c.state))
    };
    let succeeded = |index: usize| {
        let there = view.sandbox.container(index).map(|c| &c.state);
        matches!(there, Some(State::Exited(exit)) if exit.code == 0)
    };
    let last_init = all().rfind(|(_, c)| c.role.is_init());
    all().any(|(index, c)| c.role == Role::Main && begun(index))
        || last_init.is_none_or(|(index, _)| succeeded(index))
}

/// Of init containers: did it ever come to this one?
fn was_begun(view: &View<'_>, index: usize) -> bool {
    let ran = |index: usize| {
        let there = view.sandbox.container(index);
        there.is_some_and(|c| {
            c.last.is_some()
                || matches!(c.state, State::Running { .. } | State::Exited(_) | State::Restarting(_))
        })
    };
    let inits = || view.pod.containers.iter().enumerate().filter(|(_, c)| c.role.is_init());
    let last = inits().map(|(index, _)| index).filter(|index| ran(*index)).max();
    index <= last.or(inits().map(|(index, _)| index).next()).unwrap_or(0)
}

/// Ended, and waiting to be started again.
fn crash_loop(view: &View<'_>, index: usize, exit: &Exit) -> Option<ContainerState> {
    if view.terminal || view.pod.deletion.is_some() {
        return None;
    }
    let backoff = view.backoffs.get(index)?;
    backoff.waits_until(backoff.begins(view.sandbox.container(index)?)?, view.now)?;
    let container = &view.pod.containers[index];
    if !view.pod.restarts(container, exit.code) && !view.sandbox.starts_again.contains(&index) {
        return None;
    }
    let wait = time::format_duration(backoff.millis() * 1_000_000);
    let message = format!(
        "back-off {wait} restarting failed container={} pod={}",
        container.name,
        view.pod.described()
    );
    Some(ContainerState::Waiting { reason: Cow::Borrowed(CRASH_LOOP), message })
}

/// Upstream's rules, container by container.
fn phase(view: &View<'_>, shown: &[ContainerStatus]) -> &'static str {
    let pod = view.pod;
    let (mut pending_init, mut pending_sidecars) = (0, 0);
    let (mut running, mut waiting, mut stopped, mut for_good, mut succeeded) = (0, 0, 0, 0, 0);
    let there = |index: usize| view.sandbox.container(index);
    for (index, (container, shown)) in pod.containers.iter().zip(shown).enumerate() {
        let ended = match &shown.state {
            ContainerState::Ended(exit) => Some(exit.code),
            ContainerState::Lost => Some(137),
            ContainerState::Waiting { .. } => shown.last.as_ref().map(|exit| exit.code),
            ContainerState::Running { .. } => None,
        };
        // What was ended for all to be restarted is.
        let again = |code: i32| {
            let of_all = |exit: &Exit| exit.reason == restart_all::REASON;
            let is_coming = matches!(there(index).map(|c| &c.state), Some(State::Restarting(_)));
            pod.restarts(container, code)
                || view.sandbox.starts_again.contains(&index)
                || is_coming
                || shown.last.as_ref().is_some_and(of_all)
        };
        let is_running = matches!(shown.state, ContainerState::Running { .. });
        let is_started =
            || !matches!(there(index).map(|c| &c.state), Some(State::Running { started: false, .. }));
        match container.role {
            Role::Init => match ended {
                None => pending_init += 1,
                Some(0) => {}
                Some(code) if !again(code) => return "Failed",
                Some(_) => {}
            },
            Role::Sidecar => match ended {
                _ if is_running => {
                    pending_sidecars += usize::from(!is_started());
                    running += 1;
                }
                Some(_) => {}
                None => {
                    pending_sidecars += 1;
                    waiting += 1;
                }
            },
            Role::Ephemeral => {}
            Role::Main => match ended {
                _ if is_running => running += 1,
                None => waiting += 1,
                Some(code) => {
                    stopped += 1;
                    for_good += usize::from(!again(code));
                    // Only the present run counts: one that waits to be restarted has not succeeded.
                    succeeded += usize::from(code == 0 && matches!(shown.state, ContainerState::Ended(_)));
                }
            },
        }
    }
    // In this sandbox: in another one, it all begins anew.
    let has_begun = pod.containers.iter().enumerate().any(|(index, container)| {
        let ran = there(index).is_some_and(|c| !c.id.is_empty());
        container.role == Role::Main && ran && !view.sandbox.outlived.contains(&index)
    });
    if pending_init > 0 || pending_sidecars > 0 && !has_begun || waiting > 0 {
        return "Pending";
    }
    if running > 0 {
        return "Running";
    }
    if stopped == 0 {
        return "Pending";
    }
    if !view.terminal && stopped != for_good {
        return "Running";
    }
    if stopped == succeeded { "Succeeded" } else { "Failed" }
}

/// What was said before stays where this process does not know the devices.
fn device_status(view: &View<'_>, container: &Container<'_>) -> Option<Value> {
    if container.role != Role::Main || container.spec.at(&["resources", "claims"]).is_none() {
        return None;
    }
    if !view.devices.is_empty() {
        return allocated_status(container, view.devices);
    }
    allocation::container_status(view.pod, container)?.get("allocatedResourcesStatus").cloned()
}

fn container_status(view: &View<'_>, container: &Container<'_>, shown: &ContainerStatus) -> Value {
    let most_message_bytes = MOST_MESSAGE_BYTES / view.pod.containers.len().max(1);
    let mut status = Map::with_capacity(13);
    status.set("name", container.name);
    let mut state = Map::with_capacity(1);
    match &shown.state {
        ContainerState::Waiting { reason, message } => {
            let mut waiting = Map::with_capacity(2);
            waiting.set("reason", &**reason);
            if !message.is_empty() {
                waiting.set("message", message.clone());
            }
            state.set("waiting", waiting);
        }
        ContainerState::Running { since } => {
            let mut running = Map::with_capacity(1);
            running.set("startedAt", time::format_seconds(since / 1000));
            state.set("running", running);
        }
        ContainerState::Ended(exit) => state.set("terminated", ended(exit, most_message_bytes)),
        ContainerState::Lost => {
            let mut terminated = Map::with_capacity(5);
            terminated.set("exitCode", Value::Int(137));
            terminated.set("reason", "ContainerStatusUnknown");
            terminated.set("message", LOST);
            terminated.set("startedAt", Value::Null);
            terminated.set("finishedAt", Value::Null);
            state.set("terminated", terminated);
        }
    }
    status.set("state", state);
    let mut last = Map::default();
    if let Some(exit) = &shown.last {
        last.set("terminated", ended(exit, most_message_bytes));
    }
    status.set("lastState", last);
    status.set("ready", shown.ready);
    status.set("restartCount", Value::Int(i64::from(shown.restarts)));
    status.set("image", if shown.image.is_empty() { container.image } else { &*shown.image });
    status.set("imageID", &*shown.image_id);
    if !shown.id.is_empty() {
        status.set("containerID", &*shown.id);
    }
    // Nothing says when one of these has started.
    if container.role != Role::Ephemeral {
        status.set("started", shown.started);
    }
    if !shown.id.is_empty() {
        let resources = container.spec.get("resources").cloned().unwrap_or_else(Value::map);
        if let Some(requests) = resources.get("requests") {
            status.set("allocatedResources", requests.clone());
        }
        status.set("resources", resources);
    }
    let mounts = container.spec.get("volumeMounts").and_then(Value::as_list).unwrap_or_default();
    let mount = |mount: &Value| mount_status(mount, view.host.recursive_read_only);
    if !mounts.is_empty() {
        status.set("volumeMounts", Value::List(mounts.iter().map(mount).collect()));
    }
    if let Some(user) = &shown.user {
        let mut of = Map::with_capacity(1);
        of.set("linux", linux_user(user));
        status.set("user", of);
    }
    Value::Map(status)
}

fn mount_status(mount: &Value, recursive_read_only: bool) -> Value {
    let mut status = Map::with_capacity(4);
    for name in ["name", "mountPath"] {
        if let Some(value) = mount.get(name) {
            status.set(name, value.clone());
        }
    }
    if mount.get("readOnly").and_then(Value::as_bool) == Some(true) {
        status.set("readOnly", true);
        let is_asked_for = matches!(mount.str_at(&["recursiveReadOnly"]), Some("Enabled" | "IfPossible"));
        let is_alone = matches!(mount.str_at(&["mountPropagation"]), None | Some("None"));
        let recursive = is_asked_for && is_alone && recursive_read_only;
        status.set("recursiveReadOnly", if recursive { "Enabled" } else { "Disabled" });
    }
    Value::Map(status)
}

fn linux_user(user: &LinuxUser) -> Map {
    let mut linux = Map::with_capacity(3);
    linux.set("uid", Value::Int(user.uid));
    linux.set("gid", Value::Int(user.gid));
    if !user.supplemental_groups.is_empty() {
        let groups = user.supplemental_groups.iter().map(|group| Value::Int(*group));
        linux.set("supplementalGroups", Value::List(groups.collect()));
    }
    linux
}

fn ended(exit: &Exit, most_message_bytes: usize) -> Map {
    let mut terminated = Map::with_capacity(5);
    terminated.set("exitCode", Value::Int(i64::from(exit.code)));
    if exit.signal != 0 {
        terminated.set("signal", Value::Int(i64::from(exit.signal)));
    }
    terminated.set("reason", &*exit.reason);
    if !exit.message.is_empty() {
        let end = exit.message.floor_char_boundary(most_message_bytes);
        terminated.set("message", &exit.message[..end]);
    }
    if exit.id.is_empty() {
        // Nobody knows which run it was.
        terminated.set("startedAt", Value::Null);
        terminated.set("finishedAt", Value::Null);
        return terminated;
    }
    terminated.set("startedAt", time::format_seconds(exit.started / 1000));
    terminated.set("finishedAt", time::format_seconds(exit.finished / 1000));
    terminated.set("containerID", &*exit.id);
    terminated
}
