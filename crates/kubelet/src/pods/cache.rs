//! What is known of one pod: its sandbox, and of each container the run it is at and the one before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use node::container_runtime::{
    Container, Evicted, Exit, LinuxUser, Millis, PodEvent, Running, Sandbox, StartError,
};
use node::pod::Pod;
use object::Value;
use runtime::Severity;
use tokio::sync::{Notify, watch};

use super::end::Ending;
use super::refresh::Refresh;
use crate::eviction;
use crate::generate::labels::container_hash;
use crate::probes::Probed;
use crate::volumes::MountedVolume;

/// So many events wait to be told: nobody takes them while the node is not to say anything, and probes go on.
const MOST_EVENTS: usize = 256;

pub struct Cache {
    /// The object as it was last seen; null until then.
    pub pod: Arc<Value>,
    pub sandbox: Option<SandboxRef>,
    /// A call to make one failed, and may have made it all the same.
    pub sandbox_unsure: bool,
    /// What the sandbox was made with, as far as this process knows.
    pub sandbox_config: Option<Arc<cri::PodSandboxConfig>>,
    /// What this process mounted, by name.
    pub volumes: Option<Arc<BTreeMap<String, MountedVolume>>>,
    /// By name.
    pub containers: BTreeMap<String, Slot>,
    pub release: Release,
    /// The sandbox is being made, or will be.
    pub creating: bool,
    /// An update waits to be done, which will find whatever changes until then.
    pub update_waits: bool,
    /// When what still runs is ended by force.
    pub stop_by: Option<Millis>,
    /// The node ends the pod.
    pub evicted: Option<Evicted>,
    /// The object changed, and what the pod may use was not set anew yet.
    pub resizing: bool,
    /// Why that failed last.
    pub resize_error: Option<String>,
    /// And until then is not tried again, unless the spec changes.
    pub resize_retry: Millis,
    /// The spec changed, and what the pod as a whole may use was not set anew yet.
    pub resize_group: bool,
    /// Brings its volumes up to date though nothing changed.
    pub refresh: Refresh,
    events: Vec<PendingEvent>,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache {
            pod: Arc::new(Value::Null),
            sandbox: None,
            sandbox_unsure: false,
            sandbox_config: None,
            volumes: None,
            containers: BTreeMap::new(),
            release: Release::No,
            creating: false,
            update_waits: false,
            stop_by: None,
            evicted: None,
            resizing: false,
            resize_error: None,
            resize_retry: 0,
            resize_group: false,
            refresh: Refresh::default(),
            events: Vec::new(),
        }
    }
}

/// To be told; with the name of the container it is about, empty: the pod.
struct PendingEvent {
    container: String,
    severity: Severity,
    reason: String,
    message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxRef {
    pub id: String,
    pub attempt: u32,
    pub ready: bool,
    pub ips: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Release {
    #[default]
    No,
    Asked,
    Done,
}

/// One container of the pod.
#[derive(Default)]
pub struct Slot {
    /// A start was asked for and has not come to an end.
    pub starting: bool,
    /// What the runtime made for it: its end may be heard of before anything else is known of it. Unless that is the latest run, the
    /// runtime has not said yet how it is: nothing is started beside it.
    pub created: Option<String>,
    /// The number of that run.
    created_attempt: u32,
    /// The last run that this process made.
    pub own: Option<String>,
    /// When the start was asked for, this run had begun already, or is ended to make room: any other that has begun is one whose
    /// start seemed to fail.
    begun_before: Option<String>,
    /// The runs that are asked about until the runtime says how they are.
    pub asked_again: BTreeSet<String>,
    /// How the run ended that is not wholly started yet: what people saw running is not told to wait.
    ended_early: Option<Run>,
    /// Told whenever a run may have ended.
    pub news: Arc<Notify>,
    /// A run that somebody follows; dropped, which they hear, once it has ended or is forgotten.
    followed: Option<(String, watch::Sender<bool>)>,
    /// How the last start failed.
    pub error: Option<StartError>,
    /// The latest run that there is anything of.
    pub run: Option<Run>,
    /// The run before that.
    before: Option<Earlier>,
    /// And the one before it.
    before_that: Option<Earlier>,
    /// The latest run was in a sandbox that is gone.
    pub outlived: bool,
    /// It is started in the sandbox that comes next, whatever its policy.
    pub starts_again: bool,
    /// The run that is ended because a probe failed.
    pub replaced: Option<String>,
    /// The run whose end was asked for last.
    pub ending: Option<Ending>,
    /// Why the hook after the last start failed.
    pub hook_error: Option<Box<StartError>>,
    /// What the latest run was last limited to, as far as this process knows.
    pub resources: Option<cri::LinuxContainerResources>,
    /// The run that gets what the pod was given only by a restart.
    pub restart_for: Option<String>,
}

/// A run that has a successor.
#[derive(Debug)]
struct Earlier {
    attempt: u32,
    /// `None`: it is not known to have ended.
    exit: Option<Exit>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub id: String,
    /// Of what the pod asked for: a runtime may know its image by another name.
    pub hash: u64,
    pub image_id: String,
    /// Its name as the runtime has it.
    pub image: String,
    pub user: Option<Box<LinuxUser>>,
    pub attempt: u32,
    pub state: RunState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    Created,
    Running {
        since: Millis,
    },
    /// The runtime cannot tell whether it runs.
    Unknown,
    Exited(Exit),
}

impl RunState {
    /// It only grows.
    fn stage(&self) -> u8 {
        match self {
            RunState::Created => 0,
            RunState::Running { .. } | RunState::Unknown => 1,
            RunState::Exited(_) => 2,
        }
    }
}

impl Run {
    pub fn is_running(&self) -> bool {
        matches!(self.state, RunState::Running { .. })
    }
    /// It runs, or did, for all that is known.
    fn has_begun(&self) -> bool {
        matches!(self.state, RunState::Running { .. } | RunState::Exited(_))
    }
    /// Something of it is there that may have to be ended.
    pub fn may_run(&self) -> bool {
        matches!(self.state, RunState::Running { .. } | RunState::Unknown)
    }
    fn exit(&self) -> Option<&Exit> {
        match &self.state {
            RunState::Exited(exit) => Some(exit),
            _ => None,
        }
    }
}

impl Slot {
    pub fn begin_start(&mut self) {
        (self.starting, self.error, self.outlived, self.starts_again) = (true, None, false, false);
        if !self.is_unsure() {
            self.created = None;
        }
        self.begun_before = self.run.as_ref().filter(|run| run.has_begun()).map(|run| run.id.clone());
    }

    /// The run that has begun since the start was asked for, as the one before it came to something after all.
    pub fn begun_since(&self) -> Option<&str> {
        let run = self.run.as_ref().filter(|run| run.has_begun())?;
        Some(&*run.id).filter(|id| self.begun_before.as_deref() != Some(*id))
    }

    /// The run to be ended before another is made. `Err`: the one before came to something after all, and is to stay.
    pub fn begin_replacing(&mut self) -> Result<Option<String>, String> {
        if let Some(id) = self.begun_since() {
            return Err(id.to_owned());
        }
        let running = self.running().map(str::to_owned);
        if running.is_some() {
            self.begun_before.clone_from(&running);
        }
        Ok(running)
    }

    /// What was made before has ended: the next run may be made.
    pub fn make_room(&mut self) {
        self.created = None;
        if let Some(run) = self.ended_early.take() {
            self.saw(run);
        }
    }

    /// The runtime made a run.
    pub fn made(&mut self, id: String, attempt: u32) {
        self.own = Some(id.clone());
        (self.created, self.created_attempt) = (Some(id), attempt);
    }

    /// Something was made of which the runtime has not said yet how it is.
    fn is_unsure(&self) -> bool {
        self.unsure().is_some()
    }

    pub fn unsure(&self) -> Option<&str> {
        let is_earlier = |run: &Run| run.attempt < self.created_attempt;
        self.created.as_deref().filter(|_| self.run.as_ref().is_none_or(is_earlier))
    }

    /// The latest run, if it was made and never started.
    pub fn unstarted(&self) -> Option<&str> {
        self.run.as_ref().filter(|run| run.state == RunState::Created).map(|run| &*run.id)
    }

    /// What was made runs, or did.
    pub fn has_begun(&self) -> bool {
        let begun = |run: &Run| self.created.as_ref() == Some(&run.id) && run.has_begun();
        self.run.as_ref().is_some_and(begun)
    }

    /// A list shows a run of which the runtime cannot say more yet. How it ended, or whether it was started since, only that would tell.
    pub fn listed(&mut self, run: Run) {
        let is_news = |known: &Run| known.id != run.id && known.attempt <= run.attempt;
        if self.starting
            || self.is_unsure() && self.created_attempt > run.attempt
            || !self.run.as_ref().is_none_or(is_news)
        {
            return;
        }
        match run.state {
            RunState::Running { .. } => self.saw(run),
            _ => (self.created, self.created_attempt) = (Some(run.id), run.attempt),
        }
    }

    pub fn end_start(&mut self) {
        self.starting = false;
        if let Some(run) = self.ended_early.take() {
            self.saw(run);
        }
    }

    /// The run there is anything of is the one that is being started, not one before it.
    fn is_of_start(&self) -> bool {
        self.starting && self.created.is_some() && self.created == self.run.as_ref().map(|run| run.id.clone())
    }

    /// How the run before the latest ended.
    pub fn last(&self) -> Option<&Exit> {
        self.before.as_ref()?.exit.as_ref()
    }

    /// And the one before that.
    fn last_but_one(&self) -> Option<&Exit> {
        self.before_that.as_ref()?.exit.as_ref()
    }

    /// Nobody asks any more how the run of that number ended.
    pub fn is_past(&self, attempt: u32) -> bool {
        self.before.as_ref().is_some_and(|before| {
            attempt < before.attempt || attempt == before.attempt && before.exit.is_some()
        })
    }

    /// The latest run ended, also if that is not to be told yet.
    pub fn has_ended(&self) -> bool {
        self.ended_early.is_some() || self.run.as_ref().is_some_and(|run| run.exit().is_some())
    }

    /// How a run ended that is not the latest. They may be heard of in any order.
    fn saw_earlier(&mut self, run: &Run) {
        let Some(exit) = run.exit().cloned() else { return };
        let earlier = Some(Earlier { attempt: run.attempt, exit: Some(exit) });
        let number = |earlier: &Option<Earlier>| earlier.as_ref().map(|earlier| earlier.attempt);
        if number(&self.before) < Some(run.attempt) {
            self.before_that = std::mem::replace(&mut self.before, earlier);
        } else if number(&self.before) == Some(run.attempt) {
            self.before = earlier;
        } else if number(&self.before_that) <= Some(run.attempt) {
            self.before_that = earlier;
        }
    }

    /// News of a run. That of one before the latest says how that ended.
    pub fn saw(&mut self, run: Run) {
        match &self.run {
            Some(known)
                if known.id == run.id && known.is_running() && run.exit().is_some() && self.is_of_start() =>
            {
                self.ended_early = Some(run);
            }
            Some(known) if known.attempt > run.attempt => self.saw_earlier(&run),
            Some(known) if known.attempt < run.attempt => {
                let known = Earlier { attempt: known.attempt, exit: known.exit().cloned() };
                self.before_that = self.before.replace(known);
                self.run = Some(run);
            }
            // News overtake each other: nothing comes back from the dead, and nothing that was started has only been made.
            Some(known) if known.id == run.id && known.state.stage() > run.state.stage() => {}
            _ => self.run = Some(run),
        }
    }

    /// News of a run, with what it is limited to: of one that another process started, nobody else knows that. Whether that changes
    /// what is known of the latest.
    pub fn found(&mut self, run: Run, limits: Option<cri::LinuxContainerResources>) -> bool {
        let before = self.run.as_ref().map(|run| (run.id.clone(), run.state.clone()));
        if run.is_running() && self.resources.is_none() && !self.starting {
            self.resources = limits;
        }
        self.saw(run);
        if self.has_begun() && !self.starting {
            // Its start seemed to fail.
            self.error = None;
        }
        self.news.notify_waiters();
        if self.followed.as_ref().is_some_and(|(id, _)| !self.may_run(id)) {
            self.followed = None;
        }
        before != self.run.as_ref().map(|run| (run.id.clone(), run.state.clone()))
    }

    /// The number of a run that is to come: the runtime has one run of each number, and the latest is known by it.
    pub fn next_attempt(&self, attempt: u32) -> u32 {
        self.run.as_ref().map_or(attempt, |run| attempt.max(run.attempt.saturating_add(1)))
    }

    /// Is this the latest run, or going to be?
    pub fn is(&self, id: &str) -> bool {
        self.created.as_deref() == Some(id) || self.run.as_ref().is_some_and(|run| run.id == id)
    }

    /// Something of this run may have to be ended.
    pub fn may_run(&self, id: &str) -> bool {
        if self.ended_early.as_ref().is_some_and(|run| run.id == id) {
            return false;
        }
        match self.run.as_ref().filter(|run| run.id == id) {
            Some(run) => run.may_run(),
            // The runtime could not say yet how it is.
            None => self.created.as_deref() == Some(id),
        }
    }

    /// The id of the run that may have to be ended.
    pub fn running(&self) -> Option<&str> {
        let known = self.run.as_ref().map(|run| &*run.id);
        known.into_iter().chain(self.created.as_deref()).find(|id| self.may_run(id))
    }

    /// Whether this run goes on, told until it has ended. `None`: it is not known to run.
    pub fn follow(&mut self, id: &str) -> Option<watch::Receiver<bool>> {
        self.running().filter(|running| *running == id)?;
        let is_another = |(followed, _): &mut (String, _)| followed != id;
        self.followed.take_if(is_another);
        let (_, sender) = self.followed.get_or_insert_with(|| (id.to_owned(), watch::Sender::new(true)));
        Some(sender.subscribe())
    }

    /// The runtime does not know a run any more that had not ended: somebody removed it. One that never ran has no end, and its number
    /// stays taken.
    pub fn lose(&mut self, id: &str, runtime: &str, now: Millis) {
        if self.created.as_deref() == Some(id) && self.run.as_ref().is_none_or(|run| run.id != id) {
            self.created = None;
        }
        self.news.notify_waiters();
        self.followed.take_if(|(followed, _)| followed == id);
        let Some(run) = self.run.as_mut().filter(|run| run.id == id) else { return };
        let started = match run.state {
            RunState::Running { since } => since,
            RunState::Unknown => now,
            RunState::Created | RunState::Exited(_) => return,
        };
        let mut exit = Exit::new(137, started, now, format!("{runtime}://{id}"));
        exit.reason = "ContainerStatusUnknown".into();
        exit.message = node::worker::LOST.to_owned();
        run.state = RunState::Exited(exit);
    }

    fn view(&self, runtime: &str, hash: u64, probed: Probed) -> Option<Running> {
        let of_run = |state: Container, last: Option<Exit>| {
            let run = self.run.as_ref();
            Running {
                id: run.map(|run| format!("{runtime}://{}", run.id)).unwrap_or_default(),
                image_id: run.map(|run| run.image_id.clone()).unwrap_or_default(),
                image: run.map(|run| run.image.clone()).unwrap_or_default(),
                outdated: run.is_some_and(|run| run.hash != hash),
                needs_restart: false,
                user: run.and_then(|run| run.user.clone()),
                attempt: run.map_or(0, |run| run.attempt),
                replaced: run.is_some_and(|run| self.replaced.as_ref() == Some(&run.id)),
                hook_error: self.hook_error.clone(),
                state,
                last,
            }
        };
        if self.is_of_start() {
            // What it comes to is told when the start, with its hook, is over: until then nobody may decide on it, and people
            // see the run before.
            let mut seen = match self.last() {
                Some(exit) => of_run(Container::Restarting(exit.clone()), self.last_but_one().cloned()),
                None => of_run(Container::Created, None),
            };
            seen.id = self.last().map(|exit| exit.id.clone()).unwrap_or_default();
            seen.attempt = seen.attempt.saturating_sub(u32::from(self.last().is_some()));
            return Some(seen);
        }
        let ended = || self.run.as_ref().and_then(Run::exit).or(self.last()).cloned();
        if let Some(error) = &self.error {
            return Some(of_run(Container::Failed(error.clone()), ended()));
        }
        if let Some(id) = self.created.as_ref().filter(|_| self.is_unsure() && !self.starting) {
            let seen = of_run(Container::Created, ended());
            return Some(Running { id: format!("{runtime}://{id}"), ..seen });
        }
        match self.run.as_ref().map(|run| &run.state) {
            Some(RunState::Running { since }) => {
                let id = self.run.as_ref().map(|run| &run.id);
                let Probed { started, ready, .. } = probed;
                let mut seen =
                    of_run(Container::Running { since: *since, started, ready }, self.last().cloned());
                // Its successor is on the way.
                seen.outdated &= !self.starting;
                seen.needs_restart = !self.starting && self.restart_for.as_ref() == id;
                Some(seen)
            }
            Some(RunState::Exited(exit)) if self.starting => {
                Some(of_run(Container::Restarting(exit.clone()), self.last().cloned()))
            }
            _ if self.starting => Some(of_run(Container::Created, ended())),
            Some(RunState::Exited(exit)) => {
                Some(of_run(Container::Exited(exit.clone()), self.last().cloned()))
            }
            Some(state @ (RunState::Created | RunState::Unknown)) => {
                let may_run = *state == RunState::Unknown;
                Some(of_run(Container::Interrupted { may_run }, self.last().cloned()))
            }
            None => None,
        }
    }
}

impl Cache {
    /// For want of something, or for using too much of it; perhaps by the agent before this one.
    pub fn is_evicted(&self) -> bool {
        let of_status = |name: &str| self.pod.str_at(&["status", name]);
        self.evicted.as_ref().is_some_and(|evicted| evicted.reason == eviction::REASON)
            || (of_status("phase") == Some("Failed") && of_status("reason") == Some(eviction::REASON))
    }

    pub fn slot(&mut self, container: &str) -> &mut Slot {
        self.containers.entry(container.to_owned()).or_default()
    }

    pub fn tell(&mut self, container: &str, severity: Severity, reason: &str, message: impl Into<String>) {
        let (container, reason) = (container.to_owned(), reason.to_owned());
        if self.events.len() == MOST_EVENTS {
            self.events.remove(0);
        }
        self.events.push(PendingEvent { container, severity, reason, message: message.into() });
    }

    pub fn take_events(&mut self) -> Vec<PodEvent> {
        if self.events.is_empty() {
            return Vec::new();
        }
        let pod = self.pod.clone();
        let pod = Pod::read(&pod);
        let place = |name: &str| pod.containers.iter().position(|container| container.name == name);
        let events = self.events.drain(..);
        let event = |pending: PendingEvent| PodEvent {
            severity: pending.severity,
            reason: pending.reason,
            message: pending.message,
            container: place(&pending.container),
        };
        events.map(event).collect()
    }

    /// As the agent is shown it; ids with the name of the runtime before them.
    pub fn view(&self, runtime: &str, pod: &Pod<'_>, probed: &dyn Fn(&str) -> Probed) -> Sandbox {
        let sandbox = self.sandbox.as_ref();
        let containers = pod.containers.iter().map(|container| {
            let slot = self.containers.get(container.name)?;
            slot.view(runtime, container_hash(container.spec), probed(container.name))
        });
        Sandbox {
            ready: sandbox.is_some_and(|sandbox| sandbox.ready),
            ips: sandbox.map(|sandbox| sandbox.ips.clone()).unwrap_or_default(),
            containers: containers.collect(),
            next: None,
            evicted: self.evicted.clone(),
            resizing: self.resizing,
            resize_error: self.resize_error.clone(),
            outlived: self.places(pod, |slot| slot.outlived),
            starts_again: self.places(pod, |slot| slot.starts_again),
        }
    }

    /// Of those containers of which that is so.
    fn places(&self, pod: &Pod<'_>, is: impl Fn(&Slot) -> bool) -> Vec<usize> {
        let is = |name: &str| self.containers.get(name).is_some_and(&is);
        let all = pod.containers.iter().enumerate();
        all.filter(|(_, container)| is(container.name)).map(|(index, _)| index).collect()
    }

    /// Another one, in place of what there was.
    pub fn set_sandbox(&mut self, sandbox: SandboxRef) {
        self.sandbox = Some(sandbox);
        self.containers.values_mut().for_each(|slot| slot.outlived = slot.run.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(attempt: u32, state: RunState) -> Run {
        let (id, image_id) = (format!("id-{attempt}"), String::new());
        Run { id, hash: HASH, image_id, image: String::new(), user: None, attempt, state }
    }
    fn exited(attempt: u32, code: i32) -> Run {
        run(attempt, RunState::Exited(Exit::new(code, 1, 2, format!("id-{attempt}"))))
    }
    const HASH: u64 = 7;
    const PROBED: Probed = Probed { started: true, ready: true, kill: None };

    #[test]
    fn a_pod_that_an_agent_before_this_one_evicted_is_evicted() {
        let is_evicted = |pod: &str| {
            let pod = ::runtime::parse(pod).expect("a pod");
            Cache { pod: Arc::new(pod), ..Cache::default() }.is_evicted()
        };
        assert!(is_evicted("{status: {phase: Failed, reason: Evicted}}"));
        assert!(!is_evicted("{status: {phase: Failed, reason: Preempting}}"));
        assert!(!is_evicted("{status: {phase: Running, reason: Evicted}}"));
    }

    #[test]
    fn what_nobody_takes_is_told_no_more_than_so_often() {
        let mut cache = Cache::default();
        for number in 0..=MOST_EVENTS {
            cache.tell("", Severity::Warning, "Unhealthy", number.to_string());
        }
        cache.pod = Arc::new(Value::map());
        let told = cache.take_events();
        assert_eq!((told.len(), &*told[0].message), (MOST_EVENTS, "1"), "the latest");
    }

    #[test]
    fn the_run_before_is_told_with_the_one_that_is() {
        let mut slot = Slot::default();
        slot.saw(exited(0, 7));
        slot.saw(run(1, RunState::Running { since: 5 }));
        let seen = slot.view("test", HASH, PROBED).unwrap();
        assert_eq!((seen.attempt, seen.last.map(|exit| exit.code)), (1, Some(7)));
        assert!(matches!(seen.state, Container::Running { since: 5, .. }));
    }

    #[test]
    fn the_last_run_is_the_one_before_whatever_is_heard_of_others() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [3, 0, 2, 1], [1, 3, 0, 2]] {
            let mut slot = Slot::default();
            for attempt in order.into_iter().chain([0, 1, 2]) {
                slot.saw(match attempt {
                    3 => run(3, RunState::Running { since: 5 }),
                    ended => exited(ended, ended.cast_signed()),
                });
            }
            let seen = slot.view("test", HASH, PROBED).unwrap();
            assert_eq!((seen.attempt, seen.last.map(|exit| exit.code)), (3, Some(2)), "{order:?}");
            assert_eq!(slot.last_but_one().map(|exit| exit.code), Some(1), "{order:?}");
            assert!(slot.is_past(1) && slot.is_past(2) && !slot.is_past(3));
        }
    }

    #[test]
    fn a_run_whose_end_is_not_known_yet_is_not_passed_over() {
        let mut slot = Slot::default();
        slot.saw(exited(0, 7));
        slot.saw(run(1, RunState::Running { since: 5 }));
        slot.saw(run(2, RunState::Running { since: 6 }));
        assert_eq!(slot.last(), None);
        assert!(slot.is_past(0) && !slot.is_past(1));
        slot.saw(exited(1, 8));
        assert_eq!(slot.last().map(|exit| exit.code), Some(8));
    }

    #[test]
    fn old_news_changes_nothing() {
        let mut slot = Slot::default();
        slot.saw(exited(1, 0));
        slot.saw(run(1, RunState::Running { since: 5 }));
        slot.saw(run(0, RunState::Running { since: 1 }));
        assert!(matches!(slot.view("test", HASH, PROBED).unwrap().state, Container::Exited(_)));
    }

    #[test]
    fn a_container_that_runs_is_not_started_again_because_of_old_news() {
        let mut slot = Slot::default();
        slot.saw(run(0, RunState::Running { since: 5 }));
        slot.saw(run(0, RunState::Created));
        assert!(matches!(slot.view("test", HASH, PROBED).unwrap().state, Container::Running { .. }));
    }

    #[test]
    fn whoever_follows_a_run_hears_of_its_end() {
        let goes_on = |following: &watch::Receiver<bool>| following.has_changed().is_ok();
        let running = |attempt| run(attempt, RunState::Running { since: 5 });
        let mut slot = Slot::default();
        assert!(slot.follow("id-0").is_none(), "nothing is known of it");
        slot.found(running(0), None);
        let followers = [slot.follow("id-0").unwrap(), slot.follow("id-0").unwrap()];
        slot.found(running(0), None);
        assert!(followers.iter().all(goes_on));
        slot.found(exited(0, 1), None);
        assert!(!followers.iter().any(goes_on) && slot.follow("id-0").is_none());
        slot.found(running(1), None);
        let follower = slot.follow("id-1").unwrap();
        slot.lose("id-0", "test", 6);
        assert!(goes_on(&follower), "that was another one");
        slot.lose("id-1", "test", 6);
        assert!(!goes_on(&follower));
        slot.found(running(2), None);
        let follower = slot.follow("id-2").unwrap();
        drop(slot);
        assert!(!goes_on(&follower), "nobody is left to tell");
    }

    #[test]
    fn a_start_under_way_is_no_reason_for_another() {
        let mut slot = Slot { starting: true, ..Slot::default() };
        assert_eq!(slot.view("test", HASH, PROBED).unwrap().state, Container::Created);
        slot.saw(exited(0, 1));
        let seen = slot.view("test", HASH, PROBED).unwrap();
        assert!(matches!(seen.state, Container::Restarting(exit) if exit.code == 1));
    }

    #[test]
    fn until_a_restart_is_over_with_its_hook_the_run_before_is_seen() {
        let mut slot = Slot::default();
        slot.saw(exited(0, 3));
        slot.saw(exited(1, 4));
        slot.begin_start();
        let before = |slot: &Slot| {
            let seen = slot.view("test", HASH, PROBED).unwrap();
            assert!(matches!(&seen.state, Container::Restarting(exit) if exit.code == 4), "{:?}", seen.state);
            assert_eq!((seen.attempt, seen.last.map(|exit| exit.code)), (1, Some(3)));
        };
        before(&slot);
        slot.created = Some("id-2".to_owned());
        slot.saw(run(2, RunState::Running { since: 5 }));
        before(&slot);
        slot.end_start();
        let seen = slot.view("test", HASH, PROBED).unwrap();
        assert!(matches!(seen.state, Container::Running { since: 5, .. }));
        assert_eq!((seen.attempt, seen.last.map(|exit| exit.code)), (2, Some(4)));
    }

    #[test]
    fn a_container_that_was_made_and_not_started_gets_another_run() {
        for state in [RunState::Created, RunState::Unknown] {
            let mut slot = Slot::default();
            slot.saw(run(0, state.clone()));
            let seen = slot.view("test", HASH, PROBED).unwrap();
            let may_run = state == RunState::Unknown;
            assert_eq!((seen.state, seen.attempt, seen.last), (Container::Interrupted { may_run }, 0, None));
            assert_eq!((slot.next_attempt(0), slot.next_attempt(3)), (1, 3));
            slot.saw(run(1, RunState::Running { since: 5 }));
            let seen = slot.view("test", HASH, PROBED).unwrap();
            assert!(matches!(seen.state, Container::Running { since: 5, .. }), "{:?}", seen.state);
        }
    }

    #[test]
    fn a_container_that_is_being_started_is_known() {
        let slot = Slot { starting: true, created: Some("id-0".to_owned()), ..Slot::default() };
        assert!(slot.is("id-0") && !slot.is("id-1"));
    }

    #[test]
    fn a_container_that_ends_while_it_is_started_is_told_when_that_is_over() {
        let begun = || {
            let mut slot = Slot::default();
            slot.begin_start();
            slot.created = Some("id-0".to_owned());
            slot
        };
        let mut quick = begun();
        quick.saw(exited(0, 0));
        let seen = quick.view("test", HASH, PROBED).unwrap();
        assert_eq!((seen.state, seen.last), (Container::Created, None));
        let mut hooked = begun();
        hooked.saw(run(0, RunState::Running { since: 5 }));
        hooked.saw(exited(0, 0));
        let seen = hooked.view("test", HASH, PROBED).unwrap();
        assert_eq!(seen.state, Container::Created);
        for mut slot in [quick, hooked] {
            slot.end_start();
            assert!(matches!(slot.view("test", HASH, PROBED).unwrap().state, Container::Exited(_)));
        }
    }

    #[test]
    fn only_a_run_that_this_process_made_is_its_own_and_only_one_that_runs_is_to_be_restarted() {
        let mut slot = Slot::default();
        slot.listed(run(0, RunState::Unknown));
        assert_eq!((slot.unsure(), &slot.own), (Some("id-0"), &None));
        slot.made("id-1".to_owned(), 1);
        assert_eq!(slot.own.as_deref(), Some("id-1"));
        slot.restart_for = slot.own.clone();
        slot.saw(run(1, RunState::Running { since: 5 }));
        assert!(slot.view("test", HASH, PROBED).unwrap().needs_restart);
        slot.saw(exited(1, 0));
        assert!(!slot.view("test", HASH, PROBED).unwrap().needs_restart);
    }

    #[test]
    fn a_container_with_another_image_is_outdated_until_its_successor_is_asked_for() {
        let mut slot = Slot::default();
        slot.saw(run(0, RunState::Running { since: 5 }));
        assert!(slot.view("test", HASH + 1, PROBED).unwrap().outdated);
        slot.starting = true;
        assert!(!slot.view("test", HASH + 1, PROBED).unwrap().outdated);
    }
}
