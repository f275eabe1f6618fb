//! Names of fields as identifiers: `a-b` is `a__dash__b`, `namespace` is `__namespace__`.

use std::borrow::Cow;

/// Words no identifier may be.
pub const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

const MARKS: [(&str, &str); 4] = [("underscores", "__"), ("dot", "."), ("dash", "-"), ("slash", "/")];

/// The identifier for a field; `None` if its name cannot be written as one.
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.chars().all(|c| plain(c) || matches!(c, '-' | '.' | '/')) {
        return None;
    }
    if name.chars().all(plain) && !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let mut out = String::with_capacity(name.len() + 8);
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        match MARKS.iter().find(|(_, text)| rest.starts_with(text)) {
            Some((word, text)) => {
                out.extend(["__", word, "__"]);
                rest = &rest[text.len()..];
            }
            None => {
                out.push(first);
                rest = &rest[1..];
            }
        }
    }
    Some(Cow::Owned(out))
}

/// The field an identifier stands for; `None` if it has a sequence that escapes nothing.
pub fn unescape(escaped: &str) -> Option<Cow<'_, str>> {
    if !escaped.contains("__") {
        return Some(Cow::Borrowed(escaped));
    }
    // As the pattern `_{2}[^_]+_{2}` finds them, from the left and without overlap.
    let mut out = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = rest.find("__") {
        let inner = &rest[at + 2..];
        let word = &inner[..inner.find('_').unwrap_or(inner.len())];
        if word.is_empty() || !inner[word.len()..].starts_with("__") {
            // A longer run of underscores may start a sequence one character later.
            out.push_str(&rest[..at + 1]);
            rest = &rest[at + 1..];
            continue;
        }
        out.push_str(&rest[..at]);
        match MARKS.iter().find(|(mark, _)| *mark == word) {
            Some((_, text)) => out.push_str(text),
            None if RESERVED.contains(&word) && word.len() + 4 == escaped.len() => out.push_str(word),
            None => return None,
        }
        rest = &inner[word.len() + 2..];
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}
