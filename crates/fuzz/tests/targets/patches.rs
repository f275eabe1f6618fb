//! Patches of canonical objects: no panic, bounded work, and a result that can be normalised.

use catalog::{Catalog, TypeId};
use codec::json;
use fuzz::{Fuzz, Growth};
use object::Value;
use object::normalise::{Strict, normalise};
use object::patch::json::JsonPatch;
use object::patch::{duplicate_fields, keep_last_fields, merge, strategic};

use crate::samples::{self, WORDS, sorted};

/// Objects to patch: the first byte of the input selects one, the rest is the patch.
fn documents(catalog: &Catalog) -> Vec<(TypeId, Value)> {
    samples::ALL.iter().map(|text| samples::canonical(catalog, text)).collect()
}

fn split<'i>(documents: &[(TypeId, Value)], input: &'i [u8]) -> Option<(TypeId, Value, &'i [u8])> {
    let (first, patch) = input.split_first()?;
    let (ty, value) = &documents[usize::from(*first) % documents.len()];
    Some((*ty, value.clone(), patch))
}

/// The outcome: the error message, or that of normalising the result.
fn settle(catalog: &Catalog, ty: TypeId, mut value: Value) -> String {
    match normalise(catalog.schema(), ty, &mut value, &mut Strict::on()) {
        Ok(()) => "ok".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn json_patch() {
    let catalog = Catalog::builtin();
    let documents = documents(&catalog);
    let seeds = [
        r#"0[{"op":"add","path":"/metadata/labels/a~1b","value":"c"},{"op":"remove","path":"/spec/volumes/0"}]"#,
        r#"0[{"op":"test","path":"/spec/containers/0/name","value":"c"},{"op":"move","from":"/spec/containers/0","path":"/spec/containers/-"}]"#,
        r#"1[{"op":"copy","from":"/spec","path":"/metadata/annotations"},{"op":"replace","path":"","value":{}}]"#,
        r#"0[{"op":"copy","from":"/spec","path":"/spec/x"},{"op":"copy","from":"/spec","path":"/spec/x"},{"op":"copy","from":"/spec","path":"/spec/x"}]"#,
    ];
    let tokens = &[
        "{\"op\":\"copy\",\"from\":\"\",\"path\":\"/a\"},",
        "{\"op\":\"copy\",\"from\":\"/spec\",\"path\":\"/spec/containers/-\"},",
        "{\"op\":\"add\",\"path\":\"/spec/containers/0\",\"value\":1},",
        "\"op\":\"test\"",
        "\"op\":\"move\"",
        "\"op\":\"remove\"",
        "/-",
        "/~0",
        "/~1",
        "/~2",
        "/00",
        "/-1",
        "/18446744073709551615",
        "null",
    ];
    let growth = [
        Growth::new(
            "0[",
            "{\"op\":\"add\",\"path\":\"/metadata/labels/k{i}\",\"value\":\"v\"},",
            "{\"op\":\"test\",\"path\":\"/kind\",\"value\":\"Pod\"}]",
            9000,
        ),
        Growth::new("0[{\"op\":\"add\",\"path\":\"", "/a", "\",\"value\":1}]", 50_000),
        Growth::new("0[{\"op\":\"add\",\"path\":\"/", "~1", "\",\"value\":1}]", 50_000),
        Growth::new(
            "0[",
            "{\"op\":\"add\",\"path\":\"/spec/tolerations/0\",\"value\":{\"key\":\"k{i}\"}},",
            "{\"op\":\"test\",\"path\":\"/kind\",\"value\":\"Pod\"}]",
            4000,
        ),
    ];
    // A copy may copy the whole document: the total of all copies has a bound of its own.
    Fuzz::new("json_patch").seeds(seeds).tokens(tokens).allocates(64 << 20, 4000).grows(&growth).run(
        |input| {
            let Some((ty, document, patch)) = split(&documents, input) else { return "empty".into() };
            let patch = match json::parse(patch, None) {
                Ok(patch) => patch,
                Err(error) => return error.to_string(),
            };
            let mut unchecked = document.clone();
            let free = JsonPatch::parse_unchecked(patch.clone()).and_then(|p| p.apply(&mut unchecked));
            let patch = match JsonPatch::parse(patch) {
                Ok(patch) => patch,
                Err(status) => return status.message,
            };
            let mut patched = document;
            match patch.apply(&mut patched) {
                Ok(()) => {
                    if patch.strict_errors().is_empty() {
                        assert!(free.is_ok(), "a patch valid under strict validation is valid without it");
                        assert_eq!(unchecked, patched);
                    }
                    settle(&catalog, ty, patched)
                }
                Err(status) => status.message,
            }
        },
    );
}

#[test]
fn merge_patch() {
    let catalog = Catalog::builtin();
    let documents = documents(&catalog);
    let seeds = [
        r#"0{"metadata":{"labels":{"app":null,"b":"c"}},"spec":{"containers":[]}}"#,
        r#"3{"data":{"a":null},"stringData":null,"x":{"y":{"z":null}}}"#,
        r#"5null"#,
        r#"1{"spec":1}"#,
    ];
    let growth = [
        Growth::new("0{\"metadata\":{\"labels\":{", "\"k{i}\":\"v\",", "\"z\":null}}}", 20_000),
        Growth::new("0{\"metadata\":{\"labels\":{", "\"k\":\"v\",", "\"z\":null}}}", 20_000),
        Growth::new("0", "{\"a\":", "", 9000),
    ];
    Fuzz::new("merge_patch").seeds(seeds).tokens(WORDS).allocates(256 << 10, 1000).grows(&growth).run(
        |input| {
            let Some((ty, document, patch)) = split(&documents, input) else { return "empty".into() };
            let mut patch = match json::parse(patch, None) {
                Ok(patch) => patch,
                Err(error) => return error.to_string(),
            };
            let duplicates = duplicate_fields(&patch);
            keep_last_fields(&mut patch);
            assert!(duplicate_fields(&patch).is_empty(), "the last of a name is the only one");
            let mut once = document;
            if let Err(status) = merge::apply(&mut once, patch.clone()) {
                return status.message;
            }
            let mut twice = once.clone();
            merge::apply(&mut twice, patch).expect("a valid patch applies twice");
            // Members that stay empty come in the order in which they were last set.
            assert_eq!(sorted(&twice), sorted(&once), "RFC 7386: applying it twice is applying it once");
            let settled = settle(&catalog, ty, once);
            if duplicates.is_empty() { settled } else { format!("twice {settled}") }
        },
    );
}

#[test]
fn strategic_patch() {
    let catalog = Catalog::builtin();
    let documents = documents(&catalog);
    let schema = catalog.schema();
    let seeds = [
        r#"0{"spec":{"containers":[{"name":"c","image":"j"},{"name":"d","$patch":"delete"}],"$setElementOrder/containers":[{"name":"c"}]}}"#,
        r#"0{"spec":{"volumes":[{"$patch":"replace"},{"name":"q"}],"$retainKeys":["volumes"]}}"#,
        r#"0{"metadata":{"$deleteFromPrimitiveList/finalizers":["x/y"],"finalizers":["b/c"],"$setElementOrder/finalizers":["b/c","x/y"]}}"#,
        r#"1{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate","rollingUpdate":null}}}"#,
        r#"2{"spec":{"ports":[{"port":80,"targetPort":1},{"port":82}],"$setElementOrder/ports":[{"port":82},{"port":80}]}}"#,
        r#"4{"spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"$patch":"delete"}}}]}}"#,
        r#"0{"$patch":"replace","metadata":{"name":"b"}}"#,
    ];
    let tokens = &[
        "\"$patch\":\"delete\",",
        "\"$patch\":\"replace\",",
        "\"$patch\":\"merge\",",
        "\"$patch\":1,",
        "\"$retainKeys\":[\"name\"],",
        "\"$retainKeys\":1,",
        "\"$setElementOrder/containers\":[{\"name\":\"c\"}],",
        "\"$setElementOrder/\":[],",
        "\"$deleteFromPrimitiveList/args\":[\"1\"],",
        "\"$deleteFromPrimitiveList/\":[1],",
        "{\"name\":\"c\"},",
        "null",
        "[",
        "{",
        "}",
        "]",
    ];
    let growth = [
        Growth::new("0{\"spec\":{\"containers\":[", "{\"name\":\"c{i}\"},", "{\"name\":\"z\"}]}}", 4000),
        Growth::new("0{\"metadata\":{\"finalizers\":[", "\"x/f{i}\",", "\"x/z\"]}}", 8000),
        Growth::new("0{\"metadata\":{\"labels\":{", "\"k{i}\":\"v\",", "\"z\":null}}}", 20_000),
        Growth::new(
            "0{\"spec\":{\"containers\":[",
            "{\"name\":\"c{i}\",\"$patch\":\"delete\"},",
            "{\"name\":\"z\"}]}}",
            4000,
        ),
        Growth::new("0{\"spec\":{\"$retainKeys\":[", "\"k{i}\",", "\"z\"],\"hostname\":\"a\"}}", 20_000),
    ];
    Fuzz::new("strategic_patch").seeds(seeds).tokens(tokens).allocates(256 << 10, 4000).grows(&growth).run(
        |input| {
            let Some((ty, document, patch)) = split(&documents, input) else { return "empty".into() };
            let mut patch = match json::parse(patch, None) {
                Ok(patch) => patch,
                Err(error) => return error.to_string(),
            };
            keep_last_fields(&mut patch);
            strategic::rest(schema, ty, &document, &patch);
            let mut patched = document;
            match strategic::apply(schema, ty, &mut patched, patch) {
                Ok(()) => settle(&catalog, ty, patched),
                Err(status) => status.message,
            }
        },
    );
}
