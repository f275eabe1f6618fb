//! Clients whose process dies after so many writes: the last one is done, its answer never comes, and no more are made.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use apiserver::LocalClients;
use catalog::Catalog;
use client::{Answer, Client, Clients, DeleteOptions, List, ListOptions, Patch, Target, Watch, WatchOptions};
use object::Value;
use table::Obj;
use testkit::TestCluster;

#[derive(Clone)]
pub struct Interrupted {
    inner: LocalClients,
    left: Arc<AtomicI64>,
}

impl Interrupted {
    pub fn after(cluster: &TestCluster, writes: i64) -> Interrupted {
        Interrupted { inner: LocalClients::new(cluster.api().clone()), left: Arc::new(AtomicI64::new(writes)) }
    }
    /// How many more writes there may be.
    pub fn left(&self) -> i64 {
        self.left.load(Ordering::SeqCst)
    }
    pub fn is_dead(&self) -> bool {
        self.left.load(Ordering::SeqCst) <= 0
    }
}

impl Clients for Interrupted {
    fn controller(&self, name: &str) -> Arc<dyn Client> {
        Arc::new(Mortal { inner: self.inner.controller(name), left: self.left.clone() })
    }
    fn user(&self, name: &str, groups: &[&str]) -> Arc<dyn Client> {
        Arc::new(Mortal { inner: self.inner.user(name, groups), left: self.left.clone() })
    }
}

struct Mortal {
    inner: Arc<dyn Client>,
    left: Arc<AtomicI64>,
}

impl Mortal {
    fn write<'a, T: Send + 'a>(&'a self, call: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let left = self.left.fetch_sub(1, Ordering::SeqCst);
            if left > 1 {
                return call.await;
            }
            if left == 1 {
                let _ = call.await;
            }
            std::future::pending().await
        })
    }
}

impl Client for Mortal {
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
        self.write(self.inner.create(target, body))
    }
    fn update<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, Arc<Obj>> {
        self.write(self.inner.update(target, body))
    }
    fn patch<'a>(&'a self, target: Target<'a>, patch: Patch) -> Answer<'a, Arc<Obj>> {
        self.write(self.inner.patch(target, patch))
    }
    fn delete<'a>(&'a self, target: Target<'a>, options: DeleteOptions) -> Answer<'a, ()> {
        self.write(self.inner.delete(target, options))
    }
    fn delete_collection<'a>(
        &'a self,
        target: Target<'a>,
        options: DeleteOptions,
        which: ListOptions,
    ) -> Answer<'a, ()> {
        self.write(self.inner.delete_collection(target, options, which))
    }
    fn act<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, ()> {
        self.write(self.inner.act(target, body))
    }
}
