//! Custom resources: a few fields of Go types, and whatever else there is, as Go's maps hold it.

use std::cmp::Ordering;

use catalog::{Name, StructType};

use super::error::{FieldPath, PathElement};
use super::structure::Fate;
use super::{Pass, TypeError, scalar, sort_keeping_last, strict};
use crate::{Map, Value, deep};

impl Pass<'_> {
    /// The fields first, then the other members by name.
    pub(super) fn open_structure(
        &mut self,
        ty: &StructType,
        map: &mut Map,
        here: &FieldPath<'_>,
    ) -> Result<(), TypeError> {
        if self.strict.is_on() {
            for at in strict::repeated(map) {
                self.strict.duplicate(here, &map.entries_mut()[at].0);
            }
        }
        let mut omitted = Vec::new();
        for (name, member) in map.entries_mut() {
            match ty.field(name) {
                Some((_, field)) => {
                    let place =
                        FieldPath { parent: Some(here), element: PathElement::Field(ty, &field.name) };
                    if !matches!(self.member(field, member, &place)?, Fate::Keep) {
                        omitted.push(field.name.clone());
                    }
                }
                None => self.unstructured(
                    member,
                    &FieldPath { parent: Some(here), element: PathElement::Key(name) },
                )?,
            }
        }
        let entries = map.entries_mut();
        if !omitted.is_empty() {
            entries.retain(|(name, _)| !omitted.contains(name));
        }
        let order = |a: &Name, b: &Name| match (ty.field(a), ty.field(b)) {
            (Some((a, _)), Some((b, _))) => a.cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => a.cmp(b),
        };
        if !entries.is_sorted_by(|(a, _), (b, _)| order(a, b).is_lt()) {
            sort_keeping_last(map, order);
        }
        Ok(())
    }

    /// Sorts maps and makes equal numbers equal, at every depth.
    fn unstructured(&mut self, value: &mut Value, here: &FieldPath<'_>) -> Result<(), TypeError> {
        match value {
            Value::Float(_) => scalar::shorten_float(value),
            Value::List(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    self.unstructured_inside(
                        item,
                        &FieldPath { parent: Some(here), element: PathElement::Index(i) },
                    )?;
                }
            }
            Value::Map(map) => {
                let sorted = map.entries_mut().is_sorted_by(|(a, _), (b, _)| a < b);
                if !sorted && self.strict.is_on() {
                    for at in strict::repeated(map) {
                        self.strict.duplicate(here, &map.entries_mut()[at].0);
                    }
                }
                for (name, item) in map.iter_mut() {
                    self.unstructured_inside(
                        item,
                        &FieldPath { parent: Some(here), element: PathElement::Key(name) },
                    )?;
                }
                if !sorted {
                    sort_keeping_last(map, Name::cmp);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn unstructured_inside(&mut self, item: &mut Value, here: &FieldPath<'_>) -> Result<(), TypeError> {
        if !matches!(item, Value::List(_) | Value::Map(_)) {
            return self.unstructured(item, here);
        }
        if self.depth >= super::MAX_DEPTH {
            return Err(TypeError::TooDeep);
        }
        self.depth += 1;
        let done = deep(|| self.unstructured(item, here));
        self.depth -= 1;
        done
    }
}
