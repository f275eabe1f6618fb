//! Two lanes: what keeps the cluster alive passes by, everything else waits for its turn to use a thread.
//!
//! The runtime's threads run what is ready in the order in which it became ready. Four hundred requests in that row, or a
//! hundred pieces of lists, would be what a probe of `/readyz` or a node's lease waits for. So few of them are in the row at a
//! time: the others wait here, first come, first served. A turn is the right to be run, not to be under way: a request that
//! waits for the disk, for a client or for anything else has none ([`Lane`]).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// A body above this is bulk.
pub const LARGE_BYTES: usize = 64 << 10;

/// Turns of one server.
#[derive(Clone)]
pub struct Bulk(Arc<Semaphore>);

/// A turn, until it is dropped. Not to be kept while waiting for anything: who is waited for may need one.
pub struct Turn(#[allow(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

type Acquire = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>;

/// Somebody who needs turns again and again.
pub struct Turns {
    bulk: Bulk,
    waiting: Option<Acquire>,
    held: Option<Turn>,
}

/// Work that has a turn whenever it is run, and none while it waits. It must not ask for another: those who have one would wait
/// for each other.
pub struct Lane<F> {
    turns: Turns,
    work: Pin<Box<F>>,
}

impl Bulk {
    /// As many at once as there are threads to run them, and one each to come next.
    pub fn new() -> Bulk {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Bulk(Arc::new(Semaphore::new(2 * threads)))
    }

    pub fn lane<F: Future>(&self, work: F) -> Lane<F> {
        Lane { turns: self.turns(), work: Box::pin(work) }
    }

    pub async fn turn(&self) -> Option<Turn> {
        // It is never closed.
        self.0.clone().acquire_owned().await.ok().map(Turn)
    }

    pub fn turns(&self) -> Turns {
        Turns { bulk: self.clone(), waiting: None, held: None }
    }
}

impl Turns {
    /// Ready with a turn, which lasts until [`Turns::over`].
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.held.is_some() {
            return Poll::Ready(());
        }
        if self.waiting.is_none() {
            if let Ok(permit) = self.bulk.0.clone().try_acquire_owned() {
                self.held = Some(Turn(permit));
                return Poll::Ready(());
            }
            self.waiting = Some(Box::pin(self.bulk.0.clone().acquire_owned()));
        }
        if let Some(waiting) = &mut self.waiting {
            let permit = ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
            self.held = permit.ok().map(Turn);
        }
        Poll::Ready(())
    }

    /// Gives back a turn, or its place in the row.
    pub fn over(&mut self) {
        self.held = None;
        self.waiting = None;
    }
}

impl<F: Future> Future for Lane<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Lane { turns, work } = &mut *self;
        ready!(turns.poll(cx));
        let polled = work.as_mut().poll(cx);
        turns.over();
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn there_are_as_many_turns_as_threads_and_they_come_in_order() {
        let bulk = Bulk(Arc::new(Semaphore::new(1)));
        let (mut first, mut second, mut third) = (bulk.turns(), bulk.turns(), bulk.turns());
        let poll =
            |turns: &mut Turns| turns.poll(&mut Context::from_waker(std::task::Waker::noop())).is_ready();
        assert!(poll(&mut first) && poll(&mut first));
        assert!(!poll(&mut second) && !poll(&mut third));
        first.over();
        // Who comes again goes to the end of the row.
        assert!(!poll(&mut first) && !poll(&mut third) && poll(&mut second));
        drop(second);
        assert!(poll(&mut third) && !poll(&mut first));
        third.over();
        assert!(poll(&mut first));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_waits_leaves_its_turn_to_others() {
        let bulk = Bulk(Arc::new(Semaphore::new(1)));
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let first = bulk.lane(async { receiver.await.expect("it is sent") });
        let second = bulk.lane(async { sender.send(7).expect("somebody waits for it") });
        assert_eq!(tokio::join!(first, second).0, 7);
    }
}
