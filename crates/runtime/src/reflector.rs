//! Keeps a queue in step with a resource of the server: a list (or a watch that begins with the state), then a watch.
//!
//! ```text
//!        ┌────────────── 410, or the state could not be streamed ─────────────┐
//!        v                                                                    │
//!  Streaming ── bookmark "initial events end" ──> Watching ── cut, time is up ┤
//!        │ not supported                             ^   └── resumed at the last revision seen
//!        └──> Listing ── all pages ──────────────────┘
//! ```

use std::sync::Arc;
use std::time::Duration;

use client::{Client, Event, Gvr, ListOptions, Watch, WatchOptions};
use env::Env;
use object::Status;
use store::Revision;

use crate::backoff::Backoff;
use crate::fifo::Delta;
use crate::{Key, Stop};

/// How long a watch is asked for: random in this range, so that not all come back at once.
const WATCH_SECONDS: (u64, u64) = (300, 600);
const PAGE: u64 = 500;

/// Which objects of which resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    pub resource: Gvr,
    /// Empty: all namespaces.
    pub namespace: String,
    pub labels: String,
    pub fields: String,
}

impl Scope {
    pub fn all(resource: Gvr) -> Scope {
        Scope { resource, namespace: String::new(), labels: String::new(), fields: String::new() }
    }
}

pub struct Reflector {
    pub env: Env,
    pub client: Arc<dyn Client>,
    pub scope: Scope,
    pub stop: Stop,
}

/// Where the reflector stands.
enum Phase {
    /// Wants the state as the beginning of a watch.
    Streaming,
    /// Wants the state as a list; at the version named.
    Listing { at: String },
    /// Has the state, wants changes after this.
    Watching { from: Revision },
}

/// Why a watch is over.
enum End {
    /// In good order, or cut: go on from the last revision.
    Cut,
    Refused(Status),
}

impl Reflector {
    /// Runs until stopped; `tell` gets what was learned, in order, and applies it before it returns.
    pub async fn run(self, mut tell: impl FnMut(&mut Vec<Delta>) + Send) {
        let mut phase = Phase::Streaming;
        // Upstream's numbers: 800 ms, doubled up to 30 s, forgotten after two minutes without trouble.
        let mut backoff = Backoff::new(&self.env, Duration::from_millis(800), Duration::from_secs(30))
            .jitter(1.0)
            .reset_after(Duration::from_secs(120));
        let mut seen = Revision(0);
        loop {
            let step = async {
                match &phase {
                    Phase::Streaming => self.stream(&mut seen, &mut tell).await,
                    Phase::Listing { at } => self.list(at, &mut seen, &mut tell).await,
                    Phase::Watching { from } => self.watch(*from, &mut seen, &mut tell).await,
                }
            };
            let next = tokio::select! {
                biased;
                () = self.stop.stopped() => return,
                next = step => next,
            };
            phase = match next {
                Ok(phase) => phase,
                Err((after, status)) => {
                    let plural = self.scope.resource.plural;
                    tracing::debug!(plural, error = status.message, "watching failed, trying again");
                    tokio::select! {
                        biased;
                        () = self.stop.stopped() => return,
                        () = self.env.sleep(backoff.next(&self.env)) => {}
                    }
                    after
                }
            };
        }
    }

    /// The state as the first part of a watch, then its changes.
    async fn stream(&self, seen: &mut Revision, tell: &mut (dyn FnMut(&mut Vec<Delta>) + Send)) -> Step {
        let options = WatchOptions {
            resource_version: if seen.0 == 0 { String::new() } else { seen.to_string() },
            initial_events: true,
            ..self.watch_options()
        };
        let scope = &self.scope;
        let mut watch = match self.client.watch(scope.resource.within(&scope.namespace), options).await {
            Ok(watch) => watch,
            Err(status) if is_transient(&status) => return Err((Phase::Streaming, status)),
            // A server that cannot stream its state can list it.
            Err(_) => return Ok(Phase::Listing { at: "0".to_owned() }),
        };
        let (mut items, mut events, mut state) = (Vec::new(), Vec::new(), None);
        while state.is_none() {
            match watch.pull(&mut events).await {
                Ok(true) => {}
                Ok(false) => {
                    return Err((
                        Phase::Streaming,
                        Status::unavailable("the watch ended before its state was whole"),
                    ));
                }
                Err(status) if is_transient(&status) => return Err((Phase::Streaming, status)),
                Err(_) => return Ok(Phase::Listing { at: "0".to_owned() }),
            }
            for event in events.drain(..) {
                match (event, &mut state) {
                    (Event::Added(obj), None) => items.push(obj),
                    // A server may send changes before the state is whole: the last one counts.
                    (Event::Modified(obj), None) => {
                        items.retain(|i: &Arc<table::Obj>| i.key() != obj.key());
                        items.push(obj);
                    }
                    (Event::Deleted(obj), None) => items.retain(|i| i.key() != obj.key()),
                    (Event::Bookmark { revision, initial_events_end: true }, None) => {
                        *seen = revision;
                        state = Some(vec![Delta::Replaced { items: std::mem::take(&mut items), revision }]);
                    }
                    (Event::Bookmark { .. }, None) => {}
                    (event, Some(deltas)) => deltas.push(delta(event, seen)),
                }
            }
        }
        tell(&mut state.unwrap_or_default());
        self.follow(watch, seen, tell).await
    }

    async fn list(
        &self,
        at: &str,
        seen: &mut Revision,
        tell: &mut (dyn FnMut(&mut Vec<Delta>) + Send),
    ) -> Step {
        let scope = &self.scope;
        let mut items = Vec::new();
        let mut options = ListOptions {
            labels: scope.labels.clone(),
            fields: scope.fields.clone(),
            limit: if at.is_empty() || at == "0" { PAGE } else { 0 },
            resource_version: at.to_owned(),
            ..ListOptions::default()
        };
        loop {
            match self.client.list(scope.resource.within(&scope.namespace), options.clone()).await {
                Ok(mut page) => {
                    items.append(&mut page.items);
                    if !page.continue_token.is_empty() {
                        options.continue_token = page.continue_token;
                        options.resource_version = String::new();
                        continue;
                    }
                    *seen = page.revision;
                    tell(&mut vec![Delta::Replaced { items, revision: page.revision }]);
                    return Ok(Phase::Watching { from: page.revision });
                }
                // That version cannot be had: the newest can, at once.
                Err(status) if is_expired(&status) && !at.is_empty() => {
                    return Ok(Phase::Listing { at: String::new() });
                }
                Err(status) => return Err((Phase::Listing { at: at.to_owned() }, status)),
            }
        }
    }

    async fn watch(
        &self,
        from: Revision,
        seen: &mut Revision,
        tell: &mut (dyn FnMut(&mut Vec<Delta>) + Send),
    ) -> Step {
        let options = WatchOptions { resource_version: from.to_string(), ..self.watch_options() };
        match self.client.watch(self.scope.resource.within(&self.scope.namespace), options).await {
            Ok(watch) => self.follow(watch, seen, tell).await,
            Err(status) if is_expired(&status) => Ok(Phase::Streaming),
            Err(status) => Err((Phase::Watching { from: *seen }, status)),
        }
    }

    /// Changes until the watch is over.
    async fn follow(
        &self,
        mut watch: Box<dyn Watch>,
        seen: &mut Revision,
        tell: &mut (dyn FnMut(&mut Vec<Delta>) + Send),
    ) -> Step {
        let (mut events, mut deltas) = (Vec::new(), Vec::new());
        let before = *seen;
        let end = loop {
            let pulled = watch.pull(&mut events).await;
            deltas.extend(events.drain(..).map(|event| delta(event, seen)));
            tell(&mut deltas);
            deltas.clear();
            match pulled {
                Ok(true) => {}
                Ok(false) => break End::Cut,
                Err(status) => break End::Refused(status),
            }
        };
        match end {
            End::Cut if *seen == before => {
                // A watch that ends at once without a word must not become a busy loop.
                Err((
                    Phase::Watching { from: *seen },
                    Status::unavailable("the watch ended without an event"),
                ))
            }
            End::Cut => Ok(Phase::Watching { from: *seen }),
            End::Refused(status) if is_expired(&status) => Ok(Phase::Streaming),
            End::Refused(status) => Err((Phase::Watching { from: *seen }, status)),
        }
    }

    fn watch_options(&self) -> WatchOptions {
        let (least, most) = WATCH_SECONDS;
        WatchOptions {
            labels: self.scope.labels.clone(),
            fields: self.scope.fields.clone(),
            timeout_seconds: least + self.env.random_below(most - least),
            ..WatchOptions::default()
        }
    }
}

/// What to do next, or what to do after a pause and why.
type Step = Result<Phase, (Phase, Status)>;

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

/// Worth a pause and the same again.
fn is_transient(status: &Status) -> bool {
    matches!(status.code, 429 | 500 | 502 | 503 | 504)
}
