//! Durations for people: two or three significant figures, `5m30s`, `3h`, `12d`.

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// A scale is used for durations below its end; its second unit is shown where one is given and not zero.
struct Scale {
    below: i64,
    unit: (i64, char),
    rest: Option<(i64, char)>,
}

const fn scale(below: i64, unit: (i64, char), rest: Option<(i64, char)>) -> Scale {
    Scale { below, unit, rest }
}

const SCALES: [Scale; 9] = [
    scale(2 * MINUTE, (1, 's'), None),
    scale(10 * MINUTE, (MINUTE, 'm'), Some((1, 's'))),
    scale(3 * HOUR, (MINUTE, 'm'), None),
    scale(8 * HOUR, (HOUR, 'h'), Some((MINUTE, 'm'))),
    scale(2 * DAY, (HOUR, 'h'), None),
    scale(8 * DAY, (DAY, 'd'), Some((HOUR, 'h'))),
    scale(2 * YEAR, (DAY, 'd'), None),
    scale(8 * YEAR, (YEAR, 'y'), Some((DAY, 'd'))),
    scale(i64::MAX, (YEAR, 'y'), None),
];

/// The time from a moment to now, both in Unix seconds. Now is cut to the second, so a moment ahead is nearer than it
/// seems: Go, which rounds towards zero, sees a second less.
pub fn age(then: i64, now: i64) -> String {
    let seconds = now.saturating_sub(then);
    human_duration(if seconds < 0 { seconds + 1 } else { seconds })
}

/// As kubectl prints durations. A second in the future is clock skew; more is `<invalid>`.
pub fn human_duration(seconds: i64) -> String {
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let at = SCALES.iter().position(|s| seconds < s.below).unwrap_or(SCALES.len() - 1);
    let Scale { unit: (size, letter), rest, .. } = &SCALES[at];
    let whole = seconds / size;
    match rest {
        Some((part_size, part)) if seconds % size >= *part_size => {
            format!("{whole}{letter}{}{part}", seconds % size / part_size)
        }
        _ => format!("{whole}{letter}"),
    }
}
