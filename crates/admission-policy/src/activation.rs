//! One evaluation of a list of expressions: the variables, computed when they are first read, and what all of it may cost.
//!
//! A variable's value may be borrowed from the inputs, from its program or from another variable, so it lives as long as the
//! activation that holds it: [`Activation`] is borrowed for its own lifetime once something has been evaluated.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cel::library::authz;
use cel::{Error, Map, Mapper, Program, Val, escape};
use object::deep;

use crate::expression::{Failure, Scope};
use crate::inputs::Inputs;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// An expression, compiled or not.
pub(crate) struct Expression {
    pub(crate) text: Box<str>,
    pub(crate) program: Result<Program, Failure>,
}

/// `variables` of a policy.
#[derive(Default)]
pub(crate) struct Variables {
    list: Vec<(Box<str>, Result<Program, Failure>)>,
    by_name: HashMap<Box<str>, usize>,
}

impl Variables {
    /// Compiles them one after another; of those with one name the last is it.
    pub(crate) fn compile<'t>(
        variables: impl Iterator<Item = (&'t str, &'t str)>,
        scope: &mut Scope,
    ) -> Variables {
        let mut out = Variables::default();
        for (name, text) in variables {
            let program = scope.add(name, text, true);
            match out.by_name.get(name) {
                Some(at) => out.list[*at].1 = program,
                None => {
                    out.by_name.insert(name.into(), out.list.len());
                    out.list.push((name.into(), program));
                }
            }
        }
        out
    }
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
}

/// The activation of a list of expressions.
pub(crate) struct Activation<'v> {
    inputs: Inputs<'v>,
    /// Messages and audit annotations have none.
    has_authorizer: bool,
    variables: Option<&'v Variables>,
    cells: Box<[Cell<'v>]>,
    /// What variables have cost since it was last taken.
    spent: AtomicU64,
    this: OnceLock<Handle<'v>>,
}

#[derive(Default)]
struct Cell<'v> {
    value: OnceLock<Result<Val<'v>, Error>>,
    /// One that reads itself would never end.
    running: AtomicBool,
}

#[derive(Clone, Copy)]
struct Handle<'v>(&'v Activation<'v>);

impl<'v> Activation<'v> {
    pub(crate) fn new(
        inputs: &Inputs<'v>,
        has_authorizer: bool,
        variables: Option<&'v Variables>,
    ) -> Activation<'v> {
        let cells = (0..variables.map_or(0, Variables::len)).map(|_| Cell::default()).collect();
        Activation {
            inputs: *inputs,
            has_authorizer,
            variables,
            cells,
            spent: AtomicU64::new(0),
            this: OnceLock::new(),
        }
    }

    /// Evaluates an expression, its cost taken off the budget. The outer error ends the evaluation of the whole list.
    pub(crate) fn evaluate(
        &'v self,
        expression: &'v Expression,
        budget: &mut u64,
    ) -> Result<Result<Val<'v>, String>, String> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(failure) => return Ok(Err(format!("compilation error: {failure}"))),
        };
        if self.inputs.is_interrupted() {
            return Err(Error::interrupted().to_string());
        }
        let evaluation = program.eval(self.this.get_or_init(|| Handle(self)));
        for cost in [self.spent.swap(0, Ordering::Relaxed), evaluation.cost] {
            *budget = budget.checked_sub(cost).ok_or(OUT_OF_BUDGET)?;
        }
        let failed = |error| format!("expression '{}' resulted in error: {error}", expression.text);
        Ok(evaluation.result.map_err(failed))
    }

    fn variable_at(
        &'v self,
        at: usize,
        name: &str,
        program: &'v Result<Program, Failure>,
    ) -> Result<Val<'v>, Error> {
        let cell = &self.cells[at];
        if let Some(value) = cell.value.get() {
            return value.clone();
        }
        let value = match program {
            Err(failure) => {
                Err(Error::new(format!("composited variable \"{name}\" fails to compile: {failure}")))
            }
            // Differs from kube-apiserver, which overflows its stack over a variable that is defined by itself.
            Ok(_) if cell.running.swap(true, Ordering::Relaxed) => {
                return Err(Error::new(format!("composited variable \"{name}\" is defined by itself")));
            }
            Ok(program) => {
                let evaluation = deep(|| program.eval(self.this.get_or_init(|| Handle(self))));
                self.spent.fetch_add(evaluation.cost, Ordering::Relaxed);
                let failed =
                    |error| Error::new(format!("composited variable \"{name}\" fails to evaluate: {error}"));
                evaluation.result.map_err(failed)
            }
        };
        cell.value.get_or_init(|| value).clone()
    }
}

impl cel::Activation for Handle<'_> {
    fn is_interrupted(&self) -> bool {
        self.0.inputs.is_interrupted()
    }
    fn variable<'a>(&'a self, name: &str) -> Option<Result<Val<'a>, Error>> {
        let inputs = &self.0.inputs;
        let tree = |value: Option<&'a object::Value>| value.map_or(Val::Null, Val::dynamic);
        let authorizer = || inputs.authorizer.filter(|_| self.0.has_authorizer);
        Some(Ok(match name {
            "object" => tree(inputs.object),
            "oldObject" => tree(inputs.old_object),
            "params" => tree(inputs.params),
            "request" => Val::dynamic(inputs.request.value()),
            "namespaceObject" => tree(inputs.namespace_object.map(|namespace| namespace.value())),
            "variables" => Val::Map(Map::Custom(self)),
            "authorizer" => authz::authorizer(authorizer()?.authorizer()),
            "authorizer.requestResource" => {
                let asked = authorizer()?;
                authz::request_resource(asked.authorizer(), asked.request_resource())
            }
            _ => return None,
        }))
    }
}

impl Mapper for Handle<'_> {
    fn find<'a>(&'a self, key: &Val<'_>) -> Option<Result<Val<'a>, Error>> {
        let Some(key) = key.as_str() else { return Some(Err(Error::no_such_overload())) };
        let name = escape::unescape(key)?;
        let variables = self.0.variables?;
        let at = *variables.by_name.get(&*name)?;
        Some(self.0.variable_at(at, &name, &variables.list[at].1))
    }
    fn keys<'a>(&'a self) -> Vec<Val<'a>> {
        let names = self.0.variables.iter().flat_map(|variables| &variables.list);
        names.map(|(name, _)| Val::from(&**name)).collect()
    }
    fn len(&self) -> usize {
        self.0.cells.len()
    }
}

impl fmt::Debug for Handle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("variables")
    }
}
