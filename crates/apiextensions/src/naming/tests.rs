use object::Value;

use super::plan;
use crate::tests::{AT, LATER, json, text};

fn definition(names: &str, status: &str) -> Value {
    json(&format!(r#"{{"spec":{{"group":"g.io","names":{names}}},"status":{status}}}"#))
}

const FOO: &str = r#"{"plural":"foos","singular":"foo","shortNames":["f"],"kind":"Foo","listKind":"FooList","categories":["all"]}"#;
const FRESH: &str = r#"{"storedVersions":["v1"],"conditions":[],"acceptedNames":{"plural":"","kind":""}}"#;

/// `type=status:reason:message` of each condition.
fn conditions(status: &Value) -> Vec<String> {
    let list = status.get("conditions").and_then(Value::as_list).unwrap_or_default();
    list.iter()
        .map(|c| {
            let text = |name| c.str_at(&[name]).unwrap_or_default();
            format!("{}={}:{}:{}", text("type"), text("status"), text("reason"), text("message"))
        })
        .collect()
}

#[test]
fn free_names_are_accepted_and_the_definition_installs() {
    let new = definition(FOO, FRESH);
    let status = plan(&new, [], AT).expect("a new status");
    assert_eq!(
        text(&status),
        concat!(
            r#"{"storedVersions":["v1"],"conditions":[{"type":"NamesAccepted","lastTransitionTime":"2026-01-01T00:00:00Z","status":"True","#,
            r#""reason":"NoConflicts","message":"no conflicts found"},{"type":"Established","lastTransitionTime":"2026-01-01T00:00:00Z","#,
            r#""status":"False","reason":"Installing","message":"the initial names have been accepted"}],"#,
            r#""acceptedNames":{"plural":"foos","kind":"Foo","singular":"foo","shortNames":["f"],"listKind":"FooList","categories":["all"]}}"#
        )
    );
    let accepted = definition(FOO, &text(&status));
    assert_eq!(plan(&accepted, [], LATER), None, "nothing more to do");
}

#[test]
fn a_name_of_another_definition_of_the_group_is_a_conflict() {
    let other = |names: &str| definition("{}", &format!(r#"{{"acceptedNames":{names}}}"#));
    let not_established = "Established=False:NotAccepted:not all names are accepted";
    for (taken, conflict, missing) in [
        (r#"{"plural":"foos"}"#, r#"PluralConflict:"foos" is already in use"#, "plural"),
        // Names of resources are one space: a plural takes a singular's.
        (r#"{"plural":"foo"}"#, r#"SingularConflict:"foo" is already in use"#, "singular"),
        (r#"{"shortNames":["x","f"]}"#, r#"ShortNamesConflict:"f" is already in use"#, "shortNames"),
        (r#"{"kind":"Foo"}"#, r#"KindConflict:"Foo" is already in use"#, "kind"),
        (r#"{"kind":"FooList"}"#, r#"ListKindConflict:"FooList" is already in use"#, "listKind"),
    ] {
        let other = other(taken);
        let status = plan(&definition(FOO, FRESH), [&other], AT).expect("a new status");
        assert_eq!(
            conditions(&status),
            [format!("NamesAccepted=False:{conflict}"), not_established.to_owned()]
        );
        let accepted = status.get("acceptedNames").and_then(Value::as_map).expect("names");
        let given = |name| accepted.get(name).is_some_and(|v| v.as_str() != Some(""));
        for name in ["plural", "singular", "shortNames", "kind", "listKind", "categories"] {
            assert_eq!(given(name), name != missing, "{taken}: {name}");
        }
        // The same again changes nothing; when the name is free, it is taken.
        let waiting = definition(FOO, &text(&status));
        assert_eq!(plan(&waiting, [&other], LATER), None);
        let freed = plan(&waiting, [], LATER).expect("a new status");
        assert_eq!(
            conditions(&freed),
            [
                "NamesAccepted=True:NoConflicts:no conflicts found",
                "Established=False:Installing:the initial names have been accepted"
            ]
        );
    }
}

#[test]
fn kinds_and_resources_and_groups_are_apart() {
    let other =
        json(r#"{"spec":{"group":"g.io"},"status":{"acceptedNames":{"plural":"Foo","kind":"foos"}}}"#);
    let elsewhere =
        json(r#"{"spec":{"group":"h.io"},"status":{"acceptedNames":{"plural":"foos","kind":"Foo"}}}"#);
    let status = plan(&definition(FOO, FRESH), [&other, &elsewhere], AT).expect("a new status");
    assert!(conditions(&status)[0].starts_with("NamesAccepted=True"));
}

#[test]
fn several_short_names_in_conflict_are_all_said() {
    let other =
        definition("{}", r#"{"acceptedNames":{"plural":"bars","kind":"Bar","shortNames":["f","g","h"]}}"#);
    let names = r#"{"plural":"foos","kind":"Foo","shortNames":["f","g","f","x"]}"#;
    let status = plan(&definition(names, FRESH), [&other], AT).expect("a new status");
    let message = r#"["f" is already in use, "g" is already in use]"#;
    assert_eq!(conditions(&status)[0], format!("NamesAccepted=False:ShortNamesConflict:{message}"));
}

#[test]
fn an_established_definition_stays_so_when_its_new_names_conflict() {
    let other = definition("{}", r#"{"acceptedNames":{"plural":"bars","kind":"Bar","singular":"bar"}}"#);
    let status = r#"{"acceptedNames":{"plural":"foos","kind":"Foo","singular":"foo"},"conditions":[
        {"type":"NamesAccepted","status":"True","reason":"NoConflicts","message":"no conflicts found","lastTransitionTime":"2020-01-01T00:00:00Z","observedGeneration":4},
        {"type":"Established","status":"True","reason":"InitialNamesAccepted","message":"the initial names have been accepted","lastTransitionTime":"2020-01-01T00:00:00Z"}]}"#;
    let renamed = definition(r#"{"plural":"foos","kind":"Foo","singular":"bar"}"#, status);
    let status = plan(&renamed, [&other], AT).expect("a new status");
    assert_eq!(status.str_at(&["acceptedNames", "singular"]), Some("foo"), "the old name is kept");
    assert_eq!(
        conditions(&status),
        [
            r#"NamesAccepted=False:SingularConflict:"bar" is already in use"#,
            "Established=True:InitialNamesAccepted:the initial names have been accepted"
        ]
    );
    let list = status.get("conditions").and_then(Value::as_list).expect("conditions");
    let times: Vec<Option<&str>> = list.iter().map(|c| c.str_at(&["lastTransitionTime"])).collect();
    assert_eq!(times, [Some("2026-01-01T00:00:00Z"), Some("2020-01-01T00:00:00Z")]);
    assert_eq!(list[0].get("observedGeneration"), Some(&Value::Int(4)), "kept, as upstream keeps it");
}

#[test]
fn names_that_are_given_up_go() {
    let status = r#"{"acceptedNames":{"plural":"foos","kind":"Foo","shortNames":["f"],"categories":["all"]},"conditions":[]}"#;
    let status =
        plan(&definition(r#"{"plural":"foos","kind":"Foo"}"#, status), [], AT).expect("a new status");
    assert_eq!(status.get("acceptedNames").map(text), Some(r#"{"plural":"foos","kind":"Foo"}"#.to_owned()));
}
