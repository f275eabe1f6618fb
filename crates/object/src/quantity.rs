//! Resource quantities: `100m`, `1.5Gi`, `12e6`, parsed, compared, added and formatted the way Kubernetes does.

mod text;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Sub};

use thiserror::Error;

/// An exact decimal number and its suffix format.
///
/// Holds numbers of up to 38 digits. Differs from kube-apiserver, which holds any length: nothing
/// real needs more, and a limit is safer.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// The number is `mantissa * 10^scale`; `scale` is never below -9.
    mantissa: i128,
    scale: i32,
    format: Format,
}

/// The suffix format of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The text upstream would store for this one. It keeps some texts that are not canonical
/// (`1.500`, `+5`), so this is not always [`Quantity`]'s own text.
pub fn canonical(text: &str) -> Result<Cow<'_, str>, QuantityError> {
    let parsed = text::parse(text)?;
    Ok(if parsed.keeps_text { Cow::Borrowed(text) } else { Cow::Owned(parsed.quantity.to_string()) })
}

impl Quantity {
    pub const ZERO: Quantity = Quantity { mantissa: 0, scale: 0, format: Format::DecimalSi };

    pub fn parse(text: &str) -> Result<Quantity, QuantityError> {
        text::parse(text).map(|parsed| parsed.quantity)
    }

    /// As [`Quantity::parse`], and whether upstream holds the number in 64 bits, on which some of its answers depend.
    pub fn parse_and_size(text: &str) -> Result<(Quantity, bool), QuantityError> {
        text::parse(text).map(|parsed| (parsed.quantity, parsed.small))
    }

    /// `mantissa * 10^scale`, where the scale is not below -9.
    pub fn from_parts(mantissa: i128, scale: i32, format: Format) -> Quantity {
        Quantity { mantissa, scale, format }
    }

    /// Mantissa and scale, as they were given.
    pub fn parts(&self) -> (i128, i32) {
        (self.mantissa, self.scale)
    }

    pub fn with_format(self, format: Format) -> Quantity {
        Quantity { format, ..self }
    }

    pub fn from_i64(value: i64, format: Format) -> Quantity {
        Quantity { mantissa: i128::from(value), scale: 0, format }
    }

    pub fn from_milli(value: i64, format: Format) -> Quantity {
        Quantity { mantissa: i128::from(value), scale: -3, format }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        self.mantissa.signum() as i32
    }

    /// In whole units, rounded away from zero; saturates.
    pub fn as_i64(&self) -> i64 {
        self.scaled(0)
    }

    /// In thousandths, rounded away from zero; saturates.
    pub fn as_milli(&self) -> i64 {
        self.scaled(-3)
    }

    fn scaled(&self, scale: i32) -> i64 {
        let whole = if self.scale >= scale {
            10i128.checked_pow(self.scale.abs_diff(scale)).and_then(|by| self.mantissa.checked_mul(by))
        } else {
            Some(divide_away(self.mantissa, self.scale.abs_diff(scale)))
        };
        let bounded = whole.unwrap_or(if self.mantissa < 0 { i128::MIN } else { i128::MAX });
        bounded.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    fn abs(self) -> Quantity {
        Quantity { mantissa: self.mantissa.saturating_abs(), ..self }
    }

    /// The number as a whole one, when it is one.
    fn integer(&self) -> Option<i128> {
        if self.scale >= 0 {
            return self.mantissa.checked_mul(10i128.checked_pow(self.scale.unsigned_abs())?);
        }
        let by = 10i128.checked_pow(self.scale.unsigned_abs())?;
        (self.mantissa % by == 0).then(|| self.mantissa / by)
    }
}

/// `mantissa / 10^digits`, rounded away from zero.
fn divide_away(mantissa: i128, digits: u32) -> i128 {
    let Some(by) = 10i128.checked_pow(digits) else { return mantissa.signum() };
    let cut = mantissa / by;
    if mantissa % by == 0 { cut } else { cut + mantissa.signum() }
}

/// The sum; zero takes the other's suffix format. Saturates to the larger of the two.
impl Add for Quantity {
    type Output = Quantity;
    fn add(self, other: Quantity) -> Quantity {
        if self.is_zero() {
            return other;
        }
        let scale = self.scale.min(other.scale);
        let at = |q: Quantity| {
            let by = 10i128.checked_pow(q.scale.abs_diff(scale))?;
            q.mantissa.checked_mul(by)
        };
        let sum = at(self).zip(at(other)).and_then(|(a, b)| a.checked_add(b));
        let larger = if self.abs() < other.abs() { other } else { self };
        match sum {
            Some(mantissa) => Quantity { mantissa, scale, format: self.format },
            None => Quantity { format: self.format, ..larger },
        }
    }
}

impl Sub for Quantity {
    type Output = Quantity;
    fn sub(self, other: Quantity) -> Quantity {
        self.add(Quantity { mantissa: other.mantissa.saturating_neg(), ..other })
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Quantity {}
impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Quantity {
    /// By amount; `1` and `1000m` are equal.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_sign = self.sign().cmp(&other.sign());
        if by_sign != Ordering::Equal || self.is_zero() {
            return by_sign;
        }
        let (a, b) = (self.mantissa.unsigned_abs(), other.mantissa.unsigned_abs());
        let size = |m: u128, scale: i32| i64::from(m.ilog10()) + i64::from(scale);
        let magnitudes = size(a, self.scale).cmp(&size(b, other.scale)).then_with(|| {
            // Both have their first digit at the same place, so the finer one's digits are enough for the other,
            // except that it may not fit: then it is the larger.
            let grown = |m: u128, by: u32| 10u128.checked_pow(by).and_then(|p| m.checked_mul(p));
            let by = self.scale.abs_diff(other.scale);
            match self.scale.cmp(&other.scale) {
                Ordering::Equal => a.cmp(&b),
                Ordering::Greater => grown(a, by).map_or(Ordering::Greater, |a| a.cmp(&b)),
                Ordering::Less => grown(b, by).map_or(Ordering::Less, |b| a.cmp(&b)),
            }
        });
        if self.mantissa < 0 { magnitudes.reverse() } else { magnitudes }
    }
}

/// Canonical form: no fractional digits, no precision lost, the largest suffix that allows it.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        if self.format == Format::BinarySi
            && let Some(whole) = self.integer().filter(|n| n.unsigned_abs() >= 1024)
        {
            let mut mantissa = whole;
            let mut suffix = 0;
            while mantissa % 1024 == 0 && suffix < text::BINARY.len() - 1 {
                mantissa /= 1024;
                suffix += 1;
            }
            return write!(f, "{mantissa}{}", text::BINARY[suffix]);
        }
        let mut mantissa = self.mantissa;
        let mut exponent = self.scale;
        while mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        let mut zeros = exponent.rem_euclid(3);
        exponent -= zeros;
        if self.format != Format::DecimalExponent {
            // Differs from kube-apiserver: it has no suffix above E and silently drops the exponent.
            zeros += (exponent - 18).max(0);
            exponent = exponent.min(18);
        }
        write!(f, "{mantissa}")?;
        for _ in 0..zeros {
            f.write_str("0")?;
        }
        match (self.format, exponent) {
            (_, 0) => Ok(()),
            (Format::DecimalExponent, e) => write!(f, "e{e}"),
            (_, e) => f.write_str(text::decimal_suffix(e)),
        }
    }
}
