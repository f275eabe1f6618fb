//! Differences that are meant: which cases, where, and why. A line that matches nothing is told.
//!
//! ```text
//! WHERE <tab> CASE <tab> FIELD <tab> reason
//! ```
//! In CASE and FIELD a `*` stands for any text. WHERE is `live`, `recorded` or `both`: a live run sends more requests than
//! are recorded, and sees whole bodies where a recording holds a hash. A line for the other one is not read. `chance` is for
//! both, and for what one run shows and the next one does not; `live chance` for live runs alone.

use crate::error::DiffError;

const BUILT_IN: &str = include_str!("../data/explained.tsv");
const ADMISSION: &str = include_str!("../data/explained-admission.tsv");

/// What is compared with ours: a server, or the answers it gave once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    Live,
    Recorded,
}

impl Against {
    fn concerns(self, word: &str) -> Option<bool> {
        match word {
            "both" | CHANCE => Some(true),
            "live" | LIVE_CHANCE => Some(self == Against::Live),
            "recorded" => Some(self == Against::Recorded),
            _ => None,
        }
    }
}

const CHANCE: &str = "chance";
const LIVE_CHANCE: &str = "live chance";

#[derive(Debug)]
pub struct Explained {
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    case: String,
    place: String,
    reason: String,
    by_chance: bool,
    matched: usize,
}

impl Explained {
    pub fn built_in(against: Against) -> Result<Explained, DiffError> {
        Explained::read(BUILT_IN, against)
    }

    /// Those of cases about admission.
    pub fn of_admission(against: Against) -> Result<Explained, DiffError> {
        Explained::read(ADMISSION, against)
    }

    pub fn read(text: &str, against: Against) -> Result<Explained, DiffError> {
        let mut lines = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let parts: Vec<&str> = line.split('\t').collect();
            let wrong =
                |problem: &str| DiffError::Explained { line: number + 1, problem: problem.to_owned() };
            let [here, case, place, reason] = parts[..] else {
                return Err(wrong("it is not where, case, place and reason with tabs between"));
            };
            if !against
                .concerns(here)
                .ok_or_else(|| wrong("it begins with none of live, recorded, both, chance and live chance"))?
            {
                continue;
            }
            lines.push(Line {
                case: case.into(),
                place: place.into(),
                reason: reason.into(),
                by_chance: matches!(here, CHANCE | LIVE_CHANCE),
                matched: 0,
            });
        }
        Ok(Explained { lines })
    }

    /// The reason for a difference, when there is one.
    pub fn reason(&mut self, case: &str, place: &str) -> Option<&str> {
        let line = self.lines.iter_mut().find(|l| fits(&l.case, case) && fits(&l.place, place))?;
        line.matched += 1;
        Some(&line.reason)
    }

    /// Lines that explained nothing.
    pub fn idle(&self) -> impl Iterator<Item = String> {
        self.lines
            .iter()
            .filter(|l| l.matched == 0 && !l.by_chance)
            .map(|l| format!("{}\t{}", l.case, l.place))
    }
}

/// Whether `text` is the pattern, in which `*` stands for anything.
pub fn fits(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(start) else { return false };
    let pieces: Vec<&str> = rest.split('*').collect();
    let (last, middle) = pieces.split_last().expect("split gives at least one piece");
    for piece in middle {
        match left.find(piece) {
            Some(at) => left = &left[at + piece.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_text() {
        for (pattern, text, fit) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abde", false),
            ("a*a", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, text), fit, "{pattern} {text}");
        }
    }

    #[test]
    fn unused_lines_are_reported() {
        let text = "# why\nboth\tv1 *\tstatus\tmeant\nboth\tx\ty\tz\nchance\tx\tz\ty\n";
        let mut explained = Explained::read(text, Against::Live).unwrap();
        assert_eq!(explained.reason("v1 pods life get", "status"), Some("meant"));
        assert_eq!(explained.reason("v1 pods life get", "kind"), None);
        assert_eq!(explained.idle().collect::<Vec<_>>(), ["x\ty"]);
    }

    #[test]
    fn of_a_recording_no_other_calls_are_forgiven() {
        let mut explained = Explained::of_admission(Against::Recorded).unwrap();
        for place in ["calls", "calls (repeated)"] {
            assert_eq!(explained.reason("admission rules 00 / cm create", place), None, "{place}");
        }
        let mut explained = Explained::of_admission(Against::Live).unwrap();
        assert_eq!(explained.reason("admission rules 00 / cm create", "calls"), None);
    }

    #[test]
    fn lines_for_the_other_kind_of_run_are_not_read() {
        let text = "live\ta\tb\tc\nrecorded\td\te\tf\nlive chance\tg\th\ti\n";
        let idle = |against| Explained::read(text, against).unwrap().idle().collect::<Vec<_>>();
        assert_eq!(
            (idle(Against::Live), idle(Against::Recorded)),
            (vec!["a\tb".into()], vec!["d\te".into()])
        );
        for (against, reason) in [(Against::Live, Some("i")), (Against::Recorded, None)] {
            assert_eq!(Explained::read(text, against).unwrap().reason("g", "h"), reason);
        }
        for wrong in ["a\tb\tc\n", "sometimes\ta\tb\tc\n"] {
            assert!(Explained::read(wrong, Against::Live).is_err(), "{wrong}");
        }
    }
}
