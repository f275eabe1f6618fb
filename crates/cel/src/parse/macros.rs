//! Macros: calls that stand for other expressions.

use std::sync::Arc;

use super::Parser;
use crate::ast::{Call, Comprehension, Element, Entry, Expr, Field, Id, Kind, Location, Select, Struct};
use crate::value::Val;

/// The accumulator of loops: no name a user could write.
pub(crate) const ACCUMULATOR: &str = "@result";
/// What it was called once: still refused as the name of a variable.
const OLD_ACCUMULATOR: &str = "__result__";
/// The loop variable of a loop that never runs.
const UNUSED: &str = "#unused";

/// Which element decides.
#[derive(Clone, Copy)]
enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

/// A call that looks like a macro, with arguments it cannot have.
struct Misused {
    at: Id,
    message: String,
}

type Expansion = Result<Expr, Misused>;

impl Parser<'_> {
    pub(super) fn global_call(&mut self, id: Id, function: &str, mut args: Vec<Expr>) -> Expr {
        if function == "has" && args.len() == 1 {
            let arg = args.remove(0);
            let expansion = Expander { parser: self, id }.has(arg);
            return self.expanded(id, expansion);
        }
        self.call(id, function, None, args)
    }

    pub(super) fn receiver_call(&mut self, id: Id, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        let is_bind = function == "bind" && args.len() == 3 && self.syntax.bindings && is_namespace(&target);
        let expand: Option<Receiver> = match is_bind {
            true => Some(|e, _, args| e.bind(args)),
            false => self.find_macro(function, args.len()),
        };
        let Some(expand) = expand else {
            return self.call(id, function, Some(target), args);
        };
        let expansion = expand(&mut Expander { parser: self, id }, target, args);
        self.expanded(id, expansion)
    }

    pub(super) fn call(&mut self, id: Id, function: &str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        Expr::new(id, Kind::Call(Box::new(Call { function: Arc::from(function), target, args })))
    }

    fn expanded(&mut self, id: Id, expansion: Expansion) -> Expr {
        match expansion {
            Ok(expr) => {
                self.forget(id);
                expr
            }
            Err(misused) => {
                let offset = self.offset(misused.at);
                self.forget(id);
                if misused.at == 0 {
                    // What could not be read is nowhere.
                    self.found.push((Location::UNREAD, misused.message));
                    return Expr::new(0, Kind::Unspecified);
                }
                self.error(offset, misused.message)
            }
        }
    }

    fn find_macro(&self, function: &str, args: usize) -> Option<Receiver> {
        let two = self.syntax.two_variables;
        Some(match (function, args) {
            ("all", 2) => |e, target, args| e.quantify(Quantifier::All, target, args),
            ("exists", 2) => |e, target, args| e.quantify(Quantifier::Exists, target, args),
            ("exists_one", 2) => |e, target, args| e.quantify(Quantifier::ExistsOne, target, args),
            ("map", 2 | 3) => |e, target, args| e.map(target, args),
            ("filter", 2) => |e, target, args| e.filter(target, args),
            ("optMap", 2) if self.syntax.optional => |e, target, args| e.optional_map(target, args, true),
            ("optFlatMap", 2) if self.syntax.optional => {
                |e, target, args| e.optional_map(target, args, false)
            }
            ("all", 3) if two => |e, target, args| e.quantify_two(Quantifier::All, target, args),
            ("exists", 3) if two => |e, target, args| e.quantify_two(Quantifier::Exists, target, args),
            ("existsOne" | "exists_one", 3) if two => {
                |e, target, args| e.quantify_two(Quantifier::ExistsOne, target, args)
            }
            ("sortBy", 2) if self.syntax.sort_by => |e, target, args| e.sort_by(target, args),
            ("transformList", 3 | 4) if two => |e, target, args| e.transform_list(target, args),
            ("transformMap", 3 | 4) if two => |e, target, args| e.transform_map(target, args),
            ("transformMapEntry", 3 | 4) if two => |e, target, args| e.transform_map_entry(target, args),
            _ => return None,
        })
    }
}

/// What macros that are no methods are called on.
fn is_namespace(target: &Expr) -> bool {
    matches!(&target.kind, Kind::Ident(name) if &**name == "cel")
}

type Receiver = fn(&mut Expander<'_, '_>, Expr, Vec<Expr>) -> Expansion;

/// Builds expressions in place of the call `id`. Nodes are numbered in upstream's order: operands before what is made of them.
struct Expander<'p, 's> {
    parser: &'p mut Parser<'s>,
    id: Id,
}

/// The parts of a loop besides its range and variables.
struct Loop {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

impl Expander<'_, '_> {
    fn node(&mut self, kind: Kind) -> Expr {
        let offset = self.parser.offset(self.id);
        Expr::new(self.parser.id(offset), kind)
    }
    fn literal(&mut self, value: Val<'static>) -> Expr {
        self.node(Kind::Literal(value))
    }
    fn accumulator(&mut self) -> Expr {
        self.node(Kind::Ident(ACCUMULATOR.into()))
    }
    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.node(Kind::Call(Box::new(Call { function: Arc::from(function), target: None, args })))
    }
    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        self.node(Kind::List(elements.into_iter().map(|value| Element { value, optional: false }).collect()))
    }

    fn has(&mut self, arg: Expr) -> Expansion {
        match arg.kind {
            Kind::Select(select) if !select.test => {
                Ok(self.node(Kind::Select(Box::new(Select { test: true, ..*select }))))
            }
            Kind::Select(select) => Ok(self.node(Kind::Select(select))),
            _ => Err(Misused { at: arg.id, message: String::from("invalid argument to has() macro") }),
        }
    }

    /// The name of a loop variable.
    fn variable(&mut self, arg: &Expr, message: &str) -> Result<Arc<str>, Misused> {
        let Kind::Ident(name) = &arg.kind else {
            return Err(Misused { at: arg.id, message: message.to_owned() });
        };
        if matches!(&**name, ACCUMULATOR | OLD_ACCUMULATOR) {
            let message = String::from("iteration variable overwrites accumulator variable");
            return Err(Misused { at: arg.id, message });
        }
        Ok(Arc::clone(name))
    }

    fn two_variables(&mut self, args: &[Expr]) -> Result<(Arc<str>, Arc<str>), Misused> {
        let mut names = Vec::new();
        for arg in &args[..2] {
            let Kind::Ident(name) = &arg.kind else {
                return Err(Misused { at: arg.id, message: String::from("argument must be a simple name") });
            };
            names.push(Arc::clone(name));
        }
        if names[0] == names[1] {
            return Err(Misused {
                at: args[1].id,
                message: format!("duplicate variable name: {}", names[0]),
            });
        }
        for arg in &args[..2] {
            self.variable(arg, "")?;
        }
        Ok((names.remove(0), names.remove(0)))
    }

    fn comprehension(&mut self, range: Expr, variable: Arc<str>, second: Option<Arc<str>>, l: Loop) -> Expr {
        self.comprehension_into(ACCUMULATOR.into(), range, variable, second, l)
    }
    fn comprehension_into(
        &mut self,
        accumulator: Arc<str>,
        range: Expr,
        variable: Arc<str>,
        second: Option<Arc<str>>,
        Loop { init, condition, step, result }: Loop,
    ) -> Expr {
        let comprehension =
            Comprehension { range, variable, second, accumulator, init, condition, step, result };
        self.node(Kind::Comprehension(Box::new(comprehension)))
    }

    fn quantify(&mut self, quantifier: Quantifier, target: Expr, args: Vec<Expr>) -> Expansion {
        let variable = self.variable(&args[0], "argument must be a simple name")?;
        let predicate = last(args);
        let parts = self.quantifier(quantifier, predicate);
        Ok(self.comprehension(target, variable, None, parts))
    }
    fn quantify_two(&mut self, quantifier: Quantifier, target: Expr, args: Vec<Expr>) -> Expansion {
        let (key, value) = self.two_variables(&args)?;
        let predicate = last(args);
        let parts = self.quantifier(quantifier, predicate);
        Ok(self.comprehension(target, key, Some(value), parts))
    }

    fn quantifier(&mut self, quantifier: Quantifier, predicate: Expr) -> Loop {
        match quantifier {
            Quantifier::All => {
                let init = self.literal(Val::Bool(true));
                let accumulator = self.accumulator();
                let condition = self.call("@not_strictly_false", vec![accumulator]);
                let accumulator = self.accumulator();
                let step = self.call("_&&_", vec![accumulator, predicate]);
                Loop { init, condition, step, result: self.accumulator() }
            }
            Quantifier::Exists => {
                let init = self.literal(Val::Bool(false));
                let accumulator = self.accumulator();
                let not = self.call("!_", vec![accumulator]);
                let condition = self.call("@not_strictly_false", vec![not]);
                let accumulator = self.accumulator();
                let step = self.call("_||_", vec![accumulator, predicate]);
                Loop { init, condition, step, result: self.accumulator() }
            }
            Quantifier::ExistsOne => {
                let init = self.literal(Val::Int(0));
                let condition = self.literal(Val::Bool(true));
                let accumulator = self.accumulator();
                let one = self.literal(Val::Int(1));
                let sum = self.call("_+_", vec![accumulator, one]);
                let accumulator = self.accumulator();
                let step = self.call("_?_:_", vec![predicate, sum, accumulator]);
                let accumulator = self.accumulator();
                let one = self.literal(Val::Int(1));
                Loop { init, condition, step, result: self.call("_==_", vec![accumulator, one]) }
            }
        }
    }

    fn map(&mut self, target: Expr, mut args: Vec<Expr>) -> Expansion {
        let variable = self.variable(&args[0], "argument is not an identifier")?;
        let transform = args.pop().unwrap_or(Expr::new(0, Kind::Unspecified));
        let filter = (args.len() == 2).then(|| last(args));
        let parts = self.collect(transform, filter);
        Ok(self.comprehension(target, variable, None, parts))
    }

    /// Appends to a list what passes the filter.
    fn collect(&mut self, element: Expr, filter: Option<Expr>) -> Loop {
        let init = self.list(Vec::new());
        let condition = self.literal(Val::Bool(true));
        let accumulator = self.accumulator();
        let list = self.list(vec![element]);
        let step = self.call("_+_", vec![accumulator, list]);
        let step = self.filtered(filter, step);
        Loop { init, condition, step, result: self.accumulator() }
    }
    fn filtered(&mut self, filter: Option<Expr>, step: Expr) -> Expr {
        match filter {
            Some(filter) => {
                let accumulator = self.accumulator();
                self.call("_?_:_", vec![filter, step, accumulator])
            }
            None => step,
        }
    }

    fn filter(&mut self, target: Expr, mut args: Vec<Expr>) -> Expansion {
        let variable = self.variable(&args[0], "argument is not an identifier")?;
        let filter = args.pop();
        let parts = self.collect(last(args), filter);
        Ok(self.comprehension(target, variable, None, parts))
    }

    fn transform_list(&mut self, target: Expr, mut args: Vec<Expr>) -> Expansion {
        let (key, value) = self.two_variables(&args)?;
        let transform = args.pop().unwrap_or(Expr::new(0, Kind::Unspecified));
        let filter = (args.len() == 3).then(|| last(args));
        // Here upstream makes the step before the start.
        let accumulator = self.accumulator();
        let list = self.list(vec![transform]);
        let step = self.call("_+_", vec![accumulator, list]);
        let step = self.filtered(filter, step);
        let init = self.list(Vec::new());
        Ok(self.transformed(target, key, value, init, step))
    }
    fn transform_map(&mut self, target: Expr, mut args: Vec<Expr>) -> Expansion {
        let (key, value) = self.two_variables(&args)?;
        let transform = args.pop().unwrap_or(Expr::new(0, Kind::Unspecified));
        let filter = (args.len() == 3).then(|| last(args));
        let accumulator = self.accumulator();
        let name = self.node(Kind::Ident(Arc::clone(&key)));
        let step = self.call("cel.@mapInsert", vec![accumulator, name, transform]);
        let step = self.filtered(filter, step);
        let init = self.node(Kind::Map(Vec::new()));
        Ok(self.transformed(target, key, value, init, step))
    }
    fn transform_map_entry(&mut self, target: Expr, mut args: Vec<Expr>) -> Expansion {
        let (key, value) = self.two_variables(&args)?;
        let transform = args.pop().unwrap_or(Expr::new(0, Kind::Unspecified));
        let filter = (args.len() == 3).then(|| last(args));
        let accumulator = self.accumulator();
        let step = self.call("cel.@mapInsert", vec![accumulator, transform]);
        let step = self.filtered(filter, step);
        let init = self.node(Kind::Map(Vec::new()));
        Ok(self.transformed(target, key, value, init, step))
    }
    fn transformed(&mut self, range: Expr, key: Arc<str>, value: Arc<str>, init: Expr, step: Expr) -> Expr {
        let condition = self.literal(Val::Bool(true));
        let result = self.accumulator();
        self.comprehension(range, key, Some(value), Loop { init, condition, step, result })
    }

    /// `list.sortBy(x, key)`: the list, bound to a name of its own, by the list of its keys.
    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Expansion {
        let input: Arc<str> = "@__sortBy_input__".into();
        let step = self.node(Kind::Ident(Arc::clone(&input)));
        let sortable = matches!(
            target.kind,
            Kind::List(_) | Kind::Select(_) | Kind::Ident(_) | Kind::Comprehension(_) | Kind::Call(_)
        );
        if !sortable {
            let message =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err(Misused { at: target.id, message: message.to_owned() });
        }
        let copy = self.copy(&step);
        let keys = self.map(copy, args)?;
        let copy = self.copy(&step);
        let call = Call { function: "@sortByAssociatedKeys".into(), target: Some(copy), args: vec![keys] };
        let result = self.node(Kind::Call(Box::new(call)));
        let range = self.list(Vec::new());
        let condition = self.literal(Val::Bool(false));
        let parts = Loop { init: target, condition, step, result };
        Ok(self.comprehension_into(input, range, UNUSED.into(), None, parts))
    }

    /// `cel.bind(v, x, f)`: the value bound to `v` by a loop that never runs.
    fn bind(&mut self, mut args: Vec<Expr>) -> Expansion {
        let Kind::Ident(name) = &args[0].kind else {
            let message = String::from("cel.bind() variable names must be simple identifiers");
            return Err(Misused { at: args[0].id, message });
        };
        let name = Arc::clone(name);
        let result = args.pop().unwrap_or(Expr::new(0, Kind::Unspecified));
        let init = args.pop().unwrap_or(Expr::new(0, Kind::Unspecified));
        let range = self.list(Vec::new());
        let condition = self.literal(Val::Bool(false));
        let step = self.node(Kind::Ident(Arc::clone(&name)));
        let parts = Loop { init, condition, step, result };
        Ok(self.comprehension_into(name, range, UNUSED.into(), None, parts))
    }

    /// `x.optMap(v, f)`: the value bound to `v` by a loop that never runs.
    fn optional_map(&mut self, target: Expr, mut args: Vec<Expr>, wrapped: bool) -> Expansion {
        let Kind::Ident(name) = &args[0].kind else {
            let name = if wrapped { "optMap" } else { "optFlatMap" };
            let message = format!("{name}() variable name must be a simple identifier");
            return Err(Misused { at: args[0].id, message });
        };
        let name = Arc::clone(name);
        let result = args.pop().unwrap_or(Expr::new(0, Kind::Unspecified));
        let copied = self.copy(&target);
        let has_value = self.member_call("hasValue", target);
        let range = self.list(Vec::new());
        let init = self.member_call("value", copied);
        let condition = self.literal(Val::Bool(false));
        let step = self.node(Kind::Ident(Arc::clone(&name)));
        let parts = Loop { init, condition, step, result };
        let mut mapped = self.comprehension_into(name, range, UNUSED.into(), None, parts);
        if wrapped {
            mapped = self.call("optional.of", vec![mapped]);
        }
        let none = self.call("optional.none", Vec::new());
        Ok(self.call("_?_:_", vec![has_value, mapped, none]))
    }
    fn member_call(&mut self, function: &str, target: Expr) -> Expr {
        let call = Call { function: Arc::from(function), target: Some(target), args: Vec::new() };
        self.node(Kind::Call(Box::new(call)))
    }

    /// The same expression with numbers of its own, at the same places.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let offset = self.parser.offset(expr.id);
        let id = self.parser.id(offset);
        let kind = match &expr.kind {
            Kind::Unspecified => Kind::Unspecified,
            Kind::Literal(value) => Kind::Literal(value.clone()),
            Kind::Ident(name) => Kind::Ident(Arc::clone(name)),
            Kind::Select(select) => {
                Kind::Select(Box::new(Select { operand: self.copy(&select.operand), ..(**select).clone() }))
            }
            Kind::Call(call) => {
                let args = call.args.iter().map(|arg| self.copy(arg)).collect();
                let target = call.target.as_ref().map(|target| self.copy(target));
                Kind::Call(Box::new(Call { function: Arc::clone(&call.function), target, args }))
            }
            Kind::List(elements) => Kind::List(
                elements
                    .iter()
                    .map(|element| Element { value: self.copy(&element.value), optional: element.optional })
                    .collect(),
            ),
            Kind::Map(entries) => Kind::Map(
                entries
                    .iter()
                    .map(|entry| {
                        self.node(Kind::Unspecified);
                        let key = self.copy(&entry.key);
                        Entry { key, value: self.copy(&entry.value), optional: entry.optional }
                    })
                    .collect(),
            ),
            Kind::Struct(object) => {
                let fields = object
                    .fields
                    .iter()
                    .map(|field| {
                        let id = self.node(Kind::Unspecified).id;
                        Field { id, value: self.copy(&field.value), ..field.clone() }
                    })
                    .collect();
                Kind::Struct(Box::new(Struct { name: Arc::clone(&object.name), fields }))
            }
            Kind::Comprehension(c) => Kind::Comprehension(Box::new(Comprehension {
                range: self.copy(&c.range),
                init: self.copy(&c.init),
                condition: self.copy(&c.condition),
                step: self.copy(&c.step),
                result: self.copy(&c.result),
                variable: Arc::clone(&c.variable),
                second: c.second.clone(),
                accumulator: Arc::clone(&c.accumulator),
            })),
        };
        Expr::new(id, kind)
    }
}

fn last(mut args: Vec<Expr>) -> Expr {
    args.pop().unwrap_or(Expr::new(0, Kind::Unspecified))
}
