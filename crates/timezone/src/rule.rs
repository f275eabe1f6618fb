//! The rule for years to come: `CET-1CEST,M3.5.0,M10.5.0/3`.

use object::time::{civil_from_days, days_from_civil};

/// Standard time, and summer time between two days of every year.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    standard: i64,
    summer: Option<Summer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Summer {
    offset: i64,
    start: Change,
    end: Change,
}

/// A day of the year and the local second of the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    day: Day,
    second: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Day {
    /// From 1, never counting 29 February.
    WithoutLeap(i64),
    /// From 0.
    OfYear(i64),
    /// A weekday's occurrence in a month, the fifth being the last.
    Weekday { month: i64, week: i64, day: i64 },
}

impl Rule {
    pub(super) fn parse(text: &str) -> Option<Rule> {
        let (standard, rest) = signed_time(name(text)?)?;
        if rest.is_empty() {
            return Some(Rule { standard: -standard, summer: None });
        }
        let rest = name(rest)?;
        let (offset, rest) = match rest.starts_with(',') {
            true => (3600 - standard, rest),
            false => signed_time(rest).map(|(offset, rest)| (-offset, rest))?,
        };
        let (start, end) = rest.strip_prefix(',')?.split_once(',')?;
        let summer = Summer { offset, start: Change::parse(start)?, end: Change::parse(end)? };
        Some(Rule { standard: -standard, summer: Some(summer) })
    }

    pub(super) fn offset(&self, seconds: i64) -> i64 {
        let Some(summer) = &self.summer else { return self.standard };
        let (year, ..) = civil_from_days((seconds + self.standard).div_euclid(86_400));
        // Each change is at a time of the clock it ends.
        let start = summer.start.seconds(year) - self.standard;
        let end = summer.end.seconds(year) - summer.offset;
        let in_summer =
            if start < end { (start..end).contains(&seconds) } else { !(end..start).contains(&seconds) };
        if in_summer { summer.offset } else { self.standard }
    }
}

impl Change {
    fn parse(text: &str) -> Option<Change> {
        let (day, second) = match text.split_once('/') {
            Some((day, time)) => (day, signed_time(time).filter(|(_, rest)| rest.is_empty())?.0),
            None => (text, 7200),
        };
        let number = |text: &str| text.parse::<i64>().ok();
        let day = match day.split_at_checked(1)? {
            ("M", rest) => {
                let mut parts = rest.split('.').map(number);
                Day::Weekday { month: parts.next()??, week: parts.next()??, day: parts.next()?? }
            }
            ("J", rest) => Day::WithoutLeap(number(rest)?),
            _ => Day::OfYear(number(day)?),
        };
        Some(Change { day, second })
    }

    /// Since 1970, as the local clock counts.
    fn seconds(&self, year: i64) -> i64 {
        let day = match self.day {
            Day::OfYear(day) => days_from_civil(year, 1, 1) + day,
            Day::WithoutLeap(day) => {
                let leap = days_from_civil(year, 3, 1) - days_from_civil(year, 2, 1) == 29;
                days_from_civil(year, 1, 1) + day - 1 + i64::from(leap && day >= 60)
            }
            Day::Weekday { month, week, day } => {
                let first = days_from_civil(year, month, 1);
                let next = if month == 12 {
                    days_from_civil(year + 1, 1, 1)
                } else {
                    days_from_civil(year, month + 1, 1)
                };
                let mut date = first + (day - (first + 4)).rem_euclid(7) + (week - 1) * 7;
                while date >= next {
                    date -= 7;
                }
                date
            }
        };
        day * 86_400 + self.second
    }
}

/// What follows a zone's abbreviation.
fn name(text: &str) -> Option<&str> {
    match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>').map(|(_, rest)| rest),
        None => Some(text.trim_start_matches(|c: char| c.is_ascii_alphabetic())),
    }
}

/// `[+-]h[:mm[:ss]]` in seconds, and what follows.
fn signed_time(text: &str) -> Option<(i64, &str)> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(digits.len());
    let (time, rest) = digits.split_at(end);
    let mut seconds = 0;
    for (part, unit) in time.split(':').zip([3600, 60, 1]) {
        seconds += part.parse::<i64>().ok()? * unit;
    }
    Some((sign * seconds, rest))
}
