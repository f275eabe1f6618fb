//! What a CronJob decides, from its spec, its status, its Jobs and the time alone.

use std::time::Duration;

use codec::json;
use runtime::Severity;
use timezone::Zone;

use super::plan::{Child, End, Step, Work, job_name, schedule};
use super::template::rfc3339;
use super::times::{Missed, NANOS, place};
use super::view::CronJob;

/// 2026-01-01T00:00:00Z, a Thursday.
const MIDNIGHT: i64 = 1_767_225_600;
const HOUR: i64 = 3600;

fn cron(spec: &str, status: &str) -> CronJob {
    let text = format!(
        r#"{{"metadata":{{"name":"c","namespace":"d","creationTimestamp":"2026-01-01T00:00:00Z"}},
            "spec":{{{spec}}},"status":{{{status}}}}}"#
    );
    CronJob::read(&json::parse(text.as_bytes(), None).unwrap())
}

fn child(name: &str, end: Option<End>, started: Option<i64>) -> Child {
    let completed = end.filter(|end| *end == End::Complete).and(started);
    Child { uid: format!("u-{name}"), name: name.to_owned(), end, started, completed }
}

/// What is decided at a time, and what is told.
fn decide(cron: CronJob, at: i64) -> (Step, Vec<String>) {
    let mut work = Work::begin(cron);
    let step = work.decide(i128::from(at) * NANOS);
    (step, told(&work))
}

fn told(work: &Work) -> Vec<String> {
    let sign = |severity| if severity == Severity::Warning { "W" } else { "N" };
    work.events.iter().map(|e| format!("{} {} {}", sign(e.severity), e.reason, e.message)).collect()
}

fn wait(seconds: i64) -> Step {
    Step::Wait(Duration::from_secs(seconds.unsigned_abs()) + Duration::from_millis(100))
}

const RUNNING: &str = r#""active":[{"name":"c-1","namespace":"d","uid":"u-c-1"}]"#;

#[test]
fn a_job_is_started_when_its_time_has_come_and_not_before() {
    let hourly = || cron(r#""schedule":"0 * * * *""#, "");
    assert_eq!(decide(hourly(), MIDNIGHT + 10), (wait(HOUR - 10), vec![]));
    assert_eq!(decide(hourly(), MIDNIGHT + HOUR), (Step::Start(MIDNIGHT + HOUR), vec![]));
    // Of three that were missed the last is made up for.
    assert_eq!(decide(hourly(), MIDNIGHT + 3 * HOUR + 60), (Step::Start(MIDNIGHT + 3 * HOUR), vec![]));
    let done = cron(r#""schedule":"0 * * * *""#, r#""lastScheduleTime":"2026-01-01T01:00:00Z""#);
    assert_eq!(decide(done, MIDNIGHT + HOUR + 5), (wait(HOUR - 5), vec![]));
    assert_eq!(job_name(&hourly(), MIDNIGHT + HOUR), format!("c-{}", (MIDNIGHT + HOUR) / 60));
}

#[test]
fn suspended_deleted_and_unreadable_cron_jobs_start_nothing() {
    let due = MIDNIGHT + HOUR;
    assert_eq!(decide(cron(r#""schedule":"0 * * * *","suspend":true"#, ""), due), (Step::Nothing, vec![]));
    let going = CronJob { deleting: true, ..cron(r#""schedule":"0 * * * *""#, "") };
    assert_eq!(decide(going, due), (Step::Nothing, vec![]));
    let said = |spec: &str| {
        let (step, told) = decide(cron(spec, ""), MIDNIGHT + 40 * 86_400);
        assert_eq!(step, Step::Nothing);
        told
    };
    assert_eq!(
        said(r#""schedule":"x""#),
        ["W UnparseableSchedule unparseable schedule: \"x\" : expected exactly 5 fields, found 1: [x]"]
    );
    assert_eq!(
        said(r#""schedule":"0 0 31 2 *""#),
        [
            "W InvalidSchedule invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second"
        ]
    );
    assert_eq!(
        said(r#""schedule":"0 * * * *","timeZone":"Moon""#),
        ["W UnknownTimeZone invalid timeZone: \"Moon\": unknown time zone Moon"]
    );
}

#[test]
fn a_run_that_is_too_late_is_not_started() {
    let late = |deadline: i64, after: i64| {
        let spec = format!(r#""schedule":"0 * * * *","startingDeadlineSeconds":{deadline}"#);
        decide(cron(&spec, ""), MIDNIGHT + HOUR + after)
    };
    assert_eq!(late(10, 9), (Step::Start(MIDNIGHT + HOUR), vec![]));
    // What is not within the deadline is not even looked at.
    assert_eq!(late(10, 10), (wait(HOUR - 10), vec![]));
    assert_eq!(late(0, 0), (wait(HOUR), vec![]), "never in time");
}

#[test]
fn more_than_a_hundred_missed_times_are_told_and_the_last_is_started() {
    let minutely = || cron(r#""schedule":"* * * * *""#, "");
    let (step, said) = decide(minutely(), MIDNIGHT + 100 * 60);
    assert_eq!((step, said.len()), (Step::Start(MIDNIGHT + 100 * 60), 0));
    let (step, said) = decide(minutely(), MIDNIGHT + 7 * 86_400 + 30);
    assert_eq!(step, Step::Start(MIDNIGHT + 7 * 86_400));
    assert_eq!(
        said,
        [
            "W TooManyMissedTimes too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        ]
    );
    let short = cron(r#""schedule":"* * * * *","startingDeadlineSeconds":200"#, "");
    let (step, said) = decide(short, MIDNIGHT + 7 * 86_400 + 30);
    assert_eq!((step, said.len()), (Step::Start(MIDNIGHT + 7 * 86_400), 0));
}

#[test]
fn uneven_schedules_find_their_last_time() {
    // Weekdays at 6:30, 10:30, 14:30: from Thursday to the next Wednesday morning.
    let uneven = cron(r#""schedule":"30 6-16/4 * * 1-5""#, "");
    let now = MIDNIGHT + 6 * 86_400 + 7 * HOUR;
    let found = place(&uneven, &schedule(&uneven).unwrap(), now, true).unwrap();
    assert_eq!(found.most_recent, Some(MIDNIGHT + 6 * 86_400 + 6 * HOUR + 1800));
    assert_eq!(found.missed, Missed::Few);
    // Every minute of January, and nothing for eleven months.
    let january = cron(r#""schedule":"* * * 1 *""#, r#""lastScheduleTime":"2026-01-31T23:58:00Z""#);
    let found = place(&january, &schedule(&january).unwrap(), MIDNIGHT + 365 * 86_400 + 90, true).unwrap();
    assert_eq!(found.most_recent, Some(MIDNIGHT + 365 * 86_400 + 60));
}

#[test]
fn policies_say_what_a_running_job_does_to_the_next() {
    let with = |policy: &str, status: &str| {
        let spec = format!(r#""schedule":"0 * * * *","concurrencyPolicy":"{policy}""#);
        decide(cron(&spec, status), MIDNIGHT + HOUR)
    };
    let start = Step::Start(MIDNIGHT + HOUR);
    assert_eq!(with("Allow", RUNNING), (start, vec![]));
    assert_eq!(with("Replace", RUNNING), (start, vec![]));
    assert_eq!(with("Forbid", ""), (start, vec![]));
    let why = "N JobAlreadyActive Not starting job because prior execution is running and concurrency policy is Forbid";
    assert_eq!(with("Forbid", RUNNING), (wait(HOUR), vec![why.to_owned()]));
    let same = format!(r#""active":[{{"name":"c-{}","namespace":"d","uid":"x"}}]"#, (MIDNIGHT + HOUR) / 60);
    assert_eq!(with("Allow", &same), (wait(HOUR), vec![]), "it was started already");
}

#[test]
fn zones_move_the_schedule_and_name_themselves_in_the_annotation() {
    let berlin = cron(r#""schedule":"30 5 * * *","timeZone":"Europe/Berlin""#, "");
    assert_eq!(decide(berlin, MIDNIGHT + 5 * HOUR).0, Step::Start(MIDNIGHT + 4 * HOUR + 1800));
    let zone = |name: &str| Zone::load(name).unwrap();
    assert_eq!(rfc3339(zone("Europe/Berlin"), MIDNIGHT), "2026-01-01T01:00:00+01:00");
    assert_eq!(rfc3339(zone("America/St_Johns"), MIDNIGHT), "2025-12-31T20:30:00-03:30");
    assert_eq!(rfc3339(zone("Europe/London"), MIDNIGHT), "2026-01-01T00:00:00Z");
    // A zone within the schedule is of an older version, and wins.
    let old = cron(r#""schedule":"TZ=Asia/Tokyo 30 5 * * *","timeZone":"Europe/Berlin""#, "");
    let (step, said) = decide(old, MIDNIGHT + 21 * HOUR);
    assert_eq!(step, Step::Start(MIDNIGHT + 20 * HOUR + 1800));
    assert!(
        said[0]
            .starts_with("W UnsupportedSchedule CRON_TZ or TZ used in schedule \"TZ=Asia/Tokyo 30 5 * * *\"")
    );
}

#[test]
fn the_history_keeps_the_youngest_of_each_end() {
    let spec = r#""schedule":"@daily","successfulJobsHistoryLimit":1,"failedJobsHistoryLimit":0"#;
    let work = Work::begin(cron(spec, ""));
    let children = [
        child("c", Some(End::Complete), Some(30)),
        child("b", Some(End::Complete), Some(10)),
        child("a", Some(End::Complete), None),
        child("f", Some(End::Failed), Some(5)),
        child("r", None, Some(1)),
    ];
    assert_eq!(work.excess(&children), [1, 0, 3]);
    assert!(Work::begin(cron(r#""schedule":"@daily""#, "")).excess(&children).is_empty());
}

#[test]
fn the_status_follows_the_jobs_there_are() {
    let active = r#""active":[{"name":"a","namespace":"d","uid":"u-a"},{"name":"b","namespace":"d","uid":"u-b"},{"name":"x","namespace":"d","uid":"u-x"}]"#;
    let mut work = Work::begin(cron(r#""schedule":"@daily""#, active));
    let children = [
        child("a", Some(End::Complete), Some(50)),
        child("b", None, None),
        child("s", Some(End::Complete), Some(40)),
        child("n", None, None),
    ];
    assert_eq!(work.unknown(&children), [3]);
    let fresh = work.cron.clone();
    assert!(!work.look_again(&fresh, &children, &[3]));
    work.ended(&children);
    assert_eq!(work.cron.status.last_successful, Some(50));
    let missing = work.missing(&children);
    assert_eq!(missing.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["x"]);
    work.gone(&missing[0]);
    assert!(work.changed && work.cron.status.active.iter().all(|job| job.name == "b"));
    assert_eq!(
        told(&work),
        [
            "W UnexpectedJob Saw a job that the controller did not create or forgot: n",
            "N SawCompletedJob Saw completed job: a, condition: Complete",
            "N MissingJob Active job went missing: x",
        ]
    );
    // Nothing new, nothing to write.
    let mut again = Work::begin(work.cron.clone());
    again.ended(&children);
    assert!(!again.changed);
}
