//! From the text of a rule to programs.

use std::sync::{Arc, LazyLock};

use catalog::Name;
use cel::ast::{Expr, Kind};
use cel::{Checked, Environment, EnvironmentSet, Program, Type, Version};
use object::deep;
use structural::{Node, Rule, Structural};

use crate::declare::{Declared, SELF};
use crate::field_path;
use crate::place::Place;

/// New expressions may use what the version before this one has: an installation can be rolled back to it.
const COMPATIBLE: Version = Version(1, 35);

/// The environments of all expressions of this server, without variables.
pub fn environments() -> &'static EnvironmentSet {
    static SET: LazyLock<EnvironmentSet> = LazyLock::new(|| EnvironmentSet::of(COMPATIBLE));
    &SET
}

/// Whether an expression is stored already, and so may use everything.
pub(crate) type IsStored<'c> = &'c dyn Fn(&str) -> bool;

/// How rules are compiled.
#[derive(Clone, Copy)]
pub(crate) struct How<'c> {
    pub(crate) is_stored_rule: IsStored<'c>,
    pub(crate) is_stored_message: IsStored<'c>,
    /// What they may cost is estimated.
    pub(crate) estimate: bool,
}

impl How<'_> {
    /// To serve: what is stored was estimated when it was written.
    pub(crate) const SERVE: How<'static> =
        How { is_stored_rule: &|_| true, is_stored_message: &|_| true, estimate: false };
}

/// A rule, compiled.
pub(crate) struct Compiled {
    /// `None` for an empty rule.
    pub(crate) program: Result<Option<Program>, String>,
    pub(crate) uses_old_self: bool,
    pub(crate) max_cost: u64,
    pub(crate) message: Result<Option<Program>, String>,
    pub(crate) message_max_cost: u64,
    /// From the rule's node to the field its error is about.
    pub(crate) field_path: Option<Box<str>>,
}

impl Compiled {
    fn failed(why: String) -> Compiled {
        Compiled { program: Err(why), ..Compiled::empty() }
    }
    fn empty() -> Compiled {
        Compiled {
            program: Ok(None),
            uses_old_self: false,
            max_cost: 0,
            message: Ok(None),
            message_max_cost: 0,
            field_path: None,
        }
    }
}

/// The rules of a node. `decl` is what expressions see of it, `node` what values are read with.
/// `None` if expressions cannot see it at all.
pub(crate) fn compile(
    schema: &Arc<Structural>,
    rules: &[Rule],
    node: Node<'_>,
    decl: Place<'_>,
    how: How<'_>,
) -> Option<Vec<Compiled>> {
    let declared = Arc::new(Declared { schema: Arc::clone(schema), root: decl.spot(), name: SELF.into() });
    let ty = declared.ty()?;
    let extend = |old: Type| {
        let variables = [(Name::from("self"), ty.clone()), (Name::from("oldSelf"), old)];
        environments().extend(variables, Some(declared.clone()))
    };
    let mut plain = None;
    let mut optional = None;
    let compiled = rules.iter().map(|rule| {
        let set = match rule.optional_old_self {
            Some(true) => optional.get_or_insert_with(|| extend(Type::optional(ty.clone()))),
            _ => plain.get_or_insert_with(|| extend(ty.clone())),
        };
        compile_rule(rule, node, set, &declared, how)
    });
    Some(compiled.collect())
}

fn compile_rule(
    rule: &Rule,
    node: Node<'_>,
    set: &EnvironmentSet,
    declared: &Declared,
    how: How<'_>,
) -> Compiled {
    let environment = |stored: bool| match stored {
        true => &set.stored_expressions,
        false => &set.new_expressions,
    };
    if rule.rule.trim().is_empty() {
        return Compiled::empty();
    }
    let env = environment((how.is_stored_rule)(&rule.rule));
    let checked = match env.compile(&rule.rule) {
        Ok(checked) => checked,
        Err(issues) => return Compiled::failed(format!("compilation failed: {issues}")),
    };
    if *checked.output_type() != Type::Bool {
        return Compiled::failed("cel expression must evaluate to a bool".to_owned());
    }
    let uses_old_self = uses_old_self(&checked.ast().root);
    let program = match env.program(&checked) {
        Ok(program) => program,
        Err(error) => {
            let why = format!("program instantiation failed: {error}");
            return Compiled { uses_old_self, ..Compiled::failed(why) };
        }
    };
    let estimate = |env: &Environment, checked: &Checked| match how.estimate {
        true => cel::cost::estimate(env, checked, declared).max,
        false => 0,
    };
    let mut compiled = Compiled {
        program: Ok(Some(program)),
        uses_old_self,
        max_cost: estimate(env, &checked),
        ..Compiled::empty()
    };
    if !rule.message_expression.is_empty() {
        let env = environment((how.is_stored_message)(&rule.message_expression));
        match compile_message(env, &rule.message_expression) {
            Err(why) => {
                compiled.message = Err(why);
                return compiled;
            }
            Ok((program, checked)) => {
                compiled.message_max_cost = estimate(env, &checked);
                compiled.message = Ok(Some(program));
            }
        }
    }
    if !rule.field_path.is_empty() {
        let path = field_path::normalise(&rule.field_path, node);
        compiled.field_path = path.filter(|path| !path.is_empty()).map(Into::into);
    }
    compiled
}

fn compile_message(env: &Environment, text: &str) -> Result<(Program, Checked), String> {
    let checked =
        env.compile(text).map_err(|issues| format!("messageExpression compilation failed: {issues}"))?;
    if *checked.output_type() != Type::String {
        return Err("messageExpression must evaluate to a string".to_owned());
    }
    let program =
        env.program(&checked).map_err(|error| format!("messageExpression instantiation failed: {error}"))?;
    Ok((program, checked))
}

/// Whether `oldSelf` is read, be it the variable or a local one of that name.
fn uses_old_self(expr: &Expr) -> bool {
    let any = |expr: &Expr| uses_old_self(expr);
    deep(|| match &expr.kind {
        Kind::Unspecified | Kind::Literal(_) => false,
        Kind::Ident(name) => name.strip_prefix('.').unwrap_or(name) == "oldSelf",
        Kind::Select(select) => any(&select.operand),
        Kind::Call(call) => call.target.iter().chain(&call.args).any(any),
        Kind::List(elements) => elements.iter().any(|element| any(&element.value)),
        Kind::Map(entries) => entries.iter().any(|entry| any(&entry.key) || any(&entry.value)),
        Kind::Struct(object) => object.fields.iter().any(|field| any(&field.value)),
        Kind::Comprehension(c) => [&c.range, &c.init, &c.condition, &c.step, &c.result].into_iter().any(any),
    })
}
