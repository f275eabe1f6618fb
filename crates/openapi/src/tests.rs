//! Documents are valid: they parse, refer only to what they define, and contain what clients look for.

mod custom;
mod parse;
mod upstream;

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Catalog, Verbs};

use crate::{Documents, Entry, NoCustomSchemas, names};
use parse::{Value, parse};

fn documents(c: &Catalog) -> BTreeMap<String, Value> {
    let index = parse(&crate::v3_index(&hashes_of(c)));
    let paths = index.get("paths").members().into_iter().map(|(path, _)| path.to_owned());
    paths.map(|p| (p.clone(), parse(&of(c).v3(&p).expect("listed, so it is there")))).collect()
}

fn gvk(v: &Value) -> (String, String, String) {
    (v.get("group").text().into(), v.get("version").text().into(), v.get("kind").text().into())
}

fn of(catalog: &Catalog) -> Documents<'_> {
    Documents::new(catalog, &NoCustomSchemas)
}

fn hashes_of(catalog: &Catalog) -> BTreeMap<String, String> {
    let hash = |(path, entry): (String, Entry)| match entry {
        Entry::Custom(hash) => (path, hash),
        Entry::BuiltIn => {
            let document = of(catalog).v3(&path).expect("listed, so it is there");
            (path, crate::fingerprint(&document))
        }
    };
    of(catalog).v3_entries().into_iter().map(hash).collect()
}

#[test]
fn the_index_lists_every_group_version() {
    let c = Catalog::builtin();
    let hashes = hashes_of(&c);
    let index = parse(&crate::v3_index(&hashes));
    let url = |path: &str| index.get("paths").get(path).get("serverRelativeURL").text().to_owned();
    assert_eq!(url("api/v1"), format!("/openapi/v3/api/v1?hash={}", hashes["api/v1"]));
    let different: BTreeSet<&String> = hashes.values().collect();
    assert_eq!(different.len(), hashes.len(), "each document has a hash of its own");
    for g in c.groups() {
        for v in &g.versions {
            assert!(!url(&names::path(&g.name, v)).is_empty(), "{} {v}", g.name);
        }
    }
}

#[test]
fn unknown_documents_are_absent() {
    let c = Catalog::builtin();
    for path in ["", "api/v2", "apis/apps/v2", "apis/nope", "apis/", "apis//v1", "api", "apis/apps/v1/"] {
        assert_eq!(of(&c).v3(path).is_some(), path == "api", "{path}");
        assert_eq!(of(&c).v3_entry(path), (path == "api").then_some(Entry::BuiltIn), "{path}");
    }
}

#[test]
fn every_reference_of_v3_resolves() {
    let c = Catalog::builtin();
    for (path, doc) in documents(&c) {
        let schemas = doc.get("components").get("schemas");
        doc.find("$ref", &mut |r| {
            // A property of JSONSchemaProps is called `$ref` too; it is a schema, not a text.
            if let Value::Text(r) = r {
                let name = r.strip_prefix("#/components/schemas/").expect("a local reference");
                assert_ne!(schemas.get(name), &Value::Null, "{path}: {name}");
            }
        });
    }
}

#[test]
fn every_reference_of_v2_resolves() {
    let c = Catalog::builtin();
    let doc = parse(&of(&c).v2());
    doc.find("$ref", &mut |r| {
        if let Value::Text(r) = r {
            let mut steps = r.strip_prefix("#/").expect("a local reference").splitn(2, '/');
            let (table, name) = (steps.next().unwrap(), steps.next().unwrap());
            assert_ne!(doc.get(table).get(name), &Value::Null, "{r}");
        }
    });
}

/// kubectl sends `fieldValidation` only when the PATCH of the kind has the parameter.
#[test]
fn every_patchable_kind_has_a_patch_with_field_validation() {
    let c = Catalog::builtin();
    let v2 = parse(&of(&c).v2());
    let mut all: Vec<Value> = documents(&c).into_values().collect();
    all.push(v2);
    let mut found = [BTreeSet::new(), BTreeSet::new()];
    let last = all.len() - 1;
    for (i, doc) in all.iter().enumerate() {
        for (_, item) in doc.get("paths").members() {
            let patch = item.get("patch");
            let named = |p: &Value| p.get("name").text() == "fieldValidation";
            if patch.get("parameters").list().iter().any(named) {
                found[usize::from(i == last)].insert(gvk(patch.get("x-kubernetes-group-version-kind")));
            }
        }
    }
    for r in c.resources().iter().filter(|r| r.verbs.contains(Verbs::PATCH)) {
        let gvk = (r.group.to_string(), r.version.to_string(), r.kind.to_string());
        assert!(found[0].contains(&gvk), "v3 {gvk:?}");
        assert!(found[1].contains(&gvk), "v2 {gvk:?}");
    }
}

#[test]
fn every_verb_of_discovery_is_an_operation() {
    let c = Catalog::builtin();
    let docs = documents(&c);
    for r in c.resources() {
        let root = names::path(&r.group, &r.version);
        let doc = &docs[&root];
        let space = if r.namespaced { "/namespaces/{namespace}" } else { "" };
        let all = format!("/{root}{space}/{}", r.plural);
        for (verb, path, method, action) in [
            (Verbs::CREATE, all.clone(), "post", "post"),
            (Verbs::LIST, all.clone(), "get", "list"),
            (Verbs::DELETE_COLLECTION, all.clone(), "delete", "deletecollection"),
            (Verbs::GET, format!("{all}/{{name}}"), "get", "get"),
            (Verbs::UPDATE, format!("{all}/{{name}}"), "put", "put"),
            (Verbs::PATCH, format!("{all}/{{name}}"), "patch", "patch"),
            (Verbs::DELETE, format!("{all}/{{name}}"), "delete", "delete"),
            (Verbs::WATCH, format!("/{root}/watch{space}/{}/{{name}}", r.plural), "get", "watch"),
        ] {
            let op = doc.get("paths").get(&path).get(method);
            let expected = if r.verbs.contains(verb) { action } else { "" };
            assert_eq!(op.get("x-kubernetes-action").text(), expected, "{method} {path}");
        }
        for sub in &r.subresources {
            let item = doc.get("paths").get(&format!("{all}/{{name}}/{}", sub.name));
            assert!(item.members().len() >= sub.verbs.names().count(), "{}/{}", r.plural, sub.name);
        }
    }
}

#[test]
fn operation_ids_are_unique_and_upstreams() {
    let c = Catalog::builtin();
    let doc = parse(&of(&c).v2());
    let mut ids = BTreeSet::new();
    doc.find("operationId", &mut |id| {
        assert!(ids.insert(id.text().to_owned()), "{} twice", id.text());
    });
    for id in [
        "createCoreV1NamespacedPod",
        "listCoreV1PodForAllNamespaces",
        "deleteRbacAuthorizationV1CollectionNamespacedRole",
        "patchAppsV1NamespacedDeploymentScale",
        "connectCoreV1GetNamespacedPodExec",
        "watchFlowcontrolApiserverV1FlowSchemaList",
        "getAPIVersions",
    ] {
        assert!(ids.contains(id), "{id}");
    }
}

#[test]
fn definitions_say_how_lists_merge() {
    let c = Catalog::builtin();
    let doc = parse(&of(&c).v3("apis/apps/v1").unwrap());
    let schema = |name: &str| doc.get("components").get("schemas").get(&format!("io.k8s.api.{name}"));
    let ports = schema("core.v1.Container").get("properties").get("ports");
    assert_eq!(ports.get("x-kubernetes-list-type").text(), "map");
    assert_eq!(ports.get("x-kubernetes-list-map-keys").list().len(), 2);
    assert_eq!(ports.get("x-kubernetes-patch-merge-key").text(), "containerPort");
    assert_eq!(ports.get("x-kubernetes-patch-strategy").text(), "merge");
    let protocol = schema("core.v1.ContainerPort").get("properties").get("protocol");
    assert_eq!((protocol.get("default").text(), protocol.get("enum").list().len()), ("TCP", 3));
    let strategy = schema("apps.v1.DeploymentSpec").get("properties").get("strategy");
    assert_eq!(strategy.get("x-kubernetes-patch-strategy").text(), "retainKeys");
    assert_eq!(strategy.get("allOf").list().len(), 1);
    let own = &schema("apps.v1.Deployment").get("x-kubernetes-group-version-kind").list()[0];
    assert_eq!(gvk(own), ("apps".into(), "v1".into(), "Deployment".into()));
}

#[test]
fn the_same_catalogue_gives_the_same_bytes() {
    let (a, b) = (Catalog::builtin(), Catalog::builtin());
    assert_eq!(of(&a).v2(), of(&b).v2());
    assert_eq!(of(&a).v2_protobuf(), of(&b).v2_protobuf());
    assert_eq!(crate::fingerprint(&of(&a).v2()), crate::fingerprint(&of(&b).v2()));
    assert_ne!(crate::fingerprint(b"a"), crate::fingerprint(b"b"));
}

/// Fields of a protobuf message that have a length: number and bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let varint = |bytes: &mut &[u8]| {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let b = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(b & 0x7f) << shift;
            shift += 7;
            if b < 0x80 {
                return value;
            }
        }
    };
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        match tag & 7 {
            0 => {
                varint(&mut bytes);
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                all.push((tag >> 3, &bytes[..length]));
                bytes = &bytes[length..];
            }
            1 => bytes = &bytes[8..],
            other => panic!("wire type {other}"),
        }
    }
    all
}

#[test]
fn protobuf_and_json_name_the_same_definitions_and_paths() {
    let c = Catalog::builtin();
    let json = parse(&of(&c).v2());
    let document = of(&c).v2_protobuf();
    let top = fields(&document);
    let names = |table: u64, entry: u64| -> Vec<String> {
        let (_, body) = top.iter().find(|(n, _)| *n == table).unwrap();
        let entries = fields(body).into_iter().filter(|(n, _)| *n == entry);
        entries.map(|(_, e)| String::from_utf8(fields(e)[0].1.to_vec()).unwrap()).collect()
    };
    let keys =
        |name: &str| json.get(name).members().into_iter().map(|(k, _)| k.to_owned()).collect::<Vec<_>>();
    assert_eq!(top[0], (1, b"2.0".as_slice()));
    assert_eq!(names(8, 2), keys("paths"));
    assert_eq!(names(9, 1), keys("definitions"));
    assert_eq!(names(10, 1), keys("parameters"));

    // One schema through and through: Deployment's kind stands in its vendor extension as JSON, which is YAML.
    let (_, definitions) = top.iter().find(|(n, _)| *n == 9).unwrap();
    let entry =
        fields(definitions).into_iter().find(|(_, e)| fields(e)[0].1 == b"io.k8s.api.apps.v1.Deployment");
    let schema = fields(fields(entry.unwrap().1)[1].1);
    let (_, extension) = schema.iter().find(|(n, _)| *n == 31).unwrap();
    let any = fields(fields(extension)[1].1);
    assert_eq!(any, [(2, br#"[{"group":"apps","kind":"Deployment","version":"v1"}]"#.as_slice())]);
}

#[test]
fn protobuf_and_json_of_v3_name_the_same_definitions_and_paths() {
    let c = Catalog::builtin();
    for (path, json) in documents(&c) {
        let document = of(&c).v3_protobuf(&path).unwrap();
        let top = fields(&document);
        assert_eq!(top[0], (1, b"3.0.0".as_slice()));
        let inside = |body: &[u8], number: u64| -> Vec<u8> {
            fields(body).into_iter().find(|(n, _)| *n == number).map(|(_, b)| b.to_vec()).unwrap_or_default()
        };
        let names = |body: &[u8]| -> Vec<String> {
            let entries = fields(body).into_iter().filter(|(n, _)| *n == 1);
            entries.map(|(_, e)| String::from_utf8(fields(e)[0].1.to_vec()).unwrap()).collect()
        };
        let keys = |v: &Value| v.members().into_iter().map(|(k, _)| k.to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&inside(&document, 4)), keys(json.get("paths")), "{path}");
        let schemas = inside(&inside(&document, 5), 1);
        assert_eq!(names(&schemas), keys(json.get("components").get("schemas")), "{path}");
    }
}

/// One schema through and through: what stands beside a reference, and a default.
#[test]
fn protobuf_of_v3_says_what_json_says_of_a_field() {
    let c = Catalog::builtin();
    let document = of(&c).v3_protobuf("apis/apps/v1").unwrap();
    let find = |body: &[u8], number: u64| -> Vec<u8> {
        fields(body).into_iter().find(|(n, _)| *n == number).expect("it is there").1.to_vec()
    };
    let named = |body: &[u8], name: &str| -> Vec<u8> {
        let entries = fields(body).into_iter().filter(|(n, _)| *n == 1);
        let mut found = entries.filter(|(_, e)| fields(e)[0].1 == name.as_bytes());
        fields(found.next().expect("it is there").1)[1].1.to_vec()
    };
    let schemas = find(&find(&document, 5), 1);
    let deployment = find(&named(&schemas, "io.k8s.api.apps.v1.Deployment"), 1);
    assert_eq!(find(&deployment, 25), b"object");
    let spec = named(&find(&deployment, 31), "spec");
    // The reference has a default beside it, so it stands in an allOf.
    let reference = find(&find(&find(&find(&spec, 1), 26), 2), 1);
    assert_eq!(reference, b"#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec");
    let port = find(&named(&schemas, "io.k8s.api.core.v1.ContainerPort"), 1);
    let protocol = find(&named(&find(&port, 31), "protocol"), 1);
    assert_eq!(find(&find(&protocol, 33), 3), b"TCP");
}

#[test]
fn media_types_are_in_upstreams_order() {
    let c = Catalog::builtin();
    let doc = parse(&of(&c).v2());
    let types = |path: &str, method: &str, list: &str| {
        let all = doc.get("paths").get(path).get(method).get(list);
        all.list().iter().map(|ty| ty.text().to_owned()).collect::<Vec<_>>()
    };
    let objects = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
    assert_eq!(types("/api/v1/namespaces/{name}", "get", "produces"), objects);
    assert_eq!(types("/api/", "get", "consumes"), objects);
    assert_eq!(types("/api/v1/pods", "get", "produces")[..3], objects);
    assert_eq!(types("/api/v1/namespaces/{name}", "patch", "consumes")[3], "application/apply-patch+yaml");
    // In v3 they name members, which are sorted.
    let doc = parse(&of(&c).v3("api/v1").unwrap());
    let get = doc.get("paths").get("/api/v1/namespaces/{name}").get("get");
    let content = get.get("responses").get("200").get("content");
    let names: Vec<&str> = content.members().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"]);
}

#[test]
fn a_document_that_needs_no_definitions_has_none() {
    let c = Catalog::builtin();
    for path in [".well-known/openid-configuration", "openid/v1/jwks"] {
        let doc = parse(&of(&c).v3(path).unwrap());
        let parts: Vec<&str> = doc.get("components").members().into_iter().map(|(name, _)| name).collect();
        assert_eq!(parts, ["securitySchemes"], "{path}");
    }
}

#[test]
fn a_document_is_the_same_protobuf_from_the_catalogue_and_from_its_json() {
    let c = Catalog::builtin();
    let json = codec::json::parse(&of(&c).v2(), None).unwrap();
    let (made, read) = (of(&c).v2_protobuf(), crate::v2_protobuf_of(&json));
    let differs = made.iter().zip(&read).position(|(a, b)| a != b);
    let about = |bytes: &[u8]| {
        let at = differs.unwrap_or(0);
        String::from_utf8_lossy(&bytes[at.saturating_sub(200)..bytes.len().min(at + 200)]).into_owned()
    };
    assert!(
        made == read,
        "{} and {} bytes, {differs:?}: {:?} and {:?}",
        made.len(),
        read.len(),
        about(&made),
        about(&read)
    );
}

#[test]
fn a_document_of_v3_is_the_same_protobuf_from_the_catalogue_and_from_its_json() {
    let c = Catalog::builtin();
    for path in of(&c).v3_entries().into_keys() {
        let json = codec::json::parse(&of(&c).v3(&path).unwrap(), None).unwrap();
        let (made, read) = (of(&c).v3_protobuf(&path).unwrap(), crate::v3_protobuf_of(&json));
        let differs = made.iter().zip(&read).position(|(a, b)| a != b);
        let about = |bytes: &[u8]| {
            let at = differs.unwrap_or(0);
            String::from_utf8_lossy(&bytes[at.saturating_sub(200)..bytes.len().min(at + 200)]).into_owned()
        };
        assert!(made == read, "{path}, {differs:?}: {:?} and {:?}", about(&made), about(&read));
    }
}

#[test]
fn parts_that_only_other_servers_have_are_written() {
    let json = r##"{"paths":{"/a":{"parameters":[{"$ref":"#/parameters/p"}],"get":{"summary":"s","deprecated":true,
        "parameters":[{"in":"header","name":"h","type":"array","items":{"type":"string","maxLength":2}},
            {"in":"formData","name":"f","type":"file"},{"in":"body","name":"b","schema":{"$ref":"#/definitions/t"}}],
        "responses":{"200":{"description":"d","schema":{"type":"file"},"headers":{"x":{"type":"integer","description":"hd"}}},
            "default":{"$ref":"#/responses/r"}}}}},
        "definitions":{"t":{"type":["string","null"],"allOf":[{"$ref":"#/definitions/u"}],"default":{"a":1},"readOnly":true}}}"##;
    let read = crate::v2_protobuf_of(&codec::json::parse(json.as_bytes(), None).unwrap());
    // A header's parameter: `in` is field 2, `name` 4, `type` 5, and its items' type and length 1 and 10 of field 7.
    let header = b"\x12\x06header\x22\x01h\x2a\x05array\x3a\x0a\x0a\x06string\x50\x02";
    let parts: [&[u8]; 6] = [
        header,
        // `type` of a form is field 6.
        b"\x12\x08formData\x22\x01f\x32\x04file",
        // A file is the second of two kinds of schemas, its type field 6.
        b"\x12\x08\x12\x06\x32\x04file",
        // A header of an answer has its description in field 18.
        b"\x0a\x01x\x12\x0e\x0a\x07integer\x92\x01\x02hd",
        // Several types, and a part of them all.
        b"\xb2\x01\x0e\x0a\x06string\x0a\x04null\xc2\x01",
        b"\x0a\x07default\x12\x11\x12\x0f\x0a\x0d#/responses/r",
    ];
    for (n, part) in parts.iter().enumerate() {
        let found = read.windows(part.len()).any(|window| window == *part);
        assert!(found, "{n}: {:?}", String::from_utf8_lossy(&read));
    }
}
