//! The catalogue holds what Kubernetes serves, and says where a file is wrong.

use std::sync::Arc;

use super::*;

fn field<'a>(c: &'a Catalog, ty: &str, name: &str) -> &'a Field {
    let id = c.schema().find(ty).unwrap_or_else(|| panic!("no type {ty}"));
    c.schema().get(id).field(name).unwrap_or_else(|| panic!("no field {ty}.{name}")).1
}

fn problem(text: &'static str) -> String {
    Catalog::parse(&[("x.cat", text)]).err().map_or("parsed".into(), |e| e.to_string())
}

#[test]
fn builtin_serves_what_upstream_serves() {
    let c = Catalog::builtin();
    assert_eq!(c.resources().len(), 68);
    assert_eq!(c.resources().iter().filter(|r| r.storage.is_none()).count(), 8);
    // Events and autoscalers are served twice and stored once; the node port range is stored and not served.
    assert_eq!(c.storages().len(), 59);
    assert!(c.schema().iter().count() > 560);
    let groups: Vec<&str> = c.groups().iter().map(|g| g.name.as_str()).collect();
    assert_eq!(groups[..5], ["", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io"]);
    assert_eq!(groups.len(), 21);
    let autoscaling = c.groups().iter().find(|g| g.name == "autoscaling").unwrap();
    assert_eq!(autoscaling.versions, ["v2", "v1"]);
}

#[test]
fn metrics_are_served_beside_the_built_in_resources() {
    let (plain, more) = (Catalog::builtin(), Catalog::with_metrics());
    assert!(plain.find("metrics.k8s.io", "v1beta1", "pods").is_none());
    let pods = more.find("metrics.k8s.io", "v1beta1", "pods").unwrap();
    assert_eq!(
        (pods.kind.as_str(), pods.list_kind.as_str(), pods.namespaced),
        ("PodMetrics", "PodMetricsList", true)
    );
    assert!(pods.storage.is_none());
    assert_eq!(more.storages().len(), plain.storages().len());
}

#[test]
fn every_storage_is_found_by_group_and_plural() {
    let c = Catalog::builtin();
    for storage in c.storages() {
        let found = c.find_storage(&storage.group, &storage.plural).map(|s| s.id);
        assert_eq!(found, Some(storage.id), "{}", storage.prefix);
    }
    assert!(c.find_storage("apps", "pods").is_none());
}

#[test]
fn every_stored_kind_has_metadata_and_a_list() {
    let c = Catalog::builtin();
    let meta = c.schema().find("meta.v1.ObjectMeta").unwrap();
    for r in c.resources() {
        let ty = c.schema().get(r.ty);
        let gvk = (r.group.clone(), r.version.clone(), r.kind.clone());
        assert_eq!(ty.gvk.as_ref(), Some(&gvk), "{}", r.qualified());
        assert_eq!(ty.fields[0].name, "kind", "{}", r.qualified());
        assert_eq!(ty.fields[1].name, "apiVersion", "{}", r.qualified());
        if r.storage.is_some() {
            assert_eq!(ty.field("metadata").unwrap().1.shape, Shape::Struct(meta), "{}", r.qualified());
        }
        if r.verbs.contains(Verbs::LIST) {
            assert_eq!(r.list_kind, *format!("{}List", r.kind), "{}", r.qualified());
            assert!(c.find_type(&r.group, &r.version, &r.list_kind).is_some(), "{}", r.list_kind);
        }
    }
    for s in c.storages() {
        match c.served_by(s).next() {
            Some(r) => assert!(r.group == s.group && r.version == s.version, "{}", s.kind),
            None => assert_eq!(s.plural, "rangeallocations"),
        }
        for f in &s.selectable {
            let mut ty = s.ty;
            for (i, step) in f.path.iter().enumerate() {
                let (_, field) =
                    c.schema().get(ty).field(step).unwrap_or_else(|| panic!("{} {}", s.kind, f.name));
                match field.shape {
                    Shape::Struct(inner) => ty = inner,
                    _ => assert_eq!(i + 1, f.path.len(), "{} {}", s.kind, f.name),
                }
            }
        }
    }
}

#[test]
fn fields_and_numbers_are_unique_and_in_gos_order() {
    let c = Catalog::builtin();
    for (_, t) in c.schema().iter() {
        for (i, f) in t.fields.iter().enumerate() {
            assert_eq!(t.field(&f.name).map(|(at, _)| at), Some(i), "{}.{}", t.name, f.name);
            let same = |o: &&Field| o.number == f.number && o.within == f.within;
            assert!(f.number == 0 || t.fields.iter().filter(same).count() == 1, "{}.{}", t.name, f.name);
        }
    }
    let spec = c.schema().get(c.schema().find("core.v1.PodSpec").unwrap());
    let first: Vec<&str> = spec.fields.iter().take(5).map(|f| f.name.as_str()).collect();
    assert_eq!(first, ["volumes", "initContainers", "containers", "ephemeralContainers", "restartPolicy"]);
}

#[test]
fn container_ports_merge_by_number_and_apply_by_number_and_protocol() {
    let c = Catalog::builtin();
    let ports = field(&c, "core.v1.Container", "ports");
    assert_eq!(
        ports.patch,
        PatchRule { merge: true, key: Some("containerPort".into()), ..Default::default() }
    );
    assert_eq!(ports.list, ListKind::Map(vec!["containerPort".into(), "protocol".into()]));
    assert_eq!(field(&c, "core.v1.ContainerPort", "protocol").default.as_deref(), Some("\"TCP\""));
    assert_eq!(field(&c, "core.v1.PodSpec", "nodeSelector").map, MapKind::Atomic);
}

#[test]
fn types_carry_gos_names() {
    let c = Catalog::builtin();
    let t = c.schema().get(c.schema().find("meta.v1.ObjectMeta").unwrap());
    assert_eq!((t.short.as_str(), t.go_name.as_str()), ("ObjectMeta", "v1.ObjectMeta"));
    let created = field(&c, "meta.v1.ObjectMeta", "creationTimestamp");
    assert!(created.omit_zero && created.by_value && created.shape == Shape::Time);
}

#[test]
fn flat_json_fields_know_the_message_they_travel_in() {
    let c = Catalog::builtin();
    let host_path = field(&c, "core.v1.Volume", "hostPath");
    assert_eq!((host_path.within.as_slice(), host_path.number), (&[2][..], 1));
    let groups = field(&c, "admissionregistration.v1.NamedRuleWithOperations", "apiGroups");
    assert_eq!((groups.within.as_slice(), groups.number), (&[2, 2][..], 1));
    assert_eq!(
        field(&c, "apiextensions.v1.JSONSchemaProps", "additionalProperties").any,
        AnyKind::SchemaOrBool
    );
}

#[test]
fn versions_share_a_storage() {
    let c = Catalog::builtin();
    let v1 = c.find("autoscaling", "v1", "horizontalpodautoscalers").unwrap();
    let v2 = c.find_kind("autoscaling", "v2", "HorizontalPodAutoscaler").unwrap();
    assert!(Arc::ptr_eq(v1.storage.as_ref().unwrap(), v2.storage.as_ref().unwrap()));
    assert_eq!(v1.storage.as_ref().unwrap().version, "v2");
    let events = c.find("events.k8s.io", "v1", "events").unwrap();
    let core = c.find("", "v1", "events").unwrap();
    assert!(Arc::ptr_eq(events.storage.as_ref().unwrap(), core.storage.as_ref().unwrap()));
    assert_eq!(events.storage.as_ref().unwrap().ttl_seconds, Some(3600));
}

#[test]
fn field_labels_are_those_of_the_served_version() {
    let c = Catalog::builtin();
    let (core, new) = (c.find("", "v1", "events").unwrap(), c.find("events.k8s.io", "v1", "events").unwrap());
    let name = |r: &Resource, label| r.selectable(label).map(|(_, s)| s.name.to_string());
    assert_eq!(name(core, "involvedObject.name").as_deref(), Some("involvedObject.name"));
    assert_eq!(name(new, "regarding.name").as_deref(), Some("involvedObject.name"));
    assert_eq!(name(core, "regarding.name"), None);
    assert_eq!(name(new, "involvedObject.name"), None);
    assert_eq!(name(new, "source"), None);
    let pods = c.find("", "v1", "pods").unwrap();
    assert_eq!(name(pods, "spec.host").as_deref(), Some("spec.nodeName"));
    assert_eq!(pods.storage.as_ref().unwrap().indexed.as_deref(), Some("spec.nodeName"));
}

#[test]
fn keys_belong_to_the_longest_prefix() {
    let c = Catalog::builtin();
    let of = |key| c.storage_of_key(key).map(|storage| storage.plural.as_str());
    assert_eq!(of("/registry/pods/default/web"), Some("pods"));
    assert_eq!(of("/registry/services/specs/a/b"), Some("services"));
    assert_eq!(of("/registry/services/endpoints/a/b"), Some("endpoints"));
    assert_eq!(of("/registry/minions/n1"), Some("nodes"));
    assert_eq!(of("/registry/"), None);
    assert_eq!(of("no slash"), None);
}

#[test]
fn garbage_collection_defaults_are_upstreams() {
    let c = Catalog::builtin();
    let orphan: Vec<&str> =
        c.storages().iter().filter(|s| s.orphan_by_default).map(|s| s.plural.as_str()).collect();
    assert_eq!(orphan, ["replicationcontrollers", "jobs"]);
    let no_gc: Vec<&str> = c.storages().iter().filter(|s| s.no_gc).map(|s| s.plural.as_str()).collect();
    assert_eq!(no_gc, ["events"]);
}

#[test]
fn update_and_delete_rules_are_upstreams() {
    let c = Catalog::builtin();
    let of = |group, plural| c.find(group, "v1", plural).unwrap().storage.as_ref().unwrap();
    assert!(of("", "pods").returns_deleted && !of("", "configmaps").returns_deleted);
    assert!(of("coordination.k8s.io", "leases").create_on_update);
    assert!(!of("coordination.k8s.io", "leases").unconditional_update);
    assert!(!of("apiextensions.k8s.io", "customresourcedefinitions").unconditional_update);
    assert!(of("", "endpoints").unconditional_update && of("", "endpoints").create_on_update);
}

const TINY: &str = "\
resource example.io/v1 widgets example.v1.Widget namespaced singular=widget verbs=all
  sub status example.io/v1/Widget example.v1.Widget get,update
  storage /registry/example.io/widgets/

type example.v1.Widget gvk=example.io/v1/Widget
  - kind string omitempty
  - apiVersion string omitempty
  1 metadata meta.v1.ObjectMeta omitempty value
  2 parts []Part list=map:name patch=merge key=name

type example.v1.Part
  1 name string required enum=wheel|axle
";

#[test]
fn a_new_kind_is_defined_in_one_place() {
    let c = with_widgets();
    let r = c.find("example.io", "v1", "widgets").unwrap();
    assert_eq!((r.kind.as_str(), r.storage.is_some()), ("Widget", true));
    assert!(r.subresource("status").is_some());
    assert_eq!(c.groups().last().unwrap().name, "example.io");
    assert_eq!(field(&c, "example.v1.Part", "name").values, ["wheel", "axle"]);
    assert_eq!(c.storage_of_key("/registry/example.io/widgets/a/b").unwrap().plural, "widgets");
}

fn with_widgets() -> Catalog {
    Catalog::parse(&[builtin::FILES, &[("example.cat", TINY)]].concat()).unwrap()
}

#[test]
fn a_resource_comes_and_goes_and_no_id_comes_back() {
    let widgets = with_widgets().definition("example.io", "widgets").unwrap();
    let bare = Catalog::builtin();
    let (first, def) = bare.define(widgets.clone()).unwrap();
    assert!(
        bare.find("example.io", "v1", "widgets").is_none(),
        "who holds the snapshot before goes on with it"
    );
    let served = first.find("example.io", "v1", "widgets").unwrap();
    let storage = def.storage.as_ref().unwrap();
    assert!(Arc::ptr_eq(served, &def.served[0]) && Arc::ptr_eq(served.storage.as_ref().unwrap(), storage));
    assert!(first.storage_of_key("/registry/example.io/widgets/a/b").is_some());
    assert_eq!(first.groups().last().unwrap().name, "example.io");
    assert!(bare.resources().iter().all(|other| other.id < served.id), "an id of its own");

    let (second, again) = first.define(widgets.clone()).unwrap();
    assert!(again.storage.as_ref().unwrap().id > storage.id, "another definition of the same resource");
    assert_eq!(second.resources().len(), first.resources().len());

    let (gone, removed) = second.undefine("example.io", "widgets").unwrap();
    assert_eq!(removed.storage.unwrap().id, again.storage.as_ref().unwrap().id);
    assert!(
        gone.find("example.io", "v1", "widgets").is_none()
            && gone.find_storage("example.io", "widgets").is_none()
    );
    assert!(gone.storage_of_key("/registry/example.io/widgets/a/b").is_none());
    assert_eq!(gone.groups().len(), bare.groups().len());
    assert!(gone.undefine("example.io", "widgets").is_none());
    let (_, last) = gone.define(widgets).unwrap();
    assert!(last.storage.unwrap().id > again.storage.unwrap().id);
}

#[test]
fn types_of_a_definition_stand_behind_the_built_in_ones() {
    let builtin = Catalog::builtin();
    let def = builtin.parse_definitions(&[("example.cat", TINY)]).unwrap().remove(0);
    let (schema, ty) = (def.served[0].schema(), def.served[0].ty);
    assert!(schema.is_own(ty) && builtin.schema().find("example.v1.Widget").is_none());
    let (_, metadata) = schema.get(ty).field("metadata").unwrap();
    let Shape::Struct(meta) = metadata.shape else { panic!("{metadata:?}") };
    assert!(!schema.is_own(meta));
    assert_eq!(Some(meta), builtin.schema().find("meta.v1.ObjectMeta"));
    assert!(std::ptr::eq(schema.get(meta), builtin.schema().get(meta)), "shared, not copied");
    assert_eq!(schema.find("example.v1.Part").map(|id| schema.get(id).short.as_str()), Some("Part"));
    assert_eq!(schema.iter().count(), 2);
}

#[test]
fn a_definition_cannot_take_names_of_another() {
    let catalog = with_widgets();
    let mut gadgets = catalog.definition("example.io", "widgets").unwrap();
    let bare = Catalog::builtin();
    let rename = |def: &mut ResourceDef, plural: &str| {
        let mut storage = Storage::clone(def.storage.as_ref().unwrap());
        storage.plural = Name::from(plural.to_owned());
        def.storage = Some(Arc::new(storage));
        let mut resource = Resource::clone(&def.served[0]);
        resource.plural = Name::from(plural.to_owned());
        def.served = vec![Arc::new(resource)];
    };
    rename(&mut gadgets, "gadgets");
    let prefix = Name::Static("/registry/example.io/widgets/");
    assert_eq!(catalog.define(gadgets.clone()).err(), Some(DefineError::Prefix(prefix)));
    let mut storage = Storage::clone(gadgets.storage.as_ref().unwrap());
    storage.prefix = Name::Static("/registry/example.io/gadgets/");
    gadgets.storage = Some(Arc::new(storage));
    let taken = DefineError::Served("example.io/v1/gadgets".into());
    assert_eq!(catalog.define(gadgets.clone()).err(), Some(taken), "the kind is another's");
    assert!(bare.define(gadgets).is_ok());
}

#[test]
fn errors_name_file_line_and_fix() {
    assert_eq!(
        problem("\n\ntype a.v1.B\n  1 c Nope"),
        "x.cat:4: unknown type `Nope`; add `type Nope` or correct the name"
    );
    assert_eq!(problem("type a.v1.B\n\ntype a.v1.B"), "x.cat:3: duplicate type `a.v1.B`");
    assert_eq!(problem("type a.v1.B\n  1 c string\n  2 c string"), "x.cat:3: duplicate field `c`");
    assert_eq!(problem("type a.v1.B\n  1 c string\n  1 d string"), "x.cat:3: duplicate protobuf number `1`");
    assert_eq!(
        problem("type a.v1.B\n  x c string"),
        "x.cat:2: `x` is not a protobuf number (`1`, `2.1` or `-`)"
    );
    assert_eq!(problem("type a.v1.B\n  1 c string maybe"), "x.cat:2: `maybe` is not a flag of a field");
    assert_eq!(problem("type a.v1.B\n  1 c"), "x.cat:2: the line has no field type");
    assert_eq!(
        problem("typo a"),
        "x.cat:1: a block starts with `resource`, `internal` or `type`, not `typo`"
    );
    assert_eq!(
        problem("  1 c string"),
        "x.cat:1: indented line outside a block; start a `resource` or `type` first"
    );
    assert_eq!(
        problem("type a.v1.B\nresource a/v1 bs a.v1.B cluster singular=b verbs=get"),
        "x.cat:2: resource `bs.a` has neither `storage`, `stored-as` nor `unstored`"
    );
    assert_eq!(
        problem("type a.v1.B\nresource a/v1 bs a.v1.B cluster singular=b verbs=get\n  stored-as core/v1 cs"),
        "x.cat:3: unknown stored resource `cs`"
    );
    assert_eq!(
        problem("type a.v1.B\nresource a/v1 bs a.v1.B cluster singular=b verbs=grab"),
        "x.cat:2: `grab` is not a verb"
    );
}
