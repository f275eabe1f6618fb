//! Whether an object is valid, and no more: the pass that every write makes. Only when it says no, [`explain`](crate::explain)
//! goes through everything again and finds the words.

use object::{Map, Value, deep};

use crate::check::{Check, has_duplicates, is_longer, is_one_of, is_shorter};
use crate::node::{Flags, NodeData, NodeId, Structural, Type};
use crate::number::{self, Range};

impl Structural {
    pub(crate) fn is_valid(&self, id: NodeId, value: &Value) -> bool {
        let node = self.node(id);
        if value.is_null() {
            let no_enum = || !self.checks_of(node).iter().any(|check| matches!(check, Check::Enum(_)));
            return accepts_null(node) && no_enum();
        }
        if !accepts(node, self.checks_of(node), value) {
            return false;
        }
        for check in self.checks_of(node) {
            if !self.holds(node, check, value) {
                return false;
            }
        }
        match value {
            Value::List(list) => match node.items.some() {
                Some(items) => deep(|| list.iter().all(|item| self.is_valid(items, item))),
                None => true,
            },
            Value::Map(map) => deep(|| self.members_valid(node, map)),
            _ => true,
        }
    }

    fn members_valid(&self, node: &NodeData, map: &Map) -> bool {
        if node.properties.len == 0 && matches!(node.additional, NodeId::NONE | NodeId::ALLOWED) {
            return true;
        }
        let mut next = 0;
        map.iter().all(|(name, value)| match self.property(node, name, &mut next) {
            Some(property) => self.is_valid(property, value),
            None => match node.additional {
                NodeId::DENIED => false,
                additional => additional.some().is_none_or(|schema| self.is_valid(schema, value)),
            },
        })
    }

    fn holds(&self, node: &NodeData, check: &Check, value: &Value) -> bool {
        let range = || range_of(node, self.checks_of(node));
        match (check, value) {
            (Check::AnyOf(parts), _) => parts.iter().any(|part| self.is_valid(*part, value)),
            (Check::OneOf(parts), _) => {
                parts.iter().filter(|part| self.is_valid(**part, value)).take(2).count() == 1
            }
            (Check::AllOf(parts), _) => parts.iter().all(|part| self.is_valid(*part, value)),
            (Check::Not(part), _) => !self.is_valid(*part, value),
            (Check::MaxLength(most), Value::Str(text)) => !is_longer(text, *most),
            (Check::MinLength(least), Value::Str(text)) => !is_shorter(text, *least),
            (Check::Pattern(pattern), Value::Str(text)) => pattern.is_match(text),
            (Check::Format(format, _), Value::Str(text)) => format.is_valid(text),
            (Check::NumberFormat(_), Value::Int(_) | Value::Float(_)) => range().fits(value),
            (Check::MultipleOf(factor), Value::Int(_) | Value::Float(_)) => {
                let range = range();
                range.fits_bound(*factor) && number::no_multiple(value, *factor, range).is_none()
            }
            (Check::Minimum(bound), Value::Int(_) | Value::Float(_)) => {
                let range = range();
                range.fits_bound(bound.at) && !number::is_below(value, *bound, range)
            }
            (Check::Maximum(bound), Value::Int(_) | Value::Float(_)) => {
                let range = range();
                range.fits_bound(bound.at) && !number::is_above(value, *bound, range)
            }
            (Check::MinItems(least), Value::List(list)) => list.len() as i64 >= *least,
            (Check::MaxItems(most), Value::List(list)) => list.len() as i64 <= *most,
            (Check::UniqueItems, Value::List(list)) => !has_duplicates(list),
            (Check::Enum(allowed), _) => is_one_of(value, allowed),
            (Check::MinProperties(least), Value::Map(map)) => map.len() as i64 >= *least,
            (Check::MaxProperties(most), Value::Map(map)) => map.len() as i64 <= *most,
            (Check::Required(names), Value::Map(map)) => names.iter().all(|name| map.contains(name)),
            _ => true,
        }
    }
}

pub(crate) fn accepts_null(node: &NodeData) -> bool {
    !node.refuses_null() || (node.ty == Type::None && !node.flags.has(Flags::INT_OR_STRING))
}

/// Whether the value is of the node's type. A format of strings lets lists pass, as upstream does.
#[inline]
fn accepts(node: &NodeData, checks: &[Check], value: &Value) -> bool {
    if node.flags.has(Flags::INT_OR_STRING) {
        return match value {
            Value::Str(_) | Value::Int(_) => true,
            Value::Float(f) => number::is_whole(*f),
            _ => false,
        };
    }
    match (node.ty, value) {
        (Type::None, Value::Str(_) | Value::List(_)) => true,
        // Without a type, a format of strings is one.
        (Type::None, _) => !node.flags.has(Flags::FORMAT),
        (Type::Object, Value::Map(_))
        | (Type::Array, Value::List(_))
        | (Type::String, Value::Str(_))
        | (Type::Boolean, Value::Bool(_))
        | (Type::Integer | Type::Number, Value::Int(_))
        | (Type::Number, Value::Float(_)) => true,
        (Type::Integer, Value::Float(f)) => number::is_whole(*f) && range_of(node, checks).fits(value),
        (Type::String, Value::List(_)) => node.flags.has(Flags::FORMAT),
        _ => false,
    }
}

/// What the type and format of a node say about numbers. Two types at once say nothing.
pub(crate) fn range_of(node: &NodeData, checks: &[Check]) -> Range {
    let format = checks.iter().find_map(|check| match check {
        Check::NumberFormat(format) => Some(*format),
        _ => None,
    });
    match node.flags.has(Flags::INT_OR_STRING) {
        true => Range { ty: Type::None, format: None },
        false => Range { ty: node.ty, format },
    }
}
