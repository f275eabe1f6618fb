//! Time zones by name.

/// Seconds east of UTC at a time; the error is Go's.
pub(crate) fn offset(zone: &str, _seconds: i64) -> Result<i64, String> {
    match zone {
        "" | "UTC" | "Local" => Ok(0),
        _ => Err(format!("unknown time zone {zone}")),
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
