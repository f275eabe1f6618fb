//! The selector that the defaults of spreading use: what the services and the controller of a pod select.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use object::Value;
use object::selector::LabelSelector;

use crate::pod::{Class, OwnerKind};
use crate::read::pairs;

type Pairs = Vec<(String, String)>;

#[derive(Default)]
pub struct Selectors {
    /// Selectors of services by namespace and name, those that have one.
    services: HashMap<Arc<str>, BTreeMap<Arc<str>, Pairs>>,
    owners: HashMap<(OwnerKind, Arc<str>, Arc<str>), Owner>,
    /// Grows with every change that can change a selector.
    version: u64,
}

struct Owner {
    tree: Value,
    /// For the pods that no service selects.
    alone: Option<Arc<LabelSelector>>,
}

impl Selectors {
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn set_service(&mut self, namespace: &str, name: &str, tree: Option<&Value>) {
        let selector = pairs(tree.and_then(|t| t.at(&["spec", "selector"])));
        let selector: Pairs = selector.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let services = self.services.entry(namespace.into()).or_default();
        // A service without a selector selects nothing.
        let changed = if selector.is_empty() {
            services.remove(name).is_some()
        } else if services.get(name) != Some(&selector) {
            services.insert(name.into(), selector);
            true
        } else {
            false
        };
        self.version += u64::from(changed);
    }

    pub fn set_owner(&mut self, kind: OwnerKind, namespace: &str, name: &str, tree: Option<&Value>) {
        let key = (kind, Arc::from(namespace), Arc::from(name));
        let selector = tree.and_then(|t| t.at(&["spec", "selector"])).filter(|s| !s.is_null());
        let changed = match selector {
            None => self.owners.remove(&key).is_some(),
            Some(selector) if self.owners.get(&key).is_some_and(|old| old.tree == *selector) => false,
            Some(selector) => {
                let tree = selector.clone();
                let alone = selector_of(Vec::new(), Some((kind, &tree)));
                self.owners.insert(key, Owner { tree, alone });
                true
            }
        };
        self.version += u64::from(changed);
    }

    /// `None` where nothing selects the pod: then no default constraint applies.
    pub fn of(&self, class: &Class) -> Option<Arc<LabelSelector>> {
        let mut labels = Vec::new();
        if let Some(services) = self.services.get(&class.namespace) {
            for selector in services.values() {
                if selector.iter().all(|(key, value)| class.label(key) == Some(value)) {
                    labels.extend(selector.iter().cloned());
                }
            }
        }
        let owner = class.owner.as_ref().and_then(|(kind, name)| {
            let owner = self.owners.get(&(*kind, class.namespace.clone(), name.clone()))?;
            Some((*kind, owner))
        });
        match owner {
            Some((_, owner)) if labels.is_empty() => owner.alone.clone(),
            _ => selector_of(labels, owner.map(|(kind, owner)| (kind, &owner.tree))),
        }
    }
}

/// What has the labels and is selected by the owner too.
fn selector_of(mut labels: Pairs, owner: Option<(OwnerKind, &Value)>) -> Option<Arc<LabelSelector>> {
    let mut expressions: Vec<Value> = Vec::new();
    if let Some((kind, selector)) = owner {
        let plain = match kind {
            OwnerKind::ReplicationController => Some(selector),
            _ => selector.get("matchLabels"),
        };
        labels.extend(pairs(plain).into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())));
        let listed = selector.get("matchExpressions").and_then(Value::as_list);
        expressions = listed.unwrap_or_default().to_vec();
    }
    labels.sort_unstable();
    labels.dedup();
    if labels.is_empty() && expressions.is_empty() {
        return None;
    }
    let mut selector = Value::map();
    for (key, value) in labels {
        selector.map_at(&["matchLabels"]).set(key, value);
    }
    selector.map_at(&[]).set("matchExpressions", expressions);
    LabelSelector::from_label_selector(&selector).ok().filter(|s| !s.is_everything()).map(Arc::new)
}
