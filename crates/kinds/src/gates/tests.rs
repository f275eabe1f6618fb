//! Every disabled feature of every kind: a field is dropped unless the stored object uses it.

use catalog::{Catalog, Storage};
use object::{Map, Value};

use super::{DisabledFeature, OF_POD_SPECS, drop_disabled, holds};
use crate::kind_of;

/// Every place a feature has fields in: storage, the path to where its fields begin, the feature.
fn places(catalog: &Catalog) -> Vec<(&Storage, Vec<&str>, &DisabledFeature)> {
    let mut places = Vec::new();
    for storage in catalog.storages() {
        let storage: &Storage = storage;
        let kind = kind_of(storage);
        if let Some(path) = kind.pod_spec_path() {
            places.extend(OF_POD_SPECS.iter().map(|feature| (storage, path.to_vec(), feature)));
        }
        places.extend(kind.disabled_features().iter().map(|feature| (storage, Vec::new(), feature)));
    }
    places
}

/// An object that has something at this path, and `beside` in the same struct.
fn with(path: &str, beside: Option<&'static str>) -> Value {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let below = |rest: Option<&str>| rest.map_or_else(|| Value::from("used"), |rest| with(rest, beside));
    let mut map = Map::default();
    if let Some(name) = first.strip_suffix("[]") {
        map.set(name.to_owned(), vec![below(rest)]);
    } else if let Some(name) = first.strip_suffix("{}") {
        let mut one = Map::default();
        one.set("key", below(rest));
        map.set(name.to_owned(), Value::Map(one));
    } else {
        map.set(first.to_owned(), below(rest));
    }
    if rest.is_none()
        && let Some(beside) = beside
    {
        map.set(beside, "stays");
    }
    Value::Map(map)
}

fn whole(place: &[&str], field: &str) -> String {
    place.iter().map(|p| format!("{p}.")).collect::<String>() + field
}

/// The schema knows the field, so that a feature cannot outlive it.
fn assert_served(catalog: &Catalog, storage: &Storage, path: &str) {
    let mut value = with(path, None);
    let mut strict = object::normalise::Strict::on();
    // Only the names count; "used" has the wrong type nearly everywhere.
    let _ = object::normalise::normalise(catalog.schema(), storage.ty, &mut value, &mut strict);
    let unknown = strict.into_messages();
    assert!(unknown.is_empty(), "{} {path}: {unknown:?}", storage.kind);
}

#[test]
fn a_field_of_a_disabled_feature_is_dropped_unless_it_is_in_use() {
    let catalog = Catalog::builtin();
    let places = places(&catalog);
    assert!(places.len() >= 40, "{}", places.len());
    for (storage, place, feature) in &places {
        for field in feature.fields {
            let path = whole(place, field);
            assert_served(&catalog, storage, &path);
            let what = format!("{} {path} ({})", storage.kind, feature.gate);
            let used = with(&path, None);

            let mut new = with(&path, Some("other"));
            drop_disabled(kind_of(storage), &mut new, None);
            assert!(!holds(&new, &path), "{what} is dropped on create");
            let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
            assert!(holds(&new, &format!("{parent}.other")), "{what}: what stands beside it stays");

            let mut new = used.clone();
            drop_disabled(kind_of(storage), &mut new, Some(&Value::map()));
            assert!(!holds(&new, &path), "{what} is dropped on update when it is new");

            // Any field of the feature keeps all of them.
            for other in feature.fields {
                let mut new = used.clone();
                drop_disabled(kind_of(storage), &mut new, Some(&with(&whole(place, other), None)));
                assert_eq!(new, used, "{what} is kept on update when {other} was in use");
            }
        }
    }
}

#[test]
fn an_emptied_lifecycle_goes_with_its_signal() {
    let catalog = Catalog::builtin();
    let pods = catalog.storages().iter().find(|s| s.plural == "pods").unwrap();
    let mut pod = with("spec.containers[].lifecycle.stopSignal", None);
    drop_disabled(kind_of(pods), &mut pod, None);
    assert_eq!(pod, crate::tests::json(r#"{"spec":{"containers":[{}]}}"#));
    let mut pod = crate::tests::json(r#"{"spec":{"containers":[{"lifecycle":{}}]}}"#);
    let before = pod.clone();
    drop_disabled(kind_of(pods), &mut pod, None);
    assert_eq!(pod, before, "an empty one that was sent stays");
}
