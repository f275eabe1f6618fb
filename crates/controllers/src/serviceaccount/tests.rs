//! Which namespaces get an account.

use object::Value;

use super::plan::plan;

fn json(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

#[test]
fn only_an_active_namespace_without_an_account_gets_one() {
    let made = Some(json(r#"{"metadata":{"name":"default"}}"#));
    for (namespace, there, wanted) in [
        (Some(r#"{"status":{"phase":"Active"}}"#), false, made),
        (Some(r#"{"status":{"phase":"Active"}}"#), true, None),
        (Some(r#"{"status":{"phase":"Terminating"}}"#), false, None),
        (Some("{}"), false, None),
        (None, false, None),
    ] {
        let known = namespace.map(json);
        assert_eq!(plan(known.as_ref(), there), wanted, "{namespace:?}, there: {there}");
    }
}
