//! The event loop: keeps every connection busy, counts responses, and measures latency.
//!
//! ```text
//!            warm-up        measured                 drain
//!   ├ connect ┼───────────────┼─────────────────────────┼───────┤
//!                             └ CPU and clocks read here ┘
//! ```
//! One thread, edge-triggered epoll. Requests go out when their connection is free, and where a load says so only at a given pace
//! or while the slowest watcher is not too far behind.

mod connections;

use std::ops::Range;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use crate::endpoint::Endpoint;
use crate::error::BenchError;
use crate::meters::{self, Processes, Progress};
use crate::request::Template;
use crate::tally::{BROKEN, Tally};
use connections::{RequestConnection, RequestProgress, Watcher};

const TICK: Duration = Duration::from_millis(200);
/// How long requests in flight at the end may still take.
const DRAIN: Duration = Duration::from_secs(30);
/// How long servers may take to answer the heads of watches; one that sends a head with the first event is not waited for longer.
const WATCH_START: Duration = Duration::from_secs(5);

/// Requests to send.
pub struct Load<'a> {
    pub template: &'a Template,
    pub connections: usize,
    pub first_number: u64,
    pub max_requests: u64,
    /// Requests a second, whatever the answers do; `None` sends as soon as a connection is free.
    pub pace: Option<u64>,
    /// How many creates may be ahead of the slowest watcher.
    pub window: Option<u64>,
    /// Watches to keep open meanwhile.
    pub watch: Option<Watch<'a>>,
}

impl<'a> Load<'a> {
    /// As many as the connections carry, until the time is over.
    pub fn new(template: &'a Template, connections: usize, first_number: u64) -> Self {
        Load {
            template,
            connections,
            first_number,
            max_requests: u64::MAX,
            pace: None,
            window: None,
            watch: None,
        }
    }
}

pub struct Watch<'a> {
    pub template: &'a Template,
    pub watchers: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct Phase {
    /// For the progress line.
    pub name: &'static str,
    pub warmup: Duration,
    pub measured: Duration,
}

pub struct Outcome {
    pub tally: Tally,
    /// Those that were sent.
    pub numbers: Range<u64>,
    /// Whether `max_requests` were sent and answered.
    pub exhausted: bool,
}

pub fn drive(
    endpoint: &Endpoint,
    load: &Load<'_>,
    phase: Phase,
    processes: &Processes,
    progress: &Progress,
) -> Result<Outcome, BenchError> {
    let mut generator = Generator::new(endpoint, load)?;
    if let Some(watch) = &load.watch {
        generator.open_watches(watch)?;
    }
    let begin = generator.clock.elapsed();
    generator.sending_since = Some(begin);
    let mut measured_from = None;
    let mut next_tick = begin;
    let (mut server_cpu, mut own_cpu, mut rss_peak) = (None, Duration::ZERO, None);
    loop {
        let now = generator.clock.elapsed();
        let start = match measured_from {
            Some(start) => start,
            None if now >= begin + phase.warmup => {
                generator.tally.clear();
                server_cpu = processes.cpu()?;
                own_cpu = meters::thread_cpu();
                measured_from = Some(now);
                now
            }
            None => begin,
        };
        let end = start + if measured_from.is_some() { phase.measured } else { phase.warmup };
        // Without a single answer nothing is measured: a server that is slow gets a little longer.
        let answered = generator.tally.requests + generator.tally.events + generator.tally.failed() > 0;
        let over = measured_from.is_some() && now >= end && (answered || now >= end + DRAIN);
        if generator.exhausted() || over {
            let used = |before: Option<Duration>, after: Option<Duration>| {
                after.zip(before).map(|(after, before)| after.saturating_sub(before))
            };
            let tally = &mut generator.tally;
            tally.seconds = (now - start).as_secs_f64();
            tally.server_cpu = used(server_cpu, processes.cpu()?);
            tally.generator_cpu = meters::thread_cpu().saturating_sub(own_cpu);
            tally.server_rss_peak = rss_peak.max(processes.rss()?);
            break;
        }
        if now >= next_tick {
            next_tick = now + TICK;
            rss_peak = rss_peak.max(processes.rss()?);
            let done = generator.tally.requests + generator.tally.events;
            let rate = done as f64 / (now - start).as_secs_f64().max(0.001);
            let what = if measured_from.is_some() { phase.name } else { "warming up" };
            progress.show(&format!(
                "{what}, {:.1} s, {rate:.0}/s, {} failed",
                (now - start).as_secs_f64(),
                generator.tally.failed()
            ));
        }
        generator.issue()?;
        let until_due = generator.until_due(now).unwrap_or(TICK);
        let until_end = if now < end { end - now } else { TICK };
        generator.turn(until_due.min(next_tick.saturating_sub(now)).min(until_end))?;
    }
    let exhausted = generator.exhausted();
    let tally = std::mem::replace(&mut generator.tally, Tally::new());
    generator.drain()?;
    Ok(Outcome { tally, numbers: load.first_number..generator.next_number, exhausted })
}

struct Generator<'a> {
    endpoint: &'a Endpoint,
    load: &'a Load<'a>,
    clock: Instant,
    poll: Poll,
    events: Events,
    callers: Vec<RequestConnection>,
    watchers: Vec<Watcher>,
    /// Connections without a request in flight.
    idle: Vec<usize>,
    /// Connections (by token) that may hold more than one turn reads.
    unread: Vec<usize>,
    next_number: u64,
    in_flight: u64,
    /// When sending began; `None` before, while watches open, and after, while the last answers come in.
    sending_since: Option<Duration>,
    /// Creates that succeeded since the watches were opened; each becomes one event for every watcher.
    succeeded: u64,
    /// Events that the slowest living watcher has seen.
    slowest: u64,
    reconnects: u64,
    request: Vec<u8>,
    tally: Tally,
}

impl<'a> Generator<'a> {
    fn new(endpoint: &'a Endpoint, load: &'a Load<'a>) -> Result<Self, BenchError> {
        let poll = Poll::new().map_err(BenchError::Poll)?;
        let mut callers = Vec::with_capacity(load.connections);
        for token in 0..load.connections {
            callers.push(RequestConnection::connect(endpoint, poll.registry(), Token(token))?);
        }
        Ok(Generator {
            endpoint,
            load,
            clock: Instant::now(),
            poll,
            events: Events::with_capacity(256),
            idle: (0..callers.len()).rev().collect(),
            callers,
            watchers: Vec::new(),
            unread: Vec::new(),
            next_number: load.first_number,
            in_flight: 0,
            sending_since: None,
            succeeded: 0,
            slowest: 0,
            reconnects: 0,
            request: Vec::new(),
            tally: Tally::new(),
        })
    }

    /// Opens the watches and waits for their heads, so that no create is missed.
    fn open_watches(&mut self, watch: &Watch<'_>) -> Result<(), BenchError> {
        for index in 0..watch.watchers {
            watch.template.fill(index as u64, 0, &mut self.request);
            let token = Token(self.callers.len() + index);
            let mut watcher = Watcher::connect(self.endpoint, self.poll.registry(), token)?;
            watcher.open(&self.request).map_err(|source| self.connection_error("opening a watch", source))?;
            self.watchers.push(watcher);
        }
        let deadline = self.clock.elapsed() + WATCH_START;
        while self.watchers.iter().any(Watcher::is_opening) && self.clock.elapsed() < deadline {
            self.turn(deadline.saturating_sub(self.clock.elapsed()))?;
        }
        Ok(())
    }

    fn exhausted(&self) -> bool {
        self.in_flight == 0 && self.sent() >= self.load.max_requests
    }

    fn sent(&self) -> u64 {
        self.next_number - self.load.first_number
    }

    /// Whether the load allows another request now.
    fn may_send(&self, now: Duration) -> bool {
        let Some(since) = self.sending_since else { return false };
        let due = |pace: u64| (now - since).as_secs_f64() * pace as f64;
        let paced = self.load.pace.is_none_or(|pace| (self.sent() as f64) < due(pace));
        let ahead = (self.succeeded + self.in_flight).saturating_sub(self.slowest);
        let near = self.load.window.is_none_or(|window| ahead < window);
        paced && near && self.sent() < self.load.max_requests
    }

    /// How long until the pace allows the next request; `None` if only responses do.
    fn until_due(&self, now: Duration) -> Option<Duration> {
        let pace = self.load.pace.filter(|_| !self.idle.is_empty())?;
        let due = self.sending_since? + Duration::from_secs_f64((self.sent() as f64 + 1.0) / pace as f64);
        Some(due.saturating_sub(now))
    }

    /// Gives idle connections their next requests.
    fn issue(&mut self) -> Result<(), BenchError> {
        while let Some(&index) = self.idle.last() {
            let now = self.clock.elapsed();
            if !self.may_send(now) {
                break;
            }
            self.idle.pop();
            let now_nanos = now.as_nanos() as u64;
            self.load.template.fill(self.next_number, now_nanos, &mut self.request);
            self.next_number += 1;
            self.in_flight += 1;
            if let Err(error) = self.callers[index].send(&self.request, now_nanos) {
                self.replace(index, error)?;
            }
        }
        Ok(())
    }

    /// Waits for the sockets, then reads what came.
    fn turn(&mut self, timeout: Duration) -> Result<(), BenchError> {
        let timeout = if self.unread.is_empty() { timeout } else { Duration::ZERO };
        if let Err(error) = self.poll.poll(&mut self.events, Some(timeout))
            && error.kind() != std::io::ErrorKind::Interrupted
        {
            return Err(BenchError::Poll(error));
        }
        let mut ready = std::mem::take(&mut self.unread);
        ready.extend(self.events.iter().map(|event| event.token().0));
        for &token in &ready {
            match token.checked_sub(self.callers.len()) {
                None => self.read_caller(token)?,
                Some(watcher) => self.read_watcher(watcher),
            }
        }
        if !self.watchers.is_empty() {
            let living = self.watchers.iter().filter(|watcher| !watcher.has_ended());
            self.slowest = living
                .map(Watcher::events)
                .min()
                .ok_or(BenchError::WatchesEnded { watchers: self.watchers.len() })?;
        }
        Ok(())
    }

    fn read_caller(&mut self, index: usize) -> Result<(), BenchError> {
        match self.callers[index].step(&mut self.tally) {
            RequestProgress::Waits => {}
            RequestProgress::MayHoldMore => self.unread.push(index),
            RequestProgress::Answered { status, sent_nanos, closes } => {
                self.in_flight -= 1;
                if (200..300).contains(&status) {
                    let now = self.clock.elapsed().as_nanos() as u64;
                    self.tally.requests += 1;
                    self.tally.latency.record(now.saturating_sub(sent_nanos));
                    self.succeeded += 1;
                } else {
                    *self.tally.failures.entry(status).or_default() += 1;
                }
                if closes {
                    self.reconnect(index, std::io::ErrorKind::ConnectionAborted.into())?;
                }
                self.idle.push(index);
                // At once, not after the other answers of this turn: the server would run dry while they are read.
                self.issue()?;
            }
            RequestProgress::Broken(error) if self.callers[index].is_busy() => self.replace(index, error)?,
            RequestProgress::Broken(error) => self.reconnect(index, error)?,
        }
        Ok(())
    }

    fn read_watcher(&mut self, index: usize) {
        let now = self.clock.elapsed().as_nanos() as u64;
        if let Some(watcher) = self.watchers.get_mut(index)
            && watcher.step(now, &mut self.tally)
        {
            self.unread.push(self.callers.len() + index);
        }
    }

    /// A connection broke under a request: counts it, and opens another.
    fn replace(&mut self, index: usize, error: std::io::Error) -> Result<(), BenchError> {
        self.in_flight -= 1;
        *self.tally.failures.entry(BROKEN).or_default() += 1;
        self.tally.first_failure.get_or_insert_with(|| error.to_string());
        self.reconnect(index, error)?;
        self.idle.push(index);
        Ok(())
    }

    fn reconnect(&mut self, index: usize, source: std::io::Error) -> Result<(), BenchError> {
        self.reconnects += 1;
        // A server that closes a connection now and then is measured; one that closes them all is not.
        if self.reconnects > 10 * self.load.connections as u64 {
            return Err(BenchError::Unstable {
                server: self.endpoint.server.clone(),
                count: self.reconnects,
                source,
            });
        }
        self.callers[index] = RequestConnection::connect(self.endpoint, self.poll.registry(), Token(index))?;
        Ok(())
    }

    /// Lets requests in flight finish, uncounted: what they create must be known before it is deleted.
    fn drain(&mut self) -> Result<(), BenchError> {
        self.watchers.clear();
        self.sending_since = None;
        let deadline = self.clock.elapsed() + DRAIN;
        while self.in_flight > 0 && self.clock.elapsed() < deadline {
            self.unread.retain(|&token| token < self.callers.len());
            self.turn(TICK)?;
        }
        Ok(())
    }

    fn connection_error(&self, doing: &str, source: std::io::Error) -> BenchError {
        BenchError::Connection { server: self.endpoint.server.clone(), doing: doing.to_string(), source }
    }
}
