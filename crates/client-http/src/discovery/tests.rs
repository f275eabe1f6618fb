//! Both forms of discovery say the same.

use super::*;

fn parse(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

const AGGREGATED: &str = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[
  {"metadata":{"name":"example.io"},"versions":[
    {"version":"v1","freshness":"Current","resources":[
      {"resource":"widgets","responseKind":{"group":"example.io","version":"v1","kind":"Widget"},"scope":"Namespaced",
       "singularResource":"widget","verbs":["get","list"],"shortNames":["wd"],"categories":["all"],
       "subresources":[
         {"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"},"verbs":["get"]},
         {"subresource":"status","responseKind":{"group":"","version":"","kind":"Widget"},"verbs":["get"]}]}]},
    {"version":"v2","freshness":"Stale"}]}]}"#;

const RESOURCES: &str = r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.io/v1","resources":[
  {"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","verbs":["get","list","fly"],
   "shortNames":["wd"],"categories":["all"]},
  {"name":"widgets/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get"]},
  {"name":"widgets/status","singularName":"","namespaced":true,"kind":"Widget","verbs":["get"]}]}"#;

#[test]
fn both_forms_of_discovery_describe_the_same_resource() {
    let aggregated = aggregated(&parse(AGGREGATED)).unwrap();
    let [first, second] = &aggregated[..] else { panic!("two versions") };
    assert_eq!((&*first.group, &*first.version, &*second.version), ("example.io", "v1", "v2"));
    assert!(second.resources.is_none(), "nobody knows what a stale version serves");
    let one_by_one = resources("example.io", "v1", &parse(RESOURCES));
    assert_eq!(first.resources.as_deref(), Some(&one_by_one[..]));
    let [widgets] = &one_by_one[..] else { panic!("one resource") };
    assert_eq!(
        (&*widgets.kind, widgets.namespaced, widgets.verbs),
        ("Widget", true, Verbs::GET | Verbs::LIST)
    );
    assert_eq!(
        (&*widgets.subresources[0].group, &*widgets.subresources[1].group),
        ("autoscaling", "example.io")
    );
}

#[test]
fn a_discovered_resource_can_be_defined_and_found() {
    let catalog = Catalog::builtin();
    let found = resources("example.io", "v1", &parse(RESOURCES));
    let (catalog, _) = catalog.define(definition(&catalog, &found).unwrap()).unwrap();
    let resource = catalog.find("example.io", "v1", "widgets").unwrap();
    assert_eq!(Discovered::of(resource), found[0]);
    assert_eq!(resource.storage.as_ref().unwrap().key("d", "a"), "/registry/example.io/widgets/d/a");
    assert!(definition(&catalog, &[]).is_none());
}

#[test]
fn groups_and_versions_of_older_servers_are_listed() {
    let groups = r#"{"kind":"APIGroupList","groups":[{"name":"a","versions":[{"version":"v1"},{"version":"v2"}]},{}]}"#;
    let pair = |version: &str| ("a".to_owned(), version.to_owned());
    assert_eq!(group_versions(&parse(groups)), [pair("v1"), pair("v2")]);
    assert!(aggregated(&parse(groups)).is_none());
    for odd in
        ["1", "{}", r#"{"resources":[{"name":1},{}]}"#, r#"{"kind":"APIGroupDiscoveryList","items":[1]}"#]
    {
        let odd = parse(odd);
        let _ = (aggregated(&odd), resources("g", "v", &odd), group_versions(&odd));
    }
}
