//! The rules of one schema, compiled when they first run.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use structural::{Node, Structural};

use crate::compile::{Compiled, How, compile};
use crate::meter::Meter;
use crate::place::{Place, Spot};
use crate::view::View;

/// The rules of a schema, shared by all who validate its objects.
pub struct Rules {
    pub(crate) schema: Arc<Structural>,
    /// There are rules where walks by [`Node::has_rules`] would not come.
    pub(crate) in_all_of: bool,
    /// What has run so far; there are at most as many as nodes with rules.
    compiled: RwLock<HashMap<Key, Arc<NodeRules>>>,
}

/// Rules stand in a node, or in a part of its `allOf`; expressions may see something else than values are read with.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    rules: u32,
    value: Spot,
    decl: Option<Spot>,
}

/// The rules of a node.
pub(crate) struct NodeRules {
    /// `None` if expressions cannot see the node.
    pub(crate) rules: Option<Box<[Compiled]>>,
    pub(crate) uses_old_self: bool,
    /// What values are read with.
    pub(crate) view: View,
}

/// A node of the walk over a schema.
#[derive(Clone, Copy)]
pub(crate) struct At<'s> {
    /// Where the rules stand: the node, or a part of its `allOf`.
    pub(crate) rules: Node<'s>,
    pub(crate) node: Node<'s>,
    /// The root of a custom or an embedded resource.
    pub(crate) resource: bool,
    /// What expressions see; `None` if nothing.
    pub(crate) decl: Option<Place<'s>>,
}

impl<'s> At<'s> {
    pub(crate) fn root(node: Node<'s>, resource: bool) -> At<'s> {
        let place = Place::Node { node, resource };
        At { rules: node, node, resource, decl: Some(place).filter(|place| place.decl().is_some()) }
    }
    /// A node below, read with `node`.
    pub(crate) fn below(rules: Node<'s>, node: Node<'s>, decl: Option<Place<'s>>) -> At<'s> {
        At { rules, node, resource: node.is_embedded_resource(), decl }
    }
}

impl Rules {
    /// `None` if the schema has no rules. Nothing is compiled yet.
    pub fn new(schema: Arc<Structural>) -> Option<Rules> {
        schema.has_rules().then(|| Rules {
            in_all_of: schema.has_rules_in_all_of(),
            schema,
            compiled: RwLock::default(),
        })
    }

    pub(crate) fn at(&self, at: &At<'_>, meter: Option<&Meter>) -> Arc<NodeRules> {
        let value = Place::Node { node: at.node, resource: at.resource }.spot();
        let key = Key { rules: at.rules.index() as u32, value, decl: at.decl.map(Place::spot) };
        // A panic elsewhere cannot leave the map half-written.
        if let Some(found) = self.compiled.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(found);
        }
        // Compiled outside of the lock; of two that do it at once, the first stays.
        let rules = at.decl.and_then(|decl| {
            Meter::compilation(meter, || compile(&self.schema, at.rules.rules(), at.node, decl, How::SERVE))
        });
        let made = Arc::new(NodeRules {
            uses_old_self: rules.iter().flatten().any(|rule| rule.uses_old_self),
            rules: rules.map(Into::into),
            view: View::new(Arc::clone(&self.schema), value),
        });
        let mut compiled = self.compiled.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(compiled.entry(key).or_insert(made))
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").finish_non_exhaustive()
    }
}
