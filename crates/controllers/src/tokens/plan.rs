//! Whose token a Secret holds, what it lacks, and what an account says of it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::{Obj, Value};

pub const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The account a Secret is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenOf {
    pub account: String,
    /// Empty until the Secret was filled: then any account of that name.
    pub uid: String,
}

impl TokenOf {
    /// `None`: it names no account, and is nobody's.
    pub fn read(secret: &Value) -> Option<TokenOf> {
        let annotation =
            |name: &str| secret.str_at(&["metadata", "annotations", name]).unwrap_or("").to_owned();
        let of = TokenOf { account: annotation(ACCOUNT_NAME), uid: annotation(ACCOUNT_UID) };
        (!of.account.is_empty()).then_some(of)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Plan {
    Nothing,
    /// Its account is gone.
    Delete,
    Fill(Lacks),
}

/// What to do about a Secret that is for an account.
pub fn plan(secret: &Value, account_is_there: bool, root_ca: Option<&str>) -> Plan {
    if !account_is_there {
        return Plan::Delete;
    }
    match Lacks::of(secret, root_ca) {
        lacks if lacks == Lacks::default() => Plan::Nothing,
        lacks => Plan::Fill(lacks),
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    pub ca: bool,
    pub namespace: bool,
    pub token: bool,
}

impl Lacks {
    /// The authority must be ours; a namespace and a token of the user's own are left alone.
    pub fn of(secret: &Value, root_ca: Option<&str>) -> Lacks {
        let there = |name: &str| secret.str_at(&["data", name]).unwrap_or("");
        Lacks {
            ca: root_ca.is_some_and(|pem| STANDARD.encode(pem) != there("ca.crt")),
            namespace: there("namespace").is_empty(),
            token: there("token").is_empty(),
        }
    }
}

/// Puts in what is given, and whose it is.
pub fn fill(secret: &mut Value, account: &Obj, ca: Option<&str>, namespace: &str, token: Option<&str>) {
    let data = secret.map_at(&["data"]);
    if let Some(pem) = ca {
        data.set("ca.crt", STANDARD.encode(pem));
    }
    if data.get("namespace").and_then(Value::as_str).unwrap_or("").is_empty() {
        data.set("namespace", STANDARD.encode(namespace));
    }
    if let Some(token) = token {
        data.set("token", STANDARD.encode(token));
    }
    let annotations = secret.map_at(&["metadata", "annotations"]);
    annotations.set(ACCOUNT_NAME, account.name().to_owned());
    annotations.set(ACCOUNT_UID, account.uid().to_owned());
}

/// The account without its reference to a Secret; `None`: it has none.
pub fn without_reference(mut account: Value, secret: &str) -> Option<Value> {
    let Some(Value::List(named)) = account.as_map_mut().and_then(|body| body.get_mut("secrets")) else {
        return None;
    };
    let before = named.len();
    named.retain(|reference| reference.str_at(&["name"]) != Some(secret));
    (named.len() < before).then_some(account)
}
