//! Evaluation, counting what it costs.

use std::collections::HashMap;

use super::Activation;
use super::node::{Construct, Node, SetKey};
use crate::cost::{CREATE_LIST, CREATE_MAP, CREATE_OBJECT};
use crate::error::Error;
use crate::messages;
use crate::ops;
use crate::value::{Map, OwnedMap, Val, member, member_name, unhashable};

/// After so many turns of loops it is asked whether evaluation is to end, as upstream.
const TURNS_AT_ONCE: u32 = 100;

pub(super) type Answer<'a> = Result<Val<'a>, Error>;

/// One evaluation under way.
pub(super) struct Frame<'a> {
    pub(super) variables: &'a dyn Activation,
    pub(super) slots: Vec<Slot<'a>>,
    cost: u64,
    limit: u64,
    /// Turns of loops so far.
    turns: u32,
    /// Members of large maps of the object, by the map's address: loops look keys up in the same map again and again.
    indexes: HashMap<usize, HashMap<&'a str, &'a object::Value>>,
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
        Frame { variables, slots, cost: 0, limit, turns: 0, indexes: HashMap::new() }
    }
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }
    pub(super) fn charge(&mut self, cost: u64) -> Result<(), Error> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Error::cost_limit_exceeded()) } else { Ok(()) }
    }
    /// A turn of a loop begins, if anybody still waits for the answer.
    pub(super) fn turn(&mut self) -> Result<(), Error> {
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(TURNS_AT_ONCE) && self.variables.is_interrupted() {
            return Err(Error::interrupted());
        }
        Ok(())
    }
    /// A member of a map by its own name, through an index if there are many.
    pub(super) fn raw_member(&mut self, map: &'a object::Map, name: &str) -> Option<&'a object::Value> {
        if map.len() <= ops::MANY {
            return map.get(name);
        }
        let index = self
            .indexes
            .entry(std::ptr::from_ref(map).addr())
            .or_insert_with(|| map.iter().map(|(name, value)| (name.as_str(), value)).collect());
        index.get(name).copied()
    }
    /// What `[]` and `.` select; `None` if there is no such key or element.
    pub(super) fn select(&mut self, operand: &Val<'a>, key: &Val<'_>) -> Option<Answer<'a>> {
        match operand {
            Val::Map(Map::View { map, schema }) => match member_name(*schema, key)? {
                Ok(name) => member(self.raw_member(map, &name)?, *schema, &name),
                Err(error) => Some(Err(error)),
            },
            other => ops::select(other, key),
        }
    }
    /// `in`.
    fn contains(&mut self, container: &Val<'a>, item: &Val<'_>) -> Result<bool, Error> {
        match container {
            Val::Map(Map::View { schema, .. }) => match self.select(container, item) {
                Some(Err(error)) if schema.is_some() => Err(error),
                found => Ok(found.is_some()),
            },
            other => ops::contains(other, item),
        }
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
            Node::In(parts) => {
                let (item, container, by_size) = &**parts;
                contained(item, container, *by_size, frame)
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
    let left = settled(sides[0].eval(frame))?;
    let right = settled(sides[1].eval(frame))?;
    let size = |side: &Answer<'_>| side.as_ref().map_or(1, Val::cost_size);
    let cost = match &left {
        Ok(Val::Opaque(_)) if wanted => 1,
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

fn contained<'a>(item: &'a Node, container: &'a Node, by_size: bool, frame: &mut Frame<'a>) -> Answer<'a> {
    let item = settled(item.eval(frame))?;
    let container = settled(container.eval(frame))?;
    let cost = match &container {
        Ok(container) if by_size => container.cost_size(),
        _ => 1,
    };
    let answer = item.and_then(|item| frame.contains(&container?, &item).map(Val::Bool));
    charged(frame, cost, answer)
}

/// Passes on what is fatal.
fn settled(answer: Answer<'_>) -> Result<Answer<'_>, Error> {
    match answer {
        Err(error) if error.is_fatal() => Err(error),
        other => Ok(other),
    }
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
        if messages::message_type(&self.name).is_some() {
            return messages::construct(&self.name, fields);
        }
        match &self.provider {
            Some(provider) => provider.construct(&self.name, fields),
            None => Err(Error::new(format!("unknown type '{}'", self.name))),
        }
    }
}
