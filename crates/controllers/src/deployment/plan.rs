//! The decision of a reconcile: which ReplicaSets to make, scale and delete, and what the status says then.
//!
//! ```text
//! deployment ─┬─ being deleted ──────────── status only
//! its sets ───┤  paused, or scaled ──────── spread the replicas over the sets there are (scale.rs)
//!             ├─ told to roll back ──────── the template of an earlier revision
//!             └─ rolling out ────────────── rolling.rs, or recreate below
//! ```
//! Nothing is written here: [`SetWrite`]s are carried out in order, then the status is written once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use object::Value;

use super::create::{set_body, set_name, template_hash};
use super::revision::{self, ROLLBACK_TO};
use super::spec::Deployment;
use super::status::{PROGRESSING, Status, condition, reason};
use crate::replicaset::Set;

/// A ReplicaSet as the reconcile will leave it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub set: Arc<Set>,
    pub replicas: i64,
    pub annotations: BTreeMap<String, String>,
}

impl Member {
    pub fn new(set: Arc<Set>) -> Member {
        Member { replicas: set.replicas, annotations: set.annotations.clone(), set }
    }
    pub fn is_active(&self) -> bool {
        self.replicas > 0
    }
    /// Older first.
    pub fn age(&self) -> (i64, &str) {
        (self.set.created, &self.set.name)
    }
}

/// One write. Sets are named by their place among those given to [`plan`], sorted by age.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SetWrite {
    Create { name: String, body: Value, replicas: i64 },
    Update(SetUpdate),
    Delete { at: usize },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetUpdate {
    pub at: usize,
    pub replicas: i64,
    pub annotations: BTreeMap<String, String>,
    /// Only where it changes.
    pub min_ready_seconds: Option<i64>,
}

/// What a reconcile does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub steps: Vec<SetWrite>,
    pub status: Status,
    /// The number of the newest template, for the Deployment's own annotation.
    pub revision: Option<String>,
    /// The Deployment itself is changed, and nothing else this reconcile.
    pub rollback: Option<Rollback>,
    pub next: Option<Duration>,
}

/// Back to an earlier template, or at least no longer told to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rollback {
    pub annotations: BTreeMap<String, String>,
    pub template: Option<Value>,
    /// Warning?, reason and message of the event.
    pub event: (bool, &'static str, String),
}

/// `sets` are the Deployment's own; `has_pods` tells of each, by place, whether pods of it may still run.
pub(crate) fn plan(
    d: &Deployment,
    sets: &[Arc<Set>],
    has_pods: &dyn Fn(usize) -> bool,
    now_nanos: i128,
) -> Plan {
    let members: Vec<Member> = sets.iter().cloned().map(Member::new).collect();
    let new = members.iter().position(|member| member.set.template == d.bare_template);
    let mut request =
        Planner { d, members, new, steps: Vec::new(), status: d.status.clone(), revision: None, now_nanos };
    if d.deleting {
        request.number_new();
        return request.done(false);
    }
    request.note_pause();
    if d.paused {
        request.number_new();
        request.spread();
        if rollback_to(d).is_none() {
            request.clean_up();
        }
        return request.done(false);
    }
    if let Some(number) = rollback_to(d) {
        let rollback = request.roll_back(number);
        return Plan { rollback: Some(rollback), ..request.done(false) };
    }
    request.number_new();
    if request.was_scaled() {
        request.spread();
        return request.done(false);
    }
    if d.rolling.is_some() {
        request.roll();
    } else {
        request.recreate(has_pods);
    }
    request.done(true)
}

pub(super) struct Planner<'a> {
    pub d: &'a Deployment,
    pub members: Vec<Member>,
    pub new: Option<usize>,
    pub steps: Vec<SetWrite>,
    /// As it stands so far: counts are the old ones until the end.
    pub status: Status,
    pub revision: Option<String>,
    pub now_nanos: i128,
}

impl Planner<'_> {
    fn now(&self) -> i64 {
        (self.now_nanos / 1_000_000_000) as i64
    }

    fn done(self, rollout: bool) -> Plan {
        let Planner { d, members, new, steps, status, revision, now_nanos } = self;
        let now = (now_nanos / 1_000_000_000) as i64;
        let status = if rollout {
            status.rolled(d, &members, new, now_nanos)
        } else {
            status.counted(d, &members, new, now)
        };
        let next = if rollout { status.until_deadline(d, now_nanos) } else { None };
        Plan { steps, status, revision, rollback: None, next }
    }

    /// Places of all sets but the new one, older first.
    pub fn old(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|at| Some(*at) != self.new).collect()
    }

    pub fn active_old(&self) -> Vec<usize> {
        let mut old = self.old();
        old.retain(|at| self.members[*at].is_active());
        old
    }

    /// Replicas of all sets together, as the reconcile will leave them.
    pub fn total(&self) -> i64 {
        self.members.iter().map(|member| member.replicas).sum()
    }

    /// While it is paused no deadline runs; after that it starts anew. A rollout found stuck stays stuck.
    fn note_pause(&mut self) {
        if self.d.progress_deadline_seconds.is_none() {
            return;
        }
        let why = self.status.condition(PROGRESSING).map(|condition| condition.reason.as_str());
        let (reason, message) = match (self.d.paused, why) {
            (_, Some(reason::TIMED_OUT)) | (true, Some(reason::PAUSED)) => return,
            (true, _) => (reason::PAUSED, "Deployment is paused"),
            (false, Some(reason::PAUSED)) => (reason::RESUMED, "Deployment is resumed"),
            (false, _) => return,
        };
        let now = self.now();
        self.status.set(condition(PROGRESSING, "Unknown", reason, message.to_owned(), now));
    }

    fn next_number(&self) -> i64 {
        let numbers =
            self.old().into_iter().filter_map(|at| revision::revision(&self.members[at].annotations));
        numbers.max().unwrap_or(0).max(0) + 1
    }

    /// Keeps number, annotations and minReadySeconds of the new set in step, if there is one.
    fn number_new(&mut self) {
        let Some(new) = self.new else { return };
        let number = self.next_number();
        let member = &mut self.members[new];
        let mut annotations = member.annotations.clone();
        let annotated = revision::annotate_new(self.d, &mut annotations, number);
        let min_ready = self.d.min_ready_seconds;
        let waits_otherwise = member.set.min_ready_seconds != min_ready;
        if annotated {
            member.annotations = annotations;
        }
        if annotated || waits_otherwise {
            self.touch(new, waits_otherwise.then_some(min_ready));
        }
        let member = &self.members[new];
        self.revision = member.annotations.get(revision::REVISION).cloned();
        if self.d.progress_deadline_seconds.is_some() && self.status.condition(PROGRESSING).is_none() {
            let message = format!("Found new replica set \"{}\"", member.set.name);
            let now = self.now();
            self.status.set(condition(PROGRESSING, "True", reason::FOUND, message, now));
        }
    }

    /// The new set, made if there is none.
    pub fn need_new(&mut self) -> usize {
        if let Some(new) = self.new {
            return new;
        }
        let d = self.d;
        let hash = template_hash(&d.bare_template, d.status.collisions);
        let name = set_name(&d.name, &hash);
        let mut annotations = BTreeMap::new();
        let number = self.next_number();
        revision::annotate_new(d, &mut annotations, number);
        revision::annotate_replicas(d, &mut annotations);
        let replicas = match d.rolling {
            Some(_) => self.room_for_new(0),
            None => d.replicas,
        };
        let body = set_body(d, &name, &hash, replicas, &annotations);
        let mut set = Set::read(&body);
        // Until its controller has looked at it, it tells nothing.
        set.created = i64::MAX;
        self.steps.push(SetWrite::Create { name: name.clone(), body, replicas });
        self.members.push(Member::new(Arc::new(set)));
        self.new = Some(self.members.len() - 1);
        self.revision = Some(number.to_string());
        if d.progress_deadline_seconds.is_some() {
            let message = format!("Created new replica set \"{name}\"");
            let now = self.now();
            self.status.set(condition(PROGRESSING, "True", reason::CREATED, message, now));
        }
        self.members.len() - 1
    }

    /// How large the new set may be, while it has `replicas` now.
    pub fn room_for_new(&self, replicas: i64) -> i64 {
        let room = (self.d.max_replicas() - self.total()).max(0);
        replicas + room.min((self.d.replicas - replicas).max(0))
    }

    /// Gives a set another size. `force`: what the Deployment wants is noted on it even if the size stays. Tells whether
    /// the size changed.
    pub fn scale(&mut self, at: usize, replicas: i64, force: bool) -> bool {
        let member = &mut self.members[at];
        let resized = member.replicas != replicas;
        if !resized && !force {
            return false;
        }
        member.replicas = replicas;
        let annotated = revision::annotate_replicas(self.d, &mut member.annotations);
        if resized || annotated {
            self.touch(at, None);
        }
        resized
    }

    /// One write for all changes of a set.
    fn touch(&mut self, at: usize, min_ready_seconds: Option<i64>) {
        let Member { replicas, annotations, .. } = self.members[at].clone();
        for step in &mut self.steps {
            match step {
                SetWrite::Update(update) if update.at == at => {
                    let min_ready_seconds = min_ready_seconds.or(update.min_ready_seconds);
                    *update = SetUpdate { at, replicas, annotations, min_ready_seconds };
                    return;
                }
                _ => {}
            }
        }
        self.steps.push(SetWrite::Update(SetUpdate { at, replicas, annotations, min_ready_seconds }));
    }

    /// Old sets beyond the history's limit go, oldest numbers first, if nothing is left of them.
    pub fn clean_up(&mut self) {
        let Some(limit) = self.d.revision_history_limit else { return };
        let mut old = self.old();
        old.retain(|at| !self.members[*at].set.deleting);
        let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        let number = |at: usize| revision::revision(&self.members[at].annotations).unwrap_or(0);
        old.sort_by(|a, b| {
            number(*a).cmp(&number(*b)).then_with(|| self.members[*a].age().cmp(&self.members[*b].age()))
        });
        for at in old.into_iter().take(surplus) {
            let Member { set, replicas, .. } = &self.members[at];
            let empty = set.status.replicas == 0 && *replicas == 0 && set.replicas == 0;
            if empty && set.generation <= set.status.observed_generation {
                self.steps.push(SetWrite::Delete { at });
            }
        }
    }

    /// All old pods go before the first new one comes.
    fn recreate(&mut self, has_pods: &dyn Fn(usize) -> bool) {
        let mut scaled = false;
        for at in self.active_old() {
            scaled |= self.scale(at, 0, false);
        }
        let remain = |at: &usize| self.members[*at].set.status.replicas > 0 || has_pods(*at);
        if scaled || self.old().iter().any(remain) {
            return;
        }
        let new = self.need_new();
        self.scale(new, self.d.replicas, false);
        if self.d.status.is_complete(self.d) {
            self.clean_up();
        }
    }

    /// To revision `number`, or with 0 to the one before the present.
    fn roll_back(&mut self, number: i64) -> Rollback {
        let numbers = || {
            self.members
                .iter()
                .filter_map(|m| Some((revision::revision(&m.annotations)?, m)))
                .collect::<Vec<_>>()
        };
        let mut annotations = self.d.annotations.clone();
        annotations.remove(ROLLBACK_TO);
        const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";
        let given_up = |annotations, reason, message: &str| Rollback {
            annotations,
            template: None,
            event: (true, reason, message.to_owned()),
        };
        let number = if number == 0 {
            let mut all: Vec<i64> = numbers().iter().map(|(number, _)| *number).collect();
            all.sort_unstable();
            let last = all.len().checked_sub(2).map_or(0, |at| all[at]);
            if last == 0 {
                return given_up(annotations, NOT_FOUND, "Unable to find last revision.");
            }
            last
        } else {
            number
        };
        let Some((_, member)) = numbers().into_iter().find(|(there, _)| *there == number) else {
            return given_up(annotations, NOT_FOUND, "Unable to find the revision to rollback to.");
        };
        if member.set.template == self.d.bare_template {
            let message = format!(
                "The rollback revision contains the same template as current deployment \"{}\"",
                self.d.name
            );
            return given_up(annotations, "DeploymentRollbackTemplateUnchanged", &message);
        }
        // The annotations of that time come back too: the change cause, for one.
        annotations.retain(|name, _| revision::is_own(name));
        let theirs = member.annotations.iter().filter(|(name, _)| !revision::is_own(name));
        annotations.extend(theirs.map(|(name, value)| (name.clone(), value.clone())));
        let message = format!("Rolled back deployment \"{}\" to revision {number}", self.d.name);
        Rollback {
            annotations,
            template: Some(member.set.template.clone()),
            event: (false, "DeploymentRollback", message),
        }
    }
}

fn rollback_to(d: &Deployment) -> Option<i64> {
    d.annotations.get(ROLLBACK_TO)?.parse().ok()
}
