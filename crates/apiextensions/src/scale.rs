//! The scale subresource of custom resources: where its numbers are, and what they may be.

use std::borrow::Cow;

use catalog::Name;
use kinds::{FieldError, ScalePaths, ScaleSelector};
use object::Value;
use object::patch::{go_text, go_type};

/// From `subresources.scale` of a version.
pub(crate) fn scale_paths(scale: &Value) -> ScalePaths {
    let path = |member: &str| {
        let text = scale.str_at(&[member]).unwrap_or_default();
        let names = text.trim_start_matches('.').split('.').filter(|name| !name.is_empty());
        Cow::Owned(names.map(|name| Name::from(name.to_owned())).collect::<Vec<_>>())
    };
    ScalePaths {
        spec_replicas: path("specReplicasPath"),
        status_replicas: path("statusReplicasPath"),
        selector: path("labelSelectorPath"),
        selector_form: ScaleSelector::Text,
        required: scale.str_at(&["specReplicasPath"]).map(str::to_owned),
    }
}

/// The numbers must be replicas, and the selector a text. A write to the status is not held against the spec.
pub(crate) fn check(paths: &ScalePaths, new: &Value, is_status: bool, errors: &mut Vec<FieldError>) {
    if !is_status {
        check_replicas(&paths.spec_replicas, new, errors);
    }
    check_replicas(&paths.status_replicas, new, errors);
    if !paths.selector.is_empty()
        && let Err(why) = nested(new, &paths.selector, "string", |value| value.as_str().map(|_| ()))
    {
        errors.push(FieldError::invalid(text(&paths.selector), "\"\"", why));
    }
}

fn check_replicas(path: &[Name], new: &Value, errors: &mut Vec<FieldError>) {
    let field = text(path);
    match nested(new, path, "int64", Value::as_int) {
        Err(why) => errors.push(FieldError::invalid(field, "0", why)),
        Ok(Some(count)) if count < 0 => {
            errors.push(FieldError::invalid(field, count.to_string(), "should be a non-negative integer"));
        }
        Ok(Some(count)) if count > i64::from(i32::MAX) => {
            let why = format!("should be less than or equal to {}", i32::MAX);
            errors.push(FieldError::invalid(field, count.to_string(), why));
        }
        Ok(_) => {}
    }
}

/// The member at a path, if all on the way to it are maps; in the words of upstream's accessor.
fn nested<T>(
    new: &Value,
    path: &[Name],
    wanted: &str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, String> {
    let mut here = new;
    for (i, name) in path.iter().enumerate() {
        if here.is_null() {
            return Ok(None);
        }
        let Some(map) = here.as_map() else {
            let shown = go_text(here);
            let path = text(&path[..=i]);
            return Err(format!(
                "{path} accessor error: {shown} is of the type {}, expected map[string]interface{{}}",
                go_type(here)
            ));
        };
        match map.get(name) {
            Some(next) => here = next,
            None => return Ok(None),
        }
    }
    read(here).map(Some).ok_or_else(|| {
        let shown = go_text(here);
        format!("{} accessor error: {shown} is of the type {}, expected {wanted}", text(path), go_type(here))
    })
}

fn text(path: &[Name]) -> String {
    path.iter().map(|name| format!(".{name}")).collect()
}
