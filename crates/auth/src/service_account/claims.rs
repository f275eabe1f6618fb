//! Token claims: the registered ones, and those under `kubernetes.io`.

use object::{Map, Value};

use crate::user::service_account_username;

/// The issuer of legacy tokens stored in Secrets.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    pub issuer: String,
    pub subject: String,
    pub audiences: Vec<String>,
    pub expires: Option<i64>,
    pub not_before: Option<i64>,
    pub issued_at: Option<i64>,
    /// `jti`.
    pub id: String,
    pub private: Private,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Private {
    /// From a TokenRequest.
    Bound {
        namespace: String,
        account: Ref,
        pod: Option<Ref>,
        secret: Option<Ref>,
        node: Option<Ref>,
        warn_after: Option<i64>,
    },
    /// From a Secret of type `kubernetes.io/service-account-token`.
    Legacy { namespace: String, account: Ref, secret: String },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ref {
    pub name: String,
    pub uid: String,
}

impl Claims {
    pub fn parse(payload: &Value) -> Result<Claims, String> {
        let text = |name: &str| match payload.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::Str(text)) => Ok(text.clone()),
            Some(_) => Err(format!("the claim {name} is no string")),
        };
        let audiences = match payload.get("aud") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Str(one)) => vec![one.clone()],
            Some(Value::List(many)) => many
                .iter()
                .map(|v| v.as_str().map(str::to_owned))
                .collect::<Option<_>>()
                .ok_or(UNMARSHAL_AUDIENCE)?,
            Some(_) => return Err(UNMARSHAL_AUDIENCE.to_owned()),
        };
        let issuer = text("iss")?;
        let private = if issuer == LEGACY_ISSUER {
            let claim = |name: &str| text(&format!("kubernetes.io/serviceaccount/{name}"));
            Private::Legacy {
                namespace: claim("namespace")?,
                account: Ref { name: claim("service-account.name")?, uid: claim("service-account.uid")? },
                secret: claim("secret.name")?,
            }
        } else {
            let about = payload.get("kubernetes.io").unwrap_or(&Value::Null);
            let reference = |name: &str| about.get(name).filter(|v| !v.is_null()).map(Ref::parse);
            Private::Bound {
                namespace: about.str_at(&["namespace"]).unwrap_or_default().to_owned(),
                account: reference("serviceaccount").unwrap_or_default(),
                pod: reference("pod"),
                secret: reference("secret"),
                node: reference("node"),
                warn_after: time(about, "warnafter")?.filter(|t| *t != 0),
            }
        };
        Ok(Claims {
            subject: text("sub")?,
            audiences,
            expires: time(payload, "exp")?,
            not_before: time(payload, "nbf")?,
            issued_at: time(payload, "iat")?,
            id: text("jti")?,
            issuer,
            private,
        })
    }

    /// A bound token's payload, keys sorted as in kube-apiserver.
    pub fn to_payload(&self) -> Value {
        let mut out = Map::default();
        out.set("aud", self.audiences.iter().map(|a| Value::from(a.as_str())).collect::<Vec<_>>());
        for (name, time) in [("exp", self.expires), ("iat", self.issued_at)] {
            if let Some(time) = time {
                out.set(name, time);
            }
        }
        out.set("iss", self.issuer.as_str());
        out.set("jti", self.id.as_str());
        if let Private::Bound { namespace, account, pod, secret, node, warn_after } = &self.private {
            let mut about = Map::default();
            about.set("namespace", namespace.as_str());
            let account = Some(account.clone());
            for (name, reference) in
                [("node", node), ("pod", pod), ("secret", secret), ("serviceaccount", &account)]
            {
                if let Some(reference) = reference {
                    about.set(name, reference.to_value());
                }
            }
            if let Some(time) = warn_after {
                about.set("warnafter", *time);
            }
            out.set("kubernetes.io", about);
        }
        if let Some(time) = self.not_before {
            out.set("nbf", time);
        }
        out.set("sub", self.subject.as_str());
        Value::Map(out)
    }
}

/// The payload of a legacy token stored in a Secret.
pub(super) fn legacy(namespace: &str, name: &str, uid: &str, secret: &str) -> Value {
    let mut out = Map::default();
    out.set("iss", LEGACY_ISSUER);
    for (claim, value) in [
        ("namespace", namespace),
        ("secret.name", secret),
        ("service-account.name", name),
        ("service-account.uid", uid),
    ] {
        out.set(format!("kubernetes.io/serviceaccount/{claim}"), value);
    }
    out.set("sub", service_account_username(namespace, name));
    Value::Map(out)
}

impl Ref {
    fn parse(value: &Value) -> Ref {
        let text = |name: &str| value.str_at(&[name]).unwrap_or_default().to_owned();
        Ref { name: text("name"), uid: text("uid") }
    }

    fn to_value(&self) -> Value {
        let mut out = Map::default();
        for (name, text) in [("name", &self.name), ("uid", &self.uid)] {
            if !text.is_empty() {
                out.set(name, text.as_str());
            }
        }
        Value::Map(out)
    }
}

const UNMARSHAL_AUDIENCE: &str =
    "go-jose/go-jose/jwt: expected string or array value to unmarshal to Audience";

/// Seconds since 1970; fractions are truncated.
fn time(claims: &Value, name: &str) -> Result<Option<i64>, String> {
    match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Int(seconds)) => Ok(Some(*seconds)),
        Some(Value::Float(seconds)) => Ok(Some(*seconds as i64)),
        Some(_) => Err("go-jose/go-jose/jwt: expected number value to unmarshal NumericDate".to_owned()),
    }
}
