use crate::environment::{EnvironmentSet, Version};
use crate::library::testing::{answers, costs, estimates, refusals};

#[test]
fn positions_count_characters() {
    answers(&[
        ("'héllo'.charAt(1)", "é"),
        ("'a'.charAt(1)", ""),
        ("'a'.charAt(2)", "index out of range: 2"),
        ("'a'.charAt(-1)", "index out of range: -1"),
        ("'日本語😀'.substring(2)", "語😀"),
        ("'日本語😀'.substring(1, 3)", "本語"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("'abc'.substring(0, 4)", "index out of range: 4"),
        ("'abc'.substring(-1, 9)", "index out of range: -1"),
        ("'éabé'.indexOf('é', 1)", "3"),
        ("'éabé'.indexOf('', 99)", "99"),
        ("'abc'.indexOf('c', 99)", "-1"),
        ("'abc'.indexOf('a', -1)", "index out of range: -1"),
        ("'éabéab'.lastIndexOf('ab')", "4"),
        ("'éabéab'.lastIndexOf('ab', 3)", "1"),
        ("'éabéab'.lastIndexOf('ab', 4)", "4"),
        ("'abc'.lastIndexOf('')", "3"),
        ("'abc'.lastIndexOf('a', 3)", "-1"),
        ("'abc'.lastIndexOf('a', -1)", "index out of range: -1"),
        ("''.lastIndexOf('a')", "-1"),
    ]);
}

#[test]
fn texts_are_split_joined_and_replaced() {
    answers(&[
        ("'a,b,c'.split(',')", "[a, b, c]"),
        ("'a,b,c'.split(',', 2)", "[a, b,c]"),
        ("'a,b'.split(',', 0)", "[]"),
        ("'aé😀'.split('')", "[a, é, 😀]"),
        ("'aé😀'.split('', 2)", "[a, é😀]"),
        ("''.split('')", "[]"),
        ("''.split(',').size()", "1"),
        ("['a', 'b'].join()", "ab"),
        ("['a', 'b'].join('é')", "aéb"),
        ("[dyn('a'), dyn(1)].join()", "join: invalid input: 1"),
        ("'abab'.replace('a', 'é')", "ébéb"),
        ("'abab'.replace('a', 'x', 1)", "xbab"),
        ("'abab'.replace('a', 'x', 0)", "abab"),
        ("'ab'.replace('', '-')", "-a-b-"),
        ("'ab'.replace('', '-', 2)", "-a-b"),
        ("'\\u00a0 x\\n'.trim()", "x"),
        ("'AÜ'.lowerAscii()", "aÜ"),
        ("'aü'.upperAscii()", "Aü"),
        ("strings.quote('\"a\\\\\\n\\a')", "\"\\\"a\\\\\\n\\a\""),
    ]);
}

#[test]
fn format_writes_arguments() {
    answers(&[
        ("'%s is %d%%'.format(['x', 5])", "x is 5%"),
        ("'%b %b %x %X %x %o'.format([-5, true, -255, 'hé', b'\\xff', -8])", "-101 1 -ff 68C3A9 ff -10"),
        ("'%f %.0f %.1f'.format([1234567.891, 2.5, -0.25])", "1,234,567.891000 2 -0.2"),
        ("'%f %f %f'.format([double('NaN'), double('Infinity'), '-Infinity'])", "NaN ∞ -∞"),
        ("'%e'.format([-0.00012])", "-1.200000×10⁻⁰⁴"),
        ("'%.20e'.format([1e300])", "      1.000000×10³⁰⁰"),
        ("'%s'.format([{'b': [1.5, -0.0], 'a': null}])", r#"{"a":null, "b":[1.500000, -0.000000]}"#),
        (
            "'%s'.format([[dyn('q\"\\u00a0é\\x7f'), dyn(b'b'), dyn(duration('90s')), dyn(double('-Infinity')), dyn(int)]])",
            r#"["q\"\u00a0é\x7f", b"b", duration("90s"), "-Inf", int]"#,
        ),
        (
            "'%s'.format([dyn(optional.none())])",
            "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
             durations, and timestamps, was given optional_type",
        ),
        ("dyn('%').format([1])", "unexpected end of string"),
        ("dyn('%').format(dyn([]))", "index 0 out of range"),
        ("dyn('%é').format([1])", "could not parse formatting clause: unrecognized formatting clause \"Ã\""),
    ]);
}

/// Upstream keeps precisions in small integers.
#[test]
fn large_precisions_wrap() {
    answers(&[
        ("'%.256f'.format([1.5])", "1.5"),
        ("'%.65536f'.format([1.5])", "2"),
        ("'%.40000f'.format([1234.5]).size()", "70"),
        ("'%.65540e'.format([1.5])", "1.500000×10⁰⁰"),
        ("'%.10000010f'.format([1.5])", "%!(NOVERB)"),
    ]);
}

#[test]
fn constant_formats_are_checked_with_the_expression() {
    refusals(&[
        (
            "'%d'.format(['a'])",
            14,
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            "'%s'.format([[1, optional.of(1)]])",
            29,
            "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
             durations, and timestamps, was given optional_type",
        ),
        ("'%s'.format([])", 12, "index 0 out of range"),
        ("'%s'.format([1, 2])", 12, "too many arguments supplied to string.format (expected 1, got 2)"),
        ("'%y'.format([1])", 12, "could not parse formatting clause: unrecognized formatting clause \"y\""),
        (
            "'%.f'.format([1.0])",
            13,
            "could not parse formatting clause: error while parsing precision: error while converting precision to integer: \
             strconv.Atoi: parsing \"\": invalid syntax",
        ),
        (
            "'%.5'.format([1.0])",
            13,
            "could not parse formatting clause: error while parsing precision: could not find end of precision specifier",
        ),
    ]);
}

#[test]
fn costs_are_what_is_read_and_written() {
    costs(&[
        ("'0123456789é'.trim()", 2),
        ("'0123456789'.split('')", 2),
        ("'0123456789'.replace('0', '')", 2),
        ("['0123456789', '0'].join()", 3),
        ("'%s 456789'.format(['long enough to cost'])", 1),
        ("'0123456789'.charAt(0)", 1),
    ]);
    estimates(&[
        ("'0123456789'.split('')", 2, 2),
        ("'0123456789'.replace('', 'ab').lowerAscii()", 6, 6),
        ("'0123456789'.replace('01', 'ab').lowerAscii()", 3, 3),
        ("['0123456789', '0'].join('é')", 11, 1_844_674_407_370_955_274),
        ("strings.quote('0123456789').lowerAscii()", 3, 4),
    ]);
}

/// Small expressions can ask for huge texts.
#[test]
fn results_are_bounded() {
    let exceeded = "operation cancelled: actual cost limit exceeded";
    let doubled = ".map(x, [x, x])".repeat(40);
    let text = format!("'{}'", "a".repeat(10_000));
    answers(&[
        (&format!("'%s'.format([[0]{doubled}])"), exceeded),
        (&format!("[{text}].map(x, x.replace('a', x)).map(x, x.replace('a', x)).size()"), exceeded),
    ]);
}

#[test]
fn old_versions_have_less() {
    let old = EnvironmentSet::of(Version(1, 28)).new_expressions;
    assert!(old.compile("'%s'.format([1])").is_err());
    assert!(old.compile("strings.quote('a')").is_err());
    let checked = old.compile("[dyn('a'), dyn(1)].join('-')").unwrap();
    let error = old.program(&checked).unwrap().eval(&()).result.unwrap_err();
    assert_eq!(error.text(), "unsupported type conversion from 'int' to string");
}
