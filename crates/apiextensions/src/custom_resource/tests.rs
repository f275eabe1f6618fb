//! Rules of a schema on their way through the strategy.

use std::cell::RefCell;

use catalog::Catalog;
use kinds::Context;

use crate::definition::Served;
use crate::tests::{AT, json};

const DEFINITION: &str = r#"{"metadata":{"name":"foos.example.com","uid":"u","generation":1},
    "spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"foos","singular":"foo","kind":"Foo","listKind":"FooList"},
        "versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","required":["spec"],
            "properties":{"spec":{"type":"object","properties":{
                "a":{"type":"integer","x-kubernetes-validations":[{"rule":"self > 5"},{"rule":"self >= oldSelf"}]},
                "b":{"type":"string"}}}}}}}]},
    "status":{"acceptedNames":{"plural":"foos","singular":"foo","kind":"Foo","listKind":"FooList"},
        "conditions":[{"type":"Established","status":"True"}]}}"#;

fn foo(spec: &str) -> object::Value {
    json(&format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Foo","metadata":{{"name":"x","namespace":"n","uid":"1"}},"spec":{spec}}}"#
    ))
}

/// The errors and warnings of a create, or of an update.
fn told(new: &object::Value, old: Option<&object::Value>) -> (Vec<String>, Vec<String>) {
    let catalog = Catalog::builtin();
    let crd = json(DEFINITION);
    let definition = Served::of(&crd).unwrap().resource_def(&catalog).unwrap();
    let storage = definition.storage.as_deref().unwrap();
    let warnings = RefCell::default();
    let ctx = Context { warnings: &warnings, ..Context::plain(storage, AT) };
    let errors = kinds::kind_of(storage).validate(storage, new, old, &ctx);
    let errors = errors.iter().map(ToString::to_string).filter(|error| !error.starts_with("metadata"));
    (errors.collect(), warnings.take())
}

#[test]
fn rules_are_run_on_creates_and_updates() {
    let none = Vec::<String>::new();
    assert_eq!(told(&foo(r#"{"a":6}"#), None), (none.clone(), none.clone()));
    let broken = "spec.a: Invalid value: 5: failed rule: self > 5".to_owned();
    assert_eq!(told(&foo(r#"{"a":5}"#), None), (vec![broken.clone()], none.clone()));
    let less = "spec.a: Invalid value: 7: failed rule: self >= oldSelf".to_owned();
    assert_eq!(told(&foo(r#"{"a":7}"#), Some(&foo(r#"{"a":8}"#))), (vec![less], none.clone()));
    // What the update does not touch may stay wrong.
    assert_eq!(told(&foo(r#"{"a":5,"b":"new"}"#), Some(&foo(r#"{"a":5}"#))), (none, vec![broken]));
}

#[test]
fn rules_are_not_asked_about_objects_of_wrong_shape() {
    let (errors, _) = told(&foo(r#"{"a":"text"}"#), None);
    assert_eq!(
        errors,
        [
            r#"spec.a: Invalid value: "string": spec.a in body must be of type integer: "string""#,
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; \
             correct the existing errors to complete validation"
        ]
    );
}
