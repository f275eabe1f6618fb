use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::Value;

use super::plan::{Plan, plan};

fn expiring(text: &str) -> Value {
    let mut secret = Value::map();
    secret.map_at(&["data"]).set("expiration", STANDARD.encode(text));
    secret
}

#[test]
fn a_token_is_deleted_when_it_expires_and_kept_before() {
    let now = 1_000_000_000;
    assert_eq!(plan(&Value::map(), now), Plan::Keep);
    assert_eq!(plan(&expiring("1970-01-01T00:00:03Z"), now), Plan::LookAgain(Duration::from_secs(2)));
    assert_eq!(plan(&expiring("1970-01-01T00:00:01Z"), now), Plan::Delete, "to the second");
    assert_eq!(plan(&expiring("tomorrow"), now), Plan::Delete, "what cannot be read has expired");
}
