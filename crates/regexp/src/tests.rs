//! What Go refuses and how, and what its expressions match.

use super::*;

fn refused(pattern: &str) -> String {
    Regexp::new(pattern).map(|_| String::new()).unwrap_or_else(|error| error.to_string())
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
        ("a)b", "unexpected ): `a)b`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a*+", "invalid nested repetition operator: `*+`"),
        ("a*??", "invalid nested repetition operator: `*??`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("(a{100}){11}", "invalid repeat count: `{11}`"),
        (r"\", "trailing backslash at end of expression: ``"),
        (r"\y", r"invalid escape sequence: `\y`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
        ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        ("(?<=a)", "invalid named capture: `(?<=a)`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("(?P=n)", "invalid or unsupported Perl syntax: `(?P`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
        ("(?-)a", "invalid or unsupported Perl syntax: `(?-)`"),
        ("[]", "missing closing ]: `[]`"),
        (r"[a-\d]", r"invalid escape sequence: `\d`"),
        (r"\p", r"invalid character class range: `\p`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        (r"\xg", r"invalid escape sequence: `\xg`"),
        (r"\Q\E*", "missing argument to repetition operator: `*`"),
        ("a{1,99999999999}", "invalid repeat count: `{1,99999999999}`"),
        ("((a{10}){10}){11}", "invalid repeat count: `{11}`"),
        (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
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
        ("^x[\\x{d800}-\\x{dfff}]*\\x{d800}?y$", "xy", true),
        ("(?i)straße", "STRASSE", false),
        ("\\bfoo\\b", "a foo b", true),
        ("\\p{uppercase_letter}", "É", true),
        ("(?s).", "\n", true),
        (".", "\n", false),
        ("^$", "", true),
        ("x#y z", "x#y z", true),
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
        assert_eq!(Regexp::new(pattern).unwrap().is_match(text), expected, "{pattern} on {text:?}");
    }
}

#[test]
fn a_flag_counts_for_the_repetition_behind_it() {
    assert_eq!(Regexp::new("a(?U)*?").unwrap().find("aaa").unwrap().end(), 3);
    assert_eq!(Regexp::new("a(?U)*").unwrap().find("aaa").unwrap().end(), 0);
}

#[test]
fn groups_nest_as_deep_as_go_lets_them() {
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Regexp::new(&nested(999)).unwrap().is_match("a"));
    assert!(refused(&nested(1000)).starts_with("error parsing regexp: expression nests too deeply: `"));
}

#[test]
fn a_lazy_expression_is_checked_at_once_and_compiled_later() {
    assert_eq!(LazyRegexp::new("(").map(|_| ()).unwrap_err(), Regexp::check("(").unwrap_err());
    assert!(LazyRegexp::new("^a+$").unwrap().get().unwrap().is_match("aa"));
    let large = LazyRegexp::new("\\pL{1000}").unwrap();
    assert!(large.get().unwrap_err().to_string().contains("expression too large"));
}
