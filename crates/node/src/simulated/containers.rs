//! A runtime without containers: what runs is a matter of the clock.
//!
//! A container is four times and a code, so 150,000 pods are a few dozen megabytes and cost nothing while they run.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Ipv4Addr;

use env::Env;
use object::{Value, time};
use runtime::Severity;

use super::addresses::Addresses;
use super::behaviour::{Behaviour, Unready};
use super::command::{self, End, MOUNT, Run, World};
use crate::container_runtime::{
    Container, Exit, Health, Held, Millis, PodEvent, Running, Runtime, Sandbox, StartError, Wake,
};
use crate::pod::{self, Pod, Restart, Role, short_uid};

/// How long a command that nobody knows runs in a pod that is to end.
const COMPLETE_MILLIS: Millis = 1000;

/// Later than anything.
const NEVER: Millis = Millis::MAX;

/// The runtime of one simulated node.
pub struct Containers {
    env: Env,
    addresses: Addresses,
    /// Looked up by uid only.
    pods: HashMap<u128, Simulated>,
    node: Behaviour,
    /// What happened since people were last told, by pod.
    events: HashMap<u128, Vec<PodEvent>>,
    /// What scripts touched: of a pod under its uid, on the host by path.
    files: BTreeSet<String>,
}

struct Simulated {
    /// None: a pod on the host's network, or no address was left.
    address: Option<Ipv4Addr>,
    containers: Vec<Option<Course>>,
    /// Of containers whose image could not be pulled, by their place.
    failures: BTreeMap<usize, StartError>,
}

/// The course of a container's run.
struct Course {
    /// A hash of the image's name: all that may change while it runs.
    image: u64,
    attempt: u32,
    code: i32,
    starts: Millis,
    ready: Millis,
    ends: Millis,
    /// Told to stop before it was over.
    stopped: bool,
    /// What it makes of that itself.
    on_term: Option<Box<End>>,
    /// The run before: started, finished, code.
    last: Option<Box<(Millis, Millis, i32)>>,
}

impl Containers {
    pub fn new(env: Env, addresses: Addresses) -> Containers {
        let (pods, events, files) = (HashMap::new(), HashMap::new(), BTreeSet::new());
        Containers { env, addresses, pods, node: Behaviour::default(), events, files }
    }

    fn course(
        &self,
        pod: &Pod<'_>,
        index: usize,
        attempt: u32,
        starts: Millis,
        files: &mut BTreeSet<String>,
    ) -> Course {
        let container = &pod.containers[index];
        let own = Behaviour::read(pod.annotations());
        let place = |path: &str| place(pod, container, attempt, path);
        let variable = |name: &str| variable(pod, container, name);
        let Run { end, on_term } = command::run_of(container.spec, &mut World::new(&variable, &place, files));
        let by_command = || end;
        let mut end = match container.role {
            // An image nobody knows is no reason to hold up a pod for ever.
            Role::Init => Some(by_command().unwrap_or(End { after_millis: 0, code: 0 })),
            Role::Sidecar | Role::Ephemeral => by_command(),
            Role::Main => own.end_of(container.name).or_else(by_command).or_else(|| {
                // A pod that is to end does so.
                let ends = pod.restart != Restart::Always && !command::serves(container.spec);
                let after_millis =
                    own.complete_millis.or(self.node.complete_millis).unwrap_or(COMPLETE_MILLIS);
                ends.then_some(End { after_millis, code: 0 })
            }),
        };
        let probability = self.node.failure_probability;
        if probability > 0.0 && (self.env.random_below(1 << 32) as f64) < probability * (1u64 << 32) as f64 {
            end = Some(End { after_millis: 0, code: 1 });
        }
        let wait = own.ready_millis.or(self.node.ready_millis).unwrap_or_else(|| probe_delay(container));
        Course {
            image: hash(container.image),
            attempt,
            code: end.map_or(0, |end| end.code),
            starts,
            ready: starts.saturating_add(wait),
            ends: end.map_or(NEVER, |end| starts.saturating_add(end.after_millis)),
            stopped: false,
            on_term: on_term.map(Box::new),
            last: None,
        }
    }
}

impl Runtime for Containers {
    /// Everything happens at times that are known before.
    fn wake_by(&mut self, _: Wake) {}

    /// Nothing outlives the process.
    fn list(&self) -> Vec<Held> {
        Vec::new()
    }

    fn take_events(&mut self, uid: u128) -> Vec<PodEvent> {
        self.events.remove(&uid).unwrap_or_default()
    }

    fn node_changed(&mut self, node: &Value) -> Health {
        self.node = Behaviour::read(node.at(&["metadata", "annotations"]));
        self.node.health()
    }

    /// Nothing outlives the process but what the API remembers: that is taken for what runs.
    fn recover(&mut self, pod: &Pod<'_>) {
        let uid = short_uid(pod.uid);
        if self.pods.contains_key(&uid) || pod.is_over() {
            return;
        }
        let said = pod.tree.str_at(&["status", "podIP"]).and_then(|ip| ip.parse().ok());
        let address = if pod.host_network {
            None
        } else {
            said.filter(|ip| self.addresses.claim(*ip)).or_else(|| self.addresses.take())
        };
        let containers = (0..pod.containers.len()).map(|index| self.recovered(pod, index)).collect();
        self.pods.insert(uid, Simulated { address, containers, failures: BTreeMap::new() });
    }

    fn look(&mut self, pod: &Pod<'_>, now: Millis) -> Option<Sandbox> {
        let there = self.pods.get(&short_uid(pod.uid))?;
        let mut next = None;
        let unready = Unready::read(pod.annotations());
        let containers = there.containers.iter().enumerate();
        let containers = containers.map(|(index, course)| {
            if let Some(error) = there.failures.get(&index) {
                return Some(failed(pod, index, course.as_ref(), error, now));
            }
            let course = course.as_ref()?;
            let coming = [course.starts, course.ready, course.ends];
            let coming = coming.into_iter().filter(|at| *at > now && *at <= course.ends && *at != NEVER);
            next = coming.chain(next).min();
            let mut seen = course.seen(pod, index, now);
            if let Container::Running { ready, .. } = &mut seen.state {
                *ready &= !unready.contains(pod.containers[index].name);
            }
            Some(seen)
        });
        let containers = containers.collect();
        let ips = there.address.map(|ip| ip.to_string()).into_iter().collect();
        Some(Sandbox { ready: true, ips, containers, next, ..Sandbox::default() })
    }

    fn create(&mut self, pod: &Pod<'_>, _: Millis) {
        let address = if pod.host_network { None } else { self.addresses.take() };
        let containers = pod.containers.iter().map(|_| None).collect();
        let failures = BTreeMap::new();
        self.pods.insert(short_uid(pod.uid), Simulated { address, containers, failures });
    }

    fn start(&mut self, pod: &Pod<'_>, container: usize, attempt: u32, now: Millis) {
        let uid = short_uid(pod.uid);
        let own = Behaviour::read(pod.annotations());
        let pulled = pull(pod, container, &own);
        let said = match &pulled {
            Ok(()) => started(pod, container),
            Err(why) => not_pulled(pod, container, why),
        };
        self.events.entry(uid).or_default().extend(said);
        let wait = own.start_millis.or(self.node.start_millis).unwrap_or(0);
        let mut files = std::mem::take(&mut self.files);
        let mut course = self.course(pod, container, attempt, now.saturating_add(wait), &mut files);
        self.files = files;
        let Some(there) = self.pods.get_mut(&uid) else { return };
        if there.containers.len() <= container {
            // It came to a pod that was there.
            there.containers.resize_with(container + 1, || None);
        }
        let slot = &mut there.containers[container];
        if let Err(message) = pulled {
            if let Some(before) = slot.as_mut().filter(|before| now < before.ends) {
                // What it is to be replaced by is not there, but it is not wanted any more.
                (before.ends, before.code, before.stopped) = (now, 0, true);
            }
            let error =
                StartError { reason: Cow::Borrowed("ErrImagePull"), message, at: now, volume_image: None };
            there.failures.insert(container, error);
            return;
        }
        there.failures.remove(&container);
        course.last = slot.take().map(|before| Box::new((before.starts, before.ends.min(now), before.code)));
        *slot = Some(course);
    }

    fn kill(&mut self, pod: &Pod<'_>, container: usize, now: Millis) {
        let Some(there) = self.pods.get_mut(&short_uid(pod.uid)) else { return };
        let Some(slot) = there.containers.get_mut(container) else { return };
        match slot {
            Some(course) if course.starts > now => *slot = None,
            Some(course) if course.ends > now => {
                (course.ends, course.code, course.stopped) = (now, 137, true);
            }
            _ => {}
        }
    }

    fn stop(&mut self, pod: &Pod<'_>, grace_seconds: i64, now: Millis) {
        let own = Behaviour::read(pod.annotations());
        let told = own.stop_millis.or(self.node.stop_millis);
        let grace = grace_seconds.max(0).saturating_mul(1000);
        let Some(there) = self.pods.get_mut(&short_uid(pod.uid)) else { return };
        for (index, slot) in there.containers.iter_mut().enumerate() {
            let Some(course) = slot else { continue };
            there.failures.remove(&index);
            if course.starts > now {
                // It never came to be.
                *slot = None;
                continue;
            }
            let trap = course.on_term.as_ref().filter(|_| !course.stopped);
            let wanted = told.unwrap_or_else(|| trap.map_or(0, |end| end.after_millis));
            let wanted = wanted.saturating_add(pre_stop_millis(&pod.containers[index]));
            let stops = now.saturating_add(wanted.min(grace));
            if stops < course.ends {
                // A server stops well when it is asked to; work that was to end by itself did not get there.
                let code = match course.ends {
                    _ if wanted > grace => 137,
                    _ if trap.is_some() => trap.map_or(0, |end| end.code),
                    NEVER => 0,
                    _ if course.stopped => course.code,
                    _ => 143,
                };
                (course.ends, course.code, course.stopped) = (stops, code, true);
            }
        }
    }

    /// What the API remembers is enough.
    fn release(&mut self, uid: u128) -> bool {
        self.remove(uid);
        true
    }

    fn remove(&mut self, uid: u128) {
        self.events.remove(&uid);
        if let Some(Simulated { address: Some(address), .. }) = self.pods.remove(&uid) {
            self.addresses.give_back(address);
        }
        let own = format!("{uid:x}/");
        let theirs = self.files.range(own.clone()..).take_while(|file| file.starts_with(&own));
        for file in theirs.cloned().collect::<Vec<_>>() {
            self.files.remove(&file);
        }
    }
}

/// Images that tests name for not being there, and those of an annotation.
fn pull(pod: &Pod<'_>, container: usize, own: &Behaviour) -> Result<(), String> {
    let pod::Container { name, image, .. } = pod.containers[container];
    let (repository, tag) = image.rsplit_once(':').unwrap_or((image, ""));
    let is_missing = matches!(tag, "404" | "non-existent" | "nonexistent")
        || repository.split('/').any(|part| part == "invalid" || part.starts_with("invalid."));
    if !is_missing && !own.fails_to_pull(name) {
        return Ok(());
    }
    Err(format!(
        "failed to pull and unpack image {image}: failed to resolve reference {image}: {image}: not found",
        image = object::quote(image)
    ))
}

fn started(pod: &Pod<'_>, container: usize) -> [PodEvent; 3] {
    let image = object::quote(pod.containers[container].image);
    let pulled = format!("Container image {image} already present on machine and can be accessed by the pod");
    let told = [
        ("Pulled", pulled),
        ("Created", "Container created".to_owned()),
        ("Started", "Container started".to_owned()),
    ];
    told.map(|(reason, message)| pod_event(container, Severity::Normal, reason, message))
}

fn not_pulled(pod: &Pod<'_>, container: usize, why: &str) -> [PodEvent; 3] {
    let image = object::quote(pod.containers[container].image);
    [
        pod_event(container, Severity::Normal, "Pulling", format!("Pulling image {image}")),
        pod_event(container, Severity::Warning, "Failed", format!("Failed to pull image {image}: {why}")),
        pod_event(container, Severity::Warning, "Failed", "Error: ErrImagePull".to_owned()),
    ]
}

fn pod_event(container: usize, severity: Severity, reason: &str, message: String) -> PodEvent {
    PodEvent { severity, reason: reason.to_owned(), message, container: Some(container) }
}

/// A container whose image is not there, and what is left of the run before.
fn failed(pod: &Pod<'_>, index: usize, before: Option<&Course>, error: &StartError, now: Millis) -> Running {
    let state = Container::Failed(error.clone());
    let Some(before) = before.map(|course| course.seen(pod, index, now)) else {
        return Running {
            id: String::new(),
            image_id: String::new(),
            image: String::new(),
            outdated: false,
            needs_restart: false,
            user: None,
            attempt: 0,
            state,
            last: None,
            replaced: false,
            hook_error: None,
        };
    };
    let last = match before.state {
        Container::Exited(exit) => Some(exit),
        _ => before.last,
    };
    Running { state, last, outdated: false, ..before }
}

impl Containers {
    /// A container as its status tells of it.
    fn recovered(&self, pod: &Pod<'_>, index: usize) -> Option<Course> {
        let container = &pod.containers[index];
        let (_, list) = container.role.lists();
        let all = pod.tree.at(&["status", list]).and_then(Value::as_list).unwrap_or_default();
        let said = all.iter().find(|status| status.str_at(&["name"]) == Some(container.name))?;
        let restarts = said.get("restartCount").and_then(Value::as_int).unwrap_or(0);
        let attempt = u32::try_from(restarts).unwrap_or(0);
        let moment = |path: &[&str]| {
            said.str_at(path)
                .and_then(time::parse)
                .map(|(seconds, nanos)| seconds * 1000 + i64::from(nanos / 1_000_000))
        };
        let ended = |state: &str| {
            let code = said.at(&[state, "terminated", "exitCode"])?.as_int()?;
            let at = |name: &str| moment(&[state, "terminated", name]).unwrap_or(0);
            Some((at("startedAt"), at("finishedAt"), i32::try_from(code).unwrap_or(1)))
        };
        let image = hash(said.str_at(&["image"]).unwrap_or(container.image));
        let over = |(starts, ends, code)| Course {
            image,
            attempt,
            code,
            starts,
            ready: NEVER,
            ends,
            stopped: false,
            on_term: None,
            last: None,
        };
        if let Some(since) = moment(&["state", "running", "startedAt"]) {
            let mut course = self.course(pod, index, attempt, since, &mut BTreeSet::new());
            course.last = ended("lastState").map(Box::new);
            course.image = image;
            return Some(course);
        }
        if let Some(run) = ended("state") {
            let last = ended("lastState").map(Box::new);
            return Some(Course { last, ..over(run) });
        }
        ended("lastState").map(over)
    }
}

impl Course {
    fn seen(&self, pod: &Pod<'_>, index: usize, now: Millis) -> Running {
        let state = if now < self.starts {
            Container::Created
        } else if now < self.ends {
            Container::Running { since: self.starts, started: true, ready: now >= self.ready }
        } else {
            let id = id(pod, index, self.attempt);
            Container::Exited(Exit::new(self.code, self.starts, self.ends, id))
        };
        let last = self.last.as_ref().map(|run| {
            let (started, finished, code) = **run;
            let id = id(pod, index, self.attempt.saturating_sub(1));
            Exit::new(code, started, finished, id)
        });
        let image = pod.containers[index].image;
        Running {
            id: id(pod, index, self.attempt),
            image_id: format!("simulated/{image}"),
            image: String::new(),
            outdated: self.image != hash(image),
            needs_restart: false,
            user: None,
            attempt: self.attempt,
            state,
            last,
            replaced: false,
            hook_error: None,
        }
    }
}

/// The same in every run of the program: `DefaultHasher::new` has no secret.
fn hash(image: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    image.hash(&mut hasher);
    hasher.finish()
}

/// Made from what is known, so that nothing has to be kept.
fn id(pod: &Pod<'_>, index: usize, attempt: u32) -> String {
    format!("simulated://{}-{index}-{attempt}", pod.uid)
}

/// Without a word from anybody, a container is ready as soon as it would first be probed.
fn probe_delay(container: &pod::Container<'_>) -> Millis {
    let delay = container.spec.at(&["readinessProbe", "initialDelaySeconds"]).and_then(Value::as_int);
    delay.unwrap_or(0).clamp(0, 86_400) * 1000
}

/// Which file a path means: one of a volume, of the host, or of this very run of the container.
fn place(pod: &Pod<'_>, container: &pod::Container<'_>, attempt: u32, path: &str) -> String {
    let uid = short_uid(pod.uid);
    let mounts = container.spec.get("volumeMounts").and_then(Value::as_list).unwrap_or_default();
    if mounts.iter().any(|mount| mount.str_at(&["mountPath"]) == Some(path)) {
        return format!("{MOUNT}{path}");
    }
    let within = |mount: &Value| {
        let rest = path.strip_prefix(mount.str_at(&["mountPath"])?.trim_end_matches('/'))?;
        rest.starts_with('/').then(|| (rest.to_owned(), mount.str_at(&["name"]).unwrap_or("").to_owned()))
    };
    let Some((rest, volume)) = mounts.iter().filter_map(within).min_by_key(|(rest, _)| rest.len()) else {
        return format!("{uid:x}/container/{}/{attempt}{path}", container.name);
    };
    let volumes = pod.tree.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default();
    let of_host = volumes.iter().find(|v| v.str_at(&["name"]) == Some(volume.as_str()));
    match of_host.and_then(|v| v.str_at(&["hostPath", "path"])) {
        Some(host) => format!("host:{host}{rest}"),
        None => format!("{uid:x}/volume/{volume}{rest}"),
    }
}

/// A variable of the container's environment; empty if there is none, or if it comes from elsewhere.
fn variable(pod: &Pod<'_>, container: &pod::Container<'_>, name: &str) -> String {
    let all = container.spec.get("env").and_then(Value::as_list).unwrap_or_default();
    let Some(variable) = all.iter().find(|v| v.str_at(&["name"]) == Some(name)) else { return String::new() };
    if let Some(value) = variable.str_at(&["value"]) {
        return value.to_owned();
    }
    let field = variable.str_at(&["valueFrom", "fieldRef", "fieldPath"]).unwrap_or("");
    let keyed = |map: &str| {
        let key =
            field.strip_prefix("metadata.")?.strip_prefix(map)?.strip_prefix("['")?.strip_suffix("']")?;
        pod.tree.at(&["metadata", map])?.str_at(&[key])
    };
    let plain = || pod.tree.str_at(&field.split('.').collect::<Vec<_>>());
    keyed("labels").or_else(|| keyed("annotations")).or_else(plain).unwrap_or("").to_owned()
}

/// How long the hook takes that comes before a container is asked to stop.
fn pre_stop_millis(container: &pod::Container<'_>) -> Millis {
    let Some(hook) = container.spec.at(&["lifecycle", "preStop"]) else { return 0 };
    if let Some(seconds) = hook.at(&["sleep", "seconds"]).and_then(Value::as_int) {
        return seconds.max(0).saturating_mul(1000);
    }
    let Some(exec) = hook.get("exec") else { return 0 };
    let (nothing, mut files) = (|_: &str| String::new(), BTreeSet::new());
    let run = command::run_of(exec, &mut World::new(&nothing, &str::to_owned, &mut files));
    run.end.map_or(0, |end| end.after_millis)
}
