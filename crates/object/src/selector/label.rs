//! Label selectors: `app=web,tier in (a,b),!canary`, and the `LabelSelector` of specs.

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::validate_text::{label_value, qualified_name};
use crate::{FieldError, Value, quote};

/// Requirements, all of which must match, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
    /// An absent `LabelSelector` selects nothing, while an empty one selects everything.
    nothing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    pub key: String,
    pub operator: LabelOperator,
    /// Sorted and without repetition where they come from text.
    pub values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabelOperator {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl LabelSelector {
    /// Parses a `labelSelector` parameter.
    pub fn parse(text: &str) -> Result<LabelSelector, String> {
        parse::parse(text).map(LabelSelector::new)
    }

    /// Parses the `LabelSelector` of a spec (`matchLabels`, `matchExpressions`); null selects nothing.
    pub fn from_label_selector(value: &Value) -> Result<LabelSelector, String> {
        if value.is_null() {
            return Ok(LabelSelector::nothing());
        }
        let mut requirements = Vec::new();
        if let Some(labels) = value.get("matchLabels").and_then(Value::as_map) {
            for (key, value) in labels.iter() {
                let value = value.as_str().unwrap_or_default().to_owned();
                requirements.push(LabelRequirement::checked(
                    key.to_string(),
                    LabelOperator::Equals,
                    vec![value],
                )?);
            }
        }
        for expression in value.get("matchExpressions").and_then(Value::as_list).unwrap_or_default() {
            let key = expression.str_at(&["key"]).unwrap_or_default().to_owned();
            let operator = match expression.str_at(&["operator"]).unwrap_or_default() {
                "In" => LabelOperator::In,
                "NotIn" => LabelOperator::NotIn,
                "Exists" => LabelOperator::Exists,
                "DoesNotExist" => LabelOperator::DoesNotExist,
                other => return Err(format!("{} is not a valid label selector operator", quote(other))),
            };
            let values = expression.get("values").and_then(Value::as_list).unwrap_or_default();
            let values = values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(LabelRequirement::checked(key, operator, values)?);
        }
        Ok(LabelSelector::new(requirements))
    }

    /// Equality with each of these labels, which are taken to be valid (a Service's selector).
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> LabelSelector {
        let one = |(key, value): (&str, &str)| LabelRequirement {
            key: key.to_owned(),
            operator: LabelOperator::Equals,
            values: vec![value.to_owned()],
        };
        LabelSelector::new(labels.into_iter().map(one).collect())
    }

    fn new(mut requirements: Vec<LabelRequirement>) -> LabelSelector {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements, nothing: false }
    }
    pub fn everything() -> LabelSelector {
        LabelSelector::default()
    }
    pub fn nothing() -> LabelSelector {
        LabelSelector { requirements: Vec::new(), nothing: true }
    }
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// The value that `key` must have, if a requirement fixes it.
    pub fn exact(&self, key: &str) -> Option<&str> {
        use LabelOperator::{DoubleEquals, Equals, In};
        let r = self.requirements.iter().find(|r| r.key == key)?;
        match (r.operator, r.values.as_slice()) {
            (Equals | DoubleEquals | In, [value]) => Some(value),
            _ => None,
        }
    }

    pub fn matches<'a>(&self, get: &dyn Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches(get(&r.key)))
    }

    /// Matches `metadata.labels` of a tree, or any other map of strings.
    pub fn matches_map(&self, labels: Option<&Value>) -> bool {
        self.matches(&|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    }
}

impl LabelRequirement {
    /// A requirement, or all its errors, worded as upstream.
    fn checked(
        key: String,
        operator: LabelOperator,
        values: Vec<String>,
    ) -> Result<LabelRequirement, String> {
        let mut errors = Vec::new();
        let key_errors = qualified_name(&key);
        if !key_errors.is_empty() {
            errors.push(FieldError::invalid("key", quote(&key), key_errors.join("; ")));
        }
        let number_of_values = match operator {
            LabelOperator::In | LabelOperator::NotIn if values.is_empty() => {
                Some("for 'in', 'notin' operators, values set can't be empty")
            }
            LabelOperator::Equals | LabelOperator::DoubleEquals | LabelOperator::NotEquals
                if values.len() != 1 =>
            {
                Some("exact-match compatibility requires one single value")
            }
            LabelOperator::Exists | LabelOperator::DoesNotExist if !values.is_empty() => {
                Some("values set must be empty for exists and does not exist")
            }
            LabelOperator::GreaterThan | LabelOperator::LessThan if values.len() != 1 => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => None,
        };
        if let Some(words) = number_of_values {
            errors.push(FieldError::invalid("values", list_in_json(&values), words));
        }
        if matches!(operator, LabelOperator::GreaterThan | LabelOperator::LessThan) {
            for (i, value) in values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err()) {
                let words = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(format!("values[{i}]"), quote(value), words));
            }
        }
        for (i, value) in values.iter().enumerate() {
            let words = label_value(value);
            if !words.is_empty() {
                errors.push(FieldError::invalid(
                    format!("values[{i}][{key}]"),
                    quote(value),
                    words.join("; "),
                ));
            }
        }
        let mut lines: Vec<String> = Vec::new();
        for line in errors.iter().map(ToString::to_string) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        match lines.as_slice() {
            [] => Ok(LabelRequirement { key, operator, values }),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    /// Matches the label's value, `None` if the object does not have the label.
    pub fn matches(&self, label: Option<&str>) -> bool {
        let listed = |label: &str| self.values.iter().any(|value| value == label);
        match self.operator {
            LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals => {
                label.is_some_and(listed)
            }
            LabelOperator::NotIn | LabelOperator::NotEquals => !label.is_some_and(listed),
            LabelOperator::Exists => label.is_some(),
            LabelOperator::DoesNotExist => label.is_none(),
            LabelOperator::GreaterThan | LabelOperator::LessThan => {
                let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
                match (number(label), number(self.values.first().map(String::as_str))) {
                    (Some(label), Some(bound)) if self.operator == LabelOperator::GreaterThan => {
                        label > bound
                    }
                    (Some(label), Some(bound)) => label < bound,
                    _ => false,
                }
            }
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let key = &self.key;
        match self.operator {
            LabelOperator::Equals => write!(f, "{key}={values}"),
            LabelOperator::DoubleEquals => write!(f, "{key}=={values}"),
            LabelOperator::NotEquals => write!(f, "{key}!={values}"),
            LabelOperator::In => write!(f, "{key} in ({values})"),
            LabelOperator::NotIn => write!(f, "{key} notin ({values})"),
            LabelOperator::Exists => write!(f, "{key}"),
            LabelOperator::DoesNotExist => write!(f, "!{key}"),
            LabelOperator::GreaterThan => write!(f, "{key}>{values}"),
            LabelOperator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

fn list_in_json(values: &[String]) -> String {
    if values.is_empty() {
        return "null".to_owned();
    }
    format!("[{}]", values.iter().map(|value| quote(value)).collect::<Vec<_>>().join(","))
}
