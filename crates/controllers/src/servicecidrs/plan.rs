//! What a ServiceCIDR needs next.

use std::net::IpAddr;

use kinds::servicecidr::{Cidr, ranges_of};
use object::{Value, time};

pub const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const READY: &str = "Ready";
/// Servers may not have seen the deletion yet, and still allocate from the range.
const GRACE_SECONDS: i64 = 10;

#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// The finalizer where it is missing, then the condition where it is another.
    Ready {
        protect: bool,
        condition: Option<Condition>,
    },
    /// Addresses would be orphaned.
    Blocked(Option<Condition>),
    /// For so many seconds.
    Wait(u64),
    Release,
    /// It goes, and waits for others.
    Nothing,
}

/// The condition `Ready`, as it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    pub status: &'static str,
    pub reason: &'static str,
    pub message: &'static str,
}

const IS_READY: Condition =
    Condition { status: "True", reason: "", message: "Kubernetes Service CIDR is ready" };
const BLOCKED: Condition = Condition {
    status: "False",
    reason: "Terminating",
    message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
};

impl Condition {
    fn unless_set(self, cidr: &Value) -> Option<Condition> {
        let conditions = cidr.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
        let standing = conditions.iter().find(|one| one.str_at(&["type"]) == Some(READY));
        let is = |name: &str, wanted: &str| {
            standing.is_some_and(|one| one.str_at(&[name]).unwrap_or("") == wanted)
        };
        let set = is("status", self.status) && is("reason", self.reason) && is("message", self.message);
        (!set).then_some(self)
    }

    /// What is applied to the status.
    pub fn configuration(self, now: i64) -> Value {
        let mut condition = Value::map();
        let members = condition.make_map();
        for (name, text) in
            [("type", READY), ("status", self.status), ("reason", self.reason), ("message", self.message)]
        {
            members.set(name, text);
        }
        members.set("lastTransitionTime", time::format_seconds(now));
        let mut config = Value::map();
        config.map_at(&["status"]).set("conditions", vec![condition]);
        config
    }
}

/// `others`: all other ServiceCIDRs. `addresses`: those that services have, asked for only if they matter.
pub fn plan(cidr: &Value, others: &[Value], addresses: impl FnOnce() -> Vec<IpAddr>, now: i64) -> Plan {
    let finalizers = cidr.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap_or_default();
    let protected = finalizers.iter().any(|name| name.as_str() == Some(FINALIZER));
    let Some(deleted) = cidr.str_at(&["metadata", "deletionTimestamp"]) else {
        return Plan::Ready { protect: !protected, condition: IS_READY.unless_set(cidr) };
    };
    if !protected {
        return Plan::Nothing;
    }
    if would_orphan(cidr, others, addresses) {
        return Plan::Blocked(BLOCKED.unless_set(cidr));
    }
    let since = time::parse(deleted).map_or(now, |(seconds, _)| seconds);
    match u64::try_from(since.saturating_add(GRACE_SECONDS).saturating_sub(now)) {
        Ok(left @ 1..) => Plan::Wait(left),
        _ => Plan::Release,
    }
}

/// Whether an address would belong to no range any more.
// Differs from kube-controller-manager: a range that is being deleted does not count, or two of them could release each other.
fn would_orphan(cidr: &Value, others: &[Value], addresses: impl FnOnce() -> Vec<IpAddr>) -> bool {
    let stays = |other: &&Value| other.at(&["metadata", "deletionTimestamp"]).is_none();
    let others: Vec<Cidr> = others.iter().filter(stays).flat_map(ranges_of).collect();
    let mine = ranges_of(cidr);
    if mine.iter().all(|range| others.iter().any(|other| other.covers(range))) {
        return false;
    }
    let within = |ranges: &[Cidr], ip: &IpAddr| ranges.iter().any(|range| range.contains(ip));
    addresses().iter().any(|ip| within(&mine, ip) && !within(&others, ip))
}
