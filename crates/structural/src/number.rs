//! Numbers as Go holds them: bounds are floats, values are integers or floats, and conversions are those of amd64.

use object::Value;

use crate::check::{Bound, NumberFormat};
use crate::node::Type;

/// Go's conversion, which the processor defines where the number does not fit.
pub(crate) fn to_i64(f: f64) -> i64 {
    // 2^63 is the first that does not fit; its negative does.
    const FIRST: f64 = 9_223_372_036_854_775_808.0;
    if (-FIRST..FIRST).contains(&f) { f as i64 } else { i64::MIN }
}

pub(crate) fn to_f64(value: &Value) -> Option<f64> {
    match value {
        Value::Int(i) => Some(*i as f64),
        Value::Float(f) => Some(*f),
        _ => None,
    }
}

/// What the type and its format say about the range of numbers.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) ty: Type,
    pub(crate) format: Option<NumberFormat>,
}

impl Range {
    /// Whether a number, of the object or of the schema, can be one of that type.
    pub(crate) fn fits(self, value: &Value) -> bool {
        match (self.ty, self.format) {
            (Type::Integer, Some(NumberFormat::Int32)) => match value {
                Value::Int(i) => i32::try_from(*i).is_ok(),
                Value::Float(f) => {
                    f.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(f)
                }
                _ => true,
            },
            (Type::Integer, _) => match value {
                Value::Float(f) => f.fract() == 0.0 && to_i64(*f) as f64 == *f,
                _ => true,
            },
            // Of the text, rounded: what is above the largest by less than half a step is the largest.
            (_, Some(NumberFormat::Float)) => to_f64(value).is_none_or(|f| (f as f32).is_finite()),
            _ => true,
        }
    }
    /// The same of a bound.
    pub(crate) fn fits_bound(self, bound: f64) -> bool {
        self.fits(&Value::Float(bound))
    }
}

pub(crate) fn is_above(value: &Value, bound: Bound, range: Range) -> bool {
    match value {
        Value::Int(i) if range.fits_bound(bound.at) => {
            let most = to_i64(bound.at);
            if bound.exclusive { *i >= most } else { *i > most }
        }
        other => {
            let f = to_f64(other).unwrap_or_default();
            if bound.exclusive { f >= bound.at } else { f > bound.at }
        }
    }
}

pub(crate) fn is_below(value: &Value, bound: Bound, range: Range) -> bool {
    match value {
        Value::Int(i) if range.fits_bound(bound.at) => {
            let least = to_i64(bound.at);
            if bound.exclusive { *i <= least } else { *i < least }
        }
        other => {
            let f = to_f64(other).unwrap_or_default();
            if bound.exclusive { f <= bound.at } else { f < bound.at }
        }
    }
}

/// Why a number is no multiple.
pub(crate) enum NoMultiple {
    /// The factor is not positive; as it is shown.
    Factor(Value),
    Value {
        factor: Value,
        value: Value,
    },
}

pub(crate) fn no_multiple(value: &Value, factor: f64, range: Range) -> Option<NoMultiple> {
    if let (Value::Int(i), true) = (value, range.fits_bound(factor)) {
        let whole = to_i64(factor);
        if whole <= 0 {
            return Some(NoMultiple::Factor(Value::Int(whole)));
        }
        return (i % whole != 0)
            .then(|| NoMultiple::Value { factor: Value::Int(whole), value: Value::Int(*i) });
    }
    if factor <= 0.0 {
        return Some(NoMultiple::Factor(Value::Float(factor)));
    }
    let f = to_f64(value)?;
    let times = if factor < 1.0 { 1.0 / factor * f } else { f / factor };
    (!is_whole(times)).then_some(NoMultiple::Value { factor: Value::Float(factor), value: Value::Float(f) })
}

/// Whether a float is an integer that JSON can hold, or as good as one.
pub(crate) fn is_whole(f: f64) -> bool {
    const MOST: f64 = 9_007_199_254_740_991.0;
    const EPSILON: f64 = 1e-9;
    if !f.is_finite() || f.abs() > MOST {
        return false;
    }
    if f.fract() == 0.0 {
        return true;
    }
    // Of the negative ones Go compares with their huge unsigned counterpart.
    let whole = f.trunc();
    f > 0.0 && whole != 0.0 && (f - whole) / (f + whole) < EPSILON
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_told_from_others() {
        for (f, whole) in
            [(3.0, true), (-3.0, true), (0.0, true), (3.5, false), (-3.5, false), (3.000_000_000_1, true)]
        {
            assert_eq!(is_whole(f), whole, "{f}");
        }
        assert!(!is_whole(1e17));
        assert!(!is_whole(f64::NAN));
    }

    #[test]
    fn ranges_are_those_of_the_format() {
        let int32 = Range { ty: Type::Integer, format: Some(NumberFormat::Int32) };
        assert!(int32.fits(&Value::Int(i32::MAX.into())));
        assert!(!int32.fits(&Value::Int(i64::from(i32::MAX) + 1)));
        assert!(int32.fits(&Value::Float(1.0)));
        assert!(!int32.fits(&Value::Float(1.5)));
        let float = Range { ty: Type::Number, format: Some(NumberFormat::Float) };
        assert!(float.fits(&Value::Float(3.4e38)));
        assert!(!float.fits(&Value::Float(3.5e38)));
    }

    #[test]
    fn a_bound_beyond_integers_turns_negative_as_on_amd64() {
        let number = Range { ty: Type::Number, format: None };
        let bound = Bound { at: 1e20, exclusive: false };
        assert!(is_above(&Value::Int(1), bound, number));
        assert!(!is_above(&Value::Float(1.0), bound, number));
    }
}
