//! The probes of one container as a state machine: when each is due, and what an answer makes of it. No I/O, no clock.
//!
//! ```text
//!            startup ── success ──> opens readiness and liveness
//!               │                        │             │
//!            failure                 ready or not    failure
//!               v                                      v
//!             kill  (neither runs again until the container is a new one)
//! ```

use std::time::Duration;

use tokio::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Startup,
    Readiness,
    Liveness,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Startup, Kind::Readiness, Kind::Liveness];

    /// As events and metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Startup => "Startup",
            Kind::Readiness => "Readiness",
            Kind::Liveness => "Liveness",
        }
    }

    /// The container's field.
    pub fn field(self) -> &'static str {
        match self {
            Kind::Startup => "startupProbe",
            Kind::Readiness => "readinessProbe",
            Kind::Liveness => "livenessProbe",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Success,
    Failure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub initial_delay: Duration,
    /// At least a second.
    pub period: Duration,
    pub success_threshold: u32,
    pub failure_threshold: u32,
}

/// What was known of a container before this agent began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    pub started: bool,
    pub ready: bool,
}

/// What the container's status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    pub started: bool,
    pub ready: bool,
    /// The probe that asks for the container's end.
    pub failed: Option<Kind>,
}

#[derive(Debug)]
pub struct Checks {
    /// In the order of [`Kind::ALL`].
    checks: [Option<Check>; 3],
    /// The container outlived an agent: it stays as ready as it was until a probe says otherwise.
    was_ready: bool,
}

#[derive(Debug)]
struct Check {
    timing: Timing,
    /// `None`: not known yet.
    value: Option<Answer>,
    /// The last answer and how often it came in a row.
    run: Option<(Answer, u32)>,
    /// Nothing more to find out about this container.
    on_hold: bool,
    under_way: bool,
    /// The initial delay is over then.
    not_before: Instant,
    due: Instant,
}

impl Checks {
    /// Of a container that has run for `age`. If it was there before this agent, the first run of a check is put off by
    /// what `jitter` makes of its period.
    pub fn new(
        timings: [Option<Timing>; 3],
        age: Duration,
        now: Instant,
        before: Option<Before>,
        jitter: impl Fn(Duration) -> Duration,
    ) -> Checks {
        let check = |kind: Kind| {
            let timing = timings[kind as usize]?;
            let not_before = now + timing.initial_delay.saturating_sub(age);
            let put_off = before.map_or(Duration::ZERO, |_| jitter(timing.period));
            Some(Check {
                timing,
                value: match kind {
                    Kind::Startup => None,
                    Kind::Readiness => before.is_none().then_some(Answer::Failure),
                    Kind::Liveness => Some(Answer::Success),
                },
                run: None,
                on_hold: false,
                under_way: false,
                not_before,
                due: not_before.max(now + put_off),
            })
        };
        let was_ready = before.is_some_and(|before| before.ready);
        let mut checks = Checks { checks: Kind::ALL.map(check), was_ready };
        if let (Some(startup), Some(Before { started: true, .. })) = (checks.of(Kind::Startup), before) {
            startup.settle(Answer::Success);
        }
        checks
    }

    /// When a probe is to be run next; `None` while it is not needed, or runs.
    pub fn due(&self, kind: Kind) -> Option<Instant> {
        let check = self.checks[kind as usize].as_ref()?;
        let closed = kind != Kind::Startup && !self.started();
        (!check.on_hold && !check.under_way && !closed).then_some(check.due)
    }

    /// The probe runs now; [`Checks::answer`] ends that.
    pub fn begin(&mut self, kind: Kind) {
        if let Some(check) = self.of(kind) {
            check.under_way = true;
        }
    }

    /// `None`: it could not be found out, which counts for nothing.
    pub fn answer(&mut self, kind: Kind, answer: Option<Answer>, now: Instant) {
        let Some(check) = self.of(kind) else { return };
        check.under_way = false;
        check.due = next_tick(check.due, check.timing.period, now);
        let (Some(answer), false) = (answer, check.on_hold) else { return };
        let run = match check.run {
            Some((last, run)) if last == answer => run.saturating_add(1),
            _ => 1,
        };
        check.run = Some((answer, run));
        let threshold = match answer {
            Answer::Success => check.timing.success_threshold,
            Answer::Failure => check.timing.failure_threshold,
        };
        if run < threshold {
            return;
        }
        check.value = Some(answer);
        match (kind, answer) {
            (Kind::Startup, Answer::Success) => {
                check.settle(answer);
                self.open(now);
            }
            (Kind::Startup | Kind::Liveness, Answer::Failure) => check.settle(answer),
            _ => {}
        }
    }

    /// The pod is being deleted: nothing is killed for its health any more, but whether it is ready still matters.
    pub fn terminate(&mut self, now: Instant) {
        let was_started = self.started();
        for kind in [Kind::Startup, Kind::Liveness] {
            if let Some(check) = self.of(kind) {
                check.settle(Answer::Success);
            }
        }
        if !was_started {
            self.open(now);
        }
    }

    /// Readiness is looked at at once if the container is not ready: something about its pod changed.
    pub fn hurry(&mut self, now: Instant) {
        if let Some(check) = self.of(Kind::Readiness)
            && check.value == Some(Answer::Failure)
        {
            check.due = check.due.min(now.max(check.not_before));
        }
    }

    pub fn health(&self) -> Health {
        let value = |kind: Kind| self.checks[kind as usize].as_ref().map(|check| check.value);
        let ready = match value(Kind::Readiness) {
            None | Some(Some(Answer::Success)) => true,
            Some(None) => self.was_ready,
            Some(Some(Answer::Failure)) => false,
        };
        let failed = [Kind::Liveness, Kind::Startup];
        Health {
            started: self.started(),
            ready: ready && self.started(),
            failed: failed.into_iter().find(|kind| value(*kind) == Some(Some(Answer::Failure))),
        }
    }

    fn started(&self) -> bool {
        let startup = &self.checks[Kind::Startup as usize];
        startup.as_ref().is_none_or(|check| check.value == Some(Answer::Success))
    }

    /// The container has started: what waited for that is due.
    fn open(&mut self, now: Instant) {
        for kind in [Kind::Readiness, Kind::Liveness] {
            if let Some(check) = self.of(kind) {
                check.due = now.max(check.not_before);
            }
        }
    }

    fn of(&mut self, kind: Kind) -> Option<&mut Check> {
        self.checks[kind as usize].as_mut()
    }
}

impl Check {
    fn settle(&mut self, answer: Answer) {
        self.value = Some(answer);
        self.run = None;
        self.on_hold = true;
    }
}

/// Ticks keep their beat however long a probe takes; of those missed meanwhile, one is made up for at once.
fn next_tick(due: Instant, period: Duration, now: Instant) -> Instant {
    let late = now.saturating_duration_since(due);
    let missed = (late.as_millis() / period.as_millis().max(1)).max(1);
    due + period * u32::try_from(missed).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
