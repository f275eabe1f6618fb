//! Lists of indexes: `1,3-5,7`.

/// How many indexes the text names; they rise and stay below `completions`.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let mut last: Option<i64> = None;
    let mut total = 0;
    for part in text.split(',') {
        let (low, high) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= low) {
            return Err(format!("non-increasing order, previous: {last}, current: {low}"));
        }
        total += high - low + 1;
        last = Some(high);
    }
    Ok(total)
}

/// The first index in both lists. Invalid parts are skipped.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    if completed.is_empty() || failed.is_empty() {
        return None;
    }
    let read = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (completed, failed) = (read(completed), read(failed));
    let (mut c, mut f) = (0, 0);
    while let (Some((c_low, c_high)), Some((f_low, f_high))) = (completed.get(c), failed.get(f)) {
        if c_low <= f_high && f_low <= c_high {
            return Some(*c_low.max(f_low));
        }
        if c_low <= f_low {
            c += 1;
        } else {
            f += 1;
        }
    }
    None
}

fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let number = |text: &str| {
        let error = || format!("cannot convert string to integer for index: {}", object::quote(text));
        let number: i64 = text.parse().map_err(|_| error())?;
        if number >= completions {
            return Err(format!("too large index: {}", object::quote(text)));
        }
        Ok(number)
    };
    let limits: Vec<&str> = part.split('-').collect();
    match limits.as_slice() {
        [one] => number(one).map(|n| (n, n)),
        [low, high] => {
            let (low, high) = (number(low)?, number(high)?);
            if low >= high {
                return Err(format!("non-increasing order, previous: {low}, current: {high}"));
            }
            Ok((low, high))
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            object::quote(part)
        )),
    }
}
