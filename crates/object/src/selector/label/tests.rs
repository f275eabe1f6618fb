use super::*;

fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
    let selector = LabelSelector::parse(selector).expect(selector);
    selector.matches(&|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v))
}

#[test]
fn selectors_match_labels() {
    let web: &[(&str, &str)] = &[("app", "web"), ("tier", "2"), ("in", "notin")];
    for (selector, want) in [
        ("", true),
        ("app=web", true),
        ("app==web", true),
        ("app = web , tier=2", true),
        ("app=db", false),
        ("app!=db", true),
        ("app!=web", false),
        ("none!=x", true),
        ("app", true),
        ("none", false),
        ("!none", true),
        ("!app", false),
        ("app in (web,db)", true),
        ("app in ( db )", false),
        ("app notin (db)", true),
        ("none notin (db)", true),
        ("none in (,a)", false),
        ("tier>1", true),
        ("tier<1", false),
        ("tier>2", false),
        ("app>1", false),
        ("none<1", false),
        ("in=notin", true),
        ("in in (notin,in)", true),
        ("app=", false),
    ] {
        assert_eq!(matches(selector, web), want, "{selector}");
    }
    assert!(matches("a=", &[("a", "")]));
    assert!(matches("a in ()", &[("a", "")]));
    assert!(matches("a in (b,)", &[("a", "")]));
}

#[test]
fn printing_is_canonical() {
    for (text, want) in [
        ("", ""),
        ("x in (c,a,b,a)", "x in (a,b,c)"),
        ("z,!y, x != 1", "x!=1,!y,z"),
        ("x==a", "x==a"),
        ("x notin (,a)", "x notin (,a)"),
        ("x>1,y<2", "x>1,y<2"),
        ("x=", "x="),
    ] {
        let selector = LabelSelector::parse(text).expect(text);
        assert_eq!(selector.to_string(), want);
        assert_eq!(LabelSelector::parse(want).expect(want), selector);
    }
}

#[test]
fn wrong_selectors_are_refused_in_upstreams_words() {
    let name = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    for (text, want) in [
        ("a===b", "unable to parse requirement: found '=', expected: identifier".to_owned()),
        ("a,", "found '', expected: identifier after ','".to_owned()),
        ("a,,b", "found ',', expected: identifier after ','".to_owned()),
        ("=a", "found '=', expected: !, identifier, or 'end of string'".to_owned()),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt".to_owned()),
        ("!", "unable to parse requirement: found '', expected: identifier".to_owned()),
        ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
        ("a in b", "unable to parse requirement: found 'b' expected: '('".to_owned()),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier".to_owned()),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'".to_owned()),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier".to_owned()),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'".to_owned()),
        ("a in (b)c", "found 'c', expected: ',' or 'end of string'".to_owned()),
        ("a=b c", "found 'c', expected: ',' or 'end of string'".to_owned()),
        ("-a", format!("unable to parse requirement: <nil>: Invalid value: \"-a\": {name}")),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"
                .to_owned(),
        ),
    ] {
        assert_eq!(LabelSelector::parse(text).expect_err(text), want, "{text}");
    }
    let long = format!("a={}", "x".repeat(64));
    let words = LabelSelector::parse(&long).unwrap_err();
    assert!(words.starts_with("unable to parse requirement: values[0][a]: Invalid value: \"xxx"), "{words}");
    assert!(words.contains("\": must be no more than 63 "), "{words}");
}

fn map(entries: &[(&'static str, Value)]) -> Value {
    Value::Map(entries.iter().map(|(k, v)| ((*k).into(), v.clone())).collect())
}

#[test]
fn label_selector_objects_become_selectors() {
    let values = Value::List(vec!["b".into(), "a".into()]);
    let selector = map(&[
        ("matchLabels", map(&[("x", "1".into())])),
        (
            "matchExpressions",
            Value::List(vec![
                map(&[("key", "a".into()), ("operator", "In".into()), ("values", values)]),
                map(&[("key", "z".into()), ("operator", "DoesNotExist".into())]),
            ]),
        ),
    ]);
    let selector = LabelSelector::from_label_selector(&selector).unwrap();
    assert_eq!(selector.to_string(), "a in (a,b),x=1,!z");
    assert_eq!(selector.exact("x"), Some("1"));
    assert_eq!(selector.exact("a"), None);
    assert!(selector.matches_map(Some(&map(&[("x", "1".into()), ("a", "b".into())]))));
    assert!(!selector.matches_map(Some(&map(&[("x", "1".into())]))));
    assert!(!selector.matches_map(None));
}

#[test]
fn null_selects_nothing_and_empty_everything() {
    let nothing = LabelSelector::from_label_selector(&Value::Null).unwrap();
    assert!(!nothing.is_everything() && !nothing.matches_map(None));
    let everything = LabelSelector::from_label_selector(&Value::map()).unwrap();
    assert!(everything.is_everything() && everything.matches_map(None));
}

#[test]
fn wrong_label_selector_objects_are_refused_in_upstreams_words() {
    let one =
        |entries: &[(&'static str, Value)]| map(&[("matchExpressions", Value::List(vec![map(entries)]))]);
    for (selector, words) in [
        (
            one(&[("key", "a".into()), ("operator", "in".into())]),
            "\"in\" is not a valid label selector operator",
        ),
        (
            one(&[("key", "a".into()), ("operator", "In".into())]),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            one(&[("key", "a".into()), ("operator", "Exists".into()), ("values", vec!["x".into()].into())]),
            "values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist",
        ),
    ] {
        assert_eq!(LabelSelector::from_label_selector(&selector).unwrap_err(), words);
    }
}

#[test]
fn no_text_makes_the_parser_panic() {
    let mut seed = 42u64;
    println!("seed {seed}");
    let pieces = ["a", "in", "notin", "(", ")", ",", "=", "!", "<", ">", " ", "\0", "ä", "/", "-"];
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..8 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            text.push_str(pieces[(seed >> 33) as usize % pieces.len()]);
        }
        if let Ok(selector) = LabelSelector::parse(&text) {
            let printed = selector.to_string();
            assert_eq!(LabelSelector::parse(&printed).as_ref(), Ok(&selector), "{text:?} {printed:?}");
        }
        let _ = crate::selector::FieldSelector::parse(&text);
    }
}
