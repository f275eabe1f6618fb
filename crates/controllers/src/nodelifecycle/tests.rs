//! Who is well, who is given up, and what is written about it.

use std::collections::BTreeMap;

use object::Value;

use super::health::{Grace, Health, Moment, Verdict, judge};
use super::node::*;
use super::plan::{self, Mend, NodeAction, swapped};
use super::zones::{Mode, ZoneState, Zones, state_of};

const GRACE: Grace = Grace { startup_ms: 60_000, ms: 50_000 };

fn moment(seconds: i64) -> Moment {
    let unix_seconds = 1_767_225_600 + seconds;
    Moment { ms: seconds * 1000, unix_seconds, text: object::time::format_seconds(unix_seconds) }
}

fn node(ready: Option<&str>, beat: &str) -> NodeFacts {
    let condition = |status: &str| Condition {
        kind: "Ready".to_owned(),
        status: status.to_owned(),
        heartbeat: beat.to_owned(),
        ..Condition::default()
    };
    NodeFacts {
        name: "n".to_owned(),
        created: 1_767_225_600,
        created_text: "2026-01-01T00:00:00Z".to_owned(),
        conditions: ready.map(condition).into_iter().collect(),
        ..NodeFacts::default()
    }
}

#[test]
fn a_node_is_unreachable_after_fifty_seconds_without_heartbeat_or_lease() {
    let look =
        |health: Option<&Health>, node: &NodeFacts, lease, at| judge(health, node, lease, &moment(at), GRACE);
    let (health, verdict) = look(None, &node(Some("True"), "1"), Some((1, 0)), 0);
    assert_eq!((verdict.current.as_deref(), verdict.write), (Some("True"), None));
    // A lease keeps it alive, then a heartbeat does.
    let (health, _) = look(Some(&health), &node(Some("True"), "1"), Some((2, 0)), 40);
    let (health, verdict) = look(Some(&health), &node(Some("True"), "2"), Some((2, 0)), 80);
    assert_eq!(verdict.write, None);
    let (health, verdict) = look(Some(&health), &node(Some("True"), "2"), Some((2, 0)), 130);
    assert_eq!(verdict.write, None, "fifty seconds are still allowed");
    let (mut health, verdict) = look(Some(&health), &node(Some("True"), "2"), Some((2, 0)), 131);
    assert_eq!((verdict.observed.as_str(), verdict.current.as_deref()), ("True", Some("Unknown")));
    let written = verdict.write.expect("conditions");
    let said: Vec<_> = written.iter().map(|c| (c.kind.as_str(), c.reason.as_str())).collect();
    assert_eq!(
        said,
        [
            ("Ready", "NodeStatusUnknown"),
            ("MemoryPressure", "NodeStatusNeverUpdated"),
            ("DiskPressure", "NodeStatusNeverUpdated"),
            ("PIDPressure", "NodeStatusNeverUpdated")
        ]
    );
    assert_eq!(written[0].heartbeat, "2", "when it last spoke is not ours to change");
    assert_eq!(written[0].transition, moment(131).text);
    // Written once; not again while it stays unreachable.
    health.wrote(&written);
    let unreachable = NodeFacts { conditions: written, ..node(None, "") };
    let (health, verdict) = look(Some(&health), &unreachable, Some((2, 0)), 200);
    assert_eq!((verdict.observed.as_str(), verdict.write), ("Unknown", None));
    let (_, verdict) = look(Some(&health), &node(Some("True"), "3"), Some((2, 0)), 205);
    assert_eq!((verdict.current.as_deref(), verdict.write), (Some("True"), None));
}

#[test]
fn a_node_without_heartbeat_has_a_minute_from_its_creation() {
    let mute = node(None, "");
    let (health, verdict) = judge(None, &mute, None, &moment(10), GRACE);
    assert_eq!((verdict.observed.as_str(), verdict.current, verdict.write), ("Unknown", None, None));
    let (mut health, verdict) = judge(Some(&health), &mute, None, &moment(61), GRACE);
    let written = verdict.write.expect("conditions");
    assert!(written.iter().all(|c| c.reason == "NodeStatusNeverUpdated" && c.heartbeat == mute.created_text));
    // Its own words are not taken for the node's.
    health.wrote(&written);
    let unreachable = NodeFacts { conditions: written, ..mute };
    let (health, _) = judge(Some(&health), &unreachable, None, &moment(62), GRACE);
    assert_eq!(health.seen_ms, 0);
}

#[test]
fn taints_follow_conditions() {
    let mut node = node(Some("Unknown"), "");
    node.conditions.push(Condition {
        kind: "DiskPressure".into(),
        status: "True".into(),
        ..Condition::default()
    });
    node.conditions.push(Condition {
        kind: "PIDPressure".into(),
        status: "False".into(),
        ..Condition::default()
    });
    node.unschedulable = true;
    node.taints = vec![
        Taint::new("node.kubernetes.io/not-ready", NO_SCHEDULE),
        Taint::new("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
        Taint::new("node.kubernetes.io/memory-pressure", NO_EXECUTE),
        Taint::new("mine", NO_SCHEDULE),
    ];
    let Mend { add, remove, labels } = plan::mend(&node, &|_| None);
    assert!(labels.is_empty());
    let keys = |taints: &[Taint]| taints.iter().map(|t| t.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&add), ["node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable"]);
    assert_eq!(keys(&remove), ["node.kubernetes.io/not-ready"]);
    let new = swapped(&node.taints, &add, &remove, "now").expect("a change");
    assert_eq!(new.len(), 5);
    assert_eq!(new[4].time_added.as_deref(), Some("now"));
    assert_eq!(swapped(&new, &add, &remove, "later"), None, "what is there keeps its time");
}

#[test]
fn the_zone_state_depends_on_its_ready_nodes() {
    let of = |well: usize, ill: usize| {
        let ready: Vec<bool> = (0..well + ill).map(|i| i < well).collect();
        state_of(&ready, 0.55)
    };
    assert_eq!(of(3, 0), ZoneState::Normal);
    assert_eq!(of(0, 1), ZoneState::FullDisruption);
    assert_eq!(of(1, 2), ZoneState::Normal, "two are too few to speak of a disruption");
    assert_eq!(of(2, 3), ZoneState::PartialDisruption);
    assert_eq!(of(5, 5), ZoneState::Normal);
    assert_eq!(of(9, 11), ZoneState::PartialDisruption);
}

fn conditions(zones: &[(&str, usize, usize)]) -> BTreeMap<String, Vec<bool>> {
    let list = |well: usize, ill: usize| (0..well + ill).map(|i| i < well).collect();
    zones.iter().map(|(zone, well, ill)| ((*zone).to_owned(), list(*well, *ill))).collect()
}

#[test]
fn nodes_are_evicted_one_per_ten_seconds_and_zone() {
    let mut zones = Zones::default();
    zones.judge(&conditions(&[("x", 9, 3), ("y", 3, 1)]), 0);
    for (zone, node) in [("x", "a"), ("x", "b"), ("x", "c"), ("y", "d")] {
        zones.mark(zone, node, true, 0);
    }
    let mut taken = |now| std::iter::from_fn(|| zones.next(now)).map(|(_, node)| node).collect::<Vec<_>>();
    assert_eq!(taken(0), ["a", "d"]);
    assert!(taken(9_999).is_empty());
    assert_eq!(taken(10_000), ["b"]);
    assert!(taken(12_000).is_empty());
    assert_eq!(taken(40_000), ["c"], "tokens are not saved up");
    zones.mark("x", "a", false, 40_000);
    assert_eq!(zones.wait(40_000), None, "who was given up is not marked again");
    zones.mark("x", "a", true, 40_000);
    assert_eq!(zones.wait(40_000), Some(10_000));
    zones.unmark("x", "a");
    assert_eq!(zones.wait(40_000), None);
}

#[test]
fn a_small_partially_disrupted_zone_is_not_evicted_and_a_large_one_slowly() {
    let mut zones = Zones::default();
    assert_eq!(
        zones.judge(&conditions(&[("small", 2, 8), ("large", 20, 80), ("well", 1, 0)]), 0),
        Mode::Usual
    );
    zones.mark("small", "a", true, 0);
    zones.mark("large", "b", true, 0);
    zones.mark("large", "c", true, 0);
    let mut taken = |now| std::iter::from_fn(|| zones.next(now)).map(|(_, node)| node).collect::<Vec<_>>();
    assert_eq!(taken(0), ["b"]);
    assert!(taken(99_000).is_empty());
    assert_eq!(taken(100_000), ["c"]);
    assert!(taken(10_000_000).is_empty());
    // Well again: the usual pace, beginning with nothing in store.
    zones.judge(&conditions(&[("small", 9, 1), ("large", 100, 0), ("well", 1, 0)]), 10_000_000);
    assert_eq!(zones.next(10_000_000), None);
    assert_eq!(zones.next(10_010_000), Some(("small".to_owned(), "a".to_owned())));
}

#[test]
fn when_all_zones_are_down_nothing_is_evicted_until_one_is_back() {
    let mut zones = Zones::default();
    assert_eq!(zones.judge(&conditions(&[("x", 2, 0), ("y", 2, 0)]), 0), Mode::Usual);
    // One zone down, the other well: the zone is lost at the usual pace.
    assert_eq!(zones.judge(&conditions(&[("x", 0, 2), ("y", 2, 0)]), 1), Mode::Usual);
    assert_eq!(zones.state("x"), Some(ZoneState::FullDisruption));
    assert_eq!(zones.judge(&conditions(&[("x", 0, 2), ("y", 0, 2)]), 2), Mode::AllDown);
    zones.mark("x", "a", true, 3);
    assert_eq!((zones.next(1_000_000), zones.wait(1_000_000)), (None, None));
    assert_eq!(zones.judge(&conditions(&[("x", 0, 2), ("y", 0, 2)]), 4), Mode::Usual, "said once");
    assert_eq!(zones.judge(&conditions(&[("x", 0, 2), ("y", 1, 1)]), 1_000_000), Mode::Back);
    assert_eq!(zones.next(1_010_000), Some(("x".to_owned(), "a".to_owned())));
    // A zone without nodes says nothing about the others.
    assert_eq!(zones.judge(&conditions(&[("y", 0, 2)]), 1_020_000), Mode::AllDown);
    assert_eq!(zones.judge(&conditions(&[]), 1_030_000), Mode::Usual);
}

#[test]
fn the_actions_for_a_node_follow_from_its_state() {
    let verdict = |observed: &str, current: Option<&str>| Verdict {
        observed: observed.to_owned(),
        current: current.map(str::to_owned),
        write: None,
    };
    let tainted =
        |key: Option<&str>| key.map(|key| Taint::new(key, NO_EXECUTE)).into_iter().collect::<Vec<_>>();
    let swap = |add, remove| NodeAction::Swap { add, remove };
    let give_up = |again| NodeAction::GiveUp { again };
    let (f, t, u) = ("False", "True", "Unknown");
    for (name, observed, current, taint, retry, wanted) in [
        ("not known yet", u, None, None, true, vec![]),
        ("well", t, Some(t), None, false, vec![NodeAction::Reachable]),
        ("well again", t, Some(t), Some(UNREACHABLE), true, vec![NodeAction::Reachable]),
        (
            "became unreachable",
            t,
            Some(u),
            None,
            false,
            vec![give_up(true), NodeAction::Tell, NodeAction::MarkPods],
        ),
        ("unreachable, and given up", u, Some(u), Some(UNREACHABLE), false, vec![give_up(false)]),
        (
            "unreachable, and pods are left",
            u,
            Some(u),
            Some(UNREACHABLE),
            true,
            vec![give_up(false), NodeAction::MarkPods],
        ),
        ("back, but not ready", f, Some(f), Some(UNREACHABLE), false, vec![swap(NOT_READY, UNREACHABLE)]),
        ("unreachable after that", f, Some(u), Some(NOT_READY), false, vec![swap(UNREACHABLE, NOT_READY)]),
        ("not ready", f, Some(f), None, false, vec![give_up(true)]),
    ] {
        let facts = NodeFacts { taints: tainted(taint), ..node(Some(observed), "") };
        assert_eq!(plan::act(&facts, &verdict(observed, current), retry), wanted, "{name}");
    }
    let (ill, well) = (verdict(t, Some(u)), verdict(t, Some(t)));
    let mut nodes = [node(None, ""), node(None, ""), node(None, "")];
    nodes[1].zone = "z".to_owned();
    nodes[2].excluded = true;
    let zones = plan::ready_by_zone(nodes.iter().zip([&well, &ill, &ill]));
    assert_eq!(zones, [(String::new(), vec![true]), ("z".to_owned(), vec![false])].into());
}

#[test]
fn deprecated_labels_repeat_the_stable_ones() {
    let labels = |pairs: &'static [(&str, &str)]| {
        let find = move |name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1);
        plan::mend(&node(Some("True"), ""), &find).labels
    };
    assert!(labels(&[]).is_empty());
    assert!(labels(&[("kubernetes.io/os", "linux"), ("beta.kubernetes.io/os", "linux")]).is_empty());
    let lacks = labels(&[
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "arm64"),
        ("beta.kubernetes.io/arch", "x"),
    ]);
    let repaired =
        [("beta.kubernetes.io/os", "linux".to_owned()), ("beta.kubernetes.io/arch", "arm64".to_owned())];
    assert_eq!(lacks, repaired);
}

#[test]
fn added_and_removed_nodes_are_found() {
    let known: BTreeMap<String, ()> = ["a", "b"].map(|name| (name.to_owned(), ())).into();
    let moves = plan::moves(&known, &["b", "c"]);
    assert_eq!((moves.came, moves.went), (vec!["c"], vec!["a".to_owned()]));
}

#[test]
fn a_condition_keeps_unknown_fields() {
    let json = |text: &str| codec::json::parse(text.as_bytes(), None).unwrap();
    let old = json(r#"{"status":{"conditions":[{"type":"Ready","status":"True","extra":"x"}],"phase":"p"}}"#);
    let unknown = Condition { kind: "Ready".into(), status: "Unknown".into(), ..Condition::default() };
    let new = plan::with_conditions(old, &[unknown]);
    let wanted = r#"{"status":{"conditions":[{"type":"Ready","status":"Unknown","extra":"x"}],"phase":"p"}}"#;
    assert_eq!(new, json(wanted));
    let patch = plan::not_ready("u", "now".to_owned());
    assert_eq!(patch.str_at(&["metadata", "uid"]), Some("u"));
    assert_eq!(patch.at(&["status", "conditions"]).and_then(Value::as_list).map(<[_]>::len), Some(1));
}
