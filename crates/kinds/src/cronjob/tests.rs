//! Schedules held against recorded answers of the library upstream computes them with.

use object::time::ZERO_SECONDS;

use super::Schedule;

/// A schedule and a time, then the seconds to each next time: `cron/v3`'s own, with Go's time zones.
const RECORDED: &str = include_str!("next.tsv");

#[test]
fn next_times_are_those_of_the_library_upstream_uses() {
    let (mut facts, mut wrong) = (0, Vec::new());
    for line in RECORDED.lines() {
        let mut parts = line.split('\t');
        let text = parts.next().unwrap();
        let mut time: i64 = parts.next().unwrap().parse().unwrap();
        let schedule = Schedule::parse(text).unwrap();
        for seconds in parts {
            let expected = time + seconds.parse::<i64>().unwrap();
            let next = schedule.next(time);
            if next != expected {
                wrong.push(format!("{text:?} after {time} is {next}, not {expected}"));
            }
            time = expected;
            facts += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {facts}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(facts > 5000, "{facts} facts");
}

#[test]
fn a_schedule_that_never_comes_ends_at_time_zero() {
    for never in ["59 23 31 2 *", ", * * * *", "* , * * *", "* * , * ,", "* * * , *"] {
        assert_eq!(Schedule::parse(never).unwrap().next(1_700_000_000), ZERO_SECONDS, "{never}");
    }
}

#[test]
fn intervals_count_from_the_last_time() {
    let every = Schedule::parse("@every 90s").unwrap();
    assert_eq!(every.next(1_700_000_007), 1_700_000_097);
    assert_eq!(Schedule::parse("TZ=Asia/Tokyo @every 1h").unwrap().next(5), 3605);
}
