//! Evaluation, counting what it costs.

use super::Activation;
use super::node::{Construct, Node, SetKey};
use crate::cost::{CREATE_LIST, CREATE_MAP, CREATE_OBJECT};
use crate::error::Error;
use crate::ops;
use crate::types::Type;
use crate::value::{OwnedMap, Val, unhashable};

pub(super) type Answer<'a> = Result<Val<'a>, Error>;

/// One evaluation under way.
pub(super) struct Frame<'a> {
    pub(super) variables: &'a dyn Activation,
    pub(super) slots: Vec<Slot<'a>>,
    cost: u64,
    limit: u64,
}

/// A local variable.
pub(super) enum Slot<'a> {
    /// Evaluated when first read.
    Pending(&'a Node),
    Ready(Answer<'a>),
}

impl<'a> Frame<'a> {
    pub(super) fn new(variables: &'a dyn Activation, slots: usize, limit: u64) -> Frame<'a> {
        let slots = (0..slots).map(|_| Slot::Ready(Ok(Val::Null))).collect();
        Frame { variables, slots, cost: 0, limit }
    }
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }
    pub(super) fn charge(&mut self, cost: u64) -> Result<(), Error> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Error::cost_limit_exceeded()) } else { Ok(()) }
    }
    /// A local variable's value.
    pub(super) fn slot(&mut self, slot: usize) -> Answer<'a> {
        if let Slot::Pending(init) = self.slots[slot] {
            let value = init.eval(self);
            self.slots[slot] = Slot::Ready(value);
        }
        match &self.slots[slot] {
            Slot::Ready(value) => value.clone(),
            Slot::Pending(_) => Err(Error::no_such_overload()),
        }
    }
}

impl Node {
    pub(super) fn eval<'a>(&'a self, frame: &mut Frame<'a>) -> Answer<'a> {
        match self {
            Node::Const(value) => Ok(value.reborrow()),
            Node::Fail(error) => Err(error.clone()),
            Node::Attribute(attribute) => attribute.eval(frame),
            Node::And(terms) => logic(terms, false, frame),
            Node::Or(terms) => logic(terms, true, frame),
            Node::Equal(sides) => equality(sides, true, frame),
            Node::NotEqual(sides) => equality(sides, false, frame),
            Node::Call(call) => call.eval(frame),
            Node::InSet(parts) => {
                let (item, set) = &**parts;
                match item.eval(frame)? {
                    Val::Bytes(_) => Err(unhashable()),
                    item => Ok(Val::Bool(SetKey::of(&item).is_some_and(|key| set.contains(&key)))),
                }
            }
            Node::List(elements) => {
                let list = list(elements, frame);
                charged(frame, CREATE_LIST, list)
            }
            Node::Map(entries) => {
                let map = map(entries, frame);
                charged(frame, CREATE_MAP, map)
            }
            Node::Construct(construct) => {
                let object = construct.eval(frame);
                charged(frame, CREATE_OBJECT, object)
            }
            Node::Fold(fold) => fold.eval(frame),
            Node::OptionalOr(sides) => match sides[0].eval(frame)? {
                Val::Optional(None) => sides[1].eval(frame),
                other => Ok(other),
            },
            Node::OptionalOrValue(sides) => match sides[0].eval(frame)? {
                Val::Optional(None) => sides[1].eval(frame),
                Val::Optional(Some(value)) => Ok((*value).clone()),
                other => Ok(other),
            },
            Node::Append(parts) => super::fold::append(parts.0, &parts.1, frame),
            Node::Deep(node) => object::deep(|| node.eval(frame)),
        }
    }
}

/// Adds a cost whatever the outcome, unless evaluation has ended already.
pub(super) fn charged<'a>(frame: &mut Frame<'a>, cost: u64, answer: Answer<'a>) -> Answer<'a> {
    match &answer {
        Err(error) if error.is_fatal() => answer,
        _ => {
            frame.charge(cost)?;
            answer
        }
    }
}

/// `&&` and `||`: one operand that decides hides errors of the other.
fn logic<'a>(terms: &'a [Node; 2], decisive: bool, frame: &mut Frame<'a>) -> Answer<'a> {
    let mut failure = None;
    for term in terms {
        match term.eval(frame) {
            Ok(Val::Bool(b)) if b == decisive => return Ok(Val::Bool(b)),
            Ok(Val::Bool(_)) => {}
            Ok(_) => failure = failure.or_else(|| Some(Error::no_such_overload())),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(Val::Bool(!decisive)), Err)
}

fn equality<'a>(sides: &'a [Node; 2], wanted: bool, frame: &mut Frame<'a>) -> Answer<'a> {
    let left = sides[0].eval(frame);
    if let Err(error) = &left
        && error.is_fatal()
    {
        return left;
    }
    let right = sides[1].eval(frame);
    if let Err(error) = &right
        && error.is_fatal()
    {
        return right;
    }
    let size = |side: &Answer<'_>| side.as_ref().map_or(1, Val::cost_size);
    let cost = match (&left, &right) {
        (Ok(Val::Str(_)), Ok(Val::Str(_))) => crate::cost::traversal(size(&left).min(size(&right))),
        (Ok(Val::Opaque(_)), _) if wanted => 1,
        _ => crate::cost::traversal(size(&left).min(size(&right))),
    };
    let answer = left.and_then(|left| {
        let right = right?;
        match ops::equal(&left, &right) {
            Ok(equal) => Ok(Val::Bool(equal == wanted)),
            // What cannot be compared is not equal, but neither known to differ.
            Err(error) if wanted => Err(error),
            Err(error) if error.is_fatal() => Err(error),
            Err(_) => Ok(Val::Bool(true)),
        }
    });
    charged(frame, cost, answer)
}

fn list<'a>(elements: &'a [(Node, bool)], frame: &mut Frame<'a>) -> Answer<'a> {
    let mut items = Vec::with_capacity(elements.len());
    for (element, optional) in elements {
        let value = element.eval(frame)?;
        match (optional, value) {
            (false, value) => items.push(value),
            (true, Val::Optional(None)) => {}
            (true, Val::Optional(Some(value))) => items.push((*value).clone()),
            (true, value) => {
                return Err(Error::new(format!(
                    "cannot initialize optional list element from non-optional value {value}"
                )));
            }
        }
    }
    Ok(Val::list(items))
}

fn map<'a>(entries: &'a [(Node, Node, bool)], frame: &mut Frame<'a>) -> Answer<'a> {
    let mut map = OwnedMap::default();
    for (key, value, optional) in entries {
        let key = key.eval(frame)?;
        let value = value.eval(frame)?;
        if let Val::Bytes(_) = key {
            return Err(unhashable());
        }
        match (optional, value) {
            (false, value) => map.insert(key, value),
            (true, Val::Optional(None)) => map.remove(&key),
            (true, Val::Optional(Some(value))) => map.insert(key, (*value).clone()),
            (true, value) => return Err(not_optional(&key, &value)),
        }
    }
    Ok(map.into())
}

fn not_optional(name: &dyn std::fmt::Display, value: &Val<'_>) -> Error {
    Error::new(format!("cannot initialize optional entry '{name}' from non-optional value {value}"))
}

impl Construct {
    fn eval<'a>(&'a self, frame: &mut Frame<'a>) -> Answer<'a> {
        let mut fields: Vec<(&'a str, Val<'a>)> = Vec::with_capacity(self.fields.len());
        for (name, value, optional) in &self.fields {
            let value = match (optional, value.eval(frame)?) {
                (false, value) => value,
                (true, Val::Optional(None)) => {
                    fields.retain(|(own, _)| **own != **name);
                    continue;
                }
                (true, Val::Optional(Some(value))) => (*value).clone(),
                (true, value) => return Err(not_optional(name, &value)),
            };
            fields.retain(|(own, _)| **own != **name);
            fields.push((name, value));
        }
        match (&self.wrapper, &self.provider) {
            (Some(ty), _) => Ok(fields.pop().map_or_else(|| zero(ty), |(_, value)| value)),
            (None, Some(provider)) => provider.construct(&self.name, fields),
            (None, None) => Err(Error::new(format!("unknown type '{}'", self.name))),
        }
    }
}

fn zero<'a>(ty: &Type) -> Val<'a> {
    match ty {
        Type::Bool => Val::Bool(false),
        Type::Int => Val::Int(0),
        Type::Uint => Val::Uint(0),
        Type::Double => Val::Double(0.0),
        Type::String => Val::Str(crate::value::Text::Borrowed("")),
        Type::Bytes => Val::bytes([]),
        _ => Val::Null,
    }
}
