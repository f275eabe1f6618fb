//! JSON patch (RFC 6902) with the habits of the library kube-apiserver uses.
//!
//! Those habits, beyond the RFC: `replace` of a missing member adds it; `test` of a missing member succeeds
//! against null; negative indices count from the end; the whole document can be tested and replaced, but not
//! added, removed, moved or copied; text before the first slash of a path is ignored.

use catalog::Name;

use super::{MAX_DEPTH, MAX_STRICT_ERRORS, depth, duplicate_fields};
use crate::{Status, Value};

/// Upstream's bound; more is refused with 413.
pub const MAX_OPERATIONS: usize = 10_000;
/// What all copies of one patch may add, in bytes of JSON: upstream's bound. A few copies of a member into
/// itself would otherwise fill the memory.
pub const MAX_COPY_BYTES: usize = 3 * 1024 * 1024;

/// A parsed list of operations.
#[derive(Debug)]
pub struct JsonPatch {
    operations: Vec<Operation>,
    strict_errors: Vec<String>,
}

#[derive(Debug)]
struct Operation {
    kind: String,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

/// An operation that does not apply. The client is told only that one did not, as upstream does.
struct Failed;

impl JsonPatch {
    pub fn parse(patch: Value) -> Result<JsonPatch, Status> {
        let mut strict_errors = duplicate_fields(&patch);
        let list = match patch {
            Value::List(list) => list,
            Value::Null => Vec::new(),
            other => return Err(cannot_decode(&other, "value of type []handlers.jsonPatchOp")),
        };
        let mut operations = Vec::with_capacity(list.len());
        for (i, item) in list.into_iter().enumerate() {
            operations.push(Operation::parse(item, i, &mut strict_errors)?);
        }
        if operations.len() > MAX_OPERATIONS {
            return Err(Status::too_large(format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            )));
        }
        for words in &mut strict_errors {
            words.insert_str(0, "json patch ");
        }
        Ok(JsonPatch { operations, strict_errors })
    }

    /// What strict field validation says of the patch itself: unknown and duplicate members of operations.
    pub fn strict_errors(&self) -> &[String] {
        &self.strict_errors
    }

    /// Applies all operations in order; on an error `doc` is half changed and must be dropped.
    pub fn apply(&self, doc: &mut Value) -> Result<(), Status> {
        let mut copied = 0;
        for operation in &self.operations {
            operation.apply(doc, &mut copied).map_err(|Failed| Status::unprocessable())?;
        }
        Ok(())
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
        for (name, value) in members {
            let text = match (name.as_str(), value) {
                ("value", value) => {
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
                    if strict_errors.len() < MAX_STRICT_ERRORS {
                        strict_errors.push(format!("unknown field \"[{at}].{name}\""));
                    }
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

    fn apply(&self, doc: &mut Value, copied: &mut usize) -> Result<(), Failed> {
        let path = self.path.as_deref().ok_or(Failed)?;
        match self.kind.as_str() {
            "add" => add(doc, &Pointer::parse(path)?, self.value.clone()),
            "remove" => remove(doc, &Pointer::parse(path)?).map(drop),
            "replace" => self.replace(doc, path),
            "test" => self.test(doc, path),
            "move" => {
                let from = self.from.as_deref().ok_or(Failed)?;
                let value = remove(doc, &Pointer::parse(from)?)?;
                add(doc, &Pointer::parse(path)?, value)
            }
            "copy" => {
                let from = Pointer::parse(self.from.as_deref().ok_or(Failed)?)?;
                let value = member(from.parent(doc)?, &from.last)?.cloned().unwrap_or(Value::Null);
                *copied += encoded_size(&value);
                if *copied > MAX_COPY_BYTES {
                    return Err(Failed);
                }
                add(doc, &Pointer::parse(path)?, value)
            }
            _ => Err(Failed),
        }
    }

    fn replace(&self, doc: &mut Value, path: &str) -> Result<(), Failed> {
        if path.is_empty() {
            if !matches!(self.value, Value::Map(_) | Value::List(_)) {
                return Err(Failed);
            }
            *doc = self.value.clone();
            return Ok(());
        }
        let pointer = Pointer::parse(path)?;
        if pointer.parts.len() + 1 + depth(&self.value) > MAX_DEPTH {
            return Err(Failed);
        }
        match pointer.parent(doc)? {
            Value::Map(map) => map.set(Name::from(pointer.last), self.value.clone()),
            Value::List(list) => {
                let at = index(&pointer.last, list.len())?;
                list[at] = self.value.clone();
            }
            _ => return Err(Failed),
        }
        Ok(())
    }

    fn test(&self, doc: &mut Value, path: &str) -> Result<(), Failed> {
        let found = if path.is_empty() {
            Some(&*doc)
        } else {
            let pointer = Pointer::parse(path)?;
            member(pointer.parent(doc)?, &pointer.last)?
        };
        if same(found.unwrap_or(&Value::Null), &self.value) { Ok(()) } else { Err(Failed) }
    }
}

fn sort(value: &mut Value) {
    if let Value::Map(map) = value {
        map.entries_mut().sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
    }
}

/// A path, split: where the container lies, and which of its members is meant.
struct Pointer {
    parts: Vec<String>,
    last: String,
}

impl Pointer {
    /// The empty path is not one: it has no container.
    fn parse(path: &str) -> Result<Pointer, Failed> {
        let mut parts: Vec<String> = path.split('/').skip(1).map(unescape).collect();
        let last = parts.pop().ok_or(Failed)?;
        Ok(Pointer { parts, last })
    }

    /// Go writes every map it opened by name; refusals show it so.
    fn parent<'a>(&self, doc: &'a mut Value) -> Result<&'a mut Value, Failed> {
        let mut here = doc;
        for part in &self.parts {
            sort(here);
            here = match here {
                Value::Map(map) => map.get_mut(part).ok_or(Failed)?,
                Value::List(list) => {
                    let at = index(part, list.len())?;
                    &mut list[at]
                }
                _ => return Err(Failed),
            };
        }
        sort(here);
        match here {
            Value::Map(_) | Value::List(_) => Ok(here),
            _ => Err(Failed),
        }
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
    let i: i64 = key.parse().map_err(|_| Failed)?;
    let at = if i < 0 { i.checked_add_unsigned(len as u64).ok_or(Failed)? } else { i };
    usize::try_from(at).ok().filter(|at| *at < len).ok_or(Failed)
}

fn member<'a>(container: &'a Value, key: &str) -> Result<Option<&'a Value>, Failed> {
    match container {
        Value::Map(map) => Ok(map.get(key)),
        Value::List(list) => Ok(Some(&list[index(key, list.len())?])),
        _ => Err(Failed),
    }
}

fn add(doc: &mut Value, pointer: &Pointer, value: Value) -> Result<(), Failed> {
    // Copies of a member into itself double the depth each time.
    if pointer.parts.len() + 1 + depth(&value) > MAX_DEPTH {
        return Err(Failed);
    }
    let parent = pointer.parent(doc)?;
    match parent {
        Value::Map(map) => map.set(Name::from(pointer.last.clone()), value),
        Value::List(list) if pointer.last == "-" => list.push(value),
        Value::List(list) => {
            // One more position than there are elements: the end.
            let at = index(&pointer.last, list.len() + 1)?;
            list.insert(at, value);
        }
        _ => return Err(Failed),
    }
    sort(parent);
    Ok(())
}

fn remove(doc: &mut Value, pointer: &Pointer) -> Result<Value, Failed> {
    match pointer.parent(doc)? {
        Value::Map(map) => map.remove(&pointer.last).ok_or(Failed),
        Value::List(list) => {
            let at = index(&pointer.last, list.len())?;
            Ok(list.remove(at))
        }
        _ => Err(Failed),
    }
}

/// Equal whatever the order of members; `1` and `1.0` are not equal.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => {
            if a.len() != b.len() {
                return false;
            }
            let (mut left, mut right): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
            left.sort_by(|x, y| x.0.cmp(y.0));
            right.sort_by(|x, y| x.0.cmp(y.0));
            left.iter().zip(&right).all(|(x, y)| x.0 == y.0 && same(x.1, y.1))
        }
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(x, y)| same(x, y)),
        _ => a == b,
    }
}

/// About as many bytes as the value has in JSON.
fn encoded_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Int(_) | Value::Float(_) => 8,
        Value::Str(text) => text.len() + 2,
        Value::List(list) => 2 + list.iter().map(|v| encoded_size(v) + 1).sum::<usize>(),
        Value::Map(map) => 2 + map.iter().map(|(n, v)| n.len() + 4 + encoded_size(v)).sum::<usize>(),
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
