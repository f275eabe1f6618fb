//! The rules of limit ranges: bounds that do not cross.

use object::quantity::{Format, Quantity};
use object::{Index, Value, validate_text};

use crate::check::{Errors, Path, Seen, entries, items, quantity, quantity_text, text};
use crate::pod::validation::{container_resource_name, may_overcommit, resource_name};
use crate::write::Write;

const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    // Upstream checks the whole object on updates too, and not what updates may not do.
    write.check_whole_metadata(errors);
    let limits = items(write.spec(), "limits");
    let mut seen = Seen::default();
    for (i, limit) in limits.iter().enumerate() {
        let list = Path::Root("spec.limits");
        let at = list.index(i);
        let kind = text(limit, "type");
        check_type(kind, &at.child("type"), errors);
        if seen.again(kind) {
            errors.duplicate(&at.child("type"), kind);
        }
        check_limit(limit, kind, &at, errors);
    }
}

fn check_type(kind: &str, at: &Path<'_>, errors: &mut Errors) {
    let problems = validate_text::qualified_name(kind);
    if !problems.is_empty() {
        return errors.each(at, kind, problems);
    }
    if !kind.contains('/') && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") {
        errors.invalid(at, kind, "must be a standard limit type or fully qualified");
    }
}

fn check_limit(limit: &Value, kind: &str, at: &Path<'_>, errors: &mut Errors) {
    let mut names: Vec<&str> = Vec::new();
    for list in LISTS {
        if kind == "Pod" && matches!(list, "default" | "defaultRequest") {
            if entries(limit, list).next().is_some() {
                errors.forbidden(&at.child(list), "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        if list == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" {
            let stored = |list: &str| limit.at(&[list, "storage"]).is_some();
            if !stored("min") && !stored("max") {
                let detail = "either minimum or maximum storage value is required, but neither was provided";
                errors.required(&at.child("limits"), detail);
            }
        }
        for (name, _) in entries(limit, list) {
            let list_at = at.child(list);
            match kind {
                "Pod" | "Container" => container_resource_name(name, &list_at.key(name), errors),
                _ => resource_name(name, &list_at.key(name), errors),
            }
            names.push(name);
        }
    }
    names.sort_unstable();
    names.dedup();
    let lists = LISTS.map(|list| {
        let hidden = kind == "Pod" && matches!(list, "default" | "defaultRequest");
        Index::of(limit.get(list).filter(|_| !hidden))
    });
    for name in names {
        check_bounds(lists.each_ref().map(|list| list.get(name)), name, at, errors);
    }
}

/// What the lists say of a name, in their order.
fn check_bounds(
    [max, min, default, request, ratio]: [Option<&Value>; 5],
    name: &str,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    // Where, what is shown there, and the two values of which the first must not be more.
    let rules = [
        ("min", min, "min value", min, "max value", max),
        ("defaultRequest", request, "min value", min, "default request value", request),
        ("defaultRequest", request, "default request value", request, "max value", max),
        ("defaultRequest", request, "default request value", request, "default limit value", default),
        ("default", min, "min value", min, "default value", default),
        ("default", max, "default value", default, "max value", max),
    ];
    for (list, shown, low_words, low, high_words, high) in rules {
        let (Some(low), Some(high)) = (low, high) else { continue };
        if quantity(low) > quantity(high) {
            let (low, high) = (quantity_text(low), quantity_text(high));
            let detail = format!("{low_words} {low} is greater than {high_words} {high}");
            errors.invalid(&at.child(list).key(name), shown, detail);
        }
    }
    if let Some(ratio) = ratio {
        check_ratio(ratio, min, max, &at.child("maxLimitRequestRatio").key(name), errors);
    }
    if let (Some(default), Some(request)) = (default, request)
        && !may_overcommit(name)
        && quantity(default) != quantity(request)
    {
        let detail = format!(
            "default value {} must equal to defaultRequest value {} in {name}",
            quantity_text(default),
            quantity_text(request)
        );
        errors.invalid(&at.child("defaultRequest").key(name), request, detail);
    }
}

fn check_ratio(ratio: &Value, min: Option<&Value>, max: Option<&Value>, at: &Path<'_>, errors: &mut Errors) {
    let amount = quantity(ratio);
    if amount < Quantity::from_i64(1, Format::DecimalSi) {
        errors.invalid(at, ratio, format!("ratio {} is less than 1", quantity_text(ratio)));
    }
    let (Some(min), Some(max)) = (min.map(quantity), max.map(quantity)) else { return };
    let fine = [amount, min, max].iter().all(|q| q.as_i64() < i64::MAX / 1000);
    let (allowed, low, high) = match fine {
        true => (amount.as_milli() as f64 / 1000.0, min.as_milli(), max.as_milli()),
        false => (amount.as_i64() as f64, min.as_i64(), max.as_i64()),
    };
    let most = high as f64 / low as f64;
    if allowed > most {
        let detail = format!("ratio {} is greater than max/min = {most:.6}", quantity_text(ratio));
        errors.invalid(at, ratio, detail);
    }
}
