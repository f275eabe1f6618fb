//! Which autoscalers select a pod: two that do would fight over it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use object::Obj;
use object::selector::LabelSelector;

/// The selectors of the targets of all autoscalers, found by one label they ask for.
#[derive(Default)]
pub struct Selectors {
    /// By namespace.
    of: BTreeMap<String, Namespace>,
}

#[derive(Default)]
struct Namespace {
    /// By autoscaler.
    selectors: BTreeMap<String, Found>,
    /// By label and value.
    by_label: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// Without a label that must have one value.
    others: BTreeSet<String>,
}

struct Found {
    selector: LabelSelector,
    /// The label it is found by.
    required: Option<(String, String)>,
}

impl Selectors {
    pub fn put(&mut self, namespace: &str, autoscaler: &str, selector: LabelSelector) {
        self.remove(namespace, autoscaler);
        let of = self.of.entry(namespace.to_owned()).or_default();
        let required = selector.requirements().iter().find_map(|requirement| {
            let key = &requirement.key;
            Some((key.to_string(), selector.exact(key)?.to_owned()))
        });
        match &required {
            Some((key, value)) => {
                let values = of.by_label.entry(key.clone()).or_default();
                values.entry(value.clone()).or_default().insert(autoscaler.to_owned());
            }
            None => {
                of.others.insert(autoscaler.to_owned());
            }
        }
        of.selectors.insert(autoscaler.to_owned(), Found { selector, required });
    }

    pub fn remove(&mut self, namespace: &str, autoscaler: &str) {
        let Some(of) = self.of.get_mut(namespace) else { return };
        of.others.remove(autoscaler);
        if let Some(Found { required: Some((key, value)), .. }) = of.selectors.remove(autoscaler)
            && let Some(values) = of.by_label.get_mut(&key)
        {
            if let Some(names) = values.get_mut(&value) {
                names.remove(autoscaler);
            }
            values.retain(|_, names| !names.is_empty());
            of.by_label.retain(|_, values| !values.is_empty());
        }
        if of.selectors.is_empty() {
            self.of.remove(namespace);
        }
    }

    /// The autoscalers that select any of these pods, by name.
    pub fn selecting(&self, namespace: &str, pods: &[Arc<Obj>]) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let Some(of) = self.of.get(namespace) else { return found };
        for pod in pods {
            let by_label =
                of.by_label.iter().filter_map(|(key, values)| values.get(pod.label(key)?)).flatten();
            for name in by_label.chain(&of.others) {
                let Some(Found { selector, .. }) = of.selectors.get(name) else { continue };
                if !found.contains(name) && selector.matches(&|key| pod.label(key)) {
                    found.insert(name.clone());
                }
            }
        }
        found
    }
}
