//! The body of an answer that comes from a node or a pod, passed on piece by piece.
//!
//! One piece is taken from the backend at a time, and few bytes are on their way to the client: a client that reads slowly slows
//! the backend down, and one that stops reading holds a few kilobytes, for as long as it likes (`kubectl logs -f | less`).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http_body::Body as _;
use hyper::body::Incoming;

use crate::connect::BackendConnection;
use crate::metrics::LongRunning;
use crate::shutdown::Shutdown;

/// Bytes taken from the backend and not sent to the client.
const WINDOW: usize = 64 << 10;

pub struct ProxiedBody {
    incoming: Incoming,
    /// The connection to the backend ends with the body; none: it was read to the end.
    connection: Option<BackendConnection>,
    /// Received and not taken.
    rest: Bytes,
    state: State,
    window: Arc<SendWindow>,
    settings: ProxiedSettings,
}

/// How a body ends, and where it is counted.
pub struct ProxiedSettings {
    /// Set if it ends when the server does.
    pub shutdown: Option<Shutdown>,
    /// Whether a body that is cut off counts as complete, as upstream has it for logs.
    pub cut_is_end: bool,
    pub gauge: Option<LongRunning>,
    /// When it is cut off, whatever the backend does; None: never.
    pub deadline: Option<Pin<Box<tokio::time::Sleep>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Ended,
    Broken,
}

/// The backend's connection broke before the body was complete.
#[derive(Debug, thiserror::Error)]
#[error("the backend cut its answer off")]
pub struct Broken;

impl ProxiedBody {
    /// `begin` was received before.
    pub fn new(
        begin: Bytes,
        incoming: Incoming,
        connection: BackendConnection,
        settings: ProxiedSettings,
    ) -> ProxiedBody {
        ProxiedBody {
            incoming,
            connection: Some(connection),
            rest: begin,
            state: State::Open,
            window: Arc::default(),
            settings,
        }
    }

    /// Ready when there is something to take (true), or nothing is left (false).
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            if !self.rest.is_empty() {
                ready!(self.window.poll_open(cx));
                return Poll::Ready(true);
            }
            if self.settings.shutdown.as_mut().is_some_and(|shutdown| shutdown.poll_begun(cx)) {
                self.state = State::Ended;
            }
            let over = |sleep: &mut Pin<Box<tokio::time::Sleep>>| sleep.as_mut().poll(cx).is_ready();
            if self.state == State::Open && self.settings.deadline.as_mut().is_some_and(over) {
                tracing::debug!("a backend did not complete its answer in time");
                self.state = State::Broken;
            }
            if self.state != State::Open {
                return Poll::Ready(false);
            }
            match ready!(Pin::new(&mut self.incoming).poll_frame(cx)) {
                // Trailers are dropped.
                Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    tracing::debug!(%error, "a backend cut its answer off");
                    self.state = if self.settings.cut_is_end { State::Ended } else { State::Broken };
                }
                None => self.state = State::Ended,
            }
            self.finish_if_read();
        }
    }

    /// Nobody need ask for what follows the last piece.
    fn finish_if_read(&mut self) {
        if self.incoming.is_end_stream()
            && let Some(connection) = self.connection.take()
        {
            connection.finish();
        }
    }

    pub fn take(&mut self, most: usize) -> (Bytes, InWindow) {
        let bytes = self.rest.split_to(most.min(self.rest.len()));
        let held = InWindow::new(&self.window, bytes.len());
        (bytes, held)
    }

    /// For clients in this process.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        Poll::Ready(match ready!(self.poll_ready(cx)) {
            true => Some(Ok(std::mem::take(&mut self.rest))),
            false => self.is_broken().then_some(Err(Broken)),
        })
    }

    pub fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    /// Bytes held for it.
    pub fn weight(&self) -> usize {
        self.rest.len() + self.window.unsent.load(Ordering::Relaxed)
    }
}

/// What is on its way to the client.
#[derive(Default)]
struct SendWindow {
    unsent: AtomicUsize,
    waker: AtomicWaker,
}

impl SendWindow {
    fn poll_open(&self, cx: &Context<'_>) -> Poll<()> {
        if self.unsent.load(Ordering::Acquire) < WINDOW {
            return Poll::Ready(());
        }
        self.waker.register(cx.waker());
        // Bytes may have been sent in between.
        if self.unsent.load(Ordering::Acquire) < WINDOW { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Bytes in the window, until they are sent and this is dropped.
pub struct InWindow {
    window: Arc<SendWindow>,
    bytes: usize,
}

impl InWindow {
    fn new(window: &Arc<SendWindow>, bytes: usize) -> InWindow {
        window.unsent.fetch_add(bytes, Ordering::AcqRel);
        InWindow { window: window.clone(), bytes }
    }
}

impl Drop for InWindow {
    fn drop(&mut self) {
        self.window.unsent.fetch_sub(self.bytes, Ordering::AcqRel);
        self.window.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn the_window_opens_when_bytes_are_sent() {
        let window = Arc::<SendWindow>::default();
        let open = || window.poll_open(&Context::from_waker(Waker::noop())).is_ready();
        let first = InWindow::new(&window, WINDOW - 1);
        assert!(open());
        let second = InWindow::new(&window, 1);
        assert!(!open());
        drop(second);
        assert!(open());
        drop(first);
        assert_eq!(window.unsent.load(Ordering::Relaxed), 0);
    }
}
