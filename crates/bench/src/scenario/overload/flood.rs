//! The load: one thread, one epoll loop, every connection busy or waiting as long as the Retry-After of a 429 says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use memchr::memmem;
use mio::{Events, Interest, Poll, Token};

use super::super::objects::config_map;
use super::users::Users;
use crate::client::{Client, shorten};
use crate::endpoint::Endpoint;
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::meters::Progress;
use crate::request::{Body, NUMBER, STAMP, Template};
use crate::response::Response;
use crate::tally::BROKEN;
use crate::wire::{ReadState, Wire};

/// How many of its objects a creator keeps before it deletes the oldest.
pub const KEPT: usize = 20;
/// How often a refused request is retried, as client-go does.
const MAX_RETRIES: u32 = 10;
/// Reads from one connection before the others get their turn.
const READS_PER_TURN: usize = 8;
const TICK: Duration = Duration::from_millis(200);
/// How soon a connection that could not be opened again is tried once more.
const RECONNECT_NANOS: u64 = 1_000_000_000;
const REVISION: &[u8] = b"\"resourceVersion\":\"";

type Socket = Wire<mio::net::TcpStream>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    List,
    Create,
    Watch,
}

impl Role {
    /// A third of every user's connections each.
    pub fn of(connection: usize, users: usize) -> Role {
        [Role::List, Role::Create, Role::Watch][connection / users.max(1) % 3]
    }
}

/// The kind of a request; the index of its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    List,
    Create(u64),
    Delete(u64),
    Watch,
}

impl Ask {
    const NAMES: [&'static str; 4] = ["list", "create", "delete", "watch"];

    fn kind(self) -> usize {
        match self {
            Ask::List => 0,
            Ask::Create(_) => 1,
            Ask::Delete(_) => 2,
            Ask::Watch => 3,
        }
    }
}

/// The requests of one kind and their results.
#[derive(Clone)]
pub struct Kind {
    pub name: &'static str,
    pub served: u64,
    /// Of the bodies, as they came.
    pub bytes: u64,
    /// 429s with Retry-After.
    pub refused: u64,
    /// 429s without.
    pub refused_silently: u64,
    /// Requests that were refused too often.
    pub given_up: u64,
    /// By status code.
    pub failed: BTreeMap<u16, u64>,
    pub first_failure: Option<String>,
    /// Of those that were served; a watch's until it begins.
    pub latency: Histogram,
}

struct Connection {
    /// `None` while another is opened.
    wire: Option<Socket>,
    response: Response,
    user: usize,
    role: Role,
    ask: Ask,
    sent_nanos: u64,
    retries: u32,
    /// A watch whose beginning was counted.
    began: bool,
    /// Objects of this creator that are there, oldest first.
    made: VecDeque<u64>,
    /// Where the next watch begins; 0: with the state.
    revision: u64,
}

struct Templates {
    list: Template,
    create: Template,
    delete: Template,
    watch: Template,
}

pub struct Flood {
    endpoints: Vec<Endpoint>,
    templates: Vec<Templates>,
    connections: Vec<Connection>,
    kinds: Vec<Kind>,
    poll: Poll,
    clock: Instant,
    next_number: u64,
    /// Connections that wait, and until when.
    resting: BinaryHeap<Reverse<(u64, usize)>>,
    /// Connections that may hold more than one turn reads.
    unread: Vec<usize>,
    request: Vec<u8>,
}

enum Step {
    Waits,
    MayHoldMore,
    Answered,
    Broken(io::Error),
}

impl Flood {
    pub fn new(users: &Users<'_>, count: usize) -> Result<Flood, BenchError> {
        let poll = Poll::new().map_err(BenchError::Poll)?;
        let mut connections = Vec::with_capacity(count);
        for index in 0..count {
            let user = index % users.all.len().max(1);
            let role = Role::of(index, users.all.len());
            let ask = match role {
                Role::List => Ask::List,
                Role::Create => Ask::Create(0),
                Role::Watch => Ask::Watch,
            };
            let wire = Client::connect(&users.all[user].endpoint)?;
            connections.push(Connection {
                wire: Some(register(wire, &poll, index).map_err(BenchError::Poll)?),
                response: Response::new(),
                user,
                role,
                ask,
                sent_nanos: 0,
                retries: 0,
                began: false,
                made: VecDeque::new(),
                revision: 0,
            });
        }
        let templates = users.all.iter().map(|user| {
            let collection = format!("/api/v1/namespaces/{}/configmaps", user.namespace);
            let watch = format!("{collection}?watch=true&timeoutSeconds=5&resourceVersion={STAMP}");
            let body = config_map(&format!("made-{NUMBER}"));
            let delete = format!("{collection}/made-{NUMBER}");
            let endpoint = &user.endpoint;
            Templates {
                list: Template::with_headers(
                    endpoint,
                    "GET",
                    &collection,
                    "Accept-Encoding: gzip\r\n",
                    None,
                    1,
                ),
                create: Template::new(endpoint, "POST", &collection, Some(Body::json(&body)), 1),
                delete: Template::new(endpoint, "DELETE", &delete, None, 1),
                watch: Template::new(endpoint, "GET", &watch, None, 1),
            }
        });
        Ok(Flood {
            templates: templates.collect(),
            endpoints: users.all.iter().map(|user| user.endpoint.clone()).collect(),
            connections,
            kinds: Ask::NAMES.into_iter().map(Kind::new).collect(),
            poll,
            clock: Instant::now(),
            next_number: 0,
            resting: BinaryHeap::new(),
            unread: Vec::new(),
            request: Vec::new(),
        })
    }

    /// The figures; the connections are closed as by a client that is stopped.
    pub fn into_kinds(self) -> Vec<Kind> {
        self.kinds
    }

    pub fn run(&mut self, duration: Duration, progress: &Progress) -> Result<(), BenchError> {
        // A handshake with a busy server takes time, and must not delay the other connections.
        let (ask, asked) = sync_channel::<usize>(self.connections.len());
        let (give, given) = sync_channel(self.connections.len());
        let endpoints: Vec<Endpoint> =
            self.connections.iter().map(|connection| self.endpoints[connection.user].clone()).collect();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for index in asked {
                    if give.send((index, Client::connect(&endpoints[index]))).is_err() {
                        break;
                    }
                }
            });
            // `ask` goes with it, and so the thread ends.
            self.run_with(duration, progress, ask, &given)
        })
    }

    fn run_with(
        &mut self,
        duration: Duration,
        progress: &Progress,
        ask: SyncSender<usize>,
        given: &Receiver<(usize, Result<Wire<std::net::TcpStream>, BenchError>)>,
    ) -> Result<(), BenchError> {
        self.clock = Instant::now();
        let end = duration.as_nanos() as u64;
        let mut next_tick = 0;
        let mut events = Events::with_capacity(1024);
        for index in 0..self.connections.len() {
            self.next(index, &ask);
        }
        loop {
            let now = self.now();
            if now >= end {
                return Ok(());
            }
            if now >= next_tick {
                next_tick = now + TICK.as_nanos() as u64;
                let (served, refused) = self.kinds.iter().fold((0, 0), |(served, refused), kind| {
                    (served + kind.served, refused + kind.refused + kind.refused_silently)
                });
                progress.show(&format!(
                    "overloading, {} s, {served} served, {refused} refused",
                    now / 1_000_000_000
                ));
            }
            while let Ok((index, wire)) = given.try_recv() {
                self.reopened(index, wire, &ask);
            }
            while let Some(Reverse((due, index))) = self.resting.peek().copied() {
                if due > now {
                    break;
                }
                self.resting.pop();
                match self.connections[index].wire {
                    Some(_) => self.send(index, &ask),
                    None => reopen(&ask, index),
                }
            }
            let until_due = self.resting.peek().map_or(u64::MAX, |Reverse((due, _))| due.saturating_sub(now));
            let wait = if self.unread.is_empty() { until_due.min(next_tick - now).min(end - now) } else { 0 };
            if let Err(error) = self.poll.poll(&mut events, Some(Duration::from_nanos(wait)))
                && error.kind() != io::ErrorKind::Interrupted
            {
                return Err(BenchError::Poll(error));
            }
            let mut ready = std::mem::take(&mut self.unread);
            ready.extend(events.iter().map(|event| event.token().0));
            for index in ready {
                self.turn(index, &ask);
            }
        }
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    fn turn(&mut self, index: usize, ask: &SyncSender<usize>) {
        match self.read(index) {
            Step::Waits => {}
            Step::MayHoldMore => self.unread.push(index),
            Step::Answered => self.answered(index, ask),
            Step::Broken(error) => {
                let connection = &mut self.connections[index];
                // A watch that had begun and is cut is a failure too: it was promised five seconds.
                self.kinds[connection.ask.kind()].fail(BROKEN, || error.to_string());
                connection.retries = 0;
                connection.wire = None;
                reopen(ask, index);
            }
        }
    }

    /// Reads what the socket has, up to the end of the answer.
    fn read(&mut self, index: usize) -> Step {
        let connection = &mut self.connections[index];
        let Some(wire) = &mut connection.wire else { return Step::Waits };
        if let Err(error) = wire.flush() {
            return Step::Broken(error);
        }
        let kind = &mut self.kinds[connection.ask.kind()];
        for _ in 0..READS_PER_TURN {
            let (response, revision) = (&mut connection.response, &mut connection.revision);
            let is_watch = connection.ask == Ask::Watch;
            let mut wrong = None;
            let read = wire.read(&mut |bytes| {
                let fed = response.feed(bytes, &mut |status, piece| {
                    kind.bytes += piece.len() as u64;
                    match status {
                        200..300 if is_watch => follow(piece, revision),
                        200..300 | 429 => {}
                        status => {
                            kind.first_failure.get_or_insert_with(|| format!("{status}: {}", shorten(piece)));
                        }
                    }
                });
                if let Err(error) = fed {
                    wrong = Some(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            });
            let state = match (wrong, read) {
                (Some(error), _) | (None, Err(error)) => return Step::Broken(error),
                (None, Ok(state)) => state,
            };
            if is_watch && !connection.began && connection.response.status() == 200 {
                connection.began = true;
                kind.served += 1;
                kind.latency
                    .record((self.clock.elapsed().as_nanos() as u64).saturating_sub(connection.sent_nanos));
            }
            if state == ReadState::Closed {
                connection.response.end_of_stream();
            }
            if connection.response.is_done() {
                if connection.response.closes() || state == ReadState::Closed {
                    connection.wire = None;
                }
                return Step::Answered;
            }
            match state {
                ReadState::Closed => return Step::Broken(io::ErrorKind::UnexpectedEof.into()),
                ReadState::Nothing | ReadState::Drained => return Step::Waits,
                ReadState::More => {}
            }
        }
        Step::MayHoldMore
    }

    fn answered(&mut self, index: usize, ask: &SyncSender<usize>) {
        let now = self.now();
        let connection = &mut self.connections[index];
        let kind = &mut self.kinds[connection.ask.kind()];
        match (connection.response.status(), connection.response.retry_after_seconds()) {
            (200..300, _) => {
                connection.retries = 0;
                if !connection.began {
                    kind.served += 1;
                    kind.latency.record(now.saturating_sub(connection.sent_nanos));
                }
                if let Ask::Create(number) = connection.ask {
                    connection.made.push_back(number);
                }
            }
            (429, Some(seconds)) => {
                kind.refused += 1;
                connection.retries += 1;
                if connection.retries <= MAX_RETRIES {
                    self.resting.push(Reverse((now + seconds * 1_000_000_000, index)));
                    return;
                }
                kind.given_up += 1;
                connection.retries = 0;
            }
            (429, None) => kind.refused_silently += 1,
            (status, _) => kind.fail(status, || status.to_string()),
        }
        self.next(index, ask);
    }

    /// Begins the next request of a connection.
    fn next(&mut self, index: usize, ask: &SyncSender<usize>) {
        let connection = &mut self.connections[index];
        if connection.role == Role::Create {
            connection.ask = match connection.made.front() {
                Some(&oldest) if connection.made.len() > KEPT => {
                    connection.made.pop_front();
                    Ask::Delete(oldest)
                }
                _ => {
                    self.next_number += 1;
                    Ask::Create(self.next_number)
                }
            };
        }
        match connection.wire {
            Some(_) => self.send(index, ask),
            None => reopen(ask, index),
        }
    }

    fn send(&mut self, index: usize, ask: &SyncSender<usize>) {
        let now = self.now();
        let connection = &mut self.connections[index];
        let templates = &self.templates[connection.user];
        let (template, number, stamp) = match connection.ask {
            Ask::List => (&templates.list, 0, 0),
            Ask::Create(number) => (&templates.create, number, now),
            Ask::Delete(number) => (&templates.delete, number, 0),
            Ask::Watch => (&templates.watch, 0, connection.revision),
        };
        template.fill(number, stamp, &mut self.request);
        connection.response.reset();
        connection.began = false;
        connection.sent_nanos = now;
        let sent = connection.wire.as_mut().map(|wire| wire.send(&self.request));
        if let Some(Err(error)) = sent {
            self.kinds[connection.ask.kind()].fail(BROKEN, || error.to_string());
            connection.wire = None;
            reopen(ask, index);
        }
    }

    fn reopened(
        &mut self,
        index: usize,
        wire: Result<Wire<std::net::TcpStream>, BenchError>,
        ask: &SyncSender<usize>,
    ) {
        let wire = wire.map_err(|error| error.to_string());
        let wire = wire.and_then(|wire| register(wire, &self.poll, index).map_err(|error| error.to_string()));
        match wire {
            Ok(wire) => {
                self.connections[index].wire = Some(wire);
                self.send(index, ask);
            }
            Err(error) => {
                let kind = self.connections[index].ask.kind();
                self.kinds[kind].fail(BROKEN, || error);
                self.resting.push(Reverse((self.now() + RECONNECT_NANOS, index)));
            }
        }
    }
}

impl Kind {
    fn new(name: &'static str) -> Kind {
        Kind {
            name,
            served: 0,
            bytes: 0,
            refused: 0,
            refused_silently: 0,
            given_up: 0,
            failed: BTreeMap::new(),
            first_failure: None,
            latency: Histogram::new(),
        }
    }

    fn fail(&mut self, status: u16, text: impl FnOnce() -> String) {
        *self.failed.entry(status).or_default() += 1;
        self.first_failure.get_or_insert_with(text);
    }
}

/// There is room for every connection once, and none asks twice.
fn reopen(ask: &SyncSender<usize>, index: usize) {
    let _ = ask.try_send(index);
}

fn register(wire: Wire<std::net::TcpStream>, poll: &Poll, index: usize) -> io::Result<Socket> {
    let mut wire = wire.into_nonblocking()?;
    poll.registry().register(wire.socket_mut(), Token(index), Interest::READABLE | Interest::WRITABLE)?;
    Ok(wire)
}

/// Where a watch stands after some bytes of it: at the last revision in them. One that the server ended with an error
/// begins anew.
fn follow(piece: &[u8], revision: &mut u64) {
    if piece.starts_with(b"{\"type\":\"ERROR\"") {
        *revision = 0;
        return;
    }
    if let Some(at) = memmem::rfind(piece, REVISION) {
        let digits = &piece[at + REVISION.len()..];
        // Cut in the middle it would be a smaller one.
        if let Some(end) = memchr::memchr(b'"', digits)
            && let Some(seen) = std::str::from_utf8(&digits[..end]).ok().and_then(|text| text.parse().ok())
        {
            *revision = seen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_is_resumed_from_the_last_whole_revision() {
        let mut revision = 0;
        follow(br#"{"metadata":{"resourceVersion":"7"}} {"resourceVersion":"12"}"#, &mut revision);
        assert_eq!(revision, 12);
        follow(br#"{"resourceVersion":"1"#, &mut revision);
        assert_eq!(revision, 12);
        follow(br#"{"type":"ERROR","object":{"code":410}}"#, &mut revision);
        assert_eq!(revision, 0);
    }

    #[test]
    fn every_user_has_connections_of_each_role() {
        let roles: Vec<Role> =
            (0..600).filter(|index| index % 40 == 7).map(|index| Role::of(index, 40)).collect();
        for role in [Role::List, Role::Create, Role::Watch] {
            assert_eq!(roles.iter().filter(|&&is| is == role).count(), 5);
        }
    }
}
