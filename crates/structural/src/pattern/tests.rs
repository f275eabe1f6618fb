use super::*;

fn matches(pattern: &str, text: &str) -> bool {
    Pattern::shared(pattern).is_match(text)
}

#[test]
fn classes_and_escapes_are_those_of_go() {
    for (pattern, text, expected) in [
        (r"^\d+$", "123", true),
        (r"^\d+$", "١٢٣", false),
        (r"^\w+$", "é", false),
        (r"^[\w-]+$", "a-b_9", true),
        (r"\bfoo\b", "a foo b", true),
        (r"^[a&&b]+$", "a&b", true),
        (r"^[[a]+$", "[a", true),
        (r"^[a~~b&]+$", "~&", true),
        (r"^a{,2}$", "a{,2}", true),
        (r"^a{$", "a{", true),
        (r"^x{2,3}$", "xxx", true),
        (r"^\Qa.b\E+$", "a.bbb", true),
        (r"^\<$", "<", true),
        (r"^\_\#$", "_#", true),
        (r"^\x41\x{42}\103$", "ABC", true),
        (r"^\pL\p{Greek}$", "aα", true),
        (r"^\P{L}$", "1", true),
        (r"^[^\D]$", "5", true),
        (r"^[[:alpha:]]+$", "ab", true),
        (r"(?i)^k$", "K", true),
        (r"a.b", "a\nb", false),
        (r"(?s)a.b", "a\nb", true),
        (r"^a$", "a\n", false),
        (r"^$", "", true),
        ("^(?P<n>a)(?<m>b)$", "ab", true),
        (r"^[]a]+$", "]a", true),
        (r"^[^]a]+$", "b", true),
        (r"^[a-]+$", "a-", true),
        (r"^a(?i)*B$", "aab", true),
        ("(?P<n>a)(?P<n>b)", "ab", true),
        (r"^*(|a)*()*a\Qb\E*$", "abb", true),
        ("((a{10}){10}){10}", "", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} on {text:?}: {:?}", go::translate(pattern));
    }
}

#[test]
fn errors_are_those_of_go() {
    for (pattern, message) in [
        ("(", "missing closing ): `(`"),
        (")", "unexpected ): `)`"),
        ("a)b", "unexpected ): `a)b`"),
        ("[a", "missing closing ]: `[a`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a*+", "invalid nested repetition operator: `*+`"),
        ("a*??", "invalid nested repetition operator: `*??`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("(a{100}){11}", "invalid repeat count: `{11}`"),
        (r"\", "trailing backslash at end of expression: ``"),
        (r"\y", r"invalid escape sequence: `\y`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        ("(?<=a)", "invalid named capture: `(?<=a)`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("(?P<>a)", "invalid named capture: `(?P<>`"),
        ("(?P=n)", "invalid or unsupported Perl syntax: `(?P`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
        ("(?-)a", "invalid or unsupported Perl syntax: `(?-)`"),
        ("(?i)*", "missing argument to repetition operator: `*`"),
        ("[]", "missing closing ]: `[]`"),
        (r"[a-\d]", r"invalid escape sequence: `\d`"),
        (r"\p", r"invalid character class range: `\p`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        (r"\xg", r"invalid escape sequence: `\xg`"),
        (r"\Q\E*", "missing argument to repetition operator: `*`"),
        ("a{1,99999999999}", "invalid repeat count: `{1,99999999999}`"),
        ("((a{10}){10}){11}", "invalid repeat count: `{11}`"),
        ("[[:nope:]]", "invalid character class range: `[:nope:]`"),
        (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
    ] {
        let error = Pattern::parse(pattern).expect_err(pattern);
        assert_eq!(error.to_string(), format!("error parsing regexp: {message}"), "{pattern}");
    }
}

#[test]
fn the_same_text_is_one_pattern() {
    assert!(Arc::ptr_eq(&Pattern::shared("^same$"), &Pattern::shared("^same$")));
}
