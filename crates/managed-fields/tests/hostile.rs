//! Fuzz targets: `managedFields` and configurations that a client sends. See the documentation of `fuzz` for how a run works.

#![allow(clippy::unwrap_used)]

use catalog::Catalog;
use fuzz::{Fuzz, Growth};
use managed_fields::typed::{self, Duplicates};
use managed_fields::{Converter, FieldManager, Set, TypeRef};
use object::Value;

fn parse(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

const FIELDS: [&str; 3] = [
    r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{}}}}}"#,
    r#"{"f:metadata":{"f:finalizers":{"v:\"x/y\"":{}}},"i:3":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{}}"#,
    r#"{"v:1.5":{},"v:[1,{\"a\":null}]":{},"x:1":{},"f:a":null}"#,
];

#[test]
fn fields_v1() {
    let tokens =
        ["\"f:a\":{}", "\"k:{\\\"a\\\":1}\":{", "\"v:true\":{},", "\"i:1\":{},", "\".\":{},", "}", "{"];
    let growth = [
        Growth::new("{", "\"f:k{i}\":{},", "\"f:z\":{}}", 20_000),
        Growth::new("{", "\"i:-{i}\":{},", "\"f:z\":{}}", 20_000),
        Growth::new("{", "\"f:k\":{\"f:a\":{}},", "\"f:z\":{}}", 20_000),
        Growth::new("", "{\"f:a\":", "{}*}", 2000),
    ];
    Fuzz::new("fields_v1").seeds(FIELDS).tokens(&tokens).allocates(64 << 10, 4000).grows(&growth).run(
        |input| {
            let set = match Set::parse(input) {
                Ok(set) => set,
                Err(why) => return why.to_string(),
            };
            let again = Set::parse(set.to_json().as_bytes()).unwrap();
            assert_eq!(again, set, "what is written reads back");
            assert_eq!(Set::from_fields(&set.to_fields()).unwrap(), set);
            let other = Set::parse(FIELDS[0].as_bytes()).unwrap();
            let union = set.union(&other);
            assert_eq!(union, other.union(&set));
            assert_eq!(union.difference(&other), set.difference(&other));
            assert_eq!(set.difference(&set.difference(&other)), set.intersection(&other));
            assert!(set.recursive_difference(&union).is_empty());
            format!("ok {}", set.len().min(8))
        },
    );
}

struct OneVersion<'a>(TypeRef<'a>);

impl Converter for OneVersion<'_> {
    fn type_of(&self, version: &str) -> Option<TypeRef<'_>> {
        (version == "v1").then_some(self.0)
    }
    fn convert(&self, _: &Value, _: &str) -> Result<Value, String> {
        Err("there is one version".to_owned())
    }
}

const LIVE: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d","uid":"u","labels":{"a":"b"},
    "finalizers":["x/y"],"managedFields":[
      {"manager":"m","operation":"Apply","apiVersion":"v1","time":"2020-01-01T00:00:00Z","fieldsType":"FieldsV1",
       "fieldsV1":{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:hostname":{}}}},
      {"manager":"n","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1",
       "fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{}}}}}}]},
    "spec":{"hostname":"h","containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}]}}"#;

#[test]
fn writes() {
    let catalog = Catalog::builtin();
    let ty = TypeRef::built_in(catalog.schema(), catalog.find_type("", "v1", "Pod").unwrap());
    let converter = OneVersion(ty);
    let (live, empty) = (parse(LIVE), parse(r#"{"apiVersion":"v1","kind":"Pod"}"#));
    let field_manager = FieldManager {
        api_version: "v1",
        kind: "Pod",
        ty,
        subresource: "",
        converter: &converter,
        reset: &[],
        empty: &empty,
        now: 1_600_000_000,
    };
    let seeds = [
        LIVE,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"c"}},"spec":{"containers":[{"name":"c","image":"j"},{"name":"d"}]}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"managedFields":[{}]},"spec":{"containers":[{"name":"c"},{"name":"c"}],"hostname":null}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","spec":{"tolerations":[{"key":"a"}],"nodeSelector":{"a":"b"},"volumes":[{"name":"v","emptyDir":{}}]}}"#,
    ];
    let tokens =
        ["null", "\"name\":\"c\",", "{\"name\":\"c\"},", "\"hostname\":1,", "\"x\":{},", "[", "]", "{", "}"];
    let growth = [
        Growth::new(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"managedFields":["#,
            r#"{"manager":"m{i}","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:k{i}":{}}},"#,
            r#"{}]},"spec":{"hostname":"x"}}"#,
            4000,
        ),
        Growth::new(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"managedFields":["#,
            r#"{"manager":"m{i}","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:k{i}":{}}},"#,
            r#"{"manager":"a","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:k":{}}}]},"spec":{"hostname":"x"}}"#,
            4000,
        ),
        Growth::new(
            r#"{"apiVersion":"v1","kind":"Pod","spec":{"containers":["#,
            r#"{"name":"c{i}"},"#,
            r#"{"name":"c"}]}}"#,
            8000,
        ),
        Growth::new(
            r#"{"apiVersion":"v1","kind":"Pod","spec":{"containers":["#,
            r#"{"name":"c"},"#,
            r#"{"name":"c"}]}}"#,
            8000,
        ),
        Growth::new(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"#,
            r#""k{i}":"v","#,
            r#""a":"c"}}}"#,
            20_000,
        ),
    ];
    Fuzz::new("managed_writes").seeds(seeds).tokens(&tokens).allocates(1 << 20, 20_000).grows(&growth).run(
        |input| {
            let Ok(mut object) = codec::json::parse(input, None) else { return "no JSON".to_owned() };
            object::patch::keep_last_fields(&mut object);
            let mut new = object.clone();
            let updated = match field_manager.update(&live, &mut new, "u") {
                Ok(()) => "updated".to_owned(),
                Err(why) => why.to_string(),
            };
            let applied = match field_manager.apply(&live, &object, "m", false) {
                Err(why) => why.to_string(),
                Ok(once) => {
                    let twice = field_manager.apply(&once, &object, "m", false).unwrap();
                    assert_eq!(twice, once, "who applies twice applies once");
                    typed::validate(&once, ty, Duplicates::Allowed).unwrap();
                    "applied".to_owned()
                }
            };
            format!("{updated}; {applied}")
        },
    );
}
