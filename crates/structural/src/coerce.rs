//! What decoding does to a custom resource: names sorted and unique, unknown fields pruned, nulls dropped, metadata decoded.

use catalog::Schema;
use object::{Map, Value, deep, discard};

use crate::embedded::{self, MetadataError};
use crate::node::Structural;
use crate::prune::Unknown;

/// How to coerce an object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coerce {
    /// List unknown fields (`fieldValidation` Warn and Strict).
    pub strict: bool,
    /// `spec.preserveUnknownFields` of the definition: nothing is pruned.
    pub preserve_unknown_fields: bool,
    /// Malformed fields of metadata are dropped, not refused: for what the store holds.
    pub drop_malformed_metadata: bool,
    /// The root's own metadata is decoded by the caller.
    pub skip_root_metadata: bool,
}

impl Structural {
    /// Coerces an object of this schema; `types` has the type of metadata. Returns the paths of unknown fields, in the order and form
    /// that `unknown field "..."` reports them. After an error the object is partly changed and must be dropped.
    pub fn coerce(
        &self,
        value: &mut Value,
        types: &Schema,
        options: Coerce,
    ) -> Result<Vec<String>, MetadataError> {
        let has_null = sort(value);
        let mut unknown = Vec::new();
        let decode = embedded::Decode {
            types,
            drop_malformed: options.drop_malformed_metadata,
            list_unknown: options.strict,
        };
        if !options.skip_root_metadata {
            decode.root(value, &mut unknown)?;
        }
        if !options.preserve_unknown_fields {
            let mut pruned = Unknown::new(options.strict);
            self.prune(self.root, value, true, &mut pruned);
            unknown.extend(pruned.into_sorted());
            if has_null {
                // The root's metadata has its own rules, and they were applied.
                let metadata = value.as_map_mut().and_then(|map| map.remove("metadata"));
                self.drop_nulls(self.root, value);
                if let (Some(map), Some(metadata)) = (value.as_map_mut(), metadata) {
                    let at = map.entries_mut().partition_point(|(name, _)| &**name < "metadata");
                    map.entries_mut().insert(at, ("metadata".into(), metadata));
                }
            }
        }
        self.coerce_embedded(value, &decode, &mut unknown)?;
        Ok(unknown)
    }
}

/// Sorts the names of all maps; of duplicates the last one stays. Returns whether there is a null.
pub fn sort(value: &mut Value) -> bool {
    match value {
        Value::Null => true,
        Value::List(list) => deep(|| list.iter_mut().fold(false, |null, item| sort(item) | null)),
        Value::Map(map) => {
            sort_map(map);
            deep(|| map.iter_mut().fold(false, |null, (_, member)| sort(member) | null))
        }
        _ => false,
    }
}

pub(crate) fn sort_map(map: &mut Map) {
    let entries = map.entries_mut();
    if entries.is_sorted_by(|(a, _), (b, _)| a < b) {
        return;
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            discard(std::mem::replace(&mut kept.1, std::mem::replace(&mut later.1, Value::Null)));
        }
        same
    });
}
