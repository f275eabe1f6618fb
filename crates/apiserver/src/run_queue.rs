//! A queue in front of tokio's: only a few ordinary requests are runnable at a time, critical ones bypass it.
//!
//! tokio runs tasks in the order in which they became ready. Four hundred requests in its queue, or a hundred chunks of lists,
//! would delay a probe of `/readyz` or a node's lease. So ordinary work waits here, first come, first served, for a permit to be
//! polled. A permit is held while polling, not while waiting: a request that waits for the disk or for its client has none
//! ([`Queued`]).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// A larger body needs a permit to be decoded, even of a critical request.
pub const LARGE_BYTES: usize = 64 << 10;

/// The permits of one server.
#[derive(Clone)]
pub struct RunQueue(Arc<Semaphore>);

/// A permit, until it is dropped. Not to be held across an `.await`: what is awaited may need one itself.
pub struct RunPermit(#[allow(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

type Acquire = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>;

/// Acquires a permit again and again, from `poll` functions.
pub struct PermitPoller {
    run_queue: RunQueue,
    waiting: Option<Acquire>,
    held: Option<RunPermit>,
}

/// Work that holds a permit whenever it is polled, and none while it waits. It must not acquire another: that is a deadlock.
pub struct Queued<F> {
    permit: PermitPoller,
    work: Pin<Box<F>>,
}

impl RunQueue {
    /// One permit for each thread, and one more each so that no thread waits for the next task.
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
    /// Ready with a permit, which is held until [`PermitPoller::release`].
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

    /// Gives back the permit, or the place in the queue.
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
    async fn permits_are_given_in_order() {
        let run_queue = RunQueue(Arc::new(Semaphore::new(1)));
        let (mut first, mut second, mut third) = (run_queue.poller(), run_queue.poller(), run_queue.poller());
        let poll = |permit: &mut PermitPoller| {
            permit.poll(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
        };
        assert!(poll(&mut first) && poll(&mut first));
        assert!(!poll(&mut second) && !poll(&mut third));
        first.release();
        // Whoever comes again goes to the end of the queue.
        assert!(!poll(&mut first) && !poll(&mut third) && poll(&mut second));
        drop(second);
        assert!(poll(&mut third) && !poll(&mut first));
        third.release();
        assert!(poll(&mut first));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_waits_holds_no_permit() {
        let run_queue = RunQueue(Arc::new(Semaphore::new(1)));
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let first = run_queue.queued(async { receiver.await.expect("it is sent") });
        let second = run_queue.queued(async { sender.send(7).expect("somebody waits for it") });
        assert_eq!(tokio::join!(first, second).0, 7);
    }
}
