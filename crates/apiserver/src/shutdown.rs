//! The shutdown signal, for watches, connections and readiness.

use std::sync::Arc;
use std::task::Context;

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Cheap to clone; each clone can be polled by one task.
pub struct Shutdown {
    begun: watch::Receiver<bool>,
    /// Guards the wakers of polling tasks; a few per connection.
    wakers: Arc<Mutex<Vec<Arc<AtomicWaker>>>>,
    mine: Option<Arc<AtomicWaker>>,
}

/// Begins the shutdown.
pub struct Trigger {
    begun: watch::Sender<bool>,
    wakers: Arc<Mutex<Vec<Arc<AtomicWaker>>>>,
}

impl Trigger {
    pub fn new() -> (Trigger, Shutdown) {
        let (begun, receiver) = watch::channel(false);
        let wakers: Arc<Mutex<Vec<Arc<AtomicWaker>>>> = Arc::default();
        (Trigger { begun, wakers: wakers.clone() }, Shutdown { begun: receiver, wakers, mine: None })
    }
    pub fn begin(&self) {
        self.begun.send_replace(true);
        for waker in self.wakers.lock().drain(..) {
            waker.wake();
        }
    }
}

impl Clone for Shutdown {
    fn clone(&self) -> Self {
        Shutdown { begun: self.begun.clone(), wakers: self.wakers.clone(), mine: None }
    }
}

impl Shutdown {
    pub fn has_begun(&self) -> bool {
        *self.begun.borrow()
    }

    pub async fn begun(&mut self) {
        // A dropped trigger means the server is gone: that is a shutdown too.
        let _ = self.begun.wait_for(|b| *b).await;
    }

    /// True when it has begun; otherwise the task is woken when it does.
    pub fn poll_begun(&mut self, cx: &Context<'_>) -> bool {
        let mine = self.mine.get_or_insert_with(|| {
            let waker = Arc::new(AtomicWaker::new());
            self.wakers.lock().push(waker.clone());
            waker
        });
        mine.register(cx.waker());
        self.has_begun()
    }
}

impl Drop for Shutdown {
    fn drop(&mut self) {
        if let Some(mine) = &self.mine {
            let mut wakers = self.wakers.lock();
            if let Some(at) = wakers.iter().position(|w| Arc::ptr_eq(w, mine)) {
                wakers.swap_remove(at);
            }
        }
    }
}
