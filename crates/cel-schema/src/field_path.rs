//! `fieldPath` of a rule (`.spec.a['b.c']`): the field of the object an error is about.

use structural::{Additional, Node};

/// The path as errors write it, from the rule's node on; `None` if it leads nowhere.
pub(crate) fn normalise(path: &str, node: Node<'_>) -> Option<String> {
    let (mut rest, mut here, mut out) = (path, node, String::new());
    while !rest.is_empty() {
        let (name, after) = next(rest)?;
        if here.properties().len() > 0 {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
            here = here.property(&name)?;
        } else {
            let Additional::Schema(values) = here.additional_properties() else { return None };
            out.extend(["[", &name, "]"]);
            here = values;
        }
        rest = after;
    }
    Some(out)
}

/// The name at the start, and what comes behind it: `.name` or `['name']`.
fn next(path: &str) -> Option<(String, &str)> {
    if let Some(after) = path.strip_prefix('.') {
        if let Some(quoted) = after.strip_prefix('\'') {
            // Behind a dot quotes are a part of the name, and delimiters between them too.
            let end = unquoted_end(quoted).map_or(after.len(), |end| end + 2);
            return Some((after[..end].to_owned(), &after[end..]));
        }
        let end = after.find(['.', '[', ']']).unwrap_or(after.len());
        // A delimiter where a name should be is taken for the name.
        let end = if end == 0 { after.chars().next()?.len_utf8() } else { end };
        return Some((after[..end].to_owned(), &after[end..]));
    }
    let after = path.strip_prefix("['")?;
    let end = unquoted_end(after)?;
    let rest = after[end + 1..].strip_prefix(']')?;
    Some((unescape(&after[..end])?, rest))
}

/// Where the quote stands that ends a name.
fn unquoted_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (0..bytes.len()).find(|i| bytes[*i] == b'\'' && (*i == 0 || bytes[*i - 1] != b'\\'))
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            // A backslash at the end, or before a line break, escapes nothing.
            None => out.push('\\'),
            Some('\n') => out.push_str("\\\n"),
            Some(escaped) => out.push(match escaped {
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
        }
    }
    Some(out)
}
