//! What claims, classes and slices of devices share: names, bounded lists, selectors, configuration, tolerations.

mod selector;

use object::{Value, validate_text};

use crate::check::{Errors, Path, Seen, items, member, text, texts};
use crate::pod::validation::csi_driver_name;

pub(crate) const REQUESTS_MAX: usize = 32;
pub(crate) const CONFIG_MAX: usize = 32;
const SELECTORS_MAX: usize = 32;
const BINDING_MAX: usize = 4;
const POOL_MAX_BYTES: usize = 253;
const ID_MAX_BYTES: usize = 32;
const EXPRESSION_MAX_BYTES: usize = 10 * 1024;
const RAW_MAX_BYTES: usize = 10 * 1024;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

type Rule<'r> = &'r dyn Fn(&Value, &Path<'_>, &mut Errors);

/// Every entry by a rule. For a list that is too long only that is reported.
pub(crate) fn each(list: &[Value], most: usize, at: &Path<'_>, errors: &mut Errors, rule: Rule<'_>) -> bool {
    if list.len() > most {
        errors.too_many(at, list.len(), most);
        return false;
    }
    for (i, entry) in list.iter().enumerate() {
        rule(entry, &at.index(i), errors);
    }
    true
}

/// As [`each`], and no two entries with the same key. `key` gives it as a message shows it.
pub(crate) fn set(
    list: &[Value],
    most: usize,
    key: &dyn Fn(&Value) -> String,
    at: &Path<'_>,
    errors: &mut Errors,
    rule: Rule<'_>,
) {
    if !each(list, most, at, errors, rule) {
        return;
    }
    let keys: Vec<String> = list.iter().map(key).collect();
    let mut seen = Seen::default();
    for (i, own) in keys.iter().enumerate() {
        if seen.again(own) {
            errors.duplicate(&at.index(i), crate::check::Raw(own));
        }
    }
}

/// The key of an entry that has a name, or is one.
pub(crate) fn by_name(entry: &Value) -> String {
    object::quote(entry.as_str().unwrap_or_else(|| text(entry, "name")))
}

pub(crate) fn pool_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(at, "");
    }
    if name.len() > POOL_MAX_BYTES {
        errors.too_long(at, POOL_MAX_BYTES);
    }
    for part in name.split('/') {
        errors.subdomain(at, part);
    }
}

/// A UUID in its normal form.
pub(crate) fn uuid(uid: &str, at: &Path<'_>, errors: &mut Errors) {
    let bare = match uid.len() {
        38 => uid.strip_prefix('{').and_then(|u| u.strip_suffix('}')),
        45 => uid.get(..9).filter(|p| p.eq_ignore_ascii_case("urn:uuid:")).and(uid.get(9..)),
        32 | 36 => Some(uid),
        length => {
            let detail = format!("error validating uid: invalid UUID length: {length}");
            return errors.invalid(at, uid, detail);
        }
    };
    let dashes = [8, 13, 18, 23];
    let formed = bare.is_some_and(|bare| {
        let hex = |(i, b): (usize, u8)| match bare.len() == 36 && dashes.contains(&i) {
            true => b == b'-',
            false => b.is_ascii_hexdigit(),
        };
        bare.bytes().enumerate().all(hex)
    });
    if !formed {
        errors.invalid(at, uid, "error validating uid: invalid UUID format");
    } else if uid.len() != 36 || uid.bytes().any(|b| b.is_ascii_uppercase()) {
        let detail = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
        errors.invalid(at, uid, detail);
    }
}

/// `name` or `domain/name`. More slashes pass, as they do upstream.
pub(crate) fn qualified(name: &str, at: &Path<'_>, errors: &mut Errors) {
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [id] => identifier(id, at, errors),
        [domain, id] => {
            match domain {
                "" => errors.invalid(at, "", "the domain must not be empty"),
                _ => csi_driver_name(domain, at, errors),
            }
            match id {
                "" => errors.invalid(at, "", "the name must not be empty"),
                _ => identifier(id, at, errors),
            }
        }
        _ => {}
    }
}

pub(crate) fn fully_qualified(name: &str, at: &Path<'_>, errors: &mut Errors) {
    qualified(name, at, errors);
    if !name.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.invalid(at, name, detail);
    }
}

fn identifier(id: &str, at: &Path<'_>, errors: &mut Errors) {
    if id.len() > ID_MAX_BYTES {
        errors.too_long(at, ID_MAX_BYTES);
    }
    errors.each(at, id, validate_text::c_identifier(id));
}

/// The expressions that select devices; `stored` if they are as they were.
pub(crate) fn selectors(of: &Value, stored: bool, at: &Path<'_>, errors: &mut Errors) {
    each(items(of, "selectors"), SELECTORS_MAX, &at.child("selectors"), errors, &|selector, at, errors| {
        let at = at.child("cel");
        let Some(cel) = member(selector, "cel") else { return errors.required(&at, "") };
        let (expression, at) = (text(cel, "expression"), at.child("expression"));
        match expression.len() > EXPRESSION_MAX_BYTES {
            true => errors.too_long(&at, EXPRESSION_MAX_BYTES),
            false => selector::check(expression, stored, &at, errors),
        }
    });
}

/// The configuration of a driver. A `stored` one may be longer than is allowed now.
pub(crate) fn configuration(config: &Value, stored: bool, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("opaque");
    let Some(opaque) = member(config, "opaque") else { return errors.required(&at, "") };
    csi_driver_name(text(opaque, "driver"), &at.child("driver"), errors);
    raw_object(opaque.get("parameters"), stored, &at.child("parameters"), errors);
}

/// A JSON object of unknown form.
pub(crate) fn raw_object(value: Option<&Value>, stored: bool, at: &Path<'_>, errors: &mut Errors) {
    let Some(value) = value.filter(|v| !v.is_null()) else { return errors.required(at, "") };
    if !stored && codec::json::to_vec(value).len() > RAW_MAX_BYTES {
        errors.too_long(at, RAW_MAX_BYTES);
    } else if value.as_map().is_none() {
        errors.invalid(at, "<value omitted>", "must be a valid JSON object");
    }
}

pub(crate) fn taint(taint: &Value, at: &Path<'_>, errors: &mut Errors) {
    errors.qualified(&at.child("key"), text(taint, "key"));
    let value = text(taint, "value");
    errors.each(&at.child("value"), value, validate_text::label_value(value));
    errors.choice(&at.child("effect"), text(taint, "effect"), &EFFECTS);
}

pub(crate) fn tolerations(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = at.child("tolerations");
    for (i, toleration) in items(of, "tolerations").iter().enumerate() {
        let at = list.index(i);
        let (key, value) = (text(toleration, "key"), text(toleration, "value"));
        if !key.is_empty() {
            errors.qualified(&at.child("key"), key);
        }
        match text(toleration, "operator") {
            "Exists" => {
                if !value.is_empty() {
                    errors.invalid(&at.child("value"), value, "must be empty for operator `Exists`");
                }
            }
            "Equal" => errors.each(&at.child("value"), value, validate_text::label_value(value)),
            other => errors.choice(&at.child("operator"), other, &["Equal", "Exists"]),
        }
        let effect = text(toleration, "effect");
        if !effect.is_empty() {
            errors.one_of(&at.child("effect"), effect, &EFFECTS);
        }
    }
}

/// Conditions that make a device ready, and those that say it will not be: both or none, none twice.
pub(crate) fn binding(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    let names = ["bindingConditions", "bindingFailureConditions"];
    for name in names {
        each(items(of, name), BINDING_MAX, &at.child(name), errors, &|condition, at, errors| {
            errors.qualified(at, condition.as_str().unwrap_or_default());
        });
    }
    let [ready, failed]: [Vec<&str>; 2] = names.map(|name| texts(of, name).collect());
    for (list, name) in [(&ready, names[0]), (&failed, names[1])] {
        let mut seen = Seen::default();
        for (i, condition) in list.iter().enumerate() {
            let at = at.child(name);
            if seen.again(condition) {
                errors.duplicate(&at.index(i), *condition);
            }
            if name == names[1] && ready.contains(condition) {
                let detail = "bindingFailureConditions must not overlap with bindingConditions";
                errors.invalid(&at.index(i), *condition, detail);
            }
        }
    }
    for (empty, other, without, with) in
        [(&ready, &failed, names[0], names[1]), (&failed, &ready, names[1], names[0])]
    {
        if empty.is_empty() && !other.is_empty() {
            let detail = format!("{without} are required to use {with}");
            errors.invalid(&at.child(without), of.get(without), detail);
        }
    }
}
