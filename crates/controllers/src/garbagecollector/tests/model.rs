//! Random changes, and after each of them the graph against what one finds by looking at everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catalog::Catalog;
use env::Env;

use super::{MAP, Ref, SECRET, World};
use crate::garbagecollector::graph::WorkItems;
use crate::garbagecollector::identity::Uid;

#[derive(Clone, Default, PartialEq)]
struct Object {
    kind: &'static str,
    path: String,
    /// uid and whether it blocks; coordinates are always right or always those of a Secret.
    owners: Vec<(usize, bool)>,
    deleting: Option<Vec<&'static str>>,
}

/// The naive graph: objects seen, and which owners each still has an edge to.
#[derive(Default)]
struct Model {
    objects: BTreeMap<usize, Object>,
    /// Owners that were named and not seen.
    virtuals: BTreeSet<usize>,
    /// (owner, dependent): a dependent that outlives its owner has no edge to one that comes back.
    edges: BTreeSet<(usize, usize)>,
    /// Once it was seen waiting in foreground.
    waiting: BTreeSet<usize>,
}

const UIDS: usize = 12;

fn uid(n: usize) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

impl Model {
    fn has_node(&self, n: usize) -> bool {
        self.objects.contains_key(&n) || self.virtuals.contains(&n)
    }

    fn see(&mut self, n: usize, object: Object) {
        let before = self.objects.insert(n, object.clone());
        self.virtuals.remove(&n);
        let had: BTreeSet<usize> = before.iter().flat_map(|old| old.owners.iter().map(|(o, _)| *o)).collect();
        let has: BTreeSet<usize> = object.owners.iter().map(|(o, _)| *o).collect();
        for owner in has.difference(&had) {
            if !self.has_node(*owner) {
                self.virtuals.insert(*owner);
            }
            self.edges.insert((*owner, n));
        }
        for owner in had.difference(&has) {
            self.edges.remove(&(*owner, n));
        }
        // A reference that changes is linked anew, if there is somebody to link it to.
        if let Some(old) = before {
            for (owner, blocking) in &object.owners {
                if old.owners.contains(&(*owner, !*blocking)) && self.has_node(*owner) {
                    self.edges.insert((*owner, n));
                }
            }
        }
        if object.deleting.is_some_and(|finalizers| finalizers.contains(&"foregroundDeletion")) {
            self.waiting.insert(n);
        }
    }

    fn remove(&mut self, n: usize) -> BTreeSet<usize> {
        self.objects.remove(&n);
        self.virtuals.remove(&n);
        self.waiting.remove(&n);
        let freed = self.edges.iter().filter(|(o, d)| *o == n && *d != n).map(|(_, d)| *d).collect();
        self.edges.retain(|(o, d)| *o != n && *d != n);
        freed
    }

    fn check(&self, world: &World, told: &str) {
        assert_eq!(world.graph.len(), self.objects.len() + self.virtuals.len(), "{told}: number of nodes");
        for n in 0..UIDS {
            let look = world.graph.look(&Uid::read(&uid(n)));
            let Some(look) = look else {
                assert!(!self.has_node(n), "{told}: {n} is missing");
                continue;
            };
            assert_eq!(look.observed, self.objects.contains_key(&n), "{told}: {n} observed");
            assert_eq!(look.deleting_dependents, self.waiting.contains(&n), "{told}: {n} waiting");
            let dependents: Vec<usize> =
                self.edges.iter().filter(|(o, _)| *o == n).map(|(_, d)| *d).collect();
            assert_eq!(look.dependents, dependents.len(), "{told}: dependents of {n}");
            let blocking = dependents.iter().filter(|d| self.objects[d].owners.contains(&(n, true))).count();
            assert_eq!(look.blocking, blocking, "{told}: blocking dependents of {n}");
        }
    }
}

fn feed(world: &mut World, n: usize, object: &Object) -> WorkItems {
    let uids: Vec<String> = object.owners.iter().map(|(o, _)| uid(*o)).collect();
    let names: Vec<String> = object.owners.iter().map(|(o, _)| format!("n{o}")).collect();
    let owners: Vec<Ref<'_>> = object
        .owners
        .iter()
        .enumerate()
        .map(|(i, (o, blocking))| (kind_of(*o), names[i].as_str(), uids[i].as_str(), *blocking))
        .collect();
    let obj = world.object(object.kind, &object.path, &uid(n), &owners, object.deleting.as_deref());
    world.see(object.kind, &obj)
}

fn kind_of(n: usize) -> &'static str {
    if n.is_multiple_of(2) { MAP } else { SECRET }
}

#[test]
fn the_graph_agrees_with_a_full_scan() {
    let catalog = Arc::new(Catalog::builtin());
    for seed in 0..300 {
        let env = Env::simulated(seed);
        let below = |n: usize| env.random_below(n as u64) as usize;
        let (mut world, mut model) = (World::of(&catalog), Model::default());
        for step in 0..60 {
            let n = below(UIDS);
            let told = format!("seed {seed}, step {step}");
            match below(5) {
                // Gone, seen by an informer or found out by a worker.
                0 => {
                    let known = model.has_node(n);
                    let freed = model.remove(n);
                    let wanted = world.gone(kind_of(n), &format!("ns/n{n}"), &uid(n));
                    let asked: BTreeSet<Uid> = wanted.delete.into_iter().collect();
                    assert!(known || asked.is_empty(), "{told}");
                    for dependent in freed {
                        assert!(
                            asked.contains(&Uid::read(&uid(dependent))),
                            "{told}: {dependent} lost its owner"
                        );
                    }
                }
                _ => {
                    let mut object = model.objects.get(&n).cloned().unwrap_or_default();
                    (object.kind, object.path) = (kind_of(n), format!("ns/n{n}"));
                    if below(3) > 0 {
                        let owners: BTreeMap<usize, bool> =
                            (0..below(4)).map(|_| (below(UIDS), below(2) == 0)).collect();
                        object.owners = owners.into_iter().collect();
                    }
                    if below(6) == 0 {
                        object.deleting = Some(vec![["orphan", "foregroundDeletion", "x/y"][below(3)]]);
                    }
                    let begins =
                        object.deleting != model.objects.get(&n).and_then(|old| old.deleting.clone());
                    let finalizer = object.deleting.as_ref().map(|f| f[0]).filter(|_| begins);
                    model.see(n, object.clone());
                    let wanted = feed(&mut world, n, &object);
                    let this = Uid::read(&uid(n));
                    assert_eq!(finalizer == Some("orphan"), wanted.orphan.contains(&this), "{told}: orphan");
                    if finalizer == Some("foregroundDeletion") {
                        assert!(wanted.delete.contains(&this), "{told}: foreground");
                    }
                    assert_eq!(wanted.strays, [], "{told}: all live in one namespace");
                }
            }
            model.check(&world, &told);
        }
    }
}
