use crate::library::testing::{answers, costs};

#[test]
fn order_sum_and_extremes() {
    answers(&[
        ("[1, 2, 2].isSorted()", "true"),
        ("['b', 'a'].isSorted()", "false"),
        ("[].isSorted()", "true"),
        // Nothing is less or greater than NaN.
        ("[2.0, double('NaN'), 1.0].isSorted()", "true"),
        ("[1, 2].sum()", "3"),
        ("[1u].sum()", "1"),
        ("[duration('1m'), duration('1s')].sum()", "1m1s"),
        ("[].sum()", "0"),
        ("[9223372036854775807, 1].sum()", "integer overflow"),
        ("[dyn(2), dyn(1u)].sum()", "no such overload"),
        ("[3, 1, 2].min()", "1"),
        ("['a', 'c', 'b'].max()", "c"),
        ("[dyn(2), dyn(1u)].min()", "1"),
        ("[].min()", "min called on empty list"),
        ("[].max()", "max called on empty list"),
    ]);
}

#[test]
fn elements_are_found_by_equality() {
    answers(&[
        ("[1, 2, 2, 3].indexOf(2)", "1"),
        ("[1, 2, 2, 3].lastIndexOf(2)", "2"),
        ("[dyn(1)].indexOf(dyn(1.0))", "0"),
        ("[[1], [2]].indexOf([2])", "1"),
        ("['a'].indexOf('b')", "-1"),
        ("[].lastIndexOf('b')", "-1"),
    ]);
}

/// The whole receiver is read, texts a tenth of their bytes, rounded down each.
#[test]
fn costs_follow_from_the_receiver() {
    costs(&[
        ("[1, 2, 3].sum()", 3),
        ("['0123456789', 'short'].max()", 1),
        ("[[1], [2, 3]].indexOf([4])", 3),
        ("'0123456789abcdefghij'.indexOf('a')", 2),
    ]);
}

/// A value that holds another one twice, and that one twice, and so on: a few characters make more elements than there are atoms.
#[test]
fn cost_of_shared_elements_is_bounded() {
    let doubled = ".map(x, [x, x])".repeat(40);
    costs(&[(&format!("[['']]{doubled}.indexOf([])"), u64::MAX)]);
}
