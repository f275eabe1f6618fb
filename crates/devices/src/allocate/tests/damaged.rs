//! Objects no API server would store: whatever they are, there is an answer.

use std::cell::Cell;

use object::Value;

use super::answers::RECORDED;
use super::cluster::Cluster;
use crate::testing::{Random, json};

#[test]
fn damaged_objects_do_no_harm() {
    let mut random = Random::new(1);
    for line in RECORDED.lines() {
        let case = json(line);
        for _ in 0..4 {
            let mut input = case.get("in").unwrap().clone();
            (0..3).for_each(|_| damage(&mut input, &mut random));
            let steps = Cell::new(0);
            let interrupted = || {
                steps.set(steps.get() + 1);
                steps.get() > 2_000
            };
            let found = Cluster::parse(&input).allocate_until(&interrupted);
            if let Ok(Some(allocations)) = found {
                assert!(allocations.iter().all(|allocation| allocation.results.len() <= 32));
            }
        }
    }
}

/// Puts something else in a random place.
fn damage(value: &mut Value, random: &mut Random) {
    let count = match value {
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => 0,
    };
    if count == 0 || random.below(12) == 0 {
        let texts = ["", "x", "-1", "99999999999999999999999999999999999999", "1e-9", "n1", "a/b/c"];
        *value = match random.below(6) {
            0 => Value::Null,
            1 => Value::Bool(true),
            2 => Value::Int([-1, 0, i64::MAX, i64::MIN][random.below(4)]),
            3 => Value::Str(texts[random.below(texts.len())].to_owned()),
            4 => Value::List(vec![Value::map(), Value::Null]),
            _ => Value::map(),
        };
        return;
    }
    let at = random.below(count);
    match value {
        Value::List(list) => damage(&mut list[at], random),
        Value::Map(map) => damage(map.iter_mut().nth(at).unwrap().1, random),
        _ => {}
    }
}
