//! Is a node alive? Judged by what changed since the last look, on the controller's own clock, never by the node's.

use super::node::{Condition, NodeFacts};

/// How long nodes may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// One that never reported.
    pub startup_ms: i64,
    /// One that reported before.
    pub ms: i64,
}

/// What nobody knows of an unreachable node.
const JUDGED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Now, on the clock that only goes forward, and on the wall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    pub ms: i64,
    pub unix_seconds: i64,
    pub text: String,
}

/// What was seen of a node at the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// When a sign of life was last noticed.
    pub seen_ms: i64,
    /// Heartbeat and transition of the Ready condition; `None`: there was none.
    ready: Option<(String, String)>,
    /// The lease's renewTime.
    renewed: Option<(i64, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Ready as the node says: Unknown if it never did.
    pub observed: String,
    /// Ready as it is now; `None`: not known yet.
    pub current: Option<String>,
    /// Conditions to write, if the node became unreachable.
    pub write: Option<Vec<Condition>>,
}

pub fn judge(
    health: Option<&Health>,
    node: &NodeFacts,
    renewed: Option<(i64, u32)>,
    now: &Moment,
    grace: Grace,
) -> (Health, Verdict) {
    let ready = node.ready().map(|ready| (ready.heartbeat.clone(), ready.transition.clone()));
    let fresh = |seen_ms| Health { seen_ms, ready: ready.clone(), renewed: None };
    let mut next = match health {
        None if ready.is_none() => fresh(now.ms - (now.unix_seconds - node.created) * 1000),
        None => fresh(now.ms),
        Some(health) => {
            let beat =
                |ready: &Option<(String, String)>| ready.as_ref().map(|(heartbeat, _)| heartbeat.clone());
            let alive = beat(&health.ready) != beat(&ready);
            Health {
                seen_ms: if alive { now.ms } else { health.seen_ms },
                ready: ready.clone(),
                renewed: health.renewed,
            }
        }
    };
    // Differs from kube-controller-manager: it waits for a later time, so where a clock was set back every node becomes unreachable until
    // the clock has caught up. Whoever writes another time is alive.
    if renewed.is_some() && next.renewed != renewed {
        next.renewed = renewed;
        next.seen_ms = now.ms;
    }

    let grace = if ready.is_some() { grace.ms } else { grace.startup_ms };
    let observed = node.ready().map_or("Unknown", |ready| &ready.status).to_owned();
    if now.ms <= next.seen_ms + grace {
        let current = node.ready().map(|ready| ready.status.clone());
        return (next, Verdict { observed, current, write: None });
    }
    let mut conditions = node.conditions.clone();
    for kind in JUDGED {
        match conditions.iter_mut().find(|condition| condition.kind == kind) {
            None => conditions.push(Condition {
                kind: kind.to_owned(),
                status: "Unknown".to_owned(),
                reason: "NodeStatusNeverUpdated".to_owned(),
                message: "Kubelet never posted node status.".to_owned(),
                heartbeat: node.created_text.clone(),
                transition: now.text.clone(),
            }),
            Some(condition) if condition.status != "Unknown" => {
                condition.status = "Unknown".to_owned();
                condition.reason = "NodeStatusUnknown".to_owned();
                condition.message = "Kubelet stopped posting node status.".to_owned();
                condition.transition = now.text.clone();
            }
            Some(_) => {}
        }
    }
    // Ready decides: once it is Unknown, the rest was written with it.
    let write = node.ready().is_none_or(|ready| ready.status != "Unknown").then_some(conditions);
    (next, Verdict { observed, current: Some("Unknown".to_owned()), write })
}

impl Health {
    /// What the controller itself wrote is no sign of life.
    pub fn wrote(&mut self, conditions: &[Condition]) {
        let ready = conditions.iter().find(|condition| condition.kind == "Ready");
        self.ready = ready.map(|ready| (ready.heartbeat.clone(), ready.transition.clone()));
    }
}
