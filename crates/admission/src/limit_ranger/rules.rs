//! The four comparisons of a limit range, each a message when it fails.

use object::quantity::Quantity;

use crate::amounts::{Amount, Amounts};

/// Above this, thousandths no longer fit and whole units are compared.
const MAX_MILLI: i64 = i64::MAX / 1000;

pub fn min(kind: &str, min: &Amount, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let Amount { name, text: bound, .. } = min;
    let (request, limit, enforced) = comparable(requests.value(name), limits.value(name), min.value);
    let usage = format!("minimum {name} usage per {kind} is {bound}");
    match (requests.get(name), limits.get(name)) {
        (None, _) => Some(format!("{usage}.  No request is specified")),
        (Some(asked), _) if request < enforced => Some(format!("{usage}, but request is {}", asked.text)),
        (_, Some(allowed)) if limit < enforced => Some(format!("{usage}, but limit is {}", allowed.text)),
        _ => None,
    }
}

pub fn max(kind: &str, max: &Amount, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let Amount { name, text: bound, .. } = max;
    let (request, limit, enforced) = comparable(requests.value(name), limits.value(name), max.value);
    let usage = format!("maximum {name} usage per {kind} is {bound}");
    match (requests.get(name), limits.get(name)) {
        (_, None) => Some(format!("{usage}.  No limit is specified")),
        (_, Some(allowed)) if limit > enforced => Some(format!("{usage}, but limit is {}", allowed.text)),
        (Some(asked), _) if request > enforced => Some(format!("{usage}, but request is {}", asked.text)),
        _ => None,
    }
}

/// For claims, which have no limits.
pub fn max_request(kind: &str, max: &Amount, requests: &Amounts) -> Option<String> {
    let Amount { name, text: bound, .. } = max;
    let (request, _, enforced) = comparable(requests.value(name), Quantity::ZERO, max.value);
    let usage = format!("maximum {name} usage per {kind} is {bound}");
    match requests.get(name) {
        None => Some(format!("{usage}.  No request is specified")),
        Some(asked) if request > enforced => Some(format!("{usage}, but request is {}", asked.text)),
        _ => None,
    }
}

pub fn ratio(kind: &str, ratio: &Amount, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let Amount { name, text: bound, .. } = ratio;
    let (request, limit, _) = comparable(requests.value(name), limits.value(name), ratio.value);
    let most = format!("{name} max limit to request ratio per {kind} is {bound}");
    if requests.get(name).is_none() || request == 0 {
        return Some(format!("{most}, but no request is specified or request is 0"));
    }
    if limits.get(name).is_none() || limit == 0 {
        return Some(format!("{most}, but no limit is specified or limit is 0"));
    }
    let provided = limit as f64 / request as f64;
    let broken = if ratio.value.as_i64() <= MAX_MILLI {
        provided * 1000.0 > ratio.value.as_milli() as f64
    } else {
        provided > ratio.value.as_i64() as f64
    };
    broken.then(|| format!("{most}, but provided ratio is {provided:.6}"))
}

/// All three in thousandths, or, where one is too large for that, in whole units.
fn comparable(request: Quantity, limit: Quantity, enforced: Quantity) -> (i64, i64, i64) {
    let whole = [request.as_i64(), limit.as_i64(), enforced.as_i64()];
    if whole.iter().all(|value| *value <= MAX_MILLI) {
        (request.as_milli(), limit.as_milli(), enforced.as_milli())
    } else {
        (whole[0], whole[1], whole[2])
    }
}
