//! Webhook configurations, validating and mutating: which requests are sent where, and how failures are treated.

mod columns;
pub(crate) mod defaults;

use std::collections::HashSet;

use object::{Value, validate_text};

use crate::admissionpolicy::warnings;
use crate::admissionrule::{FAILURE, MATCH, REINVOCATION, Scope, check_conditions, check_rule};
use crate::check::{Errors, Path, Seen, int, items, member, text, texts};
use crate::generic::GenericKind;
use crate::rules::{Finalizers, Generation, Rules};
use crate::same;
use crate::write::Write;

const RULES: Rules =
    Rules::PLAIN.with_finalizers(Finalizers::Qualified).with_generation(Generation::Exactly("webhooks"));

pub(crate) static VALIDATING: GenericKind = GenericKind::new(RULES, check_validating)
    .with_defaults(defaults::apply_validating)
    .with_warnings(warnings::warn)
    .with_printer(&columns::PRINTER);
pub(crate) static MUTATING: GenericKind = GenericKind::new(RULES, check_mutating)
    .with_defaults(defaults::apply_mutating)
    .with_warnings(warnings::warn)
    .with_printer(&columns::PRINTER);

const WEBHOOKS: Path<'static> = Path::Root("webhooks");
/// Those this server and the one before it can read.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const HARMLESS: [&str; 2] = ["None", "NoneOnDryRun"];
const EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
const TIMEOUT_SECONDS: std::ops::RangeInclusive<i64> = 1..=30;

/// Rules that stored webhooks already violate are relaxed.
struct Lenience {
    conditions: bool,
    effects: bool,
    reviews: bool,
    names: bool,
    selectors: bool,
}

impl Lenience {
    fn of(new: &[Value], old: Option<&[Value]>) -> Lenience {
        let Some(old) = old else {
            return Lenience {
                conditions: false,
                effects: false,
                reviews: false,
                names: false,
                selectors: false,
            };
        };
        let all_same = || {
            new.len() == old.len()
                && new.iter().zip(old).all(|(n, o)| same(n.get("matchConditions"), o.get("matchConditions")))
        };
        let unread = |hook: &Value| {
            !items(hook, "admissionReviewVersions").is_empty()
                && !texts(hook, "admissionReviewVersions").any(|v| REVIEWS.contains(&v))
        };
        let mut seen = Seen::default();
        let names: Vec<&str> = old.iter().map(|hook| text(hook, "name")).collect();
        Lenience {
            conditions: all_same(),
            effects: old.iter().any(|hook| !HARMLESS.contains(&text(hook, "sideEffects"))),
            reviews: old.iter().any(unread),
            names: names.iter().any(|name| seen.again(*name)),
            selectors: old.iter().any(has_bad_selector),
        }
    }
}

fn has_bad_selector(hook: &Value) -> bool {
    let mut errors = Errors::default();
    for name in ["namespaceSelector", "objectSelector"] {
        errors.label_selector(&WEBHOOKS, hook.get(name));
    }
    !errors.is_empty()
}

fn check_validating(write: &Write<'_>, errors: &mut Errors) {
    check(write, false, errors);
}

fn check_mutating(write: &Write<'_>, errors: &mut Errors) {
    check(write, true, errors);
}

fn check(write: &Write<'_>, mutating: bool, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    let hooks = items(write.new, "webhooks");
    let old = write.old.map(|old| items(old, "webhooks"));
    let lenience = Lenience::of(hooks, old);
    let conditions = old.into_iter().flatten().flat_map(|hook| items(hook, "matchConditions"));
    let stored: HashSet<&str> = conditions.map(|own| text(own, "expression")).collect();
    let mut seen = Seen::default();
    for (i, hook) in hooks.iter().enumerate() {
        let at = WEBHOOKS.index(i);
        check_hook(hook, mutating, &lenience, &stored, &at, errors);
        check_reviews(hook, lenience.reviews, &at.child("admissionReviewVersions"), errors);
        let name = text(hook, "name");
        let twice = !name.is_empty() && seen.again(name);
        if twice && !lenience.names {
            errors.duplicate(&at.child("name"), name);
        }
    }
}

/// `stored` are the expressions of the old object.
fn check_hook(
    hook: &Value,
    mutating: bool,
    lenience: &Lenience,
    stored: &HashSet<&str>,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    check_name(text(hook, "name"), &at.child("name"), errors);
    for (i, rule) in items(hook, "rules").iter().enumerate() {
        check_rule(rule, &at.child("rules").index(i), errors);
    }
    errors.one_of_member(at, hook, "failurePolicy", &FAILURE);
    errors.one_of_member(at, hook, "matchPolicy", &MATCH);
    let effects: &[&str] = if lenience.effects { &EFFECTS } else { &HARMLESS };
    if member(hook, "sideEffects").is_none() {
        errors.required(&at.child("sideEffects"), &format!("must specify one of {}", effects.join(", ")));
    }
    errors.one_of_member(at, hook, "sideEffects", effects);
    if let Some(seconds) = int(hook, "timeoutSeconds").filter(|s| !TIMEOUT_SECONDS.contains(s)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(&at.child("timeoutSeconds"), seconds, detail);
    }
    for name in ["namespaceSelector", "objectSelector"] {
        errors.label_selector_with(&at.child(name), hook.get(name), lenience.selectors);
    }
    if mutating {
        errors.one_of_member(at, hook, "reinvocationPolicy", &REINVOCATION);
    }
    let none = Value::Null;
    let client = hook.get("clientConfig").unwrap_or(&none);
    let client_at = at.child("clientConfig");
    match (member(client, "url").and_then(Value::as_str), member(client, "service")) {
        (Some(url), None) => errors.webhook_url(&client_at.child("url"), url),
        (None, Some(service)) => errors.webhook_service(&client_at.child("service"), service),
        _ => errors.required(&client_at, "exactly one of url or service is required"),
    }
    if !lenience.conditions {
        check_conditions(hook, &Scope::default(), stored, at, errors);
    }
}

/// Three segments at least: the webhook, and whose it is.
fn check_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(at, "");
    }
    let problems = validate_text::dns1123_subdomain(name);
    if !problems.is_empty() {
        errors.invalid(at, name, problems.join(","));
    } else if name.split('.').count() < 3 {
        errors.invalid(at, name, "should be a domain with at least three segments separated by dots");
    }
}

fn check_reviews(hook: &Value, lenient: bool, at: &Path<'_>, errors: &mut Errors) {
    let versions: Vec<&str> = texts(hook, "admissionReviewVersions").collect();
    if versions.is_empty() {
        return errors.required(at, &format!("must specify one of {}", REVIEWS.join(", ")));
    }
    let mut seen = Seen::default();
    for (i, version) in versions.iter().enumerate() {
        if seen.again(version) {
            errors.invalid(&at.index(i), *version, "duplicate version");
            continue;
        }
        errors.each(&at.index(i), version, validate_text::dns1035_label(version));
    }
    if !lenient && !versions.iter().any(|version| REVIEWS.contains(version)) {
        let detail = format!("must include at least one of {}", REVIEWS.join(", "));
        errors.invalid(at, hook.get("admissionReviewVersions"), detail);
    }
}
