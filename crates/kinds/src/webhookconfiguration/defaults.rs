//! Webhook configurations, mutating and validating: fail closed, match equivalents, wait ten seconds.

use object::Map;

use crate::admissionpolicy::defaults::RULE;
use crate::defaults::fill::Literal::{Empty, Int, Text};
use crate::defaults::fill::{Default, at, each, fill, pointer};

const WEBHOOK: &[Default] = &[
    pointer("failurePolicy", Text("Fail")),
    pointer("matchPolicy", Text("Equivalent")),
    pointer("namespaceSelector", Empty),
    pointer("objectSelector", Empty),
    pointer("timeoutSeconds", Int(10)),
];
const ONCE: &[Default] = &[pointer("reinvocationPolicy", Text("Never"))];
const HTTPS: &[Default] = &[pointer("port", Int(443))];

pub(crate) fn apply_validating(configuration: &mut Map) {
    each(configuration, "webhooks", webhook);
}

pub(crate) fn apply_mutating(configuration: &mut Map) {
    each(configuration, "webhooks", |hook| {
        fill(hook, ONCE);
        webhook(hook);
    });
}

/// The service of a client configuration answers where HTTPS does.
pub(crate) fn service_port(client: &mut Map) {
    if let Some(service) = at(client, "service") {
        fill(service, HTTPS);
    }
}

fn webhook(hook: &mut Map) {
    fill(hook, WEBHOOK);
    if let Some(client) = at(hook, "clientConfig") {
        service_port(client);
    }
    each(hook, "rules", |rule| fill(rule, RULE));
}
