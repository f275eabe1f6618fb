//! What slices a node publishes, and what is said of devices.

use object::Value;

use super::plan::{Change, DRIVER, changes, device_status};

fn json(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

fn node(annotations: &str) -> Value {
    json(&format!(r#"{{"metadata":{{"name":"n","uid":"u","annotations":{{{annotations}}}}}}}"#))
}

fn devices(text: &str) -> Value {
    let mut node = node("");
    node.map_at(&["metadata", "annotations"]).set("sim.setpoint.dev/devices", text.to_owned());
    node
}

fn created(node: &Value) -> Vec<Value> {
    let all = changes(node, "", &[]).unwrap();
    all.into_iter().map(|c| if let Change::Create(slice) = c { slice } else { panic!("{c:?}") }).collect()
}

fn names(slice: &Value) -> Vec<&str> {
    let devices = slice.at(&["spec", "devices"]).and_then(Value::as_list).unwrap_or_default();
    devices.iter().filter_map(|device| device.str_at(&["name"])).collect()
}

#[test]
fn a_number_is_so_many_devices_of_the_node() {
    assert_eq!(changes(&node(""), "", &[]).unwrap(), []);
    let slices = created(&devices("2"));
    assert_eq!(slices.len(), 1);
    assert_eq!(names(&slices[0]), ["device-0", "device-1"]);
    let at = |path: &[&str]| slices[0].str_at(path).unwrap_or_default().to_owned();
    assert_eq!(at(&["metadata", "name"]), "n-simulated.setpoint.dev-0");
    assert_eq!(
        [at(&["spec", "driver"]), at(&["spec", "nodeName"]), at(&["spec", "pool", "name"])],
        [DRIVER, "n", "n"]
    );
    assert_eq!(created(&devices("200")).len(), 2);
    let default = changes(&node(""), "1", &[]).unwrap();
    assert_eq!(default.len(), 1, "what nodes have that say nothing");
    assert_eq!(changes(&devices("0"), "1", &[]).unwrap(), []);
}

#[test]
fn counters_stand_in_a_slice_of_their_own() {
    let text = r#"{"sharedCounters":[{"name":"c","counters":{"m":{"value":"8"}}}],
        "devices":[{"name":"part","count":2,"consumesCounters":[{"counterSet":"c","counters":{"m":{"value":"4"}}}]},{"name":"x"}]}"#;
    let slices = created(&devices(text));
    assert!(slices[0].at(&["spec", "sharedCounters"]).is_some() && names(&slices[0]).is_empty());
    assert_eq!(names(&slices[1]), ["part-0", "part-1", "x"]);
    assert_eq!(slices[1].at(&["spec", "pool", "resourceSliceCount"]), Some(&Value::Int(2)));
}

#[test]
fn what_is_published_is_not_written_again_and_a_taint_keeps_its_time() {
    let tainted = |taints: &str| {
        let mut node = devices("2");
        node.map_at(&["metadata", "annotations"]).set("sim.setpoint.dev/device-taints", taints.to_owned());
        node
    };
    let node = tainted("device-0:broken:NoExecute");
    let mut slices = created(&node);
    assert_eq!(changes(&node, "", &slices).unwrap(), []);
    // As the server has it.
    let Some(Value::List(there)) = slices[0].map_at(&["spec"]).get_mut("devices") else { panic!() };
    let Some(Value::List(taints)) = there[0].make_map().get_mut("taints") else { panic!() };
    taints[0].make_map().set("timeAdded", "then");
    let more = tainted("device-0:broken:NoExecute, *:old=yes:NoSchedule");
    let all = changes(&more, "", &slices).unwrap();
    let [Change::Update(0, slice)] = &all[..] else { panic!("{all:?}") };
    let text =
        String::from_utf8(codec::json::to_vec(&slice.at(&["spec", "devices"]).unwrap().clone())).unwrap();
    assert_eq!(
        text,
        r#"[{"name":"device-0","taints":[{"key":"broken","effect":"NoExecute","timeAdded":"then"},{"key":"old","value":"yes","effect":"NoSchedule"}]},{"name":"device-1","taints":[{"key":"old","value":"yes","effect":"NoSchedule"}]}]"#
    );
    assert_eq!(slice.at(&["spec", "pool", "generation"]), Some(&Value::Int(1)), "changed in place");
    // Another set of devices is another generation, everywhere.
    let all = changes(&devices("3"), "", &slices).unwrap();
    let [Change::Update(0, slice)] = &all[..] else { panic!("{all:?}") };
    assert_eq!(slice.at(&["spec", "pool", "generation"]), Some(&Value::Int(2)));
    assert_eq!(changes(&devices("0"), "", &slices).unwrap(), [Change::Delete(0)]);
}

#[test]
fn bad_annotations_are_told_and_bounded() {
    for text in
        ["x", "{", "[1]", "99999999", r#"[{"count":-1}]"#, r#"[{"name":"a","count":9000},{"count":9000}]"#]
    {
        assert!(changes(&devices(text), "", &[]).is_err(), "{text}");
    }
    let mut node = devices("1");
    node.map_at(&["metadata", "annotations"]).set("sim.setpoint.dev/device-taints", "nonsense");
    assert!(changes(&node, "", &[]).is_err());
}

#[test]
fn binding_conditions_come_after_a_while_and_device_status_with_a_reservation() {
    let claim = json(
        r#"{"status":{"reservedFor":[{"uid":"p"}],"allocation":{"allocationTimestamp":"1970-01-01T00:01:40Z","devices":{"results":[
        {"request":"r","driver":"simulated.setpoint.dev","pool":"n","device":"d","bindingConditions":["Attached"],"bindingFailureConditions":["Failed"]},
        {"request":"r","driver":"other","pool":"n","device":"d"}]}}}}"#,
    );
    let said = |annotations: &str, now: i64| {
        let (status, again) = device_status(&claim, |name| (name == "n").then(|| node(annotations)), now);
        let types = status.map(|status| {
            let devices = status.at(&["status", "devices"]).and_then(Value::as_list).unwrap().to_vec();
            let conditions = devices[0].get("conditions").and_then(Value::as_list).unwrap().to_vec();
            assert_eq!(devices.len(), 1);
            conditions.iter().filter_map(|c| c.str_at(&["type"])).collect::<Vec<_>>().join(",")
        });
        (types, again)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(said("", 100), (some("Attached"), None));
    let wait = r#""sim.setpoint.dev/binding-seconds":"30""#;
    assert_eq!(said(wait, 100), (None, Some(130)));
    assert_eq!(said(wait, 130), (some("Attached"), None));
    assert_eq!(said(r#""sim.setpoint.dev/binding-seconds":"never""#, 1000), (None, None));
    assert_eq!(said(r#""sim.setpoint.dev/binding-failure":"true""#, 100), (some("Failed"), None));
    assert_eq!(said(r#""sim.setpoint.dev/device-status":"true""#, 100), (some("Attached,Ready"), None));
}
