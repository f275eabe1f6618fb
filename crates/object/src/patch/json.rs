//! JSON patch (RFC 6902) with the quirks of the library kube-apiserver uses.
//!
//! These are, beyond the RFC: `replace` of a missing member adds it; `test` of a missing member succeeds
//! against null; negative indices count from the end; the whole document can be tested and replaced, but not
//! added, removed, moved or copied; text before the first slash of a path is ignored.

mod node;

use std::collections::BTreeMap;

use catalog::Name;

use self::node::{Node, Opened};
use super::{MAX_DEPTH, MAX_STRICT_ERRORS, depth, duplicate_fields_below};
use crate::{Status, Value, deep, discard};

/// Upstream's limit; more is rejected with 413.
pub const MAX_OPERATIONS: usize = 10_000;
/// Limit for the bytes of JSON that all copies of one patch may add, as upstream's. A few copies of a member into
/// itself would otherwise exhaust memory.
pub const MAX_COPY_BYTES: usize = 3 * 1024 * 1024;
/// Limit for list elements shifted and values visited by all operations together: some tenths of a second.
/// No real patch comes near, but removing the first element of a million ten thousand times would take minutes.
const MAX_STEPS: usize = 1 << 26;
/// Visiting a value costs as much as shifting so many elements.
const LOOK_STEPS: usize = 16;
/// Maximum depth of intermediate documents: the deepest value at the end of the deepest path. The caller
/// checks the depth of the result.
const MAX_GROWN: usize = 2 * MAX_DEPTH;

/// A parsed list of operations.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Operation>,
    strict_errors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Operation {
    kind: String,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

/// What the operations of one patch have used of their limits.
#[derive(Default)]
struct Spent {
    copied_bytes: usize,
    steps: usize,
}

impl Spent {
    fn copy(&mut self, bytes: usize) -> Result<(), Failed> {
        self.copied_bytes += bytes;
        if self.copied_bytes > MAX_COPY_BYTES {
            let copied = self.copied_bytes;
            return Err(Failed::new(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPY_BYTES}"
            )));
        }
        Ok(())
    }
    fn steps(&mut self, steps: usize) -> Result<(), Failed> {
        self.steps += steps;
        if self.steps > MAX_STEPS { Err(Failed::limit()) } else { Ok(()) }
    }
}

/// An operation that does not apply. As upstream, clients who patch only learn that one failed; patches of admission say which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// In upstream's words.
    pub message: String,
    /// A `test` whose value differs.
    pub is_test: bool,
    is_limit: bool,
}

impl Failed {
    fn new(message: impl Into<String>) -> Failed {
        Failed { message: message.into(), is_test: false, is_limit: false }
    }
    fn missing(what: impl std::fmt::Display) -> Failed {
        Failed::new(format!("{what}: missing value"))
    }
    fn test(path: &str) -> Failed {
        Failed { is_test: true, ..Failed::new(format!("testing value {path} failed: test failed")) }
    }
    fn too_deep() -> Failed {
        Failed::new("the patched document is nested too deeply")
    }
    /// One of our own limits.
    fn limit() -> Failed {
        Failed { is_limit: true, ..Failed::new("the patch exceeds a limit") }
    }
    fn within(self, what: impl std::fmt::Display) -> Failed {
        Failed { message: format!("{what}: {}", self.message), ..self }
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl JsonPatch {
    /// The operations of a patch, decoded strictly, unless field validation is off.
    pub fn parse(patch: Value) -> Result<JsonPatch, Status> {
        let mut strict_errors = Vec::new();
        let list = match patch {
            Value::List(list) => list,
            Value::Null => Vec::new(),
            other => return Err(cannot_decode(&other, "value of type []handlers.jsonPatchOp")),
        };
        let mut operations = Vec::with_capacity(list.len());
        for (i, item) in list.into_iter().enumerate() {
            operations.push(Operation::parse(item, i, &mut strict_errors)?);
        }
        JsonPatch::bounded(operations, strict_errors)
    }

    /// Without field validation: only rejects what is not a list of maps; an invalid member fails when it is applied.
    pub fn parse_unchecked(patch: Value) -> Result<JsonPatch, Status> {
        let refuse = |value: &Value, into: &str| {
            let found = value.json_type();
            Status::bad_request(format!(
                "json: cannot unmarshal {found} into Go value of type jsonpatch.{into}"
            ))
        };
        let list = match patch {
            Value::List(list) => list,
            Value::Null => Vec::new(),
            other => return Err(refuse(&other, "Patch")),
        };
        let mut operations = Vec::with_capacity(list.len());
        for item in list {
            if !matches!(item, Value::Map(_) | Value::Null) {
                return Err(refuse(&item, "Operation"));
            }
            let text = |name: &str| item.str_at(&[name]).map(str::to_owned);
            operations.push(Operation {
                kind: text("op").unwrap_or_else(|| "unknown".to_owned()),
                path: text("path"),
                from: text("from"),
                value: item.get("value").cloned().unwrap_or(Value::Null),
            });
        }
        JsonPatch::bounded(operations, Vec::new())
    }

    fn bounded(operations: Vec<Operation>, strict_errors: Vec<String>) -> Result<JsonPatch, Status> {
        if operations.len() > MAX_OPERATIONS {
            return Err(Status::too_large(format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            )));
        }
        Ok(JsonPatch { operations, strict_errors })
    }

    /// Strict field validation of the patch itself: unknown and duplicate members of operations.
    pub fn strict_errors(&self) -> &[String] {
        &self.strict_errors
    }

    /// The list of operations, as a request says it.
    pub fn into_value(self) -> Value {
        let operations = self.operations.into_iter().map(|Operation { kind, path, from, value }| {
            let mut out = Value::map();
            let map = out.make_map();
            let takes_value = matches!(kind.as_str(), "add" | "replace" | "test");
            map.set("op", kind);
            for (name, text) in [("path", path), ("from", from)] {
                if let Some(text) = text {
                    map.set(name, text);
                }
            }
            if takes_value {
                map.set("value", value);
            }
            out
        });
        Value::List(operations.collect())
    }

    /// Applies all operations in order; on an error `doc` must be dropped.
    pub fn apply(&self, doc: &mut Value) -> Result<(), Status> {
        self.try_apply(doc).map_err(|failed| match failed.is_limit {
            true => Status::too_large(
                "Request entity too large: the operations of this JSON patch move too many elements of lists; send it in parts",
            ),
            false => Status::unprocessable(),
        })
    }

    /// As [`apply`](JsonPatch::apply), and says what failed.
    pub fn try_apply(&self, doc: &mut Value) -> Result<(), Failed> {
        let mut spent = Spent::default();
        let mut tree = Node::Closed(std::mem::replace(doc, Value::Null));
        let done = self.operations.iter().try_for_each(|operation| operation.apply(&mut tree, &mut spent));
        *doc = tree.close();
        done
    }
}

impl Operation {
    fn parse(item: Value, at: usize, strict_errors: &mut Vec<String>) -> Result<Operation, Status> {
        let mut out = Operation { kind: String::new(), path: None, from: None, value: Value::Null };
        let members = match item {
            Value::Map(members) => members,
            // Fails when applied, having no kind.
            Value::Null => return Ok(out),
            other => return Err(cannot_decode(&other, "value of type handlers.jsonPatchOp")),
        };
        let mut strict = |words: String| {
            let words = format!("json patch {words}");
            if strict_errors.len() < MAX_STRICT_ERRORS && !strict_errors.contains(&words) {
                strict_errors.push(words);
            }
        };
        let mut seen = Vec::new();
        for (name, value) in members {
            if matches!(name.as_str(), "op" | "path" | "from" | "value") {
                if seen.contains(&name) {
                    strict(format!("duplicate field \"[{at}].{name}\""));
                }
                seen.push(name.clone());
            }
            let text = match (name.as_str(), value) {
                ("value", value) => {
                    duplicate_fields_below(&format!("[{at}].value"), &value)
                        .into_iter()
                        .for_each(&mut strict);
                    out.value = value;
                    continue;
                }
                ("op" | "path" | "from", Value::Str(text)) => Some(text),
                ("op" | "path" | "from", Value::Null) => None,
                ("op" | "path" | "from", other) => {
                    return Err(cannot_decode(
                        &other,
                        &format!("struct field jsonPatchOp.{name} of type string"),
                    ));
                }
                _ => {
                    strict(format!("unknown field \"[{at}].{name}\""));
                    continue;
                }
            };
            match name.as_str() {
                "op" => out.kind = text.unwrap_or_default(),
                "path" => out.path = text,
                _ => out.from = text,
            }
        }
        Ok(out)
    }

    fn apply(&self, doc: &mut Node, spent: &mut Spent) -> Result<(), Failed> {
        let kind = self.kind.as_str();
        let path = || {
            let missing = || match kind {
                "add" | "remove" | "copy" => {
                    Failed::missing(format!("{kind} operation failed to decode path"))
                }
                _ => Failed::missing(format!(
                    "{kind} operation failed to decode path: operation missing path field"
                )),
            };
            self.path.as_deref().ok_or_else(missing)
        };
        let from = || {
            let missing = || {
                Failed::missing(format!(
                    "{kind} operation failed to decode from: operation, missing from field"
                ))
            };
            self.from.as_deref().ok_or_else(missing)
        };
        match kind {
            "add" => {
                let path = path()?;
                let missing = || {
                    Failed::missing(format!("add operation does not apply: doc is missing path: \"{path}\""))
                };
                let failed = |failed: Failed| failed.within(format!("error in add for path: '{path}'"));
                add(doc, path, Node::Closed(self.value.clone()), spent, &missing, &failed)
            }
            "remove" => {
                let path = path()?;
                let missing = || {
                    Failed::missing(format!(
                        "remove operation does not apply: doc is missing path: \"{path}\""
                    ))
                };
                let failed = |failed: Failed| failed.within(format!("error in remove for path: '{path}'"));
                remove(doc, path, spent, &missing, &failed).map(|gone| discard(gone.close()))
            }
            "replace" => self.replace(doc, path()?),
            "test" => self.test(doc, path()?),
            "move" => {
                let from = from()?;
                let missing = || {
                    Failed::missing(format!(
                        "move operation does not apply: doc is missing from path: {from}"
                    ))
                };
                let key = Pointer::parse(from).map_or(String::new(), |pointer| pointer.last);
                // A member that is not there is found, and then cannot be removed.
                let failed = |failed: Failed| failed.within(format!("error in move for path: '{key}'"));
                let value = remove(doc, from, spent, &missing, &failed)?;
                spent.steps(LOOK_STEPS * value.count())?;
                let path = path()?;
                let missing = || {
                    Failed::missing(format!(
                        "move operation does not apply: doc is missing destination path: {path}"
                    ))
                };
                let failed = |failed: Failed| failed.within(format!("error in move for path: '{path}'"));
                add(doc, path, value, spent, &missing, &failed)
            }
            "copy" => {
                let from = from()?;
                let missing = || {
                    Failed::missing(format!(
                        "copy operation does not apply: doc is missing from path: {from}"
                    ))
                };
                let pointer = Pointer::parse(from).ok_or_else(missing)?;
                let value = member(pointer.parent(doc).ok_or_else(missing)?, &pointer.last)
                    .map_err(|failed| failed.within(format!("error in copy for from: '{from}'")))?
                    .map_or(Value::Null, Node::copy);
                let path = path()?;
                spent.copy(encoded_size(&value))?;
                let missing = || {
                    Failed::missing(format!(
                        "copy operation does not apply: doc is missing destination path: {path}"
                    ))
                };
                let failed = |failed: Failed| failed.within("error while adding value during copy");
                add(doc, path, Node::Closed(value), spent, &missing, &failed)
            }
            other => Err(Failed::new(format!("Unexpected kind: {other}"))),
        }
    }

    fn replace(&self, doc: &mut Node, path: &str) -> Result<(), Failed> {
        if path.is_empty() {
            if !matches!(self.value, Value::Map(_) | Value::List(_)) {
                return Err(Failed::new("replace operation value must be object or array: %!w(<nil>)"));
            }
            doc.replace(Node::Closed(self.value.clone()));
            return Ok(());
        }
        let missing =
            || Failed::missing(format!("replace operation does not apply: doc is missing path: {path}"));
        let pointer = Pointer::parse(path).ok_or_else(missing)?;
        if pointer.parts.len() + 1 + depth(&self.value) > MAX_GROWN {
            return Err(Failed::too_deep());
        }
        let value = Node::Closed(self.value.clone());
        match pointer.parent(doc).ok_or_else(missing)? {
            Opened::Map(map) => put(map, pointer.last, value),
            Opened::List(list) => {
                let missing = |_| {
                    Failed::missing(format!("replace operation does not apply: doc is missing key: {path}"))
                };
                let at = index(&pointer.last, list.len()).map_err(missing)?;
                list[at].replace(value);
            }
        }
        Ok(())
    }

    fn test(&self, doc: &mut Node, path: &str) -> Result<(), Failed> {
        let found = if path.is_empty() {
            Some(&*doc)
        } else {
            let missing =
                || Failed::missing(format!("test operation does not apply: is missing path: {path}"));
            let pointer = Pointer::parse(path).ok_or_else(missing)?;
            member(pointer.parent(doc).ok_or_else(missing)?, &pointer.last)
                .map_err(|failed| failed.within(format!("error in test for path: '{path}'")))?
        };
        let same = found.map_or(self.value.is_null(), |found| found.is(&self.value));
        if same { Ok(()) } else { Err(Failed::test(path)) }
    }
}

/// A parsed path: the container, and its member.
struct Pointer {
    parts: Vec<String>,
    last: String,
}

impl Pointer {
    /// The empty path is not one: it has no container.
    fn parse(path: &str) -> Option<Pointer> {
        let mut parts: Vec<String> = path.split('/').skip(1).map(unescape).collect();
        let last = parts.pop()?;
        Some(Pointer { parts, last })
    }

    fn parent<'a>(&self, doc: &'a mut Node) -> Option<Opened<'a>> {
        let mut here = doc;
        for part in &self.parts {
            here = match here.open()? {
                Opened::Map(map) => map.get_mut(part.as_str())?,
                Opened::List(list) => {
                    let at = index(part, list.len()).ok()?;
                    &mut list[at]
                }
            };
        }
        here.open()
    }
}

/// `~1` is a slash and `~0` a tilde, in one pass: `~01` is the text `~1`.
fn unescape(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.as_bytes().first() {
            Some(b'0') => out.push('~'),
            Some(b'1') => out.push('/'),
            _ => {
                out.push('~');
                continue;
            }
        }
        rest = &rest[1..];
    }
    out.push_str(rest);
    out
}

/// An existing position; negative ones count from the end.
fn index(key: &str, len: usize) -> Result<usize, Failed> {
    let not_a_number = |error| {
        let why = crate::number_error(&error);
        Failed::new(format!("strconv.Atoi: parsing {}: {why}", crate::quote(key)))
    };
    let i: i64 = key.parse().map_err(not_a_number)?;
    let at = if i < 0 { i.checked_add_unsigned(len as u64) } else { Some(i) };
    at.and_then(|at| usize::try_from(at).ok())
        .filter(|at| *at < len)
        .ok_or_else(|| Failed::new(format!("Unable to access invalid index: {i}: invalid index referenced")))
}

/// What an operation says of a container that is not there, and around what its container says.
type Missing<'f> = &'f dyn Fn() -> Failed;
type Within<'f> = &'f dyn Fn(Failed) -> Failed;

fn member<'a>(container: Opened<'a>, key: &str) -> Result<Option<&'a Node>, Failed> {
    match container {
        Opened::Map(map) => Ok(map.get(key)),
        Opened::List(list) => {
            let at = index(key, list.len())?;
            Ok(Some(&list[at]))
        }
    }
}

fn add(
    doc: &mut Node,
    path: &str,
    value: Node,
    spent: &mut Spent,
    missing: Missing<'_>,
    within: Within<'_>,
) -> Result<(), Failed> {
    let pointer = Pointer::parse(path).ok_or_else(missing)?;
    // Copies of a member into itself double the depth each time.
    if pointer.parts.len() + 1 + value.depth() > MAX_GROWN {
        return Err(Failed::too_deep());
    }
    match pointer.parent(doc).ok_or_else(missing)? {
        Opened::Map(map) => put(map, pointer.last, value),
        Opened::List(list) if pointer.last == "-" => list.push(value),
        Opened::List(list) => {
            // One more position than there are elements: the end.
            let key = &pointer.last;
            let at = index(key, list.len() + 1).map_err(|failed| match key.parse::<i64>() {
                Ok(_) => within(failed),
                Err(_) => within(failed.within(format!("value was not a proper array index: '{key}'"))),
            })?;
            spent.steps(list.len() - at)?;
            list.insert(at, value);
        }
    }
    Ok(())
}

fn put(map: &mut BTreeMap<Name, Node>, name: String, value: Node) {
    if let Some(mut old) = map.insert(Name::from(name), value) {
        old.replace(Node::Closed(Value::Null));
    }
}

fn remove(
    doc: &mut Node,
    path: &str,
    spent: &mut Spent,
    missing: Missing<'_>,
    within: Within<'_>,
) -> Result<Node, Failed> {
    let pointer = Pointer::parse(path).ok_or_else(missing)?;
    let key = pointer.last.as_str();
    match pointer.parent(doc).ok_or_else(missing)? {
        Opened::Map(map) => {
            let nothing = || within(Failed::missing(format!("Unable to remove nonexistent key: {key}")));
            map.remove(key).ok_or_else(nothing)
        }
        Opened::List(list) => {
            let at = index(key, list.len()).map_err(within)?;
            spent.steps(list.len() - at)?;
            Ok(list.remove(at))
        }
    }
}

/// About as many bytes as the value has in JSON.
fn encoded_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Int(_) | Value::Float(_) => 8,
        Value::Str(text) => text.len() + 2,
        Value::Raw(text) => text.len(),
        Value::List(list) => 2 + deep(|| list.iter().map(|v| encoded_size(v) + 1).sum::<usize>()),
        Value::Map(map) => 2 + deep(|| map.iter().map(|(n, v)| n.len() + 4 + encoded_size(v)).sum::<usize>()),
    }
}

fn cannot_decode(value: &Value, into: &str) -> Status {
    Status::bad_request(format!(
        "error decoding patch: json: cannot unmarshal {} into Go {into}",
        value.json_type()
    ))
}

#[cfg(test)]
mod tests;
