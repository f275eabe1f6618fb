//! Defaults must be what an object could be.

use object::{FieldError, Value, deep};

use super::{Options, Step};
use crate::at::At;
use crate::check::same;
use crate::coerce::sort;
use crate::embedded::{Decode, MetadataError, check_resource};
use crate::node::{Flags, NodeId, Structural};
use crate::prune::{Unknown, is_meta};
use crate::show::show;

pub(super) fn check(schema: &Structural, at: &At<'_>, options: &Options<'_>) -> Vec<FieldError> {
    let mut walk = Walk { schema, options, errors: Vec::new(), steps: Vec::new() };
    if schema.has_defaults() {
        walk.node(schema.root, schema.root, true, false, at);
    }
    walk.errors
}

struct Walk<'s> {
    schema: &'s Structural,
    options: &'s Options<'s>,
    errors: Vec<FieldError>,
    /// From the resource around it, the object itself or an embedded one.
    steps: Vec<Step>,
}

impl Walk<'_> {
    /// `root` is the node of the resource around this one, `meta` whether this is inside its metadata, kind or apiVersion.
    fn node(&mut self, id: NodeId, root: NodeId, is_root: bool, meta: bool, at: &At<'_>) {
        let schema = self.schema;
        let node = schema.node(id);
        if !node.flags.has(Flags::DEFAULTS_BELOW) {
            return;
        }
        let resource = is_root || node.flags.has(Flags::EMBEDDED);
        let outer = resource.then(|| std::mem::take(&mut self.steps));
        let (root, meta) = if resource { (id, false) } else { (root, meta) };
        if let Some(default) = node.default() {
            let wrong = match meta {
                true => self.inside_metadata(id, root, default, at),
                false => self.plain(id, default, resource, at),
            };
            self.errors.extend(wrong);
        }
        if let Some(items) = node.items.some() {
            self.steps.push(Step::Items);
            deep(|| self.node(items, root, false, meta, &at.child("items")));
            self.steps.pop();
        }
        for (name, property) in schema.properties_of(node) {
            let meta = meta || (resource && is_meta(name));
            self.steps.push(Step::Property(name.as_str().into()));
            let list = at.child("properties");
            deep(|| self.node(*property, root, false, meta, &list.key(name)));
            self.steps.pop();
        }
        if let Some(outer) = outer {
            self.steps = outer;
        }
    }

    /// A default of metadata or a part of it: the resource it would make must have valid metadata.
    fn inside_metadata(&self, id: NodeId, root: NodeId, default: &Value, at: &At<'_>) -> Vec<FieldError> {
        let mut resource = default.clone();
        for step in self.steps.iter().rev() {
            resource = match step {
                Step::Property(name) => {
                    Value::Map([(name.to_string().into(), resource)].into_iter().collect())
                }
                Step::Items | Step::Additional => Value::List(vec![resource]),
            };
        }
        let Value::Map(map) = &mut resource else { return Vec::new() };
        for (name, value) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
            if !map.contains(name) {
                map.set(name, value);
            }
        }
        sort(&mut resource);
        let broken =
            |why: String| vec![invalid(at, default, format!("must result in valid metadata: {why}"))];
        if let Err(error) = self.coerce(root, &mut resource, true, &At::Root) {
            return broken(error.to_string());
        }
        let errors = self.metadata_errors(root, &resource, true, &At::Root);
        match errors.as_slice() {
            [] => self.values(id, default, at),
            [one] => broken(one.to_string()),
            many => {
                let all: Vec<String> = many.iter().map(ToString::to_string).collect();
                broken(format!("[{}]", all.join(", ")))
            }
        }
    }

    /// A default elsewhere: nothing unknown in it, the metadata of its resources valid (it may be one itself), its values valid.
    fn plain(&self, id: NodeId, default: &Value, resource: bool, at: &At<'_>) -> Vec<FieldError> {
        let mut pruned = default.clone();
        self.schema.prune(id, &mut pruned, resource, &mut Unknown::new(false));
        // Errors show the default as it is once its metadata is decoded.
        let mut coerced = default.clone();
        let done = self.coerce(id, &mut coerced, resource, &at.child("default"));
        let mut errors = Vec::new();
        if !self.options.lenience.unpruned_defaults && !same(&pruned, default) {
            errors.push(invalid(at, &coerced, "must not have unknown fields".to_owned()));
        }
        let broken = match done {
            Err(MetadataError::Embedded(error)) => vec![error],
            Err(MetadataError::Root(_)) => Vec::new(),
            Ok(()) => self.metadata_errors(id, &coerced, resource, &at.child("default")),
        };
        errors.extend(if broken.is_empty() { self.values(id, &coerced, at) } else { broken });
        errors
    }

    fn values(&self, id: NodeId, default: &Value, at: &At<'_>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let at = at.child("default").to_string();
        self.schema.explain_default(id, default, &at, &mut errors);
        if errors.is_empty() {
            return (self.options.check_rules)(self.schema.at(id), default, &at);
        }
        errors
    }

    fn coerce(
        &self,
        id: NodeId,
        value: &mut Value,
        resource: bool,
        at: &At<'_>,
    ) -> Result<(), MetadataError> {
        let decode = Decode { types: self.options.types, drop_malformed: false, list_unknown: false };
        self.schema.coerce_node(id, value, resource, &decode, at, &mut Vec::new())
    }

    fn metadata_errors(&self, id: NodeId, value: &Value, resource: bool, at: &At<'_>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let embedded = self.schema.node(id).flags.has(Flags::EMBEDDED);
        if let Value::Map(map) = value
            && resource
            && !embedded
        {
            check_resource(value, map, self.options.check_metadata, at, &mut errors);
        }
        self.schema.validate_embedded_at(id, value, self.options.check_metadata, at, &mut errors);
        errors
    }
}

fn invalid(at: &At<'_>, default: &Value, detail: String) -> FieldError {
    FieldError::invalid(at.child("default").to_string(), show(default), detail)
}
