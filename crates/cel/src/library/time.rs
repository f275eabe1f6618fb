//! Parts of timestamps and durations.

use timezone::Zone;

use crate::error::Error;
use crate::function::{Function, Overload};
use crate::types::Type::{self, Int, String};
use crate::value::{Timestamp, Val};

/// What a clock and a calendar show somewhere.
struct Civil {
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    day_of_week: i64,
    second_of_day: i64,
    nanos: u32,
}

impl Civil {
    fn new(time: Timestamp, offset: i64) -> Civil {
        let local = time.seconds + offset;
        let days = local.div_euclid(86_400);
        let (year, month, day) = object::time::civil_from_days(days);
        Civil {
            year,
            month,
            day,
            day_of_year: days - object::time::days_from_civil(year, 1, 1),
            // 1970 began on a Thursday.
            day_of_week: (days + 4).rem_euclid(7),
            second_of_day: local.rem_euclid(86_400),
            nanos: time.nanos,
        }
    }
}

/// Seconds east of UTC of a zone or an offset (`-02:30`) at that time.
fn offset(time: Timestamp, zone: &str) -> Result<i64, Error> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return Zone::load(zone).map(|zone| zone.offset(time.seconds)).map_err(Error::new);
    };
    let number = |text: &str| go_atoi(text).map_err(Error::new);
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let total = if zone.starts_with('-') {
        hours.wrapping_mul(60).wrapping_sub(minutes)
    } else {
        hours.wrapping_mul(60).wrapping_add(minutes)
    };
    Ok(total.wrapping_mul(60).clamp(-1 << 40, 1 << 40))
}

/// Go's `strconv.Atoi`, with its error.
fn go_atoi(text: &str) -> Result<i64, std::string::String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let failed = |why: &str| Err(format!("strconv.Atoi: parsing {text:?}: {why}"));
    if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return failed("invalid syntax");
    }
    text.parse().or_else(|_| failed("value out of range"))
}

macro_rules! part {
    ($name:literal, $utc:literal, $zoned:literal, $get:expr $(, $duration:literal, $of_duration:expr)?) => {{
        fn get(civil: &Civil) -> i64 {
            let get: fn(&Civil) -> i64 = $get;
            get(civil)
        }
        Function::new($name, vec![
            Overload::member($utc, [Type::Timestamp], Int, |args| match &args[0] {
                Val::Timestamp(time) => Ok(Val::Int(get(&Civil::new(*time, 0)))),
                _ => Err(Error::no_such_overload()),
            }),
            Overload::member($zoned, [Type::Timestamp, String], Int, |args| match (&args[0], &args[1]) {
                (Val::Timestamp(time), Val::Str(zone)) => {
                    Ok(Val::Int(get(&Civil::new(*time, offset(*time, zone)?))))
                }
                _ => Err(Error::no_such_overload()),
            }),
            $(Overload::member($duration, [Type::Duration], Int, |args| match &args[0] {
                Val::Duration(nanos) => {
                    let of_duration: fn(i64) -> i64 = $of_duration;
                    Ok(Val::Int(of_duration(*nanos)))
                }
                _ => Err(Error::no_such_overload()),
            }),)?
        ])
    }};
}

pub(super) fn functions() -> Vec<Function> {
    vec![
        part!("getFullYear", "timestamp_to_year", "timestamp_to_year_with_tz", |t| t.year),
        part!("getMonth", "timestamp_to_month", "timestamp_to_month_with_tz", |t| t.month - 1),
        part!("getDayOfYear", "timestamp_to_day_of_year", "timestamp_to_day_of_year_with_tz", |t| t
            .day_of_year),
        part!("getDayOfMonth", "timestamp_to_day_of_month", "timestamp_to_day_of_month_with_tz", |t| t.day
            - 1),
        part!(
            "getDate",
            "timestamp_to_day_of_month_1_based",
            "timestamp_to_day_of_month_1_based_with_tz",
            |t| t.day
        ),
        part!("getDayOfWeek", "timestamp_to_day_of_week", "timestamp_to_day_of_week_with_tz", |t| t
            .day_of_week),
        part!(
            "getHours",
            "timestamp_to_hours",
            "timestamp_to_hours_with_tz",
            |t| t.second_of_day / 3600,
            "duration_to_hours",
            |nanos| nanos / 3_600_000_000_000
        ),
        part!(
            "getMinutes",
            "timestamp_to_minutes",
            "timestamp_to_minutes_with_tz",
            |t| t.second_of_day / 60 % 60,
            "duration_to_minutes",
            |nanos| nanos / 60_000_000_000
        ),
        part!(
            "getSeconds",
            "timestamp_to_seconds",
            "timestamp_to_seconds_tz",
            |t| t.second_of_day % 60,
            "duration_to_seconds",
            |nanos| nanos / 1_000_000_000
        ),
        part!(
            "getMilliseconds",
            "timestamp_to_milliseconds",
            "timestamp_to_milliseconds_with_tz",
            |t| i64::from(t.nanos / 1_000_000),
            "duration_to_milliseconds",
            |nanos| nanos / 1_000_000
        ),
    ]
}
