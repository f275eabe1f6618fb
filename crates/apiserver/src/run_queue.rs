//! Two lanes: what keeps the cluster alive passes by, everything else waits for its turn to use a thread.
//!
//! The runtime's threads run what is ready in the order in which it became ready. Four hundred requests in that row, or a
//! hundred pieces of lists, would be what a probe of `/readyz` or a node's lease waits for. So few of them are in the row at a
//! time: the others wait here, first come, first served. A turn is the right to be run, not to be under way: a request that
//! waits for the disk, for a client or for anything else has none ([`Queued`]).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// A body above this is bulk.
pub const LARGE_BYTES: usize = 64 << 10;

/// PermitPoller of one server.
#[derive(Clone)]
pub struct RunQueue(Arc<Semaphore>);

/// A turn, until it is dropped. Not to be kept while waiting for anything: who is waited for may need one.
pub struct RunPermit(#[allow(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

type Acquire = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>;

/// Somebody who needs turns again and again.
pub struct PermitPoller {
    run_queue: RunQueue,
    waiting: Option<Acquire>,
    held: Option<RunPermit>,
}

/// Work that has a turn whenever it is run, and none while it waits. It must not ask for another: those who have one would wait
/// for each other.
pub struct Queued<F> {
    permit: PermitPoller,
    work: Pin<Box<F>>,
}

impl RunQueue {
    /// As many at once as there are threads to run them, and one each to come next.
    pub fn new() -> RunQueue {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        RunQueue(Arc::new(Semaphore::new(2 * threads)))
    }

    pub fn queued<F: Future>(&self, work: F) -> Queued<F> {
        Queued { permit: self.poller(), work: Box::pin(work) }
    }

    pub async fn acquire(&self) -> Option<RunPermit> {
        // It is never closed.
        self.0.clone().acquire_owned().await.ok().map(RunPermit)
    }

    pub fn poller(&self) -> PermitPoller {
        PermitPoller { run_queue: self.clone(), waiting: None, held: None }
    }
}

impl PermitPoller {
    /// Ready with a turn, which lasts until [`PermitPoller::over`].
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.held.is_some() {
            return Poll::Ready(());
        }
        if self.waiting.is_none() {
            if let Ok(permit) = self.run_queue.0.clone().try_acquire_owned() {
                self.held = Some(RunPermit(permit));
                return Poll::Ready(());
            }
            self.waiting = Some(Box::pin(self.run_queue.0.clone().acquire_owned()));
        }
        if let Some(waiting) = &mut self.waiting {
            let permit = ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
            self.held = permit.ok().map(RunPermit);
        }
        Poll::Ready(())
    }

    /// Gives back a turn, or its place in the row.
    pub fn release(&mut self) {
        self.held = None;
        self.waiting = None;
    }
}

impl<F: Future> Future for Queued<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Queued { permit, work } = &mut *self;
        ready!(permit.poll(cx));
        let polled = work.as_mut().poll(cx);
        permit.release();
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn there_are_as_many_turns_as_threads_and_they_come_in_order() {
        let run_queue = RunQueue(Arc::new(Semaphore::new(1)));
        let (mut first, mut second, mut third) = (run_queue.poller(), run_queue.poller(), run_queue.poller());
        let poll = |permit: &mut PermitPoller| {
            permit.poll(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
        };
        assert!(poll(&mut first) && poll(&mut first));
        assert!(!poll(&mut second) && !poll(&mut third));
        first.release();
        // Who comes again goes to the end of the row.
        assert!(!poll(&mut first) && !poll(&mut third) && poll(&mut second));
        drop(second);
        assert!(poll(&mut third) && !poll(&mut first));
        third.release();
        assert!(poll(&mut first));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_waits_leaves_its_turn_to_others() {
        let run_queue = RunQueue(Arc::new(Semaphore::new(1)));
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let first = run_queue.queued(async { receiver.await.expect("it is sent") });
        let second = run_queue.queued(async { sender.send(7).expect("somebody waits for it") });
        assert_eq!(tokio::join!(first, second).0, 7);
    }
}
