//! Rules of the Job controller, one by one: a Job and its pods as JSON, what is done and what is said.

use std::sync::Arc;

use catalog::Catalog;
use codec::json;
use object::{Obj, Revision, Value};

use super::backoff::{Record, finished_at};
use super::indexes::{IndexCounts, Indexes};
use super::plan::{New, PodAction, Work};
use super::pods::Pod;
use super::released::Released;
use super::tally::{Counts, PodTally};
use super::template::{Template, prefix};
use super::track::Done;
use super::view::Job;

/// Unix seconds of `now` in all tests, and its text a minute before.
const NOW: i64 = 1_000_000_000;
const EARLIER: &str = "2001-09-09T01:45:40Z";
const LONG_AGO: &str = "2001-09-09T00:00:00Z";

fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), None).unwrap_or_else(|e| panic!("{e:?} in {text}"))
}

fn obj(catalog: &Catalog, group: &str, plural: &str, name: &str, text: &str) -> Arc<Obj> {
    let storage = catalog.find_storage(group, plural).unwrap();
    let key = storage.key("default", name);
    Arc::new(Obj::publish(storage, &key, text.as_bytes(), Revision(7), None).ok().unwrap())
}

/// A pod with the finalizer unless `more` says otherwise.
struct P {
    name: &'static str,
    phase: &'static str,
    index: Option<u32>,
    tracked: bool,
    deleting: bool,
    annotations: &'static str,
    status: String,
    node: &'static str,
}

const POD: P = P {
    name: "p",
    phase: "Running",
    index: None,
    tracked: true,
    deleting: false,
    annotations: "",
    status: String::new(),
    node: "",
};

impl P {
    fn make(&self, catalog: &Catalog) -> Arc<Obj> {
        let P { name, phase, annotations, status, node, .. } = self;
        let finalizers =
            if self.tracked { r#","finalizers":["batch.kubernetes.io/job-tracking"]"# } else { "" };
        let deletion =
            if self.deleting { format!(r#","deletionTimestamp":"{EARLIER}""#) } else { String::new() };
        let index = self
            .index
            .map_or(String::new(), |i| format!(r#""batch.kubernetes.io/job-completion-index":"{i}""#));
        let comma = if index.is_empty() || annotations.is_empty() { "" } else { "," };
        let text = format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","uid":"uid-{name}","creationTimestamp":"{LONG_AGO}","annotations":{{{index}{comma}{annotations}}}{finalizers}{deletion}}},"spec":{{"nodeName":"{node}"}},"status":{{"phase":"{phase}"{status}}}}}"#
        );
        obj(catalog, "", "pods", name, &text)
    }
}

fn begin(spec: &str, status: &str, pods: &[P]) -> Work {
    begin_with(spec, status, pods, Record::default(), true, false)
}

fn begin_with(
    spec: &str,
    status: &str,
    pods: &[P],
    backoff: Record,
    satisfied: bool,
    deleting: bool,
) -> Work {
    let text =
        format!(r#"{{"metadata":{{"name":"j","generation":1}},"spec":{{{spec}}},"status":{{{status}}}}}"#);
    let job = Job::read(&value(&text));
    let catalog = Catalog::builtin();
    let pods = pods.iter().map(|p| Pod::read(p.make(&catalog), &job.spec)).collect();
    Work::begin(&job, pods, backoff, satisfied, deleting, NOW * 1000)
}

fn indexes_of(step: PodAction) -> Vec<Option<u32>> {
    match step {
        PodAction::Create(new) => new.into_iter().map(|new| new.index).collect(),
        other => panic!("creates nothing: {other:?}"),
    }
}

/// Carries a reconcile out, every call going well, and gives the status after the first and after the second write.
fn settle(work: &mut Work) -> (Value, Value, Vec<String>) {
    let step = work.step();
    let done = match &step {
        PodAction::Nothing => Done::default(),
        PodAction::Finish(pods) | PodAction::Remove(pods) => {
            Done { deleted: pods.len() as i64, deleted_ready: 0, created: 0 }
        }
        PodAction::Create(new) => Done { created: new.len() as i64, ..Done::default() },
    };
    let mut events: Vec<String> = work.acted(&step, done).into_iter().map(|t| t.reason).collect();
    let release = work.record();
    let mut first = Value::map();
    work.status.write(&mut first);
    work.released(&release);
    events.extend(work.finish().into_iter().flatten().map(|t| t.reason));
    let mut second = Value::map();
    work.status.write(&mut second);
    (first, second, events)
}

fn int(tree: &Value, name: &str) -> i64 {
    tree.at(&["status", name]).and_then(Value::as_int).unwrap_or(0)
}

fn conditions(tree: &Value) -> Vec<String> {
    let list = tree.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let text = |c: &Value, name: &str| c.str_at(&[name]).unwrap_or("").to_owned();
    list.iter().map(|c| format!("{}={} {}", text(c, "type"), text(c, "status"), text(c, "reason"))).collect()
}

fn uncounted(tree: &Value, name: &str) -> usize {
    tree.at(&["status", "uncountedTerminatedPods", name]).and_then(Value::as_list).map_or(0, <[Value]>::len)
}

#[test]
fn indexes_are_read_and_written_as_ranges() {
    for (text, completions, written, count) in [
        ("", 5, "", 0),
        ("0", 5, "0", 1),
        ("0,1", 5, "0,1", 2),
        ("0-1", 5, "0,1", 2),
        ("0-2,4", 9, "0-2,4", 4),
        ("0,1,2", 9, "0-2", 3),
        ("3-9", 6, "3-5", 3),
        ("3,9", 6, "3", 1),
        ("a,2-b,4", 6, "4", 1),
    ] {
        let indexes = Indexes::parse(text, completions);
        assert_eq!((indexes.to_string().as_str(), indexes.count()), (written, count), "{text}");
    }
}

#[test]
fn indexes_merge_overlap_and_miss() {
    let some = Indexes::parse("1-3,7", 100);
    assert_eq!(some.merge(&Indexes::of([0, 4, 9])).to_string(), "0-4,7,9");
    assert!(some.contains(1) && some.contains(3) && some.contains(7));
    assert!(!some.contains(0) && !some.contains(4) && !some.contains(8));
    assert_eq!(some.first_missing(4, 100), [0, 4, 5, 6]);
    assert_eq!(some.first_missing(10, 6), [0, 4, 5]);
    assert_eq!(some.first_missing(0, 6), Vec::<u32>::new());
    assert_eq!(some.overlap(&Indexes::parse("2-8", 100)), 3);
    assert_eq!(some.overlap(&Indexes::parse("4-6", 100)), 0);
}

#[test]
fn failures_back_off_exponentially() {
    for (failures, seconds) in [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (50, 600)] {
        let record = Record { failures, last_failure: 100 };
        assert_eq!(record.remaining_ms(100_000), seconds * 1000, "{failures}");
    }
    assert_eq!(Record { failures: 1, last_failure: 100 }.remaining_ms(107_500), 2500);
    assert_eq!(Record { failures: 1, last_failure: 100 }.remaining_ms(120_000), 0);
}

#[test]
fn a_success_clears_failures_before_it() {
    let old = Record { failures: 3, last_failure: 10 };
    assert_eq!(old.after(&[], &[]), old);
    assert_eq!(old.after(&[], &[20, 15]), Record { failures: 5, last_failure: 20 });
    assert_eq!(old.after(&[18], &[]), Record::default());
    assert_eq!(old.after(&[18], &[20, 15, 19]), Record { failures: 2, last_failure: 20 });
}

#[test]
fn a_pod_finished_when_its_last_container_did() {
    let pod = |rest: &str| {
        value(&format!(
            r#"{{"metadata":{{"creationTimestamp":"1970-01-01T00:00:05Z"{}}},{rest}}}"#,
            r#","deletionTimestamp":"1970-01-01T00:01:40Z","deletionGracePeriodSeconds":30"#
        ))
    };
    let ended = |s: u32| {
        format!(r#"{{"name":"c","state":{{"terminated":{{"finishedAt":"1970-01-01T00:00:{s:02}Z"}}}}}}"#)
    };
    let (a, b) = (ended(20), ended(30));
    let both = format!(r#""status":{{"containerStatuses":[{a},{b}]}}"#);
    assert_eq!(finished_at(&pod(&both)), 30);
    let ready =
        r#""conditions":[{"type":"Ready","status":"False","lastTransitionTime":"1970-01-01T00:00:40Z"}]"#;
    let one = format!(r#""status":{{"containerStatuses":[{a},{{"name":"d","state":{{}}}}],{ready}}}"#);
    assert_eq!(finished_at(&pod(&one)), 40);
    assert_eq!(finished_at(&pod(r#""status":{}"#)), 70);
    assert_eq!(finished_at(&value(r#"{"metadata":{"creationTimestamp":"1970-01-01T00:00:05Z"}}"#)), 5);
}

#[test]
fn pods_are_created_up_to_parallelism_and_remaining_completions() {
    let count = |spec: &str, status: &str, pods: &[P]| match begin(spec, status, pods).step() {
        PodAction::Create(new) => new.len() as i64,
        PodAction::Remove(pods) => -(pods.len() as i64),
        PodAction::Nothing => 0,
        other => panic!("{other:?}"),
    };
    assert_eq!(count(r#""parallelism":2,"completions":5"#, "", &[]), 2);
    assert_eq!(count(r#""parallelism":2,"completions":5"#, r#""succeeded":4"#, &[]), 1);
    assert_eq!(count(r#""parallelism":2,"completions":5"#, "", &[POD]), 1);
    assert_eq!(count(r#""parallelism":3"#, "", &[]), 3);
    // Work queue: after one success nobody new is started.
    assert_eq!(count(r#""parallelism":3"#, r#""succeeded":1"#, &[POD]), 0);
    assert_eq!(count(r#""parallelism":1,"completions":5"#, "", &[POD, P { name: "q", ..POD }]), -1);
    assert_eq!(count(r#""parallelism":0,"completions":5"#, "", &[POD]), -1);
    assert_eq!(count(r#""parallelism":900,"completions":900"#, "", &[]), 500);
}

#[test]
fn nothing_is_done_on_a_stale_cache_or_for_a_deleted_job() {
    let spec = r#""parallelism":2,"completions":5"#;
    assert_eq!(begin_with(spec, "", &[], Record::default(), false, false).step(), PodAction::Nothing);
    assert_eq!(begin_with(spec, "", &[], Record::default(), true, true).step(), PodAction::Nothing);
}

#[test]
fn terminating_pods_are_replaced_at_once_or_when_failed() {
    let going = || P { name: "a", deleting: true, ..POD };
    let mut at_once = begin(r#""parallelism":1,"completions":1"#, "", &[going()]);
    // A second of backoff is not over yet for one that failed; a minute ago it is.
    assert!(matches!(at_once.step(), PodAction::Create(_)));
    let policy = r#""parallelism":1,"completions":1,"podReplacementPolicy":"Failed""#;
    let mut later = begin(policy, "", &[going()]);
    assert_eq!(later.step(), PodAction::Nothing);
    assert_eq!(later.terminating, 1);
    let failed = P { phase: "Failed", ..going() };
    assert!(matches!(begin(policy, "", &[failed]).step(), PodAction::Create(_)));
}

#[test]
fn a_fresh_failure_is_waited_out() {
    let spec = r#""parallelism":1,"completions":1"#;
    let just_now = Record { failures: 2, last_failure: NOW - 5 };
    let mut work = begin_with(spec, "", &[], just_now, true, false);
    assert_eq!(work.step(), PodAction::Nothing);
    assert_eq!(work.wait_ms, Some(15_000));
}

#[test]
fn finished_pods_are_recorded_then_counted() {
    let pods = [
        P { name: "a", phase: "Succeeded", ..POD },
        P { name: "b", phase: "Failed", ..POD },
        P { name: "c", ..POD },
    ];
    let mut work = begin(r#""parallelism":3,"completions":3"#, "", &pods);
    let (first, second, _) = settle(&mut work);
    assert_eq!((uncounted(&first, "succeeded"), uncounted(&first, "failed")), (1, 1));
    assert_eq!((int(&first, "succeeded"), int(&first, "failed")), (0, 0));
    assert_eq!((int(&second, "succeeded"), int(&second, "failed")), (1, 1));
    assert_eq!((uncounted(&second, "succeeded"), uncounted(&second, "failed")), (0, 0));
}

#[test]
fn a_recorded_pod_is_counted_once() {
    let status = r#""succeeded":1,"uncountedTerminatedPods":{"succeeded":["uid-a","uid-gone"]}"#;
    // One still has its finalizer, of the other nothing is left.
    let pods = [P { name: "a", phase: "Succeeded", ..POD }];
    let mut work = begin(r#""parallelism":1,"completions":9"#, status, &pods);
    assert_eq!(work.succeeded, 3);
    let (first, second, _) = settle(&mut work);
    assert_eq!((int(&first, "succeeded"), uncounted(&first, "succeeded")), (2, 1));
    assert_eq!((int(&second, "succeeded"), uncounted(&second, "succeeded")), (3, 0));
}

#[test]
fn pods_without_a_finalizer_were_counted() {
    let pods = [P { name: "a", phase: "Succeeded", tracked: false, ..POD }];
    let work = begin(r#""parallelism":1,"completions":9"#, r#""succeeded":1"#, &pods);
    assert_eq!(work.succeeded, 1);
}

#[test]
fn a_reconcile_counts_at_most_500_pods() {
    let names: Vec<&'static str> = (0..600).map(|i| &*format!("p{i}").leak()).collect();
    let pods: Vec<P> = names.iter().map(|name| P { name, phase: "Succeeded", ..POD }).collect();
    let mut work = begin(r#""parallelism":600,"completions":600"#, "", &pods);
    let (first, second, events) = settle(&mut work);
    assert_eq!(uncounted(&first, "succeeded"), 500);
    assert_eq!(int(&second, "succeeded"), 500);
    // It is known to be enough, but not over before all were counted.
    assert_eq!(conditions(&second), ["SuccessCriteriaMet=True CompletionsReached"]);
    assert!(events.is_empty());
}

#[test]
fn a_job_completes_in_two_conditions() {
    let pods = [P { name: "a", phase: "Succeeded", ..POD }];
    let mut work =
        begin(r#""parallelism":1,"completions":1"#, r#""startTime":"2001-09-09T01:00:00Z""#, &pods);
    let (first, second, events) = settle(&mut work);
    assert_eq!(conditions(&first), ["SuccessCriteriaMet=True CompletionsReached"]);
    assert_eq!(
        conditions(&second),
        ["SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"]
    );
    assert!(second.str_at(&["status", "completionTime"]).is_some());
    assert_eq!(events, ["Completed"]);
}

#[test]
fn a_job_waits_for_terminating_pods_before_it_finishes() {
    let pods = [P { name: "a", phase: "Succeeded", ..POD }, P { name: "b", deleting: true, ..POD }];
    let mut work = begin(r#""parallelism":1,"completions":1"#, "", &pods);
    let (_, second, events) = settle(&mut work);
    assert_eq!(conditions(&second), ["SuccessCriteriaMet=True CompletionsReached"]);
    assert!(events.is_empty());
}

#[test]
fn too_many_failures_end_the_job() {
    let spec = r#""parallelism":2,"completions":2,"backoffLimit":1"#;
    let pods = [P { name: "a", phase: "Failed", ..POD }, P { name: "b", ..POD }];
    let mut enough = begin(spec, r#""failed":1"#, &pods);
    assert_eq!(enough.step(), PodAction::Finish(vec![1]));
    let (first, second, _) = settle(&mut begin(spec, r#""failed":1"#, &pods));
    assert_eq!(conditions(&first), ["FailureTarget=True BackoffLimitExceeded"]);
    // The pod that ran is a failure too; it still goes, so it is not over.
    assert_eq!(int(&second, "failed"), 3);
    assert_eq!(conditions(&second).len(), 1);
    // Then it is gone.
    let status = r#""failed":3,"conditions":[{"type":"FailureTarget","status":"True","reason":"BackoffLimitExceeded","message":"m"}]"#;
    let (_, last, events) = settle(&mut begin(spec, status, &[]));
    assert_eq!(conditions(&last)[1], "Failed=True BackoffLimitExceeded");
    assert_eq!(events, ["BackoffLimitExceeded"]);
    assert!(matches!(begin(spec, "", &pods).step(), PodAction::Create(_) | PodAction::Nothing));
}

#[test]
fn restarts_in_place_count_against_the_limit() {
    let spec = r#""template":{"spec":{"restartPolicy":"OnFailure"}},"backoffLimit":2,"parallelism":1,"completions":1"#;
    let restarted =
        |n: u32| P { status: format!(r#","containerStatuses":[{{"name":"c","restartCount":{n}}}]"#), ..POD };
    assert_eq!(begin(spec, "", &[restarted(1)]).step(), PodAction::Nothing);
    assert_eq!(begin(spec, "", &[restarted(2)]).step(), PodAction::Finish(vec![0]));
    let none = spec.replace(r#""backoffLimit":2"#, r#""backoffLimit":0"#);
    assert_eq!(begin(&none, "", &[restarted(0)]).step(), PodAction::Nothing);
    assert_eq!(begin(&none, "", &[restarted(1)]).step(), PodAction::Finish(vec![0]));
}

#[test]
fn the_deadline_counts_from_the_start_and_stops_while_suspended() {
    let spec = r#""activeDeadlineSeconds":100,"parallelism":1,"completions":1"#;
    let started = r#""startTime":"2001-09-09T01:45:40Z""#;
    let work = begin(spec, started, &[POD]);
    assert_eq!((work.finished.clone(), work.wait_ms), (None, Some(40_000)));
    let late = begin(spec, r#""startTime":"2001-09-09T01:00:00Z""#, &[POD]);
    assert_eq!(late.finished.unwrap().reason, "DeadlineExceeded");
    let suspended = format!(r#"{spec},"suspend":true"#);
    assert_eq!(begin(&suspended, r#""startTime":"2001-09-09T01:00:00Z""#, &[POD]).finished, None);
}

#[test]
fn a_suspended_job_loses_its_pods_and_says_so_once() {
    let spec = r#""suspend":true,"parallelism":2,"completions":2"#;
    let mut work = begin(spec, r#""startTime":"2001-09-09T01:00:00Z","active":1"#, &[POD]);
    let (first, _, events) = settle(&mut work);
    assert_eq!(conditions(&first), ["Suspended=True JobSuspended"]);
    assert_eq!(first.str_at(&["status", "startTime"]), None);
    assert_eq!(events, ["Suspended"]);
    let said = r#""ready":0,"terminating":0,"conditions":[{"type":"Suspended","status":"True","reason":"JobSuspended","message":"Job suspended"}]"#;
    let mut again = begin(spec, said, &[]);
    let (_, _, events) = settle(&mut again);
    assert!(events.is_empty() && !again.needs_flush());
    let resumed = r#""parallelism":2,"completions":2"#;
    let (first, _, events) = settle(&mut begin(resumed, said, &[]));
    assert_eq!(conditions(&first), ["Suspended=False JobResumed"]);
    assert_eq!(first.str_at(&["status", "startTime"]), Some("2001-09-09T01:46:40Z"));
    assert_eq!(events, ["Resumed"]);
}

#[test]
fn an_indexed_job_creates_missing_indexes() {
    let spec = r#""completionMode":"Indexed","parallelism":3,"completions":6"#;
    let pods = [P { name: "a", index: Some(2), ..POD }];
    assert_eq!(indexes_of(begin(spec, r#""completedIndexes":"0,4""#, &pods).step()), [Some(1), Some(3)]);
}

#[test]
fn pods_with_a_duplicate_or_no_index_are_deleted() {
    let spec = r#""completionMode":"Indexed","parallelism":3,"completions":3"#;
    let pods = [
        P { name: "a", index: Some(0), node: "n", ..POD },
        P { name: "b", index: Some(0), phase: "Pending", ..POD },
        P { name: "c", ..POD },
        P { name: "d", index: Some(7), ..POD },
    ];
    let PodAction::Remove(mut remove) = begin(spec, "", &pods).step() else { panic!() };
    remove.sort_unstable();
    assert_eq!(remove, [1, 2, 3]);
}

#[test]
fn an_index_that_fails_too_often_fails() {
    let spec = r#""completionMode":"Indexed","parallelism":2,"completions":2,"backoffLimitPerIndex":1,"backoffLimit":2147483647"#;
    let failed = |name, n: &'static str| P { name, index: Some(0), phase: "Failed", annotations: n, ..POD };
    let none = r#""batch.kubernetes.io/job-index-failure-count":"0""#;
    let one = r#""batch.kubernetes.io/job-index-failure-count":"1""#;
    // The first failure is tried again, once its backoff is over, and keeps its finalizer until then.
    let mut work = begin(spec, "", &[failed("a", none), P { name: "b", index: Some(1), ..POD }]);
    let step = work.step();
    assert_eq!(step, PodAction::Create(vec![New { index: Some(0), failures: Some((1, 0)) }]));
    work.acted(&step, Done { created: 1, ..Done::default() });
    assert_eq!(work.record(), Vec::<usize>::new());
    assert_eq!(work.status.failed_indexes.as_deref(), Some(""));
    // The second is one too many.
    let mut work = begin(spec, "", &[failed("a", one), P { name: "b", index: Some(1), ..POD }]);
    let (_, second, _) = settle(&mut work);
    assert_eq!(second.str_at(&["status", "failedIndexes"]), Some("0"));
    assert!(conditions(&second).is_empty());
    // And with the other index done, that is the end.
    let pods = [P { name: "b", index: Some(1), phase: "Succeeded", ..POD }];
    let mut work = begin(spec, r#""failedIndexes":"0","failed":2"#, &pods);
    let (_, second, events) = settle(&mut work);
    assert_eq!(events, ["FailedIndexes"]);
    assert_eq!(second.str_at(&["status", "completedIndexes"]), Some("1"));
}

#[test]
fn an_index_waits_for_its_own_backoff() {
    let spec = r#""completionMode":"Indexed","parallelism":2,"completions":2,"backoffLimitPerIndex":3"#;
    let failed = P {
        name: "a",
        index: Some(0),
        phase: "Failed",
        status: r#","containerStatuses":[{"name":"c","state":{"terminated":{"exitCode":1,"finishedAt":"2001-09-09T01:46:36Z"}}}]"#.into(),
        ..POD
    };
    let mut work = begin(spec, "", &[failed, P { name: "b", index: Some(1), ..POD }]);
    assert_eq!(work.step(), PodAction::Nothing);
    assert_eq!(work.wait_ms, Some(6000));
}

#[test]
fn too_many_failed_indexes_end_the_job() {
    let spec = r#""completionMode":"Indexed","parallelism":2,"completions":9,"backoffLimitPerIndex":0,"maxFailedIndexes":1"#;
    assert_eq!(begin(spec, r#""failedIndexes":"3""#, &[]).finished, None);
    let more = begin(spec, r#""failedIndexes":"3,5""#, &[]);
    assert_eq!(more.finished.unwrap().reason, "MaxFailedIndexesExceeded");
}

fn exited(code: i64) -> P {
    let status = format!(
        r#","containerStatuses":[{{"name":"main","state":{{"terminated":{{"exitCode":{code},"finishedAt":"{LONG_AGO}"}}}}}}]"#
    );
    P { name: "a", phase: "Failed", status, ..POD }
}

#[test]
fn the_failure_policy_decides_by_exit_code_and_condition() {
    let rules = |rules: &str| {
        format!(
            r#""parallelism":1,"completions":1,"backoffLimit":0,"podFailurePolicy":{{"rules":[{rules}]}}"#
        )
    };
    let on = |action: &str| {
        rules(&format!(
            r#"{{"action":"{action}","onExitCodes":{{"containerName":"main","operator":"In","values":[42]}}}}"#
        ))
    };
    let reason = |spec: &str, pod: P| begin(spec, "", &[pod]).finished.map(|c| (c.reason, c.message));
    let (why, message) = reason(&on("FailJob"), exited(42)).unwrap();
    assert_eq!(why, "PodFailurePolicy");
    let expected =
        "Container main for pod default/a failed with exit code 42 matching FailJob rule at index 0";
    assert_eq!(message, expected);
    assert_eq!(reason(&on("FailJob"), exited(1)).unwrap().0, "BackoffLimitExceeded");
    assert_eq!(reason(&on("Ignore"), exited(42)), None);
    assert_eq!(reason(&on("Count"), exited(42)).unwrap().0, "BackoffLimitExceeded");
    let not_in = rules(r#"{"action":"Ignore","onExitCodes":{"operator":"NotIn","values":[1]}}"#);
    assert_eq!(reason(&not_in, exited(2)), None);
    assert!(reason(&not_in, exited(1)).is_some());
    let disrupted =
        rules(r#"{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]}"#);
    let lost = P {
        phase: "Failed",
        status: r#","conditions":[{"type":"DisruptionTarget","status":"True"}]"#.into(),
        ..POD
    };
    assert_eq!(reason(&disrupted, lost), None);
}

#[test]
fn an_ignored_failure_is_not_counted() {
    let spec = r#""parallelism":1,"completions":1,"backoffLimit":0,"podFailurePolicy":{"rules":[{"action":"Ignore","onExitCodes":{"operator":"In","values":[42]}}]}"#;
    let mut work = begin(spec, "", &[exited(42)]);
    let (first, second, _) = settle(&mut work);
    assert_eq!((uncounted(&first, "failed"), int(&second, "failed")), (0, 0));
}

#[test]
fn fail_index_fails_it_at_once() {
    let spec = r#""completionMode":"Indexed","parallelism":2,"completions":2,"backoffLimitPerIndex":5,"podFailurePolicy":{"rules":[{"action":"FailIndex","onExitCodes":{"operator":"In","values":[42]}}]}"#;
    let pod = P { index: Some(1), ..exited(42) };
    let mut work = begin(spec, "", &[pod]);
    let (first, _, _) = settle(&mut work);
    assert_eq!(first.str_at(&["status", "failedIndexes"]), Some("1"));
}

#[test]
fn the_success_policy_ends_the_job_early() {
    let spec = |rule: &str| {
        format!(
            r#""completionMode":"Indexed","parallelism":4,"completions":4,"successPolicy":{{"rules":[{rule}]}}"#
        )
    };
    let met = |rule: &str, done: &str| {
        let status = format!(r#""completedIndexes":"{done}""#);
        begin(&spec(rule), &status, &[]).finished.map(|c| (c.kind, c.reason, c.message))
    };
    let said = |at: u32| {
        Some(("SuccessCriteriaMet".into(), "SuccessPolicy".into(), format!("Matched rules at index {at}")))
    };
    assert_eq!(met(r#"{"succeededIndexes":"0,2"}"#, "0,2"), said(0));
    assert_eq!(met(r#"{"succeededIndexes":"0,2"}"#, "0,1"), None);
    assert_eq!(met(r#"{"succeededIndexes":"0-2","succeededCount":2}"#, "1,2"), said(0));
    assert_eq!(met(r#"{"succeededIndexes":"3"},{"succeededCount":1}"#, "1"), said(1));
    // Pods that still run are deleted, and are no failures.
    let rule = spec(r#"{"succeededIndexes":"0"}"#);
    let pods = [P { name: "b", index: Some(1), ..POD }];
    let (first, second, _) = settle(&mut begin(&rule, r#""completedIndexes":"0""#, &pods));
    assert_eq!(conditions(&first), ["SuccessCriteriaMet=True SuccessPolicy"]);
    assert_eq!((uncounted(&first, "failed"), int(&second, "failed")), (0, 0));
}

#[test]
fn an_unchanged_job_is_not_written() {
    let pods = [POD];
    let status = r#""active":1,"ready":0,"terminating":0,"startTime":"2001-09-09T01:00:00Z","uncountedTerminatedPods":{}"#;
    let mut work = begin(r#""parallelism":1,"completions":1"#, status, &pods);
    settle(&mut work);
    assert!(!work.needs_flush());
}

#[test]
fn a_deleted_job_releases_all_its_pods() {
    let spec = r#""parallelism":1,"completions":1"#;
    let mut work = begin_with(spec, "", &[POD], Record::default(), true, true);
    let step = work.step();
    work.acted(&step, Done::default());
    assert_eq!(work.record(), [0]);
    assert!(work.status.uncounted_failed.is_empty());
}

#[test]
fn long_names_are_cut_for_the_index() {
    assert_eq!(prefix("web", 3), "web-3-");
    let long = "x".repeat(63);
    assert_eq!(prefix(&long, 12), format!("{}-12-", "x".repeat(54)));
}

#[test]
fn pods_come_from_the_template_with_finalizer_and_owner() {
    let text = r#"{"kind":"Job","apiVersion":"batch/v1","metadata":{"name":"j","namespace":"default","uid":"u"},"spec":{"completionMode":"Indexed","template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c"},{"name":"d","env":[{"name":"JOB_COMPLETION_INDEX","value":"mine"}]}]}}}}"#;
    let job = obj(&Catalog::builtin(), "batch", "jobs", "j", text);
    let pod = Template::of(&job).pod(&New { index: Some(4), failures: Some((2, 1)) });
    assert_eq!(pod.str_at(&["metadata", "generateName"]), Some("j-4-"));
    assert_eq!(pod.str_at(&["spec", "hostname"]), Some("j-4"));
    assert_eq!(pod.str_at(&["metadata", "labels", "a"]), Some("b"));
    let annotation = |name: &str| pod.at(&["metadata", "annotations"]).and_then(|a| a.str_at(&[name]));
    assert_eq!(annotation("batch.kubernetes.io/job-index-failure-count"), Some("2"));
    assert_eq!(annotation("batch.kubernetes.io/job-index-ignored-failure-count"), Some("1"));
    let containers = pod.at(&["spec", "containers"]).and_then(Value::as_list).unwrap();
    let env = |at: usize| containers[at].get("env").and_then(Value::as_list).unwrap();
    assert_eq!(env(0)[0].str_at(&["name"]), Some("JOB_COMPLETION_INDEX"));
    assert_eq!(env(1).len(), 1);
    assert_eq!(env(1)[0].str_at(&["value"]), Some("mine"));
}

#[test]
fn a_stale_finalizer_does_not_count_a_pod_twice() {
    let (catalog, spec) = (Catalog::builtin(), r#""parallelism":1,"completions":3"#);
    let job = |status: &str| Job::read(&value(&format!(r#"{{"spec":{{{spec}}},"status":{{{status}}}}}"#)));
    let view = |tracked: bool| {
        let pod = P { name: "a", phase: "Succeeded", tracked, ..POD };
        vec![Pod::read(pod.make(&catalog), &job("").spec)]
    };
    let reconciled = |pods: Vec<Pod>, status: &str| {
        let mut work = Work::begin(&job(status), pods, Record::default(), true, false, NOW * 1000);
        settle(&mut work).1
    };
    let counted = reconciled(view(true), "");
    assert_eq!(int(&counted, "succeeded"), 1);
    let mut released = Released::default();
    released.expect("uid-a");
    let counted = r#""succeeded":1"#;
    let look = |released: &mut Released, pods: &mut [Pod]| {
        let shown = released.correct(pods);
        released.shown(shown);
    };
    for _ in 0..2 {
        let mut old_news = view(true);
        look(&mut released, &mut old_news);
        assert_eq!(int(&reconciled(old_news, counted), "succeeded"), 1);
    }
    // Seen without it, the pod is forgotten; one that has it again counts again.
    let mut news = view(false);
    look(&mut released, &mut news);
    let mut again = view(true);
    look(&mut released, &mut again);
    assert!(again[0].tracked);
    released.expect("uid-a");
    released.back("uid-a");
    look(&mut released, &mut again);
    assert!(again[0].tracked, "it was not taken after all");
}

/// Numbers as a seed gives them; the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

#[test]
fn counted_indexes_are_those_of_the_pods_there_are() {
    let mut numbers = Numbers(7);
    let (mut counts, mut all) = (IndexCounts::default(), Vec::<u32>::new());
    for step in 0..4000 {
        let index = numbers.below(40) as u32;
        match all.iter().position(|known| *known == index) {
            Some(at) if numbers.below(2) == 0 => {
                all.swap_remove(at);
                counts.remove(index);
            }
            _ if all.len() < 60 => {
                all.push(index);
                counts.add(index);
            }
            _ => {}
        }
        let mut sorted = all.clone();
        sorted.sort_unstable();
        let once = sorted.windows(2).all(|two| two[0] != two[1]);
        let end = sorted.last().map_or(0, |last| i64::from(*last) + 1);
        assert_eq!(counts.is_proper(end), once, "step {step}: {sorted:?}");
        assert!(end == 0 || !counts.is_proper(end - 1), "step {step}: {sorted:?}");
        sorted.dedup();
        assert_eq!(counts.indexes(), Indexes::of(sorted), "step {step}");
    }
    counts.remove(99);
    all.into_iter().for_each(|index| counts.remove(index));
    assert_eq!(counts, IndexCounts::default());
}

/// What a reconcile comes to, in one text.
fn outcome(work: &mut Work) -> String {
    let step = work.step();
    let (first, second, events) = settle(work);
    let text = |value: &Value| String::from_utf8(json::to_vec(value)).unwrap();
    format!("{step:?}\n{}\n{}\n{events:?} {:?}", text(&first), text(&second), work.wait_ms)
}

/// Whatever pods a Job has: who looks at the few the counts name comes to what looking at all of them does.
#[test]
fn counts_decide_as_a_look_at_every_pod_does() {
    const PHASES: [&str; 4] = ["Pending", "Running", "Succeeded", "Failed"];
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let policy = r#""podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]},{"action":"FailJob","onExitCodes":{"operator":"In","values":[42]}}]}"#;
    let specs = [
        r#""parallelism":5,"completions":8"#.to_owned(),
        r#""parallelism":3"#.to_owned(),
        r#""parallelism":5,"completions":8,"completionMode":"Indexed""#.to_owned(),
        r#""parallelism":5,"completions":8,"completionMode":"Indexed","podReplacementPolicy":"Failed""#.to_owned(),
        r#""parallelism":4,"completions":6,"completionMode":"Indexed","backoffLimitPerIndex":1,"maxFailedIndexes":2"#
            .to_owned(),
        format!(r#""parallelism":5,"completions":8,{policy}"#),
        r#""parallelism":5,"completions":8,"template":{"spec":{"restartPolicy":"OnFailure"}},"backoffLimit":2"#
            .to_owned(),
        r#""parallelism":5,"completions":8,"suspend":true"#.to_owned(),
    ];
    let (catalog, mut numbers, mut enough) = (Catalog::builtin(), Numbers(11), 0);
    for round in 0..4000 {
        let spec = &specs[numbers.below(specs.len() as u64) as usize];
        let count = numbers.below(NAMES.len() as u64 + 1) as usize;
        let pods = NAMES[..count].iter().map(|name| {
            let exit = if numbers.below(2) == 0 { 42 } else { 1 };
            let restarts = numbers.below(2);
            let pod = P {
                name,
                phase: PHASES[numbers.below(4) as usize],
                index: (numbers.below(20) > 0).then(|| numbers.below(9) as u32),
                tracked: numbers.below(4) > 0,
                deleting: numbers.below(5) == 0,
                status: format!(r#","containerStatuses":[{{"name":"c","restartCount":{restarts},"state":{{"terminated":{{"exitCode":{exit}}}}}}}],"conditions":[{{"type":"DisruptionTarget","status":"True"}}]"#),
                ..POD
            };
            pod.make(&catalog)
        });
        let pods: Vec<Arc<Obj>> = pods.collect();
        let status = ["", r#""succeeded":2,"failed":1,"completedIndexes":"0-1""#][numbers.below(2) as usize];
        let (satisfied, deleting) = (numbers.below(8) > 0, numbers.below(8) == 0);
        let job = Job::read(&value(&format!(r#"{{"spec":{{{spec}}},"status":{{{status}}}}}"#)));
        let backoff = Record { failures: numbers.below(2) as u32, last_failure: NOW - 3 };
        let mut counts = Counts::default();
        for pod in &pods {
            // One of them was there before it changed.
            counts.count(pod, &crate::pod_view(pod), 1);
            counts.count(pod, &crate::pod_view(pod), -1);
            counts.count(pod, &crate::pod_view(pod), 1);
        }
        let judged = job.spec.failure_policy.is_some();
        let named = |pod: &&Arc<Obj>| {
            counts.ended.contains(pod.path()) || (judged && counts.failed.contains(pod.path()))
        };
        let few = pods.iter().filter(named).map(|pod| Pod::read(pod.clone(), &job.spec)).collect();
        let all = pods.iter().map(|pod| Pod::read(pod.clone(), &job.spec)).collect();
        let mut quick = Work::counted(&job, counts.clone(), few, backoff, satisfied, deleting, NOW * 1000);
        let mut full = Work::begin(&job, all, backoff, satisfied, deleting, NOW * 1000);
        assert_eq!(quick.needs_every_pod(), full.needs_every_pod(), "round {round}");
        if !quick.needs_every_pod() {
            enough += 1;
            assert_eq!(outcome(&mut quick), outcome(&mut full), "round {round}: {spec} {status}");
        }
    }
    assert!(enough > 400, "the counts were enough only {enough} times");
}

#[test]
fn pods_that_the_selector_does_not_mean_are_looked_at() {
    let catalog = Catalog::builtin();
    let labelled = |name: &str, labels: &str| {
        let text = format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","uid":"{name}","labels":{{{labels}}}}},"status":{{"phase":"Running"}}}}"#
        );
        obj(&catalog, "", "pods", name, &text)
    };
    let index = |at: u32| format!(r#""app":"x","batch.kubernetes.io/job-completion-index":"{at}""#);
    let selector = |text: &str| crate::claim::selector(Some(&value(text))).unwrap();
    let by_app = selector(r#"{"matchLabels":{"app":"x"}}"#);
    let mut tally = PodTally::default();
    assert_eq!(tally.counts("default", &by_app, false), Some(Counts::default()));
    for at in 0..3 {
        let pod = labelled(&format!("p{at}"), &index(at));
        tally.count(&pod, &crate::pod_view(&pod), 1);
    }
    assert_eq!(tally.counts("default", &by_app, false).unwrap().active, 3);
    // Labels of their own do not make them strangers.
    let more = labelled("more", r#""app":"x","team":"a""#);
    tally.count(&more, &crate::pod_view(&more), 1);
    assert_eq!(tally.counts("default", &by_app, false).unwrap().active, 4);
    assert_eq!(tally.counts("elsewhere", &by_app, false), Some(Counts::default()));
    let by_index = selector(r#"{"matchLabels":{"app":"x","batch.kubernetes.io/job-completion-index":"1"}}"#);
    assert_eq!(tally.counts("default", &by_index, false), None);
    let other = labelled("other", r#""app":"y""#);
    tally.count(&other, &crate::pod_view(&other), 1);
    assert_eq!(tally.counts("default", &by_app, false), None);
    tally.count(&other, &crate::pod_view(&other), -1);
    assert_eq!(tally.counts("default", &by_app, false).unwrap().active, 4);
}

#[test]
fn running_pods_of_a_job_that_fails_are_judged_too() {
    let spec = r#""parallelism":3,"completions":3,"podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]},{"action":"FailJob","onExitCodes":{"operator":"In","values":[42]}}]}"#;
    let failed = r#","containerStatuses":[{"name":"c","state":{"terminated":{"exitCode":42}}}]"#;
    let disrupted = r#","conditions":[{"type":"DisruptionTarget","status":"True"}]"#;
    let pods = [
        P { name: "a", phase: "Failed", status: failed.to_owned(), ..POD },
        P { name: "b", status: disrupted.to_owned(), ..POD },
        P { name: "c", ..POD },
    ];
    let mut work = begin(spec, "", &pods);
    let (first, _, _) = settle(&mut work);
    // The disrupted one is ignored, also while it runs; the other running one counts.
    assert_eq!(uncounted(&first, "failed"), 2);
}

#[test]
fn sidecars_tell_when_a_pod_finished_while_containers_do_not() {
    let at = |second: u32| format!(r#"{{"terminated":{{"finishedAt":"2001-09-09T01:00:{second:02}Z"}}}}"#);
    let pod = |containers: &str, sidecar: &str| {
        value(&format!(
            r#"{{"metadata":{{"creationTimestamp":"{LONG_AGO}"}},"spec":{{"initContainers":[{{"name":"s","restartPolicy":"Always"}}]}},"status":{{"containerStatuses":[{{"name":"c","state":{containers}}}],"initContainerStatuses":[{{"name":"s","state":{sidecar}}}]}}}}"#
        ))
    };
    let hour = 1_000_000_000 - 6400 + 3600;
    assert_eq!(finished_at(&pod(&at(5), &at(7))), hour + 7);
    assert_eq!(finished_at(&pod("{}", &at(7))), hour + 7);
    assert_eq!(finished_at(&pod(&at(5), "{}")), hour - 3600);
}
