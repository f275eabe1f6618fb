use catalog::Catalog;

use super::*;

fn parse(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
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

/// Runs `f` with the field manager of config maps.
fn with_config_maps<R>(f: impl FnOnce(&mut FieldManager<'_>) -> R) -> R {
    let catalog = Catalog::builtin();
    let ty = catalog.find_type("", "v1", "ConfigMap").unwrap();
    let ty = TypeRef::built_in(catalog.schema(), ty);
    let empty = parse(r#"{"apiVersion":"v1","kind":"ConfigMap"}"#);
    f(&mut FieldManager {
        api_version: "v1",
        kind: "ConfigMap",
        ty,
        subresource: "",
        converter: &OneVersion(ty),
        reset: &[],
        empty: &empty,
        now: 1_600_000_000,
    })
}

fn config_map(data: &str) -> Value {
    parse(&format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c"}},"data":{data}}}"#))
}

fn stored(mut object: Value) -> Value {
    object.map_at(&["metadata"]).set("uid", "u");
    object
}

fn managers(object: &Value) -> Vec<String> {
    let managers = Managers::decode(managed_fields(object).cloned()).unwrap();
    managers.iter().map(|manager| format!("{} {:?}", manager.id, manager.set())).collect()
}

#[test]
fn a_configuration_of_another_kind_is_a_bad_request() {
    with_config_maps(|field_manager| {
        let config = parse(r#"{"apiVersion":"apps/v1","kind":"Deployment"}"#);
        let refused = field_manager.apply(field_manager.empty, &config, "m", false).unwrap_err();
        let message = "invalid object type: apps/v1, Kind=Deployment".to_owned();
        assert_eq!(refused, ApplyError::BadRequest(message));
    });
}

#[test]
fn an_object_without_managers_is_tracked_from_its_first_apply() {
    with_config_maps(|field_manager| {
        let live = stored(config_map(r#"{"a":"1"}"#));
        let mut new = stored(config_map(r#"{"a":"2"}"#));
        field_manager.update(&live, &mut new, "u").unwrap();
        assert_eq!(managers(&new), Vec::<String>::new());
        let applied = field_manager.apply(&live, &config_map(r#"{"b":"1"}"#), "m", false).unwrap();
        assert_eq!(
            managers(&applied),
            [
                r#""m" [".data", ".data.b"]"#.replace(r#"".data", "#, ""),
                r#""before-first-apply" using v1 [".data", ".data.a"]"#.to_owned()
            ]
        );
    });
}

#[test]
fn an_empty_list_clears_the_managers() {
    with_config_maps(|field_manager| {
        let mut live = config_map(r#"{"a":"1"}"#);
        field_manager.update(field_manager.empty, &mut live, "u").unwrap();
        let live = stored(live);
        assert_eq!(managers(&live).len(), 1);
        for clear in ["[]", "[{}]"] {
            let mut new = live.clone();
            new.map_at(&["metadata"]).set("managedFields", parse(clear));
            field_manager.update(&live, &mut new, "u").unwrap();
            assert_eq!(managed_fields(&new), None, "{clear}");
        }
        // What cannot be read is as if it had not been sent.
        let mut new = live.clone();
        new.map_at(&["metadata"]).set("managedFields", parse(r#"[{"operation":"Steal"}]"#));
        field_manager.update(&live, &mut new, "u").unwrap();
        assert_eq!(managed_fields(&new), managed_fields(&live));
    });
}

#[test]
fn times_move_with_the_sets_only() {
    with_config_maps(|field_manager| {
        let config = config_map(r#"{"a":"1"}"#);
        let mut live =
            parse(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","uid":"u"},"data":{}}"#);
        live = field_manager.apply(&live, &config, "m", false).unwrap();
        field_manager.now += 60;
        assert_eq!(field_manager.apply(&live, &config, "m", false).unwrap(), live);
        let mut same = live.clone();
        field_manager.update(&live, &mut same, "u").unwrap();
        assert_eq!(same, live);
        let changed = field_manager.apply(&live, &config_map(r#"{"a":"2"}"#), "m", false).unwrap();
        assert_ne!(managed_fields(&changed), managed_fields(&live));
    });
}

#[test]
fn a_write_of_nothing_but_times_keeps_them() {
    let with = |time: &str, data: &str| {
        let mut object = config_map(data);
        let fields = format!(r#"[{{"manager":"m","time":"{time}","fieldsV1":{{}}}}]"#);
        object.map_at(&["metadata"]).set("managedFields", parse(&fields));
        object
    };
    let old = with("2020-01-01T00:00:00Z", "{}");
    let mut new = with("2021-01-01T00:00:00Z", "{}");
    assert!(keep_times_of_unchanged(&old, &mut new));
    assert_eq!(new, old);
    let mut new = with("2021-01-01T00:00:00Z", r#"{"a":"b"}"#);
    assert!(!keep_times_of_unchanged(&old, &mut new));
    assert_eq!(new, with("2021-01-01T00:00:00Z", r#"{"a":"b"}"#));
}

#[test]
fn conflicts_name_all_managers_and_fields() {
    with_config_maps(|field_manager| {
        let live = field_manager.apply(field_manager.empty, &config_map(r#"{"a":"1"}"#), "m", false).unwrap();
        let mut new = stored(live.clone());
        new.map_at(&["data"]).set("b", "1");
        field_manager.update(&stored(live), &mut new, "u").unwrap();
        let refused = field_manager.apply(&new, &config_map(r#"{"a":"2","b":"2"}"#), "n", false);
        let status = Status::from(refused.unwrap_err());
        assert_eq!(
            status.message,
            "Apply failed with 2 conflicts: conflicts with \"m\":\n- .data.a\nconflicts with \"u\" using v1:\n- .data.b"
        );
        let causes = status.details.unwrap().causes;
        assert_eq!(causes[1].message, "conflict with \"u\" using v1");
        assert_eq!((causes[1].field.as_str(), causes[1].reason), (".data.b", "FieldManagerConflict"));
        let forced = field_manager.apply(&new, &config_map(r#"{"a":"2","b":"2"}"#), "n", true).unwrap();
        assert_eq!(managers(&forced), [r#""n" [".data.a", ".data.b"]"#]);
    });
}
