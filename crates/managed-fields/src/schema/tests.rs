//! Every type of the catalogue against what kube-apiserver v1.36.4 makes of its published schemas.
//!
//! `tests/data/types.txt` has a line a type and, indented, a line a field: the name, the type, of a list's key its default
//! (or `null`).
//! `n`, `s`, `b`, `u` are scalars (numeric, string, boolean, any); `[KEYS](T)` a list, with `!` an atomic one; `{}(T)` a map,
//! with `!` an atomic one; `NAME` a struct, with `!` an atomic one; `A` anything as a whole, `D` anything by its members,
//! `-` nothing.

use std::collections::BTreeSet;

use catalog::Catalog;

use super::*;

fn describe(ty: TypeRef<'_>) -> String {
    match ty.0 {
        Kind::Nothing => return "-".to_owned(),
        Kind::Untyped => return "A".to_owned(),
        Kind::Deduced => return "D".to_owned(),
        Kind::BuiltIn(shaped) => {
            if let Some(name) = shaped.name() {
                let atomic = ty.resolve().map.is_some_and(|map| map.atomic);
                return format!("{name}{}", if atomic { "!" } else { "" });
            }
        }
        _ => {}
    }
    let atom = ty.resolve();
    let mut out = String::new();
    out.push_str(match atom.scalar {
        None => "",
        Some(Scalar::Numeric) => "n",
        Some(Scalar::String) => "s",
        Some(Scalar::Boolean) => "b",
        Some(Scalar::Untyped) => "u",
    });
    if let Some(list) = atom.list {
        let relation = match list.relation {
            ListRelation::Atomic => "!".to_owned(),
            ListRelation::Set => String::new(),
            ListRelation::Map(keys) => keys.join(","),
        };
        out.push_str(&format!("[{relation}]({})", describe(list.element)));
    }
    if let Some(map) = atom.map {
        out.push_str(&format!("{{{}}}({})", if map.atomic { "!" } else { "" }, describe(map.element)));
    }
    out
}

#[test]
fn every_type_is_as_upstream_publishes_it() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    let mut here: Option<(String, MapType<'_>, BTreeSet<&str>)> = None;
    let missing = |here: &Option<(String, MapType<'_>, BTreeSet<&str>)>, wrong: &mut Vec<String>| {
        if let Some((name, _, fields)) = here {
            wrong.extend(fields.iter().map(|field| format!("{name}.{field} is ours alone")));
        }
    };
    for line in include_str!("../../tests/data/types.txt").lines() {
        let words: Vec<_> = line.splitn(3, ' ').collect();
        let Some(field) = line.strip_prefix("  ") else {
            missing(&here, &mut wrong);
            let name = words[0].trim_end_matches('!');
            let ty = TypeRef::built_in(schema, schema.find(name).expect(name));
            seen.insert(name.to_owned());
            let map = ty.resolve().map.expect("a struct");
            let found = format!("{name}{} {}", if map.atomic { "!" } else { "" }, describe(map.element));
            if found != line {
                wrong.push(format!("{line}: {found}"));
            }
            here = Some((name.to_owned(), map, map.names().into_iter().collect()));
            continue;
        };
        let (name, map, fields) = here.as_mut().expect("a type before its fields");
        let words: Vec<_> = field.splitn(3, ' ').collect();
        fields.remove(words[0]);
        let found = map.field(words[0]).map(describe);
        if found.as_deref() != Some(words[1]) {
            wrong.push(format!("{name}.{field}: {found:?}"));
        }
        if let Some(default) = words.get(2) {
            let found = codec::json::to_vec(&map.default_of(words[0]).unwrap_or(Value::Null));
            if found != default.as_bytes() {
                wrong.push(format!("{name}.{field}: default {found:?}"));
            }
        }
    }
    missing(&here, &mut wrong);
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
    // Of the others none is ever a value with owners: options of requests, discovery, tables.
    let others = schema.iter().map(|(_, ty)| ty.name.to_string()).filter(|name| !seen.contains(name));
    let known = ["Options", "apidiscovery.", "meta.v1.", "apiextensions.v1.CustomResource"];
    let others: Vec<_> = others.filter(|name| !known.iter().any(|known| name.contains(known))).collect();
    assert!(others.is_empty(), "{others:?}");
}
