//! What follows from files that come, change and go.

use super::*;

const NOW: i64 = 1_800_000_000;

fn pod(name: &str, uid: &str, image: &str) -> Value {
    let text = format!(
        "{{metadata: {{namespace: default, name: {name}, uid: {uid}, annotations: {{kubernetes.io/config.hash: {uid}, kubernetes.io/config.seen: {image}}}}}, spec: {{terminationGracePeriodSeconds: 7, containers: [{{name: c, image: {image}}}]}}}}"
    );
    runtime::parse(&text).unwrap()
}

fn key(name: &str) -> Key {
    Key::new("default", name)
}

fn image(pods: &StaticPods, name: &str) -> Option<String> {
    let pod = pods.get(&key(name))?;
    Some(Pod::read(&pod.tree).containers[0].image.to_owned())
}

fn woken(pods: &StaticPods) -> Arc<Mutex<Vec<String>>> {
    let woken = Arc::new(Mutex::new(Vec::new()));
    let log = woken.clone();
    pods.wake_by(Arc::new(move |key| log.lock().push(key.name().to_owned())));
    woken
}

#[test]
fn a_source_that_said_nothing_leaves_open_whose_a_container_is() {
    let pods = StaticPods::new(["file"]);
    assert!(!pods.seen_all());
    pods.set("file", Vec::new(), NOW);
    assert!(pods.seen_all());
}

#[test]
fn a_pod_whose_file_is_gone_ends_with_its_own_grace_and_is_known_until_then() {
    let pods = StaticPods::new(["file"]);
    let woken = woken(&pods);
    pods.set("file", vec![pod("a", "u1", "x"), pod("b", "u2", "x")], NOW);
    pods.set("file", vec![pod("b", "u2", "x")], NOW);
    assert_eq!(std::mem::take(&mut *woken.lock()), ["a", "b", "a"]);
    let ending = pods.get(&key("a")).unwrap();
    assert_eq!(Pod::read(&ending.tree).deletion, Some(7));
    pods.set("file", vec![pod("b", "u2", "x")], NOW + 1);
    assert!(woken.lock().is_empty(), "nothing new");
    pods.over(&key("a"), ending.uid());
    assert!(!pods.contains(&key("a")) && pods.contains(&key("b")));
}

#[test]
fn a_file_that_changed_is_another_pod_which_begins_when_the_one_before_is_over() {
    let pods = StaticPods::new(["file"]);
    pods.set("file", vec![pod("a", "u1", "one")], NOW);
    pods.set("file", vec![pod("a", "u2", "two")], NOW);
    // Changed again while the first one ends: the last one counts.
    pods.set("file", vec![pod("a", "u3", "three")], NOW);
    assert_eq!(image(&pods, "a").as_deref(), Some("one"));
    pods.over(&key("a"), short_uid("u2"));
    assert_eq!(image(&pods, "a").as_deref(), Some("one"), "the second never began");
    pods.over(&key("a"), short_uid("u1"));
    let now = pods.get(&key("a")).unwrap();
    assert_eq!((now.after, now.is_ending()), (Some(short_uid("u1")), false));
    assert_eq!(image(&pods, "a").as_deref(), Some("three"));
}

#[test]
fn a_file_that_comes_back_as_it_was_begins_anew() {
    let pods = StaticPods::new(["file"]);
    pods.set("file", vec![pod("a", "u1", "x")], NOW);
    pods.set("file", Vec::new(), NOW);
    pods.set("file", vec![pod("a", "u1", "x")], NOW);
    assert!(pods.get(&key("a")).unwrap().is_ending());
    pods.over(&key("a"), short_uid("u1"));
    let now = pods.get(&key("a")).unwrap();
    assert_eq!((now.after, now.is_ending()), (Some(short_uid("u1")), false));
}

#[test]
fn a_pod_that_names_its_uid_changes_in_place_and_keeps_its_status() {
    let pods = StaticPods::new(["file"]);
    let woken = woken(&pods);
    pods.set("file", vec![pod("a", "u1", "one")], NOW);
    pods.set_status(&key("a"), short_uid("u1"), &runtime::parse("{phase: Running}").unwrap());
    pods.set("file", vec![pod("a", "u1", "two")], NOW);
    assert_eq!(woken.lock().len(), 2);
    let now = pods.get(&key("a")).unwrap();
    assert_eq!(now.tree.str_at(&["status", "phase"]), Some("Running"));
    assert_eq!(now.tree.str_at(&["metadata", "annotations", SEEN]), Some("one"), "seen when it came");
    assert_eq!(image(&pods, "a").as_deref(), Some("two"));
}

#[test]
fn of_two_files_with_one_name_the_first_counts() {
    let pods = StaticPods::new(["file"]);
    pods.set("file", vec![pod("a", "u1", "one"), pod("a", "u2", "two")], NOW);
    assert_eq!(image(&pods, "a").as_deref(), Some("one"));
    assert_eq!(pods.list().len(), 1);
}
