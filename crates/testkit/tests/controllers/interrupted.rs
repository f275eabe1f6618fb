//! Clients with faults: their process dies after so many writes (the last one is carried out, its response is lost), others write
//! to every second object right before they do, their watches are late.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use apiserver::LocalClients;
use client::{Answer, Client, Clients, Event, Patch, Target, Watch, WatchOptions, WriteOptions};
use env::Env;
use object::Value;
use testkit::TestCluster;
use testkit::forward::{Forward, Forwarding, Verb};

#[derive(Clone)]
pub struct Interrupted {
    inner: LocalClients,
    env: Env,
    left: Arc<AtomicI64>,
    meddling: bool,
    late_millis: u64,
}

impl Interrupted {
    pub fn after(cluster: &TestCluster, writes: i64) -> Interrupted {
        Interrupted {
            inner: LocalClients::new(cluster.api().clone()),
            env: cluster.env().clone(),
            left: Arc::new(AtomicI64::new(writes)),
            meddling: false,
            late_millis: 0,
        }
    }
    pub fn never(cluster: &TestCluster) -> Interrupted {
        Interrupted::after(cluster, i64::MAX)
    }
    /// Somebody else changes every second object right before it is written: its version is never the one that was read.
    pub fn meddling(mut self) -> Interrupted {
        self.meddling = true;
        self
    }
    /// What is watched is told up to so much later, each resource for itself.
    pub fn late(mut self, millis: u64) -> Interrupted {
        self.late_millis = millis;
        self
    }
    /// How many more writes there may be.
    pub fn left(&self) -> i64 {
        self.left.load(Ordering::SeqCst)
    }
    pub fn is_dead(&self) -> bool {
        self.left() <= 0
    }

    fn mortal(&self, inner: Arc<dyn Client>) -> Arc<dyn Client> {
        let admin = self.inner.user("kubernetes-admin", &["system:masters"]);
        let meddler = self.meddling.then_some(admin);
        let (left, env) = (self.left.clone(), self.env.clone());
        Arc::new(Forwarding(Mortal { inner, env, left, meddler, late_millis: self.late_millis }))
    }
}

impl Clients for Interrupted {
    fn controller(&self, name: &str) -> Arc<dyn Client> {
        self.mortal(self.inner.controller(name))
    }
    fn user(&self, name: &str, groups: &[&str]) -> Arc<dyn Client> {
        self.mortal(self.inner.user(name, groups))
    }
}

struct Mortal {
    inner: Arc<dyn Client>,
    env: Env,
    left: Arc<AtomicI64>,
    meddler: Option<Arc<dyn Client>>,
    late_millis: u64,
}

/// A watch of somebody slow.
struct Late {
    inner: Box<dyn Watch>,
    env: Env,
    millis: u64,
}

impl Watch for Late {
    fn pull<'a>(&'a mut self, into: &'a mut Vec<Event>) -> Answer<'a, bool> {
        Box::pin(async move {
            let more = self.inner.pull(into).await;
            self.env.sleep(Duration::from_millis(self.env.random_below(self.millis))).await;
            more
        })
    }
}

impl Forward for Mortal {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        if self.late_millis == 0 {
            return self.inner.watch(target, options);
        }
        Box::pin(async move {
            let inner = self.inner.watch(target, options).await?;
            let watch: Box<dyn Watch> =
                Box::new(Late { inner, env: self.env.clone(), millis: self.late_millis });
            Ok(watch)
        })
    }
    fn write<'a, T: Send + 'a>(&'a self, _: Verb, target: Target<'a>, call: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let left = self.left.fetch_sub(1, Ordering::SeqCst);
            if left < 1 {
                return std::future::pending().await;
            }
            if let Some(meddler) = self.meddler.as_ref().filter(|_| left % 2 == 0 && !target.name.is_empty())
            {
                let mut patch = Value::map();
                patch.map_at(&["metadata", "annotations"]).set("meddled", left.to_string());
                let _ = meddler.patch(target.sub(""), Patch::Merge(patch), WriteOptions::default()).await;
            }
            let answer = call.await;
            if left == 1 { std::future::pending().await } else { answer }
        })
    }
}
