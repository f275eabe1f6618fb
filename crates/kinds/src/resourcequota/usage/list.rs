//! Amounts by resource name, and the arithmetic quotas need on them.

use std::collections::BTreeMap;

use object::quantity::{Format, Quantity};
use object::{Map, Value};

/// Sorted by name, as messages show them.
pub type List = BTreeMap<String, Quantity>;

/// What an object says at `path`; amounts that cannot be read are left out (validation refuses them anyway).
pub fn read(tree: &Value, path: &[&str]) -> List {
    let Some(map) = tree.at(path).and_then(Value::as_map) else { return List::new() };
    let amount = |value: &Value| match value {
        Value::Str(text) => Quantity::parse(text).ok(),
        Value::Int(whole) => Some(Quantity::from_i64(*whole, Format::DecimalSi)),
        _ => None,
    };
    map.iter().filter_map(|(name, value)| Some((name.to_string(), amount(value)?))).collect()
}

pub fn to_value(list: &List) -> Value {
    let entry = |(name, amount): (&String, &Quantity)| (name.clone().into(), Value::Str(amount.to_string()));
    Value::Map(list.iter().map(entry).collect::<Map>())
}

pub fn add(to: &mut List, more: &List) {
    for (name, amount) in more {
        let sum = to.get(name).map_or(*amount, |there| *there + *amount);
        to.insert(name.clone(), sum);
    }
}

/// The larger amount of each name.
pub fn max(into: &mut List, other: &List) {
    for (name, amount) in other {
        if into.get(name).is_none_or(|there| amount > there) {
            into.insert(name.clone(), *amount);
        }
    }
}

/// How much more `new` is than `old`; what did not grow is left out.
pub fn growth(new: &List, old: &List) -> List {
    let grown = |(name, amount): (&String, &Quantity)| {
        let more = old.get(name).map_or(*amount, |before| *amount - *before);
        (more.sign() > 0).then(|| (name.clone(), more))
    };
    new.iter().filter_map(grown).collect()
}

pub fn one() -> Quantity {
    count(1)
}

pub fn count(number: i64) -> Quantity {
    Quantity::from_i64(number, Format::DecimalSi)
}

/// `cpu=1,pods=2`.
pub fn show(list: &List) -> String {
    let parts: Vec<String> = list.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    parts.join(",")
}
