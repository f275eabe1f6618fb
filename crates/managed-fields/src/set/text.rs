//! `FieldsV1` as the text it is stored as, without a tree between: what every write reads and writes again.

use object::deep;

use super::{Entry, Set};
use crate::path::PathElement;

impl Set {
    /// The JSON of `FieldsV1` as it stands in an object: with the escapes of Go's encoder.
    pub fn to_raw(&self) -> Box<str> {
        written(self, codec::json::write_string).into()
    }
}

/// The JSON of a set; `string` appends a quoted string.
pub(super) fn written(set: &Set, string: fn(&str, &mut Vec<u8>)) -> String {
    let mut out = Vec::with_capacity(512);
    write(set, false, string, &mut String::new(), &mut out);
    String::from_utf8(out).unwrap_or_default()
}

fn write(set: &Set, is_member: bool, string: fn(&str, &mut Vec<u8>), name: &mut String, out: &mut Vec<u8>) {
    out.push(b'{');
    if is_member && !set.is_empty() {
        out.extend_from_slice(b"\".\":{}");
    }
    for (i, entry) in set.entries().iter().enumerate() {
        if i > 0 || is_member {
            out.push(b',');
        }
        name.clear();
        entry.element.write(name);
        string(name, out);
        out.push(b':');
        deep(|| write(&entry.children, entry.member, string, name, out));
    }
    out.push(b'}');
}

/// The set of a text that [`Set::to_raw`] wrote; `None` for any other, and for names with other escapes than `\"` and `\\`.
pub(super) fn read(text: &str) -> Option<Set> {
    let mut reader = Reader { text, at: 0, name: String::new(), written: String::new() };
    let (set, _) = reader.level(true)?;
    (reader.at == text.len()).then_some(set)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// A name without its escapes.
    name: String,
    written: String,
}

impl Reader<'_> {
    fn take(&mut self, byte: u8) -> Option<()> {
        (self.text.as_bytes().get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    /// What is below an element, and whether it is a member itself.
    fn level(&mut self, is_root: bool) -> Option<(Set, bool)> {
        self.take(b'{')?;
        if self.take(b'}').is_some() {
            return Some((Set::new(), !is_root));
        }
        let mut is_member = false;
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let is_first = entries.is_empty() && !is_member;
            if is_first && !is_root && self.text[self.at..].starts_with("\".\":{},") {
                self.at += "\".\":{},".len();
                is_member = true;
                continue;
            }
            let element = self.element()?;
            self.take(b':')?;
            let (children, member) = deep(|| self.level(false))?;
            if entries.last().is_some_and(|last| last.element >= element) {
                return None;
            }
            entries.push(Entry { element, member, children });
            if self.take(b'}').is_some() {
                return Some((Set::of_sorted(entries), is_member));
            }
            self.take(b',')?;
        }
    }

    fn element(&mut self) -> Option<PathElement> {
        self.take(b'"')?;
        let rest = &self.text[self.at..];
        let end =
            rest.bytes().position(|c| matches!(c, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2 | 0..0x20))?;
        if let (name, b'"') = (&rest[..end], rest.as_bytes()[end]) {
            self.at += end + 1;
            let element = PathElement::parse(name).ok()??;
            return match element {
                PathElement::Field(_) => Some(element),
                element => self.written_as(element, name.len(), |written| written == name),
            };
        }
        self.escaped(end)
    }

    /// A name with quotes or backslashes in it, as keys and values have them; others are rare.
    fn escaped(&mut self, plain: usize) -> Option<PathElement> {
        let (mut name, start) = (std::mem::take(&mut self.name), self.at);
        name.clear();
        name.push_str(&self.text[start..start + plain]);
        let mut rest = self.text[start + plain..].char_indices();
        let end = loop {
            match rest.next()? {
                (at, '"') => break at,
                (_, '\\') => match rest.next()?.1 {
                    c @ ('"' | '\\') => name.push(c),
                    _ => return None,
                },
                (_, '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..' ') => return None,
                (_, c) => name.push(c),
            }
        };
        self.at = start + plain + end + 1;
        let element = PathElement::parse(&name).ok()??;
        let element = self.written_as(element, name.len(), |written| written == name);
        self.name = name;
        element
    }

    /// The element, if it is written that way.
    fn written_as(
        &mut self,
        element: PathElement,
        len: usize,
        is_same: impl FnOnce(&str) -> bool,
    ) -> Option<PathElement> {
        self.written.clear();
        self.written.reserve(len);
        element.write(&mut self.written);
        is_same(&self.written).then_some(element)
    }
}
