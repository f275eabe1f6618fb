//! Which events are new, which are one more of the same, and which are too many.
//!
//! ```text
//! record ── the tenth different message within ten minutes? ── yes: "(combined from similar events): ..."
//!        ── seen before? ── yes: one more of that event, patched
//!        ── more than 25 at once from this source about this object, then one per five minutes? ── dropped
//! ```

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

use super::lru::Lru;
use super::{Record, Severity};

/// So many events, groups and sources are remembered; the ones not seen longest are forgotten.
const REMEMBERED: usize = 4096;
/// From so many different messages on they are combined.
const SIMILAR: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
const SPAM_BURST: f64 = 25.0;
const SPAM_REFILL_SECONDS: f64 = 300.0;

/// An event to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    pub message: String,
    pub name: String,
    pub first_nanos: u128,
    /// More than one: the event is there already and is patched.
    pub count: u64,
    /// Stands for events that differ by their message.
    pub combined: bool,
    /// Where this is remembered.
    pub key: u128,
}

pub struct Correlator {
    events: Lru<Option<Seen>>,
    groups: Lru<Group>,
    sources: Lru<Bucket>,
}

struct Seen {
    name: String,
    first_nanos: u128,
    count: u64,
}

/// Events that differ by their message only.
struct Group {
    messages: BTreeSet<u128>,
    last: Instant,
}

struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Default for Correlator {
    fn default() -> Correlator {
        Correlator {
            events: Lru::new(REMEMBERED),
            groups: Lru::new(REMEMBERED),
            sources: Lru::new(REMEMBERED),
        }
    }
}

impl Correlator {
    /// `None`: too many. `name` is what a new event would be called.
    pub(super) fn observe(&mut self, record: &Record, name: String, now: Instant) -> Option<Observed> {
        let about = &record.about;
        let source = (&about.kind, &about.namespace, &about.name, &about.uid, &about.api_version);
        let similar = (source, record.severity == Severity::Normal, &record.reason);

        let group_key = hash(&("group", similar));
        let message_key = hash(&record.message);
        let fresh = || Group { messages: BTreeSet::new(), last: now };
        let group = self.groups.entry(group_key, fresh);
        if now - group.last > SIMILAR_WITHIN {
            group.messages.clear();
        }
        group.last = now;
        group.messages.insert(message_key);
        let combined = group.messages.len() >= SIMILAR;
        if combined {
            // Enough are known to go on combining; the set grows no further.
            group.messages.pop_first();
        }

        let (key, message) = if combined {
            (group_key, format!("(combined from similar events): {}", record.message))
        } else {
            (hash(&("event", similar, &about.field_path, &record.message)), record.message.clone())
        };
        let seen = self.events.entry(key, || None);
        let first = Seen { name, first_nanos: record.at_nanos, count: 0 };
        let seen = seen.get_or_insert(first);
        seen.count += 1;
        let observed = Observed {
            message,
            name: seen.name.clone(),
            first_nanos: seen.first_nanos,
            count: seen.count,
            combined,
            key,
        };
        let bucket = self.sources.entry(hash(&source), || Bucket { tokens: SPAM_BURST, filled: now });
        bucket.accepts(now).then_some(observed)
    }

    /// The event was written under another name than was meant.
    pub(super) fn renamed(&mut self, key: u128, name: &str) {
        if let Some(seen) = self.events.entry(key, || None) {
            name.clone_into(&mut seen.name);
        }
    }

    /// The event was not written at all.
    pub(super) fn forget(&mut self, key: u128) {
        *self.events.entry(key, || None) = None;
    }
}

impl Bucket {
    fn accepts(&mut self, now: Instant) -> bool {
        let refill = (now - self.filled).as_secs_f64() / SPAM_REFILL_SECONDS;
        (self.tokens, self.filled) = ((self.tokens + refill).min(SPAM_BURST), now);
        let accepted = self.tokens >= 1.0;
        if accepted {
            self.tokens -= 1.0;
        }
        accepted
    }
}

/// The texts themselves would be most of what is remembered.
pub(super) fn hash(of: &impl Hash) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        of.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    (half(0) << 64) | half(1)
}

#[cfg(test)]
mod tests {
    use env::Env;

    use super::*;
    use crate::recorder::ObjectRef;

    struct Rig {
        env: Env,
        correlator: Correlator,
        made: u64,
    }

    fn rig() -> Rig {
        Rig { env: Env::simulated(1), correlator: Correlator::default(), made: 0 }
    }

    impl Rig {
        fn say(&mut self, object: &str, reason: &str, message: &str) -> Option<Observed> {
            let about = ObjectRef {
                api_version: "v1".into(),
                kind: "Pod".into(),
                namespace: "default".into(),
                name: object.into(),
                uid: object.into(),
                resource_version: "1".into(),
                field_path: String::new(),
            };
            let record = Record {
                annotations: Vec::new(),
                about,
                severity: Severity::Normal,
                reason: reason.into(),
                message: message.into(),
                at_nanos: self.env.now_nanos(),
            };
            self.made += 1;
            self.correlator.observe(&record, format!("{object}.{}", self.made), self.env.monotonic())
        }
        async fn sleep(&self, seconds: u64) {
            self.env.sleep(Duration::from_secs(seconds)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_again_is_counted_on_the_first_event() {
        let mut rig = rig();
        let first = rig.say("a", "Pulled", "image").unwrap();
        rig.sleep(5).await;
        let second = rig.say("a", "Pulled", "image").unwrap();
        assert_eq!((first.count, second.count), (1, 2));
        assert_eq!((&second.name, second.first_nanos), (&first.name, first.first_nanos));
        for (object, reason, message) in
            [("b", "Pulled", "image"), ("a", "Other", "image"), ("a", "Pulled", "another")]
        {
            assert_eq!(rig.say(object, reason, message).unwrap().count, 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn from_the_tenth_message_on_similar_events_are_one() {
        let mut rig = rig();
        for n in 1..10 {
            let one = rig.say("a", "Failed", &format!("try {n}")).unwrap();
            assert_eq!((one.count, one.message), (1, format!("try {n}")));
        }
        let tenth = rig.say("a", "Failed", "try 10").unwrap();
        assert_eq!((tenth.count, &*tenth.message), (1, "(combined from similar events): try 10"));
        let next = rig.say("a", "Failed", "try 11").unwrap();
        assert_eq!((next.count, &*next.message), (2, "(combined from similar events): try 11"));
        assert_eq!(next.name, tenth.name);
        assert_eq!(rig.say("a", "Other", "x").unwrap().message, "x");
        rig.sleep(601).await;
        assert_eq!(rig.say("a", "Failed", "try 12").unwrap().message, "try 12");
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_has_a_burst_of_25_events_per_object_then_one_in_five_minutes() {
        let mut rig = rig();
        let said = (0..40).filter(|n| rig.say("a", &format!("r{n}"), "m").is_some()).count();
        assert_eq!(said, 25);
        assert!(rig.say("b", "r", "m").is_some(), "another object is another bucket");
        rig.sleep(299).await;
        assert!(rig.say("a", "r", "m").is_none());
        rig.sleep(1).await;
        assert!(rig.say("a", "r", "m").is_some());
        assert!(rig.say("a", "r", "m").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_correlation_cache_is_bounded() {
        let mut rig = rig();
        for n in 0..REMEMBERED + 100 {
            rig.say(&format!("o{n}"), "r", "m");
        }
        let Correlator { events, groups, sources } = &rig.correlator;
        assert_eq!((events.len(), groups.len(), sources.len()), (REMEMBERED, REMEMBERED, REMEMBERED));
        assert_eq!(rig.say("o0", "r", "m").unwrap().count, 1, "forgotten");
        assert_eq!(rig.say(&format!("o{}", REMEMBERED + 50), "r", "m").unwrap().count, 2, "remembered");
    }
}
