//! Who watches what. A change wakes only the cursors it concerns, and each of them walks along the changes that concern it,
//! however many others there are.
//!
//! ```text
//!  shard's log   0  1  2  3  4  5  6  7  8        numbers of events
//!  "team-a"         1        4     6              a topic: those of one namespace, name or value of the indexed field
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::task::AtomicWaker;
use object::Obj;
use parking_lot::Mutex;
use store::Revision;

/// What a cursor watches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    All,
    Namespace(Box<str>),
    /// `namespace/name`, or `name`.
    Path(Box<str>),
    /// Objects of one name in every namespace.
    Name(Box<str>),
    /// A value of the storage's indexed field.
    Indexed(Box<str>),
}

/// Wakes one cursor.
#[derive(Default)]
pub(crate) struct Notifier {
    notified: AtomicBool,
    waker: AtomicWaker,
}

impl Notifier {
    fn notify(&self) {
        // Only the first time since the cursor last looked has to wake it.
        if !self.notified.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }
    /// True when it was notified since the last call, so the caller must look again; otherwise it will be woken.
    pub fn listen(&self, cx: &std::task::Context<'_>) -> bool {
        self.waker.register(cx.waker());
        self.notified.swap(false, Ordering::AcqRel)
    }
}

/// The events that concern one interest.
pub(crate) struct Topic {
    /// Guards the numbers; taken under the shard's lock.
    log: Mutex<TopicLog>,
    /// Guards who waits for more.
    notifiers: Mutex<Vec<Arc<Notifier>>>,
}

#[derive(Default)]
pub(crate) struct TopicLog {
    /// Complete from this number on; what is older, the shard's log knows.
    since: u64,
    numbers: VecDeque<u64>,
    /// The shard has forgotten the event before this number, which was one of these.
    lost: u64,
    /// The last commit that concerned it.
    commit: Revision,
}

/// A log with more room than this gives some back.
const LOG_ROOM: usize = 1024;

impl Topic {
    fn new(since: u64) -> Arc<Topic> {
        let log = Mutex::new(TopicLog { since, ..TopicLog::default() });
        Arc::new(Topic { log, notifiers: Mutex::default() })
    }

    /// What of it lies at or after `first`, the oldest event the shard has.
    pub fn log(&self, first: u64) -> parking_lot::MutexGuard<'_, TopicLog> {
        let mut log = self.log.lock();
        log.trim(first);
        log
    }

    pub fn notify(&self) {
        self.notifiers.lock().iter().for_each(|notifier| notifier.notify());
    }
}

impl TopicLog {
    fn trim(&mut self, first: u64) {
        while let Some(number) = self.numbers.pop_front_if(|number| *number < first) {
            self.lost = number + 1;
        }
        if self.numbers.capacity() > LOG_ROOM && self.numbers.len() * 4 < self.numbers.capacity() {
            self.numbers.shrink_to(self.numbers.len() * 2);
        }
    }

    pub fn since(&self) -> u64 {
        self.since
    }

    /// The numbers from `next` on; `None` when some of them are forgotten.
    pub fn from(&self, next: u64) -> Option<impl Iterator<Item = u64>> {
        if next < self.lost {
            return None;
        }
        let at = self.numbers.partition_point(|number| *number < next);
        Some(self.numbers.range(at..).copied())
    }
}

/// The watchers of one shard.
pub(crate) struct Watchers {
    /// Of every event; the shard's own log is theirs.
    all: Arc<Topic>,
    namespaces: HashMap<Box<str>, Arc<Topic>>,
    paths: HashMap<Box<str>, Arc<Topic>>,
    names: HashMap<Box<str>, Arc<Topic>>,
    indexed: HashMap<Box<str>, Arc<Topic>>,
}

impl Default for Watchers {
    fn default() -> Watchers {
        Watchers {
            all: Topic::new(0),
            namespaces: HashMap::new(),
            paths: HashMap::new(),
            names: HashMap::new(),
            indexed: HashMap::new(),
        }
    }
}

impl Watchers {
    /// One more; `end` is the number of the shard's next event, which cannot come meanwhile.
    pub fn add(&mut self, interest: &Interest, notifier: Arc<Notifier>, end: u64) -> Arc<Topic> {
        let topic = match interest {
            Interest::All => self.all.clone(),
            Interest::Namespace(key) => topic(&mut self.namespaces, key, end),
            Interest::Path(key) => topic(&mut self.paths, key, end),
            Interest::Name(key) => topic(&mut self.names, key, end),
            Interest::Indexed(key) => topic(&mut self.indexed, key, end),
        };
        topic.notifiers.lock().push(notifier);
        topic
    }

    pub fn remove(&mut self, interest: &Interest, topic: &Topic, notifier: &Arc<Notifier>) {
        let mut notifiers = topic.notifiers.lock();
        if let Some(at) = notifiers.iter().position(|other| Arc::ptr_eq(other, notifier)) {
            notifiers.swap_remove(at);
        }
        if !notifiers.is_empty() {
            return;
        }
        drop(notifiers);
        match interest {
            Interest::All => None,
            Interest::Namespace(key) => self.namespaces.remove(key),
            Interest::Path(key) => self.paths.remove(key),
            Interest::Name(key) => self.names.remove(key),
            Interest::Indexed(key) => self.indexed.remove(key),
        };
    }

    /// Notes an event with a state of its object, the old or the new one, and appends whom the commit concerns, each once.
    pub fn note(
        &self,
        (number, commit): (u64, Revision),
        obj: &Obj,
        indexed: Option<usize>,
        concerned: &mut Vec<Arc<Topic>>,
    ) {
        let mut note = |topics: &HashMap<Box<str>, Arc<Topic>>, key: &str| {
            let Some(topic) = topics.get(key) else { return };
            let mut log = topic.log.lock();
            if log.numbers.back() != Some(&number) {
                log.numbers.push_back(number);
            }
            if log.commit != commit {
                log.commit = commit;
                concerned.push(topic.clone());
            }
        };
        if !self.namespaces.is_empty() {
            note(&self.namespaces, obj.namespace());
        }
        if !self.paths.is_empty() {
            note(&self.paths, obj.path());
        }
        if !self.names.is_empty() {
            note(&self.names, obj.name());
        }
        if let Some(field) = indexed
            && !self.indexed.is_empty()
        {
            note(&self.indexed, obj.field(field));
        }
    }

    /// Those who want every event.
    pub fn all(&self) -> &Arc<Topic> {
        &self.all
    }

    /// The shard's log begins anew, with event 0.
    pub fn reset(&mut self) {
        self.topics().for_each(|topic| {
            *topic.log.lock() = TopicLog::default();
        });
    }

    /// Wakes everyone: the table was reset, or something cannot be read.
    pub fn notify_everyone(&self) {
        self.topics().for_each(|topic| topic.notify());
    }

    // In no order that reaches an output: each cursor only looks again.
    fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        let selective = [&self.namespaces, &self.paths, &self.names, &self.indexed];
        std::iter::once(&self.all).chain(selective.into_iter().flat_map(HashMap::values))
    }
}

fn topic(topics: &mut HashMap<Box<str>, Arc<Topic>>, key: &str, end: u64) -> Arc<Topic> {
    match topics.get(key) {
        Some(topic) => topic.clone(),
        None => topics.entry(key.into()).or_insert_with(|| Topic::new(end)).clone(),
    }
}
