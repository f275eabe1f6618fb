//! The order of names in written YAML: natural order, `a2` before `a10`.

use std::cmp::Ordering;

/// Sorts by upstream's comparison. That comparison has cycles (`12a` < `1a` < `2` < `12a`), on which the standard
/// sorts may panic; a merge sort of our own always ends.
pub(super) fn sort<T>(items: &mut [T], name: impl Fn(&T) -> &str)
where
    T: Copy,
{
    let mut width = 1;
    let mut from = items.to_vec();
    while width < items.len() {
        for (start, chunk) in items.chunks_mut(width * 2).enumerate() {
            let start = start * width * 2;
            let middle = (start + width).min(from.len());
            let end = start + chunk.len();
            let (mut left, mut right) = (&from[start..middle], &from[middle..end]);
            for slot in chunk {
                let take_right = match (left.first(), right.first()) {
                    (Some(l), Some(r)) => compare(name(r), name(l)) == Ordering::Less,
                    (None, _) => true,
                    _ => false,
                };
                let side = if take_right { &mut right } else { &mut left };
                if let Some((first, rest)) = side.split_first() {
                    *slot = *first;
                    *side = rest;
                }
            }
        }
        from.copy_from_slice(items);
        width *= 2;
    }
}

fn compare(a: &str, b: &str) -> Ordering {
    // The bytes before the first difference are equal, so it lies at the same place in both.
    let (mut left, mut right) = (a.char_indices(), b.char_indices());
    loop {
        match (left.next(), right.next()) {
            (Some((at, x)), Some((_, y))) => {
                if x != y {
                    return compare_at(a, b, at, x, y);
                }
            }
            (None, None) => return Ordering::Equal,
            (None, _) => return Ordering::Less,
            (_, None) => return Ordering::Greater,
        }
    }
}

/// `x` and `y` differ at `at`: other characters before letters, numbers by their value.
fn compare_at(a: &str, b: &str, at: usize, x: char, y: char) -> Ordering {
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x.cmp(&y),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // Digits already passed make zeros count: 100 and 11 differ at the second digit, but 100 is greater.
    let within_number = (x == '0' || y == '0')
        && a[..at].bytes().rev().take_while(u8::is_ascii_digit).any(|digit| digit != b'0');
    let start = i64::from(within_number);
    let run = |text: &str| {
        let digits = text[at..].bytes().take_while(u8::is_ascii_digit);
        digits.fold((start, 0usize), |(n, len), digit| {
            (n.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')), len + 1)
        })
    };
    run(a).cmp(&run(b)).then(x.cmp(&y))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_naturally() {
        let mut names = ["b", "a10", "a2", "A", "a", "a-b", "a.b", "ab", "1", "10", "9", "a1b", "a01", "aé"];
        sort(&mut names, |name| name);
        assert_eq!(
            names,
            ["1", "9", "10", "A", "a", "a-b", "a.b", "a1b", "a01", "a2", "a10", "ab", "aé", "b"]
        );
    }

    #[test]
    fn a_comparison_with_cycles_is_survived() {
        let mut names: Vec<&str> = ["12a", "1a", "2"].into_iter().cycle().take(100).collect();
        sort(&mut names, |name| name);
        assert_eq!(names.len(), 100);
    }
}
