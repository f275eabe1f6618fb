//! From when on a node is short of something, and which of these limits are crossed now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use node::container_runtime::Millis;
use object::quantity::{Format, Quantity};

use super::signal::{Condition, Observations, Signal};
use crate::config::Config;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    Quantity(Quantity),
    /// Of the whole; kubelet holds it in 32 bits, and the same bytes come of it.
    Share(f32),
}

impl Amount {
    /// `None`: nobody is to be bothered.
    fn parse(text: &str) -> Option<Amount> {
        match text.strip_suffix('%') {
            Some("0" | "100") => None,
            Some(percent) => {
                let share = percent.parse::<f32>().ok()? / 100.0;
                (0.0..=1.0).contains(&share).then_some(Amount::Share(share))
            }
            None => Quantity::parse(text).ok().filter(|quantity| quantity.sign() >= 0).map(Amount::Quantity),
        }
    }

    pub fn of(self, capacity: Quantity) -> Quantity {
        match self {
            Amount::Quantity(quantity) => quantity,
            Amount::Share(share) => {
                let bytes = (capacity.as_i64() as f64 * f64::from(share)) as i64;
                Quantity::from_i64(bytes, Format::BinarySi)
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    pub signal: Signal,
    pub value: Amount,
    /// It must be crossed for so long; zero: a hard one.
    pub grace: Duration,
    /// So much more is taken back once something is.
    pub min_reclaim: Option<Amount>,
}

impl Threshold {
    pub fn is_hard(&self) -> bool {
        self.grace.is_zero()
    }

    fn is_met(&self, observations: &Observations, with_reclaim: bool) -> bool {
        let Some(observed) = observations.get(&self.signal) else { return false };
        let mut wanted = self.value.of(observed.capacity);
        if let Some(more) = self.min_reclaim.filter(|_| with_reclaim) {
            wanted = wanted + more.of(observed.capacity);
        }
        wanted > observed.available
    }
}

/// Which file systems are not that of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disks {
    pub own_image_fs: bool,
    /// Images are elsewhere, and what containers write is not with them.
    pub split_container_fs: bool,
}

/// All thresholds of a configuration, which was found valid.
pub fn thresholds(config: &Config, disks: Disks) -> Vec<Threshold> {
    let reclaim = |signal: &str| {
        let found = config.eviction_minimum_reclaim.iter().find(|(of, _)| of == signal);
        found.and_then(|(_, text)| Amount::parse(text))
    };
    let grace = |signal: &str| {
        let found = config.eviction_soft_grace_period.iter().find(|(of, _)| of == signal);
        found.map(|(_, grace)| *grace)
    };
    let read = |(name, text): &(String, String), grace: Duration| {
        let value =
            Amount::parse(text).filter(|amount| !matches!(amount, Amount::Quantity(q) if q.is_zero()))?;
        Some(Threshold { signal: Signal::parse(name)?, value, grace, min_reclaim: reclaim(name) })
    };
    let mut all: Vec<Threshold> =
        config.eviction_hard.iter().filter_map(|pair| read(pair, Duration::ZERO)).collect();
    all.extend(config.eviction_soft.iter().filter_map(|pair| read(pair, grace(&pair.0)?)));
    let copies = |all: &[Threshold], from: Signal, to: Signal, hard_only: bool| -> Vec<Threshold> {
        let found = all.iter().filter(|of| of.signal == from && (of.is_hard() || !hard_only));
        found.map(|of| Threshold { signal: to, ..of.clone() }).collect()
    };
    if config.enforce_node_allocatable.iter().any(|what| what == "pods") {
        all.extend(copies(&all, Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable, true));
    }
    // What containers write is on one of the other two: its thresholds are theirs, whatever was configured.
    all.retain(|of| !matches!(of.signal, Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree));
    let with_images = disks.own_image_fs && !disks.split_container_fs;
    let (bytes, inodes) = match with_images {
        true => (Signal::ImageFsAvailable, Signal::ImageFsInodesFree),
        false => (Signal::NodeFsAvailable, Signal::NodeFsInodesFree),
    };
    all.extend(copies(&all, bytes, Signal::ContainerFsAvailable, false));
    all.extend(copies(&all, inodes, Signal::ContainerFsInodesFree, false));
    all
}

/// Those crossed now; with what is to be taken back on top, those not yet left behind.
pub fn met(thresholds: &[Threshold], observations: &Observations, with_reclaim: bool) -> BTreeSet<usize> {
    let all = thresholds.iter().enumerate();
    all.filter(|(_, threshold)| threshold.is_met(observations, with_reclaim)).map(|(at, _)| at).collect()
}

/// What is remembered from one look to the next. Thresholds are known by their place.
#[derive(Debug, Default)]
pub struct Pressures {
    first_observed: BTreeMap<usize, Millis>,
    met: BTreeSet<usize>,
    last_observed: BTreeMap<Condition, Millis>,
    /// What the Node says of itself.
    pub conditions: BTreeSet<Condition>,
}

impl Pressures {
    /// Thresholds that were crossed for long enough, memory first.
    pub fn observe(
        &mut self,
        thresholds: &[Threshold],
        observations: &Observations,
        transition: Duration,
        now: Millis,
    ) -> Vec<usize> {
        let mut crossed = met(thresholds, observations, false);
        let unresolved = met(thresholds, observations, true);
        crossed.extend(unresolved.intersection(&self.met));
        self.first_observed.retain(|at, _| crossed.contains(at));
        for at in &crossed {
            self.first_observed.entry(*at).or_insert(now);
            self.last_observed.insert(thresholds[*at].signal.condition(), now);
        }
        // A condition that comes and goes would have pods come and go.
        let recent = |since: Millis| now - since < millis(transition);
        let observed = self.last_observed.iter().filter(|(_, since)| recent(**since));
        self.conditions = observed.map(|(condition, _)| *condition).collect();
        let lasting = |(at, since): (&usize, &Millis)| now - since >= millis(thresholds[*at].grace);
        self.met = self.first_observed.iter().filter(|of| lasting(*of)).map(|(at, _)| *at).collect();
        let mut due: Vec<usize> = self.met.iter().copied().collect();
        due.sort_by_key(|at| !thresholds[*at].signal.is_memory());
        due
    }
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
