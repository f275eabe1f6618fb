//! Versions as github.com/blang/semver reads and orders them.

use std::cmp::Ordering;
use std::fmt;

use super::super::quote::quote;

/// The value of `semver()`.
#[derive(Clone, Debug)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    prerelease: Vec<Identifier>,
    /// Does not count for order and equality.
    build: Vec<String>,
}

/// A part of a prerelease. Numbers come before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl Version {
    pub fn parse(text: &str) -> Result<Version, String> {
        if text.is_empty() {
            return Err(String::from("Version string empty"));
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else {
            return Err(String::from("No Major.Minor.Patch elements found"));
        };
        let major = number(major, "major", "Major")?;
        let minor = number(minor, "minor", "Minor")?;
        let (rest, build) = split_at(rest, '+');
        let (patch, prerelease) = split_at(rest, '-');
        let patch = number(patch, "patch", "Patch")?;
        let prerelease = prerelease.map(identifier).collect::<Result<_, _>>()?;
        let build = build.map(build_identifier).collect::<Result<_, _>>()?;
        Ok(Version { major, minor, patch, prerelease, build })
    }

    /// Takes a `v` before it, leading zeros, and a version without its last numbers.
    pub fn parse_normalised(text: &str) -> Result<Version, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err(String::from("short version cannot contain PreRelease/Build meta data"));
        }
        parts.resize(3, String::from("0"));
        Version::parse(&parts.join("."))
    }

    /// The order of versions; those that differ in their build only are equal.
    pub fn precedence(&self, other: &Version) -> Ordering {
        let numbers = |version: &Version| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            // A version comes after all its prereleases.
            match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (false, false) => self.prerelease.cmp(&other.prerelease),
                (none, other_none) => none.cmp(&other_none),
            }
        })
    }
}

/// What stands before the first separator, and the identifiers behind it.
fn split_at(text: &str, separator: char) -> (&str, impl Iterator<Item = &str>) {
    let (before, after) = match text.split_once(separator) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    };
    (before, after.into_iter().flat_map(|after| after.split('.')))
}

fn without_leading_zeros(part: &str) -> String {
    match part.trim_start_matches('0') {
        _ if part.len() < 2 => part.to_owned(),
        rest if rest.starts_with(|c: char| c.is_ascii_digit()) => rest.to_owned(),
        rest => format!("0{rest}"),
    }
}

fn number(text: &str, name: &str, title: &str) -> Result<u64, String> {
    if !is_number(text) {
        return Err(format!("Invalid character(s) found in {name} number {}", quote(text.as_bytes())));
    }
    if has_leading_zero(text) {
        return Err(format!("{title} number must not contain leading zeroes {}", quote(text.as_bytes())));
    }
    parse_uint(text)
}

fn identifier(text: &str) -> Result<Identifier, String> {
    let quoted = || quote(text.as_bytes());
    if text.is_empty() {
        return Err(String::from("Prerelease is empty"));
    }
    if !is_number(text) {
        return match is_word(text) {
            true => Ok(Identifier::Word(text.to_owned())),
            false => Err(format!("Invalid character(s) found in prerelease {}", quoted())),
        };
    }
    if has_leading_zero(text) {
        let message = "Numeric PreRelease version must not contain leading zeroes";
        return Err(format!("{message} {}", quoted()));
    }
    parse_uint(text).map(Identifier::Number)
}

fn build_identifier(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err(String::from("Build meta data is empty"));
    }
    if !is_word(text) {
        return Err(format!("Invalid character(s) found in build meta data {}", quote(text.as_bytes())));
    }
    Ok(text.to_owned())
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|c| c.is_ascii_digit())
}
fn is_word(text: &str) -> bool {
    text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
}
fn has_leading_zero(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

/// Of digits, in Go's words.
fn parse_uint(digits: &str) -> Result<u64, String> {
    let problem = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
    let message = |_| format!("strconv.ParseUint: parsing {}: {problem}", quote(digits.as_bytes()));
    digits.parse().map_err(message)
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (i, part) in self.prerelease.iter().enumerate() {
            f.write_str(if i == 0 { "-" } else { "." })?;
            match part {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Word(word) => f.write_str(word)?,
            }
        }
        for (i, part) in self.build.iter().enumerate() {
            write!(f, "{}{part}", if i == 0 { "+" } else { "." })?;
        }
        Ok(())
    }
}
