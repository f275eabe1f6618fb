//! The queues of one priority level, and which request is dispatched next.
//!
//! Fair queuing for concurrent requests: ideally the seats are divided evenly among the queues that have
//! work. `meter` (R, virtual time) is the seat-seconds each of them has received so far; a queue's `next_dispatch` is the virtual time
//! at which its next request would start under that ideal. The queue whose next request would *finish* first is dispatched next.
//! The duration of a request is estimated as 3 ms and corrected when it finishes.
//!
//! ```text
//! start ─┬─ executing ─┬─ finish ── lingers (a write keeps its seats while watches are notified) ── gone
//!        ├─ waiting ───┤ dispatched, in order
//!        └─ rejected   └─ cancelled (waited too long, or its client disconnected)
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use auth::UserInfo;
use http::Uri;

use crate::dealer::deal;
use crate::estimate::WorkEstimate;
use crate::families::{FlowStats, Reason};
use crate::spec::Response;
use crate::{Nanos, SECOND};

/// Estimated duration of a request.
const SERVICE_NANOS: i128 = 3_000_000;

/// Seats times nanoseconds: work, and virtual time.
type SeatNanos = i128;
pub type RequestId = u32;

/// User and request, only for the debug dumps.
#[derive(Clone, Debug)]
pub struct About {
    pub user: Arc<UserInfo>,
    pub verb: &'static str,
    /// `None` for in-process components.
    pub uri: Option<Uri>,
    pub flow: Flow,
}

/// The flow of a request.
#[derive(Clone, Debug, Default)]
pub enum Flow {
    #[default]
    All,
    User,
    Namespace(Box<str>),
}

#[derive(Debug)]
pub struct QueueSet {
    response: Response,
    /// Concurrency limit in seats.
    seat_limit: u32,
    /// Limit for the bytes of bodies and responses in progress.
    byte_limit: u64,
    /// More than `response` has while removed queues drain.
    queues: Vec<Queue>,
    /// How many of them have work.
    active: usize,
    requests: Vec<Option<Request>>,
    free: Vec<RequestId>,
    meter: SeatNanos,
    synced: Nanos,
    /// The queue dispatched last: ties are broken round-robin.
    robin: usize,
    enqueued: usize,
    lingering: BinaryHeap<Reverse<(Nanos, RequestId)>>,
    /// How many are in [`Phase::Sending`].
    sending: usize,
    pub totals: Totals,
    hand: Vec<usize>,
    /// Dispatched requests, to be woken after the lock is released.
    woken: Vec<Waker>,
}

/// Counters of a level: current and cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub waiting: usize,
    pub executing: usize,
    pub seats_in_use: u32,
    pub seats_waiting: u32,
    pub bytes_in_use: u64,
    pub dispatched: u64,
    pub rejected: u64,
    pub timed_out: u64,
    pub cancelled: u64,
}

#[derive(Debug, Default)]
pub struct Queue {
    pub waiting: VecDeque<RequestId>,
    pub executing: usize,
    pub seats_in_use: u32,
    pub next_dispatch: SeatNanos,
    /// Of queued requests.
    pub work: SeatNanos,
    pub initial_seats: u32,
    pub max_seats: u32,
}

#[derive(Debug)]
pub struct Request {
    pub about: About,
    pub stats: Arc<FlowStats>,
    pub estimate: WorkEstimate,
    pub queue: Option<usize>,
    pub arrived: Nanos,
    arrival_reading: SeatNanos,
    pub phase: Phase,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Waiting,
    Executing {
        since: Nanos,
    },
    /// Executed; its response is being sent, the last chunk at that time.
    Sending {
        since: Nanos,
        progress: Nanos,
    },
    /// The client does not read the response: the seats were released, the response still exists.
    Stalled,
    Lingering,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    Executing(RequestId),
    Waiting(RequestId),
    Rejected(Reason),
}

/// An arriving request.
pub struct Arrival {
    pub about: About,
    pub stats: Arc<FlowStats>,
    pub estimate: WorkEstimate,
    pub flow_hash: u64,
    /// Queued whatever the queue length: an in-process component, which would only retry.
    pub patient: bool,
}

impl Request {
    fn work(&self) -> SeatNanos {
        let estimate = &self.estimate;
        i128::from(estimate.initial_seats) * SERVICE_NANOS
            + i128::from(estimate.final_seats) * i128::from(estimate.additional_nanos)
    }

    fn seats(&self) -> u32 {
        self.estimate.max_seats()
    }
}

impl QueueSet {
    pub fn new(now: Nanos) -> QueueSet {
        QueueSet {
            response: Response::Reject,
            seat_limit: 0,
            byte_limit: u64::MAX,
            queues: Vec::new(),
            active: 0,
            requests: Vec::new(),
            free: Vec::new(),
            meter: 0,
            synced: now,
            robin: 0,
            enqueued: 0,
            lingering: BinaryHeap::new(),
            sending: 0,
            totals: Totals::default(),
            hand: Vec::new(),
            woken: Vec::new(),
        }
    }

    /// Takes effect at once for queued requests; surplus queues are removed when empty.
    pub fn configure(&mut self, response: Response, seat_limit: u32, byte_limit: u64, now: Nanos) {
        self.sync(now);
        self.response = response;
        self.seat_limit = seat_limit;
        self.byte_limit = byte_limit;
        if let Response::Queue { queues, .. } = response {
            while self.queues.len() < queues as usize {
                self.queues.push(Queue::default());
            }
        }
        self.drop_spare_queues();
        self.dispatch(now);
    }

    pub fn is_idle(&self) -> bool {
        self.totals.waiting == 0 && self.totals.executing == 0
    }

    pub fn demand(&self) -> u32 {
        self.totals.seats_in_use + self.totals.seats_waiting
    }

    pub fn start(&mut self, arrival: Arrival, now: Nanos) -> Started {
        self.sync(now);
        let Arrival { about, stats, estimate, flow_hash, patient } = arrival;
        let request = Request {
            about,
            stats,
            estimate,
            queue: None,
            arrived: now,
            arrival_reading: self.meter,
            phase: Phase::Waiting,
            waker: None,
        };
        let (queues, hand_size, limit) = match self.response {
            Response::Queue { queues, hand_size, queue_length_limit } => {
                (queues as usize, hand_size as usize, queue_length_limit as usize)
            }
            // In-process components that would be rejected wait in a queue of their own.
            Response::Reject if patient && (self.totals.waiting > 0 || !self.has_room(&request)) => {
                (1, 1, usize::MAX)
            }
            Response::Reject if !self.has_room(&request) => {
                return self.reject(&request, Reason::ConcurrencyLimit);
            }
            Response::Reject | Response::Exempt => {
                let id = self.insert(request);
                self.execute(id, now);
                return Started::Executing(id);
            }
        };
        let queue = self.shortest(flow_hash, queues, hand_size);
        // Nothing is queued and seats are free: skips the queues. A level without seats dispatches nothing.
        let free = self.totals.seats_in_use < self.seat_limit;
        let at_once = self.totals.waiting == 0 && free && self.has_room(&request);
        // Differs from kube-apiserver, which lets a queue exceed its limit while a wide request waits for its last seats.
        if !at_once && self.queues[queue].waiting.len() >= limit && !patient {
            return self.reject(&request, Reason::QueueFull);
        }
        let id = self.insert(request);
        self.enqueue(id, queue);
        if at_once {
            self.robin = queue;
            self.dispatch_front(queue, now);
            return Started::Executing(id);
        }
        self.dispatch(now);
        match self.requests[id as usize] {
            Some(Request { phase: Phase::Waiting, .. }) => Started::Waiting(id),
            _ => Started::Executing(id),
        }
    }

    /// Whether it was dispatched; if not, `waker` is woken when it is.
    pub fn poll(&mut self, id: RequestId, waker: &Waker) -> bool {
        let request = self.request_mut(id);
        if request.phase != Phase::Waiting {
            return true;
        }
        match &mut request.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        false
    }

    /// Removes a queued request; `timed_out`: because it waited too long.
    pub fn cancel(&mut self, id: RequestId, timed_out: bool, now: Nanos) {
        if self.request(id).phase != Phase::Waiting {
            // Dispatched just as it left: it did nothing, so it is not counted.
            self.request_mut(id).estimate.additional_nanos = 0;
            return self.finish(id, now);
        }
        self.sync(now);
        let request = self.request(id);
        let Some(at) = request.queue else { return };
        let (work, estimate, stats) = (request.work(), request.estimate, request.stats.clone());
        let queue = &mut self.queues[at];
        queue.waiting.retain(|waiting| *waiting != id);
        queue.leaves(work, &estimate);
        self.totals.waiting -= 1;
        self.totals.seats_waiting -= estimate.max_seats();
        self.totals.rejected += 1;
        stats.left_queue(estimate.max_seats());
        stats.waited(false, now.saturating_sub(self.request(id).arrived));
        stats.rejected(Reason::TimeOut);
        *(if timed_out { &mut self.totals.timed_out } else { &mut self.totals.cancelled }) += 1;
        self.remove(id);
        self.bound(at);
        self.became_idle(at);
        self.dispatch(now);
    }

    /// Its response is being sent; called again with each chunk. Returns whether it is the first such response.
    pub fn sending(&mut self, id: RequestId, now: Nanos) -> bool {
        let request = self.request_mut(id);
        match &mut request.phase {
            Phase::Executing { since } => {
                request.phase = Phase::Sending { since: *since, progress: now };
                self.sending += 1;
                return self.sending == 1;
            }
            Phase::Sending { progress, .. } => *progress = now,
            _ => {}
        }
        false
    }

    /// Releases the seats of responses of which nothing was read since `before`: a slow reader must not block
    /// others. Returns true if any are still being sent.
    pub fn release_stalled(&mut self, before: Nanos, now: Nanos) -> bool {
        self.sync(now);
        if self.sending > 0 {
            for id in 0..self.requests.len() as RequestId {
                if let Some(Request { phase: Phase::Sending { since, progress }, .. }) =
                    self.requests[id as usize]
                    && progress < before
                {
                    self.sending -= 1;
                    self.executed(id, since, now);
                    self.release(id);
                    self.request_mut(id).phase = Phase::Stalled;
                }
            }
        }
        self.dispatch(now);
        self.sending > 0
    }

    pub fn finish(&mut self, id: RequestId, now: Nanos) {
        self.sync(now);
        let phase = self.request(id).phase;
        self.sending -= usize::from(matches!(phase, Phase::Sending { .. }));
        match phase {
            Phase::Executing { since } | Phase::Sending { since, .. } => {
                self.executed(id, since, now);
                let lingers = self.request(id).estimate.additional_nanos;
                if lingers > 0 {
                    self.request_mut(id).phase = Phase::Lingering;
                    self.lingering.push(Reverse((now + lingers, id)));
                    return;
                }
                self.release(id);
                self.remove(id);
                self.dispatch(now);
            }
            Phase::Stalled => self.remove(id),
            Phase::Waiting => self.cancel(id, false, now),
            Phase::Lingering => {}
        }
    }

    /// When lingering seats are released, if requests wait for them.
    pub fn next_release(&self) -> Option<Nanos> {
        let Reverse((at, _)) = self.lingering.peek()?;
        (self.totals.waiting > 0).then_some(*at)
    }

    pub fn take_woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.woken)
    }

    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    pub fn requests(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        let numbered = self.requests.iter().enumerate();
        numbered.filter_map(|(id, request)| Some((id as RequestId, request.as_ref()?)))
    }

    /// Virtual time: seat-seconds received by each queue with work so far.
    pub fn reading(&self) -> f64 {
        self.meter as f64 / SECOND as f64
    }

    /// Advances virtual time by the seats in use divided by the queues with work; releases expired lingering seats.
    fn sync(&mut self, now: Nanos) {
        while let Some(Reverse((at, id))) = self.lingering.peek().copied()
            && at <= now
        {
            self.lingering.pop();
            self.advance(at);
            self.release(id);
            self.remove(id);
        }
        self.advance(now);
    }

    fn advance(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.synced);
        self.synced = self.synced.max(now);
        if self.active > 0 && passed > 0 {
            let seats = self.demand().min(self.seat_limit);
            self.meter += i128::from(seats) * i128::from(passed) / self.active as i128;
        }
    }

    /// The queue of the flow's hand with the least work; starts at another card each time, so that flows whose hands
    /// overlap do not prefer the same queue.
    fn shortest(&mut self, flow_hash: u64, queues: usize, hand_size: usize) -> usize {
        if self.queues.len() < queues {
            self.queues.resize_with(queues, Queue::default);
        }
        let mut hand = std::mem::take(&mut self.hand);
        deal(flow_hash, queues, hand_size, &mut hand);
        let from = self.enqueued % hand.len().max(1);
        self.enqueued = self.enqueued.wrapping_add(1);
        let cards = hand[from..].iter().chain(&hand[..from]).copied();
        let shortest = cards.min_by_key(|card| self.queues[*card].work).unwrap_or(0);
        self.hand = hand;
        shortest
    }

    fn has_room(&self, request: &Request) -> bool {
        let seats = request.seats();
        if self.response == Response::Exempt {
            return true;
        }
        // Wider or larger than the level itself: dispatched when alone.
        if seats > self.seat_limit {
            return self.totals.executing == 0;
        }
        self.totals.seats_in_use + seats <= self.seat_limit && self.has_bytes(request)
    }

    fn has_bytes(&self, request: &Request) -> bool {
        let bytes = request.estimate.bytes;
        bytes == 0 || self.totals.executing == 0 || self.totals.bytes_in_use + bytes <= self.byte_limit
    }

    fn reject(&mut self, request: &Request, reason: Reason) -> Started {
        self.totals.rejected += 1;
        request.stats.rejected(reason);
        request.stats.waited(false, 0);
        Started::Rejected(reason)
    }

    fn enqueue(&mut self, id: RequestId, at: usize) {
        let meter = self.meter;
        let request = self.request_mut(id);
        request.queue = Some(at);
        let (work, estimate, stats) = (request.work(), request.estimate, request.stats.clone());
        let queue = &mut self.queues[at];
        if queue.waiting.is_empty() && queue.executing == 0 {
            queue.next_dispatch = meter;
            self.active += 1;
        }
        queue.waiting.push_back(id);
        queue.work += work;
        queue.initial_seats += estimate.initial_seats;
        queue.max_seats += estimate.max_seats();
        self.totals.waiting += 1;
        self.totals.seats_waiting += estimate.max_seats();
        stats.entered_queue(estimate.max_seats(), queue.waiting.len());
        self.bound(at);
    }

    fn dispatch(&mut self, now: Nanos) {
        while self.totals.waiting > 0 {
            let Some(at) = self.next_queue() else { return };
            let front = self.queues[at].waiting.front().copied();
            let Some(request) = front.map(|id| self.request(id)) else { return };
            if !self.has_room(request) {
                request.stats.no_accommodation();
                return;
            }
            self.robin = at;
            self.dispatch_front(at, now);
        }
    }

    /// The queue whose next request would finish first.
    fn next_queue(&self) -> Option<usize> {
        if self.response != Response::Exempt && self.totals.seats_in_use >= self.seat_limit {
            return None;
        }
        let count = self.queues.len();
        let mut best: Option<(SeatNanos, usize)> = None;
        for step in 1..=count {
            let at = (self.robin + step) % count;
            let queue = &self.queues[at];
            let Some(id) = queue.waiting.front() else { continue };
            let ends = queue.next_dispatch + self.request(*id).work();
            if best.is_none_or(|(least, _)| ends < least) {
                best = Some((ends, at));
            }
        }
        best.map(|(_, at)| at)
    }

    fn dispatch_front(&mut self, at: usize, now: Nanos) {
        let Some(id) = self.queues[at].waiting.pop_front() else { return };
        let request = self.request(id);
        let (work, estimate, stats) = (request.work(), request.estimate, request.stats.clone());
        let queue = &mut self.queues[at];
        queue.leaves(work, &estimate);
        queue.next_dispatch += work;
        queue.executing += 1;
        queue.seats_in_use += estimate.max_seats();
        self.totals.waiting -= 1;
        self.totals.seats_waiting -= estimate.max_seats();
        stats.left_queue(estimate.max_seats());
        self.execute(id, now);
        self.bound(at);
    }

    fn execute(&mut self, id: RequestId, now: Nanos) {
        let exempt = self.response == Response::Exempt;
        let request = self.request_mut(id);
        request.phase = Phase::Executing { since: now };
        let waited = now.saturating_sub(request.arrived);
        let (seats, bytes, waker) = (request.seats(), request.estimate.bytes, request.waker.take());
        request.stats.dispatched(seats);
        if !exempt {
            request.stats.waited(true, waited);
        }
        self.totals.executing += 1;
        self.totals.dispatched += 1;
        self.totals.seats_in_use += seats;
        self.totals.bytes_in_use += bytes;
        self.woken.extend(waker);
    }

    /// Corrects the estimate; the request no longer executes, but its seats are still taken.
    fn executed(&mut self, id: RequestId, since: Nanos, now: Nanos) {
        let request = self.request(id);
        let took = now.saturating_sub(since);
        request.stats.executed(request.about.verb == "watch", took);
        let correction = i128::from(request.estimate.initial_seats) * (SERVICE_NANOS - i128::from(took));
        let at = request.queue;
        self.totals.executing -= 1;
        if let Some(at) = at {
            let queue = &mut self.queues[at];
            queue.executing -= 1;
            queue.next_dispatch -= correction;
            self.bound(at);
            self.became_idle(at);
        }
    }

    fn release(&mut self, id: RequestId) {
        let request = self.request(id);
        let (seats, bytes, at) = (request.seats(), request.estimate.bytes, request.queue);
        request.stats.released(seats);
        self.totals.seats_in_use -= seats;
        self.totals.bytes_in_use -= bytes;
        if let Some(at) = at {
            self.queues[at].seats_in_use -= seats;
            self.drop_spare_queues();
        }
    }

    /// A request does not start before it arrived: a queue that did not use its share does not accumulate it.
    fn bound(&mut self, at: usize) {
        if let Some(id) = self.queues[at].waiting.front() {
            let arrival = self.request(*id).arrival_reading;
            let queue = &mut self.queues[at];
            queue.next_dispatch = queue.next_dispatch.max(arrival);
        }
    }

    fn became_idle(&mut self, at: usize) {
        let queue = &self.queues[at];
        if queue.waiting.is_empty() && queue.executing == 0 {
            self.active -= 1;
        }
    }

    /// Only from the end: requests refer to their queue by index.
    fn drop_spare_queues(&mut self) {
        let wanted = match self.response {
            Response::Queue { queues, .. } => queues as usize,
            Response::Exempt | Response::Reject => 0,
        };
        while self.queues.len() > wanted
            && self
                .queues
                .last()
                .is_some_and(|q| q.waiting.is_empty() && q.executing == 0 && q.seats_in_use == 0)
        {
            self.queues.pop();
        }
        self.robin = self.robin.min(self.queues.len().saturating_sub(1));
    }

    fn insert(&mut self, request: Request) -> RequestId {
        match self.free.pop() {
            Some(id) => {
                self.requests[id as usize] = Some(request);
                id
            }
            None => {
                self.requests.push(Some(request));
                (self.requests.len() - 1) as RequestId
            }
        }
    }

    fn remove(&mut self, id: RequestId) {
        self.requests[id as usize] = None;
        self.free.push(id);
        if self.free.len() == self.requests.len() && self.requests.len() > 1024 {
            // After a burst.
            (self.requests, self.free) = (Vec::new(), Vec::new());
        }
    }

    fn request(&self, id: RequestId) -> &Request {
        self.requests[id as usize].as_ref().expect("a request is known until its seat is given back")
    }

    fn request_mut(&mut self, id: RequestId) -> &mut Request {
        self.requests[id as usize].as_mut().expect("a request is known until its seat is given back")
    }
}

impl Queue {
    fn leaves(&mut self, work: SeatNanos, estimate: &WorkEstimate) {
        self.work -= work;
        self.initial_seats -= estimate.initial_seats;
        self.max_seats -= estimate.max_seats();
    }
}

#[cfg(test)]
mod tests;
