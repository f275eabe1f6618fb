//! From a checked expression to a program: names resolved to slots, calls to bodies, constants folded, patterns compiled.

use std::collections::HashSet;
use std::sync::Arc;

use super::node::{
    Attribute, Body, Call, CallCost, Conditional, Construct, Fold, Key, Node, Qualifier, Root, SetKey,
};
use super::{Program, attribute};
use crate::ast::{self, Comprehension, Expr, Id, Kind};
use crate::check::Checked;
use crate::environment::Environment;
use crate::error::Error;
use crate::escape::unescape;
use crate::function::Function;
use crate::ops::convert;
use crate::types::Type;
use crate::value::Val;

type Planned = Result<Node, Error>;

/// Levels of nesting between two looks at the stack.
const LEVELS: usize = 16;

/// Folded where their argument is constant.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

pub(crate) fn plan(env: &Environment, checked: &Checked) -> Result<Program, Error> {
    let mut planner = Planner { env, checked, scopes: Vec::new(), slots: 0, depth: 0 };
    let root = planner.plan(&checked.ast.root)?;
    Ok(Program { root, slots: planner.slots })
}

struct Planner<'p> {
    env: &'p Environment,
    checked: &'p Checked,
    /// Local variables and their slots, the innermost last.
    scopes: Vec<(Arc<str>, usize)>,
    slots: usize,
    depth: usize,
}

impl Planner<'_> {
    fn plan(&mut self, expr: &Expr) -> Planned {
        self.depth += 1;
        let depth = self.depth;
        let node = object::deep(|| self.plan_kind(expr));
        self.depth -= 1;
        let node = node?;
        let wrap = depth.is_multiple_of(LEVELS) && !matches!(node, Node::Attribute(_) | Node::Const(_));
        Ok(if wrap { Node::Deep(Box::new(node)) } else { node })
    }

    fn plan_kind(&mut self, expr: &Expr) -> Planned {
        match &expr.kind {
            Kind::Unspecified => Err(Error::new("unsupported expr")),
            Kind::Literal(value) => Ok(Node::Const(value.clone())),
            Kind::Ident(name) => self.plan_ident(expr.id, name),
            Kind::Select(select) => {
                let operand = self.plan(&select.operand)?;
                let mut attribute = attribute_of(operand);
                let key = constant_key(Val::string(&*select.field))?;
                qualify(&mut attribute, &Qualifier { key, optional: false }, select.test);
                Ok(Node::Attribute(Box::new(attribute)))
            }
            Kind::Call(call) => self.plan_call(expr.id, call),
            Kind::List(elements) => {
                let planned = elements
                    .iter()
                    .map(|element| Ok((self.plan(&element.value)?, element.optional)))
                    .collect::<Result<Vec<_>, Error>>()?;
                let constant = planned.iter().all(|(node, _)| matches!(node, Node::Const(_)));
                Ok(folded(Node::List(planned), constant))
            }
            Kind::Map(entries) => {
                let planned = entries
                    .iter()
                    .map(|entry| Ok((self.plan(&entry.key)?, self.plan(&entry.value)?, entry.optional)))
                    .collect::<Result<Vec<_>, Error>>()?;
                let constant = planned
                    .iter()
                    .all(|(key, value, _)| matches!((key, value), (Node::Const(_), Node::Const(_))));
                Ok(folded(Node::Map(planned), constant))
            }
            Kind::Struct(object) => {
                let fields = object
                    .fields
                    .iter()
                    .map(|field| Ok((Arc::clone(&field.name), self.plan(&field.value)?, field.optional)))
                    .collect::<Result<Vec<_>, Error>>()?;
                let provider = self.env.provider().cloned();
                Ok(Node::Construct(Box::new(Construct { name: Arc::clone(&object.name), provider, fields })))
            }
            Kind::Comprehension(comprehension) => self.plan_fold(comprehension),
        }
    }

    fn plan_ident(&mut self, id: Id, name: &Arc<str>) -> Planned {
        if matches!(self.checked.type_of(id), Type::Type(_)) {
            // Upstream takes whatever has a type for a value to be the name of one.
            return match self.env.type_value(name) {
                Some(ty) => Ok(Node::Const(Val::Type(ty))),
                None => Err(Error::new(format!("reference to undefined type: {name}"))),
            };
        }
        let root = match self.scopes.iter().rev().find(|(own, _)| own == name) {
            Some((_, slot)) => Root::Slot(*slot),
            None => Root::Variable(Arc::clone(name)),
        };
        Ok(Node::Attribute(Box::new(Attribute { root, qualifiers: Vec::new(), test: false })))
    }

    fn plan_call(&mut self, id: Id, call: &ast::Call) -> Planned {
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for arg in call.target.iter().chain(&call.args) {
            args.push(self.plan(arg)?);
        }
        let overloads = self.checked.overloads(id);
        let overload: &'static str = if let [only] = overloads { only } else { "" };
        match &*call.function {
            "_&&_" => return pair(args).map(Node::And),
            "_||_" => return pair(args).map(Node::Or),
            "_==_" => return pair(args).map(Node::Equal),
            "_!=_" => return pair(args).map(Node::NotEqual),
            "_?_:_" => return conditional(args),
            "_[_]" => return index(args, false),
            "_[?_]" | "_?._" => return index(args, true),
            "or" if args.len() == 2 && matches!(overload, "" | "optional_or_optional") => {
                return pair(args).map(Node::OptionalOr);
            }
            "orValue" if args.len() == 2 && matches!(overload, "" | "optional_orValue_value") => {
                return pair(args).map(Node::OptionalOrValue);
            }
            "@in" => {
                let by_size = overload == "in_list";
                if by_size && let Some(node) = in_set(&mut args) {
                    return Ok(node);
                }
                let [item, container] = *pair(args)?;
                return Ok(Node::In(Box::new((item, container, by_size))));
            }
            _ => {}
        }
        let function = self.env.function(&call.function);
        let constant = matches!(&args[..], [Node::Const(_)]);
        if constant
            && CONVERSIONS.contains(&&*call.function)
            && let [Node::Const(value)] = &args[..]
        {
            let body = body(function, overload);
            return body
                .run(&call.function, std::slice::from_ref(value))
                .map(|value| Node::Const(own(value)));
        }
        let mut body = body(function, overload);
        if let Some(pattern) = function.and_then(|function| function.pattern)
            && let Some(Node::Const(Val::Str(text))) = args.get(pattern.index)
        {
            body = Body::Compiled((pattern.compile)(text)?);
        }
        Ok(Node::Call(Box::new(Call {
            function: Arc::clone(&call.function),
            overload,
            sequential: matches!(body, Body::Dispatch(_) | Body::Compiled(_)),
            lenient: &*call.function == "@not_strictly_false",
            cost: call_cost(function, overload),
            body,
            args,
        })))
    }

    fn plan_fold(&mut self, c: &Comprehension) -> Planned {
        let init = self.plan(&c.init)?;
        let range = self.plan(&c.range)?;
        let outer = self.scopes.len();
        let accumulator = self.declare(&c.accumulator);
        let inner = self.scopes.len();
        let variable = self.declare(&c.variable);
        let second = c.second.as_ref().map(|name| self.declare(name));
        let condition = self.plan(&c.condition)?;
        let step = self.plan_step(&c.step, &c.accumulator, accumulator)?;
        self.scopes.truncate(inner);
        let result = self.plan(&c.result)?;
        self.scopes.truncate(outer);
        let fold = Fold { range, variable, second, accumulator, init, condition, step, result };
        Ok(Node::Fold(Box::new(fold)))
    }

    fn declare(&mut self, name: &Arc<str>) -> usize {
        let slot = self.scopes.len();
        self.scopes.push((Arc::clone(name), slot));
        self.slots = self.slots.max(slot + 1);
        slot
    }

    /// A step, appending in place where it only appends.
    fn plan_step(&mut self, step: &Expr, accumulator: &str, slot: usize) -> Planned {
        let is_accumulator = |expr: &Expr| matches!(&expr.kind, Kind::Ident(name) if **name == *accumulator);
        if let Kind::Call(call) = &step.kind
            && accumulator.starts_with('@')
        {
            match (&*call.function, &call.args[..]) {
                ("_+_", [left, right]) if is_accumulator(left) && matches!(right.kind, Kind::List(_)) => {
                    return Ok(Node::Append(Box::new((slot, self.plan(right)?))));
                }
                ("_?_:_", [filter, yes, no]) if is_accumulator(no) => {
                    let filter = self.plan(filter)?;
                    let yes = self.plan_step(yes, accumulator, slot)?;
                    return conditional(vec![filter, yes, self.plan(no)?]);
                }
                _ => {}
            }
        }
        self.plan(step)
    }
}

/// A constant without what it was borrowed from.
fn own(value: Val<'_>) -> Val<'static> {
    match value {
        Val::Null | Val::Preserved(_) => Val::Null,
        Val::Bool(b) => Val::Bool(b),
        Val::Int(i) => Val::Int(i),
        Val::Uint(u) => Val::Uint(u),
        Val::Double(d) => Val::Double(d),
        Val::Str(text) => Val::string(&*text),
        Val::Bytes(bytes) => Val::Bytes(bytes),
        Val::Duration(nanos) => Val::Duration(nanos),
        Val::Timestamp(time) => Val::Timestamp(time),
        Val::Type(ty) => Val::Type(ty),
        Val::Opaque(value) => Val::Opaque(value),
        // The text of the expression is not there any more. Nothing that is constructed is folded.
        Val::Object(_) => Val::Null,
        Val::Optional(value) => Val::Optional(value.map(|value| Arc::new(own((*value).clone())))),
        Val::List(list) => Val::list(list.iter().flatten().map(own).collect()),
        Val::Map(map) => map
            .entries()
            .into_iter()
            .filter_map(|(key, value)| Some((own(key), own(value.ok()?))))
            .collect::<crate::value::OwnedMap<'static>>()
            .into(),
    }
}

/// A list or map of constants is one itself.
fn folded(node: Node, constant: bool) -> Node {
    if !constant {
        return node;
    }
    let mut frame = super::eval::Frame::new(&(), 0, u64::MAX);
    match node.eval(&mut frame).map(own) {
        Ok(value) => Node::Const(value),
        Err(error) => Node::Fail(error),
    }
}

fn pair(args: Vec<Node>) -> Result<Box<[Node; 2]>, Error> {
    <[Node; 2]>::try_from(args).map(Box::new).map_err(|_| Error::no_such_overload())
}

fn attribute_of(node: Node) -> Attribute {
    match node {
        Node::Attribute(attribute) => *attribute,
        other => Attribute { root: Root::Operand(other), qualifiers: Vec::new(), test: false },
    }
}

fn conditional(args: Vec<Node>) -> Planned {
    let [condition, yes, no] = <[Node; 3]>::try_from(args).map_err(|_| Error::no_such_overload())?;
    let branches = Conditional { condition, yes: attribute_of(yes), no: attribute_of(no) };
    let root = Root::Conditional(Box::new(branches));
    Ok(Node::Attribute(Box::new(Attribute { root, qualifiers: Vec::new(), test: false })))
}

fn index(args: Vec<Node>, optional: bool) -> Planned {
    let [operand, index] = *pair(args)?;
    let mut attribute = attribute_of(operand);
    let key = match index {
        Node::Const(value) => constant_key(value)?,
        index => Key::Attribute(Arc::new(attribute_of(index))),
    };
    qualify(&mut attribute, &Qualifier { key, optional }, false);
    Ok(Node::Attribute(Box::new(attribute)))
}

fn constant_key(key: Val<'static>) -> Result<Key, Error> {
    if let Some(kind) = attribute::not_a_key(&key) {
        return Err(Error::new(format!("invalid qualifier type: {kind}")));
    }
    let unescaped = key.as_str().and_then(unescape).map(Box::from);
    Ok(Key::Const { key, unescaped })
}

/// Adds a qualifier, to both branches of a `?:`.
fn qualify(attribute: &mut Attribute, qualifier: &Qualifier, test: bool) {
    if let Root::Conditional(branches) = &mut attribute.root {
        qualify(&mut branches.yes, qualifier, test);
        qualify(&mut branches.no, qualifier, test);
    } else {
        attribute.qualifiers.push(qualifier.clone());
    }
    attribute.test = test;
}

impl Clone for Qualifier {
    fn clone(&self) -> Self {
        let key = match &self.key {
            Key::Const { key, unescaped } => Key::Const { key: key.clone(), unescaped: unescaped.clone() },
            Key::Attribute(attribute) => Key::Attribute(Arc::clone(attribute)),
        };
        Qualifier { key, optional: self.optional }
    }
}

/// `x in [..]` as a look into a set, if the list is one of constants that have no parts.
fn in_set(args: &mut Vec<Node>) -> Option<Node> {
    let Some(Node::Const(Val::List(list))) = args.get(1) else { return None };
    if list.is_empty() {
        return Some(Node::Const(Val::Bool(false)));
    }
    let mut set = HashSet::new();
    for element in list.iter() {
        let element = element.ok()?;
        match &element {
            Val::Bool(_) | Val::Str(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) => {}
            _ => return None,
        }
        set.extend(SetKey::of(&element));
        // Numbers of other types find the same element.
        if let Val::Int(_) | Val::Uint(_) | Val::Double(_) = element {
            for ty in [Type::Int, Type::Uint, Type::Double] {
                let other = convert(&element, &ty).ok();
                let exact = |other: &Val<'_>| {
                    !matches!(element, Val::Double(_))
                        || matches!(crate::ops::equal(other, &element), Ok(true))
                };
                set.extend(other.filter(exact).as_ref().and_then(SetKey::of));
            }
        }
    }
    let item = args.swap_remove(0);
    Some(Node::InSet(Box::new((item, set))))
}

fn body(function: Option<&Function>, overload: &str) -> Body {
    let Some(function) = function else { return Body::Missing };
    if let Some(native) = function.singleton {
        return Body::Free(native);
    }
    let guarded = |overload: &crate::function::Overload, native| {
        if function.guarded { Body::Guarded(overload.parameters.clone(), native) } else { Body::Free(native) }
    };
    let own = function.overloads.iter().find(|own| own.id == overload);
    if let Some(own) = own
        && let Some(native) = own.call
    {
        return guarded(own, native);
    }
    let mut callable = function.overloads.iter().filter_map(|own| Some((own, own.call?)));
    match (callable.next(), callable.next()) {
        (None, _) => Body::Missing,
        (Some((own, native)), None) => guarded(own, native),
        _ => Body::Dispatch(
            function
                .overloads
                .iter()
                .filter_map(|own| Some((own.parameters.clone(), function.guarded, own.call?)))
                .collect(),
        ),
    }
}

fn call_cost(function: Option<&Function>, overload: &str) -> CallCost {
    static ONE: CallCost = CallCost::One;
    static TRAVERSE: CallCost = CallCost::Traverse;
    static SHORTER: CallCost = CallCost::Shorter;
    static BOTH: CallCost = CallCost::Both;
    static REGEX: CallCost = CallCost::Regex;
    static CONTAINS: CallCost = CallCost::Contains;
    let default = match overload {
        "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
        | "strings_quote" | "string_format" => &TRAVERSE,
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes" => &SHORTER,
        "add_string" | "add_bytes" => &BOTH,
        "matches_string" => &REGEX,
        "contains_string" => &CONTAINS,
        _ => &ONE,
    };
    let Some(function) = function else { return *default };
    let own = function.overloads.iter().find(|own| own.id == overload).and_then(|own| own.cost);
    if own.is_none() && function.cost.is_none() {
        return *default;
    }
    CallCost::Custom(own, function.cost, default)
}
