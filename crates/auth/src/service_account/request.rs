//! TokenRequest: issues a token for a service account, with audiences, an expiration and an optional bound object.

use object::{About, FieldError, Map, Status, Value, quote, time};

use super::claims::{Claims, Private, Ref};
use super::{Kind, Objects, ServiceAccounts};
use crate::jwt::sign;
use crate::rbac::strings;
use crate::user::service_account_username;

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
/// How long a token lives that was asked for without a time.
pub const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;
/// The expiration kubelets request for tokens of clients that may not reload them.
const WARN_ONLY_SECONDS: i64 = 3607;
const EXTENDED_SECONDS: i64 = 365 * 86_400;

/// The completed TokenRequest, and warnings for the client.
#[derive(Debug)]
pub struct Issued {
    pub answer: Value,
    pub warnings: Vec<String>,
}

impl ServiceAccounts {
    /// A TokenRequest for the service account of the URL, with defaults, checked.
    pub fn complete(
        &self,
        (namespace, name): (&str, &str),
        mut request: Value,
        now_nanos: u128,
        objects: &dyn Objects,
    ) -> Result<Value, Status> {
        let now = seconds_of(now_nanos);
        let said = |field: &str| request.str_at(&["metadata", field]).unwrap_or_default().to_owned();
        let (said_name, said_namespace, said_uid) = (said("name"), said("namespace"), said("uid"));
        if !said_namespace.is_empty() && said_namespace != namespace {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if !said_name.is_empty() && said_name != name {
            let why = "must match the service account name if specified";
            let error = FieldError::invalid("metadata.name", quote(&said_name), why);
            return Err(Status::invalid(GROUP, KIND, name, vec![error]));
        }
        let account = objects
            .find(Kind::ServiceAccount, namespace, name)
            .ok_or_else(|| not_found("serviceaccounts", name))?;
        if !said_uid.is_empty() && said_uid != account.uid {
            let why = format!(
                "the UID in the token request ({said_uid}) does not match the UID of the service account ({})",
                account.uid
            );
            return Err(Status::conflict(About { group: GROUP, resource: KIND }, name, why));
        }
        let mut audiences = strings(request.at(&["spec", "audiences"]));
        if audiences.is_empty() {
            audiences = self.audiences().to_vec();
        }
        let seconds =
            request.at(&["spec", "expirationSeconds"]).and_then(Value::as_int).unwrap_or(DEFAULT_SECONDS);
        let metadata = request.map_at(&["metadata"]);
        metadata.set("name", name);
        metadata.set("namespace", namespace);
        metadata.set("uid", account.uid.as_str());
        metadata.set("creationTimestamp", time::format_seconds(now));
        let spec = request.map_at(&["spec"]);
        spec.set("audiences", audiences.iter().map(|a| Value::from(a.as_str())).collect::<Vec<_>>());
        spec.set("expirationSeconds", seconds);
        request.make_map().remove("status");
        check_seconds(seconds)?;
        Ok(request)
    }

    /// Issues the token of a request that is complete and admitted. `id` becomes the token's `jti`.
    pub fn issue(
        &self,
        (namespace, name): (&str, &str),
        mut request: Value,
        now_nanos: u128,
        id: String,
        objects: &dyn Objects,
    ) -> Result<Issued, Status> {
        let now = seconds_of(now_nanos);
        let account = objects
            .find(Kind::ServiceAccount, namespace, name)
            .ok_or_else(|| not_found("serviceaccounts", name))?;
        let audiences = strings(request.at(&["spec", "audiences"]));
        let mut seconds =
            request.at(&["spec", "expirationSeconds"]).and_then(Value::as_int).unwrap_or(DEFAULT_SECONDS);
        let bound = self.bound(namespace, name, request.at(&["spec", "boundObjectRef"]), objects)?;
        let mut warnings = Vec::new();
        let most = self.settings.max_expiration_seconds;
        if most > 0 && seconds > most {
            warnings.push(format!("requested expiration of {seconds} seconds shortened to {most} seconds"));
            seconds = most;
            request.map_at(&["spec"]).set("expirationSeconds", seconds);
        }
        let for_this_api = audiences.iter().all(|a| self.audiences().contains(a));
        let extended = self.settings.extend_expiration
            && bound.pod.is_some()
            && seconds == WARN_ONLY_SECONDS
            && for_this_api;
        let claims = Claims {
            issuer: self.issuer().to_owned(),
            subject: service_account_username(namespace, name),
            audiences,
            expires: Some(now.saturating_add(if extended { EXTENDED_SECONDS } else { seconds })),
            not_before: Some(now),
            issued_at: Some(now),
            id,
            private: Private::Bound {
                namespace: namespace.to_owned(),
                account: Ref { name: name.to_owned(), uid: account.uid },
                pod: bound.pod,
                secret: bound.secret,
                node: bound.node,
                warn_after: extended.then(|| now.saturating_add(seconds)),
            },
        };
        let token = sign(&self.signer, &claims.to_payload())
            .map_err(|e| Status::internal(format!("failed to generate token: {e}")))?;
        let mut status = Map::default();
        status.set("token", token);
        status.set("expirationTimestamp", time::format_seconds(now.saturating_add(seconds)));
        request.make_map().set("status", status);
        Ok(Issued { answer: request, warnings })
    }

    /// The bound object, looked up and checked.
    fn bound(
        &self,
        namespace: &str,
        account: &str,
        reference: Option<&Value>,
        objects: &dyn Objects,
    ) -> Result<Bound, Status> {
        let mut bound = Bound::default();
        let Some(reference) = reference.filter(|r| !r.is_null()) else { return Ok(bound) };
        let text = |field: &str| reference.str_at(&[field]).unwrap_or_default();
        let (kind, api_version, name, wanted_uid) =
            (text("kind"), text("apiVersion"), text("name"), text("uid"));
        let (group, version) = match api_version.split_once('/') {
            // A malformed group/version counts as empty.
            Some((_, rest)) if rest.contains('/') => ("", ""),
            Some(parts) => parts,
            None => ("", api_version),
        };
        if group.is_empty() && matches!(kind, "Pod" | "Node" | "Secret") {
            Status::check_key_name(name)?;
        }
        let uid = match (group, kind) {
            ("", "Pod") => {
                let pod = objects.read(Kind::Pod, namespace, name).ok_or_else(|| not_found("pods", name))?;
                if pod.str_at(&["spec", "serviceAccountName"]).unwrap_or_default() != account {
                    return Err(Status::bad_request(format!(
                        "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                        quote(account)
                    )));
                }
                let uid = pod.str_at(&["metadata", "uid"]).unwrap_or_default().to_owned();
                if let Some(node) = pod.str_at(&["spec", "nodeName"]).filter(|n| !n.is_empty()) {
                    // A missing node is named all the same.
                    let uid = objects.find(Kind::Node, "", node).map(|f| f.uid).unwrap_or_default();
                    bound.node = Some(Ref { name: node.to_owned(), uid });
                }
                bound.pod = Some(Ref { name: name.to_owned(), uid: uid.clone() });
                uid
            }
            ("", "Node") => {
                let found = objects.find(Kind::Node, "", name).ok_or_else(|| not_found("nodes", name))?;
                bound.node = Some(Ref { name: name.to_owned(), uid: found.uid.clone() });
                found.uid
            }
            ("", "Secret") => {
                let found =
                    objects.find(Kind::Secret, namespace, name).ok_or_else(|| not_found("secrets", name))?;
                bound.secret = Some(Ref { name: name.to_owned(), uid: found.uid.clone() });
                found.uid
            }
            _ => {
                return Err(Status::bad_request(format!(
                    "cannot bind token to object of type {group}/{version}, Kind={kind}"
                )));
            }
        };
        if !wanted_uid.is_empty() && uid != wanted_uid {
            let why = format!(
                "the UID in the bound object reference ({wanted_uid}) does not match the UID in record. The object might \
                 have been deleted and then recreated"
            );
            return Err(Status::conflict(About { group, resource: kind }, name, why));
        }
        Ok(bound)
    }
}

#[derive(Default)]
struct Bound {
    pod: Option<Ref>,
    secret: Option<Ref>,
    node: Option<Ref>,
}

fn check_seconds(seconds: i64) -> Result<(), Status> {
    let why = match seconds {
        ..MIN_SECONDS => "may not specify a duration less than 10 minutes",
        MIN_SECONDS..=MAX_SECONDS => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let error = FieldError::invalid("spec.expirationSeconds", seconds.to_string(), why);
    Err(Status::invalid(GROUP, KIND, "", vec![error]))
}

fn not_found(resource: &'static str, name: &str) -> Status {
    Status::not_found(About { group: "", resource }, name)
}

fn seconds_of(nanos: u128) -> i64 {
    i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX)
}
