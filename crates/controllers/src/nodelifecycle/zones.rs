//! Zones: how many of their nodes are well, and how fast the others may be given up.

use std::collections::BTreeMap;

/// How fast nodes are given up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Nodes a second: in a zone that is well, and in a large one that is half down.
    pub usual: f64,
    pub secondary: f64,
    /// A zone with more nodes is large.
    pub large: usize,
    /// This part of a zone's nodes makes it disrupted.
    pub unhealthy: f64,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates { usual: 0.1, secondary: 0.01, large: 50, unhealthy: 0.55 }
    }
}

/// A failed attempt is made again after this.
const AGAIN_MS: i64 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    Initial,
    Normal,
    PartialDisruption,
    FullDisruption,
}

/// What follows for all nodes from the state of their zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Usual,
    /// Nobody seems to be well: the fault is rather ours. Take the taints away and wait.
    AllDown,
    /// Somebody is well again: everybody gets a full grace period.
    Back,
}

#[derive(Debug, Default)]
pub struct Zones {
    rates: Rates,
    zones: BTreeMap<String, Zone>,
}

#[derive(Debug)]
struct Zone {
    /// `None`: no nodes are left in it.
    state: Option<ZoneState>,
    queue: Queue,
}

/// `ready`: of each node of the zone, is it ready?
pub fn state_of(ready: &[bool], unhealthy: f64) -> ZoneState {
    let well = ready.iter().filter(|ready| **ready).count();
    let ill = ready.len() - well;
    if well == 0 && ill > 0 {
        ZoneState::FullDisruption
    } else if ill > 2 && ill as f64 / ready.len() as f64 >= unhealthy {
        ZoneState::PartialDisruption
    } else {
        ZoneState::Normal
    }
}

impl Zones {
    pub fn new(rates: Rates) -> Zones {
        Zones { rates, zones: BTreeMap::new() }
    }

    /// A zone has nodes.
    pub fn add(&mut self, zone: &str, now_ms: i64) {
        let known = self.zones.get(zone).is_some_and(|zone| zone.state.is_some());
        if !known {
            let fresh = Zone { state: Some(ZoneState::Initial), queue: Queue::new(self.rates.usual, now_ms) };
            self.zones.insert(zone.to_owned(), fresh);
        }
    }

    /// Looks at all zones after all nodes were looked at.
    pub fn judge(&mut self, nodes: &BTreeMap<String, Vec<bool>>, now_ms: i64) -> Mode {
        for zone in nodes.keys() {
            self.add(zone, now_ms);
        }
        for (name, zone) in &mut self.zones {
            if !nodes.contains_key(name) {
                zone.state = None;
            }
        }
        let new: BTreeMap<&str, ZoneState> = nodes
            .iter()
            .map(|(zone, ready)| (zone.as_str(), state_of(ready, self.rates.unhealthy)))
            .collect();
        let all_down = new.values().all(|state| *state == ZoneState::FullDisruption);
        let mut states = self.zones.values().filter_map(|zone| zone.state);
        let all_were_down = states.all(|state| state == ZoneState::FullDisruption);
        if all_down && all_were_down {
            return Mode::Usual;
        }
        for (name, zone) in &mut self.zones {
            let (Some(old), Some(new)) = (zone.state, new.get(name.as_str()).copied()) else { continue };
            let size = nodes.get(name).map_or(0, Vec::len);
            if all_down {
                zone.queue.limit(0.0, now_ms);
            } else if old != new || all_were_down {
                zone.queue.limit(rate(&self.rates, new, size), now_ms);
            }
            zone.state = Some(new);
        }
        match (all_down, all_were_down) {
            (true, _) => Mode::AllDown,
            (_, true) => Mode::Back,
            _ => Mode::Usual,
        }
    }

    /// The node shall be given up when its turn comes; `again`: even if its turn has been.
    pub fn mark(&mut self, zone: &str, node: &str, again: bool, now_ms: i64) {
        self.add(zone, now_ms);
        if let Some(zone) = self.zones.get_mut(zone) {
            if again {
                zone.queue.remove(node);
            }
            zone.queue.add(node, now_ms);
        }
    }
    pub fn unmark(&mut self, zone: &str, node: &str) {
        if let Some(zone) = self.zones.get_mut(zone) {
            zone.queue.remove(node);
        }
    }

    /// A node whose turn has come.
    pub fn next(&mut self, now_ms: i64) -> Option<(String, String)> {
        self.zones.iter_mut().find_map(|(name, zone)| Some((name.clone(), zone.queue.take(now_ms)?)))
    }
    /// It could not be given up: once more.
    pub fn retry(&mut self, zone: &str, node: &str, now_ms: i64) {
        if let Some(zone) = self.zones.get_mut(zone) {
            zone.queue.remove(node);
            zone.queue.add(node, now_ms + AGAIN_MS);
        }
    }
    /// Milliseconds until somebody's turn may come; `None`: nobody waits, or nobody may be given up.
    pub fn wait(&self, now_ms: i64) -> Option<i64> {
        self.zones.values().filter_map(|zone| zone.queue.wait(now_ms)).min()
    }

    #[cfg(test)]
    pub fn state(&self, zone: &str) -> Option<ZoneState> {
        self.zones.get(zone)?.state
    }
}

fn rate(rates: &Rates, state: ZoneState, size: usize) -> f64 {
    match state {
        ZoneState::PartialDisruption if size > rates.large => rates.secondary,
        ZoneState::PartialDisruption => 0.0,
        // A whole zone down, others well: the zone is lost, at the usual pace.
        _ => rates.usual,
    }
}

/// Nodes waiting to be given up, one token each, one token at most in store.
#[derive(Debug)]
struct Queue {
    rate: f64,
    tokens: f64,
    filled_ms: i64,
    /// By when they may be taken, then in the order they came.
    waiting: BTreeMap<(i64, u64), String>,
    /// And their places; those already taken have none, and marking them again changes nothing.
    known: BTreeMap<String, Option<(i64, u64)>>,
    next: u64,
}

impl Queue {
    fn new(rate: f64, now_ms: i64) -> Queue {
        let (waiting, known) = (BTreeMap::new(), BTreeMap::new());
        Queue { rate, tokens: 1.0, filled_ms: now_ms, waiting, known, next: 0 }
    }

    fn limit(&mut self, rate: f64, now_ms: i64) {
        if self.rate == rate {
            return;
        }
        self.fill(now_ms);
        // A new pace does not give a node away for free.
        self.tokens = if self.rate > 0.0 { self.tokens.floor() } else { 0.0 };
        self.rate = rate;
    }

    fn fill(&mut self, now_ms: i64) {
        let passed = (now_ms - self.filled_ms).max(0) as f64 / 1000.0;
        self.tokens = (self.tokens + passed * self.rate).min(1.0);
        self.filled_ms = now_ms;
    }

    fn add(&mut self, node: &str, due_ms: i64) {
        if !self.known.contains_key(node) {
            let place = (due_ms, self.next);
            self.next += 1;
            self.known.insert(node.to_owned(), Some(place));
            self.waiting.insert(place, node.to_owned());
        }
    }

    fn remove(&mut self, node: &str) {
        if let Some(Some(place)) = self.known.remove(node) {
            self.waiting.remove(&place);
        }
    }

    fn take(&mut self, now_ms: i64) -> Option<String> {
        self.fill(now_ms);
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= now_ms)?;
        if self.rate <= 0.0 || self.tokens < 1.0 - 1e-9 {
            return None;
        }
        self.tokens = (self.tokens - 1.0).max(0.0);
        let node = first.remove();
        self.known.insert(node.clone(), None);
        Some(node)
    }

    fn wait(&self, now_ms: i64) -> Option<i64> {
        let ((due, _), _) = self.waiting.first_key_value()?;
        if self.rate <= 0.0 {
            return None;
        }
        let token = ((1.0 - self.tokens) / self.rate * 1000.0).ceil() as i64 + self.filled_ms - now_ms;
        Some(token.max(due - now_ms).max(1))
    }
}
