use super::*;
use crate::testing::json;

fn set(classes: &mut Classes, name: &str, created: &str, resource: &str) {
    let tree = json(&format!(
        r#"{{"metadata":{{"name":"{name}","creationTimestamp":"2026-01-0{created}T00:00:00Z"}},
        "spec":{{"extendedResourceName":"{resource}"}}}}"#
    ));
    classes.set(name, Some(DeviceClass::parse(&tree)));
}

#[test]
fn an_extended_resource_stands_for_its_newest_class() {
    let mut classes = Classes::default();
    let name = |classes: &Classes, resource: &str| {
        classes.for_extended_resource(resource).map(|class| class.name.to_string())
    };
    set(&mut classes, "b", "1", "x/gpu");
    assert_eq!(name(&classes, "x/gpu").as_deref(), Some("b"));
    set(&mut classes, "c", "2", "x/gpu");
    assert_eq!(name(&classes, "x/gpu").as_deref(), Some("c"));
    set(&mut classes, "a", "2", "x/gpu");
    assert_eq!(name(&classes, "x/gpu").as_deref(), Some("a"));
    set(&mut classes, "a", "2", "x/other");
    assert_eq!(name(&classes, "x/gpu").as_deref(), Some("c"));
    classes.set("c", None);
    assert_eq!(name(&classes, "x/gpu").as_deref(), Some("b"));
    classes.set("b", None);
    assert_eq!(name(&classes, "x/gpu"), None);
    assert_eq!(name(&classes, "deviceclass.resource.kubernetes.io/a").as_deref(), Some("a"));
    assert_eq!(name(&classes, "deviceclass.resource.kubernetes.io/b"), None);
}
