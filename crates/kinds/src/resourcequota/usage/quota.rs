//! A quota as it is stored, and what it should say.

use catalog::{Catalog, Storage, StorageId};
use codec::json;
use object::Value;
use object::normalise::{Strict, normalise};

use super::evaluator::{Evaluator, Measured};
use super::list::{self, List};
use super::scopes::{Facts, Selector};

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

    /// The names it counts of these objects, and zero of each.
    pub fn nothing(&self, evaluator: &Evaluator) -> List {
        let names = self.wanted.keys().filter(|name| evaluator.counts(name));
        names.map(|name| (name.clone(), list::count(0))).collect()
    }

    /// Adds what an object uses to a sum, if the quota is about it.
    pub fn sum(&self, sum: &mut List, measured: &Measured) {
        if self.selectors.iter().all(|selector| selector.matches(&measured.facts)) {
            for (name, sum) in sum {
                if let Some(amount) = measured.used.get(name) {
                    *sum = *sum + *amount;
                }
            }
        }
    }

    /// The status the spec wants, with what was counted; what nobody counts here stays as it is.
    pub fn settle(&mut self, counted: List) {
        self.hard = self.wanted.clone();
        self.used.retain(|name, _| self.hard.contains_key(name));
        self.used.extend(counted);
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
