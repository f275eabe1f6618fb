//! Tables as they go over the wire.

use store::Revision;

use super::*;

const NOW: u64 = 1_700_000_000;

fn published(resource: &Resource, body: &str) -> Arc<Obj> {
    let storage = resource.storage.as_ref().expect("a stored kind");
    let obj = Obj::publish(storage, "/registry/x/y", body.as_bytes(), Revision(7), None);
    Arc::new(obj.expect("an encoded object"))
}

fn parsed(bytes: &[u8]) -> Value {
    json::parse(bytes, None).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(bytes)))
}

fn text(value: Option<&Value>) -> String {
    value.map(|v| String::from_utf8(json::to_vec(v)).expect("JSON is text")).unwrap_or_default()
}

#[test]
fn a_pod_that_ended_has_its_cells_and_a_condition() {
    let catalog = Arc::new(Catalog::builtin());
    let resource = catalog.find("", "v1", "pods").expect("pods");
    let obj = published(
        resource,
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"d","creationTimestamp":"2023-11-14T22:08:20Z"},"spec":{"containers":[{"name":"a"}]},"status":{"phase":"Succeeded"}}"#,
    );
    let view = TableView::new(resource, Include::Metadata, MetaVersion::V1);
    let mut out = Vec::new();
    view.one(&obj, NOW, true, &mut out);
    let table = parsed(&out);
    assert_eq!(text(table.get("metadata")), r#"{"resourceVersion":"7"}"#);
    assert_eq!(table.get("columnDefinitions").and_then(Value::as_list).map(<[_]>::len), Some(9));
    let row = &table.get("rows").and_then(Value::as_list).expect("rows")[0];
    let cells: Value = parsed(br#"["p","0/1","Succeeded","0","5m","<none>","<none>","<none>","<none>"]"#);
    assert_eq!(row.get("cells"), Some(&cells));
    assert!(text(row.get("conditions")).contains(r#""reason":"Succeeded""#));
    assert_eq!(row.str_at(&["object", "kind"]), Some("PartialObjectMetadata"));

    let mut later = Vec::new();
    view.one(&obj, NOW, false, &mut later);
    assert_eq!(parsed(&later).get("columnDefinitions"), Some(&Value::Null));
}

#[test]
fn events_show_the_same_cells_through_both_groups() {
    let catalog = Arc::new(Catalog::builtin());
    let body = r#"{"kind":"Event","apiVersion":"v1","metadata":{"name":"e","namespace":"d"},"involvedObject":{"kind":"Pod","name":"p"},"reason":"R","type":"Normal","firstTimestamp":null,"lastTimestamp":null,"eventTime":null}"#;
    let rows = [("", "v1"), ("events.k8s.io", "events.k8s.io/v1")].map(|(group, api_version)| {
        let resource = catalog.find(group, "v1", "events").expect("events");
        let obj = published(resource, body);
        let mut out = Vec::new();
        TableView::new(resource, Include::Object, MetaVersion::V1).row(&obj, NOW, &mut out);
        let row = parsed(&out);
        assert_eq!(row.str_at(&["object", "apiVersion"]), Some(api_version));
        text(row.get("cells"))
    });
    assert_eq!(rows[0], rows[1]);
    assert!(rows[0].contains(r#""pod/p""#), "{}", rows[0]);
}

#[test]
fn flow_schemas_are_sorted_by_precedence_and_others_stay() {
    let catalog = Arc::new(Catalog::builtin());
    let group = "flowcontrol.apiserver.k8s.io";
    let schemas = catalog.find(group, "v1", "flowschemas").expect("flow schemas");
    let made = |name: &str, precedence: u32| {
        let body = format!(
            r#"{{"kind":"FlowSchema","apiVersion":"{group}/v1","metadata":{{"name":"{name}"}},"spec":{{"matchingPrecedence":{precedence}}}}}"#
        );
        published(schemas, &body)
    };
    let names =
        |items: &[Arc<Obj>]| items.iter().map(|o| text(Some(&parsed(o.metadata())))).collect::<Vec<_>>();
    let mut items = vec![made("a", 900), made("b", 1), made("c", 900), made("d", 50)];
    let expected = [1, 3, 0, 2].map(|i: usize| items[i].clone());
    TableView::new(schemas, Include::None, MetaVersion::V1).sort(&mut items);
    assert_eq!(names(&items), names(&expected));
    let pods = catalog.find("", "v1", "pods").expect("pods");
    TableView::new(pods, Include::None, MetaVersion::V1).sort(&mut items);
    assert_eq!(names(&items), names(&expected));
}

#[test]
fn a_scale_is_a_table_of_its_own() {
    let scale = parsed(
        br#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"w","resourceVersion":"9","creationTimestamp":"2023-11-14T22:13:10Z"},"spec":{"replicas":3},"status":{"replicas":2}}"#,
    );
    let table =
        parsed(&table_of_value(columns::scale_printer(), &scale, Include::Metadata, MetaVersion::V1, NOW));
    assert_eq!(table.str_at(&["metadata", "resourceVersion"]), Some("9"));
    let row = &table.get("rows").and_then(Value::as_list).expect("rows")[0];
    assert_eq!(text(row.get("cells")), r#"["w",3,2,"10s"]"#);
    assert_eq!(row.str_at(&["object", "metadata", "name"]), Some("w"));
}

/// Recorded from kube-apiserver.
#[test]
fn a_bookmark_is_a_row_of_an_object_that_has_nothing() {
    let catalog = Arc::new(Catalog::builtin());
    let maps = catalog.find("", "v1", "configmaps").expect("config maps are served");
    let bookmark =
        parsed(br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"5","annotations":{"a":"b"}}}"#);
    let mut out = Vec::new();
    TableView::new(maps, Include::Metadata, MetaVersion::V1beta1).bookmark(&bookmark, 0, false, &mut out);
    let table = parsed(&out);
    assert_eq!(table.str_at(&["apiVersion"]), Some("meta.k8s.io/v1beta1"));
    assert_eq!(text(table.get("metadata")), r#"{"resourceVersion":"5"}"#);
    assert!(table.get("columnDefinitions").is_some_and(Value::is_null));
    let row = &table.get("rows").and_then(Value::as_list).expect("rows")[0];
    let cells = row.get("cells").and_then(Value::as_list).expect("cells");
    assert_eq!(
        (cells[0].as_str(), cells[1].as_int(), cells[2].as_str()),
        (Some(""), Some(0), Some("<unknown>"))
    );
    assert_eq!(
        text(row.get("object")),
        r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1","metadata":{"resourceVersion":"5","annotations":{"a":"b"}}}"#
    );
}
