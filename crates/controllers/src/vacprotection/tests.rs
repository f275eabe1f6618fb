//! Classes that are named, and those that are not any more.

use super::plan::{classes_of, left};

#[test]
fn a_claim_names_the_class_it_wants_has_and_is_given() {
    let text = "{spec: {volumeAttributesClassName: gold}, status: {currentVolumeAttributesClassName: silver, \
        modifyVolumeStatus: {targetVolumeAttributesClassName: gold, status: Pending}}}";
    let claim = codec::yaml::parse(text.as_bytes()).unwrap();
    assert_eq!(classes_of(&claim), ["gold", "silver"]);
    let empty = codec::yaml::parse(b"{spec: {volumeAttributesClassName: ''}}").unwrap();
    assert!(classes_of(&empty).is_empty());
    assert_eq!(left(classes_of(&claim), &["gold".to_owned()]), ["silver"]);
}
