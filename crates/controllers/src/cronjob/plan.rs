//! The decisions of a reconcile: which old Jobs go, what the Jobs there are do to the status, and whether one is due now.

use std::time::Duration;

use kinds::Schedule;
use object::{quote, time};
use runtime::Severity;
use timezone::Zone;

use super::times::{Missed, NANOS, Place, place, seconds, until_next};
use super::view::{ActiveJob, CronJob, Policy};

/// A Job of the CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    pub uid: String,
    pub name: String,
    pub end: Option<End>,
    pub started: Option<i64>,
    pub completed: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Complete,
    Failed,
}

/// Something to tell people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub severity: Severity,
    pub reason: &'static str,
    pub message: String,
}

/// What to do about the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Not before something changes.
    Nothing,
    Wait(Duration),
    /// Make the Job that was due at this time.
    Start(i64),
}

/// A reconcile under way.
pub struct Work {
    /// The status becomes the next one step by step.
    pub cron: CronJob,
    pub events: Vec<Told>,
    /// The status has to be stored.
    pub changed: bool,
}

impl Work {
    pub fn begin(cron: CronJob) -> Work {
        Work { cron, events: Vec::new(), changed: false }
    }

    pub fn tell(&mut self, severity: Severity, reason: &'static str, message: impl Into<String>) {
        self.events.push(Told { severity, reason, message: message.into() });
    }

    /// Jobs that ended and are more than the history keeps, oldest first.
    pub fn excess(&self, children: &[Child]) -> Vec<usize> {
        let mut excess = Vec::new();
        for (end, limit) in
            [(End::Complete, self.cron.spec.successful_limit), (End::Failed, self.cron.spec.failed_limit)]
        {
            let Some(limit) = limit else { continue };
            let mut ended: Vec<usize> =
                (0..children.len()).filter(|&at| children[at].end == Some(end)).collect();
            // One that never started is the youngest.
            ended.sort_by_key(|&at| (children[at].started.unwrap_or(i64::MAX), &children[at].name));
            ended.truncate(ended.len().saturating_sub(usize::try_from(limit).unwrap_or(0)));
            excess.extend(ended);
        }
        excess
    }

    /// The Job was deleted by this reconcile.
    pub fn deleted(&mut self, uid: &str, name: &str) {
        self.cron.status.active.retain(|job| job.uid != uid);
        self.changed = true;
        self.tell(Severity::Normal, "SuccessfulDelete", format!("Deleted job {name}"));
    }

    /// Jobs that run and are not in the status: the view may be old.
    pub fn unknown(&self, children: &[Child]) -> Vec<usize> {
        let status = &self.cron.status;
        let unknown = |child: &Child| child.end.is_none() && !status.is_active(&child.uid);
        (0..children.len()).filter(|&at| unknown(&children[at])).collect()
    }

    /// The same with the status the server has now, which goes on from here if it knows more.
    pub fn look_again(&mut self, fresh: &CronJob, children: &[Child], unknown: &[usize]) -> bool {
        let mut knows_more = false;
        for child in unknown.iter().map(|&at| &children[at]) {
            if fresh.status.is_active(&child.uid) {
                knows_more = true;
                continue;
            }
            let message = format!("Saw a job that the controller did not create or forgot: {}", child.name);
            self.tell(Severity::Warning, "UnexpectedJob", message);
        }
        if knows_more {
            self.cron = fresh.clone();
        }
        knows_more
    }

    /// Jobs that ended are no longer active.
    pub fn ended(&mut self, children: &[Child]) {
        for child in children {
            let Some(end) = child.end else { continue };
            let status = &mut self.cron.status;
            let was_active = status.is_active(&child.uid);
            status.active.retain(|job| job.uid != child.uid);
            if end == End::Complete && child.completed > status.last_successful {
                status.last_successful = child.completed;
                self.changed = true;
            }
            if was_active {
                self.changed = true;
                let message = format!("Saw completed job: {}, condition: {end:?}", child.name);
                self.tell(Severity::Normal, "SawCompletedJob", message);
            }
        }
    }

    /// Active Jobs that are not among those there are: gone, or not seen yet.
    pub fn missing(&self, children: &[Child]) -> Vec<ActiveJob> {
        let seen = |job: &&ActiveJob| children.iter().any(|child| child.uid == job.uid);
        self.cron.status.active.iter().filter(|job| !seen(job)).cloned().collect()
    }

    /// The server does not have it either.
    pub fn gone(&mut self, job: &ActiveJob) {
        self.cron.status.active.retain(|active| active.uid != job.uid);
        self.changed = true;
        self.tell(Severity::Normal, "MissingJob", format!("Active job went missing: {}", job.name));
    }

    pub fn decide(&mut self, now_nanos: i128) -> Step {
        if self.cron.deleting {
            return Step::Nothing;
        }
        if let Some(zone) = &self.cron.spec.time_zone
            && let Err(error) = Zone::load(zone)
        {
            let message = format!("invalid timeZone: {}: {error}", quote(zone));
            self.tell(Severity::Warning, "UnknownTimeZone", message);
            return Step::Nothing;
        }
        if self.cron.spec.suspend {
            return Step::Nothing;
        }
        let text = self.cron.spec.schedule.clone();
        if text.contains("TZ") {
            let message = format!(
                "CRON_TZ or TZ used in schedule {} is not officially supported, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
                quote(&text)
            );
            self.tell(Severity::Warning, "UnsupportedSchedule", message);
        }
        let schedule = match schedule(&self.cron) {
            Ok(schedule) => schedule,
            Err(error) => {
                let message = format!("unparseable schedule: {} : {error}", quote(&text));
                self.tell(Severity::Warning, "UnparseableSchedule", message);
                return Step::Nothing;
            }
        };
        let due = match place(&self.cron, &schedule, seconds(now_nanos), true) {
            Err(error) => {
                let message = format!("invalid schedule: {text} : {error}");
                self.tell(Severity::Warning, "InvalidSchedule", message);
                return Step::Nothing;
            }
            Ok(Place { most_recent, missed, .. }) => {
                if most_recent.is_some() && missed == Missed::Many {
                    let message = "too many missed start times. Set or decrease \
                                   .spec.startingDeadlineSeconds or check clock skew";
                    self.tell(Severity::Warning, "TooManyMissedTimes", message);
                }
                most_recent
            }
        };
        match due {
            Some(at) if self.may_start(at, now_nanos) => Step::Start(at),
            _ => Step::Wait(until_next(&self.cron, &schedule, now_nanos)),
        }
    }

    fn may_start(&mut self, at: i64, now_nanos: i128) -> bool {
        let CronJob { spec, status, namespace, .. } = &self.cron;
        let late = |seconds: i64| i128::from(at.saturating_add(seconds)) * NANOS < now_nanos;
        if spec.starting_deadline_seconds.is_some_and(late) {
            let message = format!("Missed scheduled time to start a job: {}", rfc1123z(at));
            self.tell(Severity::Warning, "MissSchedule", message);
            return false;
        }
        let name = job_name(&self.cron, at);
        let is_active = status.active.iter().any(|job| job.name == name && job.namespace == *namespace);
        if is_active || status.last_schedule == Some(at) {
            return false;
        }
        if spec.policy == Policy::Forbid && !status.active.is_empty() {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            self.tell(Severity::Normal, "JobAlreadyActive", message);
            return false;
        }
        true
    }

    /// A Job for this time is there.
    pub fn started(&mut self, job: ActiveJob, at: i64) {
        self.cron.status.active.push(job);
        self.cron.status.last_schedule = Some(at);
        self.changed = true;
    }

    /// When to look again after [`Step::Start`].
    pub fn next_wait(&self, now_nanos: i128) -> Option<Duration> {
        schedule(&self.cron).ok().map(|schedule| until_next(&self.cron, &schedule, now_nanos))
    }
}

/// The schedule in its zone. One that names a zone itself, as older versions let it, is taken by its word.
pub fn schedule(cron: &CronJob) -> Result<Schedule, String> {
    let text = &cron.spec.schedule;
    match &cron.spec.time_zone {
        Some(zone) if !text.contains("TZ") && Zone::load(zone).is_ok() => {
            Schedule::parse(&format!("TZ={zone} {text}"))
        }
        _ => Schedule::parse(text),
    }
}

/// After the minute it was due, so that there is one for each.
pub fn job_name(cron: &CronJob, at: i64) -> String {
    format!("{}-{}", cron.name, at / 60)
}

/// `Mon, 02 Jan 2006 15:04:05 -0700`, in UTC.
fn rfc1123z(unix: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, second) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    let (year, month, day) = time::civil_from_days(days);
    let weekday = DAYS[days.rem_euclid(7) as usize];
    let month = MONTHS[(month - 1) as usize];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} +0000")
}
