//! Words of nodes that come and go.

use super::Words;
use crate::node::Node;
use crate::node_selector::Required;
use crate::testing::{node, rng, tree};

fn a_node(name: usize, labels: &str, taints: &str) -> Node {
    Node::parse(&node(&format!("n{name}"), labels, &format!(r#""taints":[{taints}]"#)))
}

#[test]
fn unused_words_release_their_ids() {
    let (mut words, mut next) = (Words::default(), rng(3));
    (0..20).for_each(|_| words.grow());
    for step in 0..5_000 {
        let ix = next(20) as u32;
        let labels = format!(r#""zone":"z{}","stamp-{step}":"s{step}""#, next(3));
        let taints = format!(r#"{{"key":"k{step}","effect":"NoSchedule"}}"#);
        let changed = a_node(ix as usize, &labels, &taints);
        words.set_node(ix, (next(8) > 0).then_some(&changed));
    }
    let (used, places) = words.sizes();
    // Of each node a key, a value, its name and a set of taints; and what they share.
    assert!(used[0] <= 22 && used[1] <= 43 && used[2] <= 20, "{used:?}");
    assert!(places[0] <= 24 && places[1] <= 46 && places[2] <= 21, "{places:?}");
    for ix in 0..20 {
        words.set_node(ix, None);
    }
    assert_eq!(words.sizes().0, [0, 0, 0]);
}

#[test]
fn the_epoch_tells_when_nodes_must_be_chosen_again() {
    let mut words = Words::default();
    (0..2).for_each(|_| words.grow());
    let taint = r#"{"key":"k","effect":"NoSchedule"}"#;
    assert!(words.set_node(0, Some(&a_node(0, r#""disk":"ssd""#, taint))));
    let selector = Required::parse(Some(&tree(r#"{"nodeSelector":{"disk":"hdd"}}"#)));
    let before = words.epoch();
    assert!(!selector.choose(&words).has(0));
    assert!(!words.set_node(0, Some(&a_node(0, r#""disk":"ssd""#, taint))), "nothing new");
    assert_eq!(words.epoch(), before);
    assert!(words.set_node(1, Some(&a_node(1, r#""disk":"hdd""#, ""))));
    assert_ne!(words.epoch(), before, "a value that was not there");
    assert!(selector.choose(&words).has(1));
    assert!(!selector.choose(&words).has(0));
}
