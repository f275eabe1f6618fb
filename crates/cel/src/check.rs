//! Types: every node gets one, every call the signatures it may mean.

mod aggregate;
mod assign;
mod validate;

use std::sync::Arc;

use crate::ast::{Ast, Expr, Id, Kind, Location};
use crate::environment::Environment;
use crate::escape::RESERVED;
use crate::function::Function;
use crate::issue::Issues;
use crate::messages;
use crate::types::Type;
use crate::value::Val;
use assign::{Mapping, is_dyn};

/// A checked expression.
#[derive(Clone, Debug)]
pub struct Checked {
    pub(crate) ast: Ast,
    types: Vec<Type>,
    references: Vec<Option<Reference>>,
}

/// What a node refers to.
#[derive(Clone, Debug)]
pub(crate) enum Reference {
    /// A variable, or the name of a type.
    Name,
    /// The signatures a call may mean; several if only run time can tell.
    Overloads(Vec<&'static str>),
}

impl Checked {
    /// The type of the whole expression.
    pub fn output_type(&self) -> &Type {
        self.type_of(self.ast.root.id)
    }
    pub fn ast(&self) -> &Ast {
        &self.ast
    }
    pub(crate) fn type_of(&self, id: Id) -> &Type {
        self.types.get(id as usize).unwrap_or(&Type::Dyn)
    }
    pub(crate) fn reference(&self, id: Id) -> Option<&Reference> {
        self.references.get(id as usize)?.as_ref()
    }
    pub(crate) fn overloads(&self, id: Id) -> &[&'static str] {
        match self.reference(id) {
            Some(Reference::Overloads(ids)) => ids,
            _ => &[],
        }
    }
}

/// Checks an expression against an environment.
pub(crate) fn check(env: &Environment, mut ast: Ast) -> Result<Checked, Issues> {
    let nodes = ast.offsets.len();
    let mut root = std::mem::replace(&mut ast.root, Expr::new(0, Kind::Unspecified));
    let mut checker = Checker {
        env,
        ast: &ast,
        issues: Issues::new(Arc::clone(&ast.source)),
        mapping: Mapping::default(),
        types: vec![Type::Dyn; nodes],
        references: vec![None; nodes],
        scopes: Vec::new(),
        one_type_only: !env.cross_type(),
    };
    checker.check(&mut root);
    let Checker { issues, mapping, mut types, references, .. } = checker;
    if !issues.is_empty() {
        return Err(issues);
    }
    types.iter_mut().for_each(|ty| *ty = mapping.substitute(ty, true));
    ast.root = root;
    let checked = Checked { ast, types, references };
    validate::validate(env, &checked)?;
    Ok(checked)
}

struct Checker<'c> {
    env: &'c Environment,
    ast: &'c Ast,
    issues: Issues,
    mapping: Mapping,
    types: Vec<Type>,
    references: Vec<Option<Reference>>,
    /// Local variables, the innermost last.
    scopes: Vec<(Arc<str>, Type)>,
    /// Numbers are compared with their own kind. Upstream forgets this at the first comprehension.
    one_type_only: bool,
}

impl Checker<'_> {
    fn location(&self, id: Id) -> Location {
        self.ast.location(id).unwrap_or(Location::NONE)
    }
    fn report(&mut self, id: Id, message: String) {
        let location = self.location(id);
        self.issues.report(location, message);
    }
    fn set(&mut self, id: Id, ty: Type) {
        if let Some(slot) = self.types.get_mut(id as usize) {
            *slot = ty;
        }
    }
    fn refer(&mut self, id: Id, reference: Reference) {
        if let Some(slot) = self.references.get_mut(id as usize) {
            *slot = Some(reference);
        }
    }
    fn type_of(&self, expr: &Expr) -> Type {
        self.types.get(expr.id as usize).cloned().unwrap_or(Type::Error)
    }
    fn known(&self, ty: &Type) -> Type {
        self.mapping.substitute(ty, false)
    }
    fn mismatch(&mut self, id: Id, expected: &Type, actual: &Type) {
        let message =
            format!("expected type '{}' but found '{}'", expected.checked_name(), actual.checked_name());
        self.report(id, message);
    }
    fn undeclared(&mut self, id: Id, name: &str) {
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        self.set(id, Type::Error);
    }

    fn check(&mut self, expr: &mut Expr) {
        object::deep(|| match &mut expr.kind {
            Kind::Unspecified => self.set(expr.id, Type::Error),
            Kind::Literal(value) => {
                let ty = value.ty();
                self.set(expr.id, ty);
            }
            Kind::Ident(name) => {
                let name = Arc::clone(name);
                match self.lookup(&name) {
                    Some(ty) => self.become_ident(expr, &name, ty),
                    None => self.undeclared(expr.id, &name),
                }
            }
            Kind::Select(_) => self.check_select(expr),
            Kind::Call(_) => self.check_call(expr),
            Kind::List(elements) => Self::check_list(self, expr.id, elements),
            Kind::Map(entries) => Self::check_map(self, expr.id, entries),
            Kind::Struct(object) => Self::check_struct(self, expr.id, object),
            Kind::Comprehension(loops) => Self::check_comprehension(self, expr.id, loops),
        });
    }

    /// The type of a variable, or of the name of a type.
    fn lookup(&self, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, ty)) = self.scopes.iter().rev().find(|(own, _)| &**own == name) {
            return Some(ty.clone());
        }
        if let Some(ty) = self.env.variable(name) {
            return Some(ty.clone());
        }
        self.env.named_type(name).map(Type::type_of)
    }

    fn become_ident(&mut self, expr: &mut Expr, name: &str, ty: Type) {
        self.set(expr.id, ty);
        self.refer(expr.id, Reference::Name);
        expr.kind = Kind::Ident(Arc::from(name.strip_prefix('.').unwrap_or(name)));
    }

    fn check_select(&mut self, expr: &mut Expr) {
        if let Some(name) = expr.qualified_name()
            && let Some(ty) = self.lookup(&name)
        {
            self.become_ident(expr, &name, ty);
            return;
        }
        let Kind::Select(select) = &mut expr.kind else { return };
        let field = Arc::clone(&select.field);
        let test = select.test;
        let mut ty = self.select_field(expr.id, &mut select.operand, &field, false);
        if test {
            ty = Type::Bool;
        }
        let ty = self.known(&ty);
        self.set(expr.id, ty);
    }

    /// The type of a field of an operand, which is checked first.
    fn select_field(&mut self, id: Id, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.known(&self.type_of(operand));
        let (target, was_optional) = match operand.as_optional() {
            Some(inner) => (inner.clone(), true),
            None => (operand, false),
        };
        let result = match &target {
            Type::Map(entry) => entry[1].clone(),
            Type::Object(name) => self.field(id, name, field),
            Type::Var(_) | Type::Param(_) => {
                // Whatever it turns out to be has to have fields: `dyn`, so that nothing else is assumed.
                self.mapping.is_assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            other => {
                if !is_dyn(other) && *other != Type::Error {
                    let message = format!("type '{}' does not support field selection", other.checked_name());
                    self.report(id, message);
                }
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(result) } else { result }
    }

    fn field(&mut self, id: Id, object: &str, field: &str) -> Type {
        if messages::message_type(object).is_some() {
            return messages::field(object, field).unwrap_or_else(|| self.undefined(id, field));
        }
        let Some(provider) = self.env.provider().filter(|provider| provider.is_object(object)) else {
            self.report(id, format!("unexpected failed resolution of '{object}'"));
            return Type::Error;
        };
        let declared = provider.field(object, field).or_else(|| {
            let keyword = self.env.keyword_fields() && RESERVED.contains(&field);
            keyword.then(|| provider.field(object, &format!("__{field}__"))).flatten()
        });
        declared.unwrap_or_else(|| self.undefined(id, field))
    }
    fn undefined(&mut self, id: Id, field: &str) -> Type {
        self.report(id, format!("undefined field '{field}'"));
        Type::Error
    }

    fn check_call(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let Kind::Call(call) = &mut expr.kind else { return };
        if &*call.function == "_?._" {
            if let [operand, field] = &mut call.args[..]
                && let Kind::Literal(Val::Str(field)) = &field.kind
            {
                let field = field.to_string();
                let ty = self.select_field(id, operand, &field, true);
                let ty = self.known(&ty);
                self.set(id, ty);
                self.refer(id, Reference::Overloads(vec!["select_optional_field"]));
            }
            return;
        }
        call.args.iter_mut().for_each(|arg| self.check(arg));
        let env = self.env;
        let find = |name: &str| env.function(name.strip_prefix('.').unwrap_or(name));
        if let Some(target) = &call.target
            && let Some(prefix) = target.qualified_name()
            && let Some(function) = find(&format!("{prefix}.{}", call.function))
        {
            // A function whose name has dots, and no receiver after all.
            call.target = None;
            call.function = Arc::from(function.name);
            return self.resolve(id, function, None, &call.args);
        }
        if let Some(target) = &mut call.target {
            self.check(target);
        }
        match find(&call.function) {
            Some(function) => {
                if call.target.is_none() {
                    call.function = Arc::from(function.name);
                }
                self.resolve(id, function, call.target.as_ref(), &call.args);
            }
            None => {
                let name = Arc::clone(&call.function);
                self.undeclared(id, &name);
            }
        }
    }

    /// Finds the signatures that fit.
    fn resolve(&mut self, id: Id, function: &Function, target: Option<&Expr>, args: &[Expr]) {
        if matches!(function.name, "_&&_" | "_||_") {
            return self.resolve_logic(id, function, args);
        }
        let arg_types: Vec<Type> = target.into_iter().chain(args).map(|arg| self.type_of(arg)).collect();
        let mut result: Option<Type> = None;
        let mut ids = Vec::new();
        for overload in &function.overloads {
            if overload.member != target.is_some()
                || (self.one_type_only && compares_across_types(overload.id))
            {
                continue;
            }
            let mut fresh: Vec<(catalog::Name, Type)> = Vec::new();
            let mapping = &mut self.mapping;
            let mut instantiate = |ty: &Type| {
                ty.map_variables(&mut |ty| match ty {
                    Type::Param(name) => Some(match fresh.iter().find(|(own, _)| own == name) {
                        Some((_, var)) => var.clone(),
                        None => {
                            let var = mapping.fresh();
                            fresh.push((name.clone(), var.clone()));
                            var
                        }
                    }),
                    _ => None,
                })
            };
            let result_type = instantiate(&overload.result);
            let parameters: Vec<Type> = overload.parameters.iter().map(instantiate).collect();
            if !self.mapping.all_assignable(&arg_types, &parameters) {
                continue;
            }
            ids.push(overload.id);
            let own = self.known(&result_type);
            result = Some(match result {
                None => own,
                Some(earlier) if is_dyn(&earlier) || own == earlier => earlier,
                Some(_) => Type::Dyn,
            });
        }
        match result {
            Some(ty) => {
                self.set(id, ty);
                self.refer(id, Reference::Overloads(ids));
            }
            None => {
                let names: Vec<String> =
                    arg_types.iter().map(|ty| self.mapping.substitute(ty, true).checked_name()).collect();
                let signature = match (target, &names[..]) {
                    (Some(_), [receiver, args @ ..]) => format!("{receiver}.({})", args.join(", ")),
                    (_, args) => format!("({})", args.join(", ")),
                };
                let name = function.name;
                self.report(id, format!("found no matching overload for '{name}' applied to '{signature}'"));
                self.set(id, Type::Error);
            }
        }
    }

    fn resolve_logic(&mut self, id: Id, function: &Function, args: &[Expr]) {
        let mut ok = true;
        for arg in args {
            let ty = self.type_of(arg);
            if !self.mapping.is_assignable(&ty, &Type::Bool) {
                self.mismatch(arg.id, &Type::Bool, &ty);
                ok = false;
            }
        }
        let overload = function.overloads.first().map(|overload| overload.id);
        self.set(id, if ok { Type::Bool } else { Type::Error });
        if ok {
            self.refer(id, Reference::Overloads(overload.into_iter().collect()));
        }
    }
}

/// `less_int64_double` and its like.
fn compares_across_types(overload: &str) -> bool {
    let operands = ["less_equals_", "less_", "greater_equals_", "greater_"]
        .iter()
        .find_map(|prefix| overload.strip_prefix(prefix));
    operands.is_some_and(|operands| {
        matches!(
            operands.split_once('_'),
            Some(("int64" | "uint64" | "double", "int64" | "uint64" | "double"))
        )
    })
}
