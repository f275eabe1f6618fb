//! Labels and label selectors as one line of text.

use object::Value;
use object::validate_text::{label_value, qualified_name};

use super::row::{at, len, list, strings, text};

/// `app=web,tier=front`, or `<none>`.
pub(crate) fn labels(map: Option<&Value>) -> String {
    let mut pairs: Vec<String> = pairs(map).map(|(k, v)| format!("{k}={v}")).collect();
    if pairs.is_empty() {
        return "<none>".to_owned();
    }
    pairs.sort_unstable();
    pairs.join(",")
}

/// A `LabelSelector`, `<none>` when it is absent or selects everything.
pub(crate) fn label_selector(selector: Option<&Value>) -> String {
    match selector_text(selector) {
        Some(text) if text.is_empty() => "<none>".to_owned(),
        Some(text) => text,
        None => "<error>".to_owned(),
    }
}

/// `app=web,tier in (a,b),!old`: requirements by key. Empty for a selector without any; `None` for one that
/// breaks the rules of label selectors.
pub(crate) fn selector_text(selector: Option<&Value>) -> Option<String> {
    let Some(selector) = selector else { return Some(String::new()) };
    let mut requirements = Vec::new();
    for (key, value) in pairs(at(selector, &["matchLabels"])) {
        requirements.push((key, requirement(key, "=", vec![value])?));
    }
    for expression in list(selector, &["matchExpressions"]) {
        let key = text(expression, &["key"]);
        let values = strings(list(expression, &["values"]));
        requirements.push((key, requirement(key, text(expression, &["operator"]), values)?));
    }
    requirements.sort_by_key(|(key, _)| *key);
    let texts: Vec<String> = requirements.into_iter().map(|(_, text)| text).collect();
    Some(texts.join(","))
}

/// The text Go's generated code makes of a LabelSelector: what upstream shows of a binding's parameters.
pub(crate) fn selector_debug(selector: &Value) -> String {
    let mut labels: Vec<(&str, &str)> = pairs(at(selector, &["matchLabels"])).collect();
    labels.sort_unstable();
    let mut out = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    for (key, value) in labels {
        out.push_str(&format!("{key}: {value},"));
    }
    out.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for expression in list(selector, &["matchExpressions"]) {
        out.push_str(&format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            text(expression, &["key"]),
            text(expression, &["operator"]),
            strings(list(expression, &["values"])).join(" "),
        ));
    }
    out.push_str("},}");
    out
}

fn requirement(key: &str, operator: &str, mut values: Vec<&str>) -> Option<String> {
    let counted = match operator {
        "=" => values.len() == 1,
        "In" | "NotIn" => !values.is_empty(),
        "Exists" | "DoesNotExist" => values.is_empty(),
        _ => false,
    };
    if !counted || !qualified_name(key).is_empty() || values.iter().any(|v| !label_value(v).is_empty()) {
        return None;
    }
    values.sort_unstable();
    let values = values.join(",");
    Some(match operator {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "Exists" => key.to_owned(),
        "DoesNotExist" => format!("!{key}"),
        _ => format!("{key}={values}"),
    })
}

fn pairs(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let entries = map.filter(|m| len(m) > 0).and_then(Value::as_map);
    entries.into_iter().flat_map(|m| m.iter().map(|(k, v)| (&**k, v.as_str().unwrap_or(""))))
}
