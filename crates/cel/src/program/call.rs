//! Calls of functions, and what they cost.

use super::eval::{Answer, Frame, charged};
use super::node::{Body, Call, CallCost};
use crate::cost::{ActualCall, REGEX_LENGTH, STRING_TRAVERSAL, traversal};
use crate::error::Error;
use crate::types::Type;
use crate::value::{List, Val};

impl Call {
    pub(super) fn eval<'a>(&'a self, frame: &mut Frame<'a>) -> Answer<'a> {
        match &self.args[..] {
            [] => self.run(&[], None, frame),
            [one] => {
                let (value, failure) = split(one.eval(frame))?;
                self.run(&[value], failure, frame)
            }
            [first, second] => {
                let (left, failure) = split(first.eval(frame))?;
                if self.sequential
                    && let Some(error) = failure
                {
                    return Err(error);
                }
                let (right, later) = split(second.eval(frame))?;
                self.run(&[left, right], failure.or(later), frame)
            }
            args => {
                let mut values = Vec::with_capacity(args.len());
                let mut failure = None;
                for (i, arg) in args.iter().enumerate() {
                    match split(arg.eval(frame))? {
                        // The rest is not evaluated, and upstream then finds no arguments to charge for.
                        (_, Some(error)) if i + 1 < args.len() => return Err(error),
                        (value, error) => {
                            values.push(value);
                            failure = error;
                        }
                    }
                }
                self.run(&values, failure, frame)
            }
        }
    }

    fn run<'a>(&'a self, args: &[Val<'a>], failure: Option<Error>, frame: &mut Frame<'a>) -> Answer<'a> {
        let answer = match failure {
            Some(_) if self.lenient => Ok(Val::Bool(true)),
            Some(error) => Err(error),
            None => self.body.run(&self.function, args),
        };
        let cost = match self.cost {
            CallCost::One => 1,
            _ if answer.as_ref().is_err_and(Error::is_fatal) => 0,
            rule => rule.of(self, args, answer.as_ref().unwrap_or(&Val::Null))?,
        };
        charged(frame, cost, answer)
    }
}

/// A value and an error; null for the value of what failed. What is fatal ends it here.
fn split(answer: Answer<'_>) -> Result<(Val<'_>, Option<Error>), Error> {
    match answer {
        Ok(value) => Ok((value, None)),
        Err(error) if error.is_fatal() => Err(error),
        Err(error) => Ok((Val::Null, Some(error))),
    }
}

impl Body {
    pub(super) fn run<'a>(&self, function: &str, args: &[Val<'a>]) -> Answer<'a> {
        match self {
            Body::Free(native) => native(args),
            Body::Guarded(types, native) => {
                if fits(types, args) {
                    native(args)
                } else {
                    Err(no_such_overload(function, args))
                }
            }
            Body::Dispatch(overloads) => {
                let fitting = overloads
                    .iter()
                    .find(|(types, guarded, _)| types.len() == args.len() && (!guarded || fits(types, args)));
                match fitting {
                    Some((_, _, native)) => native(args),
                    None => Err(no_such_overload(function, args)),
                }
            }
            Body::Compiled(compiled) => compiled(args),
            Body::Missing => match args.first() {
                Some(Val::Str(_) | Val::Timestamp(_) | Val::Duration(_)) => Err(Error::no_such_overload()),
                _ => Err(Error::new(format!("no such overload: {function}"))),
            },
        }
    }
}

fn no_such_overload(function: &str, args: &[Val<'_>]) -> Error {
    let types: Vec<String> = args.iter().map(Val::type_name).collect();
    Error::new(format!("no such overload: {function}({})", types.join(", ")))
}

fn fits(types: &[Type], args: &[Val<'_>]) -> bool {
    types.len() == args.len() && types.iter().zip(args).all(|(ty, arg)| is_a(arg, ty))
}

/// Whether a value is of a type, of lists and maps by their first entry.
fn is_a(value: &Val<'_>, ty: &Type) -> bool {
    match (ty, value) {
        (Type::Dyn | Type::Any | Type::Param(_), _) => true,
        (Type::Wrapper(_), Val::Null) => true,
        (Type::Wrapper(inner), value) => is_a(value, inner),
        (Type::Bool, Val::Bool(_))
        | (Type::Int, Val::Int(_))
        | (Type::Uint, Val::Uint(_))
        | (Type::Double, Val::Double(_))
        | (Type::String, Val::Str(_))
        | (Type::Bytes, Val::Bytes(_))
        | (Type::Null, Val::Null)
        | (Type::Duration, Val::Duration(_))
        | (Type::Timestamp, Val::Timestamp(_))
        | (Type::Type(_), Val::Type(_)) => true,
        (Type::Opaque(name, _), Val::Optional(_)) => *name == "optional_type",
        (Type::Opaque(name, _) | Type::Object(name), Val::Opaque(value)) => {
            value.ty().name() == name.as_str()
        }
        (Type::Object(name), Val::Object(object)) => *object.name == **name,
        (Type::List(element), Val::List(list)) => {
            first_element(list).is_none_or(|first| is_a(&first, element))
        }
        (Type::Map(entry), Val::Map(map)) => {
            map.first().is_none_or(|(key, value)| is_a(&key, &entry[0]) && is_a(&value, &entry[1]))
        }
        _ => false,
    }
}

fn first_element<'a>(list: &List<'a>) -> Option<Val<'a>> {
    list.get(0)?.ok()
}

impl CallCost {
    fn of(self, call: &Call, args: &[Val<'_>], result: &Val<'_>) -> Result<u64, Error> {
        let size = |index: usize| args.get(index).map_or(1, Val::cost_size);
        let scaled = |size: f64, factor: f64| (size * factor).ceil() as u64;
        Ok(match self {
            CallCost::One => 1,
            CallCost::Traverse => traversal(size(0)),
            CallCost::Shorter => traversal(size(0).min(size(1))),
            CallCost::Both => traversal(size(0) + size(1)),
            CallCost::Regex => {
                scaled(1.0 + size(0) as f64, STRING_TRAVERSAL) * scaled(size(1) as f64, REGEX_LENGTH)
            }
            CallCost::Contains => traversal(size(0)) * traversal(size(1)),
            CallCost::Custom(of_overload, of_function, default) => {
                let actual = ActualCall::new(&call.function, call.overload, args, result);
                let own = of_overload
                    .and_then(|cost| (cost.actual)(&actual))
                    .or_else(|| of_function.and_then(|cost| (cost.actual)(&actual)));
                if let Some(message) = actual.panicked() {
                    return Err(Error::internal(message));
                }
                match own {
                    Some(cost) => cost,
                    None => return default.of(call, args, result),
                }
            }
        })
    }
}
