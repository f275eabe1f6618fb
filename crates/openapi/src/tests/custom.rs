//! Documents of custom resources say what kube-apiserver's say.
//!
//! `tests/golden/custom_resources.json` are the definitions; `custom_v2.txt` has the facts of what kube-apiserver v1.36.4
//! publishes of them in v2, made by `OPENAPI_CUSTOM_FACTS=document.json cargo test -p openapi custom`, and `custom_v3.json` the
//! schemas of v3.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::{Catalog, Name, Resource, ResourceDef, ResourceId, Subresource, Verbs};
use object::Value as Tree;
use serde_json::{Value, json};

use super::upstream::facts::Facts;
use super::upstream::{differences, golden};
use crate::{CustomSchema, CustomSchemas, Documents, Entry};

/// The definitions as a server would have them.
struct Definitions(Tree);

impl Definitions {
    fn read() -> Definitions {
        let text = std::fs::read(golden("custom_resources.json")).unwrap();
        Definitions(codec::json::parse(&text, None).unwrap())
    }

    fn all(&self) -> &[Tree] {
        self.0.get("items").and_then(Tree::as_list).unwrap()
    }

    fn find(&self, resource: &Resource) -> Option<&Tree> {
        let name = format!("{}.{}", resource.plural, resource.group);
        self.all().iter().find(|crd| crd.str_at(&["metadata", "name"]) == Some(&name))
    }

    /// The built-in resources and these.
    fn catalog(&self) -> Catalog {
        self.all()
            .iter()
            .fold(Catalog::builtin(), |catalog, crd| catalog.define(definition(crd, &catalog)).unwrap().0)
    }
}

impl CustomSchemas for Definitions {
    fn fingerprint(&self, resource: &Resource) -> String {
        self.find(resource).and_then(|crd| crd.str_at(&["metadata", "uid"])).unwrap_or("none").to_owned()
    }

    fn schema(&self, resource: &Resource) -> Option<CustomSchema> {
        let versions = self.find(resource)?.at(&["spec", "versions"])?.as_list()?;
        let version = versions.iter().find(|v| v.str_at(&["name"]) == Some(&resource.version))?;
        let schema = version.at(&["schema", "openAPIV3Schema"])?.clone();
        Some(CustomSchema { schema, preserve_unknown_fields: false })
    }
}

fn definition(crd: &Tree, catalog: &Catalog) -> ResourceDef {
    let text = |path: &[&str]| Name::from(crd.str_at(path).unwrap().to_owned());
    let versions = crd.at(&["spec", "versions"]).and_then(Tree::as_list).unwrap();
    let served = versions.iter().filter(|v| v.get("served").and_then(Tree::as_bool) == Some(true));
    let resource = |v: &Tree| {
        let (group, version) =
            (text(&["spec", "group"]), Name::from(v.str_at(&["name"]).unwrap().to_owned()));
        let kind = text(&["spec", "names", "kind"]);
        let sub = |name, group: &Name, version: &Name, kind: &Name, ty| Subresource {
            name: Name::Static(name),
            group: group.clone(),
            version: version.clone(),
            kind: kind.clone(),
            ty,
            verbs: Verbs::GET | Verbs::PATCH | Verbs::UPDATE,
        };
        let mut subresources = Vec::new();
        if v.at(&["subresources", "status"]).is_some() {
            subresources.push(sub("status", &group, &version, &kind, None));
        }
        if v.at(&["subresources", "scale"]).is_some() {
            let [group, version, kind] = ["autoscaling", "v1", "Scale"].map(Name::Static);
            let ty = catalog.find_type(&group, &version, &kind);
            subresources.push(sub("scale", &group, &version, &kind, ty));
        }
        let fields = v.get("selectableFields").and_then(Tree::as_list).unwrap_or_default();
        let labels = fields.iter().map(|f| Name::from(f.str_at(&["jsonPath"]).unwrap()[1..].to_owned()));
        let base = catalog.find("apps", "v1", "deployments").unwrap();
        Arc::new(Resource {
            id: ResourceId(0),
            group,
            version,
            plural: text(&["spec", "names", "plural"]),
            kind,
            list_kind: text(&["spec", "names", "listKind"]),
            namespaced: crd.str_at(&["spec", "scope"]) == Some("Namespaced"),
            subresources,
            storage: None,
            field_labels: labels.map(|label| (label.clone(), label)).collect(),
            custom: true,
            ..Resource::clone(base)
        })
    };
    ResourceDef { storage: None, served: served.map(resource).collect() }
}

fn is_custom(key: &str) -> bool {
    key.contains("example")
}

fn parsed(document: Vec<u8>) -> Value {
    serde_json::from_slice(&document).expect("a JSON document")
}

#[test]
fn v2_of_custom_resources_is_upstreams() {
    let of_them = |mut facts: Facts| {
        facts.0.retain(|key, _| is_custom(key));
        facts
    };
    if let Ok(document) = std::env::var("OPENAPI_CUSTOM_FACTS") {
        let facts = of_them(Facts::of(&std::fs::read(&document).expect("it names a file")));
        return std::fs::write(golden("custom_v2.txt"), facts.write()).unwrap();
    }
    let upstream = Facts::read(&std::fs::read_to_string(golden("custom_v2.txt")).unwrap());
    assert!(upstream.0.len() > 40, "only {} facts in the golden file", upstream.0.len());
    let definitions = Definitions::read();
    let document = Documents::new(&definitions.catalog(), &definitions).v2();
    let wrong = differences(&upstream, &of_them(Facts::of(&document)), &[]);
    assert!(wrong.is_empty(), "not as upstream:\n{wrong}");

    // And what is built in is as it was.
    let mut ours = Facts::of(&document);
    ours.0.retain(|key, _| !is_custom(key));
    let upstream = Facts::read(&std::fs::read_to_string(golden("v2.txt")).unwrap());
    let wrong = differences(&upstream, &ours, &[]);
    assert!(wrong.is_empty(), "changed by custom resources:\n{wrong}");
}

#[test]
fn v3_schemas_of_custom_resources_are_upstreams() {
    let upstream: Value = parsed(std::fs::read(golden("custom_v3.json")).unwrap());
    let definitions = Definitions::read();
    let catalog = definitions.catalog();
    for (path, upstream) in upstream.as_object().unwrap() {
        let ours = parsed(Documents::new(&catalog, &definitions).v3(path).unwrap());
        let schemas = ours["components"]["schemas"].as_object().unwrap();
        for (name, upstream) in upstream["definitions"].as_object().unwrap() {
            let ours = schemas.get(name).unwrap_or(&Value::Null);
            assert_eq!(ours, upstream, "{path} {name}");
        }
        let names: Vec<&String> = schemas.keys().collect();
        assert_eq!(json!(names), upstream["names"], "{path}");
        assert_eq!(ours["info"], upstream["info"]);
        assert_eq!(ours["components"].as_object().unwrap().len(), 1, "no security");
    }
}

/// The same operations stand in both documents; v2's are compared with upstream's.
#[test]
fn v3_has_the_operations_of_v2() {
    let definitions = Definitions::read();
    let catalog = definitions.catalog();
    let documents = Documents::new(&catalog, &definitions);
    let v2 = parsed(documents.v2());
    let mut seen = 0;
    for path in documents.v3_entries().keys() {
        let v3 = parsed(documents.v3(path).unwrap());
        for (path, item) in v3["paths"].as_object().unwrap() {
            assert_eq!(as_v2(item), resolved(&v2, &v2["paths"][path]), "{path}");
            seen += 1;
        }
    }
    assert_eq!(seen, v2["paths"].as_object().unwrap().len());
}

/// An item of v3 as v2 would write it, as far as v3 says so.
fn as_v2(item: &Value) -> Value {
    let parameter = |p: &Value| {
        let mut p = p.clone();
        let schema = p["schema"].take();
        p["type"] = schema["type"].clone();
        p["uniqueItems"] = schema["uniqueItems"].clone();
        p.as_object_mut().unwrap().remove("schema");
        p
    };
    let schema = |content: &Value| {
        let of = content.as_object().and_then(|all| all.values().next());
        of.map_or(Value::Null, |of| as_definition(&of["schema"]))
    };
    let types = |content: &Value| json!(content.as_object().map(|all| all.keys().collect::<Vec<_>>()));
    let mut out = json!({});
    for (name, value) in item.as_object().unwrap() {
        if name == "parameters" {
            out["parameters"] = value.as_array().unwrap().iter().map(parameter).collect();
            continue;
        }
        let mut op = value.clone();
        let own = op["parameters"].as_array().into_iter().flatten().map(parameter);
        let content = &value["requestBody"]["content"];
        let body = value.get("requestBody").map(|body| {
            let mut p = json!({"in": "body", "name": "body", "schema": schema(content)});
            if body["required"] == true {
                p["required"] = json!(true);
            }
            p
        });
        op["parameters"] = body.into_iter().chain(own).collect();
        op["consumes"] = types(content);
        op.as_object_mut().unwrap().remove("requestBody");
        let mut produces = Value::Null;
        for (code, answer) in value["responses"].as_object().unwrap() {
            if let Some(content) = answer.get("content") {
                op["responses"][code] =
                    json!({"description": answer["description"], "schema": schema(content)});
                produces = types(content);
            }
        }
        op["produces"] = produces;
        out[name] = op;
    }
    out
}

fn as_definition(schema: &Value) -> Value {
    match schema["$ref"].as_str() {
        Some(r) => json!({"$ref": r.replace("#/components/schemas/", "#/definitions/")}),
        None => schema.clone(),
    }
}

/// An item of v2 with its parameters written out, and without what v3 does not say.
fn resolved(document: &Value, item: &Value) -> Value {
    let parameter = |p: &Value| match p["$ref"].as_str().and_then(|r| r.strip_prefix("#/parameters/")) {
        Some(name) => document["parameters"][name].clone(),
        None => p.clone(),
    };
    let sorted = |types: &Value| {
        let mut types = types.as_array().unwrap().clone();
        types.sort_by_key(ToString::to_string);
        Value::from(types)
    };
    let mut out = item.clone();
    for (name, value) in out.as_object_mut().unwrap() {
        if name == "parameters" {
            *value = value.as_array().unwrap().iter().map(parameter).collect();
            continue;
        }
        let op = value.as_object_mut().unwrap();
        let own: Vec<Value> =
            op.get("parameters").and_then(Value::as_array).into_iter().flatten().map(parameter).collect();
        let has_body = own.iter().any(|p| p["in"] == "body");
        op.insert("parameters".into(), own.into());
        let consumes = op.get("consumes").filter(|_| has_body).map_or(Value::Null, sorted);
        op.insert("consumes".into(), consumes);
        let produces = sorted(&op["produces"]);
        op.insert("produces".into(), produces);
        op.remove("schemes");
    }
    out
}

#[test]
fn a_definition_changes_the_hash_of_its_own_document_alone() {
    let definitions = Definitions::read();
    let catalog = definitions.catalog();
    let before = Documents::new(&catalog, &definitions).v3_entries();
    let builtin = Documents::new(&Catalog::builtin(), &definitions).v3_entries();
    let added: Vec<&String> = before.keys().filter(|path| !builtin.contains_key(*path)).collect();
    assert_eq!(added, ["apis/example.io/v1", "apis/example.io/v1beta1", "apis/shop.example-site.com/v2"]);
    for (path, entry) in &before {
        assert_eq!(Documents::new(&catalog, &definitions).v3_entry(path).as_ref(), Some(entry), "{path}");
        assert_eq!(*entry == Entry::BuiltIn, builtin.contains_key(path), "{path}");
    }

    let changed = Definitions(
        codec::json::parse(br#"{"items":[{"metadata":{"name":"gadgets.example.io","uid":"2"}}]}"#, None)
            .unwrap(),
    );
    let after = Documents::new(&catalog, &changed).v3_entries();
    let different: Vec<&String> = before.keys().filter(|path| before[*path] != after[*path]).collect();
    assert_eq!(different, ["apis/example.io/v1"]);
}

/// Of a group version that has both.
#[test]
fn a_custom_resource_beside_built_in_ones_is_in_their_document() {
    let builtin = Catalog::builtin();
    let mut def = definition(&Definitions::read().all()[1], &builtin);
    for served in &mut def.served {
        let apps = Resource { group: Name::Static("apps"), ..Resource::clone(served) };
        *served = Arc::new(apps);
    }
    let catalog = builtin.define(def).unwrap().0;
    let definitions = Definitions::read();
    let documents = Documents::new(&catalog, &definitions);
    assert!(matches!(documents.v3_entry("apis/apps/v1"), Some(Entry::Custom(_))));
    let document = parsed(documents.v3("apis/apps/v1").unwrap());
    for path in ["/apis/apps/v1/", "/apis/apps/v1/gadgets", "/apis/apps/v1/deployments"] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
    assert!(document["components"]["schemas"]["apps.v1.Gadget"].is_object());
    assert!(document["components"]["securitySchemes"].is_object());
}

/// A schema as deep as one can be sent, in every encoding.
#[test]
fn deep_schemas_are_published() {
    struct Deep;
    impl CustomSchemas for Deep {
        fn fingerprint(&self, _: &Resource) -> String {
            String::new()
        }
        fn schema(&self, _: &Resource) -> Option<CustomSchema> {
            let depth = object::MAX_DEPTH / 2 - 10;
            let text = "{\"items\":".repeat(depth) + "{}" + &"}".repeat(depth);
            let schema = codec::json::parse(text.as_bytes(), None).unwrap();
            Some(CustomSchema { schema, preserve_unknown_fields: false })
        }
    }
    let catalog = Definitions::read().catalog();
    let documents = Documents::new(&catalog, &Deep);
    let path = "apis/shop.example-site.com/v2";
    for document in [
        documents.v3(path).unwrap(),
        documents.v3_protobuf(path).unwrap(),
        documents.v2(),
        documents.v2_protobuf(),
    ] {
        assert!(document.len() > 50_000);
    }
}

/// One schema through and through, in both protobuf dialects.
#[test]
fn protobuf_says_what_json_says_of_a_custom_schema() {
    let definitions = Definitions::read();
    let catalog = definitions.catalog();
    let documents = Documents::new(&catalog, &definitions);
    let v2 = documents.v2_protobuf();
    let v3 = documents.v3_protobuf("apis/example.io/v1").unwrap();
    let child = |body: &[u8], number: u64| -> Vec<u8> {
        super::fields(body).into_iter().find(|(n, _)| *n == number).expect("it is there").1.to_vec()
    };
    let named = |body: &[u8], name: &str| -> Vec<u8> {
        let entries = super::fields(body).into_iter().filter(|(n, _)| *n == 1);
        let mut found = entries.filter(|(_, e)| super::fields(e)[0].1 == name.as_bytes());
        super::fields(found.next().expect("it is there").1)[1].1.to_vec()
    };
    let extension = |body: &[u8], number: u64, name: &str| -> String {
        let all = super::fields(body).into_iter().filter(|(n, _)| *n == number);
        let mut found = all.filter(|(_, e)| super::fields(e)[0].1 == name.as_bytes());
        let any = super::fields(found.next().expect("it is there").1)[1].1.to_vec();
        String::from_utf8(child(&any, 2)).unwrap()
    };

    let widget = named(&child(&v2, 9), "io.example.v1.Widget");
    assert!(child(&widget, 4).starts_with(b"A Widget turns."));
    let spec = named(&child(&widget, 25), "spec");
    let color = named(&child(&spec, 25), "color");
    assert_eq!(child(&child(&color, 22), 1), b"string");
    let values: Vec<Vec<u8>> =
        super::fields(&color).into_iter().filter(|(n, _)| *n == 20).map(|(_, any)| child(any, 2)).collect();
    assert_eq!(values, [b"\"red\"".to_vec(), b"\"green\"".to_vec(), br#""blue \"q\"""#.to_vec()]);
    let items = named(&child(&spec, 25), "items");
    assert_eq!(extension(&items, 31, "x-kubernetes-list-map-keys"), r#"["key","zone"]"#);
    let labels = named(&child(&spec, 25), "labels");
    assert_eq!(child(&child(&labels, 21), 1), b"", "may be null, so it has no type");

    let widget = child(&named(&child(&child(&v3, 5), 1), "io.example.v1.Widget"), 1);
    let metadata = child(&named(&child(&widget, 31), "metadata"), 1);
    let all_of = child(&metadata, 26);
    assert_eq!(
        child(&child(&all_of, 2), 1),
        b"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    let spec = child(&named(&child(&widget, 31), "spec"), 1);
    let port = child(&named(&child(&spec, 31), "port"), 1);
    let types: Vec<Vec<u8>> = super::fields(&port)
        .into_iter()
        .filter(|(n, _)| *n == 28)
        .map(|(_, one)| child(&child(one, 1), 25))
        .collect();
    assert_eq!(types, [b"integer", b"string".as_slice()]);
    let color = child(&named(&child(&spec, 31), "color"), 1);
    assert_eq!(child(&child(&color, 33), 3), b"red");
    let choice = child(&named(&child(&spec, 31), "choice"), 1);
    assert_eq!(child(&child(&choice, 29), 23), b"a", "what must not be is a plain schema");
}

#[test]
fn fingerprints_are_kept_apart() {
    let definitions = Definitions::read();
    let catalog = definitions.catalog();
    let mut hashes = BTreeMap::new();
    for (path, entry) in Documents::new(&catalog, &definitions).v3_entries() {
        if let Entry::Custom(hash) = entry {
            assert_eq!(hashes.insert(hash, path), None);
        }
    }
    assert_eq!(hashes.len(), 3);
}
