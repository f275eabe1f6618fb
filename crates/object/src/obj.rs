//! An object as readers see it: immutable bytes with a small header.
//!
//! ```text
//! stored value   {"kind":"X","apiVersion":"v1","metadata":{"name":"a","uid":"u"},...}      what engines keep
//! publish(value, 7)                                         │ one splice
//! body           {"kind":"X","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"7"},...}
//!                 └── type_meta ──────────────┘└─ metadata ───────────────────────────────────────────┘
//! ```

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use catalog::{Name, Storage};
use once_cell::race::OnceBox;
use parking_lot::Mutex;
use revision::Revision;

use crate::scan::{Places, Span, scan};

/// One key at one revision. GET, LIST and WATCH copy from its body; it is never encoded again.
///
/// There is one per stored object, so every byte of the header counts (with its reference counts it fills 64): rare
/// data is in `extra`, and offsets that follow from others are not stored.
pub struct Obj {
    /// The body, a newline, and the key after it: one allocation, and the table is ordered by keys its objects hold.
    text: Box<[u8]>,
    revision: Revision,
    /// Computed with the object, or when first needed.
    extra: OnceBox<Extra>,
    metadata_len: u32,
    uid_start: u32,
    key_len: u16,
    /// Length of the storage prefix of the key.
    prefix_len: u16,
    /// The end of kind and apiVersion; `"metadata":` follows.
    type_end: u16,
    uid_len: u8,
    flags: u8,
}

/// Of [`Obj::flags`]: it has a deletionTimestamp.
const DELETING: u8 = 1;
/// The body is of an earlier revision.
const EARLIER: u8 = 2;
/// The body is what a served version shows, and not what is stored.
const CONVERTED: u8 = 4;
/// So many encodings are kept with an object. More come up only when its resource is redefined again and again: the oldest,
/// of definitions that are gone, are dropped.
const MAX_FORMS: usize = 16;

/// Data that few objects have.
#[derive(Default)]
struct Extra {
    /// Unix seconds; 0: never.
    expires_at: u64,
    owners: Span,
    labels: Box<[(Span, Span)]>,
    fields: Box<[FieldText]>,
    /// Where the revision was inserted, if not after the uid.
    splice: Option<Span>,
    /// Other encodings (another served version, protobuf), each built on first use and dropped with this version. Guards two
    /// short lists; most objects have none.
    forms: OnceBox<Mutex<Forms>>,
}

/// Encodings by number, the object in other versions, and the view controllers read.
#[derive(Default)]
struct Forms {
    made: Vec<(u32, Bytes)>,
    converted: Vec<(u32, Arc<Obj>)>,
    view: Option<Arc<dyn Any + Send + Sync>>,
}

impl Forms {
    fn find(&self, id: u32) -> Option<Bytes> {
        self.made.iter().find(|(i, _)| *i == id).map(|(_, made)| made.clone())
    }
}

/// Appends, and drops the first of too many.
fn push_bounded<T>(list: &mut Vec<(u32, T)>, id: u32, made: T) {
    if list.len() == MAX_FORMS {
        list.remove(0);
    }
    list.push((id, made));
}

/// Between kind, apiVersion and the metadata's brace.
const METADATA_NAME: &[u8] = b"\"metadata\":";
/// Around the revision's digits, behind the uid.
const BEFORE_REVISION: &[u8] = b",\"resourceVersion\":\"";
const AFTER_REVISION: &[u8] = b"\"";

/// A selectable field's value.
enum FieldText {
    /// The catalogue's value for an absent field.
    Absent(Name),
    Span(Span),
    /// The text had escape sequences.
    Owned(Box<str>),
}

/// Keeps an object alive while its body is sent to a client.
struct SharedLine(Arc<Obj>);

impl AsRef<[u8]> for SharedLine {
    fn as_ref(&self) -> &[u8] {
        &self.0.text[..self.0.body_len() + 1]
    }
}

/// The value is not an encoded object.
#[derive(Debug)]
pub struct NotAnObject;

impl Obj {
    /// The only function that inserts the revision into a stored value.
    pub fn publish(
        storage: &Storage,
        key: &str,
        value: &[u8],
        revision: Revision,
        expires_at: Option<u64>,
    ) -> Result<Obj, NotAnObject> {
        Obj::build(storage, key, value, Some(revision), expires_at)
    }

    fn build(
        storage: &Storage,
        key: &str,
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
        let (mut body, splice) = match revision {
            Some(revision) => splice(value, &places, revision, 1 + key.len()),
            None => {
                let mut body = Vec::with_capacity(value.len() + 1 + key.len());
                body.extend_from_slice(value);
                (body, Span { start: value.len() as u32, len: 0 })
            }
        };
        // What stands behind the splice moved by as much as the body grew.
        let grown = body.len() as i64 - value.len() as i64;
        let start =
            |s: Span| if s.start < splice.start { s.start } else { (i64::from(s.start) + grown) as u32 };
        let moved = |s: Span| if s.is_none() { s } else { Span { start: start(s), len: s.len } };
        let mut second = places.fields.iter().skip(selectable.len());
        let fields: Box<[FieldText]> = selectable
            .iter()
            .zip(&places.fields)
            .map(|(selectable, span)| {
                let fallback = if selectable.fallback.is_empty() { None } else { second.next() };
                // An empty string counts as absent.
                let span = if span.len <= 2 { fallback.filter(|f| f.len > 2).unwrap_or(span) } else { span };
                field_text(&body, selectable, moved(*span))
            })
            .collect();
        let at = |s: &Span| Span { start: start(*s), len: s.len };
        let labels: Box<[(Span, Span)]> = places.labels.iter().map(|(k, v)| (at(k), at(v))).collect();
        let uid = moved(places.uid);
        let behind_uid = match revision {
            None => true,
            Some(revision) => revision.0 > 0 && places.resource_version.is_none() && !uid.is_none(),
        };
        let plain = expires_at.is_none() && labels.is_empty() && fields.is_empty() && places.owners.is_none();
        let extra = if plain && behind_uid {
            OnceBox::new()
        } else {
            OnceBox::with_value(Box::new(Extra {
                expires_at: expires_at.unwrap_or(0),
                owners: moved(places.owners),
                labels,
                fields,
                splice: (!behind_uid).then_some(splice),
                forms: OnceBox::new(),
            }))
        };
        let metadata_name = &value[places.type_meta.end() as usize..places.metadata.start as usize];
        if metadata_name != METADATA_NAME || places.type_meta.end() > u32::from(u16::MAX) {
            return Err(NotAnObject);
        }
        body.push(b'\n');
        body.extend_from_slice(key.as_bytes());
        Ok(Obj {
            revision: revision.unwrap_or_default(),
            extra,
            metadata_len: (i64::from(places.metadata.len) + grown) as u32,
            uid_start: uid.start,
            uid_len: u8::try_from(uid.len).map_err(|_| NotAnObject)?,
            type_end: places.type_meta.end() as u16,
            key_len: u16::try_from(key.len()).map_err(|_| NotAnObject)?,
            prefix_len: storage.prefix.len() as u16,
            flags: if places.deleting { DELETING } else { 0 },
            text: body.into_boxed_slice(),
        })
    }

    /// An object that was never committed, without a revision: the response of a dry-run create.
    pub fn unpublished(storage: &Storage, key: &str, value: &[u8]) -> Result<Obj, NotAnObject> {
        Obj::build(storage, key, value, None, None)
    }

    /// The same content at a later revision: a DELETED event is the last body with the deletion's revision.
    pub fn at_revision(&self, storage: &Storage, revision: Revision) -> Obj {
        let mut obj = Obj::publish(storage, self.key(), &self.stored_value(), revision, self.expires_at())
            .unwrap_or_else(|_| unreachable!("it was published before"));
        obj.flags |= EARLIER | self.flags & CONVERTED;
        obj
    }

    /// The same object with another body, as a version serves it.
    pub fn with_body(&self, storage: &Storage, body: &[u8]) -> Result<Obj, NotAnObject> {
        let revision = Some(self.revision).filter(|revision| *revision != Revision::default());
        let mut obj = Obj::build(storage, self.key(), body, revision, self.expires_at())?;
        obj.flags |= self.flags & EARLIER | CONVERTED;
        Ok(obj)
    }

    /// Made by [`Obj::with_body`]: nothing is left to convert.
    pub fn is_converted(&self) -> bool {
        self.flags & CONVERTED != 0
    }

    /// This object in another version, if it was kept.
    pub fn converted(&self, id: u32) -> Option<Arc<Obj>> {
        let forms = self.forms()?.lock();
        forms.converted.iter().find(|(i, _)| *i == id).map(|(_, converted)| converted.clone())
    }

    /// Keeps this object in another version, in place of what was kept before.
    pub fn keep_converted(&self, id: u32, converted: Arc<Obj>) {
        let mut forms = self.forms_made().lock();
        match forms.converted.iter_mut().find(|(i, _)| *i == id) {
            Some((_, before)) => *before = converted,
            None => push_bounded(&mut forms.converted, id, converted),
        }
    }

    /// False for the body of an earlier revision, as a deletion shows it.
    pub fn is_of_its_revision(&self) -> bool {
        self.flags & EARLIER == 0
    }

    /// Does its apiVersion name this version, of whatever group?
    pub fn is_of_version(&self, version: &str) -> bool {
        let type_meta = &self.body()[..self.type_end as usize];
        let end = type_meta.strip_suffix(b"\",").and_then(|head| head.strip_suffix(version.as_bytes()));
        end.is_some_and(|head| head.ends_with(b"/") || head.ends_with(b"\""))
    }

    /// The whole JSON object, resourceVersion included.
    pub fn body(&self) -> &[u8] {
        &self.text[..self.body_len()]
    }
    fn body_len(&self) -> usize {
        self.text.len() - usize::from(self.key_len) - 1
    }
    /// The body and its newline as a shared buffer, for a response; nothing is copied.
    pub fn shared_line(self: &Arc<Obj>) -> Bytes {
        Bytes::from_owner(SharedLine(self.clone()))
    }
    /// The body behind `{"kind":..,"apiVersion":..,`: list items of built-in types carry no type.
    pub fn body_after_type(&self) -> &[u8] {
        &self.body()[self.type_end as usize..]
    }
    /// `{...}` of metadata.
    pub fn metadata(&self) -> &[u8] {
        let start = self.type_end as usize + METADATA_NAME.len();
        &self.text[start..start + self.metadata_len as usize]
    }
    /// The stored value: the body without the revision.
    pub fn stored_value(&self) -> Vec<u8> {
        let (body, (start, end)) = (self.body(), self.splice());
        let mut out = Vec::with_capacity(body.len() - (end - start));
        out.extend_from_slice(&body[..start]);
        out.extend_from_slice(&body[end..]);
        out
    }
    /// Whether this is the stored value. Compares without copying.
    pub fn is_stored_as(&self, value: &[u8]) -> bool {
        let (body, (start, end)) = (self.body(), self.splice());
        value.len() == body.len() - (end - start)
            && value[..start] == body[..start]
            && value[start..] == body[end..]
    }
    /// The range of the inserted revision.
    fn splice(&self) -> (usize, usize) {
        if let Some(span) = self.extra.get().and_then(|e| e.splice) {
            return (span.start as usize, span.end() as usize);
        }
        // Behind the uid and its quote; nothing in an object without a revision.
        let start = self.uid_start as usize + usize::from(self.uid_len) + 1;
        if self.revision == Revision::default() {
            return (start, start);
        }
        let digits = self.revision.0.ilog10() as usize + 1;
        (start, start + BEFORE_REVISION.len() + digits + AFTER_REVISION.len())
    }
    pub fn key(&self) -> &str {
        // It came as a text.
        std::str::from_utf8(self.key_bytes()).unwrap_or("")
    }
    /// The key the table is ordered by.
    pub fn key_bytes(&self) -> &[u8] {
        &self.text[self.body_len() + 1..]
    }
    pub fn revision(&self) -> Revision {
        self.revision
    }
    pub fn expires_at(&self) -> Option<u64> {
        self.extra.get().map(|e| e.expires_at).filter(|at| *at != 0)
    }
    /// The key behind the storage prefix: `namespace/name`, or `name`.
    pub fn path(&self) -> &str {
        std::str::from_utf8(self.path_bytes()).unwrap_or("")
    }
    /// The key an informer's store is ordered by.
    pub fn path_bytes(&self) -> &[u8] {
        &self.key_bytes()[self.prefix_len as usize..]
    }
    pub fn name(&self) -> &str {
        let path = self.path();
        path.rsplit_once('/').map_or(path, |(_, name)| name)
    }
    /// Empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.path().split_once('/').map_or("", |(namespace, _)| namespace)
    }
    pub fn uid(&self) -> &str {
        self.text(Span { start: self.uid_start, len: u32::from(self.uid_len) })
    }
    pub fn deleting(&self) -> bool {
        self.flags & DELETING != 0
    }
    /// `[...]` of ownerReferences; empty when there are none.
    pub fn owners(&self) -> &[u8] {
        self.extra.get().map_or(&[], |e| e.owners.of(&self.text))
    }
    pub fn label(&self, name: &str) -> Option<&str> {
        let labels = &self.extra.get()?.labels;
        labels.iter().find(|(k, _)| self.text(*k) == name).map(|(_, v)| self.text(*v))
    }
    /// In the order they are written in, by name.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.extra.get().map_or(&[][..], |extra| &extra.labels);
        labels.iter().map(|(name, value)| (self.text(*name), self.text(*value)))
    }
    /// The value of the storage's `index`-th selectable field.
    pub fn field(&self, index: usize) -> &str {
        match self.extra.get().and_then(|e| e.fields.get(index)) {
            Some(FieldText::Absent(name)) => name.as_str(),
            Some(FieldText::Span(span)) => self.text(*span),
            Some(FieldText::Owned(text)) => text,
            None => "",
        }
    }
    /// Another encoding of this object, built by `make` on first use and shared afterwards.
    pub fn form(&self, id: u32, make: impl FnOnce(&Obj) -> Bytes) -> Bytes {
        if let Some(made) = self.forms().and_then(|forms| forms.lock().find(id)) {
            return made;
        }
        // Built without the lock: it may take a while, and a concurrent caller only builds it twice.
        let made = make(self);
        let mut forms = self.forms_made().lock();
        forms.find(id).unwrap_or_else(|| {
            push_bounded(&mut forms.made, id, made.clone());
            made
        })
    }
    /// The view controllers read of this object, built by `make` on first use and shared afterwards. A kind has one such
    /// view: for another type it is built anew each time.
    pub fn view<T: Any + Send + Sync>(&self, make: impl FnOnce(&Obj) -> T) -> Arc<T> {
        let there = self.forms().and_then(|forms| forms.lock().view.clone());
        if let Some(there) = there {
            return there.downcast().unwrap_or_else(|_| Arc::new(make(self)));
        }
        // Built without the lock: a concurrent caller only builds it twice.
        let made = Arc::new(make(self));
        self.forms_made().lock().view = Some(made.clone());
        made
    }
    fn forms(&self) -> Option<&Mutex<Forms>> {
        self.extra.get()?.forms.get()
    }
    fn forms_made(&self) -> &Mutex<Forms> {
        self.extra.get_or_init(Box::default).forms.get_or_init(Box::default)
    }
    /// The memory this version takes.
    pub fn weight(&self) -> usize {
        self.text.len() + std::mem::size_of::<Obj>() + 64
    }
    fn text(&self, span: Span) -> &str {
        // The body was checked to be UTF-8 and spans lie between ASCII quotes.
        std::str::from_utf8(span.of(&self.text)).unwrap_or("")
    }
}

/// Puts the revision's digits behind the uid (where upstream encodes them), or at the front of metadata when
/// there is no uid, or in place of digits already there.
/// `more` bytes will follow it.
fn splice(value: &[u8], places: &Places, revision: Revision, more: usize) -> (Vec<u8>, Span) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(revision.0).as_bytes();
    let (at, skip, before, after): (usize, usize, &[u8], &[u8]) = if let Some(there) = places.resource_version
    {
        (there.start as usize, there.len as usize, b"", b"")
    } else if !places.uid.is_none() {
        (places.uid.end() as usize + 1, 0, BEFORE_REVISION, AFTER_REVISION)
    } else {
        let empty = places.metadata.len == 2;
        (places.metadata.start as usize + 1, 0, b"\"resourceVersion\":\"", if empty { b"\"" } else { b"\"," })
    };
    let len = before.len() + digits.len() + after.len();
    let mut body = Vec::with_capacity(value.len() - skip + len + more);
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

/// Unescapes a JSON string; a malformed escape is left unchanged (it then simply matches nothing).
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

#[cfg(test)]
mod tests;
