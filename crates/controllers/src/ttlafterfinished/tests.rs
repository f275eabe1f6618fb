//! When a Job that ended is deleted.

use std::time::Duration;

use super::plan::{Plan, expiry, step};
use crate::job::Job;

#[test]
fn only_finished_jobs_with_a_ttl_expire() {
    let read = |text: &str| expiry(&Job::read(&codec::json::parse(text.as_bytes(), None).unwrap()));
    let ended = |kind: &str, status: &str| {
        format!(
            r#""status":{{"conditions":[{{"type":"{kind}","status":"{status}","lastTransitionTime":"1970-01-01T00:01:40Z"}}]}}"#
        )
    };
    for (spec, kind, status, wanted) in [
        (r#"{"ttlSecondsAfterFinished":10}"#, "Failed", "True", Some(110)),
        (r#"{"ttlSecondsAfterFinished":0}"#, "Complete", "True", Some(100)),
        (r#"{"ttlSecondsAfterFinished":0}"#, "Complete", "False", None),
        (r#"{"ttlSecondsAfterFinished":0}"#, "Suspended", "True", None),
        ("{}", "Failed", "True", None),
    ] {
        let job = format!(r#"{{"spec":{spec},{}}}"#, ended(kind, status));
        assert_eq!(read(&job), wanted, "{job}");
    }
    assert_eq!(read(r#"{"spec":{"ttlSecondsAfterFinished":10}}"#), None);
}

#[test]
fn a_job_waits_for_its_time_to_the_millisecond() {
    let at = |seconds: f64| (seconds * 1e9) as u128;
    assert_eq!(step(None, at(500.0)), Plan::Nothing);
    assert_eq!(step(Some(110), at(100.5)), Plan::Wait(Duration::from_millis(9_500)));
    assert_eq!(step(Some(110), at(109.999)), Plan::Wait(Duration::from_millis(1)));
    assert_eq!(step(Some(110), at(110.0)), Plan::Delete);
    assert_eq!(step(Some(110), at(500.0)), Plan::Delete);
}
