//! Token files: what is read, what is refused, and where.

use std::path::Path;

use super::*;

fn parse(text: &str) -> Result<Tokens, TokensError> {
    Tokens::parse(Path::new("tokens.csv"), text.as_bytes())
}

#[test]
fn a_token_names_its_user() {
    let tokens =
        parse("t1,jane,u1,\"devs,ops\"\r\n\nt2,joe,u2\nt\"\"x,a,b".replace("t\"\"x", "\"t\"\"x\"").as_str())
            .expect("valid");
    let jane = tokens.authenticate("t1").expect("known");
    assert_eq!((jane.name.as_str(), jane.uid.as_str()), ("jane", "u1"));
    assert_eq!(jane.groups, ["devs", "ops"]);
    assert_eq!(tokens.authenticate("t2").expect("known").groups, Vec::<String>::new());
    assert!(tokens.authenticate("t\"x").is_some());
    assert!(tokens.authenticate("").is_none());
    assert!(tokens.authenticate("t").is_none());
    assert_eq!(tokens.len(), 3);
}

#[test]
fn errors_name_file_and_line() {
    for (text, expected) in [
        ("a,b,c\nonly,two", "tokens.csv:2: must have at least 3 columns, found 2"),
        ("a,b,c\n\n\"open,b,c\n", "tokens.csv:3: unterminated quoted field"),
        ("a,\"b\"x,c", "tokens.csv:1: text after a closing quote"),
        ("\"a\nb\",b,c\nx\"y,b,c", "tokens.csv:3: a quote inside an unquoted field"),
    ] {
        let error = parse(text).err().expect("refused").to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let error = Tokens::parse(Path::new("t"), b"a,b,c\n\xff,b,c").err().expect("refused").to_string();
    assert!(error.starts_with("t:2: not UTF-8"), "{error}");
    let error = Tokens::load(Path::new("/no/such/file")).err().expect("refused").to_string();
    assert!(error.contains("/no/such/file"), "{error}");
}

#[test]
fn odd_lines_are_warned_about_without_their_tokens() {
    let tokens = parse(",nobody,u\nsecret,a,1\nsecret,b,2").expect("valid");
    assert_eq!(tokens.authenticate("secret").expect("known").name, "b");
    assert_eq!(tokens.warnings().len(), 2);
    assert!(tokens.warnings().iter().all(|w| !w.contains("secret")));
}
