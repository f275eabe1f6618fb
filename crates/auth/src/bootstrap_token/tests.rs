//! Which Secrets make which tokens good.
#![allow(clippy::unwrap_used)]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::Map;

use super::*;

const TOKEN: &str = "abcdef.0123456789abcdef";
const NOW: u128 = 1_800_000_000_000_000_000;

fn secret(changes: &[(&'static str, &str)]) -> Value {
    let mut data = Map::default();
    let usual = [
        ("token-id", "abcdef"),
        ("token-secret", "0123456789abcdef"),
        ("usage-bootstrap-authentication", "true"),
    ];
    for (key, value) in usual.iter().chain(changes) {
        data.set(*key, STANDARD.encode(value));
    }
    let mut out = Map::default();
    out.set("type", SECRET_TYPE);
    out.set("data", data);
    Value::Map(out)
}

#[test]
fn a_matching_secret_names_the_user_and_its_groups() {
    let user = authenticate(TOKEN, &secret(&[]), NOW).unwrap();
    assert_eq!(
        (user.name.as_str(), user.groups),
        ("system:bootstrap:abcdef", vec![DEFAULT_GROUP.to_owned()])
    );
    let groups = "system:bootstrappers:b,system:bootstrappers:a,system:bootstrappers:b";
    let user = authenticate(TOKEN, &secret(&[("auth-extra-groups", groups)]), NOW).unwrap();
    assert_eq!(user.groups, [DEFAULT_GROUP, "system:bootstrappers:a", "system:bootstrappers:b"]);
    assert_eq!(secret_name(TOKEN).as_deref(), Some("bootstrap-token-abcdef"));
}

#[test]
fn an_incomplete_secret_is_no_bootstrap_token() {
    for change in [
        ("token-id", "abcdeg"),
        ("token-secret", "0123456789abcdeg"),
        ("token-secret", ""),
        ("usage-bootstrap-authentication", "false"),
        ("usage-bootstrap-authentication", ""),
        ("expiration", "2027-01-15T08:00:00Z"),
        ("expiration", "tomorrow"),
        ("auth-extra-groups", "system:masters"),
        ("auth-extra-groups", "system:bootstrappers:a,"),
        ("auth-extra-groups", "system:bootstrappers:a-"),
    ] {
        assert_eq!(authenticate(TOKEN, &secret(&[change]), NOW), None, "{change:?}");
    }
    assert!(authenticate(TOKEN, &secret(&[("expiration", "2027-01-15T08:00:01Z")]), NOW).is_some());
    let mut opaque = secret(&[]);
    opaque.make_map().set("type", "Opaque");
    assert_eq!(authenticate(TOKEN, &opaque, NOW), None);
    let mut going = secret(&[]);
    going.map_at(&["metadata"]).set("deletionTimestamp", "2027-01-15T08:00:00Z");
    assert_eq!(authenticate(TOKEN, &going, NOW), None);
}

#[test]
fn only_the_exact_shape_is_a_token() {
    for odd in [
        "",
        ".",
        "abcdef",
        "abcdef.",
        "ABCDEF.0123456789abcdef",
        "abcdef.0123456789abcde",
        "abcdef.0123456789abcdef\n",
        "abcdé.0123456789abcdef",
        "../../.0123456789abcdef",
    ] {
        assert_eq!(secret_name(odd), None, "{odd:?}");
    }
}

#[test]
fn only_who_knows_the_token_signs_for_it() {
    let signature = sign("content", "abcdef", "0123456789abcdef");
    assert!(is_signed("content", &signature, TOKEN));
    assert!(!is_signed("other content", &signature, TOKEN));
    assert!(!is_signed("content", &signature, "abcdef.0123456789abcdee"));
    assert!(!is_signed("content", "", TOKEN) && !is_signed("content", &signature, "no token"));
}
