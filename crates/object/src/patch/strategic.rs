//! Strategic merge patch: a merge patch whose lists merge by the keys of the schema, and that can carry
//! directives.
//!
//! ```text
//! {"spec": {"containers": [{"name": "a", "image": "x"}]}}       merged into the container named a
//! {"$patch": "delete", "name": "a"}                             an element to remove
//! {"$patch": "replace"}                                         in a map or list: take the patch as it is
//! {"$retainKeys": ["type"]}                                     members not listed are removed first
//! {"$deleteFromPrimitiveList/finalizers": ["a"]}                elements to remove from a list of scalars
//! {"$setElementOrder/containers": [{"name": "b"}, ...]}         the order the list shall have
//! ```

mod lists;
mod order;
mod rest;
#[cfg(test)]
mod tests;
mod work;

use catalog::{Field, Name, PatchRule, Schema, Shape, StructType, TypeId};

use super::discard_nulls;
use super::entries::Entries;
use super::go_format::{print, print_as_text, type_name};
use crate::{Map, Status, Value, deep, discard, quote};
use work::Work;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Merges `patch` into `doc`, an object of type `ty`; on an error `doc` is partly changed and must be dropped.
pub fn apply(schema: &Schema, ty: TypeId, doc: &mut Value, patch: Value) -> Result<(), Status> {
    let mut work = Work::on(doc, &patch);
    let patch = match patch {
        Value::Map(patch) => patch,
        Value::Null => Map::default(),
        other => {
            return Err(Status::bad_request(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                other.json_type()
            )));
        }
    };
    let original = std::mem::take(doc.make_map());
    let merged = merge_maps(Level::Struct(schema, schema.get(ty)), original, patch, &mut work)?;
    *doc = Value::Map(merged);
    Ok(())
}

/// The patch as upstream shows it in an error after it was applied to `doc`, an object of type `ty`: without the directives it
/// has followed.
pub fn rest(schema: &Schema, ty: TypeId, doc: &Value, patch: &Value) -> Value {
    let mut work = Work::on(doc, patch);
    let mut patch = patch.clone();
    if let (Value::Map(doc), Value::Map(patch)) = (doc, &mut patch) {
        rest::of_map(Level::Struct(schema, schema.get(ty)), doc, patch, &mut work);
    }
    patch
}

/// The schema of the current map.
#[derive(Clone, Copy)]
enum Level<'a> {
    Struct(&'a Schema, &'a StructType),
    Map(&'a Schema, &'a Shape),
    /// Any JSON: maps merge, lists are replaced.
    Open,
}

/// The schema of one member.
#[derive(Clone, Copy)]
struct Member<'a> {
    shape: Option<(&'a Schema, &'a Shape)>,
    rule: Option<&'a PatchRule>,
}

impl<'a> Level<'a> {
    fn of(schema: &'a Schema, shape: &'a Shape) -> Level<'a> {
        match shape {
            Shape::Struct(id) => Level::Struct(schema, schema.get(*id)),
            Shape::Map(inner) => Level::Map(schema, inner),
            _ => Level::Open,
        }
    }

    /// A name the schema does not have merges as plain JSON; decoding reports it afterwards.
    // Differs from kube-apiserver: inside arbitrary JSON and maps of structs it fails with 500 where both
    // sides hold a map, because it finds no Go field; merging is what the client wants.
    fn member(self, name: &str) -> Member<'a> {
        match self {
            Level::Struct(schema, ty) => match ty.field(name) {
                Some((_, Field { shape, patch, .. })) => {
                    Member { shape: Some((schema, shape)), rule: Some(patch) }
                }
                None => Member { shape: None, rule: None },
            },
            Level::Map(schema, shape) => Member { shape: Some((schema, shape)), rule: None },
            Level::Open => Member { shape: None, rule: None },
        }
    }

    /// What `$setElementOrder` names must exist: nothing else would tell the client of a misspelt name.
    fn known_member(self, name: &str) -> Result<Member<'a>, Status> {
        match self {
            Level::Struct(_, ty) if ty.field(name).is_none() => Err(Status::unknown(format!(
                "unable to find api field in struct {} for the json field {}",
                ty.short,
                quote(name)
            ))),
            _ => Ok(self.member(name)),
        }
    }
}

impl<'a> Member<'a> {
    fn level(self) -> Level<'a> {
        self.shape.map_or(Level::Open, |(schema, shape)| Level::of(schema, shape))
    }
    fn element_level(self) -> Level<'a> {
        match self.shape {
            Some((schema, Shape::List(inner))) => Level::of(schema, inner),
            _ => Level::Open,
        }
    }
    fn merges(self) -> bool {
        self.rule.is_some_and(|rule| rule.merge)
    }
    fn replaces(self) -> bool {
        self.rule.is_some_and(|rule| rule.replace)
    }
    fn key(self) -> Option<&'a str> {
        self.rule.and_then(|rule| rule.key.as_ref()).map(Name::as_str)
    }
}

fn merge_maps(level: Level<'_>, original: Map, patch: Map, work: &mut Work) -> Result<Map, Status> {
    work.spend(original.len() + patch.len())?;
    let mut patch = Entries::open(patch);
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch.close())
            }
            Some("delete") => Ok(Map::default()),
            _ => {
                let directive = directive.clone();
                Err(bad_directive(&directive, patch.close()))
            }
        };
    }
    let mut original = Entries::open(original);
    let patch = retain_keys(&mut original, patch)?;
    let patch = order::apply_set_order(level, &mut original, patch, work)?;
    for (name, value) in patch {
        merge_member(level, &mut original, name, value, work)?;
    }
    Ok(original.close())
}

fn merge_member(
    level: Level<'_>,
    original: &mut Entries,
    name: Name,
    value: Value,
    work: &mut Work,
) -> Result<(), Status> {
    let deletes = name.starts_with(DELETE_FROM);
    let name = if deletes {
        let target = target(&name, DELETE_FROM)
            .ok_or_else(|| Status::bad_request("invalid patch format of primitive list"))?;
        Name::from(target.to_owned())
    } else {
        name
    };
    if value.is_null() {
        original.remove(&name).into_iter().for_each(discard);
        return Ok(());
    }
    let member = level.member(&name);
    match (original.get_mut(&name), value) {
        (Some(Value::Map(old)), Value::Map(new)) => {
            *old = if member.replaces() {
                new
            } else {
                deep(|| merge_maps(member.level(), std::mem::take(old), new, work))?
            };
        }
        (Some(Value::List(old)), Value::List(new)) => {
            let old_list = std::mem::take(old);
            *old = if member.merges() || deletes {
                lists::merge(member, old_list, new, deletes, work)?
            } else {
                discard(Value::List(old_list));
                new
            };
        }
        (_, _) if deletes => {}
        // Nothing there, or something of another type: the patch's value without what only patches have.
        (_, mut value) => {
            discard_nulls(&mut value);
            match without_directives(value) {
                Some(value) => original.set(name, value),
                None => original.remove(&name).into_iter().for_each(discard),
            }
        }
    }
    Ok(())
}

/// Removes from `original` what `$retainKeys` does not list; the patch may set only what it lists.
fn retain_keys(original: &mut Entries, mut patch: Entries) -> Result<Map, Status> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else {
        return Ok(patch.close());
    };
    let patch = patch.close();
    let wrong = || Status::bad_request("invalid patch format of retainKeys");
    let Value::List(list) = directive else { return Err(wrong()) };
    let keep: std::collections::HashSet<&str> = list.iter().filter_map(Value::as_str).collect();
    for (name, value) in patch.iter() {
        let other = value.is_null() || name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER);
        if !other && !keep.contains(name.as_str()) {
            return Err(wrong());
        }
    }
    original.retain(|name| keep.contains(name));
    Ok(patch)
}

/// `finalizers` of `$deleteFromPrimitiveList/finalizers`.
fn target<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let (before, after) = name.split_once('/')?;
    (before == prefix).then_some(after)
}

/// The value without maps that carry `$patch`; `None` when it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Map(map) if map.contains(DIRECTIVE) => None,
        Value::Map(map) => {
            let kept = map.into_iter().filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Map(deep(|| kept.collect())))
        }
        Value::List(list) => {
            Some(Value::List(deep(|| list.into_iter().filter_map(without_directives).collect())))
        }
        other => Some(other),
    }
}

fn bad_directive(directive: &Value, map: Map) -> Status {
    let map = print(&Value::Map(map));
    Status::unknown(format!("unknown patch type: {} in map: {map}", print_as_text(directive)))
}

fn no_merge_key(element: &Value, key: &str) -> Status {
    Status::unknown(format!("map: {} does not contain declared merge key: {key}", print(element)))
}

fn not_a_map(actual: &Value) -> Status {
    Status::unknown(format!("expected a map[string]interface {{}}, but received a {}", type_name(actual)))
}

fn not_a_list(actual: &Value) -> Status {
    Status::unknown(format!("expected a []interface {{}}, but received a {}", type_name(actual)))
}
