//! Paths of fields in a schema (`.spec.a['b.c']`): whether one leads to something.

use object::Value;

use crate::check::member;

/// Whether the path leads from property to property, or into a map, of this schema.
pub(super) fn is_valid(path: &str, schema: &Value) -> bool {
    let (mut rest, mut here) = (path, schema);
    while !rest.is_empty() {
        let (name, after) = match next(rest) {
            Some(found) => found,
            None => return false,
        };
        let inside = match (member(here, "properties"), member(here, "additionalProperties")) {
            (Some(properties), _) => member(properties, &name),
            (None, values) => values.filter(|values| values.as_map().is_some()),
        };
        match inside {
            Some(inside) => (rest, here) = (after, inside),
            None => return false,
        }
    }
    true
}

/// The name at the start, and what comes behind it: `.name` or `['name']`.
fn next(path: &str) -> Option<(String, &str)> {
    if let Some(after) = path.strip_prefix('.') {
        let end = after.find(['.', '[', ']']).unwrap_or(after.len());
        // A delimiter where a name should be is taken for the name.
        let end = if end == 0 { after.chars().next()?.len_utf8() } else { end };
        return Some((after[..end].to_owned(), &after[end..]));
    }
    let after = path.strip_prefix("['")?;
    let mut name = String::new();
    let mut chars = after.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return after[at + 1..].strip_prefix(']').map(|rest| (name, rest)),
            '\\' => name.push(match chars.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                own @ ('\'' | '\\') => own,
                _ => return None,
            }),
            c => name.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::is_valid;

    #[test]
    fn paths_lead_through_properties_and_into_maps() {
        let schema = crate::tests::json(
            r#"{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string"}},
                "b.c":{"type":"object","properties":{"d'":{"type":"string"}}}}}"#,
        );
        for (path, valid) in [
            (".a", true),
            (".a.any", true),
            (".a['x.y']", true),
            (".a.any.more", false),
            ("['b.c']", true),
            (r"['b.c']['d\'']", true),
            (".b", false),
            ("-x", false),
            ("a", false),
            (".", false),
            ("['b.c'", false),
            ("[b]", false),
            (r"['b\q']", false),
        ] {
            assert_eq!(is_valid(path, &schema), valid, "{path}");
        }
    }
}
