//! An object as readers see it: immutable bytes with a small header.
//!
//! ```text
//! stored value   {"kind":"X","apiVersion":"v1","metadata":{"name":"a","uid":"u"},...}      what engines keep
//! publish(value, 7)                                         │ one splice
//! body           {"kind":"X","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"7"},...}
//!                 └── type_meta ──────────────┘└─ metadata ───────────────────────────────────────────┘
//! ```

use bytes::Bytes;
use catalog::{Name, Storage};
use parking_lot::Mutex;
use store::{Key, Revision};

use crate::scan::{Places, Span, scan};

/// One key at one revision. GET, LIST and WATCH copy from its body; nobody encodes it again.
pub struct Obj {
    body: Bytes,
    key: Key,
    revision: Revision,
    /// Unix seconds; 0: never.
    expires_at: u64,
    /// The text `publish` put in, to be cut out again for the stored value.
    splice: Span,
    type_meta: Span,
    metadata: Span,
    uid: Span,
    owners: Span,
    labels: Box<[(Span, Span)]>,
    fields: Box<[FieldText]>,
    prefix_len: u16,
    deleting: bool,
    /// Other forms (another served version, protobuf), each made once on first use. Guards a list of at most a few.
    forms: Mutex<Forms>,
}

/// Boxed, because nearly no object ever has another form.
type Forms = Option<Box<Vec<(u16, Bytes)>>>;

/// A selectable field's value.
enum FieldText {
    /// The catalogue's value for an absent field.
    Absent(Name),
    Span(Span),
    /// The text had escapes.
    Owned(Box<str>),
}

/// The value is not an encoded object.
#[derive(Debug)]
pub struct NotAnObject;

impl Obj {
    /// The one function that gives a stored value its revision.
    pub fn publish(
        storage: &Storage,
        key: Key,
        value: &[u8],
        revision: Revision,
        expires_at: Option<u64>,
    ) -> Result<Obj, NotAnObject> {
        Obj::build(storage, key, value, Some(revision), expires_at)
    }

    fn build(
        storage: &Storage,
        key: Key,
        value: &[u8],
        revision: Option<Revision>,
        expires_at: Option<u64>,
    ) -> Result<Obj, NotAnObject> {
        // The paths, then the fallbacks of those that have one.
        let selectable = &storage.selectable;
        let fallbacks = selectable.iter().filter(|s| !s.fallback.is_empty());
        let wanted: Vec<&[Name]> =
            selectable.iter().map(|s| &s.path[..]).chain(fallbacks.map(|s| &s.fallback[..])).collect();
        if value.len() > u32::MAX as usize / 2 || std::str::from_utf8(value).is_err() {
            return Err(NotAnObject);
        }
        let places = scan(value, &wanted).ok_or(NotAnObject)?;
        let (body, splice) = match revision {
            Some(revision) => splice(value, &places, revision),
            None => (value.to_vec(), Span { start: value.len() as u32, len: 0 }),
        };
        // What stands behind the splice moved by as much as the body grew.
        let grown = body.len() as i64 - value.len() as i64;
        let start =
            |s: Span| if s.start < splice.start { s.start } else { (i64::from(s.start) + grown) as u32 };
        let moved = |s: Span| if s.is_none() { s } else { Span { start: start(s), len: s.len } };
        let mut second = places.fields.iter().skip(selectable.len());
        let fields = selectable
            .iter()
            .zip(&places.fields)
            .map(|(selectable, span)| {
                let fallback = if selectable.fallback.is_empty() { None } else { second.next() };
                // Quotes around nothing are as good as absent.
                let span = if span.len <= 2 { fallback.filter(|f| f.len > 2).unwrap_or(span) } else { span };
                field_text(&body, selectable, moved(*span))
            })
            .collect();
        let at = |s: &Span| Span { start: start(*s), len: s.len };
        let labels = places.labels.iter().map(|(k, v)| (at(k), at(v))).collect();
        Ok(Obj {
            key,
            revision: revision.unwrap_or_default(),
            expires_at: expires_at.unwrap_or(0),
            type_meta: places.type_meta,
            metadata: Span {
                start: places.metadata.start,
                len: (i64::from(places.metadata.len) + grown) as u32,
            },
            uid: moved(places.uid),
            owners: moved(places.owners),
            labels,
            fields,
            prefix_len: storage.prefix.len() as u16,
            deleting: places.deleting,
            splice,
            body: Bytes::from(body),
            forms: Mutex::new(None),
        })
    }

    /// An object that was never committed, without a revision: what a dry-run create answers.
    pub fn unpublished(storage: &Storage, key: Key, value: &[u8]) -> Result<Obj, NotAnObject> {
        Obj::build(storage, key, value, None, None)
    }

    /// The same content at a later revision: a DELETED event is the last body with the deletion's revision.
    pub fn at_revision(&self, storage: &Storage, revision: Revision) -> Obj {
        Obj::publish(storage, self.key.clone(), &self.stored_value(), revision, self.expires_at())
            .unwrap_or_else(|_| unreachable!("it was published before"))
    }

    /// The whole JSON object, resourceVersion included.
    pub fn body(&self) -> &Bytes {
        &self.body
    }
    /// The body behind `{"kind":..,"apiVersion":..,`: list items of built-in types carry no type.
    pub fn body_after_type(&self) -> &[u8] {
        &self.body[self.type_meta.end() as usize..]
    }
    /// `{...}` of metadata.
    pub fn metadata(&self) -> &[u8] {
        self.metadata.of(&self.body)
    }
    /// What the engine keeps: the body without the revision.
    pub fn stored_value(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.body.len() - self.splice.len as usize);
        out.extend_from_slice(&self.body[..self.splice.start as usize]);
        out.extend_from_slice(&self.body[self.splice.end() as usize..]);
        out
    }
    /// Is this what the engine would keep? Compares without copying.
    pub fn is_stored_as(&self, value: &[u8]) -> bool {
        let (start, end) = (self.splice.start as usize, self.splice.end() as usize);
        value.len() == self.body.len() - (end - start)
            && value[..start] == self.body[..start]
            && value[start..] == self.body[end..]
    }
    pub fn key(&self) -> &Key {
        &self.key
    }
    pub fn revision(&self) -> Revision {
        self.revision
    }
    pub fn expires_at(&self) -> Option<u64> {
        (self.expires_at != 0).then_some(self.expires_at)
    }
    /// The key behind the storage prefix: `namespace/name`, or `name`.
    pub fn path(&self) -> &str {
        &self.key[self.prefix_len as usize..]
    }
    pub fn name(&self) -> &str {
        self.path().rsplit_once('/').map_or(self.path(), |(_, name)| name)
    }
    /// Empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.path().split_once('/').map_or("", |(namespace, _)| namespace)
    }
    pub fn uid(&self) -> &str {
        self.text(self.uid)
    }
    pub fn deleting(&self) -> bool {
        self.deleting
    }
    /// `[...]` of ownerReferences; empty when there are none.
    pub fn owners(&self) -> &[u8] {
        self.owners.of(&self.body)
    }
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(k, _)| self.text(*k) == name).map(|(_, v)| self.text(*v))
    }
    /// The value of the storage's `index`-th selectable field.
    pub fn field(&self, index: usize) -> &str {
        match self.fields.get(index) {
            Some(FieldText::Absent(name)) => name.as_str(),
            Some(FieldText::Span(span)) => self.text(*span),
            Some(FieldText::Owned(text)) => text,
            None => "",
        }
    }
    /// Another form of this object, made by `make` on first use and shared afterwards.
    pub fn form(&self, id: u16, make: impl FnOnce(&Obj) -> Bytes) -> Bytes {
        if let Some(made) = self.forms.lock().iter().flat_map(|f| f.iter()).find(|(i, _)| *i == id) {
            return made.1.clone();
        }
        let made = make(self);
        self.forms.lock().get_or_insert_default().push((id, made.clone()));
        made
    }
    /// What it costs to keep this version in memory.
    pub fn weight(&self) -> usize {
        self.body.len() + std::mem::size_of::<Obj>() + 64
    }
    fn text(&self, span: Span) -> &str {
        // The body was checked to be UTF-8 and spans lie between ASCII quotes.
        std::str::from_utf8(span.of(&self.body)).unwrap_or("")
    }
}

/// Puts the revision's digits behind the uid (where upstream encodes them), or at the front of metadata when
/// there is no uid, or in place of digits already there.
fn splice(value: &[u8], places: &Places, revision: Revision) -> (Vec<u8>, Span) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(revision.0).as_bytes();
    let (at, skip, before, after): (usize, usize, &[u8], &[u8]) = if !places.resource_version.is_none() {
        (places.resource_version.start as usize, places.resource_version.len as usize, b"", b"")
    } else if !places.uid.is_none() {
        (places.uid.end() as usize + 1, 0, b",\"resourceVersion\":\"", b"\"")
    } else {
        let empty = places.metadata.len == 2;
        (places.metadata.start as usize + 1, 0, b"\"resourceVersion\":\"", if empty { b"\"" } else { b"\"," })
    };
    let len = before.len() + digits.len() + after.len();
    let mut body = Vec::with_capacity(value.len() - skip + len);
    body.extend_from_slice(&value[..at]);
    body.extend_from_slice(before);
    body.extend_from_slice(digits);
    body.extend_from_slice(after);
    body.extend_from_slice(&value[at + skip..]);
    (body, Span { start: at as u32, len: len as u32 })
}

fn field_text(body: &[u8], selectable: &catalog::Selectable, span: Span) -> FieldText {
    if span.is_none() {
        return FieldText::Absent(selectable.absent.clone());
    }
    let text = span.of(body);
    if text[0] != b'"' {
        return FieldText::Span(span);
    }
    if memchr::memchr(b'\\', text).is_none() {
        return FieldText::Span(Span { start: span.start + 1, len: span.len - 2 });
    }
    FieldText::Owned(unescape(&text[1..text.len() - 1]).into_boxed_str())
}

/// JSON escapes undone; a malformed one is left as it stands (it then simply matches nothing).
fn unescape(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let hex: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                out.push(code.unwrap_or('\u{fffd}'));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}
