//! Requests, limits and claims: resource names, quantities, and how they relate.

use object::quantity::Quantity;
use std::collections::BTreeMap;

use object::{Index, Value, validate_text};

use super::Options;
use crate::check::internal::internal;
use crate::check::internal::pod::POD_RESOURCE_CLAIM;
use crate::check::{
    Errors, NEGATIVE, Path, Raw, Seen, all_of, entries, items, member, quantity, quantity_text, text,
};

/// Resources without a domain, other than huge pages.
pub(crate) const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
/// Resources with integer quantities.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const HUGE_PAGES: &str = "hugepages-";

pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Kubernetes' own: without a domain, or of kubernetes.io.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// `example.com/gpu`.
pub(crate) fn is_extended(name: &str) -> bool {
    if is_native(name) || name.starts_with("requests.") {
        return false;
    }
    validate_text::qualified_name(&format!("requests.{name}")).is_empty()
}

fn is_integer(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// Whether the resource may be overcommitted.
pub(crate) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// A qualified name; without a domain one of Kubernetes' own.
pub(crate) fn resource_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    let problems = validate_text::qualified_name(name);
    if !problems.is_empty() {
        return errors.each(at, name, problems);
    }
    let quota = is_huge_page(name) || name.starts_with("requests.hugepages-");
    if !name.contains('/') && !STANDARD.contains(&name) && !quota {
        errors.invalid(at, name, "must be a standard resource type or fully qualified");
    }
}

pub(crate) fn container_resource_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if matches!(name, "cpu" | "memory" | "ephemeral-storage") {
        return;
    }
    resource_name(name, at, errors);
    if !name.contains('/') {
        if !is_huge_page(name) {
            errors.invalid(at, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(at, name, "doesn't follow extended resource name standard");
    }
}

fn pod_resource_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    let before = errors.len();
    resource_name(name, at, errors);
    if errors.len() == before && !is_huge_page(name) {
        errors.one_of(at, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// Not negative, and an integer for integer resources.
pub(crate) fn quantity_value(name: &str, value: &Value, at: &Path<'_>, errors: &mut Errors) {
    let amount = quantity(value);
    if amount.sign() < 0 {
        errors.invalid(at, quantity_text(value).as_str(), NEGATIVE);
    }
    if amount.as_milli() % 1000 != 0 && is_integer(name) {
        errors.invalid(at, quantity_text(value).as_str(), "must be an integer");
    }
}

pub(crate) fn container_resources(
    resources: &Value,
    claims: &[Value],
    at: &Path<'_>,
    options: &Options,
    errors: &mut Errors,
) {
    check(resources, claims, &container_resource_name, at, options, errors);
}

pub(super) fn pod_resources(
    resources: &Value,
    spec: &Value,
    at: &Path<'_>,
    options: &Options,
    errors: &mut Errors,
) {
    check(resources, items(spec, "resourceClaims"), &pod_resource_name, at, options, errors);
}

/// The overhead is checked as if it were limits; upstream's path says so too.
pub(crate) fn overhead(overhead: &Value, at: &Path<'_>, options: &Options, errors: &mut Errors) {
    let mut limits = object::Map::default();
    limits.set("limits", overhead.clone());
    check(&Value::Map(limits), &[], &container_resource_name, at, options, errors);
}

type NameRule<'a> = &'a dyn Fn(&str, &Path<'_>, &mut Errors);

fn check(
    resources: &Value,
    claims: &[Value],
    name_rule: NameRule<'_>,
    at: &Path<'_>,
    options: &Options,
    errors: &mut Errors,
) {
    let (mut compute, mut huge_pages) = (false, false);
    let huge = |name: &str, value: &Value, at: &Path<'_>, errors: &mut Errors| {
        if !options.odd_huge_pages && !is_divisible(name, value) {
            let shown = quantity_text(value);
            let detail = format!("{shown} is not positive integer multiple of {name}");
            errors.invalid(at, shown.as_str(), detail);
        }
    };
    let limits = at.child("limits");
    for (name, value) in entries(resources, "limits") {
        let at = limits.key(name);
        name_rule(name, &at, errors);
        quantity_value(name, value, &at, errors);
        if is_huge_page(name) {
            huge_pages = true;
            huge(name, value, &at, errors);
        }
        compute |= matches!(name, "cpu" | "memory");
    }
    let requests = at.child("requests");
    let limit_of = Index::of(resources.get("limits"));
    for (name, value) in entries(resources, "requests") {
        let at = requests.key(name);
        name_rule(name, &at, errors);
        quantity_value(name, value, &at, errors);
        match limit_of.get(name) {
            Some(limit) => {
                let order = quantity(value).cmp(&quantity(limit));
                let words = if order.is_ne() && !may_overcommit(name) {
                    "equal to"
                } else if order.is_gt() {
                    "less than or equal to"
                } else {
                    ""
                };
                if !words.is_empty() {
                    let detail = format!("must be {words} {name} limit of {}", quantity_text(limit));
                    errors.invalid(&requests, quantity_text(value).as_str(), detail);
                }
            }
            None if !may_overcommit(name) => {
                errors.required(&limits, "Limit must be set for non overcommitable resources");
            }
            None => {}
        }
        if is_huge_page(name) {
            huge_pages = true;
            huge(name, value, &at, errors);
        }
        compute |= matches!(name, "cpu" | "memory");
    }
    if huge_pages && !compute {
        errors.forbidden(at, "HugePages require cpu or memory");
    }
    check_claim_names(items(resources, "claims"), claims, &at.child("claims"), errors);
}

/// A whole number of pages of the size the name says.
fn is_divisible(name: &str, value: &Value) -> bool {
    let size = name.strip_prefix(HUGE_PAGES).and_then(|size| Quantity::parse(size).ok());
    let Some(size) = size.filter(|s| s.sign() > 0 && s.as_milli() % 1000 == 0) else { return false };
    quantity(value).as_i64() % size.as_i64().max(1) == 0
}

pub(super) fn has_odd_huge_pages(resources: &Value) -> bool {
    let all = entries(resources, "limits").chain(entries(resources, "requests"));
    all.into_iter().any(|(name, value)| is_huge_page(name) && !is_divisible(name, value))
}

fn check_claim_names(used: &[Value], of_pod: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let known = all_of(of_pod, "name");
    let detail = unknown_claim(of_pod);
    let mut seen: Seen<String> = Seen::default();
    // How many requests of a claim were named.
    let mut requests: BTreeMap<String, usize> = BTreeMap::new();
    for (i, claim) in used.iter().enumerate() {
        let at = at.index(i);
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.required(&at, "");
            continue;
        }
        if seen.has(&name.to_owned()) {
            errors.duplicate(&at, name);
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                errors.dns_label(&at.child("request"), request);
                key = format!("{name}/{request}");
            }
            if seen.has(&key) {
                errors.duplicate(&at, key.as_str());
            } else if request.is_empty() {
                let count = requests.get(name).copied().unwrap_or(0);
                for _ in 0..count {
                    if errors.is_full() {
                        break;
                    }
                    errors.duplicate(&at, name);
                }
            }
            if let Some((claim, _)) = key.split_once('/') {
                *requests.entry(claim.to_owned()).or_default() += 1;
            }
            seen.again(key);
        }
        if !known.has(&name) && !errors.is_full() {
            errors.not_found(&at, name, detail.as_str());
        }
    }
}

/// The error about a claim that the pod does not have.
fn unknown_claim(of_pod: &[Value]) -> String {
    let mut names: Vec<&str> = of_pod.iter().map(|c| text(c, "name")).filter(|n| !n.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    let detail = "must be one of the names in pod.spec.resourceClaims";
    match names.is_empty() {
        true => format!("{detail} which is empty"),
        false => format!("{detail}: {}", names.join(", ")),
    }
}

/// The claims a pod names for its containers.
pub(super) fn pod_claims(metadata: Option<&Value>, claims: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let mirror = metadata.is_some_and(|m| m.at(&["annotations", "kubernetes.io/config.mirror"]).is_some());
    let mut seen = Seen::default();
    for (i, claim) in claims.iter().enumerate() {
        if mirror {
            errors.forbidden(&Path::Root(""), "static pods do not support resource claims");
            continue;
        }
        let at = at.index(i);
        let name = text(claim, "name");
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else if seen.again(name) {
            errors.duplicate(&at.child("name"), name);
        } else {
            errors.dns_label(&at.child("name"), name);
        }
        let (direct, template) =
            (member(claim, "resourceClaimName"), member(claim, "resourceClaimTemplateName"));
        let shown = || internal(Some(claim), POD_RESOURCE_CLAIM);
        match (direct, template) {
            (Some(_), Some(_)) => {
                let detail =
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.invalid(&at, Raw(&shown()), detail);
            }
            (None, None) => {
                let detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.invalid(&at, Raw(&shown()), detail);
            }
            _ => {}
        }
        for field in ["resourceClaimName", "resourceClaimTemplateName"] {
            if let Some(name) = member(claim, field).and_then(Value::as_str) {
                errors.subdomain(&at.child(field), name);
            }
        }
    }
}

/// What the containers of a pod need together: those that run at once are summed, init containers count alone
/// beside the sidecars started before them.
pub(super) fn aggregate(spec: &Value, list: &str, name: &str) -> Option<Quantity> {
    let amount = |container: &Value| container.at(&["resources", list, name]).map(quantity);
    let plus = |a: Option<Quantity>, b: Option<Quantity>| match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
    let running = items(spec, "containers").iter().fold(None, |sum, c| plus(sum, amount(c)));
    let (mut sidecars, mut most) = (None, None);
    for container in items(spec, "initContainers") {
        let own = amount(container);
        let at_once = if text(container, "restartPolicy") == "Always" {
            sidecars = plus(sidecars, own);
            sidecars
        } else {
            plus(own, sidecars)
        };
        most = most.max(at_once);
    }
    plus(running, sidecars).max(most)
}
