//! Why a value is not valid: upstream's errors, in its order and words.
//!
//! A failure is merged from level to level, each message once; of the alternatives of `anyOf` and `oneOf` those failures are
//! told that had most checks pass before them. So checks are counted as upstream counts them.

mod leaves;
mod outcome;

use object::{FieldError, FieldErrorKind, Map, Value, deep, quote};

use crate::check::{Check, has_duplicates};
use crate::node::{Flags, ListType, NodeData, NodeId, Structural, Type};
use crate::ratchet::Correlated;
use crate::valid::accepts_null;
use outcome::{Failure, Outcome};

/// Of all messages; after that nothing more is told.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// CEL rules are not run over an object with these errors: what they read may not be there, or not be what they take it for.
/// Returns the error that says so.
pub fn rules_blocked_by(errors: &[FieldError]) -> Option<FieldError> {
    let blocks = |error: &FieldError| {
        use FieldErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
    };
    let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    errors.iter().any(blocks).then(|| FieldError::invalid("<nil>", "null", detail))
}

impl Structural {
    /// The errors of a new object.
    pub fn validate(&self, value: &Value, errors: &mut Vec<FieldError>) {
        if !self.is_valid(self.root, value) {
            self.explain(self.root, value, None, None, errors);
        }
    }

    /// The errors of an update. What did not change may stay wrong.
    pub fn validate_update(&self, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        if !self.is_valid(self.root, new) {
            self.explain(self.root, new, Some(old), None, errors);
        }
    }

    /// The errors of an update of the status alone; both are whole objects.
    pub fn validate_status_update(&self, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        let Some(status) = new.get("status") else { return };
        let Some(id) = self.property(self.node(self.root), "status", &mut 0) else { return };
        if !self.is_valid(id, status) {
            let old = old.get("status").unwrap_or(&Value::Null);
            self.explain(id, status, Some(old), Some("status"), errors);
        }
    }

    pub(crate) fn explain(
        &self,
        id: NodeId,
        value: &Value,
        old: Option<&Value>,
        prefix: Option<&str>,
        errors: &mut Vec<FieldError>,
    ) {
        let mut explainer = Explainer { schema: self, path: String::new(), bytes: 0, as_default: false };
        let outcome = explainer.ratcheted(id, value, old);
        errors.extend(outcome.failures.into_iter().map(|failure| failure.into_error(prefix)));
    }

    /// The errors of a default, whose path is given. Formats and types are those of the schema as it is published, where an
    /// integer or string is any value.
    pub(crate) fn explain_default(
        &self,
        id: NodeId,
        value: &Value,
        prefix: &str,
        errors: &mut Vec<FieldError>,
    ) {
        let mut explainer = Explainer { schema: self, path: String::new(), bytes: 0, as_default: true };
        let outcome = explainer.value(id, value, None);
        errors.extend(outcome.failures.into_iter().map(|failure| failure.into_error(Some(prefix))));
    }
}

struct Explainer<'s> {
    schema: &'s Structural,
    /// Where it is: `spec.a[0]`.
    path: String,
    bytes: usize,
    as_default: bool,
}

impl Explainer<'_> {
    /// A value, and its old one where there is one to compare with: without a change its failures are forgiven.
    fn ratcheted(&mut self, id: NodeId, value: &Value, old: Option<&Value>) -> Outcome {
        let mut outcome = deep(|| self.value(id, value, old));
        if !outcome.is_valid() && old.is_some_and(|old| self.schema.is_unchanged(id, value, old)) {
            outcome.forgive();
        }
        outcome
    }

    fn value(&mut self, id: NodeId, value: &Value, old: Option<&Value>) -> Outcome {
        let schema = self.schema;
        let node = schema.node(id);
        let checks = schema.checks_of(node);
        let mut outcome = Outcome::default();
        if value.is_null() {
            if accepts_null(node) || (self.as_default && node.ty == Type::None) {
                outcome.passed += 1;
            } else {
                let ty = self.type_names(node);
                self.wrong_type(&mut outcome, &ty, "null");
            }
            self.enumeration(&mut outcome, checks, value);
            return outcome;
        }
        if self.has_type(node) || self.format(node, checks).is_some() {
            match self.type_failure(node, checks, value) {
                Some((wanted, found)) => self.wrong_type(&mut outcome, &wanted, found),
                None => outcome.passed += 1,
            }
            outcome.passed += 1;
        }
        self.junctors(&mut outcome, checks, value);
        outcome.passed += 1;
        match value {
            Value::Str(text) => self.string(&mut outcome, node, checks, text),
            Value::Int(_) | Value::Float(_) => self.number(&mut outcome, node, checks, value),
            Value::List(list) => self.list(&mut outcome, node, checks, list, old),
            _ => {}
        }
        self.enumeration(&mut outcome, checks, value);
        outcome.passed += 1;
        if let Value::Map(map) = value {
            self.object(&mut outcome, node, checks, map, old);
        }
        outcome.passed += 1;
        outcome
    }

    fn has_type(&self, node: &NodeData) -> bool {
        node.ty != Type::None || (node.flags.has(Flags::INT_OR_STRING) && !self.as_default)
    }

    /// The format that counts: one that is checked, or, for a default, whatever is written.
    fn format<'n>(&self, node: &'n NodeData, checks: &'n [Check]) -> Option<&'n str> {
        if self.as_default {
            return node.extra.as_ref()?.format.as_deref();
        }
        checks.iter().find_map(|check| match check {
            Check::Format(_, name) => Some(&**name),
            Check::NumberFormat(format) => Some(format.as_str()),
            _ => None,
        })
    }

    fn type_names(&self, node: &NodeData) -> String {
        if node.flags.has(Flags::INT_OR_STRING) && !self.as_default {
            return "integer,string".to_owned();
        }
        let odd = || node.extra.as_ref().and_then(|extra| extra.odd_type.as_deref()).unwrap_or_default();
        if node.ty == Type::Odd { odd().to_owned() } else { node.ty.as_str().to_owned() }
    }

    /// At least one, exactly one, all, not: whose parts are validated without regard to what was before.
    fn junctors(&mut self, outcome: &mut Outcome, checks: &[Check], value: &Value) {
        for check in checks {
            match check {
                Check::AnyOf(parts) => {
                    let mut best: Option<Outcome> = None;
                    let mut valid = false;
                    for part in parts {
                        let result = deep(|| self.value(*part, value, None));
                        if result.is_valid() {
                            (best, valid) = (Some(result), true);
                            break;
                        }
                        if best.as_ref().is_none_or(|best| result.passed > best.passed) {
                            best = Some(result);
                        }
                    }
                    if !valid {
                        self.plain(
                            outcome,
                            format!("{} must validate at least one schema (anyOf)", quote(&self.path)),
                        );
                    }
                    outcome.merge(best.unwrap_or_default());
                }
                Check::OneOf(parts) => self.one_of(outcome, parts, value),
                Check::AllOf(parts) => {
                    let mut valid = 0;
                    for part in parts {
                        let result = deep(|| self.value(*part, value, None));
                        valid += usize::from(result.is_valid());
                        outcome.merge(result);
                    }
                    if valid != parts.len() {
                        let none = if valid == 0 { ". None validated" } else { "" };
                        self.plain(
                            outcome,
                            format!("{} must validate all the schemas (allOf){none}", quote(&self.path)),
                        );
                    }
                }
                Check::Not(part) => {
                    if deep(|| self.value(*part, value, None)).is_valid() {
                        self.plain(
                            outcome,
                            format!("{} must not validate the schema (not)", quote(&self.path)),
                        );
                    }
                }
                _ => break,
            }
        }
        outcome.passed += 1;
    }

    fn one_of(&mut self, outcome: &mut Outcome, parts: &[NodeId], value: &Value) {
        let mut best: Option<Outcome> = None;
        let mut first: Option<Outcome> = None;
        let mut valid = 0;
        for part in parts {
            let result = deep(|| self.value(*part, value, None));
            if result.is_valid() {
                valid += 1;
                best = None;
                first.get_or_insert(result);
            } else if valid == 0 && best.as_ref().is_none_or(|best| result.passed > best.passed) {
                best = Some(result);
            }
        }
        if valid == 1 {
            return outcome.merge(first.unwrap_or_default());
        }
        let more = match valid {
            0 => "Found none valid".to_owned(),
            n => format!("Found {n} valid alternatives"),
        };
        self.plain(
            outcome,
            format!("{} must validate one and only one schema (oneOf). {more}", quote(&self.path)),
        );
        if let Some(best) = best {
            outcome.merge(best);
        }
    }

    fn list(
        &mut self,
        outcome: &mut Outcome,
        node: &NodeData,
        checks: &[Check],
        list: &[Value],
        old: Option<&Value>,
    ) {
        let mut all = Outcome::default();
        if let Some(items) = node.items.some() {
            let old = old.and_then(Value::as_list).filter(|_| node.list == ListType::Map);
            let old = old.map(|old| Correlated::new(node, old));
            let here = self.path.len();
            for (i, item) in list.iter().enumerate() {
                self.path.push_str(&format!("[{i}]"));
                // An old element that is null is none.
                let old = old.as_ref().and_then(|old| old.find(item));
                all.merge(self.ratcheted(items, item, old));
                self.path.truncate(here);
            }
        }
        let size = list.len() as i64;
        for check in checks {
            match check {
                Check::MinItems(least) if size < *least => {
                    let message = format!("should have at least {least} items");
                    self.failure(&mut all, FieldErrorKind::Invalid, message, Some(size.to_string()), None);
                }
                Check::MaxItems(most) if size > *most => {
                    let message = format!("should have at most {most} items");
                    self.too_many(&mut all, message, size, *most);
                }
                Check::UniqueItems if has_duplicates(list) => {
                    let message = "shouldn't contain duplicates".to_owned();
                    self.failure(&mut all, FieldErrorKind::Invalid, message, None, None);
                }
                _ => {}
            }
        }
        outcome.merge(all);
        outcome.passed += 2;
    }

    fn object(
        &mut self,
        outcome: &mut Outcome,
        node: &NodeData,
        checks: &[Check],
        map: &Map,
        old: Option<&Value>,
    ) {
        let mut all = Outcome::default();
        let size = map.len() as i64;
        for check in checks {
            match check {
                Check::MinProperties(least) if size < *least => {
                    let message = format!("should have at least {least} properties");
                    self.failure(&mut all, FieldErrorKind::Invalid, message, Some(size.to_string()), None);
                }
                Check::MaxProperties(most) if size > *most => {
                    let message = format!("should have at most {most} properties");
                    self.too_many(&mut all, message, size, *most);
                }
                _ => {}
            }
        }
        self.additional(&mut all, node, map, old);
        let at_root = self.path.is_empty();
        let here = self.path.len();
        for (name, id) in self.schema.properties_of(node) {
            let Some(value) = map.get(name) else { continue };
            if !at_root {
                self.path.push('.');
            }
            self.path.push_str(name);
            // Nobody sees a change of these two: both objects are converted to the version of the request.
            let typed = at_root && matches!(name.as_str(), "kind" | "apiVersion");
            let old = old.filter(|_| !typed).and_then(|old| old.get(name));
            all.merge(self.ratcheted(*id, value, old));
            self.path.truncate(here);
        }
        for check in checks {
            let Check::Required(names) = check else { continue };
            for name in names.iter().filter(|name| !map.contains(name)) {
                self.path.push('.');
                self.path.push_str(name);
                self.failure(
                    &mut all,
                    FieldErrorKind::Required,
                    "is required".to_owned(),
                    None,
                    Some(String::new()),
                );
                self.path.truncate(here);
            }
        }
        outcome.merge(all);
        outcome.passed += 1;
    }

    fn additional(&mut self, all: &mut Outcome, node: &NodeData, map: &Map, old: Option<&Value>) {
        if node.additional == NodeId::NONE || node.additional == NodeId::ALLOWED {
            return;
        }
        let here = self.path.len();
        let mut next = 0;
        for (name, value) in map.iter() {
            if self.schema.property(node, name, &mut next).is_some() {
                continue;
            }
            let Some(schema) = node.additional.some() else {
                let message = format!("{}.{name} in body is a forbidden property", self.path);
                self.failure_with(all, FieldErrorKind::Invalid, message, Some(quote(name)), None);
                continue;
            };
            let typed = here == 0 && matches!(name.as_str(), "kind" | "apiVersion");
            let old = old.filter(|_| !typed).and_then(|old| old.get(name));
            self.path.push('.');
            self.path.push_str(name);
            all.merge(self.ratcheted(schema, value, old));
            self.path.truncate(here);
        }
    }

    fn wrong_type(&mut self, outcome: &mut Outcome, wanted: &str, found: &str) {
        let message = format!("must be of type {wanted}: {}", quote(found));
        self.failure(outcome, FieldErrorKind::TypeInvalid, message, Some(quote(found)), None);
    }

    fn too_many(&mut self, outcome: &mut Outcome, message: String, size: i64, most: i64) {
        let items = if most == 1 { "item" } else { "items" };
        let detail = match most {
            0.. => format!("must have at most {most} {items}"),
            _ => "has too many items".to_owned(),
        };
        self.failure(outcome, FieldErrorKind::TooMany, message, Some(size.to_string()), Some(detail));
    }

    /// A failure of the field where it is; the message goes on behind its name.
    fn failure(
        &mut self,
        outcome: &mut Outcome,
        kind: FieldErrorKind,
        message: String,
        value: Option<String>,
        detail: Option<String>,
    ) {
        self.failure_with(outcome, kind, format!("{} in body {message}", self.path), value, detail);
    }

    fn failure_with(
        &mut self,
        outcome: &mut Outcome,
        kind: FieldErrorKind,
        message: String,
        value: Option<String>,
        detail: Option<String>,
    ) {
        let name = Some(self.path.clone());
        self.tell(outcome, Failure { message: message.into(), name, kind, value, detail });
    }

    /// A failure of no field.
    fn plain(&mut self, outcome: &mut Outcome, message: String) {
        let kind = FieldErrorKind::Invalid;
        self.tell(outcome, Failure { message: message.into(), name: None, kind, value: None, detail: None });
    }

    fn tell(&mut self, outcome: &mut Outcome, failure: Failure) {
        // The first of each value is always told: without it the value would count as valid.
        if outcome.is_valid() || self.bytes <= MAX_BYTES {
            let value = failure.value.as_ref().map_or(0, String::len);
            self.bytes += failure.message.len() + value + failure.name.as_ref().map_or(0, String::len);
            outcome.add(failure);
        }
    }
}
