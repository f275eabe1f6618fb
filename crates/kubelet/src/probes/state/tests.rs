use super::*;

const NONE: [Option<Timing>; 3] = [None; 3];

fn timing() -> Timing {
    let seconds = Duration::from_secs;
    Timing { initial_delay: seconds(0), period: seconds(10), success_threshold: 1, failure_threshold: 3 }
}

fn with(kinds: &[Kind]) -> [Option<Timing>; 3] {
    Kind::ALL.map(|kind| kinds.contains(&kind).then(timing))
}

/// A container that has just started.
fn fresh(timings: [Option<Timing>; 3], now: Instant) -> Checks {
    Checks::new(timings, Duration::ZERO, now, None, |_| Duration::ZERO)
}

fn now() -> Instant {
    env::Env::machine().monotonic()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn run(checks: &mut Checks, kind: Kind, answer: Answer, now: Instant) -> Health {
    checks.begin(kind);
    checks.answer(kind, Some(answer), now);
    checks.health()
}

#[test]
fn values_before_the_first_answer_are_kubelets() {
    let now = now();
    let health = |timings| fresh(timings, now).health();
    let expect = |started, ready| Health { started, ready, failed: None };
    assert_eq!(health(NONE), expect(true, true));
    assert_eq!(health(with(&[Kind::Readiness])), expect(true, false));
    assert_eq!(health(with(&[Kind::Liveness])), expect(true, true));
    assert_eq!(health(with(&[Kind::Startup])), expect(false, false));
}

#[test]
fn a_probe_waits_for_its_initial_delay_and_keeps_its_period() {
    let start = now();
    let timings = with(&[Kind::Readiness]).map(|t| t.map(|t| Timing { initial_delay: seconds(5), ..t }));
    let mut checks = fresh(timings, start);
    assert_eq!(checks.due(Kind::Readiness), Some(start + seconds(5)));
    checks.begin(Kind::Readiness);
    assert_eq!(checks.due(Kind::Readiness), None, "it runs");
    checks.answer(Kind::Readiness, Some(Answer::Success), start + seconds(6));
    assert_eq!(checks.due(Kind::Readiness), Some(start + seconds(15)));
    // Of a container that is older than the delay, at once.
    let old = Checks::new(timings, seconds(60), start, None, |_| seconds(9));
    assert_eq!(old.due(Kind::Readiness), Some(start));
}

#[test]
fn a_slow_probe_misses_beats_but_not_the_rhythm() {
    let start = now();
    let mut checks = fresh(with(&[Kind::Liveness]), start);
    for (ended, due) in [(15, 10), (16, 20), (57, 50), (58, 60)] {
        run(&mut checks, Kind::Liveness, Answer::Success, start + seconds(ended));
        assert_eq!(checks.due(Kind::Liveness), Some(start + seconds(due)), "after {ended}");
    }
}

#[test]
fn thresholds_count_answers_in_a_row() {
    let now = now();
    let timings = with(&[Kind::Readiness]).map(|t| t.map(|t| Timing { success_threshold: 3, ..t }));
    let mut checks = fresh(timings, now);
    use Answer::{Failure, Success};
    for (answer, ready) in [
        (Success, false),
        (Success, false),
        (Success, true),
        (Failure, true),
        (Failure, true),
        (Success, true),
        (Failure, true),
        (Failure, true),
        (Failure, false),
        (Success, false),
    ] {
        assert_eq!(run(&mut checks, Kind::Readiness, answer, now).ready, ready);
    }
    // What could not be found out changes nothing and interrupts nothing.
    checks.answer(Kind::Readiness, None, now);
    run(&mut checks, Kind::Readiness, Success, now);
    assert!(run(&mut checks, Kind::Readiness, Success, now).ready);
}

#[test]
fn a_container_that_fails_its_liveness_is_left_alone_until_it_is_another() {
    let now = now();
    let mut checks = fresh(with(&[Kind::Liveness]), now);
    assert_eq!(run(&mut checks, Kind::Liveness, Answer::Failure, now).failed, None);
    assert_eq!(run(&mut checks, Kind::Liveness, Answer::Failure, now).failed, None);
    assert_eq!(run(&mut checks, Kind::Liveness, Answer::Failure, now).failed, Some(Kind::Liveness));
    assert_eq!(checks.due(Kind::Liveness), None);
    // An answer that was on its way does not bring it back.
    assert_eq!(run(&mut checks, Kind::Liveness, Answer::Success, now).failed, Some(Kind::Liveness));
}

#[test]
fn other_probes_wait_for_startup() {
    let start = now();
    let mut timings = with(&Kind::ALL);
    timings[Kind::Liveness as usize] = Some(Timing { initial_delay: seconds(30), ..timing() });
    let mut checks = fresh(timings, start);
    assert_eq!(Kind::ALL.map(|kind| checks.due(kind)), [Some(start), None, None]);
    let later = start + seconds(20);
    let health = run(&mut checks, Kind::Startup, Answer::Success, later);
    assert_eq!(health, Health { started: true, ready: false, failed: None });
    let due = [None, Some(later), Some(start + seconds(30))];
    assert_eq!(Kind::ALL.map(|kind| checks.due(kind)), due, "startup is never asked again");
}

#[test]
fn a_container_that_does_not_start_is_condemned() {
    let now = now();
    let mut checks = fresh(with(&Kind::ALL), now);
    for failed in [None, None, Some(Kind::Startup)] {
        assert_eq!(run(&mut checks, Kind::Startup, Answer::Failure, now).failed, failed);
    }
    assert_eq!(Kind::ALL.map(|kind| checks.due(kind)), [None; 3]);
}

#[test]
fn a_terminating_pod_is_only_asked_whether_it_is_ready() {
    let now = now();
    let mut checks = fresh(with(&Kind::ALL), now);
    checks.terminate(now);
    assert_eq!(Kind::ALL.map(|kind| checks.due(kind)), [None, Some(now), None]);
    assert!(!checks.health().ready);
    assert!(run(&mut checks, Kind::Readiness, Answer::Success, now).ready);
    // Nothing is killed for what it said before.
    let mut checks = fresh(with(&[Kind::Liveness]), now);
    for _ in 0..3 {
        run(&mut checks, Kind::Liveness, Answer::Failure, now);
    }
    checks.terminate(now);
    assert_eq!(checks.health().failed, None);
}

#[test]
fn a_container_that_outlived_an_agent_stays_as_it_was() {
    let now = now();
    let old = |before| Checks::new(with(&Kind::ALL), seconds(100), now, Some(before), |period| period / 2);
    let mut checks = old(Before { started: true, ready: true });
    assert_eq!(checks.health(), Health { started: true, ready: true, failed: None });
    let due = Some(now + seconds(5));
    assert_eq!(Kind::ALL.map(|kind| checks.due(kind)), [None, due, due], "not all containers at once");
    for ready in [true, true, false] {
        assert_eq!(run(&mut checks, Kind::Readiness, Answer::Failure, now).ready, ready);
    }
    assert!(!old(Before { started: true, ready: false }).health().ready);
    assert!(!old(Before { started: false, ready: true }).health().started);
}

#[test]
fn a_change_of_the_pod_hurries_what_is_not_ready() {
    let start = now();
    let mut checks = fresh(with(&[Kind::Readiness]), start);
    run(&mut checks, Kind::Readiness, Answer::Failure, start);
    let soon = start + seconds(1);
    checks.hurry(soon);
    assert_eq!(checks.due(Kind::Readiness), Some(soon));
    run(&mut checks, Kind::Readiness, Answer::Success, soon);
    checks.hurry(soon);
    assert_eq!(checks.due(Kind::Readiness), Some(soon + seconds(10)));
}
