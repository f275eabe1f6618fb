//! What a token's Secret lacks, and what is said of it.

use object::Value;

use super::plan::{Lacks, Plan, TokenOf, plan, without_reference};

fn tree(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

#[test]
fn a_secret_without_an_account_name_is_ignored() {
    assert_eq!(TokenOf::read(&tree(r#"{"metadata":{}}"#)), None);
    let named = tree(r#"{"metadata":{"annotations":{"kubernetes.io/service-account.name":"robot"}}}"#);
    assert_eq!(TokenOf::read(&named), Some(TokenOf { account: "robot".to_owned(), uid: String::new() }));
}

#[test]
fn only_a_different_ca_is_replaced() {
    let lacks = |data: &str, ca| Lacks::of(&tree(&format!(r#"{{"data":{data}}}"#)), ca);
    let all = Lacks { ca: true, namespace: true, token: true };
    assert_eq!(lacks("{}", Some("pem")), all);
    assert_eq!(lacks("{}", None), Lacks { ca: false, ..all });
    // "cGVt" is pem, "b2xk" another.
    assert_eq!(
        lacks(r#"{"ca.crt":"cGVt","namespace":"bg==","token":"dA=="}"#, Some("pem")),
        Lacks::default()
    );
    let other = lacks(r#"{"ca.crt":"b2xk","namespace":"eA==","token":"eA=="}"#, Some("pem"));
    assert_eq!(other, Lacks { ca: true, namespace: false, token: false });
}

#[test]
fn an_account_loses_only_the_reference_to_the_secret() {
    let account = tree(r#"{"secrets":[{"name":"a"},{"name":"b"}]}"#);
    assert_eq!(without_reference(account.clone(), "a"), Some(tree(r#"{"secrets":[{"name":"b"}]}"#)));
    assert_eq!(without_reference(account, "c"), None);
    assert_eq!(without_reference(tree("{}"), "a"), None);
}

#[test]
fn a_secret_is_deleted_with_its_account_and_filled_once() {
    let full = tree(r#"{"data":{"ca.crt":"cGVt","namespace":"bg==","token":"dA=="}}"#);
    assert_eq!(plan(&full, false, Some("pem")), Plan::Delete);
    assert_eq!(plan(&full, true, Some("pem")), Plan::Nothing);
    assert_eq!(plan(&full, true, Some("new")), Plan::Fill(Lacks { ca: true, ..Lacks::default() }));
    assert!(matches!(plan(&tree("{}"), true, None), Plan::Fill(Lacks { token: true, .. })));
}
