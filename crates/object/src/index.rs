//! An index over a map for many lookups: one scan instead of one per name.

use std::collections::HashMap;

use crate::{Map, Value};

/// Fewer members are found faster by scanning.
const FEW: usize = 16;

/// The members of a map by name. Use it to look up every name of one map in another: clients send maps with tens of
/// thousands of members, and a lookup in a map is a linear scan.
pub enum Index<'a> {
    Few(Option<&'a Map>),
    Many(HashMap<&'a str, &'a Value>),
}

impl<'a> Index<'a> {
    /// Empty if it is not a map.
    pub fn of(value: Option<&'a Value>) -> Index<'a> {
        value.and_then(Value::as_map).map_or(Index::Few(None), Index::of_map)
    }

    pub fn of_map(map: &'a Map) -> Index<'a> {
        if map.len() <= FEW {
            return Index::Few(Some(map));
        }
        // Of duplicate names the last one wins.
        Index::Many(map.iter().map(|(name, value)| (&**name, value)).collect())
    }

    pub fn get(&self, name: &str) -> Option<&'a Value> {
        match self {
            Index::Few(map) => map.and_then(|map| map.get(name)),
            Index::Many(members) => members.get(name).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_finds_what_the_map_finds() {
        for count in [0, 3, 40] {
            let mut map = Map::default();
            for i in 0..count {
                map.push(format!("k{i}").into(), Value::Int(i));
            }
            // Duplicate name: the last one wins.
            map.push(String::from("k1").into(), Value::Null);
            let value = Value::Map(map);
            let index = Index::of(Some(&value));
            for name in ["k0", "k1", "k2", "k39", "no"] {
                assert_eq!(index.get(name), value.get(name), "{name} of {count}");
            }
        }
        assert_eq!(Index::of(Some(&Value::Int(1))).get("a"), None);
        assert_eq!(Index::of(None).get("a"), None);
    }
}
