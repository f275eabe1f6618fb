//! Old values: which one a value replaces, and whether it is what it was.
//!
//! ```text
//! member of a map ── by its name ──┐
//! element of a list-map ── by its keys ──> the old value, for `oldSelf` and for ratcheting
//! element of another list ── none
//! ```

use std::collections::HashMap;

use object::Value;
use structural::{Additional, ListType, Node, Type};

/// Up to so many old elements are compared one by one; more are looked up.
const FEW: usize = 16;

/// The old elements of a list, found by the keys of a new one. Lists that are no maps have none.
pub(crate) struct MapList<'v, 's> {
    node: Node<'s>,
    old: &'v [Value],
    index: Option<HashMap<String, &'v Value>>,
}

impl<'v, 's> MapList<'v, 's> {
    pub(crate) fn new(node: Node<'s>, old: &'v [Value]) -> MapList<'v, 's> {
        let is_map =
            node.ty() == Type::Array && node.list_type() == ListType::Map && !node.list_map_keys().is_empty();
        let old = if is_map { old } else { &[] };
        let mut list = MapList { node, old, index: None };
        if old.len() > FEW {
            let mut index = HashMap::with_capacity(old.len());
            for item in old {
                if let Some(key) = list.key(item) {
                    index.entry(key).or_insert(item);
                }
            }
            list.index = Some(index);
        }
        list
    }

    /// The first with the same keys.
    pub(crate) fn find(&self, new: &Value) -> Option<&'v Value> {
        if self.old.is_empty() {
            return None;
        }
        let key = self.key(new)?;
        match &self.index {
            Some(index) => index.get(&key).copied(),
            None => self.old.iter().find(|old| self.key(old).is_some_and(|old| old == key)),
        }
    }

    /// Equal for elements that are one. Keys are scalars; several floats are compared with six digits, as upstream does.
    fn key(&self, item: &Value) -> Option<String> {
        use std::fmt::Write;
        let keys = self.node.list_map_keys();
        let mut text = String::new();
        for name in keys {
            let written = match item.get(name)? {
                Value::Bool(b) => write!(text, "\0{b}"),
                Value::Int(i) => write!(text, "\0{i}"),
                Value::Float(f) if keys.len() == 1 => write!(text, "\0f{f}"),
                Value::Float(f) => write!(text, "\0{f:.6}"),
                Value::Str(s) => write!(text, "\0{s:?}"),
                Value::Null | Value::List(_) | Value::Map(_) | Value::Raw(_) => return None,
            };
            // Writing to a string cannot fail.
            written.ok()?;
        }
        Some(text)
    }
}

/// A value and the one it replaces.
#[derive(Clone, Copy)]
struct Pair<'v, 's> {
    node: Node<'s>,
    new: &'v Value,
    old: &'v Value,
}

/// Whether errors of a value are old ones: it, or the nearest value around it that can be told, is what it was.
#[derive(Clone, Copy, Default)]
pub(crate) struct Correlation<'v, 's> {
    current: Option<Pair<'v, 's>>,
    around: Option<Pair<'v, 's>>,
}

impl<'v, 's> Correlation<'v, 's> {
    pub(crate) fn root(node: Node<'s>, new: &'v Value, old: &'v Value) -> Correlation<'v, 's> {
        Correlation { current: Some(Pair { node, new, old }), around: None }
    }

    /// Of a part of `allOf`: upstream does not ratchet these by the value itself.
    pub(crate) fn all_of(self) -> Correlation<'v, 's> {
        Correlation { current: None, ..self }
    }

    pub(crate) fn key(self, name: &str) -> Correlation<'v, 's> {
        let Some(pair) = self.current else { return self };
        // Nobody sees a change of these two: both objects are converted to the version of the request.
        if self.around.is_none() && matches!(name, "apiVersion" | "kind") {
            return Correlation::default();
        }
        Correlation { current: pair.key(name), around: Some(pair) }
    }

    /// An element, with the old one it replaces.
    pub(crate) fn index(self, new: &'v Value, old: Option<&'v Value>) -> Correlation<'v, 's> {
        let Some(pair) = self.current else { return self };
        let current = pair.node.items().zip(old).map(|(node, old)| Pair { node, new, old });
        Correlation { current, around: Some(pair) }
    }

    pub(crate) fn is_unchanged(self) -> bool {
        self.current.or(self.around).is_some_and(|pair| pair.node.is_unchanged(pair.new, pair.old))
    }
}

impl<'v, 's> Pair<'v, 's> {
    fn key(self, name: &str) -> Option<Pair<'v, 's>> {
        let (new, old) = (self.new.get(name)?, self.old.get(name)?);
        let node = self.node.property(name).or(match self.node.additional_properties() {
            Additional::Schema(node) => Some(node),
            Additional::None | Additional::Allowed(_) => None,
        })?;
        Some(Pair { node, new, old })
    }
}
