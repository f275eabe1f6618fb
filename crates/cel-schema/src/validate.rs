//! Objects against the rules of their schema.

use cel::{Activation, Error, Val};
use object::{FieldError, FieldErrorKind, Map, Value, deep, quote};
use structural::{Additional, Node, Rule};

use crate::compile::Compiled;
use crate::correlate::{Correlation, MapList};
use crate::meter::Meter;
use crate::path::Path;
use crate::place::Place;
use crate::rules::{At, NodeRules, Rules};

/// More than this a messageExpression may not say.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// What rules may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// All of them together.
    pub budget: i64,
    /// Each time one runs.
    pub per_call: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { budget: 10_000_000, per_call: cel::PER_CALL_LIMIT }
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    pub errors: Vec<FieldError>,
    /// Errors of what the update did not change.
    pub warnings: Vec<String>,
    /// Of the budget; below zero if no more rules were run.
    pub remaining: i64,
}

impl Rules {
    /// Validates an object, or its update. What an update leaves as it was may break rules, and is warned about.
    pub fn validate(
        &self,
        new: &Value,
        old: Option<&Value>,
        limits: Limits,
        meter: Option<&Meter>,
    ) -> Outcome {
        let root = self.schema.root();
        let correlation = old.map(|old| Correlation::root(root, new, old)).unwrap_or_default();
        self.walk(At::root(root, true), &Path::Root(""), new, old, correlation, (limits, meter))
    }

    /// Validates the default of a node, whose path is given, as a new value and as one that was there before.
    /// `resource`: the node is the root of the object, or of an embedded resource.
    pub fn validate_default(
        &self,
        node: Node<'_>,
        resource: bool,
        path: &str,
        default: &Value,
        limits: Limits,
        meter: Option<&Meter>,
    ) -> Outcome {
        if !node.has_rules() {
            return Outcome { remaining: limits.budget, ..Outcome::default() };
        }
        let at = At::root(node, resource);
        let run =
            |old| self.walk(at, &Path::Root(path), default, old, Correlation::default(), (limits, meter));
        let mut outcome = run(Some(default));
        if outcome.errors.is_empty() {
            let created = run(None);
            outcome.errors = created.errors;
            outcome.remaining = outcome.remaining.min(created.remaining);
        }
        outcome
    }

    fn walk<'v>(
        &self,
        at: At<'_>,
        path: &Path<'_>,
        new: &'v Value,
        old: Option<&'v Value>,
        correlation: Correlation<'v, '_>,
        (limits, meter): (Limits, Option<&Meter>),
    ) -> Outcome {
        let out = Outcome { remaining: limits.budget, ..Outcome::default() };
        let mut walk = Walk { rules: self, meter, per_call: limits.per_call, out };
        // Whether the budget lasted shows in what remains of it.
        let _ = Meter::evaluation(meter, || walk.value(at, path, new, old, correlation));
        walk.out
    }
}

struct Walk<'r> {
    rules: &'r Rules,
    meter: Option<&'r Meter>,
    per_call: u64,
    out: Outcome,
}

/// The budget is used up: no more rules are run.
struct Exhausted;
type Step = Result<(), Exhausted>;

impl Walk<'_> {
    fn value<'v>(
        &mut self,
        at: At<'_>,
        path: &Path<'_>,
        new: &'v Value,
        old: Option<&'v Value>,
        correlation: Correlation<'v, '_>,
    ) -> Step {
        if new.is_null() || self.can_skip(at.rules) {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        if !at.rules.rules().is_empty() {
            self.expressions(at, path, new, old, correlation)?;
        }
        if self.out.remaining < 0 {
            return Err(Exhausted);
        }
        if self.rules.in_all_of {
            for part in at.rules.all_of() {
                deep(|| self.value(At { rules: part, ..at }, path, new, old, correlation.all_of()))?;
            }
        }
        match new {
            Value::List(items) => deep(|| self.list(at, path, items, old, correlation)),
            Value::Map(map) => deep(|| self.map(at, path, map, old, correlation)),
            _ => Ok(()),
        }
    }

    fn can_skip(&self, rules: Node<'_>) -> bool {
        !rules.has_rules() && !self.rules.in_all_of
    }

    fn list<'v>(
        &mut self,
        at: At<'_>,
        path: &Path<'_>,
        items: &'v [Value],
        old: Option<&'v Value>,
        correlation: Correlation<'v, '_>,
    ) -> Step {
        let Some((rules, node)) = at.rules.items().zip(at.node.items()) else { return Ok(()) };
        if self.can_skip(rules) {
            return Ok(());
        }
        let below = At::below(rules, node, at.decl.and_then(Place::element));
        let old = MapList::new(at.node, old.and_then(Value::as_list).unwrap_or_default());
        for (i, item) in items.iter().enumerate() {
            let old = old.find(item);
            self.value(below, &Path::Index(path, i), item, old, correlation.index(item, old))?;
        }
        Ok(())
    }

    fn map<'v>(
        &mut self,
        at: At<'_>,
        path: &Path<'_>,
        map: &'v Map,
        old: Option<&'v Value>,
        correlation: Correlation<'v, '_>,
    ) -> Step {
        if let Additional::Schema(rules) = at.rules.additional_properties()
            && let Additional::Schema(node) = at.node.additional_properties()
            && !self.can_skip(rules)
        {
            let below = At::below(rules, node, at.decl.and_then(Place::element));
            for (name, value) in map.iter() {
                let old = old.and_then(|old| old.get(name));
                self.value(below, &Path::Key(path, name), value, old, correlation.key(name))?;
            }
        }
        if at.rules.properties().len() == 0 {
            return Ok(());
        }
        for (name, value) in map.iter() {
            let Some(rules) = at.rules.property(name).filter(|rules| !self.can_skip(*rules)) else {
                continue;
            };
            // A part of `allOf` may only speak of what the schema itself has.
            let Some(node) = at.node.property(name) else { continue };
            let decl = match cel::escape::escape(name) {
                Some(_) => at.decl.and_then(|decl| decl.field(name)),
                None => Some(Place::of(node)).filter(|place| place.decl().is_some()),
            };
            if decl.is_none() {
                continue;
            }
            let old = old.and_then(|old| old.get(name));
            let below = At::below(rules, node, decl);
            self.value(below, &Path::Child(path, name), value, old, correlation.key(name))?;
        }
        Ok(())
    }

    fn expressions(
        &mut self,
        at: At<'_>,
        path: &Path<'_>,
        new: &Value,
        old: Option<&Value>,
        correlation: Correlation<'_, '_>,
    ) -> Step {
        let compiled = self.rules.at(&at, self.meter);
        let Some(rules) = &compiled.rules else {
            let detail =
                "rule compiler initialization error: failed to convert to declType for CEL validation rules";
            self.invalid(at, path, detail);
            return Ok(());
        };
        if self.out.remaining <= 0 {
            return self.out_of_budget(at, path);
        }
        let selves = Selves::new(&compiled, new, old);
        for (rule, compiled) in at.rules.rules().iter().zip(rules) {
            self.rule(at, path, new, old.is_some(), correlation, rule, compiled, &selves)?;
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "what is known of a value and of a rule meets here")]
    fn rule(
        &mut self,
        at: At<'_>,
        path: &Path<'_>,
        new: &Value,
        has_old: bool,
        correlation: Correlation<'_, '_>,
        rule: &Rule,
        compiled: &Compiled,
        selves: &Selves<'_>,
    ) -> Step {
        let program = match &compiled.program {
            Err(why) => {
                self.invalid(at, path, format!("rule compile error: {why}"));
                return Ok(());
            }
            Ok(None) => return Ok(()),
            Ok(Some(program)) => program,
        };
        let optional = rule.optional_old_self == Some(true);
        // A transition needs something to come from.
        if compiled.uses_old_self && !has_old && !optional {
            return Ok(());
        }
        let variables = if optional { &selves.optional } else { &selves.plain };
        let evaluation = program.eval_within(variables, self.per_call);
        if self.charge(evaluation.cost).is_err() {
            return self.out_of_budget(at, path);
        }
        let holds = match evaluation.result {
            Ok(value) => value.as_bool() == Some(true),
            Err(error) => return self.failed(at, path, rule, &error),
        };
        if holds {
            return Ok(());
        }
        let path = match &compiled.field_path {
            Some(field) => &Path::Child(path, field),
            None => path,
        };
        let ratchets = || !compiled.uses_old_self && correlation.is_unchanged();
        let detail = match &compiled.message {
            Ok(Some(program)) => {
                let evaluation = program.eval_within(&selves.plain, self.per_call);
                match self.message(&rule.message_expression, evaluation) {
                    Ok(message) => message,
                    Err(why) => {
                        let error = FieldError::invalid(path.to_string(), quote(at.node.type_name()), why);
                        self.tell(error, ratchets());
                        return self.exhaust();
                    }
                }
            }
            Ok(None) | Err(_) => None,
        };
        let detail = detail.unwrap_or_else(|| default_message(rule));
        self.tell(of_reason(&rule.reason, path.to_string(), at.node, new, detail), ratchets());
        Ok(())
    }

    /// What a messageExpression says, `None` if it says nothing usable. The error ends validation.
    fn message(&mut self, text: &str, evaluation: cel::Evaluation<'_>) -> Result<Option<String>, String> {
        if self.charge(evaluation.cost).is_err() {
            return Err("messageExpression evaluation failed due to running out of cost budget, \
                        no further validation rules will be run"
                .to_owned());
        }
        match evaluation.result {
            Err(error) if is_over_limit(&error) => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                quote(text)
            )),
            Err(_) => Ok(None),
            Ok(value) => {
                let message = value.as_str().unwrap_or_default().trim();
                let usable =
                    !message.is_empty() && message.len() <= MAX_MESSAGE_BYTES && !message.contains('\n');
                Ok(usable.then(|| message.to_owned()))
            }
        }
    }

    fn failed(&mut self, at: At<'_>, path: &Path<'_>, rule: &Rule, error: &Error) -> Step {
        let shown = rule_text(rule);
        if error.text().starts_with("no such overload") {
            let detail = format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
            );
            self.invalid(at, path, detail);
        } else if is_over_limit(error) {
            let detail = format!(
                "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
            );
            self.invalid(at, path, detail);
            return self.exhaust();
        } else {
            self.invalid(at, path, format!("{error} evaluating rule: {shown}"));
        }
        Ok(())
    }

    /// An error about the rules and not the value: in place of it stands its type.
    fn invalid(&mut self, at: At<'_>, path: &Path<'_>, detail: impl Into<String>) {
        let shown = quote(at.node.type_name());
        self.out.errors.push(FieldError::invalid(path.to_string(), shown, detail));
    }

    fn tell(&mut self, error: FieldError, is_old: bool) {
        match is_old {
            true => self.out.warnings.push(error.to_string()),
            false => self.out.errors.push(error),
        }
    }

    fn charge(&mut self, cost: u64) -> Step {
        match i64::try_from(cost) {
            Ok(cost) if cost <= self.out.remaining => {
                self.out.remaining -= cost;
                Ok(())
            }
            _ => Err(Exhausted),
        }
    }

    fn out_of_budget(&mut self, at: At<'_>, path: &Path<'_>) -> Step {
        let detail =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        self.invalid(at, path, detail);
        self.exhaust()
    }

    fn exhaust(&mut self) -> Step {
        self.out.remaining = -1;
        Err(Exhausted)
    }
}

fn is_over_limit(error: &Error) -> bool {
    error.text().starts_with("operation cancelled: actual cost limit exceeded")
}

/// The rule in messages: what it says of itself, or itself.
fn rule_text(rule: &Rule) -> &str {
    if rule.message.is_empty() { rule.rule.trim() } else { rule.message.trim() }
}

fn default_message(rule: &Rule) -> String {
    match rule.message.is_empty() {
        true => format!("failed rule: {}", rule_text(rule)),
        false => rule.message.trim().to_owned(),
    }
}

fn of_reason(reason: &str, field: String, node: Node<'_>, value: &Value, detail: String) -> FieldError {
    // Objects and lists are not shown.
    let shown = || match node.type_name() {
        "object" | "array" => String::new(),
        _ => structural::shown(value),
    };
    match reason {
        "FieldValueForbidden" => FieldError::forbidden(field, detail),
        "FieldValueRequired" => FieldError::required(field, detail),
        "FieldValueDuplicate" => {
            FieldError { kind: FieldErrorKind::Duplicate, field, bad_value: shown(), detail: String::new() }
        }
        _ => FieldError::invalid(field, shown(), detail),
    }
}

/// The variables of a node's rules: with an old value, and with an optional one.
struct Selves<'v> {
    plain: Variables<'v>,
    optional: Variables<'v>,
}

struct Variables<'v> {
    own: Result<Val<'v>, Error>,
    /// `None`: there is no such variable.
    old: Option<Result<Val<'v>, Error>>,
}

impl<'v> Selves<'v> {
    fn new(compiled: &'v NodeRules, new: &'v Value, old: Option<&'v Value>) -> Selves<'v> {
        let own = Val::view(new, &compiled.view);
        if !compiled.uses_old_self {
            let plain = Variables { own: own.clone(), old: None };
            return Selves { plain, optional: Variables { own, old: None } };
        }
        let old = old.map(|old| Val::view(old, &compiled.view));
        let optional = old.clone().map_or(Ok(Val::none()), |old| old.map(Val::some));
        Selves {
            plain: Variables { own: own.clone(), old },
            optional: Variables { own, old: Some(optional) },
        }
    }
}

impl Activation for Variables<'_> {
    fn variable<'a>(&'a self, name: &str) -> Option<Result<Val<'a>, Error>> {
        match name {
            "self" => Some(self.own.clone()),
            "oldSelf" => self.old.clone(),
            _ => None,
        }
    }
}
