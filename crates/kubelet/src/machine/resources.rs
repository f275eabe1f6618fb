//! How much a machine has, and how much of it pods can have.

use std::collections::BTreeMap;

use object::Map;
use object::quantity::{Format, Quantity};

use super::facts::Facts;
use crate::config::Config;

const HUGE_PAGES: &str = "hugepages-";

/// Whole amounts by resource; CPU in thousandths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<String, i64>);

impl Amounts {
    pub fn get(&self, resource: &str) -> i64 {
        self.0.get(resource).copied().unwrap_or(0)
    }

    /// As quantities, in kubelet's forms.
    pub fn to_map(&self) -> Map {
        let mut map = Map::with_capacity(self.0.len());
        for (name, amount) in &self.0 {
            let quantity = match &**name {
                "cpu" => Quantity::from_milli(*amount, Format::DecimalSi),
                "pods" => Quantity::from_i64(*amount, Format::DecimalSi),
                _ => Quantity::from_i64(*amount, Format::BinarySi),
            };
            map.set(name.clone(), quantity.to_string());
        }
        map
    }
}

/// All of it.
pub fn capacity(facts: &Facts, config: &Config) -> Amounts {
    let mut pods = config.max_pods;
    if config.pods_per_core > 0 {
        pods = pods.min(facts.cores.saturating_mul(config.pods_per_core));
    }
    let mut amounts = BTreeMap::from([
        ("cpu".to_owned(), facts.cores.saturating_mul(1000)),
        ("memory".to_owned(), facts.memory_bytes),
        ("pods".to_owned(), pods),
    ]);
    if config.local_storage_capacity_isolation {
        amounts.insert("ephemeral-storage".to_owned(), facts.disk_bytes);
    }
    for (size, bytes) in &facts.huge_pages {
        let size = Quantity::from_i64(*size, Format::BinarySi);
        amounts.insert(format!("{HUGE_PAGES}{size}"), *bytes);
    }
    Amounts(amounts)
}

/// Without what the system and the node reserve, what eviction keeps free, and, of memory, huge pages.
pub fn allocatable(capacity: &Amounts, config: &Config) -> Amounts {
    let mut left = capacity.clone();
    let huge: i64 = capacity
        .0
        .iter()
        .filter(|(name, _)| name.starts_with(HUGE_PAGES))
        .fold(0_i64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    for (name, amount) in &mut left.0 {
        let whole = *amount;
        let mut reserved =
            reserved(&config.system_reserved, name).saturating_add(reserved(&config.kube_reserved, name));
        let signal = match &**name {
            "memory" => "memory.available",
            "ephemeral-storage" => "nodefs.available",
            _ => "",
        };
        let threshold = config.eviction_hard.iter().find(|(with, _)| with == signal);
        if let Some((_, text)) = threshold {
            reserved = reserved.saturating_add(amount_of(text, whole));
        }
        if name == "memory" {
            reserved = reserved.saturating_add(huge);
        }
        *amount = whole.saturating_sub(reserved).max(0);
    }
    left
}

fn reserved(pairs: &[(String, String)], resource: &str) -> i64 {
    let text = pairs.iter().find(|(name, _)| name == resource).map_or("0", |(_, text)| text);
    let quantity = Quantity::parse(text);
    quantity.map_or(0, |quantity| if resource == "cpu" { quantity.as_milli() } else { quantity.as_i64() })
}

/// A quantity, or a percentage of the whole.
pub fn amount_of(text: &str, whole: i64) -> i64 {
    match text.strip_suffix('%') {
        // Kubelet holds percentages in 32 bits; the same bytes come of it.
        Some(percent) => {
            let part = percent.parse::<f64>().map_or(0.0, |percent| percent as f32 / 100.0);
            (whole as f64 * f64::from(part)) as i64
        }
        None => Quantity::parse(text).map_or(0, |quantity| quantity.as_i64()),
    }
}
