//! Clients that stop answering after so many writes (what a process sees that dies in the middle), or lose every third
//! update to somebody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use client::{Answer, Client, Clients, Target};
use object::{About, Status};
use testkit::forward::{Forward, Forwarding, Verb};

/// Events are not counted: nothing depends on them.
pub struct Counting {
    inner: Arc<dyn Clients>,
    writes: Arc<Writes>,
}

struct Writes {
    most: usize,
    conflicts: bool,
    updates: AtomicUsize,
    begun: AtomicUsize,
    noticed: AtomicBool,
}

struct CountingClient {
    inner: Arc<dyn Client>,
    writes: Arc<Writes>,
}

impl Counting {
    pub fn new(inner: Arc<dyn Clients>, most: usize) -> Arc<Counting> {
        Counting::made(inner, most, false)
    }
    /// Every third update is refused as if another had written meanwhile.
    pub fn conflicting(inner: Arc<dyn Clients>) -> Arc<Counting> {
        Counting::made(inner, usize::MAX, true)
    }
    fn made(inner: Arc<dyn Clients>, most: usize, conflicts: bool) -> Arc<Counting> {
        let (begun, updates) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let writes = Writes { most, conflicts, updates, begun, noticed: AtomicBool::new(false) };
        Arc::new(Counting { inner, writes: Arc::new(writes) })
    }
    /// More was asked for than is answered.
    pub fn is_spent(&self) -> bool {
        self.writes.begun.load(Ordering::SeqCst) > self.writes.most
    }
    /// True the first time it is asked.
    pub fn once(&self) -> bool {
        !self.writes.noticed.swap(true, Ordering::SeqCst)
    }
}

impl Clients for Counting {
    fn controller(&self, name: &str) -> Arc<dyn Client> {
        let (inner, writes) = (self.inner.controller(name), self.writes.clone());
        Arc::new(Forwarding(CountingClient { inner, writes }))
    }
    fn user(&self, name: &str, groups: &[&str]) -> Arc<dyn Client> {
        self.inner.user(name, groups)
    }
}

impl CountingClient {
    async fn count(&self, target: &Target<'_>) {
        if target.resource.plural != "events"
            && self.writes.begun.fetch_add(1, Ordering::SeqCst) >= self.writes.most
        {
            std::future::pending::<()>().await;
        }
    }
}

impl Forward for CountingClient {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn write<'a, T: Send + 'a>(
        &'a self,
        verb: Verb,
        target: Target<'a>,
        call: Answer<'a, T>,
    ) -> Answer<'a, T> {
        if matches!(verb, Verb::DeleteCollection | Verb::Act) {
            return call;
        }
        Box::pin(async move {
            self.count(&target).await;
            if verb == Verb::Update {
                let nth = self.writes.updates.fetch_add(1, Ordering::SeqCst);
                if self.writes.conflicts && nth.is_multiple_of(3) {
                    let about = About { group: target.resource.group, resource: target.resource.plural };
                    return Err(Status::modified(about, target.name));
                }
            }
            call.await
        })
    }
}
