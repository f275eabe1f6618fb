use crate::library::testing::{answers, costs, estimates};
use crate::value::Val;

#[test]
fn parts_and_orders() {
    answers(&[
        ("[1, 2, 3, 4].slice(1, 3)", "[2, 3]"),
        ("[1].slice(1, 1)", "[]"),
        ("[1].slice(-1, 1)", "cannot slice(-1, 1), negative indexes not supported"),
        ("[1].slice(1, 0)", "cannot slice(1, 0), start index must be less than or equal to end index"),
        ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
        ("[1, 2].reverse()", "[2, 1]"),
        ("lists.range(3)", "[0, 1, 2]"),
        ("lists.range(-3)", "[]"),
        ("[dyn(1), dyn(1.0), dyn('a'), dyn(null), dyn(null)].distinct()", "[1, a, 0]"),
    ]);
}

#[test]
fn flatten_stops_at_a_depth() {
    answers(&[
        ("[[1], [2, 3], []].flatten()", "[1, 2, 3]"),
        ("[[[1]]].flatten()", "[[1]]"),
        ("[[[1]]].flatten(2)", "[1]"),
        ("[[1]].flatten(0)", "[[1]]"),
        ("[[1]].flatten(-1)", "level must be non-negative"),
        ("dyn([1]).flatten()", "[1]"),
        ("dyn({}).flatten()", "no such overload: map(dyn, dyn).flatten()"),
        (
            "dyn([1]).flatten(dyn('a'))",
            "internal error: interface conversion: ref.Val is types.String, not types.Int",
        ),
    ]);
}

#[test]
fn sorting_needs_one_comparable_type() {
    answers(&[
        ("[3, 1, 2].sort()", "[1, 2, 3]"),
        ("['b', 'a'].sort()", "[a, b]"),
        ("[2.0, double('NaN'), 1.0].sort()", "[2, NaN, 1]"),
        ("[['b', '2'], ['a', '1']].sortBy(x, x[1])", "[[a, 1], [b, 2]]"),
        ("[dyn(1), dyn('a')].sort()", "list elements must have the same type"),
        ("[dyn([1]), dyn([2])].sort()", "list elements must be comparable"),
        ("dyn(1).sort()", "no such overload: sort"),
        ("dyn('a').sort()", "no such overload"),
        (
            "dyn(1).distinct()",
            "internal error: interface conversion: types.Int is not traits.Lister: missing method Contains",
        ),
    ]);
}

/// Upstream's order of elements with equal keys, recorded.
#[test]
fn equal_keys_come_in_the_order_go_leaves_them_in() {
    let order = |keys: &[i64]| {
        let keys: Vec<Val<'_>> = keys.iter().map(|key| Val::Int(*key)).collect();
        super::sort::order_of(&keys)
    };
    let few: Vec<i64> = (0..12).map(|i| i % 3).collect();
    assert_eq!(order(&few), [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11], "stable up to twelve");
    let keys: Vec<i64> = (0..20).map(|i| i % 7).collect();
    let recorded = [14, 0, 7, 1, 15, 8, 9, 2, 16, 10, 3, 17, 11, 4, 18, 12, 5, 19, 6, 13];
    assert_eq!(order(&keys), recorded);
    let keys: Vec<i64> = (0..64).map(|i| i % 7).collect();
    let recorded = [
        56, 28, 49, 21, 63, 42, 0, 7, 14, 35, 8, 57, 50, 43, 1, 15, 22, 29, 36, 9, 37, 2, 16, 23, 51, 58, 44,
        30, 24, 10, 52, 31, 45, 59, 38, 3, 17, 32, 46, 39, 4, 60, 11, 53, 18, 25, 19, 5, 40, 61, 47, 26, 33,
        12, 54, 55, 27, 13, 6, 34, 41, 20, 62, 48,
    ];
    assert_eq!(order(&keys), recorded);
}

/// All patterns the algorithm treats specially, and many lengths: at least the keys are in order.
#[test]
fn keys_are_sorted_whatever_their_pattern() {
    for length in (0..200).chain([1000, 5000]) {
        let n = length as i64;
        let patterns: [&dyn Fn(i64) -> i64; 7] =
            [&|i| i, &|i| n - i, &|_| 1, &|i| i % 5, &|i| (i * 7919) % 1009, &|i| i.min(n - i), &|i| {
                if i % 2 == 0 { i } else { n - i }
            }];
        for pattern in patterns {
            let keys: Vec<Val<'_>> = (0..n).map(|i| Val::Int(pattern(i))).collect();
            let order = super::sort::order_of(&keys);
            let sorted: Vec<i64> = order.iter().map(|&at| pattern(at as i64)).collect();
            assert!(sorted.is_sorted(), "{sorted:?}");
            let mut all = order.clone();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..length), "{order:?}");
        }
    }
}

#[test]
fn costs_are_lengths_and_comparisons() {
    costs(&[
        ("[1, 2, 3].slice(1, 3)", 13),
        ("[1].slice(0, 5) == [] || true", 12),
        ("[1, 2, 3].reverse()", 14),
        ("lists.range(5)", 16),
        ("[[1], [2]].flatten()", 13),
        ("[[1], [2]].flatten(3)", 17),
        // Upstream converts a negative number, and wraps.
        ("[1].flatten(-1) == [] || true", 10),
        ("[1, 2, 3].sort()", 29),
        ("['a', 'b', 'c'].sort()", 29),
        ("['a', 'b', 'c', 'd', 'e'].sort()", 63),
        ("[1, 2, 3].distinct()", 29),
    ]);
    estimates(&[
        ("[1, 2, 3].slice(1, 3)", 23, 23),
        ("[1].slice(1, 0)", u64::MAX, u64::MAX),
        ("lists.range(5)", 16, 16),
        ("[[1], [2]].flatten(3)", 47, 47),
        ("['a', 'b', 'c'].sort()", 40, 40),
        ("[1, 2, 3].distinct()", 39, 39),
    ]);
}

/// What nobody may pay for is not made first, and still costs what it would.
#[test]
fn results_are_bounded() {
    let exceeded = "operation cancelled: actual cost limit exceeded";
    let doubled = ".map(x, [x, x])".repeat(40);
    answers(&[
        ("lists.range(9223372036854775807)", exceeded),
        (&format!("[[0]]{doubled}.flatten(50)"), exceeded),
        ("lists.range(90000).distinct()", exceeded),
    ]);
    costs(&[("lists.range(10000000)", 10_000_011)]);
}
