use crate::library::testing::{answers, costs};

#[test]
fn lists_compare_as_sets() {
    answers(&[
        ("sets.contains([1, 2, 3], [2, 3, 3])", "true"),
        ("sets.contains([1], [1, 2])", "false"),
        ("sets.contains([], [])", "true"),
        ("sets.contains([dyn(1), dyn(2.0)], [dyn(1.0), dyn(2u)])", "true"),
        ("sets.equivalent([1, 1], [1])", "true"),
        ("sets.equivalent([1], [1, 2])", "false"),
        ("sets.intersects([[1], [2, 3]], [[2, 3]])", "true"),
        ("sets.intersects([1], [])", "false"),
    ]);
}

#[test]
fn cost_is_the_comparisons_there_could_be() {
    costs(&[
        ("sets.contains([1, 2, 3], [1, 2])", 7),
        ("sets.intersects([1, 2, 3], [1, 2])", 7),
        ("sets.equivalent([1, 2, 3], [1, 2])", 13),
        ("sets.contains([], [1])", 1),
    ]);
}

/// What nobody may pay for is not worked out first.
#[test]
fn long_lists_are_not_compared() {
    let many = crate::Val::list(vec![crate::Val::Int(1); 100_000]);
    let error = super::contains(&[many.clone(), many]).unwrap_err();
    assert_eq!(error.text(), "operation cancelled: actual cost limit exceeded");
}
