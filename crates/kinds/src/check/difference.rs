//! What changed between two structs, as upstream's messages show it: a unified diff of their indented JSON.
//!
//! ```text
//! {"A":1,"B":[]} ──indent──> lines ──longest common runs──> changes ──three lines around each──> @@ -1,4 +1,4 @@
//! ```
//! The longest run that both texts share is kept, then the longest ones before and after it, and so on. That does not
//! give the shortest diff, but the one that upstream's library gives.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use object::Value;

use super::internal::{Field, internal_within};

/// A struct that is shown. A pod of twenty containers with a hundred variables each has half of it.
const TEXT_MAX: usize = 512 * 1024;
/// Unchanged lines shown around a change.
const AROUND: usize = 3;
/// From so many lines on, a line that occurs often starts no run.
const POPULAR_FROM: usize = 200;
/// Pairs of equal lines that are compared. The search is quadratic at worst: for texts that need more, the difference is not
/// shown. A pod with everything set needs some ten thousand.
const STEPS_MAX: usize = 2_000_000;

/// What changed between two structs with these fields; empty when nothing did, when they take too long to compare, and where one
/// of them has more than [`TEXT_MAX`] bytes.
// Differs from kube-apiserver: it shows whatever it is, and answers a pod of 25,000 volumes with 44 MB.
pub(crate) fn difference(before: &Value, after: &Value, fields: &[Field]) -> String {
    let shown = |value| internal_within(TEXT_MAX, Some(value), fields);
    match (shown(before), shown(after)) {
        (Some(before), Some(after)) => text_difference(&before, &after),
        _ => String::new(),
    }
}

/// The difference of two compact JSON texts.
fn text_difference(before: &str, after: &str) -> String {
    let (before, after) = (indented(before), indented(after));
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let mut out = String::new();
    let Some(changes) = changes(&before, &after) else { return out };
    for group in groups(&changes, before.len(), after.len()) {
        show(&group, &before, &after, &mut out);
    }
    out
}

/// Lines of the first text that make room for lines of the second; one of the two may be empty.
#[derive(Clone)]
struct Change {
    old: Range<usize>,
    new: Range<usize>,
}

/// Changes that share lines around them, and all the lines shown.
struct Group {
    changes: Vec<Change>,
    shown: Change,
}

/// `None` when they take too long to find.
fn changes(before: &[&str], after: &[&str]) -> Option<Vec<Change>> {
    let mut list = Vec::new();
    let (mut old, mut new) = (0, 0);
    let end = (before.len(), after.len(), 0);
    for (i, j, size) in runs(before, after)?.into_iter().chain([end]) {
        if old < i || new < j {
            list.push(Change { old: old..i, new: new..j });
        }
        (old, new) = (i + size, j + size);
    }
    Some(list)
}

/// Where equal runs begin in both texts, and how long they are; ascending.
fn runs(before: &[&str], after: &[&str]) -> Option<Vec<(usize, usize, usize)>> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (j, line) in after.iter().enumerate() {
        places.entry(line).or_default().push(j);
    }
    if after.len() >= POPULAR_FROM {
        let most = after.len() / 100 + 1;
        places.retain(|_, at| at.len() <= most);
    }
    let mut found = Vec::new();
    let mut steps = STEPS_MAX;
    let mut open = vec![(0..before.len(), 0..after.len())];
    while let Some((old, new)) = open.pop() {
        let (i, j, size) = longest(before, after, &places, (&old, &new), &mut steps)?;
        if size == 0 {
            continue;
        }
        found.push((i, j, size));
        open.push((old.start..i, new.start..j));
        open.push((i + size..old.end, j + size..new.end));
    }
    found.sort_unstable();
    Some(found)
}

/// The longest run within both ranges; of equal ones the first in the first text, then in the second.
fn longest(
    before: &[&str],
    after: &[&str],
    places: &BTreeMap<&str, Vec<usize>>,
    (old, new): (&Range<usize>, &Range<usize>),
    steps: &mut usize,
) -> Option<(usize, usize, usize)> {
    let (mut i, mut j, mut size) = (old.start, new.start, 0);
    // How long the run is that ends in the line before and at this place.
    let mut ending: BTreeMap<usize, usize> = BTreeMap::new();
    for at in old.clone() {
        let mut next = BTreeMap::new();
        let found = places.get(before[at]).map(Vec::as_slice).unwrap_or_default();
        *steps = steps.checked_sub(found.len() + 1)?;
        for &place in found.iter().filter(|place| new.contains(place)) {
            let length = 1 + place.checked_sub(1).and_then(|p| ending.get(&p)).copied().unwrap_or(0);
            next.insert(place, length);
            if length > size {
                (i, j, size) = (at + 1 - length, place + 1 - length, length);
            }
        }
        ending = next;
    }
    // Lines that occur often may still continue it.
    while i > old.start && j > new.start && before[i - 1] == after[j - 1] {
        (i, j, size) = (i - 1, j - 1, size + 1);
    }
    while i + size < old.end && j + size < new.end && before[i + size] == after[j + size] {
        size += 1;
    }
    Some((i, j, size))
}

fn groups(changes: &[Change], old_lines: usize, new_lines: usize) -> Vec<Group> {
    let mut list: Vec<Group> = Vec::new();
    for change in changes {
        let shown = Change {
            old: change.old.start.saturating_sub(AROUND)..(change.old.end + AROUND).min(old_lines),
            new: change.new.start.saturating_sub(AROUND)..(change.new.end + AROUND).min(new_lines),
        };
        let last_end = |group: &Group| group.changes.last().map_or(0, |c| c.old.end);
        match list.last_mut() {
            Some(group) if change.old.start - last_end(group) <= 2 * AROUND => {
                group.shown.old.end = shown.old.end;
                group.shown.new.end = shown.new.end;
                group.changes.push(change.clone());
            }
            _ => list.push(Group { changes: vec![change.clone()], shown }),
        }
    }
    list
}

fn show(group: &Group, before: &[&str], after: &[&str], out: &mut String) {
    let (old, new) = (position(&group.shown.old), position(&group.shown.new));
    let _ = writeln!(out, "@@ -{old} +{new} @@");
    let mut put = |mark: char, lines: &[&str]| {
        for line in lines {
            let _ = writeln!(out, "{mark}{line}");
        }
    };
    let mut next = group.shown.old.start;
    for change in &group.changes {
        put(' ', &before[next..change.old.start]);
        put('-', &before[change.old.clone()]);
        put('+', &after[change.new.clone()]);
        next = change.old.end;
    }
    put(' ', &before[next..group.shown.old.end]);
}

/// `7,3`: from line 7 three lines. An empty range starts at the line before it.
fn position(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => (lines.start + 1).to_string(),
        count => format!("{},{count}", lines.start + 1),
    }
}

/// Compact JSON on lines, one space a level.
fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    let mut chars = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth));
    };
    while let Some(c) = chars.next() {
        if quoted {
            out.push(c);
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '{' | '[' => {
                out.push(c);
                match chars.next_if(|next| matches!(next, '}' | ']')) {
                    Some(close) => out.push(close),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                quoted = c == '"';
                out.push(c);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use codec::json;

    use super::text_difference as difference;
    use crate::check::internal::pod::POD_SPEC;

    #[test]
    fn what_is_shown_of_a_large_struct_is_bounded() {
        // Every volume shows thirty sources that it does not have.
        let pod = |volumes: usize| {
            let volumes: Vec<String> = (0..volumes).map(|i| format!(r#"{{"name":"v{i}"}}"#)).collect();
            let text = format!(r#"{{"volumes":[{}]}}"#, volumes.join(","));
            json::parse(text.as_bytes(), None).unwrap()
        };
        let shown = super::difference(&pod(1), &pod(100), POD_SPEC);
        assert!(shown.contains("v99"), "{shown}");
        assert_eq!(super::difference(&pod(1), &pod(50_000), POD_SPEC), "");
    }

    #[test]
    fn equal_texts_have_no_difference() {
        assert_eq!(difference(r#"{"A":[1,{}]}"#, r#"{"A":[1,{}]}"#), "");
    }

    #[test]
    fn texts_that_are_too_long_are_not_compared() {
        // Neighbours swapped: no run is longer than a line, and each is looked for in all that is left.
        let text = |swap: u32| {
            format!("[{}]", (0..4_000).map(|i: u32| (i ^ swap).to_string()).collect::<Vec<_>>().join(","))
        };
        assert_eq!(difference(&text(0), &text(1)), "");
    }

    #[test]
    fn a_changed_line_has_three_lines_around_it() {
        let text =
            |e: &str| format!(r#"{{"A":1,"B":[],"C":"a,b:{{","D":4,"E":{e},"F":6,"G":7,"H":8,"I":9}}"#);
        let expected = "@@ -3,7 +3,7 @@\n  \"B\": [],\n  \"C\": \"a,b:{\",\n  \"D\": 4,\n- \"E\": 5,\n+ \"E\": \"x\",\n  \"F\": 6,\n  \"G\": 7,\n  \"H\": 8,\n";
        assert_eq!(difference(&text("5"), &text("\"x\"")), expected);
    }

    #[test]
    fn distant_changes_are_separate_hunks() {
        let text =
            |a: i32, z: &str| format!(r#"{{"A":{a},"B":1,"C":2,"D":3,"E":4,"F":5,"G":6,"H":7,"Z":{z}}}"#);
        let shown = difference(&text(0, "null"), &text(1, "[2]"));
        assert_eq!(shown.matches("@@ -").count(), 2, "{shown}");
        assert!(shown.ends_with("@@ -7,5 +7,7 @@\n  \"F\": 5,\n  \"G\": 6,\n  \"H\": 7,\n- \"Z\": null\n+ \"Z\": [\n+  2\n+ ]\n }\n"), "{shown}");
    }
}
