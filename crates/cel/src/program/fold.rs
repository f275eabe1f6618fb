//! Loops.

use std::sync::Arc;

use super::eval::{Answer, Frame, Slot, charged};
use super::node::{Fold, Node};
use crate::cost::SELECT;
use crate::error::Error;
use crate::ops;
use crate::value::{List, Map, Val};

impl Fold {
    pub(super) fn eval<'a>(&'a self, frame: &mut Frame<'a>) -> Answer<'a> {
        let range = self.range.eval(frame)?;
        frame.slots[self.accumulator] = Slot::Pending(&self.init);
        match (range, self.second) {
            (Val::List(list), None) => {
                for item in list.iter() {
                    frame.slots[self.variable] = Slot::Ready(item);
                    if self.turn(frame)? {
                        break;
                    }
                }
            }
            (Val::List(list), Some(second)) => {
                for (index, item) in list.iter().enumerate() {
                    frame.slots[self.variable] = Slot::Ready(Ok(Val::Int(index as i64)));
                    frame.slots[second] = Slot::Ready(item);
                    if self.turn(frame)? {
                        break;
                    }
                }
            }
            (Val::Map(map), None) => {
                for key in map.keys() {
                    frame.slots[self.variable] = Slot::Ready(Ok(key));
                    if self.turn(frame)? {
                        break;
                    }
                }
            }
            (Val::Map(map), Some(second)) => {
                for (key, value) in map.entries() {
                    frame.slots[self.variable] = Slot::Ready(Ok(key));
                    frame.slots[second] = Slot::Ready(value);
                    if self.turn(frame)? {
                        break;
                    }
                }
            }
            (other, None) => {
                return Err(Error::new(format!("got '{}', expected iterable type", go_type(&other))));
            }
            (other, Some(_)) => {
                return Err(Error::new(format!("unsupported comprehension range type: {}", go_type(&other))));
            }
        }
        self.result.eval(frame)
    }

    /// One iteration; true if it was the last.
    fn turn<'a>(&'a self, frame: &mut Frame<'a>) -> Result<bool, Error> {
        frame.turn()?;
        match self.condition.eval(frame) {
            Ok(Val::Bool(false)) => return Ok(true),
            Err(error) if error.is_fatal() => return Err(error),
            _ => {}
        }
        let step = self.step.eval(frame);
        if let Err(error) = &step
            && error.is_fatal()
        {
            return Err(error.clone());
        }
        frame.slots[self.accumulator] = Slot::Ready(step);
        Ok(false)
    }
}

/// `accumulator + list`: what the accumulator holds is nobody else's, so that it grows in place.
pub(super) fn append<'a>(slot: usize, right: &'a Node, frame: &mut Frame<'a>) -> Answer<'a> {
    if let Slot::Pending(_) = &frame.slots[slot] {
        // The first time it is made.
        let _ = frame.slot(slot);
    }
    let left = std::mem::replace(&mut frame.slots[slot], Slot::Ready(Ok(Val::Null)));
    let left = match left {
        Slot::Ready(value) => value,
        Slot::Pending(_) => Err(Error::no_such_overload()),
    };
    if let Err(error) = &left
        && error.is_fatal()
    {
        return left;
    }
    frame.charge(SELECT)?;
    let right = right.eval(frame);
    if let Err(error) = &right
        && error.is_fatal()
    {
        return right;
    }
    let answer = left.and_then(|left| {
        let right = right?;
        match (left, right) {
            (Val::List(List::Owned(mut items)), Val::List(List::Owned(more))) if !items.is_empty() => {
                Arc::make_mut(&mut items).extend(more.iter().cloned());
                Ok(Val::List(List::Owned(items)))
            }
            (left, right) => ops::add(&left, &right),
        }
    });
    charged(frame, 1, answer)
}

/// What Go's `%T` calls a value.
pub(super) fn go_type(value: &Val<'_>) -> String {
    let name = match value {
        Val::Null => "types.Null",
        Val::Bool(_) => "types.Bool",
        Val::Int(_) => "types.Int",
        Val::Uint(_) => "types.Uint",
        Val::Double(_) => "types.Double",
        Val::Str(_) => "types.String",
        Val::Bytes(_) => "types.Bytes",
        Val::Duration(_) => "types.Duration",
        Val::Timestamp(_) => "types.Timestamp",
        Val::List(List::View { schema: None, .. }) => "[]interface {}",
        Val::Map(Map::View { schema: None, .. }) => "map[string]interface {}",
        Val::List(_) => "*types.baseList",
        Val::Map(_) => "*types.baseMap",
        Val::Type(_) => "*types.Type",
        Val::Optional(_) => "*types.Optional",
        Val::Opaque(value) => return value.go_type(),
        Val::Preserved(_) => "ref.Val",
        Val::Object(_) => "*dynamic.ObjectVal",
    };
    name.to_owned()
}
