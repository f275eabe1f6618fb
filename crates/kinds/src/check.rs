//! Building blocks of rules: field paths, the list of errors, and access to members of a tree.
//!
//! A path is a chain of borrowed steps on the stack and becomes text only for an error: a valid object pays nothing.

mod ca_bundle;
mod conditions;
pub(crate) mod difference;
pub(crate) mod internal;
pub(crate) mod text;
mod webhook;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use object::quantity::{Format, Quantity};
use object::{FieldError, FieldErrorKind, Map, Value, quote};

pub use ca_bundle::ca_bundle_problem;
pub(crate) use webhook::is_url_with_host;

use crate::metadata::shown;

pub(crate) const NEGATIVE: &str = "must be greater than or equal to 0";
pub(crate) const IMMUTABLE: &str = "field is immutable";

/// `spec.containers[0].resources.limits[cpu]`.
#[derive(Clone, Copy)]
pub(crate) enum Path<'p> {
    Root(&'p str),
    Child(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
    Key(&'p Path<'p>, &'p str),
}

impl<'p> Path<'p> {
    pub(crate) fn child(&'p self, name: &'p str) -> Path<'p> {
        Path::Child(self, name)
    }
    pub(crate) fn index(&'p self, index: usize) -> Path<'p> {
        Path::Index(self, index)
    }
    pub(crate) fn key(&'p self, key: &'p str) -> Path<'p> {
        Path::Key(self, key)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not by recursion: nested schemas may be thousands of levels deep.
        let mut steps = vec![self];
        while let Some(Path::Child(parent, _) | Path::Index(parent, _) | Path::Key(parent, _)) = steps.last()
        {
            steps.push(parent);
        }
        steps.iter().rev().try_for_each(|step| match step {
            // Upstream shows a path without a name as an index without one.
            Path::Root("") => f.write_str("[]"),
            Path::Root(name) => f.write_str(name),
            Path::Child(_, name) => write!(f, ".{name}"),
            Path::Index(_, index) => write!(f, "[{index}]"),
            Path::Key(_, key) => write!(f, "[{key}]"),
        })
    }
}

/// A value as an error message shows it.
pub(crate) trait Shown {
    fn shown(self) -> String;
}
impl Shown for &str {
    fn shown(self) -> String {
        quote(self)
    }
}
impl Shown for i64 {
    fn shown(self) -> String {
        self.to_string()
    }
}
impl Shown for bool {
    fn shown(self) -> String {
        self.to_string()
    }
}
impl Shown for &Value {
    fn shown(self) -> String {
        shown(self)
    }
}
impl Shown for Option<&Value> {
    fn shown(self) -> String {
        self.map_or_else(|| "null".to_owned(), shown)
    }
}
/// Text that is already what the message shows.
pub(crate) struct Raw<'a>(pub(crate) &'a str);
impl Shown for Raw<'_> {
    fn shown(self) -> String {
        self.0.to_owned()
    }
}

/// See [`Errors::add`].
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// All errors so far, in the order they were found.
#[derive(Default)]
pub struct Errors {
    pub(crate) list: Vec<FieldError>,
    /// Of the texts of those that were added one by one.
    bytes: usize,
}

impl Errors {
    pub(crate) fn new(list: Vec<FieldError>) -> Errors {
        Errors { list, bytes: 0 }
    }
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    pub(crate) fn required(&mut self, at: &Path<'_>, detail: &str) {
        self.add(|| FieldError::required(at.to_string(), detail));
    }
    pub(crate) fn forbidden(&mut self, at: &Path<'_>, detail: impl Into<String>) {
        self.add(|| FieldError::forbidden(at.to_string(), detail));
    }
    pub(crate) fn invalid(&mut self, at: &Path<'_>, bad: impl Shown, detail: impl Into<String>) {
        self.add(|| FieldError::invalid(at.to_string(), bad.shown(), detail));
    }
    /// One error for each problem with `bad`.
    pub(crate) fn each(&mut self, at: &Path<'_>, bad: &str, problems: Vec<String>) {
        for problem in problems {
            self.invalid(at, bad, problem);
        }
    }
    /// `supported` in the order upstream lists them.
    pub(crate) fn not_supported(&mut self, at: &Path<'_>, bad: impl Shown, supported: &[&str]) {
        self.add(|| FieldError::not_supported(at.to_string(), bad.shown(), supported));
    }
    pub(crate) fn duplicate(&mut self, at: &Path<'_>, bad: impl Shown) {
        self.push(FieldErrorKind::Duplicate, at, bad.shown(), String::new());
    }
    pub(crate) fn duplicate_because(&mut self, at: &Path<'_>, bad: impl Shown, detail: &str) {
        self.push(FieldErrorKind::Duplicate, at, bad.shown(), detail.to_owned());
    }
    pub(crate) fn not_found(&mut self, at: &Path<'_>, bad: impl Shown, detail: impl Into<String>) {
        self.push(FieldErrorKind::NotFound, at, bad.shown(), detail.into());
    }
    pub(crate) fn too_long(&mut self, at: &Path<'_>, bytes: usize) {
        self.add(|| FieldError::too_long(at.to_string(), bytes));
    }
    pub(crate) fn too_many(&mut self, at: &Path<'_>, actual: usize, most: usize) {
        let items = if most == 1 { "item" } else { "items" };
        let detail = format!("must have at most {most} {items}");
        self.push(FieldErrorKind::TooMany, at, actual.to_string(), detail);
    }
    pub(crate) fn internal(&mut self, at: &Path<'_>, detail: String) {
        self.push(FieldErrorKind::Internal, at, String::new(), detail);
    }
    /// An empty value is required, another one than these is not supported.
    pub(crate) fn choice(&mut self, at: &Path<'_>, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(at, "");
        } else {
            self.one_of(at, value, supported);
        }
    }
    pub(crate) fn one_of(&mut self, at: &Path<'_>, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.not_supported(at, value, supported);
        }
    }
    /// As [`Errors::one_of`] of a member that may be absent.
    pub(crate) fn one_of_member(&mut self, at: &Path<'_>, of: &Value, name: &str, supported: &[&str]) {
        if let Some(value) = member(of, name) {
            self.one_of(&at.child(name), value.as_str().unwrap_or_default(), supported);
        }
    }
    /// The member must be a text that is not empty.
    pub(crate) fn need(&mut self, at: &Path<'_>, of: &Value, name: &str) {
        if text(of, name).is_empty() {
            self.required(&at.child(name), "");
        }
    }
    pub(crate) fn nonnegative(&mut self, at: &Path<'_>, of: &Value, name: &str) {
        let value = int(of, name).unwrap_or(0);
        if value < 0 {
            self.invalid(&at.child(name), value, NEGATIVE);
        }
    }
    pub(crate) fn positive(&mut self, at: &Path<'_>, value: i64) {
        if value <= 0 {
            self.invalid(at, value, "must be greater than zero");
        }
    }
    /// The member is what it was. Absent members are shown as `null`.
    pub(crate) fn immutable(&mut self, at: &Path<'_>, new: Option<&Value>, old: Option<&Value>) {
        if !crate::same(new, old) {
            self.invalid(at, new, IMMUTABLE);
        }
    }

    /// As [`Errors::immutable`] of a text, which is shown empty when it is absent.
    pub(crate) fn immutable_text(&mut self, at: &Path<'_>, new: &str, old: &str) {
        if new != old {
            self.invalid(at, new, IMMUTABLE);
        }
    }

    /// A path has thousands of steps in schemas that go deep, a detail may list all names there are, and there may be many
    /// thousands of errors: after some megabytes no more are told.
    fn add(&mut self, error: impl FnOnce() -> FieldError) {
        if !self.is_full() {
            let error = error();
            self.bytes += error.field.len() + error.bad_value.len() + error.detail.len();
            self.list.push(error);
        }
    }
    /// Further errors are not recorded.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > MAX_BYTES
    }

    fn push(&mut self, kind: FieldErrorKind, at: &Path<'_>, bad_value: String, detail: String) {
        self.add(|| FieldError { kind, field: at.to_string(), bad_value, detail });
    }
}

/// The entries of a list seen so far. A client may send a hundred thousand: a linear search for each would take minutes. The
/// first few, which are all of most lists, are kept inline.
pub(crate) struct Seen<K> {
    few: [Option<K>; 8],
    many: BTreeSet<K>,
}

impl<K> Default for Seen<K> {
    fn default() -> Seen<K> {
        Seen { few: [const { None }; 8], many: BTreeSet::new() }
    }
}

impl<K: Ord> Seen<K> {
    /// Records an entry, and returns whether it was seen before.
    pub(crate) fn again(&mut self, key: K) -> bool {
        for place in &mut self.few {
            match place {
                Some(met) if *met == key => return true,
                Some(_) => {}
                None => {
                    *place = Some(key);
                    return false;
                }
            }
        }
        !self.many.insert(key)
    }
    pub(crate) fn has(&self, key: &K) -> bool {
        self.few.iter().map_while(Option::as_ref).any(|met| met == key) || self.many.contains(key)
    }
}

impl<K: Ord> FromIterator<K> for Seen<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Seen<K> {
        let mut seen = Seen::default();
        for key in keys {
            seen.again(key);
        }
        seen
    }
}

/// The texts of a member of all entries, to look one up.
pub(crate) fn all_of<'v>(list: &'v [Value], name: &str) -> Seen<&'v str> {
    list.iter().map(|entry| text(entry, name)).collect()
}

/// The entries of a map whose names begin with the prefix, by the rest of the name. Mostly there are none.
pub(crate) fn below<'v>(map: &'v Map, prefix: &str) -> BTreeMap<&'v str, &'v Value> {
    map.iter().filter_map(|(name, value)| Some((name.strip_prefix(prefix)?, value))).collect()
}

/// A member that is there and not null.
pub(crate) fn member<'v>(of: &'v Value, name: &str) -> Option<&'v Value> {
    of.get(name).filter(|v| !v.is_null())
}

/// A text; empty when absent.
pub(crate) fn text<'v>(of: &'v Value, name: &str) -> &'v str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn int(of: &Value, name: &str) -> Option<i64> {
    of.get(name).and_then(Value::as_int)
}

/// A boolean; false when absent.
pub(crate) fn flag(of: &Value, name: &str) -> bool {
    of.get(name).and_then(Value::as_bool) == Some(true)
}

pub(crate) fn items<'v>(of: &'v Value, name: &str) -> &'v [Value] {
    of.get(name).and_then(Value::as_list).unwrap_or_default()
}

/// The texts of a list.
pub(crate) fn texts<'v>(of: &'v Value, name: &str) -> impl Iterator<Item = &'v str> {
    items(of, name).iter().map(|v| v.as_str().unwrap_or_default())
}

/// The entries of a map.
pub(crate) fn entries<'v>(of: &'v Value, name: &str) -> impl Iterator<Item = (&'v str, &'v Value)> {
    of.get(name).and_then(Value::as_map).into_iter().flat_map(|m| m.iter()).map(|(k, v)| (&**k, v))
}

/// A quantity; an invalid one (normalising would have refused it) counts as zero.
pub(crate) fn quantity(value: &Value) -> Quantity {
    match value {
        Value::Str(text) => Quantity::parse(text).unwrap_or(Quantity::ZERO),
        Value::Int(number) => Quantity::from_i64(*number, Format::DecimalSi),
        _ => Quantity::ZERO,
    }
}

/// The text of a quantity as it was written.
pub(crate) fn quantity_text(value: &Value) -> String {
    value.as_str().map_or_else(|| shown(value), str::to_owned)
}
