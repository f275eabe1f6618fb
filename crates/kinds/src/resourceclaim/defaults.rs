//! Resource claims and their templates: exactly one device, tolerations compare values.

use object::Map;

use crate::defaults::fill::Literal::{Int, Text};
use crate::defaults::fill::{Default, at, each, fill, plain, text};

const REQUEST: &[Default] = &[plain("allocationMode", Text("ExactCount"))];
const ONE: &[Default] = &[plain("count", Int(1))];
const TOLERATION: &[Default] = &[plain("operator", Text("Equal"))];

pub(crate) fn apply(claim: &mut Map) {
    spec(claim);
    let allocation = at(claim, "status").and_then(|status| at(status, "allocation"));
    if let Some(devices) = allocation.and_then(|allocation| at(allocation, "devices")) {
        each(devices, "results", tolerations);
    }
}

pub(crate) fn apply_template(template: &mut Map) {
    if let Some(inner) = at(template, "spec") {
        spec(inner);
    }
}

fn spec(holder: &mut Map) {
    let Some(devices) = at(holder, "spec").and_then(|spec| at(spec, "devices")) else { return };
    each(devices, "requests", |named| {
        if let Some(exactly) = at(named, "exactly") {
            request(exactly);
        }
        each(named, "firstAvailable", request);
    });
}

fn request(request: &mut Map) {
    fill(request, REQUEST);
    if text(request, "allocationMode") == "ExactCount" {
        fill(request, ONE);
    }
    tolerations(request);
}

fn tolerations(holder: &mut Map) {
    each(holder, "tolerations", |toleration| fill(toleration, TOLERATION));
}
