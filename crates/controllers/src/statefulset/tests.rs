mod kept;

use std::sync::Arc;

use codec::json;
use object::{Obj, Value};

use super::identity::{
    claims, identity_matches, new_pod, parent_and_ordinal, sets_of_claim, storage_matches,
};
use super::members::{Members, Rules};
use super::plan::{BURST, Plan, Snapshot, Step, plan};
use super::retention::{Holders, Retention};
use super::set::{StatefulSet, UpdateStrategy};
use super::status::SetStatus;
use crate::claim::tests::stored;
use crate::pods::Pod;

const NOW: i64 = 1_767_225_600;

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes(), None).expect("JSON")
}

fn owner(more: &str) -> Obj {
    stored("apps", "statefulsets", &format!(r#"{{"name":"web","namespace":"d","uid":"set"{more}}}"#), "")
}

fn set(spec: &str) -> StatefulSet {
    StatefulSet::read(&tree(&format!(
        r#"{{"metadata":{{"name":"web","generation":2}},"spec":{{"selector":{{"matchLabels":{{"app":"web"}}}},{spec}}}}}"#
    )))
}

/// What a pod is like, and its revision.
struct Is(&'static str, &'static str);
const READY: &str = r#"{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2025-12-31T23:59:50Z"}]}"#;
const STARTING: &str = r#"{"phase":"Running"}"#;
const PENDING: &str = r#"{"phase":"Pending"}"#;
const FAILED: &str = r#"{"phase":"Failed"}"#;
const SUCCEEDED: &str = r#"{"phase":"Succeeded"}"#;
/// It is ready still, and being deleted.
const GOING: &str = "going";

fn pod(name: &str, Is(status, revision): Is) -> Pod {
    let (status, going) = match status {
        GOING => (READY, r#","deletionTimestamp":"2026-01-01T00:00:00Z""#),
        status => (status, ""),
    };
    let metadata = format!(
        r#"{{"name":"{name}","namespace":"d","uid":"uid-{name}"{going},"labels":{{"app":"web","controller-revision-hash":"{revision}",
        "statefulset.kubernetes.io/pod-name":"{name}"}}}}"#
    );
    Pod::new(Arc::new(stored("", "pods", &metadata, &format!(r#","spec":{{}},"status":{status}"#))))
}

fn decide_with(set: &StatefulSet, pods: &[Pod], claims: &[Arc<Obj>]) -> Plan {
    let claim = |name: &str| claims.iter().find(|claim| claim.name() == name).cloned();
    let rules = Rules { obj: &owner(""), set, claim: &claim };
    decide_by(rules, &Members::new(pods.iter().cloned(), &rules), NOW)
}

fn decide_by(rules: Rules<'_>, members: &Members, now: i64) -> Plan {
    plan(&Snapshot { rules, members, current: "old", update: "new", collisions: 0, now })
}

fn decide(set: &StatefulSet, pods: &[Pod]) -> String {
    decide_with(set, pods, &[]).describe("web")
}

const NOTHING: &str = "nothing but the status";

#[test]
fn a_name_has_a_parent_and_an_ordinal() {
    assert_eq!(parent_and_ordinal("web-0"), Some(("web", Some(0))));
    assert_eq!(parent_and_ordinal("a-b-17"), Some(("a-b", Some(17))));
    assert_eq!(parent_and_ordinal("web-2147483648"), Some(("web", None)));
    assert_eq!(parent_and_ordinal("web--1"), Some(("web-", Some(1))));
    for none in ["web", "web-", "web-1a", "-", ""] {
        assert_eq!(parent_and_ordinal(none), None, "{none:?}");
    }
}

#[test]
fn a_claim_is_of_each_set_its_name_may_mean() {
    let of = |claim| sets_of_claim(claim).collect::<Vec<_>>();
    assert_eq!(of("data-web-0"), [("data", "web")]);
    assert_eq!(of("a-b-c-12"), [("a", "b-c"), ("a-b", "c")]);
    assert!(of("web-0").is_empty() && of("data-web").is_empty() && of("").is_empty());
}

#[test]
fn in_order_each_pod_waits_for_the_one_before() {
    let three = set(r#""replicas":3"#);
    assert_eq!(decide(&three, &[]), "create web-0");
    assert_eq!(decide(&three, &[pod("web-0", Is(PENDING, "new"))]), NOTHING);
    assert_eq!(decide(&three, &[pod("web-0", Is(STARTING, "new"))]), NOTHING);
    assert_eq!(decide(&three, &[pod("web-0", Is(READY, "new"))]), "create web-1");
    let hole = [pod("web-0", Is(READY, "new")), pod("web-2", Is(READY, "new"))];
    assert_eq!(decide(&three, &hole), "create web-1");
    assert_eq!(decide(&three, &[pod("web-0", Is(GOING, "new"))]), NOTHING, "until it is gone");
    // Ready for ten seconds.
    let patient = set(r#""replicas":3,"minReadySeconds":11"#);
    assert_eq!(decide(&patient, &[pod("web-0", Is(READY, "new"))]), NOTHING);
    let less = set(r#""replicas":3,"minReadySeconds":10"#);
    assert_eq!(decide(&less, &[pod("web-0", Is(READY, "new"))]), "create web-1");
}

#[test]
fn in_parallel_nothing_waits() {
    let three = set(r#""replicas":3,"podManagementPolicy":"Parallel""#);
    assert_eq!(decide(&three, &[]), "create web-0, create web-1, create web-2");
    assert_eq!(decide(&three, &[pod("web-1", Is(PENDING, "new"))]), "create web-0, create web-2");
    let many = set(r#""replicas":2147483647,"podManagementPolicy":"Parallel""#);
    let plan = decide_with(&many, &[], &[]);
    assert_eq!((plan.phases[0].len(), plan.more), (BURST, true));
}

#[test]
fn pods_that_ended_are_deleted_and_made_again_when_they_are_gone() {
    let two = set(r#""replicas":2"#);
    for ended in [FAILED, SUCCEEDED] {
        assert_eq!(decide(&two, &[pod("web-0", Is(ended, "new"))]), "delete web-0");
    }
    let parallel = set(r#""replicas":2,"podManagementPolicy":"Parallel""#);
    assert_eq!(decide(&parallel, &[pod("web-0", Is(FAILED, "new"))]), "delete web-0, create web-1");
}

#[test]
fn ordinals_begin_where_the_set_says() {
    let from_five = set(r#""replicas":2,"ordinals":{"start":5}"#);
    assert_eq!(decide(&from_five, &[]), "create web-5");
    let both = [pod("web-5", Is(READY, "new")), pod("web-6", Is(READY, "new"))];
    assert_eq!(decide(&from_five, &both), NOTHING);
    let low =
        [pod("web-4", Is(READY, "new")), pod("web-5", Is(READY, "new")), pod("web-6", Is(READY, "new"))];
    assert_eq!(decide(&from_five, &low), "delete web-4", "below the first it is not wanted");
}

#[test]
fn the_highest_goes_first_and_waits_for_the_wanted_ones() {
    let one = set(r#""replicas":1"#);
    let pods = |first, second, third| {
        [pod("web-0", Is(first, "new")), pod("web-1", Is(second, "new")), pod("web-2", Is(third, "new"))]
    };
    assert_eq!(decide(&one, &pods(READY, READY, READY)), "delete web-2");
    assert_eq!(decide(&one, &pods(STARTING, READY, READY)), NOTHING);
    assert_eq!(decide(&one, &pods(READY, READY, GOING)), NOTHING);
    assert_eq!(
        decide(&one, &pods(READY, STARTING, STARTING)),
        NOTHING,
        "the lowest unhealthy one is another"
    );
    assert_eq!(decide(&one, &pods(READY, READY, STARTING)), "delete web-2", "it is itself the unhealthy one");
    let parallel = set(r#""replicas":1,"podManagementPolicy":"Parallel""#);
    assert_eq!(decide(&parallel, &pods(STARTING, READY, GOING)), "delete web-1");
    assert_eq!(decide(&parallel, &pods(READY, STARTING, STARTING)), "delete web-2, delete web-1");
}

#[test]
fn an_update_replaces_one_pod_at_a_time_from_the_top() {
    let three =
        set(r#""replicas":3,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}}"#);
    let pods = |states: [Is; 3]| {
        let named = ["web-0", "web-1", "web-2"].into_iter().zip(states);
        named.map(|(name, is)| pod(name, is)).collect::<Vec<_>>()
    };
    let old = || Is(READY, "old");
    assert_eq!(decide(&three, &pods([old(), old(), old()])), "replace web-2");
    assert_eq!(decide(&three, &pods([old(), old(), Is(READY, "new")])), "replace web-1");
    assert_eq!(decide(&three, &pods([old(), old(), Is(STARTING, "new")])), NOTHING, "a stuck update waits");
    assert_eq!(decide(&three, &pods([old(), old(), Is(GOING, "old")])), NOTHING);
    let upper =
        set(r#""replicas":3,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":2}}"#);
    assert_eq!(decide(&upper, &pods([old(), old(), old()])), "replace web-2");
    assert_eq!(decide(&upper, &pods([old(), old(), Is(READY, "new")])), NOTHING);
    let by_hand = set(r#""replicas":3,"updateStrategy":{"type":"OnDelete"}"#);
    assert_eq!(decide(&by_hand, &pods([old(), old(), old()])), NOTHING);
    let parallel = set(r#""replicas":3,"podManagementPolicy":"Parallel""#);
    assert_eq!(decide(&parallel, &pods([old(), Is(STARTING, "old"), old()])), "replace web-2");
    assert_eq!(decide(&parallel, &pods([old(), old(), Is(STARTING, "new")])), NOTHING);
}

fn begins(set: &StatefulSet, pods: &[Pod]) -> Vec<(i64, bool)> {
    let steps = decide_with(set, pods, &[]).phases.concat();
    let created = steps.iter().filter_map(|step| match step {
        Step::Create { ordinal, current } => Some((*ordinal, *current)),
        _ => None,
    });
    created.collect()
}

#[test]
fn new_pods_below_the_partition_are_of_the_current_revision() {
    let parallel = |strategy: &str| {
        set(&format!(
            r#""replicas":3,"ordinals":{{"start":4}},"podManagementPolicy":"Parallel","updateStrategy":{strategy}"#
        ))
    };
    let upper = parallel(r#"{"type":"RollingUpdate","rollingUpdate":{"partition":2}}"#);
    assert_eq!(begins(&upper, &[]), [(4, true), (5, true), (6, false)]);
    assert_eq!(begins(&parallel(r#"{"type":"OnDelete"}"#), &[]), [(4, false), (5, false), (6, false)]);
    let mut unsaid = parallel(r#"{"type":"RollingUpdate"}"#);
    assert_eq!(unsaid.update, UpdateStrategy::RollingUpdate { partition: None });
    unsaid.status.current = 1;
    assert_eq!(begins(&unsaid, &[]), [(4, true), (5, false), (6, false)]);
}

#[test]
fn pods_are_counted_by_readiness_and_revision() {
    let pods = [
        pod("web-0", Is(READY, "old")),
        pod("web-1", Is(GOING, "old")),
        pod("web-2", Is(PENDING, "new")),
        pod("web-7", Is(READY, "new")),
    ];
    let status = decide_with(&set(r#""replicas":3,"minReadySeconds":30"#), &pods, &[]).status;
    let expected = SetStatus {
        observed_generation: 2,
        replicas: 4,
        ready: 3,
        available: 0,
        current: 1,
        updated: 2,
        current_revision: "old".into(),
        update_revision: "new".into(),
        collisions: Some(0),
    };
    assert_eq!(status, expected);
    assert_eq!(SetStatus::read(Some(&status.to_value())), status);
    let going = owner(r#","deletionTimestamp":"2026-01-01T00:00:00Z""#);
    let three = set(r#""replicas":3"#);
    let rules = Rules { obj: &going, set: &three, claim: &|_| None };
    let plan = decide_by(rules, &Members::new(pods, &rules), NOW);
    assert!(plan.phases.is_empty() && plan.outdated.is_none(), "a set that is going does nothing");
    assert_eq!((plan.status.replicas, plan.status.available), (4, 3));
}

#[test]
fn a_rolling_update_that_reached_all_is_complete() {
    let done = || SetStatus {
        replicas: 2,
        ready: 2,
        updated: 2,
        current_revision: "old".into(),
        update_revision: "new".into(),
        ..SetStatus::default()
    };
    let two = set(r#""replicas":2"#);
    let mut status = done();
    status.complete(&two);
    assert_eq!((status.current, status.current_revision.as_str()), (2, "new"));
    for (what, set) in [
        ("by hand", r#""replicas":2,"updateStrategy":{"type":"OnDelete"}"#),
        ("more to come", r#""replicas":3"#),
    ] {
        let mut status = done();
        status.complete(&self::set(set));
        assert_eq!(status, done(), "{what}");
    }
}

#[test]
fn a_status_is_written_for_what_upstream_writes_it_for() {
    let stored = SetStatus { observed_generation: 2, collisions: Some(0), ..SetStatus::default() };
    let with = |change: fn(&mut SetStatus)| {
        let mut status = stored.clone();
        change(&mut status);
        status.differs_from(&stored)
    };
    assert!(!with(|_| {}));
    assert!(!with(|status| status.collisions = Some(1)));
    assert!(!with(|status| status.observed_generation = 1));
    assert!(with(|status| status.observed_generation = 3));
    assert!(with(|status| status.available = 1));
    assert!(with(|status| status.update_revision = "x".into()));
}

const WITH_CLAIMS: &str = r#"{"metadata":{"name":"web"},"spec":{"replicas":2,"serviceName":"svc","selector":{"matchLabels":{"app":"web"}},
    "template":{"metadata":{"labels":{"app":"web"}},"spec":{"volumes":[{"name":"data","emptyDir":{}},{"name":"tmp","emptyDir":{}}],"containers":[]}},
    "volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"data","labels":{"a":"b"}},"spec":{"x":1}},
    {"metadata":{"name":"log"},"spec":{}}]}}"#;

#[test]
fn a_pod_has_its_identity_and_its_volumes() {
    let pod = new_pod(&owner(""), &tree(WITH_CLAIMS), 3, "web-abc");
    let expected = tree(
        r#"{"metadata":{"generateName":"web-","labels":{"app":"web","statefulset.kubernetes.io/pod-name":"web-3",
        "apps.kubernetes.io/pod-index":"3","controller-revision-hash":"web-abc"},
        "ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"web","uid":"set","controller":true,"blockOwnerDeletion":true}],
        "name":"web-3"},"spec":{"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-web-3"}},
        {"name":"log","persistentVolumeClaim":{"claimName":"log-web-3"}},{"name":"tmp","emptyDir":{}}],"containers":[],
        "hostname":"web-3","subdomain":"svc"}}"#,
    );
    assert_eq!(pod, expected);
    let claims = claims("web", &tree(WITH_CLAIMS), 3);
    let bodies: Vec<Value> = claims.into_iter().map(|claim| claim.body).collect();
    let data = r#"{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"data-web-3","labels":{"a":"b","app":"web"}},"spec":{"x":1}}"#;
    let log = r#"{"metadata":{"name":"log-web-3","labels":{"app":"web"}},"spec":{}}"#;
    assert_eq!(bodies, [tree(data), tree(log)]);
}

#[test]
fn identity_is_the_name_and_storage_the_claims() {
    let (obj, set) = (owner(""), StatefulSet::read(&tree(WITH_CLAIMS)));
    let with = |name: &str, label: &str, spec: &str| {
        let metadata = format!(
            r#"{{"name":"{name}","namespace":"d","uid":"u","labels":{{"statefulset.kubernetes.io/pod-name":"{label}"}}}}"#
        );
        Pod::new(Arc::new(stored("", "pods", &metadata, &format!(r#","spec":{spec},"status":{READY}"#))))
    };
    let volumes = r#"{"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-web-0"}},
        {"name":"log","persistentVolumeClaim":{"claimName":"log-web-0"}}]}"#;
    let right = with("web-0", "web-0", volumes);
    assert!(identity_matches(&obj, &right.obj) && storage_matches(&obj, &set, &right));
    assert!(!identity_matches(&obj, &with("web-0", "web-1", volumes).obj));
    assert!(!identity_matches(&obj, &with("web-00", "web-00", volumes).obj));
    assert!(!storage_matches(&obj, &set, &with("web-1", "web-1", volumes)), "claims of another");
    assert!(!storage_matches(&obj, &set, &with("web-0", "web-0", "{}")));
}

fn claim(name: &str, owners: &str) -> Arc<Obj> {
    let metadata =
        format!(r#"{{"name":"{name}","namespace":"d","uid":"c-{name}","ownerReferences":[{owners}]}}"#);
    Arc::new(stored("", "persistentvolumeclaims", &metadata, ""))
}

const OF_SET: &str = r#"{"apiVersion":"apps/v1","kind":"StatefulSet","name":"web","uid":"set","controller":true,"blockOwnerDeletion":true}"#;
const OF_POD: &str = r#"{"apiVersion":"v1","kind":"Pod","name":"web-0","uid":"pod","controller":true,"blockOwnerDeletion":true}"#;
const OF_OTHER: &str = r#"{"apiVersion":"x/v1","kind":"X","name":"x","uid":"x","controller":true}"#;
const SHARED: &str = r#"{"apiVersion":"x/v1","kind":"X","name":"x","uid":"x"}"#;

#[test]
fn claims_are_owned_by_whom_the_policy_says() {
    let obj = owner("");
    let owners_after = |deletes_with_set, deletes_when_scaled, scaled_down, before: &str| {
        let retention = Retention { deletes_with_set, deletes_when_scaled };
        let holders = Holders { set: &obj, pod_name: "web-0", pod_uid: "pod", scaled_down, retention };
        let claim = claim("data-web-0", before);
        if holders.are_up_to_date(&claim) {
            return "as it was".to_owned();
        }
        let updated = holders.updated(&claim);
        let owners = updated.at(&["metadata", "ownerReferences"]).cloned().unwrap_or(Value::List(Vec::new()));
        String::from_utf8(json::to_vec(&owners)).unwrap()
    };
    let list = |owner: &str| format!("[{owner}]");
    for scaled in [false, true] {
        assert_eq!(owners_after(false, false, scaled, ""), "as it was");
        assert_eq!(owners_after(false, false, scaled, OF_SET), "[]");
        assert_eq!(owners_after(true, false, scaled, ""), list(OF_SET));
        assert_eq!(owners_after(true, false, scaled, OF_SET), "as it was");
        assert_eq!(owners_after(true, false, scaled, OF_POD), list(OF_SET));
    }
    assert_eq!(owners_after(false, true, false, OF_POD), "[]");
    assert_eq!(owners_after(false, true, true, ""), list(OF_POD));
    assert_eq!(owners_after(true, true, false, OF_POD), list(OF_SET));
    assert_eq!(owners_after(true, true, true, OF_SET), list(OF_POD));
    assert_eq!(owners_after(true, true, true, OF_POD), "as it was");
    // Others that own it stay; another controller is not fought.
    assert_eq!(owners_after(true, false, false, SHARED), format!("[{SHARED},{OF_SET}]"));
    assert_eq!(owners_after(true, false, false, OF_OTHER), "as it was");
    assert_eq!(owners_after(true, false, false, &format!("{OF_OTHER},{OF_SET}")), list(OF_OTHER));
    assert_eq!(owners_after(false, false, false, OF_OTHER), "as it was");
    // Of an earlier set or pod of that name: the garbage collector's.
    for stale in [OF_SET.replace(r#""set""#, r#""before""#), OF_POD.replace(r#""pod""#, r#""before""#)] {
        assert_eq!(owners_after(true, true, true, &stale), "as it was");
    }
    let no_controller = OF_SET.replace(r#","controller":true"#, "");
    assert_eq!(owners_after(true, false, false, &no_controller), list(OF_SET));
}

#[test]
fn claims_of_pods_are_made_mended_and_waited_for() {
    let spec = |policy: &str| {
        set(&format!(
            r#""replicas":1,"volumeClaimTemplates":[{{"metadata":{{"name":"data"}}}}],"persistentVolumeClaimRetentionPolicy":{policy}"#
        ))
    };
    let retained = spec("{}");
    let says =
        |set: &StatefulSet, pods: &[Pod], claims: &[Arc<Obj>]| decide_with(set, pods, claims).describe("web");
    let pending = pod("web-0", Is(PENDING, "new"));
    assert_eq!(says(&retained, std::slice::from_ref(&pending), &[]), "make claims of web-0");
    assert_eq!(says(&retained, std::slice::from_ref(&pending), &[claim("data-web-0", "")]), NOTHING);
    let with_set = spec(r#"{"whenDeleted":"Delete"}"#);
    assert_eq!(says(&with_set, &[pending], &[claim("data-web-0", "")]), "make claims of web-0");
    let ready = pod("web-0", Is(READY, "new"));
    assert_eq!(says(&retained, &[ready], &[]), "update web-0", "its volumes are not the claims");
    let parallel = StatefulSet { parallel: true, ..retained.clone() };
    let waiting = [pod("web-0", Is(PENDING, "new"))];
    assert_eq!(says(&parallel, &waiting, &[]), "make claims of and update web-0", "one step for one pod");
    let condemned = [pod("web-1", Is(READY, "new"))];
    let both = spec(r#"{"whenDeleted":"Delete","whenScaled":"Delete"}"#);
    let none = StatefulSet { replicas: 0, ..both.clone() };
    let of_set = claim("data-web-1", OF_SET);
    assert_eq!(says(&none, &condemned, &[of_set]), "fix claims of web-1, delete web-1");
    // A claim of a pod that is gone goes with it: its successor waits.
    assert_eq!(says(&both, &[], &[claim("data-web-0", OF_POD)]), NOTHING);
    assert_eq!(says(&retained, &[], &[claim("data-web-0", OF_POD)]), "create web-0");
}
