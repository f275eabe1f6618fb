//! What must hold for every case there is.

use std::collections::BTreeSet;

use catalog::Catalog;

use crate::generate::all;
use crate::kinds;

#[test]
fn every_stored_resource_has_a_smallest_object() {
    let catalog = Catalog::builtin();
    let samples = kinds::minimal();
    for resource in catalog.resources().iter().filter(|r| r.storage.is_some()) {
        let name = format!("{} {}", resource.api_version(), resource.plural);
        assert!(samples.iter().any(|s| s.resource == name), "data/minimal.jsonl has no {name}");
    }
    for sample in samples.iter().chain(&kinds::rich()) {
        assert!(sample.resource(&catalog).is_some(), "nothing serves {}", sample.resource);
    }
}

#[test]
fn cases_have_unique_names_and_are_deterministic() {
    let catalog = Catalog::builtin();
    let (first, second) = (all(&catalog), all(&catalog));
    let mut names = BTreeSet::new();
    for (a, b) in first.iter().zip(&second) {
        for (step, again) in a.steps.iter().zip(&b.steps) {
            let name = format!("{} / {}", a.name, step.name);
            assert_eq!(step.fingerprint(), again.fingerprint(), "{name}");
            assert!(names.insert(name.clone()), "two cases are called {name:?}");
        }
    }
    assert!(names.len() > 2000, "only {} cases", names.len());
    println!("{} cases", names.len());
}

#[test]
fn cases_about_admission_have_unique_names_and_are_deterministic() {
    let (first, second) = (crate::admission_scenarios(), crate::admission_scenarios());
    let mut names = BTreeSet::new();
    for (a, b) in first.iter().zip(&second) {
        for (step, again) in a.steps.iter().zip(&b.steps) {
            let name = format!("{} / {}", a.name, step.name);
            assert_eq!(step.fingerprint(), again.fingerprint(), "{name}");
            if let Some(body) =
                step.body.as_ref().filter(|_| step.content_type.as_deref() != Some("text/plain"))
            {
                assert!(crate::case::parse(body).is_some(), "{name}: {body}");
            }
            assert!(names.insert(name.clone()), "two cases are called {name:?}");
        }
    }
    assert!(names.len() > 2500, "only {} cases", names.len());
    println!("{} cases", names.len());
}

#[test]
fn permitted_differences_are_normalised() {
    let request = crate::Request {
        method: "POST",
        path: "/api/v1/namespaces/dftests-1/services".to_owned(),
        accept: String::new(),
        content_type: None,
        body: Some(
            r#"{"metadata":{"generateName":"web-"},"spec":{"ports":[{"nodePort":31000}]}}"#.to_owned(),
        ),
    };
    let normaliser = crate::normalise::Normaliser::new("dftests", &request);
    let answer = crate::case::parse(
        r#"{"spec":{"clusterIP":"10.96.3.4","ports":[{"nodePort":31000},{"nodePort":31001}]},"metadata":{"name":"web-x2x4z",
        "generateName":"web-","uid":"5a5f7f3e-0000-4000-8000-000000000000","resourceVersion":"17","managedFields":[
        {"manager":"z","operation":"Update","time":"2026-05-05T01:02:03Z"},
        {"manager":"b","operation":"Apply","fieldsV1":{"k:{\"name\":\"dftests-1\"}":{}}}],
        "namespace":"dftests-1","creationTimestamp":"2026-05-05T01:02:03Z","annotations":{"sent":"2020-01-01T00:00:00Z"}}}"#,
    )
    .unwrap();
    assert_eq!(
        crate::case::text_of(&normaliser.value(answer)),
        r#"{"metadata":{"annotations":{"sent":"2020-01-01T00:00:00Z"},"creationTimestamp":"TIME","generateName":"web-","managedFields":[{"fieldsV1":{"k:{\"name\":\"RUN-1\"}":{}},"manager":"b","operation":"Apply"},{"manager":"z","operation":"Update","time":"TIME"}],"name":"web-RANDOM","namespace":"RUN-1","resourceVersion":"VERSION","uid":"UID"},"spec":{"clusterIP":"ALLOTTED","ports":[{"nodePort":31000},{"nodePort":30000}]}}"#
    );
    let message = r#"Invalid value: "{\"a\":1,\"managedFields\":[{\"manager\":\"b\",\"k:[\\\"x\\\"]\":1},{\"manager\":\"a\"}],\"b\":2}": no"#;
    assert_eq!(
        normaliser.text(message),
        r#"Invalid value: "{\"a\":1,\"managedFields\":[{\"manager\":\"a\"},{\"manager\":\"b\",\"k:[\\\"x\\\"]\":1}],\"b\":2}": no"#
    );
}

#[test]
fn an_autoscaler_has_the_same_metrics_whether_it_was_stored_or_not() {
    let asked =
        |object: &str| crate::case::parse(&format!(r#"{{"object":{object},"oldObject":null}}"#)).unwrap();
    let shown = |object: &str| crate::case::text_of(&crate::normalise::with_current_metrics(asked(object)));
    let v2 = r#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","status":"#;
    let stored = shown(&format!(r#"{v2}{{"currentMetrics":null,"desiredReplicas":0}}}}"#));
    assert_eq!(shown(&format!(r#"{v2}{{"desiredReplicas":0}}}}"#)), stored);
    let other = r#"{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","status":{}}"#;
    assert_eq!(shown(other), crate::case::text_of(&asked(other)));
}
