//! Tokens from the request to the user, and every way they end.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use codec::json;

use super::*;
use crate::jwt::SigningKey;

const NOW: u128 = 1_800_000_000_000_000_000;
const SECOND: u128 = 1_000_000_000;

#[derive(Default)]
struct World {
    objects: BTreeMap<(&'static str, String), Value>,
}

impl World {
    fn with(mut self, kind: &'static str, path: &str, text: &str) -> World {
        self.objects.insert((kind, path.to_owned()), json::parse(text.as_bytes(), None).unwrap());
        self
    }
}

impl Objects for World {
    fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<Found> {
        let object = self.read(kind, namespace, name)?;
        let deleted_at = object.str_at(&["metadata", "deletionTimestamp"]).and_then(object::time::parse);
        let uid = object.str_at(&["metadata", "uid"]).unwrap().to_owned();
        Some(Found { uid, deleted_at: deleted_at.map(|t| t.0) })
    }
    fn read(&self, kind: Kind, namespace: &str, name: &str) -> Option<Value> {
        let kind = match kind {
            Kind::ServiceAccount => "sa",
            Kind::Pod => "pod",
            Kind::Secret => "secret",
            Kind::Node => "node",
        };
        self.objects.get(&(kind, format!("{namespace}/{name}"))).cloned()
    }
}

fn world() -> World {
    World::default()
        .with("sa", "ns/robot", r#"{"metadata":{"uid":"sa-1"}}"#)
        .with(
            "pod",
            "ns/web",
            r#"{"metadata":{"uid":"pod-1"},"spec":{"serviceAccountName":"robot","nodeName":"n1"}}"#,
        )
        .with("secret", "ns/s", r#"{"metadata":{"uid":"secret-1"}}"#)
        .with("node", "/n1", r#"{"metadata":{"uid":"node-1"}}"#)
}

fn issuer_with(settings: Settings) -> ServiceAccounts {
    let key = SigningKey::from_pkcs8(&SigningKey::generate_pkcs8().unwrap()).unwrap();
    ServiceAccounts::new(settings, key, Vec::new())
}

fn issuer() -> ServiceAccounts {
    issuer_with(Settings::default())
}

fn ask(issuer: &ServiceAccounts, world: &World, request: &str) -> Result<Issued, Status> {
    let request = json::parse(request.as_bytes(), None).unwrap();
    let of = ("ns", "robot");
    issuer.issue(of, issuer.complete(of, request, NOW, world)?, NOW, "id-1".into(), world)
}

use object::Status;

fn token(issuer: &ServiceAccounts, world: &World, request: &str) -> String {
    ask(issuer, world, request).unwrap().answer.str_at(&["status", "token"]).unwrap().to_owned()
}

fn check(
    issuer: &ServiceAccounts,
    world: &World,
    token: &str,
    now: u128,
) -> Result<Option<Authenticated>, String> {
    issuer.authenticate(token, issuer.audiences(), now, world).map_err(|r| r.message)
}

fn bound(kind: &str, name: &str) -> String {
    format!(r#"{{"spec":{{"boundObjectRef":{{"kind":"{kind}","apiVersion":"v1","name":"{name}"}}}}}}"#)
}

#[test]
fn token_claims_are_upstreams() {
    let (issuer, world) = (issuer(), world());
    let issued = ask(&issuer, &world, &bound("Pod", "web")).unwrap();
    let text = String::from_utf8(json::to_vec(&issued.answer)).unwrap();
    assert!(text.contains(r#""expirationTimestamp":"2027-01-15T09:00:00Z""#), "{text}");
    assert!(text.contains(r#""uid":"sa-1""#) && text.contains(r#""expirationSeconds":3600"#), "{text}");
    let token = issued.answer.str_at(&["status", "token"]).unwrap();
    let payload = Unverified::parse(token).unwrap().payload;
    assert_eq!(
        String::from_utf8(json::to_vec(&payload)).unwrap(),
        r#"{"aud":["https://kubernetes.default.svc.cluster.local"],"exp":1800003600,"iat":1800000000,"iss":"https://kubernetes.default.svc.cluster.local","jti":"id-1","kubernetes.io":{"namespace":"ns","node":{"name":"n1","uid":"node-1"},"pod":{"name":"web","uid":"pod-1"},"serviceaccount":{"name":"robot","uid":"sa-1"}},"nbf":1800000000,"sub":"system:serviceaccount:ns:robot"}"#
    );
    let found = check(&issuer, &world, token, NOW).unwrap().unwrap();
    assert_eq!(found.user.name, "system:serviceaccount:ns:robot");
    assert_eq!(
        found.user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]
    );
    let extra: Vec<(&str, &str)> =
        found.user.extra.iter().map(|(k, v)| (k.rsplit('/').next().unwrap(), v[0].as_str())).collect();
    assert_eq!(
        extra,
        [
            ("credential-id", "JTI=id-1"),
            ("node-name", "n1"),
            ("node-uid", "node-1"),
            ("pod-name", "web"),
            ("pod-uid", "pod-1")
        ]
    );
}

#[test]
fn expiry_has_a_minutes_leeway() {
    let (issuer, world) = (issuer(), world());
    let token = token(&issuer, &world, r#"{"spec":{"expirationSeconds":600}}"#);
    let at = |now| check(&issuer, &world, &token, now).map(|u| u.is_some());
    assert_eq!(at(NOW - 60 * SECOND), Ok(true));
    assert_eq!(at(NOW - 61 * SECOND), Err("service account token is not valid yet".into()));
    assert_eq!(at(NOW + 660 * SECOND), Ok(true));
    assert_eq!(at(NOW + 660 * SECOND + 1), Err("service account token has expired".into()));
}

#[test]
fn the_object_a_token_is_bound_to_must_exist() {
    let (issuer, world) = (issuer(), world());
    let with = |kind, path: &str, text: &str| self::world().with(kind, path, text);
    let without = |kind: &'static str, path: &str| {
        let mut world = self::world();
        world.objects.remove(&(kind, path.to_owned()));
        world
    };
    let invalidated = "service account token has been invalidated";
    let gone = r#"{"metadata":{"uid":"UID","deletionTimestamp":"2027-01-15T07:58:59Z"}}"#;
    let going = r#"{"metadata":{"uid":"UID","deletionTimestamp":"2027-01-15T07:59:00Z"}}"#;
    for (kind, key, path, uid, word) in [
        ("Pod", "pod", "ns/web", "pod-1", "pod"),
        ("Secret", "secret", "ns/s", "secret-1", "secret"),
        ("Node", "node", "/n1", "node-1", "node"),
    ] {
        let name = path.split_once('/').unwrap().1;
        let token = token(&issuer, &world, &bound(kind, name));
        assert!(check(&issuer, &world, &token, NOW).unwrap().is_some());
        let refused = |world: World| check(&issuer, &world, &token, NOW).unwrap_err();
        assert_eq!(refused(without(key, path)), invalidated);
        assert_eq!(
            refused(with(key, path, r#"{"metadata":{"uid":"other"}}"#)),
            format!("{word} UID (other) does not match service account {word} ref claim ({uid})")
        );
        assert_eq!(refused(with(key, path, &gone.replace("UID", uid))), invalidated);
        assert!(check(&issuer, &with(key, path, &going.replace("UID", uid)), &token, NOW).is_ok());
        // The account's end is every token's end.
        assert_eq!(refused(without("sa", "ns/robot")), "serviceaccounts \"robot\" not found");
        let text = gone.replace("UID", "sa-1");
        assert_eq!(refused(with("sa", "ns/robot", &text)), "service account ns/robot has been deleted");
        let other = with("sa", "ns/robot", r#"{"metadata":{"uid":"sa-2"}}"#);
        assert_eq!(refused(other), "service account UID (sa-2) does not match claim (sa-1)");
    }
    // A pod's token outlives the node's object.
    let token = token(&issuer, &world, &bound("Pod", "web"));
    assert!(check(&issuer, &without("node", "/n1"), &token, NOW).is_ok());
}

#[test]
fn invalid_token_requests_get_upstreams_error() {
    let (issuer, world) = (issuer(), world());
    let refused = |request: &str| {
        let status = ask(&issuer, &world, request).unwrap_err();
        (status.code, status.message)
    };
    let spec = |seconds: &str| format!(r#"{{"spec":{{"expirationSeconds":{seconds}}}}}"#);
    assert_eq!(
        refused(&spec("599")),
        (422, "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes".into())
    );
    assert!(refused(&spec("4294967297")).1.ends_with("may not specify a duration larger than 2^32 seconds"));
    assert!(ask(&issuer, &world, &spec("4294967296")).is_ok());
    assert_eq!(
        refused(r#"{"metadata":{"name":"x"}}"#).1,
        "TokenRequest.authentication.k8s.io \"robot\" is invalid: metadata.name: Invalid value: \"x\": must match the service account name if specified"
    );
    assert_eq!(refused(r#"{"metadata":{"namespace":"x"}}"#).0, 400);
    assert_eq!(
        refused(r#"{"metadata":{"uid":"x"}}"#),
        (409, "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"robot\": the UID in the token request (x) does not match the UID of the service account (sa-1)".into())
    );
    assert_eq!(refused(&bound("Pod", "gone")), (404, "pods \"gone\" not found".into()));
    assert_eq!(
        refused(&bound("Lease", "x")),
        (400, "cannot bind token to object of type /v1, Kind=Lease".into())
    );
    assert_eq!(
        refused(r#"{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"apps/v1","name":"web"}}}"#).1,
        "cannot bind token to object of type apps/v1, Kind=Pod"
    );
    assert_eq!(
        refused(r#"{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"web","uid":"x"}}}"#),
        (409, "Operation cannot be fulfilled on Pod \"web\": the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated".into())
    );
    let other = self::world().with(
        "pod",
        "ns/web",
        r#"{"metadata":{"uid":"pod-1"},"spec":{"serviceAccountName":"default"}}"#,
    );
    assert_eq!(
        ask(&issuer, &other, &bound("Pod", "web")).unwrap_err().message,
        "cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name."
    );
}

#[test]
fn kubelets_tokens_are_extended_and_long_ones_shortened() {
    let world = world();
    let request = r#"{"spec":{"expirationSeconds":3607,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"web"}}}"#;
    let claims = |settings: Settings, request: &str| {
        let issued = ask(&issuer_with(settings), &world, request).unwrap();
        let token = issued.answer.str_at(&["status", "token"]).unwrap();
        let claims = Claims::parse(&Unverified::parse(token).unwrap().payload).unwrap();
        let Private::Bound { warn_after, .. } = claims.private else { panic!() };
        (claims.expires.unwrap() - 1_800_000_000, warn_after.map(|t| t - 1_800_000_000), issued.warnings)
    };
    assert_eq!(claims(Settings::default(), request), (365 * 86_400, Some(3607), Vec::new()));
    let plain = Settings { extend_expiration: false, ..Settings::default() };
    assert_eq!(claims(plain, request), (3607, None, Vec::new()));
    let unbound = r#"{"spec":{"expirationSeconds":3607}}"#;
    assert_eq!(claims(Settings::default(), unbound), (3607, None, Vec::new()));
    let elsewhere =
        request.replace("\"expirationSeconds\"", "\"audiences\":[\"vault\"],\"expirationSeconds\"");
    assert_eq!(claims(Settings::default(), &elsewhere), (3607, None, Vec::new()));
    let short = Settings { max_expiration_seconds: 3600, ..Settings::default() };
    let warning = "requested expiration of 7200 seconds shortened to 3600 seconds".to_owned();
    assert_eq!(claims(short, r#"{"spec":{"expirationSeconds":7200}}"#), (3600, None, vec![warning]));
}

#[test]
fn audiences_must_intersect() {
    let (issuer, world) = (issuer(), world());
    let token = token(&issuer, &world, r#"{"spec":{"audiences":["vault","db"]}}"#);
    assert_eq!(
        check(&issuer, &world, &token, NOW).unwrap_err(),
        "token audiences [\"vault\" \"db\"] is invalid for the target audiences [\"https://kubernetes.default.svc.cluster.local\"]"
    );
    let wanted = ["db".to_owned(), "x".to_owned()];
    let found = issuer.authenticate(&token, &wanted, NOW, &world).unwrap().unwrap();
    assert_eq!(found.audiences, ["db"]);
    // Those that meet, as they were asked for.
    let asked = ["db", "x", "vault"].map(str::to_owned);
    let found = issuer.authenticate(&token, &asked, NOW, &world).unwrap().unwrap();
    assert_eq!(found.audiences, ["db", "vault"]);
}

#[test]
fn a_token_without_an_accounts_name_is_refused_before_anything_is_looked_up() {
    let (issuer, world) = (issuer(), world());
    let good = token(&issuer, &world, "{}");
    let mut payload = Unverified::parse(&good).unwrap().payload;
    payload.map_at(&["kubernetes.io", "serviceaccount"]).set("name", "");
    payload.make_map().set("sub", "system:serviceaccount:ns:");
    let nameless = sign(&issuer.signer, &payload).unwrap();
    assert_eq!(check(&issuer, &world, &nameless, NOW), Err("resource name may not be empty".into()));
}

#[test]
fn tokens_of_other_issuers_and_keys_are_ignored() {
    let (issuer, world) = (issuer(), world());
    let strange = issuer_with(Settings { issuers: vec!["https://else".into()], ..Settings::default() });
    let token_of = |from: &ServiceAccounts| token(from, &world, "{}");
    assert_eq!(check(&issuer, &world, &token_of(&strange), NOW), Ok(None));
    let forged = token_of(&self::issuer());
    assert_eq!(check(&issuer, &world, &forged, NOW), Err("invalid signature, no keys found".into()));
    for garbage in ["", "x", "a.b.c", &"e".repeat(20_000)] {
        assert_eq!(check(&issuer, &world, garbage, NOW), Ok(None));
    }
    // With the other's key given, its tokens count: a rotation, or several servers on one store.
    let other = self::issuer();
    let token = token_of(&other);
    let key = SigningKey::from_pkcs8(&SigningKey::generate_pkcs8().unwrap()).unwrap();
    let extra = other.keys().iter().cloned().collect();
    let both = ServiceAccounts::new(Settings::default(), key, extra);
    assert!(check(&both, &world, &token, NOW).unwrap().is_some());
}

#[test]
fn tokens_in_secrets_end_with_their_secret() {
    let issuer = issuer();
    let token = issuer.legacy_token("ns", "robot", "sa-1", "robot-token").unwrap();
    let secret = |token: &str, more: &str| {
        let data = STANDARD.encode(token);
        format!(
            r#"{{"metadata":{{"uid":"u"{more}}},"type":"kubernetes.io/service-account-token","data":{{"token":"{data}"}}}}"#
        )
    };
    let with = |text: &str| world().with("secret", "ns/robot-token", text);
    let found = check(&issuer, &with(&secret(&token, "")), &token, NOW).unwrap().unwrap();
    assert_eq!(found.user.name, "system:serviceaccount:ns:robot");
    assert!(found.user.extra.is_empty());
    assert_eq!(found.audiences, issuer.audiences());
    let refused = |world: World| check(&issuer, &world, &token, NOW).unwrap_err();
    assert_eq!(refused(world()), "Token has been invalidated");
    assert_eq!(refused(with(&secret("other", ""))), "Token does not match server's copy");
    let going = r#","deletionTimestamp":"2027-01-15T07:59:00Z""#;
    assert_eq!(refused(with(&secret(&token, going))), "Token has been invalidated");
    let marked = r#","labels":{"kubernetes.io/legacy-token-invalid-since":"2024-01-01"}"#;
    assert!(refused(with(&secret(&token, marked))).contains("has been marked invalid"));
    let mut accountless = with(&secret(&token, ""));
    accountless.objects.remove(&("sa", "ns/robot".to_owned()));
    assert_eq!(refused(accountless), "serviceaccounts \"robot\" not found");
}

#[test]
fn the_cache_of_verified_tokens_is_bounded() {
    let issuer = issuer();
    let user = Arc::new(UserInfo::anonymous());
    let claims = Claims::parse(&Value::map()).unwrap();
    let verified = Arc::new(Verified { claims, user });
    for n in 0..10_000u32 {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&n.to_le_bytes());
        issuer.verified.put(key, verified.clone());
    }
    assert!(issuer.verified.len() <= 4096, "{}", issuer.verified.len());
}
