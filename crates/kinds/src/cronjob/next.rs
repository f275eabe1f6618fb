//! The next time of a schedule: field by field, from months down to seconds, with the steps of the library upstream uses, so that
//! hours that come twice or never are met as upstream meets them.

use object::time::{ZERO_SECONDS, civil_from_days, days_from_civil};
use timezone::Zone;

use super::{Schedule, When};

/// A schedule that meets no day within so many years never does.
const YEARS: i64 = 5;
/// So many steps at most, several times what those years need. Differs from kube-controller-manager: there, a search that comes to
/// a day that a zone left out (30 December 2011 in Samoa) never ends.
const STEPS: usize = 10_000;

impl Schedule {
    /// The first time after `after`, in Unix seconds; [`ZERO_SECONDS`], which is Go's time zero, if there is none.
    pub fn next(&self, after: i64) -> i64 {
        match self.when {
            When::EverySeconds(seconds) => after.saturating_add_unsigned(seconds),
            // The search for a minute that never comes would take every minute of five years.
            When::Fields { minutes: 0, .. } | When::Fields { hours: 0, .. } => ZERO_SECONDS,
            When::Fields { minutes, hours, days, months, weekdays, both_days } => {
                let has = |set: u64, value: i64| set & (1 << value) != 0;
                let day = |time: &Local| {
                    let (day, weekday) = (has(days, time.day), has(weekdays, time.weekday()));
                    if both_days { day && weekday } else { day || weekday }
                };
                let fits = Fits {
                    month: &|time| has(months, time.month),
                    day: &day,
                    hour: &|time| has(hours, time.hour),
                    minute: &|time| has(minutes, time.minute),
                };
                fits.search(Local::at(self.zone, after + 1))
            }
        }
    }
}

type Fit<'a> = &'a dyn Fn(&Local) -> bool;

struct Fits<'a> {
    month: Fit<'a>,
    day: Fit<'a>,
    hour: Fit<'a>,
    minute: Fit<'a>,
}

impl Fits<'_> {
    fn search(&self, mut time: Local) -> i64 {
        let last_year = time.year + YEARS;
        // The first step sets everything below its field to the beginning; the later ones find it there.
        let mut moved = false;
        let mut left = STEPS;
        let mut step = || {
            left = left.saturating_sub(1);
            left > 0
        };
        'again: while step() {
            if time.year > last_year {
                return ZERO_SECONDS;
            }
            while !(self.month)(&time) && step() {
                if !std::mem::replace(&mut moved, true) {
                    time = Local { day: 1, hour: 0, minute: 0, second: 0, ..time }.set();
                }
                time = Local { month: time.month + 1, ..time }.set();
                if time.month == 1 {
                    continue 'again;
                }
            }
            while !(self.day)(&time) && step() {
                if !std::mem::replace(&mut moved, true) {
                    time = Local { hour: 0, minute: 0, second: 0, ..time }.set();
                }
                time = Local { day: time.day + 1, ..time }.set();
                // Where the clocks change at midnight, that is an hour early or late.
                match time.hour {
                    0 => {}
                    1..=12 => time = time.plus(-time.hour * 3600),
                    _ => time = time.plus((24 - time.hour) * 3600),
                }
                if time.day == 1 {
                    continue 'again;
                }
            }
            while !(self.hour)(&time) && step() {
                if !std::mem::replace(&mut moved, true) {
                    time = Local { minute: 0, second: 0, ..time }.set();
                }
                time = time.plus(3600);
                if time.hour == 0 {
                    continue 'again;
                }
            }
            while !(self.minute)(&time) && step() {
                if !std::mem::replace(&mut moved, true) {
                    time = time.plus(-time.unix.rem_euclid(60));
                }
                time = time.plus(60);
                if time.minute == 0 {
                    continue 'again;
                }
            }
            while time.second != 0 {
                moved = true;
                time = time.plus(1);
                if time.second == 0 {
                    continue 'again;
                }
            }
            // Out of steps, the fields above were left as they are.
            return if step() { time.unix } else { ZERO_SECONDS };
        }
        ZERO_SECONDS
    }
}

/// A time, and what the clocks of a zone show then.
#[derive(Clone, Copy)]
struct Local {
    zone: Zone,
    unix: i64,
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Local {
    fn at(zone: Zone, unix: i64) -> Local {
        let local = unix + zone.offset(unix);
        let (year, month, day) = civil_from_days(local.div_euclid(86_400));
        let second = local.rem_euclid(86_400);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        Local { zone, unix, year, month, day, hour, minute, second }
    }

    /// The time at which the clocks show these fields. A month or a day too many is one of the next year or month.
    fn set(self) -> Local {
        let (year, month) = (self.year + (self.month - 1) / 12, (self.month - 1) % 12 + 1);
        let days = days_from_civil(year, month, self.day);
        let local = days * 86_400 + self.hour * 3600 + self.minute * 60 + self.second;
        Local::at(self.zone, self.zone.unix(local))
    }

    fn plus(&self, seconds: i64) -> Local {
        Local::at(self.zone, self.unix + seconds)
    }

    /// 0 is Sunday; 1970 began on a Thursday.
    fn weekday(&self) -> i64 {
        (days_from_civil(self.year, self.month, self.day) + 4).rem_euclid(7)
    }
}
