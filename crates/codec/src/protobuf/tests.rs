//! Against bytes that Go wrote (tests/golden/protobuf.jsonl), against our own, and against random bytes.

#[path = "../../tests/canonical/generate.rs"]
mod generate;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catalog::{AnyKind, Catalog, Schema, Shape, TypeId};
use generate::{Mess, Rng};
use object::Value;
use object::normalise::{Strict, normalise};

use super::*;
use crate::json;

/// Recorded with k8s.io/api v0.36.4: a body as Go's serializer wrote it, and the JSON of what Go read back from it.
const GOLDEN: &str = include_str!("../../tests/golden/protobuf.jsonl");

struct Golden {
    api_version: String,
    kind: String,
    object: Value,
    body: Vec<u8>,
}

impl Golden {
    fn find(api_version: &str, kind: &str) -> Golden {
        golden().find(|g| g.api_version == api_version && g.kind == kind).expect("it is recorded")
    }
}

fn golden() -> impl Iterator<Item = Golden> {
    GOLDEN.lines().map(|line| {
        let record = json::parse(line.as_bytes(), None).expect("golden lines are JSON");
        let text = |name: &str| record.str_at(&[name]).expect("every record has it").to_owned();
        Golden {
            api_version: text("apiVersion"),
            kind: text("kind"),
            object: record.get("object").expect("every record has it").clone(),
            body: STANDARD.decode(text("protobuf")).expect("base64"),
        }
    })
}

fn find_type(catalog: &Catalog, api_version: &str, kind: &str) -> Option<TypeId> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    catalog.find_type(group, version, kind)
}

fn canonical(schema: &Schema, ty: TypeId, mut value: Value) -> Value {
    normalise(schema, ty, &mut value, &mut Strict::off()).expect("the value fits its type");
    value
}

/// A message with one field of a length, as Go would write it.
fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_bytes(&mut out, number, bytes);
    out
}

fn body_of(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    seal(api_version, kind, &mut out, |out| out.extend_from_slice(message));
    out
}

fn parsed(text: &str) -> Value {
    json::parse(text.as_bytes(), None).expect("a test's JSON")
}

#[test]
fn bodies_written_by_go_decode_to_their_json_and_encode_the_same() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let find = |api_version: &str, kind: &str| find_type(&catalog, api_version, kind);
    let mut count = 0;
    for Golden { api_version, kind, object, body } in golden() {
        let what = format!("{api_version} {kind}");
        // Options have no version of their own: they come in that of the resource.
        let options = schema.find(&format!("meta.v1.{kind}"));
        let ty = find(&api_version, &kind).or(options).unwrap_or_else(|| panic!("no type for {what}"));
        let read = decode(schema, &body, &find, options).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(canonical(schema, ty, read), object, "{what}");
        let mut written = Vec::new();
        encode(schema, ty, &api_version, &kind, &object, &mut written);
        assert!(written == body, "{what}: {} bytes, Go wrote {}", written.len(), body.len());
        count += 1;
    }
    assert!(count > 100, "only {count} records");
}

#[test]
fn every_type_survives_the_wire() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    for seed in 1..=25 {
        println!("seed {seed}");
        let mut rng = Rng(seed);
        for (ty, t) in schema.iter() {
            let tidy = Mess { strangers: 0, wrong: 0, nulls: 3 };
            let mut sent = canonical(schema, ty, generate::document(schema, ty, tidy, &mut rng));
            carried(schema, &Shape::Struct(ty), AnyKind::Raw, &mut sent, &mut rng);
            let sent = canonical(schema, ty, sent);
            let mut bytes = Vec::new();
            encode_message(schema, ty, &sent, &mut bytes);
            let read = decode_message(schema, ty, &bytes).unwrap_or_else(|e| panic!("{}: {e}", t.name));
            assert_eq!(canonical(schema, ty, read), sent, "{}", t.name);
        }
    }
}

/// Reduces a value to what protobuf can carry: no fields without a number, no difference between an empty list and none,
/// and only schemas where only schemas are allowed.
fn carried(schema: &Schema, shape: &Shape, any: AnyKind, value: &mut Value, rng: &mut Rng) {
    match (shape, &mut *value) {
        (Shape::Struct(id), Value::Map(map)) => {
            let ty = schema.get(*id);
            map.retain(|name, member| {
                let (_, field) = ty.field(name).expect("canonical values have known names");
                carried(schema, &field.shape, field.any, member, rng);
                match member {
                    Value::List(items) if items.is_empty() && field.within.is_empty() => {
                        *member = Value::Null
                    }
                    Value::Map(map) if map.is_empty() && matches!(field.shape, Shape::Map(_)) => {
                        *member = Value::Null;
                    }
                    _ => {}
                }
                field.number != 0
            });
        }
        (Shape::List(inner), Value::List(items)) => {
            items.iter_mut().for_each(|item| carried(schema, inner, any, item, rng));
        }
        (Shape::Map(inner), Value::Map(map)) => {
            for (_, item) in map.iter_mut() {
                carried(schema, inner, any, item, rng);
                match **inner {
                    Shape::List(_) if item.is_null() => *item = Value::List(Vec::new()),
                    Shape::Bytes if item.is_null() => *item = Value::from(""),
                    _ => {}
                }
            }
        }
        (Shape::Any, _) => {
            let other = match any {
                AnyKind::SchemaOrArray => r#"[{"type":"object"},{}]"#,
                AnyKind::SchemaOrBool => *rng.pick(&["true", "false"]),
                AnyKind::SchemaOrStrings => r#"["a","b"]"#,
                AnyKind::Raw | AnyKind::Fields | AnyKind::Json => return,
            };
            *value = parsed(if rng.chance(50) { r#"{"type":"integer","minimum":1}"# } else { other });
        }
        _ => {}
    }
}

#[test]
fn mutated_bodies_and_noise_never_panic() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let find = |api_version: &str, kind: &str| find_type(&catalog, api_version, kind);
    let pod = schema.find("core.v1.Pod").expect("the catalogue has pods");
    let read = |bytes: &[u8]| {
        if let Ok(mut value) = decode(schema, bytes, &find, Some(pod)) {
            let ty = value.str_at(&["kind"]).and_then(|kind| find("v1", kind)).unwrap_or(pod);
            if normalise(schema, ty, &mut value, &mut Strict::off()).is_ok() {
                encode_message(schema, ty, &value, &mut Vec::new());
            }
        }
    };
    let bodies: Vec<Vec<u8>> = golden().map(|g| g.body).collect();
    for seed in 1..=2_000 {
        let mut rng = Rng(seed);
        let mut bytes = rng.pick(&bodies).clone();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(bytes.len());
            match rng.below(4) {
                0 => bytes.truncate(at.max(4)),
                1 => bytes[at] = rng.next() as u8,
                2 => bytes.insert(at, rng.next() as u8),
                _ => drop(bytes.drain(at..(at + rng.below(9)).min(bytes.len()))),
            }
            bytes.push(0);
        }
        read(&bytes);
        let noise: Vec<u8> = (0..rng.below(200)).map(|_| rng.next() as u8 >> rng.below(8)).collect();
        read(&noise);
        read(&body_of("v1", "Pod", &noise));
        let _ = decode_message(schema, pod, &noise);
    }
}

#[test]
fn broken_bodies_say_what_is_wrong() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let find = |api_version: &str, kind: &str| find_type(&catalog, api_version, kind);
    let read = |bytes: &[u8]| decode(schema, bytes, &find, None).expect_err("broken").to_string();
    let of_pod = |message: &[u8]| read(&body_of("v1", "Pod", message));
    assert_eq!(read(b""), "empty data");
    assert_eq!(
        read(b"{\"kind\":\"Pod\"}"),
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    );
    assert_eq!(read(&body_of("", "", b"")), ProtobufError::NoKind.to_string());
    assert_eq!(read(&body_of("v1", "Pood", b"")), "no kind \"Pood\" is registered for version \"v1\"");
    assert_eq!(of_pod(&[0x0a, 0x05, 0x0a]), "unexpected EOF");
    assert_eq!(of_pod(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), "unexpected EOF");
    assert_eq!(of_pod(&[0xff; 11]), "proto: integer overflow");
    assert_eq!(of_pod(&[0x0c]), "proto: unexpected end of group");
    assert_eq!(of_pod(&[0x0f]), "proto: illegal wireType 7");
    assert_eq!(of_pod(&[0x02]), "proto: illegal tag 0 (wire type 2)");
    assert_eq!(of_pod(&[0x08, 0x01]), "proto: wrong wireType = 0 for field metadata");
    let data = field(2, &field(1, b"{"));
    let revision = read(&body_of("apps/v1", "ControllerRevision", &data));
    assert_eq!(revision, "field data does not hold JSON: unexpected end of JSON input");
}

#[test]
fn unknown_fields_and_groups_are_skipped() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let ty = schema.find("core.v1.ConfigMap").expect("the catalogue has config maps");
    let mut message = field(1, &[&field(99, b"later")[..], &field(1, b"web")].concat());
    // A group in a group, a fixed64, a fixed32, a varint: numbers 50 to 54.
    message.extend_from_slice(&[0x93, 3, 0x9b, 3, 0x08, 1, 0x9c, 3, 0x94, 3]);
    message.extend_from_slice(&[0xa1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0xad, 3, 0, 0, 0, 0, 0xb0, 3, 5]);
    message.extend(field(2, &[field(1, b"k"), field(2, b"v")].concat()));
    let read = decode_message(schema, ty, &message).expect("reads");
    assert_eq!(read, parsed(r#"{"metadata":{"name":"web"},"data":{"k":"v"}}"#));
}

#[test]
fn numbers_are_read_packed_and_unpacked() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let ty = schema.find("core.v1.PodSecurityContext").expect("the catalogue has it");
    let (_, groups) = schema.get(ty).field("supplementalGroups").expect("it has groups");
    let mut message = field(groups.number, &[1, 0x80, 1]);
    message.extend_from_slice(&[(groups.number as u8) << 3, 7]);
    let read = decode_message(schema, ty, &message).expect("reads");
    assert_eq!(read, parsed(r#"{"supplementalGroups":[1,128,7]}"#));
}

#[test]
fn the_last_of_duplicate_fields_counts() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let ty = schema.find("meta.v1.ObjectMeta").expect("the catalogue has it");
    let message = [field(1, b"a"), field(3, b"ns"), field(1, b"b"), field(3, b"")].concat();
    let read = decode_message(schema, ty, &message).expect("reads");
    assert_eq!(canonical(schema, ty, read), parsed(r#"{"name":"b"}"#));
}

#[test]
fn nesting_ends_at_the_limit() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let ty = schema.find("apiextensions.v1.JSONSchemaProps").expect("the catalogue has it");
    let (_, not) = schema.get(ty).field("not").expect("schemas have `not`");
    let nested = |levels: u32| (1..levels).fold(Vec::new(), |inner, _| field(not.number, &inner));
    let deepest = decode_message(schema, ty, &nested(MAX_DEPTH)).expect("within the limit");
    let mut bytes = Vec::new();
    encode_message(schema, ty, &deepest, &mut bytes);
    assert_eq!(decode_message(schema, ty, &bytes), Ok(deepest));
    assert_eq!(decode_message(schema, ty, &nested(MAX_DEPTH + 1)), Err(ProtobufError::TooDeep));

    // JSON inside counts on.
    let json = |levels: usize| field(8, &field(1, &[vec![b'['; levels], vec![b']'; levels]].concat()));
    let around = |levels: u32, json: Vec<u8>| (1..levels).fold(json, |inner, _| field(not.number, &inner));
    assert!(decode_message(schema, ty, &around(MAX_DEPTH / 2, json(MAX_DEPTH as usize / 2))).is_ok());
    assert_eq!(
        decode_message(schema, ty, &around(MAX_DEPTH / 2, json(MAX_DEPTH as usize / 2 + 1))),
        Err(ProtobufError::TooDeep)
    );

    // Bodies in bodies count as well.
    let find = |api_version: &str, kind: &str| find_type(&catalog, api_version, kind);
    let list = |inner: Vec<u8>, _: u32| body_of("v1", "List", &field(2, &field(1, &inner)));
    let bodies = (0..MAX_DEPTH).fold(Vec::new(), list);
    assert_eq!(decode(schema, &bodies, &find, None), Err(ProtobufError::TooDeep));
}

#[test]
fn the_items_of_a_list_may_be_written_one_by_one() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let list = Golden::find("v1", "PodList");
    let ty = find_type(&catalog, "v1", "PodList").expect("the catalogue has it");
    let pod = schema.find("core.v1.Pod").expect("the catalogue has pods");
    let meta = schema.find("meta.v1.ListMeta").expect("the catalogue has it");
    let message = |ty: TypeId, value: &Value| {
        let mut out = Vec::new();
        encode_message(schema, ty, value, &mut out);
        out
    };
    let items = parsed(
        r#"[{"metadata":{"name":"a"},"spec":{"containers":null},"status":{}},{"metadata":{},"spec":{"containers":null},"status":{}}]"#,
    );
    let mut object = list.object;
    object.make_map().set("items", items.clone());
    let mut whole = Vec::new();
    encode(schema, ty, "v1", "PodList", &object, &mut whole);
    let items: Vec<Vec<u8>> =
        items.as_list().expect("a list").iter().map(|item| message(pod, item)).collect();
    let mut pieces = Vec::new();
    let metadata = message(meta, object.get("metadata").expect("lists have it"));
    list_head("v1", "PodList", &metadata, items.iter().map(Vec::len), &mut pieces);
    items.iter().for_each(|item| list_item(item, &mut pieces));
    pieces.extend_from_slice(LIST_TAIL);
    assert_eq!(pieces, whole);
}

#[test]
fn an_empty_last_duplicate_field_leaves_nothing() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let ty = schema.find("apiextensions.v1.JSONSchemaProps").expect("the catalogue has schemas");
    let read = |bytes: &[u8]| decode_message(schema, ty, bytes).expect("reads");
    assert_eq!(read(b"\x22\x01a\x22\x01b"), parsed(r#"{"description":"b"}"#));
    assert_eq!(read(b"\x22\x01a\x22\x00"), Value::map());
    assert_eq!(read(b"\x22\x00\x22\x00"), Value::map());
}

#[test]
fn a_watch_frame_is_what_go_writes() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let ty = schema.find("core.v1.ConfigMap").expect("the catalogue has config maps");
    let object = parsed(r#"{"metadata":{"name":"a","namespace":"b"},"data":{"k":"v"}}"#);
    let mut body = Vec::new();
    encode(schema, ty, "v1", "ConfigMap", &object, &mut body);
    let mut frame = b"before".to_vec();
    encode_event("ADDED", &body, &mut frame);
    let mut apart = b"before".to_vec();
    event_head("ADDED", body.len(), &mut apart);
    apart.extend_from_slice(&body);
    assert_eq!(apart, frame, "with the object behind its head");
    let hex: String = frame[6..].iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(
        hex,
        "000000420a05414444454412390a376b3873000a0f0a0276311209436f6e6669674d6170121c\
         0a120a016112001a016222002a0032003800420012060a016b1201761a002200"
    );
    // And an event reads back with its object in it.
    let event = schema.find("meta.v1.WatchEvent").expect("the catalogue has it");
    let find = |api_version: &str, kind: &str| find_type(&catalog, api_version, kind);
    let sealed = body_of("v1", "WatchEvent", &frame[10..]);
    let read = decode(schema, &sealed, &find, Some(event)).expect("reads");
    assert_eq!(read.str_at(&["object", "kind"]), Some("ConfigMap"));
    assert_eq!(read.str_at(&["object", "data", "k"]), Some("v"));
}
