//! Whether there is anything to normalise, without a copy to find out.

use catalog::{Schema, Shape, StructType, TypeId};

use super::memo::FieldMemo;
use super::structure::{is_empty, is_zero};
use crate::{Value, deep};

/// Whether [`normalise`](super::normalise) would neither drop nor add anything. It is asked about values that were decoded, whose
/// scalars are canonical, and says nothing about the order of members.
pub fn is_normalised(schema: &Schema, ty: TypeId, value: &Value) -> bool {
    Check { schema, memo: FieldMemo::new() }.value(&Shape::Struct(ty), value)
}

struct Check<'s> {
    schema: &'s Schema,
    memo: FieldMemo,
}

impl Check<'_> {
    fn value(&mut self, shape: &Shape, value: &Value) -> bool {
        match (shape, value) {
            (Shape::Struct(id), Value::Map(_)) => deep(|| self.structure(self.schema.get(*id), value)),
            (Shape::List(inner), Value::List(items)) => {
                has_no_parts(inner) || deep(|| items.iter().all(|item| self.value(inner, item)))
            }
            (Shape::Map(inner), Value::Map(map)) => {
                has_no_parts(inner) || deep(|| map.iter().all(|(_, item)| self.value(inner, item)))
            }
            _ => !value.is_null(),
        }
    }

    fn structure(&mut self, ty: &StructType, value: &Value) -> bool {
        let Value::Map(map) = value else { return false };
        let mut always_written = 0;
        let mut next = 0;
        for (name, member) in map.iter() {
            let Some((at, field)) = self.memo.find(ty, next, name) else {
                if ty.open {
                    continue;
                }
                return false;
            };
            next = at + 1;
            always_written += usize::from(ty.always_written.binary_search(&(at as u16)).is_ok());
            if member.is_null() {
                if field.omit_empty || field.omit_zero {
                    return false;
                }
                continue;
            }
            let collection = matches!(field.shape, Shape::List(_) | Shape::Map(_));
            let omitted = !field.pointer
                && (field.omit_zero && is_zero(member)
                    || (field.omit_empty || collection) && is_empty(&field.shape, member));
            if omitted || !self.value(&field.shape, member) {
                return false;
            }
        }
        ty.open || always_written == ty.always_written.len()
    }
}

fn has_no_parts(shape: &Shape) -> bool {
    !matches!(shape, Shape::Struct(_) | Shape::List(_) | Shape::Map(_))
}
