//! Keeps a queue in step with a resource of the server: a list (or a watch that begins with the state), then a watch.
//!
//! ```text
//!        ┌────────────── 410, or the state could not be streamed ─────────────┐
//!        v                                                                    │
//!  Streaming ── bookmark "initial events end" ──> Watching ── cut, time is up ┤
//!        │ not supported                             ^   └── resumed at the last revision seen
//!        └──> Listing ── all pages ──────────────────┘
//! ```
//! A resource need not be served yet, or for ever: while it is not (404) its state is asked for again and again. That says nothing about
//! its objects, as in client-go: a server that starts, or has not heard of a definition yet, answers the same. Objects go when a watch
//! tells that they do, before it ends, or when they are missing from the next state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, Event, Gvr, ListOptions, Target, Watch, WatchOptions};
use env::Env;
use object::{Obj, Revision, Status};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::fifo::Delta;
use crate::{Key, Stop};

/// How long a watch is asked for: random in this range, so that not all come back at once.
const WATCH_SECONDS: (u64, u64) = (300, 600);
const PAGE: i64 = 500;
/// Failures for longer than this are told, and again after that.
const TROUBLE: Duration = Duration::from_secs(5);
const TELL: Duration = Duration::from_secs(60);
/// A watch without a word in less time than this is trouble.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// Which objects of which resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    pub resource: Gvr,
    /// Empty: all namespaces.
    pub namespace: String,
    pub label_selector: String,
    pub field_selector: String,
    /// See [`Target::metadata_only`].
    pub metadata_only: bool,
}

impl Scope {
    pub fn all(resource: &Gvr) -> Scope {
        Scope {
            resource: resource.clone(),
            namespace: String::new(),
            label_selector: String::new(),
            field_selector: String::new(),
            metadata_only: false,
        }
    }
    /// Metadata of all objects: labels, owners, finalizers of resources whose other fields are not of interest, or not known.
    pub fn metadata(resource: &Gvr) -> Scope {
        Scope { metadata_only: true, ..Scope::all(resource) }
    }
    fn target(&self) -> Target<'_> {
        Target { metadata_only: self.metadata_only, ..self.resource.within(&self.namespace) }
    }
}

pub struct Reflector {
    pub env: Env,
    pub client: Arc<dyn Client>,
    pub scope: Scope,
    pub stop: Stop,
}

/// What the reflector does next.
#[derive(Clone, Copy)]
enum Phase {
    /// Wants the state as the beginning of a watch.
    Streaming,
    /// Wants the state as a list.
    Listing,
    /// Has the state, wants what changes after it.
    Watching,
}

/// How far the reflector has come.
#[derive(Default)]
struct Position {
    seen: Revision,
    /// The server does not have `seen` any more (or not yet): ask for the newest there is.
    unavailable: bool,
}

impl Position {
    /// For a watch that begins with the state.
    fn stream_version(&self) -> String {
        if self.unavailable || self.seen.0 == 0 { String::new() } else { self.seen.to_string() }
    }
    /// For a list: any state will do the first time, never an older one after that.
    fn list_version(&self) -> String {
        match self.seen.0 {
            _ if self.unavailable => String::new(),
            0 => "0".to_owned(),
            seen => seen.to_string(),
        }
    }
    fn state_at(&mut self, revision: Revision) {
        *self = Position { seen: revision, unavailable: false };
    }
}

/// Failures in a row.
#[derive(Default)]
struct Trouble {
    since: Option<Instant>,
    told: Option<Instant>,
}

impl Trouble {
    /// Not at once, as a server may restart, and not every time.
    fn is_to_be_told(&mut self, now: Instant) -> bool {
        let lasts = now - *self.since.get_or_insert(now) >= TROUBLE;
        let due = lasts && self.told.is_none_or(|told| now - told >= TELL);
        if due {
            self.told = Some(now);
        }
        due
    }
}

type Tell<'a> = &'a mut (dyn FnMut(&mut Vec<Delta>) + Send);

impl Reflector {
    /// Runs until stopped; `tell` gets what was learned, in order, and applies it before it returns.
    pub async fn run(self, mut tell: impl FnMut(&mut Vec<Delta>) + Send) {
        let mut phase = Phase::Streaming;
        // Upstream's numbers: 800 ms, doubled up to 30 s, forgotten after two minutes without trouble.
        let mut backoff = Backoff::new(&self.env, Duration::from_millis(800), Duration::from_secs(30))
            .jitter(1.0)
            .reset_after(Duration::from_secs(120));
        // A 404 costs the server nothing, and somebody may be waiting for the resource that was just defined.
        let mut unserved =
            Backoff::new(&self.env, Duration::from_millis(100), Duration::from_secs(5)).jitter(1.0);
        let mut position = Position::default();
        let mut trouble = Trouble::default();
        loop {
            let step = async {
                match phase {
                    Phase::Streaming => self.stream(&mut position, &mut tell).await,
                    Phase::Listing => self.list(&mut position, &mut tell).await,
                    Phase::Watching => self.watch(&mut position, &mut tell).await,
                }
            };
            let next = tokio::select! {
                biased;
                () = self.stop.stopped() => return,
                next = step => next,
            };
            phase = match next {
                Ok(phase) => {
                    unserved.reset();
                    trouble = Trouble::default();
                    phase
                }
                Err((after, status)) => {
                    let plural = &*self.scope.resource.plural;
                    let absent = status.code == 404;
                    if !absent && trouble.is_to_be_told(self.env.monotonic()) {
                        tracing::warn!(
                            plural,
                            error = status.message,
                            "list and watch keep failing, retrying"
                        );
                    } else {
                        tracing::debug!(plural, error = status.message, "watch failed, retrying");
                    }
                    let pause = if absent { &mut unserved } else { &mut backoff }.next(&self.env);
                    tokio::select! {
                        biased;
                        () = self.stop.stopped() => return,
                        () = self.env.sleep(pause) => {}
                    }
                    // It may come back as another.
                    if absent { Phase::Streaming } else { after }
                }
            };
        }
    }

    /// The state as the first part of a watch, then its changes.
    async fn stream(&self, position: &mut Position, tell: Tell<'_>) -> Transition {
        let version = position.stream_version();
        let newest = version.is_empty();
        let options =
            WatchOptions { resource_version: version, initial_events: true, ..self.watch_options() };
        let scope = &self.scope;
        let mut watch = match self.client.watch(scope.target(), options).await {
            Ok(watch) => watch,
            Err(status) => return after_stream(status, newest, position),
        };
        // A server may send changes before the state is whole: the last one of each object counts.
        let mut items: BTreeMap<Key, Arc<Obj>> = BTreeMap::new();
        let (mut events, mut state) = (Vec::new(), None);
        while state.is_none() {
            match watch.pull(&mut events).await {
                Ok(true) => {}
                Ok(false) => {
                    let status = Status::unavailable("the watch ended before its state was whole");
                    return Err((Phase::Streaming, status));
                }
                Err(status) => return after_stream(status, newest, position),
            }
            for event in events.drain(..) {
                match (event, &mut state) {
                    (Event::Added(obj) | Event::Modified(obj), None) => {
                        items.insert(Key::of(&obj), obj);
                    }
                    (Event::Deleted(obj), None) => {
                        items.remove(&Key::of(&obj));
                    }
                    (Event::Bookmark { revision, initial_events_end: true }, None) => {
                        position.state_at(revision);
                        let items = std::mem::take(&mut items).into_values().collect();
                        state = Some(vec![Delta::Replaced { items, revision }]);
                    }
                    (Event::Bookmark { .. }, None) => {}
                    (event, Some(deltas)) => deltas.push(delta(event, &mut position.seen)),
                }
            }
        }
        tell(&mut state.unwrap_or_default());
        self.follow(watch, position, tell).await
    }

    async fn list(&self, position: &mut Position, tell: Tell<'_>) -> Transition {
        let scope = &self.scope;
        let at = position.list_version();
        let newest = at.is_empty();
        let mut items = Vec::new();
        let mut options = ListOptions {
            label_selector: scope.label_selector.clone(),
            field_selector: scope.field_selector.clone(),
            limit: if newest || at == "0" { PAGE } else { 0 },
            resource_version: at,
            ..ListOptions::default()
        };
        loop {
            let paged = !options.continue_token.is_empty();
            match self.client.list(scope.target(), options.clone()).await {
                Ok(mut page) => {
                    items.append(&mut page.items);
                    if !page.continue_token.is_empty() {
                        options.continue_token = page.continue_token;
                        options.resource_version = String::new();
                        continue;
                    }
                    position.state_at(page.revision);
                    tell(&mut vec![Delta::Replaced { items, revision: page.revision }]);
                    return Ok(Phase::Watching);
                }
                // The pages took longer than the history is kept: all at once, then.
                Err(status) if is_expired(&status) && paged => {
                    items.clear();
                    options.continue_token.clear();
                    options.limit = 0;
                }
                // That version cannot be had: the newest can, at once.
                Err(status) if is_expired(&status) && !newest => {
                    position.unavailable = true;
                    return Ok(Phase::Listing);
                }
                // Whatever kept the server from streaming may be over.
                Err(status) => return Err((Phase::Streaming, status)),
            }
        }
    }

    async fn watch(&self, position: &mut Position, tell: Tell<'_>) -> Transition {
        let options = WatchOptions { resource_version: position.seen.to_string(), ..self.watch_options() };
        match self.client.watch(self.scope.target(), options).await {
            Ok(watch) => self.follow(watch, position, tell).await,
            // After a pause: a server that forgets faster than we can read would be read without end.
            Err(status) if is_expired(&status) => Err((Phase::Streaming, status)),
            Err(status) => Err((Phase::Watching, status)),
        }
    }

    /// Changes until the watch is over.
    async fn follow(&self, mut watch: Box<dyn Watch>, position: &mut Position, tell: Tell<'_>) -> Transition {
        let (mut events, mut deltas) = (Vec::new(), Vec::new());
        let (begun, before) = (self.env.monotonic(), position.seen);
        let refused = loop {
            let pulled = watch.pull(&mut events).await;
            deltas.extend(events.drain(..).map(|event| delta(event, &mut position.seen)));
            tell(&mut deltas);
            deltas.clear();
            match pulled {
                Ok(true) => {}
                Ok(false) => break None,
                Err(status) => break Some(status),
            }
        };
        match refused {
            // A watch that ends at once without a word must not become a busy controller.
            None if position.seen == before && self.env.monotonic() - begun < SHORT_WATCH => {
                Err((Phase::Watching, Status::unavailable("the watch ended without an event")))
            }
            // In good order, or cut: on from the last revision.
            None => Ok(Phase::Watching),
            Some(status) if is_expired(&status) && self.env.monotonic() - begun >= SHORT_WATCH => {
                Ok(Phase::Streaming)
            }
            Some(status) if is_expired(&status) => Err((Phase::Streaming, status)),
            Some(status) => Err((Phase::Watching, status)),
        }
    }

    fn watch_options(&self) -> WatchOptions {
        let (least, most) = WATCH_SECONDS;
        WatchOptions {
            label_selector: self.scope.label_selector.clone(),
            field_selector: self.scope.field_selector.clone(),
            timeout_seconds: least + self.env.random_below(most - least),
            ..WatchOptions::default()
        }
    }
}

/// After a state that could not be streamed.
fn after_stream(status: Status, newest: bool, position: &mut Position) -> Transition {
    if is_expired(&status) && !newest {
        // The server has forgotten that version, or lost it: whatever it has now is the state.
        position.unavailable = true;
        return Ok(Phase::Streaming);
    }
    if is_transient(&status) || status.code == 404 {
        return Err((Phase::Streaming, status));
    }
    // A server that cannot stream its state can list it. Which is not always a bad request: kube-apiserver on an etcd without progress
    // notifications begins a watch and says 500 in it, every time.
    Ok(Phase::Listing)
}

/// What to do next, or what to do after a pause and why.
type Transition = Result<Phase, (Phase, Status)>;

fn delta(event: Event, seen: &mut Revision) -> Delta {
    let revision = match &event {
        Event::Added(obj) | Event::Modified(obj) | Event::Deleted(obj) => obj.revision(),
        Event::Bookmark { revision, .. } => *revision,
    };
    *seen = revision.max(*seen);
    match event {
        Event::Added(obj) => Delta::Added(obj),
        Event::Modified(obj) => Delta::Updated(obj),
        Event::Deleted(obj) => Delta::Deleted { key: Key::of(&obj), obj: Some(obj), unknown: false },
        Event::Bookmark { revision, .. } => Delta::Bookmark(revision),
    }
}

fn is_expired(status: &Status) -> bool {
    let too_large = status
        .details
        .as_ref()
        .is_some_and(|d| d.causes.iter().any(|c| c.reason == "ResourceVersionTooLarge"));
    status.code == 410 || too_large
}

/// The server is busy, or cannot be reached: worth a pause and the same again.
fn is_transient(status: &Status) -> bool {
    matches!(status.code, 429 | 503)
}

#[cfg(test)]
mod tests;
