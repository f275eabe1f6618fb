//! Secrets: stringData becomes data, the type is immutable, and known types need their keys.

mod columns;
mod defaults;
mod pair;
mod warnings;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use catalog::Resource;
use object::{FieldError, Status, Value, quote};

use crate::check::Errors;
use crate::columns::Printer;
use crate::configmap::{DATA_MAX_BYTES, check_immutable, check_key, decoded_len, entries};
use crate::kind::{Context, Defaults, Kind};
use crate::rules::Rules;
use crate::same;
use crate::strategy::restore;
use crate::warnings::{Accepted, Warnings};
use crate::write::Write;

pub(crate) struct Secret;
pub(crate) static KIND: Secret = Secret;

const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

impl Kind for Secret {
    fn rules(&self) -> &Rules {
        &Rules::PLAIN
    }

    fn defaults(&self, _version: &str) -> Option<&Defaults> {
        Some(&defaults::apply)
    }

    fn warn(&self, write: &Accepted<'_>, warnings: &mut Warnings) {
        warnings::warn(write, warnings);
    }

    fn printer(&self, _version: &str) -> &dyn Printer {
        &columns::PRINTER
    }

    /// `stringData` is for writing only, and wins.
    fn to_storage(&self, value: &mut Value, _from: &Resource) -> Result<(), Status> {
        if let Some(Value::Map(plain)) = value.make_map().remove("stringData") {
            let data = value.map_at(&["data"]);
            for (key, text) in plain {
                data.set(key, STANDARD.encode(text.as_str().unwrap_or_default()));
            }
        }
        Ok(())
    }

    fn reencoded(&self, value: &Value, resource: &Resource) -> Option<Value> {
        value.get("stringData")?;
        let mut value = value.clone();
        self.to_storage(&mut value, resource).ok()?;
        Some(value)
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _ctx: &Context<'_>) {
        if new.get("type").and_then(Value::as_str).unwrap_or_default().is_empty() {
            restore(new, old, &[], "type");
        }
    }

    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        let new = write.new;
        if let Some(old) = write.old {
            write.check_metadata(errors);
            if !same(new.get("type"), old.get("type")) {
                let shown = quote(new.str_at(&["type"]).unwrap_or_default());
                errors.list.push(FieldError::invalid("type", shown, "field is immutable"));
            }
            check_immutable(write.storage, new, old, &["data"], &mut errors.list);
        }
        write.check_whole_metadata(errors);
        let mut bytes = 0;
        for (key, value) in entries(new, "data") {
            check_key("data", key, &mut errors.list);
            bytes += decoded_len(value);
        }
        if bytes > DATA_MAX_BYTES {
            errors.list.push(FieldError::too_long("data", DATA_MAX_BYTES));
        }
        check_type(new, &mut errors.list);
    }
}

fn check_type(new: &Value, errors: &mut Vec<FieldError>) {
    let data = |key: &str| new.at(&["data", key]).and_then(Value::as_str);
    let mut need = |key: &str| errors.push(FieldError::required(format!("data[{key}]"), ""));
    match new.str_at(&["type"]).unwrap_or_default() {
        "kubernetes.io/service-account-token"
            if new.str_at(&["metadata", "annotations", ACCOUNT_NAME]).unwrap_or_default().is_empty() =>
        {
            errors.push(FieldError::required(format!("metadata.annotations[{ACCOUNT_NAME}]"), ""));
        }
        "kubernetes.io/dockercfg" => check_json(".dockercfg", data(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => {
            check_json(".dockerconfigjson", data(".dockerconfigjson"), errors)
        }
        "kubernetes.io/basic-auth" if data("username").is_none() && data("password").is_none() => {
            need("username");
            need("password");
        }
        "kubernetes.io/ssh-auth" if data("ssh-privatekey").unwrap_or_default().is_empty() => {
            need("ssh-privatekey")
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if data(key).is_none() {
                    need(key);
                }
            }
        }
        _ => {}
    }
}

/// A registry's credentials are a JSON object; its contents never reach a message.
fn check_json(key: &str, value: Option<&str>, errors: &mut Vec<FieldError>) {
    let Some(value) = value else {
        errors.push(FieldError::required(format!("data[{key}]"), ""));
        return;
    };
    let bytes = STANDARD.decode(value).unwrap_or_default();
    let problem = match codec::json::parse(&bytes, None) {
        Ok(Value::Map(_) | Value::Null) => return,
        Ok(other) => {
            format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                other.json_type()
            )
        }
        Err(error) => error.to_string(),
    };
    let shown = quote("<secret contents redacted>");
    errors.push(FieldError::invalid(format!("data[{key}]"), shown, problem));
}
