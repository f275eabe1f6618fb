//! Fuzz targets: `managedFields` and configurations that a client sends. See the documentation of `fuzz` for how a run works.

#![allow(clippy::unwrap_used)]

use catalog::Catalog;
use fuzz::{Fuzz, Growth};
use managed_fields::typed::{self, Duplicates};
use managed_fields::{ApplyError, Converter, FieldManager, Managers, Set, TypeRef};
use object::Value;
use structural::Structural;

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
            assert_eq!(Set::from_fields(&codec::json::expanded(&set.to_raw())).unwrap(), set);
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

fn of_pods<'a>(ty: TypeRef<'a>, converter: &'a OneVersion<'a>, empty: &'a Value) -> FieldManager<'a> {
    FieldManager {
        api_version: "v1",
        kind: "Pod",
        ty,
        subresource: "",
        converter,
        reset: &[],
        empty,
        now: 1_600_000_000,
    }
}

#[test]
fn writes() {
    let catalog = Catalog::builtin();
    let ty = TypeRef::built_in(catalog.schema(), catalog.find_type("", "v1", "Pod").unwrap());
    let converter = OneVersion(ty);
    let (live, empty) = (parse(LIVE), parse(r#"{"apiVersion":"v1","kind":"Pod"}"#));
    let field_manager = of_pods(ty, &converter, &empty);
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
                    let text = codec::json::to_vec(&once);
                    let read = codec::json::parse(&text, None).unwrap();
                    typed::validate(&read, ty, Duplicates::Allowed).unwrap();
                    "applied".to_owned()
                }
            };
            format!("{updated}; {applied}")
        },
    );
}

const WIDGETS: &str = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
    "tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
    "ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["port","protocol"],
      "items":{"type":"object","required":["port"],"properties":{"port":{"type":"integer"},
        "protocol":{"type":"string","default":"TCP"},"names":{"type":"array","items":{"type":"string"}}}}},
    "whole":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"string"}},
    "any":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}"#;

/// The object that is there, its managers included, and the configuration, one in a line each; before them who applies it to what.
#[test]
fn applies() {
    let catalog = Catalog::builtin();
    let widgets = Structural::parse(&parse(WIDGETS)).unwrap();
    let types = [
        TypeRef::built_in(catalog.schema(), catalog.find_type("", "v1", "Pod").unwrap()),
        TypeRef::custom(&widgets, catalog.schema()),
        TypeRef::deduced(),
    ];
    let live = LIVE.replace('\n', " ");
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"c"},"finalizers":["x/z"]},"spec":{"containers":[{"name":"c","image":"j"},{"name":"d"}]}}"#;
    let widget = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","uid":"u","managedFields":[{"manager":"n","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:tags":{"v:\"a\"":{}},"f:ports":{"k:{\"port\":1,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}},"f:any":{"f:x":{}},"f:whole":{}}}}]},"spec":{"tags":["a","b"],"ports":[{"port":1,"protocol":"TCP"},{"port":1,"protocol":"UDP"}],"whole":{"a":"b"},"any":{"x":[1,{"y":null}]}}}"#;
    let wanted = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"tags":["b","c"],"ports":[{"port":1,"names":["q"]},{"port":2,"protocol":"UDP"}],"whole":{"c":"d"},"any":{"x":[2],"z":{}}}}"#;
    let seeds = [
        format!("0m{live}\n{pod}"),
        format!("0n{live}\n{live}"),
        format!("1n{widget}\n{wanted}"),
        format!("1m{wanted}\n{widget}"),
        format!("2m{widget}\n{wanted}"),
        format!("2n{live}\n{pod}"),
    ];
    let tokens = [
        "null",
        "\n",
        "\"k:{\\\"port\\\":1}\":{},",
        "\"f:spec\":{},",
        "\"i:0\":{},",
        "\".\":{},",
        "{\"port\":1},",
        "{},",
        "[",
        "]",
        "{",
        "}",
        "\"apiVersion\":\"v9\",",
        "\"operation\":\"Apply\",",
        "\"b\",",
    ];
    let entry = r#"{"manager":"m{i}","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:tags":{"v:\"a{i}\"":{}}}}},"#;
    let end = r#"{"manager":"z","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:tags":{}}}}]},"spec":{"tags":["a"]}}"#;
    let (start, config) =
        (r#"1m{"apiVersion":"v1","kind":"Pod","metadata":{"managedFields":["#, format!("{end}\n{wanted}"));
    let tags = format!("{}\n{wanted}", r#""z"]}}"#);
    let ports = format!("{}\n{wanted}", r#"{"port":0}]}}"#);
    let growth = [
        Growth::new(start, entry, &config, 1500),
        Growth::new(r#"1m{"apiVersion":"v1","kind":"Pod","spec":{"tags":["#, r#""t{i}","#, &tags, 8000),
        Growth::new(
            r#"1m{"apiVersion":"v1","kind":"Pod","spec":{"ports":["#,
            r#"{"port":{i}},"#,
            &ports,
            8000,
        ),
        Growth::new(r#"1m{"apiVersion":"v1","kind":"Pod","spec":{"ports":["#, r#"{"port":1},"#, &ports, 8000),
    ];
    Fuzz::new("applies").seeds(seeds).tokens(&tokens).allocates(2 << 20, 40_000).grows(&growth).run(
        |input| {
            let [kind, manager, rest @ ..] = input else { return "empty".to_owned() };
            let Some(end) = rest.iter().position(|b| *b == b'\n') else { return "one line".to_owned() };
            let read = |bytes: &[u8]| {
                let mut object = codec::json::parse(bytes, None).ok()?;
                object::patch::keep_last_fields(&mut object);
                Some(object)
            };
            let (Some(live), Some(config)) = (read(&rest[..end]), read(&rest[end + 1..])) else {
                return "no JSON".to_owned();
            };
            let ty = types[usize::from(*kind) % types.len()];
            let manager = if manager % 2 == 0 { "n" } else { "m" };
            let (converter, empty) = (OneVersion(ty), parse(r#"{"apiVersion":"v1","kind":"Pod"}"#));
            let field_manager = of_pods(ty, &converter, &empty);
            let applied = match field_manager.apply(&live, &config, manager, false) {
                Ok(once) => Ok(once),
                Err(ApplyError::Conflicts(_)) => Ok(field_manager
                    .apply(&live, &config, manager, true)
                    .expect("force takes what others have")),
                Err(why) => Err(why.to_string()),
            };
            match applied {
                Err(why) => why,
                Ok(once) => {
                    let left = once.at(&["metadata", "managedFields"]).cloned();
                    let managers = Managers::decode(left).expect("what is written can be read");
                    assert!(
                        managers.iter().all(|manager| !manager.set().is_empty()),
                        "nobody stays without fields"
                    );
                    let twice = field_manager
                        .apply(&once, &config, manager, false)
                        .expect("no conflict with oneself");
                    let again = field_manager.apply(&twice, &config, manager, false).expect("nor later");
                    assert_eq!(again, twice, "who applies again changes nothing");
                    format!("{} managers", managers.len().min(4))
                }
            }
        },
    );
}
