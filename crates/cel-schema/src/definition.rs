//! What a CustomResourceDefinition's rules must be: they compile, and cost no more than is allowed, estimated from the
//! largest object a request can hold.

use std::collections::HashSet;
use std::sync::Arc;

use object::{FieldError, FieldErrorKind, Value, deep, quote};
use structural::rules::RuleSite;
use structural::{Additional, ListType, Node, Rule, Structural, Type};

use crate::compile::{Compiled, How, compile};
use crate::meter::Meter;
use crate::place::Place;

const MAX_COST: u64 = 10_000_000;
const MAX_TOTAL_COST: u64 = 100_000_000;
/// So many of the most expensive rules are named if all together cost too much.
const NAMED: usize = 4;
const VALIDATIONS: &str = "x-kubernetes-validations";

/// Expressions that are stored already.
#[derive(Debug, Default)]
pub struct Expressions {
    rules: HashSet<Box<str>>,
    messages: HashSet<Box<str>>,
}

impl Expressions {
    /// Adds those of a schema, as JSON.
    pub fn collect(&mut self, schema: &Value) {
        let Some(map) = schema.as_map() else { return };
        for (name, value) in map.iter() {
            match (name.as_str(), value) {
                // Data, not schemas.
                ("default" | "example" | "enum", _) => {}
                (VALIDATIONS, Value::List(rules)) => {
                    let texts = |name: &str| -> Vec<Box<str>> {
                        rules.iter().filter_map(|rule| rule.str_at(&[name])).map(Into::into).collect()
                    };
                    self.rules.extend(texts("rule"));
                    self.messages.extend(texts("messageExpression"));
                }
                (_, Value::List(list)) => deep(|| list.iter().for_each(|schema| self.collect(schema))),
                (_, value) => deep(|| self.collect(value)),
            }
        }
    }
}

/// How the rules of one schema are checked.
#[derive(Clone, Copy, Debug)]
pub struct Definition<'d> {
    pub stored: &'d Expressions,
    /// The schema is stored as it is: what its rules may cost each was accepted before.
    pub unchanged: bool,
    pub meter: Option<&'d Meter>,
}

impl Definition<'_> {
    /// The errors of the rules of a schema at `path`. `sites` are where rules can be compiled: not those of what is wrong in itself.
    pub fn check(&self, schema: &Arc<Structural>, path: &str, sites: &[RuleSite]) -> Vec<FieldError> {
        if sites.is_empty() {
            return Vec::new();
        }
        let mut walk = Walk {
            definition: self,
            schema,
            sites: sites.iter().map(|site| site.at.as_str()).collect(),
            path: path.to_owned(),
            errors: Vec::new(),
            total: 0,
            expensive: Vec::new(),
        };
        let root = schema.root();
        let in_scope = !root.rules().is_empty();
        let info = if in_scope { Info::own(root, true) } else { Info::OutOfScope };
        walk.node(root, &Scope { in_scope, info, cardinality: Some(1), uncorrelatable: None });
        walk.finish()
    }
}

/// What expressions see of a node.
#[derive(Clone, Copy)]
enum Info<'s> {
    /// Neither it nor a node above it has rules.
    OutOfScope,
    /// `None`: nothing.
    Known(Option<Place<'s>>),
    Failed,
}

impl<'s> Info<'s> {
    fn own(node: Node<'s>, is_root: bool) -> Info<'s> {
        let place = Place::Node { node, resource: is_root || node.is_embedded_resource() };
        if place.decl().is_some() { Info::Known(Some(place)) } else { Info::Failed }
    }
}

/// What a node has from those above it.
struct Scope<'s> {
    in_scope: bool,
    info: Info<'s>,
    /// How many of them an object can have; `None`: as many as fit into a request.
    cardinality: Option<u64>,
    /// The list whose elements have no old values.
    uncorrelatable: Option<String>,
}

impl<'s> Scope<'s> {
    /// The scope of a node below; `seen` is what expressions see of it through this one.
    fn below(&self, parent: Node<'s>, node: Node<'s>, seen: impl Fn(Place<'s>) -> Seen<'s>) -> Scope<'s> {
        let in_scope = self.in_scope || !node.rules().is_empty();
        let info = match self.info {
            _ if !in_scope => Info::OutOfScope,
            Info::Failed => Info::Failed,
            Info::OutOfScope => Info::own(node, false),
            Info::Known(None) => Info::Known(None),
            Info::Known(Some(place)) => match seen(place) {
                Seen::Not => Info::own(node, false),
                Seen::As(place) => Info::Known(place),
            },
        };
        let cardinality =
            self.cardinality.zip(max_elements(parent)).map(|(outer, own)| outer.saturating_mul(own));
        Scope { in_scope, info, cardinality, uncorrelatable: self.uncorrelatable.clone() }
    }
}

enum Seen<'s> {
    /// Not as a part of the node above: it is looked at for itself.
    Not,
    As(Option<Place<'s>>),
}

/// By how much a node multiplies what is below it.
fn max_elements(node: Node<'_>) -> Option<u64> {
    let limit = |most: Option<i64>| most.map(|most| most.max(0) as u64);
    match node.ty() {
        Type::Array => limit(node.max_items()),
        Type::Object => match node.additional_properties() {
            Additional::None => Some(1),
            Additional::Allowed(_) | Additional::Schema(_) => limit(node.max_properties()),
        },
        _ => Some(1),
    }
}

struct Walk<'d> {
    definition: &'d Definition<'d>,
    schema: &'d Arc<Structural>,
    sites: HashSet<&'d str>,
    path: String,
    errors: Vec<FieldError>,
    total: u64,
    /// The most expensive first.
    expensive: Vec<(String, u64)>,
}

impl Walk<'_> {
    fn node<'s>(&mut self, node: Node<'s>, scope: &Scope<'s>) {
        if !node.has_rules() {
            return;
        }
        let here = self.path.len();
        if let Additional::Schema(values) = node.additional_properties() {
            self.path.push_str(".additionalProperties");
            let below = scope.below(node, values, |place| Seen::As(place.element()));
            deep(|| self.node(values, &below));
            self.path.truncate(here);
        }
        for (name, property) in node.properties().filter(|(_, property)| property.has_rules()) {
            self.path.extend([".properties[", name, "]"]);
            let below = scope.below(node, property, |place| {
                let field = cel::escape::escape(name).and_then(|_| place.field(name));
                field.map_or(Seen::Not, |field| Seen::As(Some(field)))
            });
            deep(|| self.node(property, &below));
            self.path.truncate(here);
        }
        if let Some(items) = node.items() {
            let mut below = scope.below(node, items, |place| Seen::As(place.element()));
            if node.list_type() != ListType::Map {
                below.uncorrelatable.get_or_insert_with(|| self.path.clone());
            }
            self.path.push_str(".items");
            deep(|| self.node(items, &below));
            self.path.truncate(here);
        }
        if !node.rules().is_empty() {
            self.path.push('.');
            self.path.push_str(VALIDATIONS);
            if self.sites.contains(&*self.path) {
                self.rules(node, scope);
            }
            self.path.truncate(here);
        }
    }

    fn rules<'s>(&mut self, node: Node<'s>, scope: &Scope<'s>) {
        let stored = self.definition.stored;
        let how = How {
            is_stored_rule: &|text| stored.rules.contains(text),
            is_stored_message: &|text| stored.messages.contains(text),
            estimate: true,
        };
        let decl = match scope.info {
            Info::Failed | Info::OutOfScope => {
                return self.internal(
                    "internal error: failed to construct type information for x-kubernetes-validations rules: \
                     unable to convert structural schema to CEL declarations",
                );
            }
            Info::Known(decl) => decl,
        };
        let compile = |decl| compile(self.schema, node.rules(), node, decl, how);
        let compile = |decl| Meter::compilation(self.definition.meter, || compile(decl));
        let compiled = decl.and_then(|decl| Some((decl, compile(decl)?)));
        let Some((decl, compiled)) = compiled else {
            return self.internal("failed to convert to declType for CEL validation rules");
        };
        let cardinality = scope.cardinality.unwrap_or_else(|| decl.max_cardinality());
        for (i, (rule, compiled)) in node.rules().iter().zip(&compiled).enumerate() {
            let at = format!("{}[{i}]", self.path);
            self.rule(&at, rule, compiled, cardinality, scope);
        }
    }

    fn rule(&mut self, at: &str, rule: &Rule, compiled: &Compiled, cardinality: u64, scope: &Scope<'_>) {
        let rule_at = format!("{at}.rule");
        self.cost(&rule_at, "estimated rule cost", compiled.max_cost.saturating_mul(cardinality));
        if let Err(why) = &compiled.program {
            self.errors.push(FieldError::invalid(&rule_at, shown(rule), why));
        }
        let message_at = || format!("{at}.messageExpression");
        match &compiled.message {
            Err(why) => self.errors.push(FieldError::invalid(message_at(), shown(rule), why)),
            Ok(Some(_)) => {
                self.cost(&message_at(), "estimated messageExpression cost", compiled.message_max_cost);
            }
            Ok(None) => {}
        }
        if compiled.uses_old_self {
            if let Some(list) = &scope.uncorrelatable {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                self.errors.push(FieldError::invalid(rule_at, quote(&rule.rule), detail));
            }
        } else if let Some(optional) = rule.optional_old_self {
            let detail = "may not be set if oldSelf is not used in rule";
            let at = format!("{at}.optionalOldSelf");
            self.errors.push(FieldError::invalid(at, optional.to_string(), detail));
        }
    }

    fn cost(&mut self, at: &str, what: &str, cost: u64) {
        if cost > MAX_COST && !self.definition.unchanged {
            self.errors.push(FieldError::forbidden(at, too_expensive(what, cost, MAX_COST)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= MAX_TOTAL_COST / 100 {
            let place = self.expensive.partition_point(|(_, other)| *other >= cost);
            self.expensive.insert(place, (at.to_owned(), cost));
            self.expensive.truncate(NAMED);
        }
    }

    fn internal(&mut self, why: &str) {
        self.errors.push(FieldError {
            kind: FieldErrorKind::Internal,
            field: self.path.clone(),
            bad_value: String::new(),
            detail: why.to_owned(),
        });
    }

    fn finish(mut self) -> Vec<FieldError> {
        if self.total > MAX_TOTAL_COST {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            let named = self.expensive.into_iter().map(|(at, _)| FieldError::forbidden(at, detail));
            self.errors.extend(named);
            let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            let detail = too_expensive(what, self.total, MAX_TOTAL_COST);
            self.errors.push(FieldError::forbidden(self.path, detail));
        }
        self.errors
    }
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        _ if factor > 100.0 => "more than 100x".to_owned(),
        _ if factor < 1.5 => format!("{factor:.6}x"),
        _ => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, \
         and maxLength where arrays, maps, and strings are declared)"
    )
}

/// A rule the way upstream's messages show one: its own struct, with Go's names.
fn shown(rule: &Rule) -> String {
    let text = |text: &str| structural::shown(&Value::List(vec![Value::from(text.to_owned())]));
    let json = |value: &str| {
        let list = text(value);
        list[1..list.len() - 1].to_owned()
    };
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        json(&rule.rule),
        json(&rule.message),
        json(&rule.message_expression),
        if rule.reason.is_empty() { "null".to_owned() } else { json(&rule.reason) },
        json(&rule.field_path),
        rule.optional_old_self.map_or_else(|| "null".to_owned(), |optional| optional.to_string()),
    )
}
