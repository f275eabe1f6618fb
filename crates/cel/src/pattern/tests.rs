use super::*;

fn refused(pattern: &str) -> String {
    Pattern::new(pattern).map(|_| String::new()).unwrap_or_else(|error| error.to_string())
}

#[test]
fn go_refuses_in_its_own_words() {
    for (pattern, message) in [
        ("(", "missing closing ): `(`"),
        (")", "unexpected ): `)`"),
        ("[a", "missing closing ]: `[a`"),
        ("x[b-a]", "invalid character class range: `b-a`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("(?i)*", "missing argument to repetition operator: `*`"),
        ("x*?+", "invalid nested repetition operator: `*?+`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(a{500}){3}", "invalid repeat count: `{3}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?P<>a)", "invalid named capture: `(?P<>`"),
        ("\\1", "invalid escape sequence: `\\1`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("\\p{Grek}", "invalid character class range: `\\p{Grek}`"),
        ("\\x{110000}", "invalid escape sequence: `\\x{110000`"),
        ("[[:nope:]]", "invalid character class range: `[:nope:]`"),
    ] {
        assert_eq!(refused(pattern), format!("error parsing regexp: {message}"));
    }
}

#[test]
fn what_go_means_is_matched() {
    for (pattern, text, expected) in [
        ("^\\d+$", "٣", false),
        ("^\\w+$", "aZ_9", true),
        ("\\s", "\u{b}", false),
        ("a{,5}", "a{,5}", true),
        ("\\Qa.b\\E*", "a.bbb", true),
        ("[a&&b]", "&", true),
        ("(?P<1n>a)(?P<1n>b)", "ab", true),
        ("a(?i)*b", "B", true),
        ("(?i)straße", "STRASSE", false),
        ("\\bfoo\\b", "a foo b", true),
        ("\\p{uppercase_letter}", "É", true),
        ("(?s).", "\n", true),
        (".", "\n", false),
        ("^$", "", true),
        ("x#y z", "x#y z", true),
    ] {
        assert_eq!(Pattern::new(pattern).unwrap().is_match(text), expected, "{pattern} on {text:?}");
    }
}
