//! Service account tokens: issued by `request`, verified by `authenticate`.
//!
//! A token is valid while its signature, issuer, audience and times are, and while the service account, and the pod,
//! secret or node it is bound to, still exist with the same uid. The first four never change for a
//! token, so the result is cached; the objects are looked up for every request.

mod cache;
mod claims;
mod request;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use object::{Value, time};
use ring::digest::{SHA256, digest};

use crate::jwt::{KeySet, PublicKey, SigningKey, Unverified, sign};
use crate::rbac::quoted_list;
use crate::user::split_service_account;
use crate::{UserInfo, names};
use cache::Cache;
pub use claims::{Claims, LEGACY_ISSUER, Private, Ref};
pub use request::{DEFAULT_SECONDS, Issued};

pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// Leeway for clock skew; also how long after its deletion an object is still accepted.
pub const LEEWAY_SECONDS: i64 = 60;
/// The label of a Secret whose token was used: the day it last was.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

pub struct Settings {
    /// The first one is used for new tokens, all are accepted.
    pub issuers: Vec<String>,
    /// The audiences of this API; empty: the issuers.
    pub audiences: Vec<String>,
    /// 0: no limit beyond the API's own.
    pub max_expiration_seconds: i64,
    /// Projected tokens are extended to one year for clients that do not reload them; a warning is sent after an hour.
    pub extend_expiration: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            issuers: vec![DEFAULT_ISSUER.to_owned()],
            audiences: Vec::new(),
            max_expiration_seconds: 0,
            extend_expiration: true,
        }
    }
}

/// The kinds a token can be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ServiceAccount,
    Pod,
    Secret,
    Node,
}

/// Metadata of an object, without decoding it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub uid: String,
    /// deletionTimestamp in Unix seconds.
    pub deleted_at: Option<i64>,
}

/// Access to the current objects of the cluster. `namespace` is empty for nodes.
pub trait Objects {
    fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<Found>;
    fn read(&self, kind: Kind, namespace: &str, name: &str) -> Option<Value>;
    /// The token of this Secret was used, and the Secret does not say so of today yet.
    fn used(&self, secret: &Value) {
        let _ = secret;
    }
}

/// The authenticated user, and which of the requested audiences the token is valid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    pub user: Arc<UserInfo>,
    pub audiences: Vec<String>,
    /// For the client: it should use another kind of token.
    pub warning: Option<&'static str>,
}

/// Why a token of our issuer is invalid, worded as in kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub message: String,
    /// The signature is valid, but an object is missing or has another uid: a newer state may differ.
    pub may_be_stale: bool,
}

/// The token issuer and verifier of a cluster.
pub struct ServiceAccounts {
    settings: Settings,
    signer: SigningKey,
    keys: KeySet,
    verified: Cache,
}

/// A token whose signature and issuer were verified.
pub(crate) struct Verified {
    pub claims: Claims,
    /// The user follows from the claims.
    pub user: Arc<UserInfo>,
}

impl ServiceAccounts {
    /// `extra` are additional verification keys: those of other servers, or from before a rotation.
    pub fn new(mut settings: Settings, signer: SigningKey, extra: Vec<PublicKey>) -> ServiceAccounts {
        if settings.issuers.is_empty() {
            settings.issuers.push(DEFAULT_ISSUER.to_owned());
        }
        if settings.audiences.is_empty() {
            settings.audiences = settings.issuers.clone();
        }
        let keys = KeySet::new([signer.public().clone()].into_iter().chain(extra));
        ServiceAccounts { settings, signer, keys, verified: Cache::default() }
    }

    pub fn issuer(&self) -> &str {
        &self.settings.issuers[0]
    }
    pub fn audiences(&self) -> &[String] {
        &self.settings.audiences
    }
    pub fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// `Ok(None)`: not issued by us, another authenticator may accept it.
    pub fn authenticate(
        &self,
        token: &str,
        wanted_audiences: &[String],
        now_nanos: u128,
        objects: &dyn Objects,
    ) -> Result<Option<Authenticated>, Refusal> {
        let Some(verified) = self.verified(token)? else { return Ok(None) };
        let claims = &verified.claims;
        // Legacy tokens have no audience: they are valid for this API only.
        let meant = if claims.audiences.is_empty() { &self.settings.audiences } else { &claims.audiences };
        let audiences: Vec<String> = wanted_audiences.iter().filter(|a| meant.contains(a)).cloned().collect();
        if audiences.is_empty() {
            return Err(refuse(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted_list(meant),
                quoted_list(wanted_audiences)
            )));
        }
        let warning = match &claims.private {
            Private::Bound { .. } => {
                bound_token_holds(claims, now_nanos, objects)?;
                None
            }
            Private::Legacy { .. } => legacy_token_holds(claims, token, now_nanos, objects)?,
        };
        Ok(Some(Authenticated { user: verified.user.clone(), audiences, warning }))
    }

    /// A token for a Secret of type `kubernetes.io/service-account-token`; valid as long as the Secret contains it.
    pub fn legacy_token(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        secret: &str,
    ) -> Result<String, crate::jwt::KeyError> {
        sign(&self.signer, &claims::legacy(namespace, name, uid, secret))
    }

    fn verified(&self, token: &str) -> Result<Option<Arc<Verified>>, Refusal> {
        if token.len() > crate::jwt::MAX_BYTES {
            return Ok(None);
        }
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(known) = self.verified.get(&key) {
            return Ok(Some(known));
        }
        let Some(parsed) = Unverified::parse(token) else { return Ok(None) };
        // Before the signature: a token of another issuer is left to other authenticators.
        let issuer = parsed.payload.str_at(&["iss"]).unwrap_or_default();
        if issuer != LEGACY_ISSUER && !self.settings.issuers.iter().any(|i| i == issuer) {
            return Ok(None);
        }
        parsed.verify(&self.keys).map_err(|e| refuse(e.to_string()))?;
        let claims = Claims::parse(&parsed.payload).map_err(refuse)?;
        let user = Arc::new(user_of(&claims));
        let verified = Arc::new(Verified { claims, user });
        self.verified.put(key, verified.clone());
        Ok(Some(verified))
    }
}

fn refuse(message: impl Into<String>) -> Refusal {
    Refusal { message: message.into(), may_be_stale: false }
}

fn stale(message: impl Into<String>) -> Refusal {
    Refusal { message: message.into(), may_be_stale: true }
}

fn bound_token_holds(claims: &Claims, now_nanos: u128, objects: &dyn Objects) -> Result<(), Refusal> {
    const NANOS: i128 = 1_000_000_000;
    let now = i128::try_from(now_nanos).unwrap_or(i128::MAX);
    let leeway = i128::from(LEEWAY_SECONDS) * NANOS;
    let at = |seconds: i64| i128::from(seconds) * NANOS;
    if claims.not_before.is_some_and(|t| now + leeway < at(t)) {
        return Err(refuse("service account token is not valid yet"));
    }
    if claims.expires.is_some_and(|t| now - leeway > at(t)) {
        return Err(refuse("service account token has expired"));
    }
    if claims.issued_at.is_some_and(|t| now + leeway < at(t)) {
        return Err(refuse("service account token is issued in the future"));
    }
    let Private::Bound { namespace, account, pod, secret, node, .. } = &claims.private else {
        return Ok(());
    };
    if account.name.is_empty() {
        return Err(refuse("resource name may not be empty"));
    }
    let gone = |found: &Found| found.deleted_at.is_some_and(|t| at(t) < now - leeway);
    let found = objects
        .find(Kind::ServiceAccount, namespace, &account.name)
        .ok_or_else(|| stale(format!("serviceaccounts \"{}\" not found", account.name)))?;
    if found.uid != account.uid {
        return Err(stale(format!(
            "service account UID ({}) does not match claim ({})",
            found.uid, account.uid
        )));
    }
    if gone(&found) {
        return Err(refuse(format!("service account {namespace}/{} has been deleted", account.name)));
    }
    let bound = [
        (Kind::Secret, "secret", namespace.as_str(), secret),
        (Kind::Pod, "pod", namespace.as_str(), pod),
        // A pod's token only mentions the node: deleting the node does not invalidate it.
        (Kind::Node, "node", "", if pod.is_some() { &None } else { node }),
    ];
    for (kind, word, namespace, claim) in bound {
        let Some(claim) = claim else { continue };
        let invalidated = "service account token has been invalidated";
        let found = objects.find(kind, namespace, &claim.name).ok_or_else(|| stale(invalidated))?;
        if found.uid != claim.uid {
            return Err(stale(format!(
                "{word} UID ({}) does not match service account {word} ref claim ({})",
                found.uid, claim.uid
            )));
        }
        if gone(&found) {
            return Err(refuse(invalidated));
        }
    }
    Ok(())
}

/// With a warning about a token that came with its account, before tokens were requested.
fn legacy_token_holds(
    claims: &Claims,
    token: &str,
    now_nanos: u128,
    objects: &dyn Objects,
) -> Result<Option<&'static str>, Refusal> {
    let Private::Legacy { namespace, account, secret } = &claims.private else { return Ok(None) };
    for (value, name) in [
        (&claims.subject, "sub"),
        (namespace, "namespace"),
        (secret, "secretName"),
        (&account.name, "serviceAccountName"),
        (&account.uid, "serviceAccountUID"),
    ] {
        if value.is_empty() {
            return Err(refuse(format!("{name} claim is missing")));
        }
    }
    if split_service_account(&claims.subject) != Some((namespace, &account.name)) {
        return Err(refuse("sub claim is invalid"));
    }
    let invalidated = "Token has been invalidated";
    let kept = objects.read(Kind::Secret, namespace, secret).ok_or_else(|| stale(invalidated))?;
    if kept.at(&["metadata", "deletionTimestamp"]).is_some() {
        return Err(refuse(invalidated));
    }
    if !crate::bootstrap_token::same_text(&data(&kept, "token").unwrap_or_default(), token.as_bytes()) {
        return Err(stale("Token does not match server's copy"));
    }
    let found = objects
        .find(Kind::ServiceAccount, namespace, &account.name)
        .ok_or_else(|| stale(format!("serviceaccounts \"{}\" not found", account.name)))?;
    if found.deleted_at.is_some() {
        return Err(refuse(format!("ServiceAccount {namespace}/{} has been deleted", account.name)));
    }
    if found.uid != account.uid {
        return Err(stale(format!(
            "ServiceAccount UID ({}) does not match claim ({})",
            found.uid, account.uid
        )));
    }
    if !was_used_today(&kept, now_nanos) {
        objects.used(&kept);
    }
    const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
    if kept.str_at(&["metadata", "labels", INVALID_SINCE]).is_some_and(|since| !since.is_empty()) {
        return Err(refuse(format!(
            "the token in secret {namespace}/{secret} for service account {namespace}/{} has been marked invalid. Use tokens \
             from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label from \
             the secret to temporarily allow use of this token",
            account.name
        )));
    }
    let owner = objects.read(Kind::ServiceAccount, namespace, &account.name);
    let named = owner.as_ref().and_then(|owner| owner.get("secrets")).and_then(Value::as_list);
    let is_auto_generated =
        named.unwrap_or_default().iter().any(|named| named.str_at(&["name"]) == Some(secret));
    Ok(is_auto_generated.then_some(AUTO_GENERATED))
}

const AUTO_GENERATED: &str = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of \
                              auto-generated secret-based tokens.";

/// The label says today, or tomorrow: servers' clocks differ.
fn was_used_today(secret: &Value, now_nanos: u128) -> bool {
    let now = i64::try_from(now_nanos / 1_000_000_000).unwrap_or(i64::MAX);
    let Some(said) = secret.str_at(&["metadata", "labels", LAST_USED]) else { return false };
    let is = |seconds: i64| time::format_seconds(seconds).starts_with(said);
    said.len() == 10 && (is(now) || is(now.saturating_add(24 * 3600)))
}

/// A decoded value of a Secret's data.
pub(crate) fn data(secret: &Value, key: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(secret.str_at(&["data", key])?).ok()
}

fn user_of(claims: &Claims) -> UserInfo {
    let (namespace, account) = match &claims.private {
        Private::Bound { namespace, account, .. } | Private::Legacy { namespace, account, .. } => {
            (namespace, account)
        }
    };
    let mut user = UserInfo::service_account(namespace, &account.name, &account.uid);
    let mut extra = |key: &str, value: &str| user.extra.insert(key.to_owned(), vec![value.to_owned()]);
    if let Private::Bound { pod, node, .. } = &claims.private {
        if let Some(pod) = pod.as_ref().filter(|p| !p.name.is_empty() && !p.uid.is_empty()) {
            extra(names::POD_NAME_KEY, &pod.name);
            extra(names::POD_UID_KEY, &pod.uid);
        }
        if !claims.id.is_empty() {
            extra(names::CREDENTIAL_ID_KEY, &format!("JTI={}", claims.id));
        }
        if let Some(node) = node.as_ref().filter(|n| !n.name.is_empty()) {
            extra(names::NODE_NAME_KEY, &node.name);
            if !node.uid.is_empty() {
                extra(names::NODE_UID_KEY, &node.uid);
            }
        }
    }
    user
}
