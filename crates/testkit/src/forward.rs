//! A client that forwards every call and intercepts some: the base of fault injection.

use std::sync::Arc;

use catalog::{Catalog, Name};
use client::{
    Answer, Client, Clients, DeleteOptions, List, ListOptions, Patch, Target, Watch, WatchOptions,
    WriteOptions,
};
use object::{Obj, Value};
use store::Revision;

/// How a wrapper intercepts calls; the default forwards them unchanged.
pub trait Forward: Send + Sync {
    fn inner(&self) -> &dyn Client;

    fn catalog(&self) -> Arc<Catalog> {
        self.inner().catalog()
    }
    fn discover(&self) -> Answer<'_, Arc<Catalog>> {
        Box::pin(async move {
            self.inner().discover().await?;
            Ok(self.catalog())
        })
    }
    fn get<'a>(&'a self, target: Target<'a>) -> Answer<'a, Arc<Obj>> {
        self.inner().get(target)
    }
    fn get_raw<'a>(&'a self, path: &'a str) -> Answer<'a, Value> {
        self.inner().get_raw(path)
    }
    fn delete_raw<'a>(&'a self, path: &'a str) -> Answer<'a, Value> {
        self.inner().delete_raw(path)
    }
    fn aggregated(&self) -> client::Aggregated {
        self.inner().aggregated()
    }
    fn review<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, Value> {
        self.inner().review(target, body)
    }
    fn list<'a>(&'a self, target: Target<'a>, options: ListOptions) -> Answer<'a, List> {
        self.inner().list(target, options)
    }
    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        self.inner().watch(target, options)
    }
    fn create<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        self.write(Verb::Create, target, self.inner().create(target, body, options))
    }
    fn update<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        self.write(Verb::Update, target, self.inner().update(target, body, options))
    }
    fn patch<'a>(
        &'a self,
        target: Target<'a>,
        patch: Patch,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        self.write(Verb::Patch, target, self.inner().patch(target, patch, options))
    }
    /// Every write comes through here; nothing is done until `call` is awaited.
    fn write<'a, T: Send + 'a>(
        &'a self,
        verb: Verb,
        target: Target<'a>,
        call: Answer<'a, T>,
    ) -> Answer<'a, T> {
        let _ = (verb, target);
        call
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    Act,
}

/// Wraps each client.
pub struct Wrapping<W> {
    pub inner: Arc<dyn Clients>,
    pub wrap: W,
}

impl<F: Forward + 'static, W: Fn(Arc<dyn Client>) -> F + Send + Sync> Clients for Wrapping<W> {
    fn controller(&self, name: &str) -> Arc<dyn Client> {
        Arc::new(Forwarding((self.wrap)(self.inner.controller(name))))
    }
    fn user(&self, name: &str, groups: &[&str]) -> Arc<dyn Client> {
        Arc::new(Forwarding((self.wrap)(self.inner.user(name, groups))))
    }
}

/// The wrapped client.
pub struct Forwarding<F>(pub F);

impl<F: Forward> Client for Forwarding<F> {
    fn catalog(&self) -> Arc<Catalog> {
        self.0.catalog()
    }
    fn discover(&self) -> Answer<'_, Arc<Catalog>> {
        self.0.discover()
    }
    fn get<'a>(&'a self, target: Target<'a>) -> Answer<'a, Arc<Obj>> {
        self.0.get(target)
    }
    fn get_raw<'a>(&'a self, path: &'a str) -> Answer<'a, Value> {
        self.0.get_raw(path)
    }
    fn delete_raw<'a>(&'a self, path: &'a str) -> Answer<'a, Value> {
        self.0.delete_raw(path)
    }
    fn aggregated(&self) -> client::Aggregated {
        self.0.aggregated()
    }
    fn review<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, Value> {
        self.0.review(target, body)
    }
    fn list<'a>(&'a self, target: Target<'a>, options: ListOptions) -> Answer<'a, List> {
        self.0.list(target, options)
    }
    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        self.0.watch(target, options)
    }
    fn create<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        self.0.create(target, body, options)
    }
    fn update<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        self.0.update(target, body, options)
    }
    fn patch<'a>(
        &'a self,
        target: Target<'a>,
        patch: Patch,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        self.0.patch(target, patch, options)
    }
    fn delete<'a>(&'a self, target: Target<'a>, options: DeleteOptions) -> Answer<'a, ()> {
        self.0.write(Verb::Delete, target, self.0.inner().delete(target, options))
    }
    fn delete_collection<'a>(
        &'a self,
        target: Target<'a>,
        options: DeleteOptions,
        which: ListOptions,
    ) -> Answer<'a, ()> {
        let call = self.0.inner().delete_collection(target, options, which);
        self.0.write(Verb::DeleteCollection, target, call)
    }
    fn act<'a>(&'a self, target: Target<'a>, body: Value, options: WriteOptions<'a>) -> Answer<'a, ()> {
        self.0.write(Verb::Act, target, self.0.inner().act(target, body, options))
    }
    fn writer(&self, revision: Revision) -> Option<Name> {
        self.0.inner().writer(revision)
    }
}
