//! The index: the best volume, and what is looked at to find it.

use std::sync::Arc;

use kinds::persistentvolumeclaim::view::ClaimView;
use object::Obj;
use runtime::Key;

use super::{claim_tree, object, volume_tree};
use crate::persistentvolume::index::{VolumeIndex, Wanted};
use crate::persistentvolume::waiting::WaitingClaims;
use crate::volumes::volume_view;

fn volume(name: &str, spec: &str) -> Arc<Obj> {
    object("persistentvolumes", &volume_tree(name, spec, "Available"), 5)
}

fn index(volumes: &[(&str, &str)]) -> VolumeIndex {
    let mut index = VolumeIndex::default();
    for (name, spec) in volumes {
        index.put(&volume(name, spec));
    }
    index
}

fn best(index: &VolumeIndex, spec: &str, delayed: bool) -> Option<String> {
    let view = ClaimView::read(&claim_tree(spec, ""));
    let wanted = Wanted { namespace: "default", name: "c", uid: "u1", view: &view, delayed };
    index.find(&wanted).unwrap().map(|obj| obj.name().to_owned())
}

#[test]
fn the_smallest_volume_with_the_fewest_modes_is_best() {
    let both = "accessModes: [ReadWriteOnce, ReadWriteMany]";
    let all = index(&[
        ("small", "capacity: {storage: 512Mi}"),
        ("wide", both),
        ("large", "capacity: {storage: 10Gi}"),
        ("larger", "capacity: {storage: 20Gi}"),
        ("classy", "storageClassName: fast"),
        ("block", "volumeMode: Block"),
        ("gold", "volumeAttributesClassName: gold"),
    ]);
    assert_eq!(best(&all, "", false).as_deref(), Some("large"), "a smaller one with more modes comes later");
    assert_eq!(best(&all, "accessModes: [ReadWriteMany]", false).as_deref(), Some("wide"));
    assert_eq!(best(&all, "resources: {requests: {storage: 11Gi}}", false).as_deref(), Some("larger"));
    assert_eq!(best(&all, "resources: {requests: {storage: 21Gi}}", false), None);
    assert_eq!(best(&all, "storageClassName: fast", false).as_deref(), Some("classy"));
    assert_eq!(best(&all, "volumeMode: Block", false).as_deref(), Some("block"));
    assert_eq!(best(&all, "volumeAttributesClassName: gold", false).as_deref(), Some("gold"));
    assert_eq!(best(&all, "", true), None, "it waits for its first consumer");
}

#[test]
fn a_reserved_volume_comes_before_free_ones_whatever_its_class_and_labels() {
    let reserved =
        "storageClassName: other, capacity: {storage: 100Gi}, claimRef: {namespace: default, name: c}";
    let all = index(&[("a", ""), ("reserved", reserved)]);
    for delayed in [false, true] {
        assert_eq!(best(&all, "selector: {matchLabels: {a: b}}", delayed).as_deref(), Some("reserved"));
    }
    let of_another = index(&[("v", "claimRef: {namespace: default, name: c, uid: older}")]);
    assert_eq!(best(&of_another, "", false), None);
    let too_small = index(&[("v", "capacity: {storage: 1Mi}, claimRef: {namespace: default, name: c}")]);
    assert_eq!(best(&too_small, "", false), None);
}

#[test]
fn labels_are_selected() {
    let mut tree = volume_tree("v", "", "Available");
    tree.map_at(&["metadata", "labels"]).set("disk", "ssd");
    let mut all = index(&[("a", "")]);
    all.put(&object("persistentvolumes", &tree, 5));
    assert_eq!(best(&all, "selector: {matchLabels: {disk: ssd}}", false).as_deref(), Some("v"));
    assert_eq!(best(&all, "selector: {matchLabels: {disk: hdd}}", false), None);
}

#[test]
fn a_taken_volume_is_nobody_elses_until_it_is_given_back() {
    let mut all = index(&[("a", ""), ("b", "")]);
    all.take("a");
    assert_eq!(best(&all, "", false).as_deref(), Some("b"));
    all.put(&object("persistentvolumes", &volume_tree("a", "", "Available"), 6));
    assert_eq!(best(&all, "", false).as_deref(), Some("b"), "a newer version of it changes nothing");
    assert!(all.give_back("a"));
    assert_eq!(best(&all, "", false).as_deref(), Some("a"));
    let bound = volume_tree("a", "claimRef: {namespace: default, name: d, uid: x}", "Bound");
    assert!(!all.put(&object("persistentvolumes", &bound, 7)));
    assert!(!all.put(&volume("a", "")), "an older version changes nothing");
    assert_eq!(best(&all, "", false).as_deref(), Some("b"));
    assert_eq!(all.reserved_for("default/d"), ["a".into()]);
    all.remove(&object("persistentvolumes", &bound, 8));
    assert!(all.reserved_for("default/d").is_empty() && all.get("a").is_none());
}

#[test]
fn a_volume_wakes_the_largest_claim_it_fits() {
    let view = |spec: &str| Arc::new(ClaimView::read(&claim_tree(spec, "")));
    let mut waiting = WaitingClaims::default();
    let key = |name: &str| Key::new("default", name);
    waiting.put(&key("small"), &view("resources: {requests: {storage: 1Mi}}"));
    waiting.put(&key("fits"), &view(""));
    waiting.put(&key("picky"), &view("selector: {matchLabels: {a: b}}"));
    waiting.put(&key("large"), &view("resources: {requests: {storage: 1Ti}}"));
    waiting.put(&key("classy"), &view("storageClassName: fast"));
    let volume = volume("v", "");
    let mut next = || waiting.take_for(&volume, &volume_view(&volume));
    assert_eq!([next(), next(), next()], [Some(key("fits")), Some(key("small")), None], "each once");
    assert_eq!(waiting.of_class("fast"), [key("classy")]);
    assert_eq!(waiting.without_class().len(), 2);
    waiting.remove(&key("classy"));
    assert!(waiting.of_class("fast").is_empty());
}
