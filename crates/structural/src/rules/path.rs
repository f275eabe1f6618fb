//! Paths of fields in a schema (`.spec.a['b.c']`): what one leads to.

use object::Value;

use crate::read::member;

/// A path that leads from property to property, or into a map.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldPath<'v> {
    /// As a field of an object is named: `spec.a[key]`.
    pub text: String,
    /// The names on the way.
    pub names: Vec<String>,
    /// The schema there; `None` where a map allows anything.
    pub schema: Option<&'v Value>,
}

/// Follows a path, or says why it cannot be followed. `brackets`: whether `['name']` may be part of it.
pub fn find<'v>(path: &str, schema: &'v Value, brackets: bool) -> Result<FieldPath<'v>, String> {
    let mut tokens = Tokens { rest: path };
    let mut found = FieldPath { text: String::new(), names: Vec::new(), schema: Some(schema) };
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        match token {
            "[" => {
                if !brackets {
                    return Err("array notation is not allowed".to_owned());
                }
                let quoted = tokens.next().ok_or_else(end)?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let Some(inner) = inner else {
                    return Err(format!("expected single quoted string but got {quoted}"));
                };
                let name = unescape(inner).map_err(|error| format!("invalid string literal: {error}"))?;
                found.step(name)?;
                match tokens.next().ok_or_else(end)? {
                    "]" => {}
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            "." => {
                let name = tokens.next().ok_or_else(end)?;
                found.step(name.to_owned())?;
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

impl FieldPath<'_> {
    fn step(&mut self, name: String) -> Result<(), String> {
        let nothing = || "does not refer to a valid field".to_owned();
        let here = self.schema.ok_or_else(nothing)?;
        let properties =
            member(here, "properties").filter(|map| map.as_map().is_some_and(|map| !map.is_empty()));
        if let Some(properties) = properties {
            self.schema = Some(properties.get(&name).ok_or_else(nothing)?);
            if !self.text.is_empty() {
                self.text.push('.');
            }
            self.text.push_str(&name);
        } else {
            let values = member(here, "additionalProperties").ok_or_else(nothing)?;
            self.schema = Some(values).filter(|values| values.as_map().is_some());
            self.text.push_str(&format!("[{name}]"));
        }
        self.names.push(name);
        Ok(())
    }
}

/// A path in parts: the delimiters `.`, `[`, `]`, quoted strings, and what is between them.
struct Tokens<'p> {
    rest: &'p str,
}

impl<'p> Iterator for Tokens<'p> {
    type Item = &'p str;
    fn next(&mut self) -> Option<&'p str> {
        let bytes = self.rest.as_bytes();
        let end = match bytes.first()? {
            b'\'' => {
                let closes = |i: &usize| bytes[*i] == b'\'' && bytes[i - 1] != b'\\';
                (1..bytes.len()).find(closes).map_or(bytes.len(), |i| i + 1)
            }
            b'.' | b'[' | b']' => 1,
            _ => self.rest.find(['.', '[', ']']).unwrap_or(bytes.len()),
        };
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut name = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            name.push(c);
            continue;
        }
        match chars.next() {
            Some('a') => name.push('\u{7}'),
            Some('b') => name.push('\u{8}'),
            Some('f') => name.push('\u{c}'),
            Some('n') => name.push('\n'),
            Some('r') => name.push('\r'),
            Some('t') => name.push('\t'),
            Some('v') => name.push('\u{b}'),
            Some(own @ ('\'' | '\\')) => name.push(own),
            Some(other) => return Err(format!("invalid escape char \\{other}")),
            // A backslash at the end escapes nothing.
            None => name.push('\\'),
        }
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn paths_lead_through_properties_and_into_maps() {
        let schema = codec::json::parse(
            br#"{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string"}},
                "b.c":{"type":"object","properties":{"d'":{"type":"string"}}}}}"#,
            None,
        )
        .expect("JSON");
        for (path, expected) in [
            (".a", Ok("a")),
            (".a.any", Ok("a[any]")),
            (".a['x.y']", Ok("a[x.y]")),
            (".a.any.more", Err("does not refer to a valid field")),
            ("['b.c']", Ok("b.c")),
            (r"['b.c']['d\'']", Ok("b.c.d'")),
            (".b", Err("does not refer to a valid field")),
            ("-x", Err("expected [ or . but got: -x")),
            ("a", Err("expected [ or . but got: a")),
            (".", Err("unexpected end of JSON path")),
            ("['b.c'", Err("unexpected end of JSON path")),
            ("[b]", Err("expected single quoted string but got b")),
            (r"['b\q']", Err(r"invalid string literal: invalid escape char \q")),
        ] {
            let found = find(path, &schema, true).map(|found| found.text);
            assert_eq!(found.as_deref().map_err(|e| e.as_str()), expected, "{path}");
        }
        assert_eq!(find(".a['x']", &schema, false).unwrap_err(), "array notation is not allowed");
    }
}
