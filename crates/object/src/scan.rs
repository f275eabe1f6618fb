//! Finds the few parts of an encoded object that the server needs, without parsing the rest.
//!
//! Input is a stored value: canonical JSON written by us, or by another program on the same etcd. Anything
//! that is no JSON object with metadata is reported, never guessed at: its bytes are what clients get.

use std::collections::HashSet;

use catalog::Name;
use memchr::memchr2;

/// A byte range of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub len: u32,
}

impl Span {
    pub const NONE: Span = Span { start: 0, len: 0 };

    fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, len: (end - start) as u32 }
    }
    pub fn of(self, body: &[u8]) -> &[u8] {
        &body[self.start as usize..(self.start + self.len) as usize]
    }
    pub fn is_none(self) -> bool {
        self.len == 0
    }
    pub fn end(self) -> u32 {
        self.start + self.len
    }
}

/// The byte ranges found in one object.
#[derive(Debug, Default)]
pub struct Places {
    /// The complete `{...}` of metadata.
    pub metadata: Span,
    /// From after the opening brace up to (not including) `"metadata"`: kind and apiVersion with their commas.
    pub type_meta: Span,
    /// The text of the uid, without quotes.
    pub uid: Span,
    /// The text of an existing resourceVersion, without quotes; it may be empty.
    pub resource_version: Option<Span>,
    pub deleting: bool,
    /// The `[...]` of ownerReferences.
    pub owners: Span,
    /// Keys and values of the labels, without quotes (label syntax needs no escapes).
    pub labels: Vec<(Span, Span)>,
    /// One per requested path, in order: the scalar's text, strings with their quotes.
    pub fields: Vec<Span>,
}

/// `wanted`: paths below the top level, for field selectors.
pub fn scan(body: &[u8], wanted: &[&[Name]]) -> Option<Places> {
    let mut s = Scanner { body, at: 0, open: Vec::new() };
    let mut out = Places { fields: vec![Span::NONE; wanted.len()], ..Places::default() };
    s.expect(b'{')?;
    let first = s.at;
    let mut metadata_seen = false;
    let mut seen = Names::default();
    if s.peek()? == b'}' {
        return None;
    }
    loop {
        let member = s.at;
        let name = s.name()?;
        // Duplicate: ambiguous.
        if !seen.insert(name) {
            return None;
        }
        if name == b"metadata" {
            out.type_meta = Span::new(first, member);
            let start = s.at;
            s.metadata(&mut out)?;
            out.metadata = Span::new(start, s.at);
            metadata_seen = true;
        } else if wanted.iter().any(|path| path[0].as_bytes() == name) {
            s.wanted(name, wanted, 0, &mut out.fields)?;
        } else {
            s.skip()?;
        }
        match s.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    (metadata_seen && s.at == body.len()).then_some(out)
}

/// The names an object has had so far. Ours have a handful; other writers' may have any number.
#[derive(Default)]
pub struct Names<'a> {
    few: [&'a [u8]; 12],
    len: usize,
    more: HashSet<&'a [u8]>,
}

impl<'a> Names<'a> {
    /// False if it is a duplicate.
    pub fn insert(&mut self, name: &'a [u8]) -> bool {
        if self.few[..self.len].contains(&name) {
            return false;
        }
        match self.few.get_mut(self.len) {
            Some(place) => {
                *place = name;
                self.len += 1;
                true
            }
            None => self.more.insert(name),
        }
    }
}

/// The members of an object: names without quotes, and values. `None` if it is not an object.
pub fn members(body: &[u8]) -> Option<Vec<(Span, Span)>> {
    let mut s = Scanner { body, at: 0, open: Vec::new() };
    let mut out = Vec::new();
    s.expect(b'{')?;
    loop {
        let name = s.string()?;
        s.expect(b':')?;
        out.push((name, s.skip()?));
        match s.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    s.space();
    (s.at == body.len()).then_some(out)
}

/// Strings are scanned so far before a search for their end begins.
const SHORT: usize = 24;

struct Scanner<'a> {
    body: &'a [u8],
    at: usize,
    /// The closing brackets still expected while skipping: on the heap, so that depth costs no stack.
    open: Vec<u8>,
}

impl<'a> Scanner<'a> {
    fn space(&mut self) {
        // One comparison if there is none, as in everything we wrote.
        while let Some(&c) = self.body.get(self.at)
            && c <= b' '
            && matches!(c, b' ' | b'\n' | b'\t' | b'\r')
        {
            self.at += 1;
        }
    }
    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.body.get(self.at).copied()
    }
    fn next(&mut self) -> Option<u8> {
        let b = self.peek()?;
        self.at += 1;
        Some(b)
    }
    fn expect(&mut self, want: u8) -> Option<()> {
        (self.next()? == want).then_some(())
    }
    /// A string's text, still escaped, without quotes.
    fn string(&mut self) -> Option<Span> {
        self.expect(b'"')?;
        let start = self.at;
        // Most end soon: a byte-by-byte scan is faster than starting a search.
        for byte in self.body.get(start..)?.iter().take(SHORT) {
            match byte {
                b'"' => {
                    self.at += 1;
                    return Some(Span::new(start, self.at - 1));
                }
                b'\\' | 0..0x20 => break,
                _ => self.at += 1,
            }
        }
        loop {
            let rest = self.body.get(self.at..)?;
            let (plain, found) = rest.split_at(memchr2(b'"', b'\\', rest)?);
            // Without an early exit, so that it is vectorised.
            if plain.iter().fold(false, |control, byte| control | (*byte < 0x20)) {
                return None;
            }
            self.at += plain.len() + 1;
            if found[0] == b'"' {
                return Some(Span::new(start, self.at - 1));
            }
            self.at += match found.get(1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 1,
                b'u' if found.get(2..6)?.iter().all(u8::is_ascii_hexdigit) => 5,
                _ => return None,
            };
        }
    }
    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.body.get(self.at..)?.starts_with(word).then(|| self.at += word.len())
    }
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.body.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }
    fn number(&mut self) -> Option<()> {
        let _sign = self.word(b"-");
        // Only zero itself starts with a zero.
        if self.word(b"0").is_none() {
            self.digits()?;
        }
        if self.word(b".").is_some() {
            self.digits()?;
        }
        if self.word(b"e").or_else(|| self.word(b"E")).is_some() {
            let _sign = self.word(b"+").or_else(|| self.word(b"-"));
            self.digits()?;
        }
        Some(())
    }
    /// A member's name; the cursor is then at its value.
    fn name(&mut self) -> Option<&'a [u8]> {
        let body = self.body;
        let name = self.string()?;
        self.expect(b':')?;
        self.space();
        Some(name.of(body))
    }
    /// Any value.
    fn skip(&mut self) -> Option<Span> {
        self.space();
        let start = self.at;
        self.open.clear();
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                b'{' => {
                    self.at += 1;
                    if self.peek()? != b'}' {
                        self.open.push(b'}');
                        self.name()?;
                        continue;
                    }
                    self.at += 1;
                }
                b'[' => {
                    self.at += 1;
                    if self.peek()? != b']' {
                        self.open.push(b']');
                        continue;
                    }
                    self.at += 1;
                }
                _ => return None,
            }
            // Behind a value: what is around it ends, or goes on.
            loop {
                let Some(close) = self.open.last().copied() else {
                    return Some(Span::new(start, self.at));
                };
                match self.next()? {
                    b',' => {
                        if close == b'}' {
                            self.name()?;
                        }
                        break;
                    }
                    end if end == close => {
                        self.open.pop();
                    }
                    _ => return None,
                }
            }
        }
    }
    /// Iterates over an object's members; `visit` is called at each value and must consume it.
    fn members(&mut self, mut visit: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        if self.peek()? != b'{' {
            self.skip()?;
            return Some(());
        }
        self.at += 1;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            let name = self.name()?;
            visit(self, name)?;
            match self.next()? {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }
    fn metadata(&mut self, out: &mut Places) -> Option<()> {
        if self.peek()? != b'{' {
            return None;
        }
        self.members(|s, name| {
            match name {
                b"uid" => out.uid = s.string()?,
                b"resourceVersion" if out.resource_version.is_some() => return None,
                b"resourceVersion" => out.resource_version = Some(s.string()?),
                b"deletionTimestamp" => {
                    out.deleting = s.peek()? == b'"';
                    s.skip()?;
                }
                b"ownerReferences" => out.owners = s.skip()?,
                b"labels" => s.members(|s, _| {
                    // The name was just consumed: its text ends before `":`.
                    let key = s.last_name();
                    let value = s.string()?;
                    out.labels.push((key, value));
                    Some(())
                })?,
                _ => {
                    s.skip()?;
                }
            }
            Some(())
        })
    }
    /// The span of the member name right before the cursor.
    fn last_name(&self) -> Span {
        let mut end = self.at;
        while self.body[end - 1] != b':' {
            end -= 1;
        }
        end -= 1;
        while self.body[end - 1] != b'"' {
            end -= 1;
        }
        let end = end - 1;
        let mut start = end;
        while start > 0 && self.body[start - 1] != b'"' {
            start -= 1;
        }
        Span::new(start, end)
    }
    fn wanted(&mut self, name: &[u8], wanted: &[&[Name]], depth: usize, fields: &mut [Span]) -> Option<()> {
        // Paths that lead through this member at this depth.
        let here = |path: &&[Name]| path.len() > depth && path[depth].as_bytes() == name;
        let ends = |path: &&[Name]| here(path) && path.len() == depth + 1;
        if wanted.iter().any(&ends) {
            let span = self.skip()?;
            if !matches!(self.body[span.start as usize], b'{' | b'[') && span.of(self.body) != b"null" {
                // One member may be a field of its own and stand in for another.
                for (field, _) in fields.iter_mut().zip(wanted).filter(|(_, path)| ends(path)) {
                    *field = span;
                }
            }
            return Some(());
        }
        let deeper: Vec<&[Name]> = wanted.iter().map(|p| if here(p) { *p } else { &[] as &[Name] }).collect();
        self.members(|s, inner| {
            if deeper.iter().any(|p| p.len() > depth + 1 && p[depth + 1].as_bytes() == inner) {
                s.wanted(inner, &deeper, depth + 1, fields)
            } else {
                s.skip().map(|_| ())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: &str, span: Span) -> &str {
        std::str::from_utf8(span.of(body.as_bytes())).unwrap()
    }

    fn path(dotted: &str) -> Vec<Name> {
        dotted.split('.').map(|n| Name::from(n.to_owned())).collect()
    }

    #[test]
    fn finds_metadata_and_wanted_fields() {
        let body = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u-1","labels":{"app":"web","x/y":""},"ownerReferences":[{"uid":"o"}]},"spec":{"containers":[{"name":"c","image":"}\""}],"nodeName":"n1","hostNetwork":true},"status":{"phase":"Running"}}"#;
        let paths =
            [path("spec.nodeName"), path("status.phase"), path("spec.hostNetwork"), path("status.podIP")];
        let wanted: Vec<&[Name]> = paths.iter().map(Vec::as_slice).collect();
        let p = scan(body.as_bytes(), &wanted).unwrap();
        assert_eq!(text(body, p.uid), "u-1");
        assert_eq!(text(body, p.type_meta), r#""kind":"Pod","apiVersion":"v1","#);
        let labels: Vec<_> = p.labels.iter().map(|(k, v)| (text(body, *k), text(body, *v))).collect();
        assert_eq!(labels, [("app", "web"), ("x/y", "")]);
        assert_eq!(text(body, p.owners), r#"[{"uid":"o"}]"#);
        assert_eq!(text(body, p.fields[0]), "\"n1\"");
        assert_eq!(text(body, p.fields[1]), "\"Running\"");
        assert_eq!(text(body, p.fields[2]), "true");
        assert!(p.fields[3].is_none());
        assert!(!p.deleting);
    }

    #[test]
    fn cut_bodies_are_refused() {
        let body = r#"{"kind":"Pod","metadata":{"name":"a","labels":{"a":"b"}},"spec":{"nodeName":"x"}}"#;
        let path = path("spec.nodeName");
        let paths = [path.as_slice()];
        for n in 0..body.len() {
            assert!(scan(&body.as_bytes()[..n], &paths).is_none(), "cut at {n}");
        }
        assert!(scan(body.as_bytes(), &paths).is_some());
        // Also if nothing after the metadata was requested: clients get all of it.
        for n in 0..body.len() {
            assert!(scan(&body.as_bytes()[..n], &[]).is_none(), "cut at {n}");
        }
    }

    #[test]
    fn only_json_is_an_object() {
        let scanned =
            |rest: &str| scan(format!("{{\"metadata\":{{}},\"x\":{rest}}}").as_bytes(), &[]).is_some();
        let good = r#"0|-0.5e+10|1E3|true|false|null|""|"\u00e9\n\""|[]|{}|[1,[2,{"a":[]}]]|[ 1 , 2 ]|{ "a" : 1 , "b" : { } }"#;
        for good in good.split('|') {
            assert!(scanned(good), "{good}");
        }
        let bad = r#"|01|1.|.5|-|1e|+1|nul|True|nan|'a'|"\x"|"\u12g4"|[1,]|[1 2]|[1}|{1:2}|{"a"}|{"a":}|{"a":1,}|{,}|[|]|1,|1 2|{}{}|a:b"#;
        for bad in bad.split('|').chain(["\"\n\"", "\"\u{1}\""]) {
            assert!(!scanned(bad), "{bad}");
        }
        assert!(scan(br#"{"metadata":{}} x"#, &[]).is_none());
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        assert!(scanned(&deep), "depth costs no stack");
    }
}
