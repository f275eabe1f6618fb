//! Field selectors: `metadata.name=a,spec.nodeName!=b`.
//!
//! The selectable fields of a resource are not known here; the caller checks [`FieldSelector::requirements`].

use std::fmt;

/// Terms, all of which must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    pub field: String,
    /// `=` or `==`; false for `!=`.
    pub equal: bool,
    pub value: String,
}

impl FieldSelector {
    pub fn parse(text: &str) -> Result<FieldSelector, String> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, equal, value)) = split_term(term) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
            };
            let value = unescape(value)?;
            // "=" alone asks for nothing.
            if !(field.is_empty() && value.is_empty()) {
                requirements.push(FieldRequirement { field: field.to_owned(), equal, value });
            }
        }
        Ok(FieldSelector { requirements })
    }

    pub fn everything() -> FieldSelector {
        FieldSelector::default()
    }
    /// One term: `field=value`.
    pub fn of(field: impl Into<String>, value: impl Into<String>) -> FieldSelector {
        let term = FieldRequirement { field: field.into(), equal: true, value: value.into() };
        FieldSelector { requirements: vec![term] }
    }
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }
    /// The value that `field` must have, if a term requires one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.equal && r.field == field).map(|r| r.value.as_str())
    }
    /// An absent field equals the empty value.
    pub fn matches<'a>(&self, get: &dyn Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|r| (get(&r.field).unwrap_or_default() == r.value) == r.equal)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, r) in self.requirements.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{}{}", r.field, if r.equal { "=" } else { "!=" })?;
            for c in r.value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

/// Splits at commas not escaped by a backslash.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// At the first operator: the field, whether it is equality, and the value still escaped.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let bytes = term.as_bytes();
    for i in 0..bytes.len() {
        match (bytes[i], bytes.get(i + 1)) {
            (b'!', Some(b'=')) => return Some((&term[..i], false, &term[i + 2..])),
            (b'=', Some(b'=')) => return Some((&term[..i], true, &term[i + 2..])),
            (b'=', _) => return Some((&term[..i], true, &term[i + 1..])),
            _ => {}
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(format!("invalid field selector: invalid escape sequence: \\{c}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            // Upstream prints the character's number.
            ',' | '=' => {
                return Err(format!("invalid field selector: unescaped character in value: {}", c as u32));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, fields: &[(&str, &str)]) -> bool {
        let selector = FieldSelector::parse(selector).expect(selector);
        let fields: Vec<(String, String)> =
            fields.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        selector.matches(&|name| fields.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str()))
    }

    #[test]
    fn terms_match_fields() {
        for (selector, fields, want) in [
            ("", &[][..], true),
            ("a=b", &[("a", "b")], true),
            ("a==b", &[("a", "b")], true),
            ("a=b", &[("a", "c")], false),
            ("a!=b", &[("a", "c")], true),
            ("a!=b", &[("a", "b")], false),
            ("a!=b", &[], true),
            ("a=", &[], true),
            ("a!=", &[], false),
            ("a=b,c=d", &[("a", "b"), ("c", "d")], true),
            ("a=b,c=d", &[("a", "b")], false),
            (r"a=x\,y\=z\\", &[("a", r"x,y=z\")], true),
        ] {
            assert_eq!(matches(selector, fields), want, "{selector} {fields:?}");
        }
    }

    #[test]
    fn wrong_selectors_are_refused_in_upstreams_words() {
        for (selector, words) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("x=1,a<b", "invalid selector: 'x=1,a<b'; can't understand 'a<b'"),
            (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
            (r"a=b\", r"invalid field selector: invalid escape sequence: \"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(FieldSelector::parse(selector).unwrap_err(), words);
        }
    }

    #[test]
    fn an_empty_term_selects_everything() {
        for text in ["", "=", "!=", ",", ",,"] {
            assert!(FieldSelector::parse(text).unwrap().is_everything(), "{text}");
        }
    }

    #[test]
    fn exact_finds_the_required_value() {
        let selector = FieldSelector::parse("spec.nodeName!=n,metadata.name=a").unwrap();
        assert_eq!(selector.exact("metadata.name"), Some("a"));
        assert_eq!(selector.exact("spec.nodeName"), None);
        assert_eq!(selector.to_string(), "metadata.name=a,spec.nodeName!=n");
    }

    #[test]
    fn printing_escapes_what_parsing_unescapes() {
        let selector = FieldSelector::of("a", r"x,y=z\");
        assert_eq!(selector.to_string(), r"a=x\,y\=z\\");
        assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
    }
}
