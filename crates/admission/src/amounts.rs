//! Lists of resources by name (`cpu: 100m`): read from trees, added up over the containers of a pod.

use object::Value;
use object::quantity::Quantity;

use crate::tree::{items, text};

/// Amounts in order of their names. `requests` and `limits` of a pod are of this kind.
#[derive(Clone, Debug, Default)]
pub struct Amounts(Vec<Amount>);

#[derive(Clone, Debug)]
pub struct Amount {
    pub name: String,
    pub value: Quantity,
    /// As messages show it: how it was written, where it was written.
    pub text: String,
}

impl Amounts {
    pub fn read(map: Option<&Value>) -> Amounts {
        let mut all = Amounts::default();
        for (name, value) in map.and_then(Value::as_map).into_iter().flat_map(|m| m.iter()) {
            // The object passed validation, or is about to be refused by it.
            let Some(text) = value.as_str() else { continue };
            let Ok(value) = Quantity::parse(text) else { continue };
            all.put(Amount { name: name.to_string(), value, text: text.to_owned() });
        }
        all
    }

    pub fn iter(&self) -> impl Iterator<Item = &Amount> {
        self.0.iter()
    }

    pub fn get(&self, name: &str) -> Option<&Amount> {
        self.0.iter().find(|amount| amount.name == name)
    }

    pub fn value(&self, name: &str) -> Quantity {
        self.get(name).map_or(Quantity::ZERO, |amount| amount.value)
    }

    /// Replaces or adds.
    pub fn put(&mut self, amount: Amount) {
        match self.0.binary_search_by(|there| there.name.cmp(&amount.name)) {
            Ok(at) => self.0[at] = amount,
            Err(at) => self.0.insert(at, amount),
        }
    }

    pub fn add(&mut self, other: &Amounts) {
        for amount in other.iter() {
            let sum = match self.get(&amount.name) {
                Some(there) => {
                    let value = there.value + amount.value;
                    Amount { name: amount.name.clone(), value, text: value.to_string() }
                }
                None => amount.clone(),
            };
            self.put(sum);
        }
    }

    fn at_least(&mut self, other: &Amounts) {
        for amount in other.iter() {
            if self.get(&amount.name).is_none_or(|there| amount.value > there.value) {
                self.put(amount.clone());
            }
        }
    }
}

/// Equal amounts under equal names, however they are written.
impl PartialEq for Amounts {
    fn eq(&self, other: &Amounts) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|(a, b)| a.name == b.name && a.value == b.value)
    }
}

/// What the whole pod asks for (`which` is `requests` or `limits`): the containers and sidecars together, or the
/// neediest moment of its start, whichever is more; what the pod itself says wins for the resources `pod_level`
/// accepts.
pub fn of_pod(spec: &Value, which: &str, pod_level: impl Fn(&str) -> bool) -> Amounts {
    let of = |container: &Value| Amounts::read(container.at(&["resources", which]));
    let mut all = Amounts::default();
    for container in items(spec, "containers") {
        all.add(&of(container));
    }
    let (mut sidecars, mut start) = (Amounts::default(), Amounts::default());
    for container in items(spec, "initContainers") {
        let mut now = of(container);
        if text(container, "restartPolicy") == "Always" {
            all.add(&now);
            sidecars.add(&now);
            now = sidecars.clone();
        } else {
            now.add(&sidecars);
        }
        start.at_least(&now);
    }
    all.at_least(&start);
    for amount in Amounts::read(spec.at(&["resources", which])).iter() {
        if pod_level(&amount.name) {
            all.put(amount.clone());
        }
    }
    all
}
