//! Node ports: a bit each in one object, which every write that changes one guards.
//!
//! Kept as upstream keeps it: `/registry/ranges/servicenodeports`, a RangeAllocation whose `data` is one big-endian
//! number; bit *n* is port *base + n*.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use codec::json;
use object::{FieldError, Obj, Status, Value};

use super::invalid;
use super::spec::{Port, Spec};
use crate::{Attempt, Effects, Refusal};

const TAKEN: &str = "provided port is already allocated";
const FULL: &str = "range is full";
/// As of addresses, but `min(max(16, size / 32), 128)`.
const STATIC_MIN: u16 = 16;
const STATIC_MAX: u16 = 128;
const STATIC_STEP: u16 = 32;
/// What upstream's dry run counts from.
const DRY_RUN_PORT: i64 = 32_768;

/// The name of the one object.
pub const NODE_PORTS: &str = "servicenodeports";

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0} is not a range of ports: write it as FIRST-LAST, such as 30000-32767")]
pub struct BadPorts(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    base: u16,
    size: u16,
}

impl Default for PortRange {
    fn default() -> PortRange {
        PortRange { base: 30_000, size: 2_768 }
    }
}

impl PortRange {
    /// `30000-32767`, `30000+2768` or one port.
    pub fn parse(text: &str) -> Result<PortRange, BadPorts> {
        let bad = || BadPorts(text.to_owned());
        let port = |text: &str| text.trim().parse::<u16>().map_err(|_| bad());
        let (base, size) = match (text.split_once('-'), text.split_once('+')) {
            (Some((first, last)), _) => {
                let (first, last) = (port(first)?, port(last)?);
                (first, last.checked_sub(first).and_then(|n| n.checked_add(1)).ok_or_else(bad)?)
            }
            (None, Some((first, size))) => (port(first)?, port(size)?),
            (None, None) => (port(text)?, 1),
        };
        let fits = base > 0 && size > 0 && base.checked_add(size - 1).is_some();
        if fits { Ok(PortRange { base, size }) } else { Err(bad()) }
    }

    fn offset(&self, port: i64) -> Option<u16> {
        let offset = u16::try_from(port).ok()?.checked_sub(self.base)?;
        (offset < self.size).then_some(offset)
    }

    fn static_band(&self) -> u16 {
        if self.size <= STATIC_MIN { 0 } else { (self.size / STATIC_STEP).clamp(STATIC_MIN, STATIC_MAX) }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = u32::from(self.base) + u32::from(self.size) - 1;
        write!(f, "{}-{last}", self.base)
    }
}

/// Which ports of a range are taken, by offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePorts {
    range: PortRange,
    taken: BTreeSet<u16>,
}

impl NodePorts {
    /// Those that these services hold.
    pub fn held_by<'s>(range: PortRange, services: impl IntoIterator<Item = &'s Value>) -> NodePorts {
        let held = services.into_iter().flat_map(in_use);
        NodePorts { range, taken: held.filter_map(|port| range.offset(port)).collect() }
    }

    /// What a stored RangeAllocation says; `None` when it is about another range.
    pub fn decode(range: PortRange, stored: &Value) -> Option<NodePorts> {
        if stored.str_at(&["range"]) != Some(range.to_string().as_str()) {
            return None;
        }
        let data = STANDARD.decode(stored.str_at(&["data"]).unwrap_or("")).ok()?;
        let mut taken = BTreeSet::new();
        for (i, byte) in data.iter().rev().enumerate() {
            for bit in (0..8).filter(|bit| byte & (1 << bit) != 0) {
                taken.extend(u16::try_from(i * 8 + bit).ok().filter(|offset| *offset < range.size));
            }
        }
        Some(NodePorts { range, taken })
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = self.taken.last().map_or(0, |last| usize::from(*last) / 8 + 1);
        let mut data = vec![0u8; bytes];
        for offset in &self.taken {
            let offset = usize::from(*offset);
            data[bytes - 1 - offset / 8] |= 1 << (offset % 8);
        }
        let mut new = Value::map();
        let top = new.make_map();
        top.set("kind", "RangeAllocation");
        top.set("apiVersion", "v1");
        top.set("metadata", Value::map());
        top.set("range", self.range.to_string());
        top.set("data", STANDARD.encode(&data));
        json::to_vec(&new)
    }

    fn take_next(&mut self, random: impl Fn(u64) -> u64) -> Option<i64> {
        let band = self.range.static_band();
        let bands = [(band, self.range.size - band), (0, band)];
        let free = bands.into_iter().filter(|(_, size)| *size > 0).find_map(|(offset, size)| {
            let start = random(u64::from(size)) as u32;
            let at = |i: u16| offset + ((start + u32::from(i)) % u32::from(size)) as u16;
            (0..size).map(at).find(|offset| !self.taken.contains(offset))
        })?;
        self.taken.insert(free);
        Some(i64::from(self.range.base) + i64::from(free))
    }
}

/// The ports a service holds.
pub fn in_use(service: &Value) -> Vec<i64> {
    held(&Spec::of(service)).collect()
}

fn held(spec: &Spec) -> impl Iterator<Item = i64> {
    let check = if spec.needs_health_check() { spec.health_check } else { 0 };
    spec.node_ports().chain((check != 0).then_some(check))
}

/// The ports as one write sees and changes them.
pub(super) struct Ports {
    stored: Option<Arc<Obj>>,
    before: Option<NodePorts>,
    now: NodePorts,
    /// Taken by this write, in order.
    fresh: Vec<i64>,
    /// Given back when all else has gone well: what is given up is not taken again by the same write.
    leaving: Vec<i64>,
}

impl Ports {
    pub(super) fn read(attempt: &Attempt<'_>, range: PortRange) -> Result<Ports, Status> {
        let stored = attempt.find("", "rangeallocations", "", NODE_PORTS);
        let before = stored.as_ref().and_then(|obj| NodePorts::decode(range, &attempt.tree(obj)));
        // Never written, or for another range: the services themselves say what is taken.
        let now = match &before {
            Some(before) => before.clone(),
            None => {
                let services = attempt.all("", "services", "")?;
                NodePorts::held_by(range, &services.iter().map(|obj| attempt.tree(obj)).collect::<Vec<_>>())
            }
        };
        Ok(Ports { stored, before, now, fresh: Vec::new(), leaving: Vec::new() })
    }

    /// Adds the changes to the commit, if there are any.
    pub(super) fn write(mut self, attempt: &Attempt<'_>, effects: &mut Effects) {
        for port in &self.leaving {
            if let Some(offset) = self.now.range.offset(*port) {
                self.now.taken.remove(&offset);
            }
        }
        let untouched = self.fresh.is_empty() && self.leaving.is_empty();
        if untouched || self.before.as_ref() == Some(&self.now) {
            return;
        }
        match (&self.stored, attempt.stored("", "rangeallocations")) {
            (Some(stored), _) => effects.replace(stored, self.now.encode()),
            (None, Some(storage)) => effects.create(storage.key("", NODE_PORTS).into(), self.now.encode()),
            (None, None) => tracing::error!("the catalogue has no RangeAllocations"),
        }
    }

    pub(super) fn release_all(&mut self, old: &Spec) {
        self.leaving.extend(held(old));
    }

    pub(super) fn update(
        &mut self,
        attempt: &Attempt<'_>,
        spec: &mut Spec,
        old: Option<&Spec>,
    ) -> Result<(), Refusal> {
        match old {
            None if spec.may_have_node_ports() => self.allot_new(attempt, spec)?,
            None => {}
            Some(old) => {
                if old.may_have_node_ports() && !spec.may_have_node_ports() {
                    self.leaving.extend(old.node_ports());
                }
                if spec.may_have_node_ports() {
                    self.allot_changed(attempt, spec, old)?;
                }
            }
        }
        match (old.is_some_and(Spec::needs_health_check), spec.needs_health_check()) {
            (false, true) => self.allot_health_check(attempt, spec)?,
            (true, false) => self.leaving.extend(old.map(|old| old.health_check).filter(|port| *port != 0)),
            _ => {}
        }
        Ok(())
    }

    /// One port in several protocols gets one node port, the one that any of them names.
    fn allot_new(&mut self, attempt: &Attempt<'_>, spec: &mut Spec) -> Result<(), Refusal> {
        let gets = spec.gets_node_ports();
        let mut given: BTreeMap<i64, i64> = BTreeMap::new();
        // The first node port that any protocol of a port names.
        let mut named: BTreeMap<i64, i64> = BTreeMap::new();
        for port in spec.ports.iter().filter(|port| port.node_port != 0) {
            named.entry(port.port).or_insert(port.node_port);
        }
        for i in 0..spec.ports.len() {
            let Port { port, node_port, .. } = spec.ports[i];
            if node_port == 0 && !gets {
                continue;
            }
            match given.get(&port).copied() {
                None => {
                    let node_port = match named.get(&port).copied() {
                        Some(wanted) => {
                            self.take(attempt, wanted).map_err(|e| bad_port(attempt, i, wanted, &e))?
                        }
                        None => self.take_any(attempt)?,
                    };
                    spec.ports[i].node_port = node_port;
                    given.insert(port, node_port);
                }
                Some(shared) if node_port == 0 => spec.ports[i].node_port = shared,
                Some(shared) if node_port != shared => {
                    self.take(attempt, node_port).map_err(|e| bad_port(attempt, i, node_port, &e))?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn allot_changed(&mut self, attempt: &Attempt<'_>, spec: &mut Spec, old: &Spec) -> Result<(), Refusal> {
        let before: Vec<i64> = old.node_ports().collect();
        let gets = spec.gets_node_ports();
        let mut seen: BTreeSet<(String, i64)> = BTreeSet::new();
        for i in 0..spec.ports.len() {
            let wanted = spec.ports[i].node_port;
            if wanted == 0 && !gets {
                continue;
            }
            if wanted == 0 {
                spec.ports[i].node_port = self.take_any(attempt)?;
            } else if !before.contains(&wanted) && !self.fresh.contains(&wanted) {
                self.take(attempt, wanted).map_err(|e| bad_port(attempt, i, wanted, &e))?;
            }
            let one = (spec.ports[i].protocol.clone(), spec.ports[i].node_port);
            if !seen.insert(one.clone()) {
                return Err(Status::unknown(format!("duplicate nodePort: {{{} {}}}", one.0, one.1)).into());
            }
        }
        let now: Vec<i64> = spec.node_ports().collect();
        self.leaving.extend(before.iter().filter(|port| !now.contains(port)));
        Ok(())
    }

    fn allot_health_check(&mut self, attempt: &Attempt<'_>, spec: &mut Spec) -> Result<(), Refusal> {
        let wanted = spec.health_check;
        let taken = match wanted {
            0 => self
                .any(attempt)
                .ok_or_else(|| format!("failed to allocate a HealthCheck NodePort 0: {FULL}")),
            wanted => self
                .take(attempt, wanted)
                .map_err(|e| format!("failed to allocate requested HealthCheck NodePort {wanted}: {e}")),
        };
        spec.health_check = taken.map_err(Status::internal)?;
        Ok(())
    }

    fn take(&mut self, attempt: &Attempt<'_>, port: i64) -> Result<i64, String> {
        if attempt.dry_run && self.fresh.contains(&port) {
            return Err(TAKEN.to_owned());
        }
        let Some(offset) = self.now.range.offset(port) else {
            // As upstream: a dry run only looks whose the port is, and nobody has one outside the range.
            if attempt.dry_run {
                self.fresh.push(port);
                return Ok(port);
            }
            let range = self.now.range;
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {range}"
            ));
        };
        if !self.now.taken.insert(offset) {
            return Err(TAKEN.to_owned());
        }
        self.fresh.push(port);
        Ok(port)
    }

    fn any(&mut self, attempt: &Attempt<'_>) -> Option<i64> {
        let port = if attempt.dry_run {
            // As upstream: a dry run shows a number that no service ever gets.
            let last = self.fresh.iter().copied().max().map_or(DRY_RUN_PORT, |last| last.max(0));
            // Go keeps the number in 32 bits.
            i64::from((last + 1) as i32)
        } else {
            self.now.take_next(|below| attempt.env.random_below(below))?
        };
        self.fresh.push(port);
        Some(port)
    }

    fn take_any(&mut self, attempt: &Attempt<'_>) -> Result<i64, Refusal> {
        let full = || Status::internal(format!("failed to allocate a nodePort: {FULL}")).into();
        self.any(attempt).ok_or_else(full)
    }
}

fn bad_port(attempt: &Attempt<'_>, i: usize, port: i64, why: &str) -> Refusal {
    let field = format!("spec.ports[{i}].nodePort");
    invalid(attempt, vec![FieldError::invalid(field, port.to_string(), why)])
}
