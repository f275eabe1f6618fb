//! The embedded catalogue files, in the order discovery lists their groups.

/// One line per file: adding a group is a file and its line here.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("core.cat", include_str!("../data/core.cat")),
    ("apiregistration.cat", include_str!("../data/apiregistration.cat")),
    ("apps.cat", include_str!("../data/apps.cat")),
    ("events.cat", include_str!("../data/events.cat")),
    ("authentication.cat", include_str!("../data/authentication.cat")),
    ("authorization.cat", include_str!("../data/authorization.cat")),
    ("autoscaling.cat", include_str!("../data/autoscaling.cat")),
    ("batch.cat", include_str!("../data/batch.cat")),
    ("certificates.cat", include_str!("../data/certificates.cat")),
    ("networking.cat", include_str!("../data/networking.cat")),
    ("policy.cat", include_str!("../data/policy.cat")),
    ("rbac.cat", include_str!("../data/rbac.cat")),
    ("storage.cat", include_str!("../data/storage.cat")),
    ("admissionregistration.cat", include_str!("../data/admissionregistration.cat")),
    ("apiextensions.cat", include_str!("../data/apiextensions.cat")),
    ("scheduling.cat", include_str!("../data/scheduling.cat")),
    ("coordination.cat", include_str!("../data/coordination.cat")),
    ("node.cat", include_str!("../data/node.cat")),
    ("discovery.cat", include_str!("../data/discovery.cat")),
    ("resource.cat", include_str!("../data/resource.cat")),
    ("flowcontrol.cat", include_str!("../data/flowcontrol.cat")),
    // Types without resources of their own.
    ("meta.cat", include_str!("../data/meta.cat")),
    ("apidiscovery.cat", include_str!("../data/apidiscovery.cat")),
];

/// Beside them: what is served only where something is measured.
pub const METRICS: (&str, &str) = ("metrics.cat", include_str!("../data/metrics.cat"));
