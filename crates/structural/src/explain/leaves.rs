//! The checks of one value, without what is inside of it.

use object::{FieldErrorKind, Value, quote};

use super::Explainer;
use super::outcome::Outcome;
use crate::check::{Check, is_longer, is_one_of, is_shorter};
use crate::format::StringFormat;
use crate::node::{Flags, NodeData, Type};
use crate::number::{self, NoMultiple, Range};
use crate::show::{json, show};
use crate::valid::range_of;

impl Explainer<'_> {
    /// The type that was wanted and the one that was found, when they do not fit.
    pub(super) fn type_failure(
        &self,
        node: &NodeData,
        checks: &[Check],
        value: &Value,
    ) -> Option<(String, &'static str)> {
        let either = node.flags.has(Flags::INT_OR_STRING) && !self.as_default;
        let has = |ty: Type| match either {
            true => matches!(ty, Type::Integer | Type::String),
            false => node.ty == ty,
        };
        let (found, found_format) = match value {
            Value::Null => return None,
            Value::Bool(_) => (Type::Boolean, ""),
            Value::Int(_) => (Type::Integer, "int64"),
            Value::Float(_) => (Type::Number, "float64"),
            Value::Str(_) => (Type::String, ""),
            Value::List(_) => (Type::Array, ""),
            Value::Map(_) | Value::Raw(_) => (Type::Object, ""),
        };
        let fits = has(found)
            || matches!(value, Value::Float(f) if number::is_whole(*f) && has(Type::Integer))
            || (found == Type::Integer && has(Type::Number));
        let format = self.format(node, checks);
        let text_or_list = matches!(value, Value::Str(_) | Value::List(_));
        match format {
            Some(format) if !text_or_list && !fits && found_format != format => {
                return Some((format.to_owned(), found_format));
            }
            Some(_) if text_or_list && !has(Type::Number) && !has(Type::Integer) => return None,
            _ => {}
        }
        (!fits).then(|| (self.type_names(node), found.as_str()))
    }

    /// Of length and pattern the first failure is told; then the format.
    pub(super) fn string(&mut self, outcome: &mut Outcome, node: &NodeData, checks: &[Check], text: &str) {
        let failure = checks.iter().find_map(|check| match check {
            Check::MaxLength(most) if is_longer(text, *most) => {
                let bytes = if *most == 1 { "byte" } else { "bytes" };
                let detail = if *most < 0 {
                    "value is too long".to_owned()
                } else {
                    format!("may not be more than {most} {bytes}")
                };
                let message = format!("should be at most {most} chars long");
                Some((FieldErrorKind::TooLong, message, Some(detail)))
            }
            Check::MinLength(least) if is_shorter(text, *least) => {
                Some((FieldErrorKind::Invalid, format!("should be at least {least} chars long"), None))
            }
            Check::Pattern(pattern) if !pattern.is_match(text) => {
                Some((FieldErrorKind::Invalid, format!("should match '{}'", pattern.shown()), None))
            }
            _ => None,
        });
        if let Some((kind, message, detail)) = failure {
            self.failure(outcome, kind, message, Some(quote(text)), detail);
        }
        outcome.passed += 1;
        let format = self.format(node, checks);
        if let Some((name, format)) = format.and_then(|name| Some((name, StringFormat::parse(name)?))) {
            if !format.is_valid(text) {
                self.wrong_type(outcome, name, text);
            }
            outcome.passed += 1;
        }
    }

    pub(super) fn number(&mut self, outcome: &mut Outcome, node: &NodeData, checks: &[Check], value: &Value) {
        let range = if self.as_default && node.flags.has(Flags::INT_OR_STRING) {
            Range { ty: node.ty, format: None }
        } else {
            range_of(node, checks)
        };
        let mut all = Outcome::default();
        if !range.fits(value) {
            self.plain(&mut all, self.out_of_range("Checked", range));
        }
        for check in checks {
            let (prefix, bound) = match check {
                Check::MultipleOf(factor) => ("MultipleOf", *factor),
                Check::Minimum(bound) => ("Minimum boundary", bound.at),
                Check::Maximum(bound) => ("Maximum boundary", bound.at),
                _ => continue,
            };
            let fits = range.fits_bound(bound);
            if !fits {
                self.plain(&mut all, self.out_of_range(prefix, range));
            }
            // A bound that does not fit is compared as a float, and so is shown as one, with the value.
            let as_float = !fits || matches!(value, Value::Float(_));
            let shown = match as_float {
                true => show(&Value::Float(number::to_f64(value).unwrap_or_default())),
                false => show(value),
            };
            let at = match as_float {
                true => show(&Value::Float(bound)),
                false => number::to_i64(bound).to_string(),
            };
            match check {
                Check::MultipleOf(factor) => match number::no_multiple(value, *factor, range) {
                    Some(NoMultiple::Factor(factor)) => {
                        let message = format!(
                            "factor MultipleOf declared for {} must be positive: {}",
                            self.path,
                            show(&factor)
                        );
                        self.failure_with(
                            &mut all,
                            FieldErrorKind::Invalid,
                            message,
                            Some(show(&factor)),
                            None,
                        );
                    }
                    Some(NoMultiple::Value { factor, value }) => {
                        let message = format!("should be a multiple of {}", show(&factor));
                        self.failure(&mut all, FieldErrorKind::Invalid, message, Some(show(&value)), None);
                    }
                    None => {}
                },
                Check::Minimum(bound) if number::is_below(value, *bound, range) => {
                    let or_equal = if bound.exclusive { "" } else { " or equal to" };
                    let message = format!("should be greater than{or_equal} {at}");
                    self.failure(&mut all, FieldErrorKind::Invalid, message, Some(shown), None);
                }
                Check::Maximum(bound) if number::is_above(value, *bound, range) => {
                    let or_equal = if bound.exclusive { "" } else { " or equal to" };
                    let message = format!("should be less than{or_equal} {at}");
                    self.failure(&mut all, FieldErrorKind::Invalid, message, Some(shown), None);
                }
                _ => {}
            }
        }
        outcome.merge(all);
        outcome.passed += 2;
    }

    fn out_of_range(&self, what: &str, range: Range) -> String {
        let ty = range.ty.as_str();
        match range.format {
            Some(format) => {
                format!("{what} value must be of type {ty} with format {} in {}", format.as_str(), self.path)
            }
            None => format!("{what} value must be of type {ty} (default format) in {}", self.path),
        }
    }

    pub(super) fn enumeration(&mut self, outcome: &mut Outcome, checks: &[Check], value: &Value) {
        for check in checks {
            let Check::Enum(allowed) = check else { continue };
            if is_one_of(value, allowed) {
                continue;
            }
            let text = |allowed: &Value| match allowed {
                Value::Str(text) => text.clone(),
                other => json(other),
            };
            let quoted: Vec<String> = allowed.iter().map(|allowed| quote(&text(allowed))).collect();
            let listed = quoted.join(", ");
            let message = format!("should be one of {listed}");
            let detail = format!("supported values: {listed}");
            self.failure(outcome, FieldErrorKind::NotSupported, message, Some(show(value)), Some(detail));
        }
    }
}
