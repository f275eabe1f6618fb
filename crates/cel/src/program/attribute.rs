//! Variables and what is selected of them.

use super::eval::{Answer, Frame};
use super::node::{Attribute, Key, Qualifier, Root};
use crate::cost::SELECT;
use crate::error::Error;
use crate::ops;
use crate::value::{Map, Val};

impl Attribute {
    /// Its value, as an expression of its own.
    pub(super) fn eval<'a>(&'a self, frame: &mut Frame<'a>) -> Answer<'a> {
        let answer = self.resolve(frame);
        match &answer {
            Err(error) if error.is_fatal() => return answer,
            _ => {}
        }
        match &self.root {
            Root::Conditional(_) => {}
            // Asking is free, but for the steps on the way.
            _ if self.test => {}
            _ => frame.charge(SELECT)?,
        }
        match answer {
            Ok(Val::Optional(value)) if self.test => Ok(Val::Bool(value.is_some())),
            other => other,
        }
    }

    /// Its value, as a part of another: only the steps cost.
    pub(super) fn resolve<'a>(&'a self, frame: &mut Frame<'a>) -> Answer<'a> {
        let root = match &self.root {
            Root::Variable(name) => match frame.variables.variable(name) {
                Some(value) => value?,
                None => return Err(Error::new(format!("no such attribute(s): {name}"))),
            },
            Root::Slot(slot) => frame.slot(*slot)?,
            Root::Operand(node) => node.eval(frame)?,
            Root::Conditional(branches) => match branches.condition.eval(frame)? {
                Val::Bool(true) => return object::deep(|| branches.yes.resolve(frame)),
                Val::Bool(false) => return object::deep(|| branches.no.resolve(frame)),
                _ => return Err(Error::no_such_overload()),
            },
        };
        let (mut value, mut optional) = match root {
            value if self.qualifiers.is_empty() && !matches!(value, Val::Optional(Some(_))) => {
                return Ok(value);
            }
            Val::Optional(None) => return Ok(Val::Optional(None)),
            // Upstream goes through the native value, which knows no schema and no optional value in an optional value.
            Val::Optional(Some(value)) => ((*value).clone().native(), true),
            value => (value, false),
        };
        let last = self.qualifiers.len().wrapping_sub(1);
        for (i, qualifier) in self.qualifiers.iter().enumerate() {
            let test = self.test && i == last;
            optional |= qualifier.optional;
            match qualifier.apply(&value, optional, test, frame)? {
                Some(_) if test && optional => value = Val::Null,
                found if test => value = Val::Bool(found.is_some()),
                Some(found) => value = found,
                None => return Ok(Val::Optional(None)),
            }
            if test && optional && matches!(value, Val::Bool(false)) {
                return Ok(Val::Optional(None));
            }
        }
        Ok(if optional { Val::some(value) } else { value })
    }
}

impl Qualifier {
    /// The member or element; `None` if it is absent and that is no error.
    fn apply<'a>(
        &'a self,
        value: &Val<'a>,
        optional: bool,
        test: bool,
        frame: &mut Frame<'a>,
    ) -> Result<Option<Val<'a>>, Error> {
        // What fails or is absent costs nothing where absence is an answer of its own.
        let failed = if optional { 0 } else { SELECT };
        let computed;
        let (key, found) = match &self.key {
            Key::Const { key, unescaped } => (key, by_constant(value, key, unescaped.as_deref())),
            Key::Attribute(attribute) => match object::deep(|| attribute.resolve(frame)) {
                Ok(key) => {
                    if let Some(kind) = not_a_key(&key) {
                        frame.charge(failed)?;
                        return Err(Error::new(format!("invalid qualifier type: {kind}")));
                    }
                    computed = key;
                    (&computed, ops::select(value, &computed))
                }
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => {
                    frame.charge(failed)?;
                    return Err(error);
                }
            },
        };
        frame.charge(if matches!(found, Some(Ok(_))) { SELECT } else { failed })?;
        match found {
            Some(found) => found.map(Some),
            None if optional || test => Ok(None),
            None if matches!(value, Val::List(_)) => Err(Error::new(format!("index out of bounds: {key}"))),
            None => Err(Error::new(format!("no such key: {key}"))),
        }
    }
}

/// What is selected by a key known in advance, an escaped name being unescaped already.
fn by_constant<'a>(
    value: &Val<'a>,
    key: &Val<'static>,
    unescaped: Option<&str>,
) -> Option<Result<Val<'a>, Error>> {
    match (value, key) {
        (Val::Map(map @ Map::View { schema: Some(schema), .. }), Val::Str(name)) => {
            if matches!(schema.shape(), crate::schema::Shape::Object) {
                map.find_unescaped(unescaped?)
            } else {
                map.find_unescaped(name)
            }
        }
        _ => ops::select(value, key),
    }
}

/// What Go calls a value that cannot be a key.
pub(super) fn not_a_key(key: &Val<'_>) -> Option<&'static str> {
    match key {
        Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Str(_) => None,
        other => Some(super::fold::go_type(other)),
    }
}
