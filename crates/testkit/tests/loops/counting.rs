//! Clients that stop answering after so many writes (what a process sees that dies in the middle), or lose every third
//! update to somebody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use catalog::Catalog;
use client::{Answer, Client, Clients, DeleteOptions, List, ListOptions, Patch, Target, Watch, WatchOptions};
use object::{About, Status, Value};
use table::Obj;

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
        Arc::new(CountingClient { inner: self.inner.controller(name), writes: self.writes.clone() })
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

impl Client for CountingClient {
    fn catalog(&self) -> &Arc<Catalog> {
        self.inner.catalog()
    }
    fn get<'a>(&'a self, target: Target<'a>) -> Answer<'a, Arc<Obj>> {
        self.inner.get(target)
    }
    fn list<'a>(&'a self, target: Target<'a>, options: ListOptions) -> Answer<'a, List> {
        self.inner.list(target, options)
    }
    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        self.inner.watch(target, options)
    }
    fn create<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, Arc<Obj>> {
        Box::pin(async move {
            self.count(&target).await;
            self.inner.create(target, body).await
        })
    }
    fn update<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, Arc<Obj>> {
        Box::pin(async move {
            self.count(&target).await;
            let nth = self.writes.updates.fetch_add(1, Ordering::SeqCst);
            if self.writes.conflicts && nth.is_multiple_of(3) {
                let about = About { group: target.resource.group, resource: target.resource.plural };
                return Err(Status::modified(about, target.name));
            }
            self.inner.update(target, body).await
        })
    }
    fn patch<'a>(&'a self, target: Target<'a>, patch: Patch) -> Answer<'a, Arc<Obj>> {
        Box::pin(async move {
            self.count(&target).await;
            self.inner.patch(target, patch).await
        })
    }
    fn delete<'a>(&'a self, target: Target<'a>, options: DeleteOptions) -> Answer<'a, ()> {
        Box::pin(async move {
            self.count(&target).await;
            self.inner.delete(target, options).await
        })
    }
    fn delete_collection<'a>(
        &'a self,
        target: Target<'a>,
        options: DeleteOptions,
        which: ListOptions,
    ) -> Answer<'a, ()> {
        self.inner.delete_collection(target, options, which)
    }
    fn act<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, ()> {
        self.inner.act(target, body)
    }
}
