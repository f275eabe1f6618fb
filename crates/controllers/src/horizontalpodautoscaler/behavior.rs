//! How fast a target may follow its metrics: stabilisation windows and scaling policies.

use super::spec::{Behavior, Policy, Rules, Select};

/// What an autoscaler remembers; gone with the process, as upstream's. Times are milliseconds of a clock that never jumps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// What was asked for, before it was stabilised. One too old to count is replaced, so there are only as many as fit the window.
    recommendations: Vec<(i32, i64)>,
    ups: Vec<ScaleEvent>,
    downs: Vec<ScaleEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ScaleEvent {
    change: i32,
    at: i64,
    /// No policy looks so far back: its place is free.
    outdated: bool,
}

/// A bounded wish, and what bounded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    pub replicas: i32,
    pub reason: &'static str,
    pub message: &'static str,
}

/// The replicas there are, and may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub current: i32,
    pub min: i32,
    pub max: i32,
}

const UP_LIMIT: Limited = Limited {
    replicas: 0,
    reason: "ScaleUpLimit",
    message: "the desired replica count is increasing faster than the maximum scale rate",
};
const TOO_MANY: Limited = Limited {
    replicas: 0,
    reason: "TooManyReplicas",
    message: "the desired replica count is more than the maximum replica count",
};
const DOWN_LIMIT: Limited = Limited {
    replicas: 0,
    reason: "ScaleDownLimit",
    message: "the desired replica count is decreasing faster than the maximum scale rate",
};
const TOO_FEW: Limited = Limited {
    replicas: 0,
    reason: "TooFewReplicas",
    message: "the desired replica count is less than the minimum replica count",
};
const WITHIN: Limited = Limited {
    replicas: 0,
    reason: "DesiredWithinRange",
    message: "the desired count is within the acceptable range",
};

impl Limited {
    fn at(self, replicas: i32) -> Limited {
        Limited { replicas, ..self }
    }
}

impl History {
    /// What there was when it was first looked at counts as asked for.
    pub fn begin(&mut self, current: i32, now: i64) {
        if self.recommendations.is_empty() {
            self.recommendations.push((current, now));
        }
    }

    /// Without a behavior: the most that was asked for within the window.
    pub fn stabilize(&mut self, desired: i32, window_millis: i64, now: i64) -> i32 {
        let cutoff = now - window_millis;
        let recent = self.recommendations.iter().filter(|(_, at)| *at >= cutoff);
        let most = recent.map(|(replicas, _)| *replicas).fold(desired, i32::max);
        self.record(desired, now, |at| at < cutoff);
        most
    }

    /// With a behavior: not above the least of the upward window, not below the most of the downward one.
    pub fn stabilize_by(
        &mut self,
        desired: i32,
        current: i32,
        behavior: &Behavior,
        default_window_millis: i64,
        now: i64,
    ) -> Limited {
        let up = now - behavior.up.window_seconds.unwrap_or(0).saturating_mul(1000);
        let down_window = behavior.down.window_seconds.map(|seconds| seconds.saturating_mul(1000));
        let down = now - down_window.unwrap_or(default_window_millis);
        let (mut least, mut most) = (desired, desired);
        for (replicas, at) in &self.recommendations {
            if *at > up {
                least = least.min(*replicas);
            }
            if *at > down {
                most = most.max(*replicas);
            }
        }
        self.record(desired, now, |at| at < up && at < down);
        let (reason, message) = if desired >= current {
            (
                "ScaleUpStabilized",
                "recent recommendations were lower than current one, applying the lowest recent recommendation",
            )
        } else {
            (
                "ScaleDownStabilized",
                "recent recommendations were higher than current one, applying the highest recent recommendation",
            )
        };
        Limited { replicas: current.max(least).min(most), reason, message }
    }

    fn record(&mut self, desired: i32, now: i64, is_old: impl Fn(i64) -> bool) {
        match self.recommendations.iter().rposition(|(_, at)| is_old(*at)) {
            Some(place) => self.recommendations[place] = (desired, now),
            None => self.recommendations.push((desired, now)),
        }
    }

    /// The target was scaled; only where policies will ask for it.
    pub fn scaled(&mut self, from: i32, to: i32, behavior: Option<&Behavior>, now: i64) {
        let Some(behavior) = behavior else { return };
        let (events, rules) =
            if to > from { (&mut self.ups, &behavior.up) } else { (&mut self.downs, &behavior.down) };
        let longest = rules.policies.iter().map(|policy| policy.period_seconds).max().unwrap_or(0);
        let cutoff = now - longest.saturating_mul(1000);
        for event in events.iter_mut().filter(|event| event.at < cutoff) {
            event.outdated = true;
        }
        let new = ScaleEvent { change: to.saturating_sub(from).saturating_abs(), at: now, outdated: false };
        match events.iter().rposition(|event| event.outdated) {
            Some(place) => events[place] = new,
            None => events.push(new),
        }
    }

    /// What policies and bounds leave of a wish.
    pub fn limit_by(&self, desired: i32, bounds: Bounds, behavior: &Behavior, now: i64) -> Limited {
        let Bounds { current, min, max } = bounds;
        if desired > current {
            let rate = self.rate(current, &behavior.up, true, now).max(current);
            let (most, why) = if max > rate { (rate, UP_LIMIT) } else { (max, TOO_MANY) };
            if desired > most {
                return why.at(most);
            }
        } else if desired < current {
            let rate = self.rate(current, &behavior.down, false, now).min(current);
            let (least, why) = if min < rate { (rate, DOWN_LIMIT) } else { (min, TOO_FEW) };
            if desired < least {
                return why.at(least);
            }
        }
        WITHIN.at(desired)
    }

    /// The replicas the policies allow at most (up) or at least (down).
    fn rate(&self, current: i32, rules: &Rules, up: bool, now: i64) -> i32 {
        let start = |policy: &Policy| {
            let since = now - policy.period_seconds.saturating_mul(1000);
            let changed = |events: &[ScaleEvent]| -> i64 {
                events.iter().filter(|event| event.at > since).map(|event| i64::from(event.change)).sum()
            };
            i64::from(current) - changed(&self.ups) + changed(&self.downs)
        };
        let proposed = rules.policies.iter().map(|policy| {
            let (start, value) = (start(policy), policy.value);
            let replicas = match (policy.is_percent, up) {
                (false, true) => (start + i64::from(value)) as f64,
                (false, false) => (start - i64::from(value)) as f64,
                // Rounded up: a target of one pod would never grow otherwise.
                (true, true) => (start as f64 * (1.0 + f64::from(value) / 100.0)).ceil(),
                (true, false) => (start as f64 * (1.0 - f64::from(value) / 100.0)).trunc(),
            };
            replicas as i32
        });
        match (rules.select, up) {
            (Select::Disabled, _) => current,
            (Select::Min, true) => proposed.min().unwrap_or(i32::MAX),
            (Select::Max, true) => proposed.max().unwrap_or(i32::MIN),
            (Select::Min, false) => proposed.max().unwrap_or(i32::MIN),
            (Select::Max, false) => proposed.min().unwrap_or(i32::MAX),
        }
    }
}

/// Without a behavior: within the bounds, and at most twice as many (or four).
pub fn limit(desired: i32, bounds: Bounds) -> Limited {
    let Bounds { current, min, max } = bounds;
    let rate = current.saturating_mul(2).max(4);
    let (most, why) = if max > rate { (rate, UP_LIMIT) } else { (max, TOO_MANY) };
    if desired < min {
        TOO_FEW.at(min)
    } else if desired > most {
        why.at(most)
    } else {
        WITHIN.at(desired)
    }
}
