//! A quantity and how upstream holds it, on which its integers and floats depend.

use std::fmt;

use object::quantity::{self, Format, QuantityError};

/// The value of `quantity()`.
///
/// Differs from kube-apiserver: there, comparing and adding may change the operands as well, which shows if one of them
/// is used again.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: quantity::Quantity,
    held: Held,
    /// As it was written; `None` if it has been computed.
    text: Option<Box<str>>,
}

/// Upstream holds most numbers as 64 bits and a power of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// The amount's own mantissa fits.
    Small,
    /// A long number times this power of ten.
    Long(i32),
}

impl Quantity {
    pub fn parse(text: &str) -> Result<Quantity, QuantityError> {
        let (amount, small) = quantity::Quantity::parse_and_size(text)?;
        let held = match (small, amount.parts()) {
            (true, _) => Held::Small,
            (false, (0, _)) => Held::Long(0),
            // The largest binary quantity there is stands for what is larger.
            (false, (_, 0)) if amount.format() == Format::BinarySi => Held::Long(0),
            // Others are rounded up to nanos.
            (false, _) => Held::Long(-9),
        };
        Ok(Quantity { amount, held, text: Some(text.into()) })
    }

    pub fn from_i64(value: i64) -> Quantity {
        let amount = quantity::Quantity::from_i64(value, Format::DecimalExponent);
        Quantity { amount, held: Held::Small, text: None }
    }

    pub fn amount(&self) -> quantity::Quantity {
        self.amount
    }
    pub fn is_computed(&self) -> bool {
        self.text.is_none()
    }

    /// The mantissa and the power of ten, if upstream holds it so.
    fn small(&self) -> Option<(i64, i32)> {
        let (mantissa, scale) = self.amount.parts();
        match self.held {
            Held::Small => Some((i64::try_from(mantissa).ok()?, scale)),
            Held::Long(_) => None,
        }
    }

    /// Only numbers without a fraction that upstream holds in 64 bits: neither `1000m` nor `1.5Gi`.
    pub fn as_i64(&self) -> Option<i64> {
        match self.small()? {
            (_, ..0) => None,
            (mantissa, scale) => grown(mantissa, scale.unsigned_abs()),
        }
    }

    pub fn as_f64(&self) -> f64 {
        let (mantissa, scale) = self.amount.parts();
        let (base, exponent) = match self.held {
            Held::Small => (mantissa as f64, scale),
            // Read from text, the long number is rounded once, as upstream's.
            Held::Long(exponent) => {
                (format!("{mantissa}e{}", scale - exponent).parse().unwrap_or(f64::NAN), exponent)
            }
        };
        if exponent == 0 { base } else { base * power_of_ten(exponent) }
    }

    pub fn add(&self, other: &Quantity) -> Quantity {
        let small = self.small().zip(other.small());
        let sum = small.and_then(|(a, b)| add_small(a, b));
        self.computed(other, sum, || self.amount + other.amount)
    }

    pub fn sub(&self, other: &Quantity) -> Quantity {
        let small = self.small().zip(other.small());
        // The smallest number is its own opposite, as in Go.
        let difference =
            small.and_then(|(a, (mantissa, scale))| add_small(a, (mantissa.wrapping_neg(), scale)));
        self.computed(other, difference, || self.amount - other.amount)
    }

    /// The result of 64 bits if there is one, and a long one otherwise.
    fn computed(
        &self,
        other: &Quantity,
        small: Option<(i64, i32)>,
        long: impl Fn() -> quantity::Quantity,
    ) -> Quantity {
        let format = if self.amount.is_zero() { other.amount.format() } else { self.amount.format() };
        let Some((mantissa, scale)) = small else {
            let amount = long().with_format(format);
            let held = Held::Long(self.exponent().min(other.exponent()));
            return Quantity { amount, held, text: None };
        };
        let amount = quantity::Quantity::from_parts(i128::from(mantissa), scale, format);
        Quantity { amount, held: Held::Small, text: None }
    }

    fn exponent(&self) -> i32 {
        match self.held {
            Held::Small => self.amount.parts().1,
            Held::Long(exponent) => exponent,
        }
    }
}

/// `None` if 64 bits are not enough for it at the finer scale.
fn add_small((a, a_scale): (i64, i32), (b, b_scale): (i64, i32)) -> Option<(i64, i32)> {
    match (a, b) {
        (_, 0) => Some((a, a_scale)),
        (0, _) => Some((b, b_scale)),
        _ => {
            let scale = a_scale.min(b_scale);
            let at_scale = |mantissa, own: i32| grown(mantissa, own.abs_diff(scale));
            Some((at_scale(a, a_scale)?.checked_add(at_scale(b, b_scale)?)?, scale))
        }
    }
}

/// Times a power of ten.
fn grown(mantissa: i64, digits: u32) -> Option<i64> {
    if mantissa == 0 {
        return Some(0);
    }
    mantissa.checked_mul(10i64.checked_pow(digits)?)
}

/// Go's `math.Pow10`, which is not always the double nearest to the power.
fn power_of_ten(exponent: i32) -> f64 {
    let power = |exponent: u32| format!("1e{exponent}").parse().unwrap_or(f64::NAN);
    let digits = exponent.unsigned_abs();
    match exponent {
        0..=308 => power(digits / 32 * 32) * power(digits % 32),
        -323..0 => {
            let coarse: f64 = format!("1e-{}", digits / 32 * 32).parse().unwrap_or(f64::NAN);
            coarse / power(digits % 32)
        }
        ..-323 => 0.0,
        _ => f64::INFINITY,
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text.as_deref().map(quantity::canonical) {
            Some(Ok(text)) => f.write_str(&text),
            _ => self.amount.fmt(f),
        }
    }
}
