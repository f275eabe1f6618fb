//! Zones by name, and the times of their clocks.

use super::*;

fn offset(zone: &str, unix: i64) -> Result<i64, String> {
    Zone::load(zone).map(|zone| zone.offset(unix))
}

/// 2024-07-01T00:00:00Z and 2024-01-01T00:00:00Z.
const SUMMER: i64 = 1_719_792_000;
const WINTER: i64 = 1_704_067_200;

#[test]
fn zones_have_their_offsets_in_summer_and_winter() {
    for (zone, summer, winter) in [
        ("UTC", 0, 0),
        ("Europe/Berlin", 7200, 3600),
        ("America/New_York", -14_400, -18_000),
        ("Asia/Kolkata", 19_800, 19_800),
        ("Australia/Sydney", 36_000, 39_600),
        ("Europe/Dublin", 3600, 0),
        ("America/St_Johns", -9000, -12_600),
    ] {
        assert_eq!(offset(zone, SUMMER), Ok(summer), "{zone}");
        assert_eq!(offset(zone, WINTER), Ok(winter), "{zone}");
    }
}

#[test]
fn history_and_future_are_known() {
    // Before Berlin had a standard time, and long after the last change on record.
    assert_eq!(offset("Europe/Berlin", -3_000_000_000), Ok(3208));
    assert_eq!(offset("Europe/Berlin", 4_010_000_000), Ok(3600));
    // The change of 2024: an hour at once.
    assert_eq!(offset("Europe/Berlin", 1_711_846_799), Ok(3600));
    assert_eq!(offset("Europe/Berlin", 1_711_846_800), Ok(7200));
}

#[test]
fn names_are_go_names() {
    assert_eq!(offset("europe/berlin", 0), Err(String::from("unknown time zone europe/berlin")));
    assert_eq!(offset("../etc", 0), Err(String::from("time: invalid location name")));
}

#[test]
fn a_local_time_that_comes_twice_or_never_is_the_one_go_chooses() {
    let berlin = Zone::load("Europe/Berlin").unwrap();
    // 2024-03-31: half past two never comes, Go says half past three.
    assert_eq!(berlin.unix(1_711_852_200), 1_711_848_600);
    // 2024-10-27: half past two comes twice, Go says the second.
    assert_eq!(berlin.unix(1_729_996_200), 1_729_992_600);
    assert_eq!(Zone::UTC.unix(1_729_996_200), 1_729_996_200);
}
