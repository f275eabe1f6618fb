//! How the versions of a definition become one another: not at all, or by a webhook that can be reached and understood.

use object::{Value, validate_text};

use crate::check::{Errors, Seen, ca_bundle_problem, flag, items, member, text, texts};
use crate::strategy::map_mut;
use crate::workload::SPEC;

/// Reviews this server and the one before it can read.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// Upstream holds what a webhook says beside it: one that says nothing is none.
pub(super) fn drop_empty_webhook(definition: &mut Value) {
    let Some(conversion) = map_mut(definition, &["spec", "conversion"]) else { return };
    let silent = |webhook: &Value| {
        member(webhook, "clientConfig").is_none() && items(webhook, "conversionReviewVersions").is_empty()
    };
    if conversion.get("webhook").is_some_and(silent) {
        conversion.remove("webhook");
    }
}

pub(super) fn check(spec: &Value, old: Option<&Value>, established: bool, errors: &mut Errors) {
    let Some(conversion) = member(spec, "conversion") else { return };
    let at = SPEC.child("conversion");
    let strategy = text(conversion, "strategy");
    if strategy != "None" && flag(spec, "preserveUnknownFields") {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.invalid(&at.child("strategy"), strategy, detail);
    }
    errors.choice(&at.child("strategy"), strategy, &["None", "Webhook"]);
    let none = Value::Null;
    let webhook = conversion.get("webhook").unwrap_or(&none);
    let (client, client_at) = (member(webhook, "clientConfig"), at.child("webhookClientConfig"));
    let versions_at = at.child("conversionReviewVersions");
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.forbidden(&client_at, detail);
        }
        if !items(webhook, "conversionReviewVersions").is_empty() {
            errors.forbidden(&versions_at, detail);
        }
        return;
    }
    match client {
        None => errors.required(&client_at, "required when strategy is set to Webhook"),
        Some(client) => {
            match (member(client, "url").and_then(Value::as_str), member(client, "service")) {
                (Some(url), None) => errors.webhook_url(&client_at.child("url"), url),
                (None, Some(service)) => errors.webhook_service(&client_at.child("service"), service),
                _ => errors.required(&client_at, "exactly one of url or service is required"),
            }
            // Until it is established a definition may be made without its certificates; a loop looks at them then.
            let problem = |client: &Value| ca_bundle_problem(text(client, "caBundle"));
            let before = old.and_then(|old| old.at(&["conversion", "webhook", "clientConfig"]));
            if established
                && before.and_then(problem).is_none()
                && let Some(problem) = problem(client)
            {
                errors.invalid(&client_at.child("caBundle"), text(client, "caBundle"), problem);
            }
        }
    }
    let versions: Vec<&str> = texts(webhook, "conversionReviewVersions").collect();
    if versions.is_empty() {
        return errors.required(&versions_at, "");
    }
    let mut seen = Seen::default();
    for (i, version) in versions.iter().enumerate() {
        if seen.again(version) {
            errors.invalid(&versions_at.index(i), *version, "duplicate version");
            continue;
        }
        errors.each(&versions_at.index(i), version, validate_text::dns1035_label(version));
    }
    let unread = |spec: &Value| {
        let list = spec.at(&["conversion", "webhook"]).map(|w| items(w, "conversionReviewVersions"));
        list.is_some_and(|list| {
            !list.is_empty() && !list.iter().any(|v| v.as_str().is_some_and(|v| REVIEWS.contains(&v)))
        })
    };
    if unread(spec) && !old.is_some_and(unread) {
        let detail = format!("must include at least one of {}", REVIEWS.join(", "));
        errors.invalid(&versions_at, webhook.get("conversionReviewVersions"), detail);
    }
}
