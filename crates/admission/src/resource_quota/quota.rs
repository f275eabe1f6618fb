//! A quota as it is stored, and what it should say.

use std::sync::Arc;

use catalog::{Catalog, Storage, StorageId};
use codec::json;
use object::normalise::{Strict, normalise};
use object::{Obj, Status, Value};
use table::{Scope, Selection, Table};

use super::evaluator::{Evaluator, Measured};
use super::list::{self, List};
use super::scopes::{Facts, Selector};
use crate::list_newest;

/// One ResourceQuota.
#[derive(Clone, Debug)]
pub struct Quota {
    tree: Value,
    pub selectors: Vec<Selector>,
    /// As the spec wants it.
    pub wanted: List,
    /// As the status has it: what is enforced.
    pub hard: List,
    pub used: List,
}

impl Quota {
    pub fn of(tree: Value) -> Quota {
        Quota {
            selectors: Selector::all_of(&tree),
            wanted: list::read(&tree, &["spec", "hard"]),
            hard: list::read(&tree, &["status", "hard"]),
            used: list::read(&tree, &["status", "used"]),
            tree,
        }
    }

    pub fn name(&self) -> &str {
        self.tree.str_at(&["metadata", "name"]).unwrap_or("")
    }
    pub fn namespace(&self) -> &str {
        self.tree.str_at(&["metadata", "namespace"]).unwrap_or("")
    }

    /// Nobody has counted yet for what the spec says now.
    pub fn is_unsettled(&self, catalog: &Catalog) -> bool {
        let known = |name: &String| self.used.contains_key(name) || !is_counted(catalog, name);
        self.hard != self.wanted || !self.hard.keys().all(known)
    }

    /// Is it about such an object?
    pub fn covers(&self, evaluator: &Evaluator, facts: &Facts) -> bool {
        self.hard.keys().any(|name| evaluator.counts(name)) && self.selectors.iter().all(|s| s.matches(facts))
    }

    /// Counts everything again, as the table shows it now: `measure` is given each object that may count.
    /// Where they cannot be read now nothing is counted.
    pub fn settle(
        &mut self,
        table: &Table,
        measure: &mut dyn FnMut(&Evaluator, &Arc<Obj>) -> Arc<Measured>,
    ) -> Result<(), Status> {
        let mut counted = List::new();
        for (storage, evaluator) in evaluators(&table.catalog(), &self.wanted) {
            for name in self.wanted.keys().filter(|name| evaluator.counts(name)) {
                counted.entry(name.clone()).or_insert(list::count(0));
            }
            let namespace = Selection::everything(Scope::Namespace(self.namespace().into()));
            for obj in list_newest(table, storage, &namespace)?.items {
                let measured = measure(&evaluator, &obj);
                if self.selectors.iter().all(|selector| selector.matches(&measured.facts)) {
                    for (name, sum) in &mut counted {
                        if let Some(amount) = measured.used.get(name) {
                            *sum = *sum + *amount;
                        }
                    }
                }
            }
        }
        self.hard = self.wanted.clone();
        self.used.retain(|name, _| self.hard.contains_key(name));
        self.used.extend(counted);
        Ok(())
    }

    /// The whole object with this status, in its storage version.
    pub fn into_tree(mut self) -> Value {
        let status = self.tree.map_at(&["status"]);
        status.set("hard", list::to_value(&self.hard));
        status.set("used", list::to_value(&self.used));
        self.tree
    }

    /// As it is stored.
    pub fn encode(self, storage: &Storage) -> Vec<u8> {
        let mut tree = self.into_tree();
        tree.map_at(&["metadata"]).remove("resourceVersion");
        // It came from the table, and amounts are amounts: it fits its type.
        let _ = normalise(storage.schema(), storage.ty, &mut tree, &mut Strict::off());
        json::to_vec(&tree)
    }
}

/// Who counts what these names are about.
pub fn evaluators(catalog: &Catalog, names: &List) -> Vec<(StorageId, Evaluator)> {
    let storages = catalog.storages().iter();
    storages
        .filter_map(|storage| Some((storage.id, Evaluator::of(storage)?)))
        .filter(|(_, evaluator)| names.keys().any(|name| evaluator.counts(name)))
        .collect()
}

fn is_counted(catalog: &Catalog, name: &str) -> bool {
    catalog
        .storages()
        .iter()
        .filter_map(|storage| Evaluator::of(storage))
        .any(|evaluator| evaluator.counts(name))
}
