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
fn cases_have_names_of_their_own_and_are_the_same_every_time() {
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
