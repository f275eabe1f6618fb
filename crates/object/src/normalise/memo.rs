//! Fast lookup of fields by name: documents are repetitive, and mostly follow the declaration order.

use catalog::{Field, StructType};

/// Caches where names were found, for one document. A cached position is verified, so that
/// neither another type nor another name in the same slot does harm.
#[derive(Debug)]
pub struct FieldMemo {
    slots: [u16; SLOTS],
}

const SLOTS: usize = 128;

impl FieldMemo {
    pub fn new() -> FieldMemo {
        FieldMemo { slots: [0; SLOTS] }
    }

    /// As [`StructType::field`]; `next` is the field that stands behind the last one found.
    #[inline]
    pub fn find<'s>(&mut self, ty: &'s StructType, next: usize, name: &str) -> Option<(usize, &'s Field)> {
        if let Some(field) = ty.fields.get(next)
            && is(field, name)
        {
            return Some((next, field));
        }
        let bytes = name.as_bytes();
        let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return ty.field(name) };
        // Names of one struct differ in these; structs differ in how many fields they have.
        let mixed =
            usize::from(*first) * 5 + usize::from(*last) * 23 + bytes.len() * 11 + ty.fields.len() * 3;
        let slot = &mut self.slots[mixed % SLOTS];
        if let Some(field) = ty.fields.get(usize::from(*slot))
            && is(field, name)
        {
            return Some((usize::from(*slot), field));
        }
        let found = ty.field(name)?;
        *slot = found.0 as u16;
        Some(found)
    }
}

/// Names of a tree that was read with its type are the catalogue's own: there the pointer is enough.
#[inline]
fn is(field: &Field, name: &str) -> bool {
    let own = field.name.as_str();
    own.len() == name.len() && (std::ptr::eq(own.as_ptr(), name.as_ptr()) || own == name)
}

impl Default for FieldMemo {
    fn default() -> FieldMemo {
        FieldMemo::new()
    }
}
