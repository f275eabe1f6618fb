//! Which pods use tainted devices, and when they must go.

use std::collections::BTreeMap;
use std::time::Duration;

use object::{Map, Value, time};

use crate::nodelifecycle::node::{NO_EXECUTE, Taint};
use crate::resourceclaim::{Named, entries, named, reservations};
use crate::tainteviction::{Toleration, toleration};

/// Reason and message of the condition, word for word.
const REASON: &str = "DeletionByDeviceTaintManager";
const MESSAGE: &str = "Device Taint manager: deleting due to NoExecute taint";

/// `driver/pool`: a driver has no slash in its name.
pub fn pool_of(slice: &Value) -> String {
    let part = |path: &[&str]| slice.str_at(path).unwrap_or_default();
    format!("{}/{}", part(&["spec", "driver"]), part(&["spec", "pool", "name"]))
}

/// Only slices of a pool's newest generation count.
pub fn generation_of(slice: &Value) -> i64 {
    slice.at(&["spec", "pool", "generation"]).and_then(Value::as_int).unwrap_or_default()
}

/// The NoExecute taints of a slice, by `driver/pool/device`; devices without any are not in it.
pub fn tainted(slice: &Value) -> BTreeMap<String, Vec<Taint>> {
    let pool = pool_of(slice);
    let devices = slice.at(&["spec", "devices"]).and_then(Value::as_list).unwrap_or_default();
    let mut all = BTreeMap::new();
    for device in devices {
        let taints = device.get("taints").and_then(Value::as_list).unwrap_or_default();
        let taints: Vec<Taint> = taints.iter().map(taint).filter(|t| t.effect == NO_EXECUTE).collect();
        if !taints.is_empty() {
            all.insert(format!("{pool}/{}", device.str_at(&["name"]).unwrap_or_default()), taints);
        }
    }
    all
}

fn taint(taint: &Value) -> Taint {
    let text = |name: &str| taint.str_at(&[name]).unwrap_or_default().to_owned();
    Taint {
        key: text("key"),
        value: text("value"),
        effect: text("effect"),
        time_added: taint.str_at(&["timeAdded"]).map(str::to_owned),
    }
}

/// The devices whose taints are not the same in both.
pub fn changed(old: &BTreeMap<String, Vec<Taint>>, new: &BTreeMap<String, Vec<Taint>>) -> Vec<String> {
    let gone = old.keys().filter(|device| !new.contains_key(*device));
    let others = new.iter().filter(|(device, taints)| old.get(*device) != Some(*taints));
    gone.chain(others.map(|(device, _)| device)).cloned().collect()
}

/// A device of a claim's allocation: `driver/pool/device`, and what the claim tolerates of it.
pub struct Allocated {
    pub device: String,
    pub tolerations: Vec<Toleration>,
}

pub fn allocated(claim: &Value) -> Vec<Allocated> {
    let results = claim.at(&["status", "allocation", "devices", "results"]).and_then(Value::as_list);
    let read = |result: &Value| {
        let part = |name: &str| result.str_at(&[name]).unwrap_or_default();
        let tolerations = result.get("tolerations").and_then(Value::as_list).unwrap_or_default();
        Allocated {
            device: format!("{}/{}/{}", part("driver"), part("pool"), part("device")),
            tolerations: tolerations.iter().map(toleration).collect(),
        }
    };
    results.unwrap_or_default().iter().map(read).collect()
}

/// Names of the pods a claim is reserved for.
pub fn reserving_pods(claim: &Value) -> impl Iterator<Item = &str> {
    let pods = reservations(claim).iter().filter(|consumer| {
        consumer.str_at(&["apiGroup"]).unwrap_or_default().is_empty()
            && consumer.str_at(&["resource"]) == Some("pods")
    });
    pods.filter_map(|consumer| consumer.str_at(&["name"]))
}

/// When a pod must go, in Unix seconds: the first time one of its claims says so. `claim` finds one by name, and says whether it
/// was made for the pod; `taints` are those of a device.
pub fn eviction(
    pod: &Value,
    claim: impl Fn(&str) -> Option<(Value, bool)>,
    taints: impl Fn(&str) -> Vec<Taint>,
) -> Option<i64> {
    let uid = pod.str_at(&["metadata", "uid"]).unwrap_or_default();
    if pod.str_at(&["spec", "nodeName"]).unwrap_or_default().is_empty() {
        return None;
    }
    let of_entry = |entry: &Value| {
        let Named::Claim { name, owned } = named(pod, entry) else { return None };
        let (claim, is_own) = claim(name)?;
        let reserved = reservations(&claim).iter().any(|consumer| consumer.str_at(&["uid"]) == Some(uid));
        if owned && !is_own || !reserved {
            return None;
        }
        allocated(&claim).iter().filter_map(|device| device_eviction(device, &taints(&device.device))).min()
    };
    entries(pod).iter().filter_map(of_entry).min()
}

fn device_eviction(device: &Allocated, taints: &[Taint]) -> Option<i64> {
    taints.iter().filter_map(|taint| taint_eviction(taint, &device.tolerations)).min()
}

/// A toleration counts if it is of this very effect; of several the shortest, unless one is for ever.
fn taint_eviction(taint: &Taint, tolerations: &[Toleration]) -> Option<i64> {
    let (since, _) = taint.time_added.as_deref().and_then(time::parse)?;
    let mut tolerated: Option<i64> = None;
    for toleration in tolerations.iter().filter(|t| t.effect == NO_EXECUTE && t.tolerates(taint)) {
        let seconds = toleration.seconds?.max(0);
        tolerated = Some(tolerated.map_or(seconds, |least| least.min(seconds)));
    }
    Some(since.saturating_add(tolerated.unwrap_or(0)))
}

/// What was decided about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    pub uid: String,
    /// Its eviction is done: nothing more is, whatever happens to the taints.
    pub evicted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Nothing,
    /// It was to be evicted: people are told that it is not.
    Cancel,
    Wait(Duration),
    Evict,
}

/// `now` and `at` in nanoseconds and seconds of Unix time.
pub fn judge(before: Option<&Sentence>, at: Option<i64>, now: u128) -> Then {
    match (before, at) {
        (Some(Sentence { evicted: true, .. }), Some(_))
        | (None | Some(Sentence { evicted: true, .. }), None) => Then::Nothing,
        (Some(_), None) => Then::Cancel,
        (_, Some(at)) => {
            let at = u128::from(at.max(0).unsigned_abs()) * 1_000_000_000;
            match at.checked_sub(now) {
                None | Some(0) => Then::Evict,
                // Later than any clock counts is as good as never: it is looked at again before.
                Some(left) => Then::Wait(Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX / 2))),
            }
        }
    }
}

/// Status that says why the pod goes; `None`: it says so already.
pub fn mark(pod: &Value, now: &str) -> Option<Value> {
    let there = kinds::conditions::find(pod, "DisruptionTarget");
    let is = |name: &str, value: &str| there.is_some_and(|c| c.str_at(&[name]) == Some(value));
    let said = is("status", "True");
    if said && is("reason", REASON) && is("message", MESSAGE) {
        return None;
    }
    let mut condition = Map::default();
    condition.set("type", "DisruptionTarget");
    condition.set("status", "True");
    condition.set("reason", REASON);
    condition.set("message", MESSAGE);
    if !said {
        condition.set("lastTransitionTime", now.to_owned());
    }
    let mut patch = Value::map();
    patch.map_at(&["metadata"]).set("uid", pod.str_at(&["metadata", "uid"]).unwrap_or_default().to_owned());
    let status = patch.map_at(&["status"]);
    status.set(runtime::CONDITIONS_ORDER, runtime::conditions_with(pod, "DisruptionTarget"));
    status.set("conditions", Value::List(vec![Value::Map(condition)]));
    Some(patch)
}
