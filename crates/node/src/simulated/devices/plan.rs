//! Which slices a simulated node publishes, and what its driver says of devices that are allocated.

use std::collections::BTreeSet;

use object::{Map, Value, time};

use crate::pod::short_uid;

pub const DRIVER: &str = "simulated.setpoint.dev";
const PREFIX: &str = "sim.setpoint.dev/";
/// On a slice: what it was made from. The server writes quantities and times in its own way, so slices are not compared as such.
const SOURCE: &str = "sim.setpoint.dev/devices-source";
const MOST_DEVICES: usize = 10_000;
/// The API takes so many in one slice, and fewer where they have taints or counters.
const PER_SLICE: usize = 128;
const RICH_PER_SLICE: usize = 64;

/// What a node has.
#[derive(Debug, Default, PartialEq)]
struct Pool {
    counters: Vec<Value>,
    devices: Vec<Map>,
}

/// A write to the API.
#[derive(Debug, PartialEq)]
pub enum Change {
    Create(Value),
    /// Of the slice at this place in the list of those there are.
    Update(usize, Value),
    Delete(usize),
}

pub fn annotation<'a>(node: &'a Value, name: &str) -> Option<&'a str> {
    let annotations = node.at(&["metadata", "annotations"]).and_then(Value::as_map)?;
    let (_, value) = annotations.iter().find(|(key, _)| key.strip_prefix(PREFIX) == Some(name))?;
    value.as_str()
}

/// What is to be written so that `there` become the slices of the node. `default`: what nodes have that say nothing.
pub fn changes(node: &Value, default: &str, there: &[Value]) -> Result<Vec<Change>, String> {
    let name = node.str_at(&["metadata", "name"]).unwrap_or_default();
    let contents = contents(pool(node, default)?);
    let wanted: Vec<(String, Map, String)> = contents
        .into_iter()
        .enumerate()
        .map(|(at, content)| {
            let source = codec::json::to_vec(&Value::Map(content.clone()));
            let source = format!("{:032x}", short_uid(&String::from_utf8_lossy(&source)));
            (format!("{name}-{DRIVER}-{at}"), content, source)
        })
        .collect();
    let find = |name: &str| there.iter().position(|slice| slice.str_at(&["metadata", "name"]) == Some(name));
    let source_of = |slice: &Value| slice.str_at(&["metadata", "annotations", SOURCE]).map(str::to_owned);
    let same = |(name, content, source): &(String, Map, String)| {
        find(name).is_some_and(|at| {
            source_of(&there[at]).as_deref() == Some(source) || names_in(&there[at]) == names_of(content)
        })
    };
    // A device that moves between slices, comes or goes makes a new generation; others change where they are.
    let in_place = there.len() == wanted.len() && wanted.iter().all(same);
    let newest = there.iter().map(generation).max();
    let generation_wanted =
        newest.map_or(1, |newest| if in_place { newest } else { newest.saturating_add(1) });
    let mut changes = Vec::new();
    for (slice, content, source) in &wanted {
        let at = find(slice);
        let done = at.is_some_and(|at| {
            source_of(&there[at]).as_ref() == Some(source) && generation(&there[at]) == generation_wanted
        });
        if done {
            continue;
        }
        let mut content = content.clone();
        keep_times(&mut content, there);
        let spec = spec(name, generation_wanted, wanted.len(), content);
        match at {
            None => changes.push(Change::Create(new_slice(slice, node, source, spec))),
            Some(at) => {
                let mut changed = there[at].clone();
                changed.map_at(&["metadata", "annotations"]).set(SOURCE, source.clone());
                changed.make_map().set("spec", spec);
                changes.push(Change::Update(at, changed));
            }
        }
    }
    let surplus = |slice: &Value| {
        let name = slice.str_at(&["metadata", "name"]);
        !wanted.iter().any(|(wanted, ..)| Some(wanted.as_str()) == name)
    };
    changes.extend((0..there.len()).filter(|at| surplus(&there[*at])).map(Change::Delete));
    Ok(changes)
}

/// Counters and devices must not stand in one slice.
fn contents(pool: Pool) -> Vec<Map> {
    let mut all = Vec::new();
    if !pool.counters.is_empty() {
        let mut content = Map::default();
        content.set("sharedCounters", Value::List(pool.counters));
        all.push(content);
    }
    let rich = |device: &Map| device.get("taints").is_some() || device.get("consumesCounters").is_some();
    let most = if pool.devices.iter().any(rich) { RICH_PER_SLICE } else { PER_SLICE };
    for devices in pool.devices.chunks(most) {
        let mut content = Map::default();
        content.set("devices", Value::List(devices.iter().cloned().map(Value::Map).collect()));
        all.push(content);
    }
    all
}

fn spec(node: &str, generation: i64, slices: usize, content: Map) -> Map {
    let mut pool = Map::default();
    pool.set("name", node.to_owned());
    pool.set("generation", generation);
    pool.set("resourceSliceCount", slices as i64);
    let mut spec = Map::default();
    spec.set("driver", DRIVER);
    spec.set("nodeName", node.to_owned());
    spec.set("pool", pool);
    for (name, value) in content.iter() {
        spec.set(name.clone(), value.clone());
    }
    spec
}

fn new_slice(name: &str, node: &Value, source: &str, spec: Map) -> Value {
    let mut owner = Map::default();
    owner.set("apiVersion", "v1");
    owner.set("kind", "Node");
    for part in ["name", "uid"] {
        owner.set(part, node.str_at(&["metadata", part]).unwrap_or_default().to_owned());
    }
    owner.set("controller", true);
    let mut slice = Value::map();
    let metadata = slice.map_at(&["metadata"]);
    metadata.set("name", name.to_owned());
    metadata.set("ownerReferences", vec![Value::Map(owner)]);
    slice.map_at(&["metadata", "annotations"]).set(SOURCE, source.to_owned());
    slice.make_map().set("spec", spec);
    slice
}

fn generation(slice: &Value) -> i64 {
    slice.at(&["spec", "pool", "generation"]).and_then(Value::as_int).unwrap_or_default()
}

fn devices_in(slice: &Value) -> &[Value] {
    slice.at(&["spec", "devices"]).and_then(Value::as_list).unwrap_or_default()
}

fn names_in(slice: &Value) -> BTreeSet<&str> {
    devices_in(slice).iter().filter_map(|device| device.str_at(&["name"])).collect()
}

fn names_of(content: &Map) -> BTreeSet<&str> {
    let devices = content.get("devices").and_then(Value::as_list).unwrap_or_default();
    devices.iter().filter_map(|device| device.str_at(&["name"])).collect()
}

/// A taint that is there already was added when it was; the server would date it anew.
fn keep_times(content: &mut Map, there: &[Value]) {
    let Some(Value::List(devices)) = content.get_mut("devices") else { return };
    for device in devices.iter_mut().filter_map(Value::as_map_mut) {
        let name = device.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(Value::List(taints)) = device.get_mut("taints") else { continue };
        let before = there.iter().flat_map(devices_in).find(|d| d.str_at(&["name"]) == Some(&name));
        let before = before.and_then(|d| d.get("taints")).and_then(Value::as_list).unwrap_or_default();
        for taint in taints.iter_mut().filter(|taint| taint.get("timeAdded").is_none()) {
            let is = |part: &str, other: &Value| {
                other.str_at(&[part]).unwrap_or_default() == taint.str_at(&[part]).unwrap_or_default()
            };
            let same = before.iter().find(|b| ["key", "value", "effect"].iter().all(|part| is(part, b)));
            if let Some(since) = same.and_then(|b| b.get("timeAdded")).cloned() {
                taint.make_map().set("timeAdded", since);
            }
        }
    }
}

fn pool(node: &Value, default: &str) -> Result<Pool, String> {
    let text = annotation(node, "devices").unwrap_or(default);
    let mut pool = read(text)?;
    for taint in annotation(node, "device-taints").into_iter().flat_map(|all| all.split(',')) {
        let taint = taint.trim();
        let read = || {
            let (device, rest) = taint.split_once(':')?;
            let (what, effect) = rest.rsplit_once(':')?;
            let (key, value) = what.split_once('=').unwrap_or((what, ""));
            Some((device, key, value, effect))
        };
        if taint.is_empty() {
            continue;
        }
        let (device, key, value, effect) =
            read().ok_or_else(|| format!("device-taints: {taint:?} is not DEVICE:KEY=VALUE:EFFECT"))?;
        for entry in &mut pool.devices {
            if device != "*" && entry.get("name").and_then(Value::as_str) != Some(device) {
                continue;
            }
            let mut taint = Map::default();
            taint.set("key", key.to_owned());
            if !value.is_empty() {
                taint.set("value", value.to_owned());
            }
            taint.set("effect", effect.to_owned());
            let mut taints = entry.get("taints").and_then(Value::as_list).unwrap_or_default().to_vec();
            taints.push(Value::Map(taint));
            entry.set("taints", Value::List(taints));
        }
    }
    Ok(pool)
}

/// A number; a list of devices as ResourceSlices have them, each with a `count` if it stands for several; or a map of such a list
/// and `sharedCounters`. `Err` says what is wrong.
pub fn check(text: &str) -> Result<(), String> {
    read(text).map(|_| ())
}

fn read(text: &str) -> Result<Pool, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Pool::default());
    }
    if let Ok(count) = text.parse::<usize>() {
        let mut device = Map::default();
        device.set("count", count as i64);
        return Ok(Pool { counters: Vec::new(), devices: expand(&[Value::Map(device)])? });
    }
    let tree = codec::json::parse(text.as_bytes(), None).map_err(|error| format!("devices: {error}"))?;
    let list = |name: &str| tree.get(name).and_then(Value::as_list).unwrap_or_default();
    match &tree {
        Value::List(devices) => Ok(Pool { counters: Vec::new(), devices: expand(devices)? }),
        Value::Map(_) => {
            Ok(Pool { counters: list("sharedCounters").to_vec(), devices: expand(list("devices"))? })
        }
        _ => Err("devices: neither a number nor a list of devices".to_owned()),
    }
}

fn expand(devices: &[Value]) -> Result<Vec<Map>, String> {
    let mut all = Vec::new();
    for device in devices {
        let Some(device) = device.as_map() else { return Err("devices: a device is not a map".to_owned()) };
        let name = device.get("name").and_then(Value::as_str).unwrap_or("device");
        let count = device.get("count").and_then(Value::as_int);
        let names: Vec<String> = match count {
            None => vec![name.to_owned()],
            Some(count) => {
                let count = usize::try_from(count).ok().filter(|count| *count <= MOST_DEVICES);
                let count = count.ok_or_else(|| format!("devices: at most {MOST_DEVICES}"))?;
                (0..count).map(|at| format!("{name}-{at}")).collect()
            }
        };
        for name in names {
            let mut one = device.clone();
            one.remove("count");
            one.set("name", name);
            all.push(one);
        }
        if all.len() > MOST_DEVICES {
            return Err(format!("devices: at most {MOST_DEVICES}"));
        }
    }
    Ok(all)
}

/// The nodes whose devices a claim has.
pub fn nodes_of(claim: &Value) -> Vec<String> {
    let results = claim.at(&["status", "allocation", "devices", "results"]).and_then(Value::as_list);
    let ours = |result: &&Value| result.str_at(&["driver"]) == Some(DRIVER);
    let pools = results.unwrap_or_default().iter().filter(ours).filter_map(|r| r.str_at(&["pool"]));
    pools.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}

/// What the drivers say of a claim's devices: the status to apply, and when there will be more to say (Unix seconds). `node` finds a
/// simulated node by name.
pub fn device_status(
    claim: &Value,
    node: impl Fn(&str) -> Option<Value>,
    now: i64,
) -> (Option<Value>, Option<i64>) {
    let list = |path: &[&str]| claim.at(path).and_then(Value::as_list).unwrap_or_default();
    let allocated = claim.str_at(&["status", "allocation", "allocationTimestamp"]);
    let allocated = allocated.and_then(time::parse).map_or(0, |(seconds, _)| seconds);
    let reserved = !list(&["status", "reservedFor"]).is_empty();
    let (mut devices, mut again, mut news) = (Vec::new(), None, false);
    for result in list(&["status", "allocation", "devices", "results"]) {
        let part = |name: &str| result.str_at(&[name]).unwrap_or_default();
        let Some(node) = Some(part("pool")).filter(|_| part("driver") == DRIVER).and_then(&node) else {
            continue;
        };
        let known = list(&["status", "devices"]).iter().find(|device| {
            ["driver", "pool", "device", "shareID"].iter().all(|p| device.str_at(&[p]) == result.str_at(&[p]))
        });
        let (wanted, later) = said(result, &node, reserved, allocated, now);
        again = [again, later].into_iter().flatten().min();
        let DeviceStatus { conditions, more } = wanted;
        if conditions.is_empty() && more.is_none() {
            continue;
        }
        let mut device = Map::default();
        for name in ["driver", "pool", "device", "shareID"] {
            if let Some(value) = result.get(name) {
                device.set(name, value.clone());
            }
        }
        for (name, value) in more.iter().flat_map(Map::iter) {
            device.set(name.clone(), value.clone());
            news |= known.and_then(|known| known.get(name)) != Some(value);
        }
        let before = known.and_then(|known| known.get("conditions")).and_then(Value::as_list);
        let mut all = Vec::new();
        for (kind, reason) in conditions {
            let same =
                |c: &&Value| c.str_at(&["type"]) == Some(&kind) && c.str_at(&["status"]) == Some("True");
            let since = before.unwrap_or_default().iter().find(same);
            let since = since.and_then(|c| c.str_at(&["lastTransitionTime"])).map(str::to_owned);
            news |= since.is_none();
            let mut condition = Map::default();
            condition.set("type", kind);
            condition.set("status", "True");
            condition.set("reason", reason);
            condition.set("message", "");
            condition.set("lastTransitionTime", since.unwrap_or_else(|| time::format_seconds(now)));
            all.push(Value::Map(condition));
        }
        device.set("conditions", Value::List(all));
        devices.push(Value::Map(device));
    }
    let mut config = Value::map();
    config.map_at(&["status"]).set("devices", Value::List(devices));
    (news.then_some(config), again)
}

/// What a driver says of one device.
struct DeviceStatus {
    /// Types and reasons of conditions that are true.
    conditions: Vec<(String, &'static str)>,
    /// Other members of its status.
    more: Option<Map>,
}

fn said(
    result: &Value,
    node: &Value,
    reserved: bool,
    allocated: i64,
    now: i64,
) -> (DeviceStatus, Option<i64>) {
    let names = |list: &str| -> Vec<String> {
        let list = result.get(list).and_then(Value::as_list).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut said = DeviceStatus { conditions: Vec::new(), more: None };
    let mut again = None;
    // A pod waits for these conditions before it is bound.
    let bound = names("bindingConditions");
    if !bound.is_empty() {
        let wait = annotation(node, "binding-seconds").unwrap_or("0");
        match wait.parse::<u32>().ok().map(|wait| allocated.saturating_add(i64::from(wait))) {
            None => {}
            Some(at) if now < at => again = Some(at),
            Some(_) if annotation(node, "binding-failure") == Some("true") => {
                let failed = names("bindingFailureConditions").into_iter().take(1);
                said.conditions.extend(failed.map(|kind| (kind, "SimulatedFailure")));
            }
            Some(_) => said.conditions.extend(bound.into_iter().map(|kind| (kind, "SimulatedDevice"))),
        }
    }
    if let Some(status) = annotation(node, "device-status").filter(|status| reserved && *status != "false") {
        said.conditions.push(("Ready".to_owned(), "SimulatedDevice"));
        let more = codec::json::parse(status.as_bytes(), None).ok();
        said.more = more.as_ref().and_then(Value::as_map).cloned();
    }
    (said, again)
}
