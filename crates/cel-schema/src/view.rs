//! Values under a schema: what [`cel`] has to know of a node when it reads one.

use std::sync::{Arc, OnceLock};

use catalog::Name;
use cel::{Format, ListKind, Schema, Shape};
use structural::{ListType, Structural, Type};

use crate::place::{Place, Spot};

/// A place of a schema as values see it. The places below are made when a value is first read through this one, and kept.
pub(crate) struct View {
    schema: Arc<Structural>,
    spot: Spot,
    /// Properties sorted by name; of a list or a map the one thing it holds.
    below: OnceLock<Box<[(Name, View)]>>,
}

impl View {
    pub(crate) fn new(schema: Arc<Structural>, spot: Spot) -> View {
        View { schema, spot, below: OnceLock::new() }
    }

    fn place(&self) -> Place<'_> {
        self.spot.place(&self.schema)
    }

    fn below(&self) -> &[(Name, View)] {
        self.below.get_or_init(|| {
            let place = self.place();
            let of = |place: Place<'_>| View::new(Arc::clone(&self.schema), place.spot());
            match place.ty() {
                Type::Object if place.has_properties() => {
                    place.properties().into_iter().map(|(name, place)| (name, of(place))).collect()
                }
                Type::Object => place.values().map(|place| (Name::EMPTY, of(place))).into_iter().collect(),
                _ => place.items().map(|place| (Name::EMPTY, of(place))).into_iter().collect(),
            }
        })
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("spot", &self.spot).finish_non_exhaustive()
    }
}

impl Schema for View {
    fn nullable(&self) -> bool {
        self.place().node().is_some_and(|node| node.is_nullable())
    }

    fn shape(&self) -> Shape<'_> {
        let place = self.place();
        let node = place.node();
        if node.is_some_and(|node| node.is_int_or_string()) {
            return Shape::IntOrString;
        }
        match place.ty() {
            Type::Object if place.has_properties() => Shape::Object,
            Type::Object => Shape::Map,
            Type::Array => match self.below() {
                [(_, items)] => Shape::List(
                    items,
                    match node.map(|node| (node.list_type(), node.list_map_keys())) {
                        Some((ListType::Set, _)) => ListKind::Set,
                        Some((ListType::Map, keys)) => ListKind::Map(keys),
                        _ => ListKind::Atomic,
                    },
                ),
                _ => Shape::ListWithoutItems,
            },
            Type::String => Shape::String(match node.map_or("", |node| node.format()) {
                "duration" => Format::Duration,
                "date" => Format::Date,
                "date-time" => Format::DateTime,
                "byte" => Format::Byte,
                _ => Format::Plain,
            }),
            Type::Number => Shape::Number,
            Type::Integer => Shape::Integer,
            Type::Boolean => Shape::Boolean,
            Type::None | Type::Odd => match node {
                Some(node) if node.preserves_unknown_fields() => Shape::Preserved,
                Some(node) => Shape::Unknown(node.type_name()),
                None => Shape::Unknown(""),
            },
        }
    }

    fn member(&self, name: &str) -> Option<&dyn Schema> {
        let below = self.below();
        match self.place().has_properties() {
            true => {
                let at = below.binary_search_by(|(own, _)| own.as_str().cmp(name)).ok()?;
                Some(&below[at].1)
            }
            false => below.first().map(|(_, values)| values as &dyn Schema),
        }
    }
}
