//! An object to be shown as a row: a tree read as Go reads a struct, where absent members are zero.

use object::{Value, time};

use super::{Cell, age};

/// An object and the moment it is shown at.
pub(crate) struct Row<'a> {
    pub object: &'a Value,
    /// Unix seconds.
    pub now: i64,
}

impl<'a> Row<'a> {
    pub fn name(&self) -> Cell {
        self.text(&["metadata", "name"]).into()
    }
    pub fn age(&self) -> Cell {
        self.since(self.at(&["metadata", "creationTimestamp"])).into()
    }
    pub fn is_deleted(&self) -> bool {
        is_deleted(self.object)
    }
    pub fn annotation(&self, name: &str) -> Option<&'a str> {
        self.object.str_at(&["metadata", "annotations", name])
    }

    pub fn at(&self, path: &[&str]) -> Option<&'a Value> {
        at(self.object, path)
    }
    pub fn text(&self, path: &[&str]) -> &'a str {
        text(self.object, path)
    }
    pub fn text_or(&self, path: &[&str], absent: &'a str) -> &'a str {
        text_or(self.object, path, absent)
    }
    pub fn optional(&self, path: &[&str], absent: &'a str) -> &'a str {
        self.object.str_at(path).unwrap_or(absent)
    }
    pub fn int(&self, path: &[&str]) -> i64 {
        int(self.object, path)
    }
    pub fn flag(&self, path: &[&str]) -> Option<bool> {
        self.at(path)?.as_bool()
    }
    pub fn list(&self, path: &[&str]) -> &'a [Value] {
        list(self.object, path)
    }
    pub fn count(&self, path: &[&str]) -> i64 {
        self.at(path).map_or(0, len)
    }

    /// How long ago a time was.
    pub fn since(&self, then: Option<&Value>) -> String {
        match seconds_of(then) {
            Some(then) => self.elapsed(then),
            None => "<unknown>".to_owned(),
        }
    }

    pub fn elapsed(&self, then: i64) -> String {
        age(then, self.now)
    }
}

/// A value deep inside; null is absent.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    value.at(path).filter(|v| !v.is_null())
}
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    value.str_at(path).unwrap_or("")
}
/// For strings with a placeholder: an empty string counts as absent too, unlike with [`Row::optional`].
pub(crate) fn text_or<'a>(value: &'a Value, path: &[&str], absent: &'a str) -> &'a str {
    value.str_at(path).filter(|t| !t.is_empty()).unwrap_or(absent)
}
pub(crate) fn int(value: &Value, path: &[&str]) -> i64 {
    value.at(path).and_then(Value::as_int).unwrap_or(0)
}
pub(crate) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    value.at(path).and_then(Value::as_list).unwrap_or(&[])
}
pub(crate) fn is_deleted(object: &Value) -> bool {
    seconds_of(at(object, &["metadata", "deletionTimestamp"])).is_some()
}

/// Entries of a list or a map.
pub(crate) fn len(value: &Value) -> i64 {
    let n = match value {
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => 0,
    };
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Unix seconds; `None` where Go's time would be zero.
pub(crate) fn seconds_of(value: Option<&Value>) -> Option<i64> {
    let (seconds, _) = time::parse(value?.as_str()?)?;
    (seconds != time::ZERO_SECONDS).then_some(seconds)
}

/// A number or a text (quantities, `maxUnavailable`) as it is shown.
pub(crate) fn scalar(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        _ => String::new(),
    }
}

/// A quantity in a struct: absent is zero.
pub(crate) fn quantity(value: &Value, path: &[&str]) -> String {
    at(value, path).map_or_else(|| "0".to_owned(), scalar)
}

/// The strings of a list.
pub(crate) fn strings(list: &[Value]) -> Vec<&str> {
    list.iter().filter_map(Value::as_str).collect()
}

/// The first condition of a type.
pub(crate) fn condition<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a Value> {
    conditions.iter().find(|c| text(c, &["type"]) == kind)
}
pub(crate) fn is_true(condition: &Value) -> bool {
    text(condition, &["status"]) == "True"
}

/// Names and images of the containers of the pod spec at `path`.
pub(crate) fn containers(object: &Value, path: &[&str]) -> [Cell; 2] {
    let containers = at(object, path).map_or(&[][..], |spec| list(spec, &["containers"]));
    let joined = |member| containers.iter().map(|c| text(c, &[member])).collect::<Vec<_>>().join(",").into();
    [joined("name"), joined("image")]
}

/// At most `max` of `all` and how many more there are.
pub(crate) fn some_of(shown: &[impl AsRef<str>], all: usize, max: usize, separator: &str) -> String {
    let mut out = String::new();
    for (i, item) in shown.iter().take(max).enumerate() {
        if i > 0 {
            out.push_str(separator);
        }
        out.push_str(item.as_ref());
    }
    if all > max {
        out.push_str(&format!(" + {} more...", all - max));
    }
    out
}
