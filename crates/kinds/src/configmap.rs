//! Config maps: keys that can be file names, at most one mebibyte, and no changes once immutable.

mod columns;

use catalog::Storage;
use object::{FieldError, Value, quote, validate_text};

use crate::check::{Errors, Seen};
use crate::columns::Printer;
use crate::equal::FieldType;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::write::Write;

pub(crate) struct ConfigMap;
pub(crate) static KIND: ConfigMap = ConfigMap;

/// Of all values together; secrets have the same limit.
pub(crate) const DATA_MAX_BYTES: usize = 1024 * 1024;

impl Kind for ConfigMap {
    fn rules(&self) -> &Rules {
        &Rules::PLAIN
    }

    fn printer(&self, _version: &str) -> &dyn Printer {
        &columns::PRINTER
    }

    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        let new = write.new;
        if let Some(old) = write.old {
            write.check_metadata(errors);
            check_immutable(write.storage, new, old, &["data", "binaryData"], &mut errors.list);
        }
        write.check_whole_metadata(errors);
        let mut bytes = 0;
        let binary: Seen<&str> = entries(new, "binaryData").map(|(key, _)| key).collect();
        for (key, value) in entries(new, "data") {
            check_key("data", key, &mut errors.list);
            if binary.has(&key) {
                let field = format!("data[{key}]");
                errors.list.push(FieldError::invalid(
                    field,
                    quote(key),
                    "duplicate of key present in binaryData",
                ));
            }
            bytes += value.len();
        }
        for (key, value) in entries(new, "binaryData") {
            check_key("binaryData", key, &mut errors.list);
            bytes += decoded_len(value);
        }
        if bytes > DATA_MAX_BYTES {
            // Upstream's path of "the whole object".
            errors.list.push(FieldError::too_long("[]", DATA_MAX_BYTES));
        }
    }
}

/// Once `immutable` is set, it and these members stay.
pub(crate) fn check_immutable(
    storage: &Storage,
    new: &Value,
    old: &Value,
    members: &[&str],
    errors: &mut Vec<FieldError>,
) {
    let immutable = |v: &Value| v.get("immutable").and_then(Value::as_bool) == Some(true);
    if !immutable(old) {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if !immutable(new) {
        errors.push(FieldError::forbidden("immutable", detail));
    }
    for member in members {
        if !FieldType::of(storage, &[member]).identical(new.get(member), old.get(member)) {
            errors.push(FieldError::forbidden(*member, detail));
        }
    }
}

pub(crate) fn entries<'a>(object: &'a Value, member: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = object.get(member).and_then(Value::as_map);
    map.into_iter().flat_map(|m| m.iter()).map(|(key, value)| (&**key, value.as_str().unwrap_or_default()))
}

pub(crate) fn check_key(member: &str, key: &str, errors: &mut Vec<FieldError>) {
    for problem in validate_text::config_map_key(key) {
        errors.push(FieldError::invalid(format!("{member}[{key}]"), quote(key), problem));
    }
}

/// The number of bytes padded base64 decodes to.
pub(crate) fn decoded_len(base64: &str) -> usize {
    let padding = base64.bytes().rev().take(2).filter(|b| *b == b'=').count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}
