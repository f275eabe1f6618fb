//! The CEL rules of schemas (`x-kubernetes-validations`): they compile, cost no more than is allowed, and hold for defaults.

#[cfg(test)]
mod tests;

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use cel_schema::{Definition, Expressions, Limits, Meter, Rules};
use object::{FieldError, Value};
use structural::rules::Checked;
use structural::{Node, Structural};

use crate::check::{items, member, text};
use crate::same;

/// What the stored definition is reason for.
#[derive(Default)]
pub(super) struct Stored {
    /// Expressions that were accepted before, perhaps by a later version.
    expressions: Expressions,
    /// The versions whose schemas do not change.
    unchanged: Vec<String>,
}

impl Stored {
    pub(super) fn of(spec: &Value, old: &Value) -> Stored {
        let mut expressions = Expressions::default();
        for version in items(old, "versions") {
            version.at(&["schema", "openAPIV3Schema"]).iter().for_each(|schema| expressions.collect(schema));
        }
        let names = items(spec, "versions").iter().map(|version| text(version, "name"));
        let unchanged = names.filter(|name| {
            let (new, old) = (schema_of(spec, name), schema_of(old, name));
            new.zip(old).is_some_and(|(new, old)| same(new, old))
        });
        Stored { expressions, unchanged: unchanged.map(str::to_owned).collect() }
    }
}

/// The schema of a version, which may have none; `None` if there is no such version. What all versions have in common is
/// also that of versions to come.
fn schema_of<'v>(spec: &'v Value, name: &str) -> Option<Option<&'v Value>> {
    let versions = items(spec, "versions");
    let schema = |version: &'v Value| member(version, "schema");
    let first = versions.first().and_then(schema);
    if versions.iter().all(|version| same(schema(version), first)) {
        return Some(first);
    }
    versions.iter().find(|version| text(version, "name") == name).map(schema)
}

/// The rules of one schema.
pub(super) struct SchemaRules<'c> {
    schema: &'c Value,
    parsed: OnceCell<Option<Arc<Structural>>>,
    rules: OnceCell<Option<Rules>>,
    /// What defaults may still cost.
    budget: Cell<i64>,
    meter: Option<&'c Meter>,
}

impl<'c> SchemaRules<'c> {
    pub(super) fn new(schema: &'c Value, meter: Option<&'c Meter>) -> SchemaRules<'c> {
        let budget = Cell::new(Limits::default().budget);
        SchemaRules { schema, parsed: OnceCell::new(), rules: OnceCell::new(), budget, meter }
    }

    fn parsed(&self) -> Option<&Arc<Structural>> {
        self.parsed.get_or_init(|| Structural::parse(self.schema).ok().map(Arc::new)).as_ref()
    }

    /// The errors of a default: rules of its node, and of nodes below, that do not hold.
    pub(super) fn check_default(&self, node: Node<'_>, default: &Value, at: &str) -> Vec<FieldError> {
        // The node is one of an equal schema.
        let Some(own) = self.parsed().and_then(|schema| schema.node_at(node.index())) else {
            return Vec::new();
        };
        let rules =
            self.rules.get_or_init(|| self.parsed().and_then(|schema| Rules::new(Arc::clone(schema))));
        let Some(rules) = rules.as_ref().filter(|_| own.has_rules() && self.budget.get() >= 0) else {
            return Vec::new();
        };
        let is_root = self.parsed().is_some_and(|schema| schema.root().index() == own.index());
        let limits = Limits { budget: self.budget.get(), ..Limits::default() };
        let resource = is_root || own.is_embedded_resource();
        let outcome = rules.validate_default(own, resource, at, default, limits, self.meter);
        self.budget.set(outcome.remaining);
        outcome.errors
    }

    /// The errors of the rules themselves, in a schema of that version at `at`.
    pub(super) fn check(
        &self,
        checked: &Checked,
        stored: &Stored,
        version: &str,
        at: &str,
    ) -> Vec<FieldError> {
        let Some(parsed) = self.parsed().filter(|_| !checked.sites.is_empty()) else { return Vec::new() };
        let unchanged = stored.unchanged.iter().any(|name| name == version);
        let definition = Definition { stored: &stored.expressions, unchanged, meter: self.meter };
        definition.check(parsed, at, &checked.sites)
    }
}
