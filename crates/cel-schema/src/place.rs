//! Where in a schema something is: a node, or what every resource has whether its schema says so or not.

use catalog::Name;
use structural::{Additional, Node, Structural, Type};

/// A place of a schema, with the schema.
#[derive(Clone, Copy)]
pub(crate) enum Place<'s> {
    Node {
        node: Node<'s>,
        /// The root of a custom or an embedded resource.
        resource: bool,
    },
    /// `apiVersion`, `kind` or a name in the metadata of a resource whose schema does not have all of them.
    Text,
    /// The metadata of such a resource: `name` and `generateName`.
    Metadata,
}

/// A place without its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Spot {
    Node { index: u32, resource: bool },
    Text,
    Metadata,
}

impl Spot {
    pub(crate) fn place(self, schema: &Structural) -> Place<'_> {
        match self {
            Spot::Text => Place::Text,
            Spot::Metadata => Place::Metadata,
            Spot::Node { index, resource } => match schema.node_at(index as usize) {
                Some(node) => Place::Node { node, resource },
                // Spots are only made of places of the same schema.
                None => Place::Text,
            },
        }
    }
}

impl<'s> Place<'s> {
    /// A node below the root.
    pub(crate) fn of(node: Node<'s>) -> Place<'s> {
        Place::Node { node, resource: node.is_embedded_resource() }
    }

    pub(crate) fn spot(self) -> Spot {
        match self {
            Place::Text => Spot::Text,
            Place::Metadata => Spot::Metadata,
            Place::Node { node, resource } => Spot::Node { index: node.index() as u32, resource },
        }
    }

    pub(crate) fn ty(self) -> Type {
        match self {
            Place::Text => Type::String,
            Place::Metadata => Type::Object,
            Place::Node { node, .. } => node.ty(),
        }
    }

    /// The node of the schema, if it is one.
    pub(crate) fn node(self) -> Option<Node<'s>> {
        match self {
            Place::Node { node, .. } => Some(node),
            Place::Text | Place::Metadata => None,
        }
    }

    /// Whether there are properties; a resource always has some.
    pub(crate) fn has_properties(self) -> bool {
        match self {
            Place::Text => false,
            Place::Metadata => true,
            Place::Node { node, resource } => resource || node.properties().len() > 0,
        }
    }

    pub(crate) fn property(self, name: &str) -> Option<Place<'s>> {
        match self {
            Place::Text => None,
            Place::Metadata => matches!(name, "name" | "generateName").then_some(Place::Text),
            Place::Node { node, resource } => match name {
                "apiVersion" | "kind" if resource && !has_metadata(node) => Some(Place::Text),
                "metadata" if resource && !has_metadata(node) => Some(Place::Metadata),
                _ => node.property(name).map(Place::of),
            },
        }
    }

    /// Sorted by name.
    pub(crate) fn properties(self) -> Vec<(Name, Place<'s>)> {
        let text = |name: &'static str| (Name::from(name), Place::Text);
        match self {
            Place::Text => Vec::new(),
            Place::Metadata => vec![text("generateName"), text("name")],
            Place::Node { node, resource } => {
                let own = node.properties().map(|(name, node)| (name.clone(), Place::of(node)));
                if !resource || has_metadata(node) {
                    return own.collect();
                }
                let own = own.filter(|(name, _)| !matches!(&**name, "apiVersion" | "kind" | "metadata"));
                let mut all: Vec<_> = own.collect();
                all.extend([text("apiVersion"), text("kind"), (Name::from("metadata"), Place::Metadata)]);
                all.sort_by(|a, b| a.0.cmp(&b.0));
                all
            }
        }
    }

    pub(crate) fn items(self) -> Option<Place<'s>> {
        self.node()?.items().map(Place::of)
    }

    /// Of a map.
    pub(crate) fn values(self) -> Option<Place<'s>> {
        match self.node()?.additional_properties() {
            Additional::Schema(node) => Some(Place::of(node)),
            Additional::None | Additional::Allowed(_) => None,
        }
    }
}

/// Whether a resource's schema itself has what rules may always read.
fn has_metadata(node: Node<'_>) -> bool {
    let is = |of: Node<'_>, name: &str, ty: Type| of.property(name).is_some_and(|node| node.ty() == ty);
    is(node, "kind", Type::String)
        && is(node, "apiVersion", Type::String)
        && is(node, "metadata", Type::Object)
        && node.property("metadata").is_some_and(|metadata| {
            is(metadata, "name", Type::String) && is(metadata, "generateName", Type::String)
        })
}
