//! Formats values and their types as Go prints them, for messages that include a part of the patch.

use crate::{Value, deep};

/// `%v`: `map[a:1 b:[x y]]`, names sorted.
pub(super) fn print(value: &Value) -> String {
    let mut out = String::new();
    print_into(value, &mut out);
    out
}

/// `%s`, which for anything but a string names the type too.
pub(super) fn print_as_text(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        other => format!("%!s({}={})", type_name(other), print(other)),
    }
}

/// The type of a value in a message that formats it as text.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        other => go_type(other),
    }
}

/// `%T`: the Go type a decoded JSON value has.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::Str(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Map(_) | Value::Raw(_) => "map[string]interface {}",
    }
}

fn print_into(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int(i) => out.push_str(&i.to_string()),
        Value::Float(f) => out.push_str(&print_float(*f)),
        Value::Str(text) => out.push_str(text),
        Value::Raw(text) => out.push_str(text),
        Value::List(list) => {
            out.push('[');
            for (i, value) in list.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                deep(|| print_into(value, out));
            }
            out.push(']');
        }
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            out.push_str("map[");
            for (i, (name, value)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(name);
                out.push(':');
                deep(|| print_into(value, out));
            }
            out.push(']');
        }
    }
}

/// The shortest digits; with an exponent below 1e-4 and from 1e6.
fn print_float(f: f64) -> String {
    let size = f.abs();
    if f == 0.0 || (1e-4..1e6).contains(&size) {
        return format!("{f}");
    }
    let text = format!("{f:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(rest) => ('-', rest),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_as_go_prints_them() {
        let map = Value::Map(
            [("b".into(), Value::Int(1)), ("a".into(), Value::from(vec![Value::Null, "x".into()]))]
                .into_iter()
                .collect(),
        );
        assert_eq!(print(&map), "map[a:[<nil> x] b:1]");
        assert_eq!(print(&Value::Float(1.5)), "1.5");
        assert_eq!(print(&Value::Float(1234567.5)), "1.2345675e+06");
        assert_eq!(print(&Value::Float(0.00001)), "1e-05");
        assert_eq!(print_as_text(&Value::Int(1)), "%!s(int64=1)");
    }
}
