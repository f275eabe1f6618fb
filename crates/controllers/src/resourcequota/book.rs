//! What the objects of namespaces with quotas use, summed up for each quota: one change of an object costs no walk of the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::Catalog;
use client::Gvr;
use kinds::resourcequota::usage::{self, Evaluator, List, Lookup, Measured, Quota, Selector};
use object::{Obj, Revision, Value};
use tokio::time::Instant;

/// What an object used at a revision.
pub type Usage = (Revision, Arc<Measured>);
/// By name.
pub type Usages = BTreeMap<String, Usage>;

/// By namespace; only where there are quotas.
#[derive(Default)]
pub struct Books {
    namespaces: BTreeMap<String, Book>,
}

#[derive(Default)]
struct Book {
    /// By name.
    quotas: BTreeMap<String, Account>,
    resources: BTreeMap<Gvr, Counted>,
}

/// The objects of a resource that some quota counts.
struct Counted {
    evaluator: Evaluator,
    usages: Usages,
}

/// One quota.
struct Account {
    revision: Revision,
    /// Of the catalogue that told who counts what.
    generation: u64,
    selectors: Vec<Selector>,
    wanted: List,
    /// As its status had it last.
    used: List,
    sums: BTreeMap<Gvr, Sum>,
    /// When charges were last heard of.
    heard: Instant,
    /// When all sums were last compared with the caches.
    recounted: Instant,
}

/// What a quota counts of one resource.
struct Sum {
    evaluator: Evaluator,
    /// By the names the quota has and the resource is counted under.
    amounts: List,
    /// Its cache must have seen this before the amounts mean anything: the last charge.
    charged: Revision,
    /// Another server has the objects: nothing is charged for them, and revisions of its own mean nothing here.
    aggregated: bool,
}

/// A charge: what is counted means nothing before its cache has seen this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    pub at: Revision,
    pub heard: Instant,
}

/// How the sum of a quota changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Something is free.
    Down,
    /// Something came, and was charged if all is well.
    Up,
}

impl Sum {
    fn zero(&mut self) {
        self.amounts.values_mut().for_each(|amount| *amount = usage::count(0));
    }

    fn add(&mut self, selectors: &[Selector], measured: &Measured) {
        self.change(selectors, measured, |sum, amount| sum + amount);
    }

    fn subtract(&mut self, selectors: &[Selector], measured: &Measured) {
        // Nothing is written as zero of no unit, like a sum nothing was added to.
        self.change(
            selectors,
            measured,
            |sum, amount| if sum == amount { usage::count(0) } else { sum - amount },
        );
    }

    fn change(
        &mut self,
        selectors: &[Selector],
        measured: &Measured,
        by: impl Fn(usage::Quantity, usage::Quantity) -> usage::Quantity,
    ) {
        if !selectors.iter().all(|selector| selector.matches(&measured.facts)) {
            return;
        }
        for (name, sum) in &mut self.amounts {
            if let Some(amount) = measured.used.get(name) {
                *sum = by(*sum, *amount);
            }
        }
    }
}

impl Books {
    /// A quota as it is now; true if something else is to be counted than before. `aggregated` are those resources of other servers
    /// that can be counted.
    pub fn observe(
        &mut self,
        quota: &Quota,
        revision: Revision,
        catalog: &Catalog,
        aggregated: &[(Gvr, Evaluator)],
        now: Instant,
    ) -> bool {
        let book = self.namespaces.entry(quota.namespace().to_owned()).or_default();
        if let Some(account) = book.quotas.get_mut(quota.name())
            && account.selectors == quota.selectors
            && account.wanted == quota.wanted
            && account.generation == catalog.generation()
            && account.counts_aggregated(aggregated)
        {
            if account.revision < revision {
                account.revision = revision;
                account.charge(quota, now);
            }
            return false;
        }
        let counted =
            usage::evaluators(catalog, &quota.wanted).into_iter().filter_map(|(storage, evaluator)| {
                let storage = catalog.storages().iter().find(|one| one.id == storage)?;
                let needed = catalog::Verbs::LIST | catalog::Verbs::WATCH;
                let served = catalog.served_by(storage).find(|resource| resource.verbs.contains(needed))?;
                let amounts = quota.nothing(&evaluator);
                // What nobody has counted yet cannot be undone.
                let charged = if quota.used.is_empty() { Revision(0) } else { revision };
                Some((Gvr::from(&**served), Sum { evaluator, amounts, charged, aggregated: false }))
            });
        let of_others = aggregated.iter().map(|(resource, evaluator)| {
            let (evaluator, amounts) = (evaluator.clone(), quota.nothing(evaluator));
            (resource.clone(), Sum { evaluator, amounts, charged: Revision(0), aggregated: true })
        });
        let mut account = Account {
            revision,
            generation: catalog.generation(),
            selectors: quota.selectors.clone(),
            wanted: quota.wanted.clone(),
            used: quota.used.clone(),
            sums: counted.chain(of_others).collect(),
            heard: now,
            recounted: now,
        };
        for (resource, sum) in &mut account.sums {
            for (_, measured) in book.resources.get(resource).into_iter().flat_map(|c| c.usages.values()) {
                sum.add(&account.selectors, measured);
            }
        }
        book.quotas.insert(quota.name().to_owned(), account);
        true
    }

    pub fn forget(&mut self, namespace: &str, quota: &str) {
        let Some(book) = self.namespaces.get_mut(namespace) else { return };
        book.quotas.remove(quota);
        let counted =
            |resource: &Gvr| book.quotas.values().any(|account| account.sums.contains_key(resource));
        book.resources.retain(|resource, _| counted(resource));
        if book.quotas.is_empty() {
            self.namespaces.remove(namespace);
        }
    }

    pub fn forget_resource(&mut self, resource: &Gvr) {
        for book in self.namespaces.values_mut() {
            book.resources.remove(resource);
        }
    }

    /// The resources a quota counts, and whether another server has them.
    pub fn counted_by(&self, namespace: &str, quota: &str) -> Vec<(Gvr, Evaluator, bool)> {
        let account = self.namespaces.get(namespace).and_then(|book| book.quotas.get(quota));
        let sums = account.into_iter().flat_map(|account| &account.sums);
        sums.map(|(resource, sum)| (resource.clone(), sum.evaluator.clone(), sum.aggregated)).collect()
    }

    /// How a resource is measured in a namespace; `None`: nobody asks, or not yet.
    pub fn evaluator(&self, namespace: &str, resource: &Gvr) -> Option<&Evaluator> {
        Some(&self.namespaces.get(namespace)?.resources.get(resource)?.evaluator)
    }

    pub fn usages(&self, namespace: &str, resource: &Gvr) -> Usages {
        let counted = self.namespaces.get(namespace).and_then(|book| book.resources.get(resource));
        counted.map(|counted| counted.usages.clone()).unwrap_or_default()
    }

    /// An object as it is now. Tells which quotas' sums moved.
    pub fn put(&mut self, resource: &Gvr, obj: &Obj, usage: Usage) -> Vec<(String, Moved)> {
        self.set(resource, obj, Some(usage))
    }

    pub fn remove(&mut self, resource: &Gvr, obj: &Obj) -> Vec<(String, Moved)> {
        self.set(resource, obj, None)
    }

    fn set(&mut self, resource: &Gvr, obj: &Obj, usage: Option<Usage>) -> Vec<(String, Moved)> {
        let Some(book) = self.namespaces.get_mut(obj.namespace()) else { return Vec::new() };
        let Some(counted) = book.resources.get_mut(resource) else { return Vec::new() };
        let old = counted.usages.get(obj.name());
        // The book may have been brought in line with a later state already.
        if old.is_some_and(|(revision, _)| *revision > obj.revision()) {
            return Vec::new();
        }
        let old = match usage.clone() {
            Some(usage) => counted.usages.insert(obj.name().to_owned(), usage),
            None => counted.usages.remove(obj.name()),
        };
        let (old, new) = (old.map(|(_, measured)| measured), usage.map(|(_, measured)| measured));
        if old == new {
            return Vec::new();
        }
        let mut moved = Vec::new();
        for (name, account) in &mut book.quotas {
            let Some(sum) = account.sums.get_mut(resource) else { continue };
            let before = sum.amounts.clone();
            if let Some(old) = &old {
                sum.subtract(&account.selectors, old);
            }
            if let Some(new) = &new {
                sum.add(&account.selectors, new);
            }
            let mut pairs = sum.amounts.values().zip(before.values());
            if pairs.clone().any(|(now, before)| now < before) {
                moved.push((name.clone(), Moved::Down));
            } else if pairs.any(|(now, before)| now > before) {
                moved.push((name.clone(), Moved::Up));
            }
        }
        moved
    }

    /// All objects of a resource in a namespace, as a cache has them now.
    pub fn replace(&mut self, namespace: &str, resource: &Gvr, evaluator: &Evaluator, usages: Usages) {
        let Some(book) = self.namespaces.get_mut(namespace) else { return };
        for account in book.quotas.values_mut() {
            let Some(sum) = account.sums.get_mut(resource) else { continue };
            sum.zero();
            usages.values().for_each(|(_, measured)| sum.add(&account.selectors, measured));
        }
        book.resources.insert(resource.clone(), Counted { evaluator: evaluator.clone(), usages });
    }

    /// Whether the sums of a quota were last compared with the caches before then; they are to be now.
    pub fn recount(
        &mut self,
        namespace: &str,
        quota: &str,
        due: impl Fn(Instant) -> bool,
        now: Instant,
    ) -> bool {
        let account = self.namespaces.get_mut(namespace).and_then(|book| book.quotas.get_mut(quota));
        let Some(account) = account.filter(|account| due(account.recounted)) else { return false };
        account.recounted = now;
        true
    }

    /// The last charge for a resource; `None`: nothing was charged that is not counted.
    pub fn charged(&self, namespace: &str, quota: &str, resource: &Gvr) -> Option<Charged> {
        let account = self.namespaces.get(namespace)?.quotas.get(quota)?;
        let at = account.sums.get(resource)?.charged;
        (at > Revision(0)).then_some(Charged { at, heard: account.heard })
    }

    /// What is counted of a resource is not older than this.
    pub fn has_seen(&mut self, namespace: &str, resource: &Gvr, revision: Revision) {
        let book = self.namespaces.get_mut(namespace);
        let accounts = book.into_iter().flat_map(|book| book.quotas.values_mut());
        for sum in accounts.filter_map(|account| account.sums.get_mut(resource)) {
            if sum.charged <= revision {
                sum.charged = Revision(0);
            }
        }
    }

    /// What a quota's objects use by name; `None`: it is not known here.
    pub fn used(&self, namespace: &str, quota: &str) -> Option<List> {
        let account = self.namespaces.get(namespace)?.quotas.get(quota)?;
        let mut used = List::new();
        account.sums.values().for_each(|sum| usage::add(&mut used, &sum.amounts));
        Some(used)
    }
}

impl Account {
    /// What grew in the status was charged with an object that is written at the same revision.
    fn charge(&mut self, quota: &Quota, now: Instant) {
        let grown = usage::growth(&quota.used, &self.used);
        self.used = quota.used.clone();
        if grown.is_empty() {
            return;
        }
        self.heard = now;
        for sum in self.sums.values_mut().filter(|sum| !sum.aggregated) {
            if sum.amounts.keys().any(|name| grown.contains_key(name)) {
                sum.charged = self.revision;
            }
        }
    }

    fn counts_aggregated(&self, aggregated: &[(Gvr, Evaluator)]) -> bool {
        let mut counted = self.sums.iter().filter(|(_, sum)| sum.aggregated).map(|(resource, _)| resource);
        let all = aggregated.iter().all(|(resource, _)| self.sums.contains_key(resource));
        all && counted.all(|resource| aggregated.iter().any(|(other, _)| other == resource))
    }
}

/// What an object uses now.
pub fn measure(evaluator: &Evaluator, obj: &Obj, now: i64, lookup: &dyn Lookup) -> Usage {
    // A plain count does not depend on the content.
    let object = if evaluator.shrinks() { runtime::tree(obj) } else { Value::Null };
    (obj.revision(), Arc::new(evaluator.measure(&object, now, lookup)))
}

/// What all of them use; what is known of the same revision, and still holds, is not measured again.
pub fn measure_all(
    evaluator: &Evaluator,
    objects: &[Arc<Obj>],
    known: &Usages,
    now: i64,
    lookup: &dyn Lookup,
) -> Usages {
    let usage = |obj: &Arc<Obj>| {
        let holds = |(revision, measured): &&Usage| {
            !evaluator.looks_up()
                && *revision == obj.revision()
                && measured.until.is_none_or(|until| now <= until)
        };
        let usage = known.get(obj.name()).filter(holds).cloned();
        (obj.name().to_owned(), usage.unwrap_or_else(|| measure(evaluator, obj, now, lookup)))
    };
    objects.iter().map(usage).collect()
}
