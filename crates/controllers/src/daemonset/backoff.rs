//! Failed pods are deleted less and less often: a node that refuses a pod would otherwise be asked without end.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(15 * 60);

/// Of one set: by node, for the generation of the set it failed with.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    generation: i64,
    nodes: BTreeMap<String, Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    wait: Duration,
    since: Instant,
}

impl Backoff {
    /// A pod failed on the node: `None` if it may be deleted now, or how long the node is left alone.
    pub fn failed(&mut self, generation: i64, node: &str, now: Instant) -> Option<Duration> {
        if self.generation != generation {
            *self = Backoff { generation, nodes: BTreeMap::new() };
        }
        let calm = |entry: &Entry| now - entry.since > MOST * 2;
        match self.nodes.get_mut(node) {
            Some(entry) if !calm(entry) => {
                if now - entry.since < entry.wait {
                    return Some(entry.wait);
                }
                *entry = Entry { wait: (entry.wait * 2).min(MOST), since: now };
            }
            _ => {
                // What has been well for long is forgotten.
                self.nodes.retain(|_, entry| !calm(entry));
                self.nodes.insert(node.to_owned(), Entry { wait: FIRST, since: now });
            }
        }
        None
    }
}
