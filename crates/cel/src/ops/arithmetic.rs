//! `+ - * / %` and order, with cel-go's overflow errors.

use std::cmp::Ordering;

use crate::error::Error;
use crate::ops::concat;
use crate::value::{Timestamp, Val};

type Answer<'a> = Result<Val<'a>, Error>;

const NANOS: i64 = 1_000_000_000;

fn overflow() -> Error {
    Error::new("integer overflow")
}
fn unsigned_overflow() -> Error {
    Error::new("unsigned integer overflow")
}
/// The left operand's type has no such operator at all.
fn unsupported<'a>(operator: &str, left: &Val<'_>) -> Answer<'a> {
    match left {
        // Types with methods of their own answer for themselves.
        Val::Str(_) | Val::Duration(_) | Val::Timestamp(_) => Err(Error::no_such_overload()),
        _ => Err(Error::new(format!("no such overload: {operator}"))),
    }
}

pub fn add<'a>(left: &Val<'a>, right: &Val<'a>) -> Answer<'a> {
    Ok(match (left, right) {
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_add(*b).ok_or_else(overflow)?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a.checked_add(*b).ok_or_else(unsigned_overflow)?),
        (Val::Double(a), Val::Double(b)) => Val::Double(a + b),
        (Val::Str(a), Val::Str(b)) => Val::string([&**a, &**b].concat()),
        (Val::Bytes(a), Val::Bytes(b)) => Val::bytes([&**a, &**b].concat()),
        (Val::Duration(a), Val::Duration(b)) => Val::Duration(a.checked_add(*b).ok_or_else(overflow)?),
        (Val::Timestamp(time), Val::Duration(nanos)) | (Val::Duration(nanos), Val::Timestamp(time)) => {
            Val::Timestamp(shift(*time, *nanos)?)
        }
        (Val::List(a), Val::List(b)) => Val::List(concat(a, b)?),
        (
            Val::Int(_)
            | Val::Uint(_)
            | Val::Double(_)
            | Val::Str(_)
            | Val::Bytes(_)
            | Val::Duration(_)
            | Val::Timestamp(_)
            | Val::List(_),
            _,
        ) => return Err(Error::no_such_overload()),
        _ => return unsupported("_+_", left),
    })
}

pub fn subtract<'a>(left: &Val<'a>, right: &Val<'a>) -> Answer<'a> {
    Ok(match (left, right) {
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_sub(*b).ok_or_else(overflow)?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a.checked_sub(*b).ok_or_else(unsigned_overflow)?),
        (Val::Double(a), Val::Double(b)) => Val::Double(a - b),
        (Val::Duration(a), Val::Duration(b)) => Val::Duration(a.checked_sub(*b).ok_or_else(overflow)?),
        (Val::Timestamp(time), Val::Duration(nanos)) => {
            Val::Timestamp(shift(*time, nanos.checked_neg().ok_or_else(overflow)?)?)
        }
        (Val::Timestamp(a), Val::Timestamp(b)) => {
            let seconds = a.seconds.checked_sub(b.seconds).and_then(|s| s.checked_mul(NANOS));
            let nanos = i64::from(a.nanos) - i64::from(b.nanos);
            Val::Duration(seconds.and_then(|s| s.checked_add(nanos)).ok_or_else(overflow)?)
        }
        (Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Duration(_) | Val::Timestamp(_), _) => {
            return Err(Error::no_such_overload());
        }
        _ => return unsupported("_-_", left),
    })
}

pub fn multiply<'a>(left: &Val<'a>, right: &Val<'a>) -> Answer<'a> {
    Ok(match (left, right) {
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_mul(*b).ok_or_else(overflow)?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a.checked_mul(*b).ok_or_else(unsigned_overflow)?),
        (Val::Double(a), Val::Double(b)) => Val::Double(a * b),
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), _) => return Err(Error::no_such_overload()),
        _ => return unsupported("_*_", left),
    })
}

pub fn divide<'a>(left: &Val<'a>, right: &Val<'a>) -> Answer<'a> {
    let by_zero = || Error::new("division by zero");
    Ok(match (left, right) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => return Err(by_zero()),
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_div(*b).ok_or_else(overflow)?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a / b),
        (Val::Double(a), Val::Double(b)) => Val::Double(a / b),
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), _) => return Err(Error::no_such_overload()),
        _ => return unsupported("_/_", left),
    })
}

pub fn modulo<'a>(left: &Val<'a>, right: &Val<'a>) -> Answer<'a> {
    let by_zero = || Error::new("modulus by zero");
    Ok(match (left, right) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => return Err(by_zero()),
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_rem(*b).ok_or_else(overflow)?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a % b),
        (Val::Int(_) | Val::Uint(_), _) => return Err(Error::no_such_overload()),
        _ => return unsupported("_%_", left),
    })
}

pub fn negate<'a>(operand: &Val<'a>) -> Answer<'a> {
    Ok(match operand {
        Val::Int(i) => Val::Int(i.checked_neg().ok_or_else(overflow)?),
        Val::Double(d) => Val::Double(-d),
        Val::Duration(nanos) => Val::Duration(nanos.checked_neg().ok_or_else(overflow)?),
        Val::Bool(_) => return Err(Error::no_such_overload()),
        _ => return unsupported("-_", operand),
    })
}

/// A point in time some nanoseconds later.
fn shift(time: Timestamp, nanos: i64) -> Result<Timestamp, Error> {
    let total = time.total_nanos() + i128::from(nanos);
    let seconds = total.div_euclid(i128::from(NANOS)) as i64;
    let fraction = total.rem_euclid(i128::from(NANOS)) as u32;
    Timestamp::new(seconds, fraction, time.offset).ok_or_else(|| Error::new("timestamp overflow"))
}

/// `<` and its like; `operator` names it in the error for a type without order.
pub fn compare(operator: &str, left: &Val<'_>, right: &Val<'_>) -> Result<Ordering, Error> {
    Ok(match (left, right) {
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            return compare_numbers(left, right).ok_or_else(|| Error::new("NaN values cannot be ordered"));
        }
        (Val::Bool(a), Val::Bool(b)) => a.cmp(b),
        (Val::Str(a), Val::Str(b)) => (**a).cmp(&**b),
        (Val::Bytes(a), Val::Bytes(b)) => a.cmp(b),
        (Val::Duration(a), Val::Duration(b)) => a.cmp(b),
        (Val::Timestamp(a), Val::Timestamp(b)) => (a.seconds, a.nanos).cmp(&(b.seconds, b.nanos)),
        (Val::Double(d), _) if d.is_nan() => return Err(Error::new("NaN values cannot be ordered")),
        (
            Val::Bool(_)
            | Val::Int(_)
            | Val::Uint(_)
            | Val::Double(_)
            | Val::Str(_)
            | Val::Bytes(_)
            | Val::Duration(_)
            | Val::Timestamp(_),
            _,
        ) => return Err(Error::no_such_overload()),
        _ => return unsupported(operator, left).map(|_| Ordering::Equal),
    })
}

/// The order of two numbers; `None` if one is not a number at all.
pub(super) fn compare_numbers(left: &Val<'_>, right: &Val<'_>) -> Option<Ordering> {
    match (left, right) {
        (Val::Int(a), Val::Int(b)) => Some(a.cmp(b)),
        (Val::Uint(a), Val::Uint(b)) => Some(a.cmp(b)),
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
        (Val::Int(a), Val::Uint(b)) => Some(u64::try_from(*a).map_or(Ordering::Less, |a| a.cmp(b))),
        (Val::Double(d), Val::Int(i)) => double_int(*d, *i),
        (Val::Double(d), Val::Uint(u)) => double_uint(*d, *u),
        (Val::Uint(_) | Val::Int(_), _) => compare_numbers(right, left).map(Ordering::reverse),
        _ => None,
    }
}

fn double_int(d: f64, i: i64) -> Option<Ordering> {
    if d < i64::MIN as f64 {
        return Some(Ordering::Less);
    }
    if d > i64::MAX as f64 {
        return Some(Ordering::Greater);
    }
    d.partial_cmp(&(i as f64))
}

fn double_uint(d: f64, u: u64) -> Option<Ordering> {
    if d < 0.0 {
        return Some(Ordering::Less);
    }
    if d > u64::MAX as f64 {
        return Some(Ordering::Greater);
    }
    d.partial_cmp(&(u as f64))
}
