//! CSI drivers: all capabilities are required, and some are immutable.

mod columns;
mod defaults;
mod warnings;

use object::Value;

use crate::check::{Errors, Path, Seen, int, items, member, text, texts};
use crate::gates::DisabledFeature;
use crate::generic::GenericKind;
use crate::rules::{Generation, Rules};
use crate::workload::SPEC;
use crate::write::Write;

const DISABLED: &[DisabledFeature] =
    &[DisabledFeature::new("VolumeLimitScaling", &["spec.preventPodSchedulingIfMissing"])];

/// The first change of a driver's spec gives it generation 1.
pub(crate) static KIND: GenericKind =
    GenericKind::new(Rules::PLAIN.with_generation(Generation::SpecFromNothing), check)
        .with_defaults(defaults::apply)
        .with_warnings(warnings::warn)
        .with_printer(&columns::PRINTER)
        .with_disabled_features(DISABLED);

const UPDATE_PERIOD_MIN_SECONDS: i64 = 10;
const TOKEN_MIN_SECONDS: i64 = 600;
const TOKEN_MAX_SECONDS: i64 = 1 << 32;

fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    let spec = write.spec();
    check_spec(spec, errors);
    if let Some(old) = write.old_spec() {
        // Upstream's word for attachRequired in messages.
        for (name, shown) in
            [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
        {
            errors.immutable(&SPEC.child(shown), spec.get(name), old.get(name));
        }
    }
}

fn check_spec(spec: &Value, errors: &mut Errors) {
    let need = |name: &str, shown: &str, errors: &mut Errors| {
        if member(spec, name).is_none() {
            errors.required(&SPEC.child(shown), "");
        }
    };
    need("attachRequired", "attachedRequired", errors);
    need("podInfoOnMount", "podInfoOnMount", errors);
    need("storageCapacity", "storageCapacity", errors);
    errors.one_of_member(&SPEC, spec, "fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"]);
    check_tokens(items(spec, "tokenRequests"), &SPEC.child("tokenRequests"), errors);
    for mode in texts(spec, "volumeLifecycleModes") {
        errors.one_of(&SPEC.child("volumeLifecycleModes"), mode, &["Persistent", "Ephemeral"]);
    }
    need("seLinuxMount", "seLinuxMount", errors);
    let period = "nodeAllocatableUpdatePeriodSeconds";
    if let Some(seconds) = int(spec, period).filter(|s| *s < UPDATE_PERIOD_MIN_SECONDS) {
        errors.invalid(&SPEC.child(period), seconds, "must be greater than or equal to 10 seconds");
    }
    let secrets = "serviceAccountTokenInSecrets";
    if let Some(set) = member(spec, secrets).filter(|_| items(spec, "tokenRequests").is_empty()) {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(&SPEC.child(secrets), set, detail);
    }
}

/// One token an audience, valid for a while but not for ever.
fn check_tokens(requests: &[Value], list: &Path<'_>, errors: &mut Errors) {
    let mut seen = Seen::default();
    for (i, request) in requests.iter().enumerate() {
        let at = list.index(i);
        let audience = text(request, "audience");
        if seen.again(audience) {
            errors.duplicate(&at.child("audience"), audience);
            continue;
        }
        let at = at.child("expirationSeconds");
        let seconds = int(request, "expirationSeconds").unwrap_or(TOKEN_MIN_SECONDS);
        if seconds < TOKEN_MIN_SECONDS {
            errors.invalid(&at, seconds, "may not specify a duration less than 10 minutes");
        }
        if seconds > TOKEN_MAX_SECONDS {
            errors.invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds");
        }
    }
}
