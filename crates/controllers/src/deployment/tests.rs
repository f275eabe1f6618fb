use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use codec::json;
use object::Value;

use super::create::{set_name, template_hash};
use super::plan::{Plan, SetWrite, plan};
use super::revision::{
    DESIRED_REPLICAS, MAX_REPLICAS, REVISION, REVISION_HISTORY, ROLLBACK_TO, annotate_new, is_own, revision,
};
use super::spec::{Deployment, Rolling};
use super::status::{AVAILABLE, PROGRESSING, Status, condition, reason};
use crate::replicaset::{REPLICA_FAILURE, Set, SetStatus};

const NOW: i64 = 1_767_225_600;
const NOW_NANOS: i128 = NOW as i128 * 1_000_000_000;

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes(), None).expect("JSON")
}

fn template(image: &str) -> Value {
    tree(&format!(
        r#"{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{{"containers":[{{"name":"c","image":"{image}"}}]}}}}"#
    ))
}

/// A Deployment that rolls out `new`.
fn deployment(replicas: i64, surge: i64, unavailable: i64) -> Deployment {
    let mut d = Deployment::read(&tree(
        r#"{"metadata":{"name":"web","generation":1},"spec":{"selector":{"matchLabels":{"app":"web"}},
        "strategy":{"type":"RollingUpdate"},"progressDeadlineSeconds":600,"revisionHistoryLimit":10}}"#,
    ));
    d.replicas = replicas;
    d.rolling = Some(Rolling { surge, unavailable });
    d.template = template("new");
    d.bare_template = template("new");
    d
}

/// A ReplicaSet of an image, `available` of its pods being so.
fn set(image: &str, age: i64, replicas: i64, available: i64) -> Set {
    let mut set = Set::read(&tree("{}"));
    set.name = format!("web-{image}");
    set.uid = set.name.clone();
    set.created = NOW - age;
    set.generation = 1;
    set.replicas = replicas;
    set.template = template(image);
    set.status = SetStatus {
        replicas,
        ready: available,
        available,
        terminating: Some(0),
        observed_generation: 1,
        ..SetStatus::default()
    };
    set
}

/// A set as the controller would have left it under that Deployment.
fn known(d: &Deployment, number: i64, mut set: Set) -> Set {
    set.annotations.insert(REVISION.to_owned(), number.to_string());
    set.annotations.insert(DESIRED_REPLICAS.to_owned(), d.replicas.to_string());
    set.annotations.insert(MAX_REPLICAS.to_owned(), d.max_replicas().to_string());
    set
}

fn planned(d: &Deployment, sets: &[Set]) -> Plan {
    let sets: Vec<Arc<Set>> = sets.iter().cloned().map(Arc::new).collect();
    plan(d, &sets, &|_| false, NOW_NANOS)
}

/// New sizes by place; a set that is made comes as place 99.
fn sizes(plan: &Plan) -> Vec<(usize, i64)> {
    let size = |step: &SetWrite| match step {
        SetWrite::Create { replicas, .. } => Some((99, *replicas)),
        SetWrite::Update(update) => Some((update.at, update.replicas)),
        SetWrite::Delete { .. } => None,
    };
    plan.steps.iter().filter_map(size).collect()
}

fn why(status: &Status) -> (&str, &str) {
    let condition = status.condition(PROGRESSING).expect("a condition");
    (&condition.status, &condition.reason)
}

#[test]
fn percentages_round_up_for_surge_and_down_for_unavailable() {
    let limits = |surge: &str, unavailable: &str, replicas: i64| {
        let limits = tree(&format!(r#"{{"maxSurge":{surge},"maxUnavailable":{unavailable}}}"#));
        let rolling = Rolling::read(Some(&limits), replicas);
        (rolling.surge, rolling.unavailable)
    };
    assert_eq!(limits("\"25%\"", "\"25%\"", 10), (3, 2));
    assert_eq!(limits("\"25%\"", "\"25%\"", 1), (1, 0));
    assert_eq!(limits("3", "2", 10), (3, 2));
    // Both come to nothing: one pod may be missing, or nothing would ever move.
    assert_eq!(limits("0", "\"1%\"", 2), (0, 1));
    assert_eq!(limits("\"0%\"", "\"25%\"", 3), (0, 1));
    let mut d = deployment(2, 1, 5);
    assert_eq!(d.max_unavailable(), 2, "never more than there are");
    d.replicas = 0;
    assert_eq!(d.max_unavailable(), 0);
    d.rolling = None;
    assert_eq!((d.max_surge(), d.max_unavailable()), (0, 0));
}

#[test]
fn the_first_replica_set_has_all_replicas_and_revision_one() {
    let mut d = deployment(3, 1, 0);
    d.annotations = BTreeMap::from([
        ("cause".to_owned(), "x".to_owned()),
        ("kubectl.kubernetes.io/last-applied-configuration".to_owned(), "{}".to_owned()),
    ]);
    d.min_ready_seconds = 5;
    let plan = planned(&d, &[]);
    let [SetWrite::Create { name, body, replicas: 3 }] = plan.steps.as_slice() else { panic!("{plan:?}") };
    let hash = template_hash(&d.template, None);
    assert_eq!(*name, format!("web-{hash}"));
    for labels in [
        &["metadata", "labels"][..],
        &["spec", "selector", "matchLabels"],
        &["spec", "template", "metadata", "labels"],
    ] {
        let labels = body.at(labels).expect("labels");
        assert_eq!(labels.str_at(&["pod-template-hash"]), Some(hash.as_str()));
        assert_eq!(labels.str_at(&["app"]), Some("web"));
    }
    let annotations = body.at(&["metadata", "annotations"]).expect("annotations");
    let expected = [(DESIRED_REPLICAS, "3"), (MAX_REPLICAS, "4"), (REVISION, "1"), ("cause", "x")];
    assert_eq!(annotations.as_map().map(object::Map::len), Some(expected.len()));
    for (name, value) in expected {
        assert_eq!(annotations.str_at(&[name]), Some(value), "{name}");
    }
    assert_eq!(body.at(&["spec", "minReadySeconds"]), Some(&Value::Int(5)));
    assert_eq!(plan.revision.as_deref(), Some("1"));
    assert_eq!(why(&plan.status), ("True", reason::CREATED));
    let message = &plan.status.condition(PROGRESSING).expect("a condition").message;
    assert_eq!(*message, format!("Created new replica set \"web-{hash}\""));
    assert_eq!(plan.next, Some(Duration::from_secs(601)));
}

#[test]
fn hashes_are_of_the_template_and_of_collisions_and_safe_in_names() {
    let one = template_hash(&template("a"), None);
    assert_eq!(one, template_hash(&template("a"), None));
    assert_ne!(one, template_hash(&template("b"), None));
    assert_ne!(one, template_hash(&template("a"), Some(1)));
    assert_ne!(template_hash(&template("a"), Some(1)), template_hash(&template("a"), Some(2)));
    assert!(one.len() <= 10 && one.bytes().all(|c| b"bcdfghjklmnpqrstvwxz2456789".contains(&c)));
    assert_eq!(set_name("web", "abc"), "web-abc");
    assert_eq!(set_name(&"x".repeat(253), "abc").len(), 253);
}

#[test]
fn the_oldest_replica_set_of_the_template_is_the_new_one() {
    let d = deployment(2, 1, 0);
    let sets = [known(&d, 1, set("new", 20, 2, 2)), known(&d, 2, set("new", 10, 0, 0))];
    let plan = planned(&d, &sets);
    // It becomes number 3, since another had number 2.
    assert_eq!(plan.revision.as_deref(), Some("3"));
    let [SetWrite::Update(update)] = plan.steps.as_slice() else { panic!("{plan:?}") };
    assert_eq!((update.at, update.annotations[REVISION_HISTORY].as_str()), (0, "1"));
}

#[test]
fn a_rollout_goes_up_by_the_surge_then_down_by_what_is_available() {
    let d = deployment(10, 3, 2);
    let old = |replicas, available| known(&d, 1, set("old", 100, replicas, available));
    let new = |replicas, available| known(&d, 2, set("new", 10, replicas, available));
    // Made with the surge; at once as many old pods go as may be missing.
    assert_eq!(sizes(&planned(&d, &[old(10, 10)])), [(99, 3), (0, 8)]);
    // None of the new runs yet, and there is room for two more.
    assert_eq!(sizes(&planned(&d, &[old(8, 8), new(3, 0)])), [(1, 5)]);
    // No room and no new pod available: wait.
    assert_eq!(sizes(&planned(&d, &[old(8, 8), new(5, 0)])), []);
    // Three new pods run: three old ones go.
    assert_eq!(sizes(&planned(&d, &[old(8, 8), new(5, 3)])), [(0, 5)]);
    assert_eq!(sizes(&planned(&d, &[old(5, 5), new(5, 5)])), [(1, 8)]);
    assert_eq!(sizes(&planned(&d, &[old(2, 2), new(10, 8)])), [(0, 0)]);
    assert_eq!(sizes(&planned(&d, &[old(0, 0), new(10, 10)])), []);
}

#[test]
fn old_pods_that_do_not_run_go_first() {
    let d = deployment(10, 3, 2);
    // Two of the older set's and one of the younger's do not run.
    let sets = [
        known(&d, 1, set("older", 200, 5, 3)),
        known(&d, 2, set("old", 100, 5, 4)),
        known(&d, 3, set("new", 10, 3, 0)),
    ];
    // 13 there, 8 must stay, 3 new ones do not run: 2 may go, and both do not run. Of 7 available none may go.
    assert_eq!(sizes(&planned(&d, &sets)), [(0, 3)]);
    // With none of the new made yet, five may go.
    let sets = [known(&d, 1, set("older", 200, 8, 2)), known(&d, 2, set("new", 10, 5, 5))];
    // Three that do not run, by the count of pods; none that runs, since only seven do.
    assert_eq!(sizes(&planned(&d, &sets)), [(0, 3)]);
}

#[test]
fn an_oversized_new_replica_set_shrinks() {
    let mut d = deployment(3, 1, 0);
    let sets = [known(&d, 1, set("new", 10, 5, 5))];
    d.replicas = 3;
    assert_eq!(sizes(&planned(&d, &sets)), [(0, 3)]);
}

#[test]
fn without_surge_old_pods_go_first() {
    let d = deployment(2, 0, 1);
    let old = |replicas, available| known(&d, 1, set("old", 100, replicas, available));
    let new = |replicas, available| known(&d, 2, set("new", 10, replicas, available));
    assert_eq!(sizes(&planned(&d, &[old(2, 2)])), [(99, 0), (0, 1)]);
    assert_eq!(sizes(&planned(&d, &[old(1, 1), new(0, 0)])), [(1, 1)]);
    assert_eq!(sizes(&planned(&d, &[old(1, 1), new(1, 0)])), []);
    assert_eq!(sizes(&planned(&d, &[old(1, 1), new(1, 1)])), [(0, 0)]);
}

#[test]
fn scaling_gives_the_only_active_set_all_and_notes_it() {
    let before = deployment(3, 1, 0);
    let mut d = deployment(5, 1, 0);
    d.status = Status { replicas: 3, ..Status::default() };
    let plan =
        planned(&d, &[known(&before, 1, set("old", 100, 0, 0)), known(&before, 2, set("new", 10, 3, 3))]);
    let [SetWrite::Update(update)] = plan.steps.as_slice() else { panic!("{plan:?}") };
    assert_eq!((update.at, update.replicas), (1, 5));
    assert_eq!(
        (update.annotations[DESIRED_REPLICAS].as_str(), update.annotations[MAX_REPLICAS].as_str()),
        ("5", "6")
    );
}

#[test]
fn scaling_in_a_rollout_keeps_proportions() {
    let before = deployment(10, 3, 2);
    let sets = [known(&before, 1, set("old", 100, 8, 8)), known(&before, 2, set("new", 10, 5, 0))];
    // 13 become 18: of 8 and 5, 11 and 7.
    assert_eq!(sizes(&planned(&deployment(15, 3, 2), &sets)), [(0, 11), (1, 7)]);
    // Down to 5 + 3.
    assert_eq!(sizes(&planned(&deployment(5, 3, 2), &sets)), [(0, 5), (1, 3)]);
    assert_eq!(sizes(&planned(&deployment(0, 3, 2), &sets)), [(0, 0), (1, 0)]);
}

#[test]
fn among_equals_newer_sets_grow_and_older_ones_shrink() {
    let before = deployment(10, 0, 2);
    let sets = [known(&before, 1, set("a", 300, 5, 5)), known(&before, 2, set("new", 10, 5, 0))];
    // One more, rounded to one each: the newer comes first and takes it.
    assert_eq!(sizes(&planned(&deployment(11, 0, 2), &sets)), [(1, 6), (0, 5)]);
    // One less: the older comes first. 4.5 rounds to 5, so rounding leaves one, which the first gives.
    assert_eq!(sizes(&planned(&deployment(9, 0, 2), &sets)), [(0, 4), (1, 5)]);
}

#[test]
fn a_saturated_new_set_leaves_nothing_to_old_ones() {
    let before = deployment(4, 1, 0);
    let d = deployment(5, 1, 0);
    // Adopted with two replicas while the new one has all it needs.
    let sets = [known(&before, 1, set("adopted", 100, 2, 2)), known(&d, 2, set("new", 10, 5, 5))];
    assert_eq!(sizes(&planned(&d, &sets)), [(0, 0)]);
}

#[test]
fn a_paused_deployment_is_scaled_but_not_rolled_out() {
    let mut d = deployment(4, 1, 0);
    d.paused = true;
    let plan = planned(&d, &[known(&deployment(2, 1, 0), 1, set("old", 100, 2, 2))]);
    assert_eq!(sizes(&plan), [(0, 4)]);
    assert_eq!(why(&plan.status), ("Unknown", reason::PAUSED));
    assert_eq!(plan.next, None, "no deadline runs");
    d.paused = false;
    d.status = plan.status;
    let resumed = planned(&d, &[known(&d, 1, set("old", 100, 4, 4))]);
    assert_eq!(sizes(&resumed), [(99, 1)]);
    // What it was stuck for before stays said.
    d.paused = true;
    d.status = Status::default();
    d.status.set(condition(PROGRESSING, "False", reason::TIMED_OUT, String::new(), NOW));
    assert_eq!(why(&planned(&d, &[]).status), ("False", reason::TIMED_OUT));
}

#[test]
fn recreate_scales_old_sets_down_waits_and_creates_the_new_one() {
    let mut d = deployment(3, 0, 0);
    d.rolling = None;
    let old = |replicas, left| {
        let mut set = known(&d, 1, set("old", 100, replicas, left));
        set.status.replicas = left;
        Arc::new(set)
    };
    let run = |set: Arc<Set>, pods: bool| sizes(&plan(&d, &[set], &move |_| pods, NOW_NANOS));
    assert_eq!(run(old(3, 3), true), [(0, 0)]);
    assert_eq!(run(old(0, 2), true), [], "its status still counts pods");
    assert_eq!(run(old(0, 0), true), [], "pods are still about");
    assert_eq!(run(old(0, 0), false), [(99, 3)]);
}

#[test]
fn the_status_sums_up_replicas_and_availability() {
    let d = deployment(4, 1, 1);
    let mut new = known(&d, 2, set("new", 10, 3, 1));
    new.status.ready = 2;
    let sets = [known(&d, 1, set("old", 100, 2, 2)), new];
    let status = planned(&d, &sets).status;
    assert_eq!((status.replicas, status.updated, status.ready, status.available), (5, 3, 4, 3));
    assert_eq!((status.unavailable, status.terminating, status.observed_generation), (2, Some(0), 1));
    let available = status.condition(AVAILABLE).expect("a condition");
    assert_eq!((available.status.as_str(), available.reason.as_str()), ("True", "MinimumReplicasAvailable"));
    // A set that was looked at and does not tell makes the sum unknown; one that nobody looked at does not.
    let mut silent = sets.clone();
    silent[0].status.terminating = None;
    assert_eq!(planned(&d, &silent).status.terminating, None);
    silent[0].status.observed_generation = 0;
    assert_eq!(planned(&d, &silent).status.terminating, Some(0));
}

#[test]
fn progress_completion_and_the_deadline_are_conditions() {
    let mut d = deployment(2, 1, 0);
    let new = |available| [known(&deployment(2, 1, 0), 1, set("new", 10, 2, available))];
    d.status = planned(&d, &new(0)).status;
    assert_eq!(why(&d.status), ("True", reason::UPDATED));
    // Later, nothing moved: not yet stuck, then stuck.
    let at = |d: &Deployment, sets: &[Set], seconds: i64| {
        let sets: Vec<Arc<Set>> = sets.iter().cloned().map(Arc::new).collect();
        plan(d, &sets, &|_| false, NOW_NANOS + i128::from(seconds) * 1_000_000_000)
    };
    let soon = at(&d, &new(0), 599);
    assert_eq!(soon.status, d.status, "nothing to write");
    assert_eq!(soon.next, Some(Duration::from_secs(2)));
    assert_eq!(at(&d, &new(0), 600).status, d.status);
    let stuck = at(&d, &new(0), 601);
    assert_eq!(why(&stuck.status), ("False", reason::TIMED_OUT));
    assert_eq!(stuck.next, None);
    // One pod more is progress, and moves the time of the last update, not that of the change.
    let moved = at(&d, &new(1), 100).status;
    let condition = moved.condition(PROGRESSING).expect("a condition");
    assert_eq!(
        (condition.changed.as_str(), condition.updated.as_str()),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:01:40Z")
    );
    // All there: done, and done it stays when a pod is lost.
    d.status = at(&d, &new(2), 100).status;
    assert_eq!(why(&d.status), ("True", reason::AVAILABLE));
    let lost = at(&d, &new(1), 5000);
    assert_eq!(why(&lost.status), ("True", reason::AVAILABLE));
    assert_eq!(lost.next, None);
    // Without a deadline nothing is said of progress.
    d.progress_deadline_seconds = None;
    assert!(planned(&d, &new(1)).status.condition(PROGRESSING).is_none());
}

#[test]
fn an_existing_replica_set_is_found() {
    let d = deployment(1, 1, 0);
    let mut empty = set("new", 10, 1, 0);
    empty.status = SetStatus::default();
    let plan = planned(&d, &[known(&d, 1, empty)]);
    assert_eq!(why(&plan.status), ("True", reason::FOUND));
    assert_eq!(plan.status.condition(PROGRESSING).expect("one").message, "Found new replica set \"web-new\"");
}

#[test]
fn replica_failures_are_reported_by_the_deployment_newest_first() {
    let mut d = deployment(2, 1, 0);
    let failing = |mut set: Set, message: &str| {
        set.status.conditions.push(crate::condition::Condition {
            kind: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            changed: "2026-01-01T00:00:00Z".to_owned(),
            reason: "FailedCreate".to_owned(),
            message: message.to_owned(),
            ..Default::default()
        });
        set
    };
    let old = known(&d, 1, set("old", 100, 1, 1));
    let new = known(&d, 2, set("new", 10, 2, 1));
    let status = planned(&d, &[failing(old.clone(), "old"), failing(new.clone(), "new")]).status;
    assert_eq!(status.condition(REPLICA_FAILURE).map(|c| c.message.as_str()), Some("new"));
    let status = planned(&d, &[failing(old.clone(), "old"), new.clone()]).status;
    assert_eq!(status.condition(REPLICA_FAILURE).map(|c| c.message.as_str()), Some("old"));
    d.status = status;
    assert!(planned(&d, &[old, new]).status.condition(REPLICA_FAILURE).is_none());
}

#[test]
fn old_sets_beyond_the_limit_go_smallest_number_first_if_empty() {
    let mut d = deployment(1, 1, 0);
    d.revision_history_limit = Some(1);
    d.generation = 1;
    let sets = [
        known(&d, 3, set("c", 400, 0, 0)),
        known(&d, 1, set("a", 300, 0, 0)),
        known(&d, 2, set("b", 200, 0, 0)),
        known(&d, 4, set("new", 10, 1, 1)),
    ];
    d.status = planned(&d, &sets).status;
    assert!(d.status.is_complete(&d));
    let deleted = |sets: &[Set]| {
        let plan = planned(&d, sets);
        let at = |step: &SetWrite| if let SetWrite::Delete { at } = step { Some(*at) } else { None };
        plan.steps.iter().filter_map(at).collect::<Vec<_>>()
    };
    assert_eq!(deleted(&sets), [1, 2]);
    // What still has a pod, or was not looked at since it changed, stays.
    let mut busy = sets.clone();
    busy[1].status.replicas = 1;
    busy[2].generation = 2;
    let mut d2 = d.clone();
    d2.status = planned(&d, &sets).status;
    let plan = planned(&d2, &busy);
    assert!(!plan.steps.iter().any(|step| matches!(step, SetWrite::Delete { .. })), "{plan:?}");
}

#[test]
fn a_deleted_deployment_only_gets_its_status() {
    let mut d = deployment(5, 1, 0);
    d.deleting = true;
    let plan = planned(&d, &[known(&d, 1, set("old", 100, 2, 1))]);
    assert!(plan.steps.is_empty());
    assert_eq!(plan.status.replicas, 2);
}

#[test]
fn revisions_and_their_history_are_kept() {
    let d = deployment(1, 0, 1);
    let mut annotations = BTreeMap::new();
    assert!(annotate_new(&d, &mut annotations, 1));
    assert!(!annotate_new(&d, &mut annotations, 1));
    assert!(annotate_new(&d, &mut annotations, 3));
    assert!(annotate_new(&d, &mut annotations, 7));
    assert!(!annotate_new(&d, &mut annotations, 2), "never back");
    assert_eq!((annotations[REVISION].as_str(), annotations[REVISION_HISTORY].as_str()), ("7", "1,3"));
    // The history is bounded: the oldest go.
    annotations.insert(REVISION_HISTORY.to_owned(), vec!["12345"; 333].join(","));
    annotate_new(&d, &mut annotations, 8);
    assert!(annotations[REVISION_HISTORY].len() <= 2000 && annotations[REVISION_HISTORY].ends_with(",7"));
    // What is no number is left alone.
    annotations.insert(REVISION.to_owned(), "x".to_owned());
    assert!(!annotate_new(&d, &mut annotations, 9));
    assert_eq!(revision(&annotations), None);
    assert!(is_own(ROLLBACK_TO) && !is_own("kubernetes.io/change-cause"));
}

#[test]
fn a_rollback_restores_template_and_annotations() {
    let mut d = deployment(1, 1, 0);
    let to =
        |d: &mut Deployment, number: &str| d.annotations.insert(ROLLBACK_TO.to_owned(), number.to_owned());
    d.annotations.insert("cause".to_owned(), "new".to_owned());
    d.annotations.insert(REVISION.to_owned(), "3".to_owned());
    let mut old = known(&d, 1, set("old", 100, 0, 0));
    old.annotations.insert("cause".to_owned(), "old".to_owned());
    let sets = [old, known(&d, 2, set("other", 50, 0, 0)), known(&d, 3, set("new", 10, 1, 1))];
    to(&mut d, "1");
    let rollback = planned(&d, &sets).rollback.expect("a rollback");
    assert_eq!(rollback.template, Some(template("old")));
    assert_eq!(rollback.annotations["cause"], "old");
    assert_eq!(rollback.annotations[REVISION], "3", "its own stay");
    assert!(!rollback.annotations.contains_key(ROLLBACK_TO));
    assert_eq!(
        rollback.event,
        (false, "DeploymentRollback", "Rolled back deployment \"web\" to revision 1".to_owned())
    );
    // 0 is the one before the present.
    to(&mut d, "0");
    assert_eq!(planned(&d, &sets).rollback.expect("a rollback").template, Some(template("other")));
    let refused = |d: &Deployment, sets: &[Set]| {
        let rollback = planned(d, sets).rollback.expect("a rollback");
        assert_eq!(rollback.template, None);
        assert!(!rollback.annotations.contains_key(ROLLBACK_TO));
        rollback.event
    };
    let last = refused(&d, &sets[2..]);
    assert_eq!(
        (last.1, last.2.as_str()),
        ("DeploymentRollbackRevisionNotFound", "Unable to find last revision.")
    );
    to(&mut d, "9");
    assert_eq!(refused(&d, &sets).2, "Unable to find the revision to rollback to.");
    to(&mut d, "3");
    let same = refused(&d, &sets);
    assert_eq!(same.1, "DeploymentRollbackTemplateUnchanged");
    assert_eq!(same.2, "The rollback revision contains the same template as current deployment \"web\"");
}

#[test]
fn a_status_survives_a_round_trip() {
    let d = deployment(2, 1, 0);
    let mut status = planned(&d, &[known(&d, 1, set("new", 10, 2, 1))]).status;
    status.collisions = Some(2);
    assert_eq!(Status::read(Some(&status.to_value())), status);
    assert_eq!(Status::read(None), Status::default());
}
