use crate::library::testing::{answers, costs};

#[test]
fn matches_are_found() {
    answers(&[
        ("'abc 123'.find('[0-9]+')", "123"),
        ("'abc 123'.find('[0-9]*')", ""),
        ("'abc'.find('x')", ""),
        ("'héllo'.find('é.')", "él"),
        ("'123 abc 456'.findAll('[0-9]+')", "[123, 456]"),
        ("'123 abc 456'.findAll('[0-9]+', 1)", "[123]"),
        ("'123'.findAll('[0-9]', 0)", "[]"),
        ("'123'.findAll('[0-9]', -1)", "[1, 2, 3]"),
        // An empty match right behind another match does not count.
        ("'baac'.findAll('a*').size()", "3"),
        ("''.findAll('').size()", "1"),
    ]);
}

/// A constant pattern is compiled with the expression, and then the receiver's type is not looked at: a type counts by its name.
#[test]
fn constant_patterns_take_types() {
    answers(&[
        ("dyn(type(1)).find('i.')", "in"),
        ("dyn(1).find('i')", "no such overload"),
        ("dyn(1).findAll('i')", "no such overload"),
        ("'a'.findAll('a', dyn('x'))", "no such overload"),
    ]);
}

#[test]
fn costs_are_the_text_times_the_pattern() {
    costs(&[
        ("'0123456789'.find('[0-9]+')", 4),
        ("''.find('[0-9]+')", 2),
        ("'0123456789'.findAll('x', 1)", 2),
    ]);
}
