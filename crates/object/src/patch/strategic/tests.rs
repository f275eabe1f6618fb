use catalog::Catalog;

use super::super::testing::{json, show};
use super::*;

struct World {
    catalog: Catalog,
}

impl World {
    fn new() -> World {
        World { catalog: Catalog::builtin() }
    }
    fn patch(&self, ty: &str, doc: &str, patch: &str) -> Result<Value, Status> {
        let schema = self.catalog.schema();
        let mut doc = json(doc);
        apply(schema, schema.find(ty).expect(ty), &mut doc, json(patch))?;
        Ok(doc)
    }
    #[track_caller]
    fn check(&self, ty: &str, cases: &[(&str, &str, &str)]) {
        for (doc, patch, want) in cases {
            let got = self.patch(ty, doc, patch).unwrap_or_else(|e| panic!("{doc} {patch}: {e:?}"));
            assert_eq!(show(&got), show(&json(want)), "{doc} {patch}");
        }
    }
    #[track_caller]
    fn refuses(&self, ty: &str, doc: &str, patch: &str, want: Status) {
        assert_eq!(self.patch(ty, doc, patch), Err(want), "{doc} {patch}");
    }
}

#[test]
fn maps_merge_and_null_removes() {
    World::new().check(
        "core.v1.ConfigMap",
        &[
            (
                r#"{"data":{"a":"1","b":"2"}}"#,
                r#"{"data":{"a":"9","b":null,"c":"3"}}"#,
                r#"{"data":{"a":"9","c":"3"}}"#,
            ),
            (r#"{"data":{"a":"1"}}"#, r#"{"data":null}"#, r#"{}"#),
            (r#"{}"#, r#"{"data":{"a":null,"b":"2"}}"#, r#"{"data":{"b":"2"}}"#),
            (r#"{"data":{"a":"1"}}"#, r#"{"data":{"$patch":"replace","b":"2"}}"#, r#"{"data":{"b":"2"}}"#),
            (r#"{"data":{"a":"1"}}"#, r#"{"data":{"$patch":"delete"}}"#, r#"{"data":{}}"#),
            (r#"{}"#, r#"{"data":{"$patch":"replace","b":"2"}}"#, r#"{}"#),
            (
                r#"{"data":{"a":"1"}}"#,
                r#"{"$patch":"replace","kind":"ConfigMap"}"#,
                r#"{"kind":"ConfigMap"}"#,
            ),
            (
                r#"{"immutable":true}"#,
                r#"{"immutable":false,"unknown":{"a":1}}"#,
                r#"{"immutable":false,"unknown":{"a":1}}"#,
            ),
            (r#"{"data":{"a":"1"}}"#, "null", r#"{"data":{"a":"1"}}"#),
            (r#"{"data":"x"}"#, r#"{"data":{"a":"1","b":null}}"#, r#"{"data":{"a":"1"}}"#),
        ],
    );
}

#[test]
fn metadata_lists_merge_by_their_rules() {
    World::new().check(
        "core.v1.Pod",
        &[
            (
                r#"{"metadata":{"finalizers":["a","b"]}}"#,
                r#"{"metadata":{"finalizers":["b","c"]}}"#,
                r#"{"metadata":{"finalizers":["a","b","c"]}}"#,
            ),
            (
                r#"{"metadata":{"finalizers":["a","b"]}}"#,
                r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a","x"]}}"#,
                r#"{"metadata":{"finalizers":["b"]}}"#,
            ),
            (
                r#"{"metadata":{"finalizers":["a","b"]}}"#,
                r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"finalizers":["c"]}}"#,
                r#"{"metadata":{"finalizers":["c","b"]}}"#,
            ),
            (
                r#"{"metadata":{"name":"p"}}"#,
                r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"]}}"#,
                r#"{"metadata":{"name":"p"}}"#,
            ),
            (
                r#"{"metadata":{"finalizers":["a","b","c"]}}"#,
                r#"{"metadata":{"$setElementOrder/finalizers":["c","a","b"]}}"#,
                r#"{"metadata":{"finalizers":["c","a","b"]}}"#,
            ),
            (
                r#"{"metadata":{"ownerReferences":[{"uid":"1","name":"a"},{"uid":"2","name":"b"}]}}"#,
                r#"{"metadata":{"ownerReferences":[{"uid":"2","controller":true},{"uid":"3","name":"c"}]}}"#,
                r#"{"metadata":{"ownerReferences":[{"uid":"1","name":"a"},{"uid":"2","name":"b","controller":true},{"uid":"3","name":"c"}]}}"#,
            ),
            (
                r#"{"metadata":{"ownerReferences":[{"uid":"1","name":"a"},{"uid":"2","name":"b"}]}}"#,
                r#"{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"1"}]}}"#,
                r#"{"metadata":{"ownerReferences":[{"uid":"2","name":"b"}]}}"#,
            ),
        ],
    );
}

#[test]
fn containers_merge_by_name() {
    World::new().check(
        "core.v1.Pod",
        &[
            (
                r#"{"spec":{"containers":[{"name":"a","image":"1"},{"name":"b","image":"1"}]}}"#,
                r#"{"spec":{"containers":[{"name":"b","image":"2"},{"name":"c","image":"3"}]}}"#,
                r#"{"spec":{"containers":[{"name":"a","image":"1"},{"name":"b","image":"2"},{"name":"c","image":"3"}]}}"#,
            ),
            // The patch's order counts for what it names; what it does not name stays before its old successor.
            (
                r#"{"spec":{"containers":[{"name":"a"},{"name":"b"},{"name":"c"}]}}"#,
                r#"{"spec":{"containers":[{"name":"c","image":"x"},{"name":"b","image":"y"}]}}"#,
                r#"{"spec":{"containers":[{"name":"a"},{"name":"c","image":"x"},{"name":"b","image":"y"}]}}"#,
            ),
            (
                r#"{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}"#,
                r#"{"spec":{"containers":[{"name":"n"},{"name":"b","image":"y"}]}}"#,
                r#"{"spec":{"containers":[{"name":"n"},{"name":"a"},{"name":"b","image":"y"}]}}"#,
            ),
            (
                r#"{"spec":{"containers":[{"name":"a","image":"1"},{"name":"b"}]}}"#,
                r#"{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}"#,
                r#"{"spec":{"containers":[{"name":"b"}]}}"#,
            ),
            (
                r#"{"spec":{"containers":[{"name":"a","image":"1"},{"name":"b"}]}}"#,
                r#"{"spec":{"containers":[{"$patch":"replace"},{"name":"z"}]}}"#,
                r#"{"spec":{"containers":[{"name":"z"}]}}"#,
            ),
            (
                r#"{"spec":{"containers":[{"name":"a","image":"1","command":["x"]}]}}"#,
                r#"{"spec":{"containers":[{"name":"a","$patch":"replace","image":"2"}]}}"#,
                r#"{"spec":{"containers":[]}}"#,
            ),
            (
                r#"{"spec":{"containers":[{"name":"a","image":"1","command":["x","y"],"args":["z"]}]}}"#,
                r#"{"spec":{"containers":[{"name":"a","command":["n"],"args":null}]}}"#,
                r#"{"spec":{"containers":[{"name":"a","image":"1","command":["n"]}]}}"#,
            ),
            (
                r#"{"spec":{"containers":[{"name":"a","env":[{"name":"X","value":"1"},{"name":"Y","value":"2"}],"ports":[{"containerPort":80,"name":"web"},{"containerPort":53,"protocol":"UDP"}]}]}}"#,
                r#"{"spec":{"containers":[{"name":"a","env":[{"name":"Y","value":"3"},{"name":"Z","value":"4"}],"ports":[{"containerPort":80,"hostPort":8080},{"containerPort":53,"$patch":"delete"}]}]}}"#,
                r#"{"spec":{"containers":[{"name":"a","env":[{"name":"X","value":"1"},{"name":"Y","value":"3"},{"name":"Z","value":"4"}],"ports":[{"containerPort":80,"name":"web","hostPort":8080}]}]}}"#,
            ),
            // Two ports of one number: the first takes the change, both stay.
            (
                r#"{"spec":{"containers":[{"name":"a","ports":[{"containerPort":53,"protocol":"TCP"},{"containerPort":53,"protocol":"UDP"}]}]}}"#,
                r#"{"spec":{"containers":[{"name":"a","ports":[{"containerPort":53,"name":"dns"}]}]}}"#,
                r#"{"spec":{"containers":[{"name":"a","ports":[{"containerPort":53,"protocol":"TCP","name":"dns"},{"containerPort":53,"protocol":"UDP"}]}]}}"#,
            ),
            // What is new comes before what the patch does not name. One given twice in the patch merges with itself.
            (
                r#"{"spec":{"containers":[{"name":"a"}]}}"#,
                r#"{"spec":{"containers":[{"name":"b","image":"1"},{"name":"b","command":["x"]}]}}"#,
                r#"{"spec":{"containers":[{"name":"b","image":"1","command":["x"]},{"name":"a"}]}}"#,
            ),
        ],
    );
}

#[test]
fn atomic_lists_are_replaced() {
    World::new().check(
        "core.v1.Pod",
        &[
            (
                r#"{"spec":{"tolerations":[{"key":"a"},{"key":"b"}]}}"#,
                r#"{"spec":{"tolerations":[{"key":"c"}]}}"#,
                r#"{"spec":{"tolerations":[{"key":"c"}]}}"#,
            ),
            (
                r#"{"spec":{"tolerations":[{"key":"a"}]}}"#,
                r#"{"spec":{"tolerations":[]}}"#,
                r#"{"spec":{"tolerations":[]}}"#,
            ),
            (
                r#"{"spec":{"nodeSelector":{"a":"b"}}}"#,
                r#"{"spec":{"nodeSelector":{"c":"d"}}}"#,
                r#"{"spec":{"nodeSelector":{"a":"b","c":"d"}}}"#,
            ),
        ],
    );
}

#[test]
fn retain_keys_removes_what_it_does_not_list() {
    let world = World::new();
    world.check(
        "core.v1.Pod",
        &[(
            r#"{"spec":{"volumes":[{"name":"v","emptyDir":{}},{"name":"w","emptyDir":{}}]}}"#,
            r#"{"spec":{"volumes":[{"$retainKeys":["name","configMap"],"name":"v","configMap":{"name":"c"}}]}}"#,
            r#"{"spec":{"volumes":[{"name":"v","configMap":{"name":"c"}},{"name":"w","emptyDir":{}}]}}"#,
        )],
    );
    world.check(
        "apps.v1.Deployment",
        &[(
            r#"{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}}"#,
            r#"{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}"#,
            r#"{"spec":{"strategy":{"type":"Recreate"}}}"#,
        )],
    );
    for patch in [
        r#"{"spec":{"strategy":{"$retainKeys":["type"],"rollingUpdate":{"maxSurge":2}}}}"#,
        r#"{"spec":{"strategy":{"$retainKeys":"type","type":"Recreate"}}}"#,
    ] {
        let doc = r#"{"spec":{"strategy":{"type":"RollingUpdate"}}}"#;
        world.refuses(
            "apps.v1.Deployment",
            doc,
            patch,
            Status::bad_request("invalid patch format of retainKeys"),
        );
    }
}

#[test]
fn set_element_order_orders_what_it_names() {
    World::new().check(
        "core.v1.Pod",
        &[
            (
                r#"{"spec":{"containers":[{"name":"a"},{"name":"b"},{"name":"c"}]}}"#,
                r#"{"spec":{"$setElementOrder/containers":[{"name":"c"},{"name":"a"}],"containers":[{"name":"a","image":"x"}]}}"#,
                r#"{"spec":{"containers":[{"name":"b"},{"name":"c"},{"name":"a","image":"x"}]}}"#,
            ),
            // kubectl apply's form: a new element, a change, a deletion, the order.
            (
                r#"{"spec":{"containers":[{"name":"a"},{"name":"b"},{"name":"server"}]}}"#,
                r#"{"spec":{"$setElementOrder/containers":[{"name":"n"},{"name":"b"}],"containers":[{"name":"n"},{"name":"b","image":"x"},{"name":"a","$patch":"delete"}]}}"#,
                r#"{"spec":{"containers":[{"name":"n"},{"name":"b","image":"x"},{"name":"server"}]}}"#,
            ),
            (
                r#"{"spec":{}}"#,
                r#"{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"b"},{"name":"a"},{"name":"x","$patch":"delete"}]}}"#,
                r#"{"spec":{"containers":[{"name":"b"},{"name":"a"}]}}"#,
            ),
            (r#"{"spec":{}}"#, r#"{"spec":{"$setElementOrder/containers":[{"name":"b"}]}}"#, r#"{"spec":{}}"#),
            (
                r#"{"metadata":{"finalizers":["a","b","c"]}}"#,
                r#"{"metadata":{"$setElementOrder/finalizers":["d","b"],"finalizers":["d"]}}"#,
                r#"{"metadata":{"finalizers":["d","a","b","c"]}}"#,
            ),
        ],
    );
}

#[test]
fn wrong_patches_are_refused_in_upstreams_words() {
    let world = World::new();
    let pod = r#"{"metadata":{"finalizers":["a"]},"spec":{"containers":[{"name":"a"}]}}"#;
    let unknown = |words: &str| Status::unknown(words);
    for (patch, want) in [
        (
            "[]",
            Status::bad_request("json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ),
        (
            r#"{"spec":{"containers":[{"image":"x"}]}}"#,
            unknown("map: map[image:x] does not contain declared merge key: name"),
        ),
        (
            r#"{"spec":{"containers":[{"$patch":"delete"}]}}"#,
            unknown("map: map[$patch:delete] does not contain declared merge key: name"),
        ),
        (
            r#"{"spec":{"containers":[{"name":"a","$patch":"merge"}]}}"#,
            unknown("merging lists cannot yet be specified in the patch"),
        ),
        (
            r#"{"spec":{"containers":[{"name":"a","$patch":"erase"}]}}"#,
            unknown("unknown patch type: erase in map: map[$patch:erase name:a]"),
        ),
        (r#"{"spec":{"$patch":"merge"}}"#, unknown("unknown patch type: merge in map: map[$patch:merge]")),
        (r#"{"$patch":1}"#, unknown("unknown patch type: %!s(int64=1) in map: map[$patch:1]")),
        (
            r#"{"spec":{"containers":["x"]}}"#,
            unknown("list element types are not identical: [[map[name:a]] [x]]"),
        ),
        (
            r#"{"metadata":{"$deleteFromPrimitiveList":["a"]}}"#,
            Status::bad_request("invalid patch format of primitive list"),
        ),
        (
            r#"{"spec":{"$setElementOrder":[]}}"#,
            Status::bad_request("invalid patch format of setElementOrder list"),
        ),
        (
            r#"{"spec":{"$setElementOrder/containers":"a"}}"#,
            unknown("expected a []interface {}, but received a string"),
        ),
        (
            r#"{"spec":{"$setElementOrder/cats":[{"name":"a"}]}}"#,
            unknown("unable to find api field in struct PodSpec for the json field \"cats\""),
        ),
        (
            r#"{"spec":{"$setElementOrder/containers":[{"name":"x"}],"containers":[{"name":"a"}]}}"#,
            unknown(
                "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:x]]\n",
            ),
        ),
        (
            r#"{"spec":{"$setElementOrder/containers":[{"image":"x"}],"containers":[{"name":"a"}]}}"#,
            unknown("map: map[image:x] does not contain declared merge key: name"),
        ),
        (
            r#"{"metadata":{"finalizers":[["a"]]}}"#,
            unknown("list element types are not identical: [[a] [[a]]]"),
        ),
    ] {
        world.refuses("core.v1.Pod", pod, patch, want);
    }
    let lists = r#"{"metadata":{"finalizers":[["a"]]}}"#;
    world.refuses("core.v1.Pod", lists, lists, Status::unprocessable());
}

#[test]
fn other_kinds_merge_by_their_keys() {
    let world = World::new();
    world.check(
        "core.v1.Service",
        &[(
            r#"{"spec":{"ports":[{"port":80,"targetPort":"web"},{"port":443}]}}"#,
            r#"{"spec":{"ports":[{"port":80,"targetPort":8080}]}}"#,
            r#"{"spec":{"ports":[{"port":80,"targetPort":8080},{"port":443}]}}"#,
        )],
    );
    world.check(
        "core.v1.Pod",
        &[(
            r#"{"status":{"conditions":[{"type":"Ready","status":"False"},{"type":"Initialized","status":"True"}]}}"#,
            r#"{"status":{"$setElementOrder/conditions":[{"type":"Ready"}],"conditions":[{"type":"Ready","status":"True"}]}}"#,
            r#"{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Initialized","status":"True"}]}}"#,
        )],
    );
    // Arbitrary JSON merges as JSON.
    world.check(
        "apps.v1.ControllerRevision",
        &[(
            r#"{"data":{"spec":{"a":{"x":1},"l":[1]}}}"#,
            r#"{"data":{"spec":{"a":{"y":2,"x":null},"l":[2]}}}"#,
            r#"{"data":{"spec":{"a":{"y":2},"l":[2]}}}"#,
        )],
    );
}

/// Each would take minutes if elements with one merge key cost what they merge into each time.
#[test]
fn elements_with_one_merge_key_do_not_multiply() {
    let world = World::new();
    let join = |count: usize, of: &dyn Fn(usize) -> String| (0..count).map(of).collect::<Vec<_>>().join(",");
    let many = 30_000;
    let members = join(many, &|i| format!(r#""a{i}":1"#));
    let variables = join(many, &|i| format!(r#"{{"name":"e{i}"}}"#));
    let pod = |list: &str, elements: String| format!(r#"{{"spec":{{"{list}":[{elements}]}}}}"#);
    let labels = |of: &dyn Fn(usize) -> String| format!(r#"{{"name":"c","x":{{{}}}}}"#, join(many, of));
    for patch in [
        // A map with many members, opened again by each.
        pod(
            "volumes",
            format!(r#"{{"name":"v",{members}}},{}"#, join(many, &|_| r#"{"name":"v","z":1}"#.to_owned())),
        ),
        // A map inside it.
        pod(
            "containers",
            format!(
                "{},{}",
                labels(&|i| format!(r#""a{i}":1"#)),
                join(many, &|_| r#"{"name":"c","x":{"z":1}}"#.to_owned())
            ),
        ),
        // A list inside it.
        pod(
            "containers",
            format!(
                r#"{{"name":"c","env":[{variables}]}},{}"#,
                join(many, &|_| r#"{"name":"c","env":[{"name":"e0"}]}"#.to_owned())
            ),
        ),
    ] {
        let doc = r#"{"spec":{"containers":[{"name":"c"}],"volumes":[{"name":"v"}]}}"#;
        let refused = world.patch("core.v1.Pod", doc, &patch).map(drop).unwrap_err();
        assert_eq!(refused.code, 413);
        assert!(
            refused.message.ends_with("have the same merge key; send it in parts"),
            "{}",
            refused.message
        );
    }
    // As many as a body can hold are nothing where what they merge into is small.
    for element in [r#"{"name":"v","$retainKeys":["name"]}"#, r#"{"name":"v","emptyDir":{}}"#] {
        let patch = pod("volumes", join(many, &|_| element.to_owned()));
        world.patch("core.v1.Pod", r#"{"spec":{"volumes":[{"name":"v"}]}}"#, &patch).unwrap();
    }
}

/// Showing what is left of a patch costs no more than applying it.
#[test]
fn the_rest_of_a_patch_is_shown_without_multiplying() {
    let world = World::new();
    let join = |count: usize, of: &dyn Fn(usize) -> String| (0..count).map(of).collect::<Vec<_>>().join(",");
    let members = join(30_000, &|i| format!(r#""a{i}":1"#));
    let doc = json(&format!(r#"{{"spec":{{"volumes":[{{"name":"v",{members}}}]}}}}"#));
    let again = join(30_000, &|_| r#"{"name":"v","z":1}"#.to_owned());
    let patch = format!(r#"{{"spec":{{"volumes":[{{"name":"v","$retainKeys":["name"]}},{again}]}}}}"#);
    let schema = world.catalog.schema();
    let rest = super::rest(schema, schema.find("core.v1.Pod").unwrap(), &doc, &json(&patch));
    let volumes = rest.at(&["spec", "volumes"]).unwrap().as_list().unwrap();
    assert_eq!(volumes.len(), 30_001);
    assert_eq!(volumes[0], json(r#"{"name":"v"}"#));
}

#[test]
fn a_large_patch_of_a_large_list_is_quick() {
    let world = World::new();
    let many = |from: usize| {
        let env =
            (from..from + 20_000).map(|i| format!(r#"{{"name":"n{i}"}}"#)).collect::<Vec<_>>().join(",");
        format!(r#"{{"spec":{{"containers":[{{"name":"a","env":[{env}]}}]}}}}"#)
    };
    let doc = world.patch("core.v1.Pod", &many(0), &many(10_000)).unwrap();
    let env = doc.at(&["spec", "containers"]).unwrap().as_list().unwrap()[0].get("env").unwrap();
    assert_eq!(env.as_list().unwrap().len(), 30_000);
}
