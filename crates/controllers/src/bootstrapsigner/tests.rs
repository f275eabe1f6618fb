use std::collections::BTreeMap;

use auth::bootstrap_token::sign;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::Value;

use super::plan::{plan, tokens};

fn token(id: &str, more: &[(&'static str, &str)]) -> (String, Value) {
    let mut secret = Value::map();
    let data = secret.map_at(&["data"]);
    for (name, text) in
        [("token-id", id), ("token-secret", "0123456789abcdef"), ("usage-bootstrap-signing", "true")]
            .iter()
            .chain(more)
    {
        data.set(*name, STANDARD.encode(text));
    }
    (format!("bootstrap-token-{id}"), secret)
}

#[test]
fn the_signature_is_the_one_kubeadm_expects() {
    let content = "Hello from the other side. I must have called a thousand times.";
    assert_eq!(
        sign(content, "joshua", "my voice is my passcode"),
        "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
    );
}

#[test]
fn tokens_that_may_sign_and_have_not_expired_do() {
    let mut renamed = token("abcdef", &[]);
    renamed.0 = "bootstrap-token-other1".to_owned();
    let secrets = [
        token("good01", &[]),
        token("soon01", &[("expiration", "1970-01-01T00:00:09Z")]),
        token("later1", &[("expiration", "1970-01-01T00:01:00Z")]),
        token("ended1", &[("expiration", "1970-01-01T00:00:01Z")]),
        token("nosign", &[("usage-bootstrap-signing", "false")]),
        token("empty1", &[("token-secret", "")]),
        token("too-long-an-id", &[]),
        renamed,
    ];
    let (good, next) = tokens(&secrets, 2_000_000_000);
    assert_eq!(good.keys().collect::<Vec<_>>(), ["good01", "later1", "soon01"]);
    assert_eq!(next, Some(7_000_000_000));
}

#[test]
fn the_map_has_the_signatures_of_the_tokens_and_no_others() {
    let tokens: BTreeMap<String, String> = [("good01".to_owned(), "s".to_owned())].into();
    let mut map = Value::map();
    assert_eq!(plan(map.clone(), &tokens), None, "nothing to sign");
    let data = map.map_at(&["data"]);
    data.set("kubeconfig", "text");
    data.set("jws-kubeconfig-gone01", "x");
    let signed = plan(map, &tokens).expect("one is new, one is gone");
    assert_eq!(signed.str_at(&["data", "jws-kubeconfig-gone01"]), None);
    assert_eq!(signed.str_at(&["data", "jws-kubeconfig-good01"]), Some(&*sign("text", "good01", "s")));
    assert_eq!(plan(signed.clone(), &tokens), None, "and is left alone");
    let mut changed = signed;
    changed.map_at(&["data"]).set("kubeconfig", "another");
    assert!(plan(changed, &tokens).is_some());
}
