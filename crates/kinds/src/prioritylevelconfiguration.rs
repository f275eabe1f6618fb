//! Priority levels: how many requests run concurrently, and whether others are queued. The two mandatory ones are fixed.

mod columns;
mod defaults;

use object::Value;

use crate::check::internal::{Field, Go, NULL, TEXT, internal};
use crate::check::{Errors, Path, Raw, int, member, text};
use crate::equal::same_but;
use crate::flowschema::{check_conditions, is};
use crate::generic::GenericKind;
use crate::rules::{Generation, Rules, StatusMeta};
use crate::workload::SPEC;
use crate::write::Write;

pub(crate) static KIND: GenericKind = GenericKind::new(
    Rules::PLAIN.with_generation(Generation::SPEC).with_status(StatusMeta::KeepWhole),
    check,
)
.with_defaults(defaults::apply)
.with_printer(&columns::PRINTER);

const ZERO_SHARES: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
const QUEUES_MAX: i64 = 10_000_000;
const HASH_BITS_MAX: i64 = 60;
const CATCH_ALL: &str = r#"{"type":"Limited","limited":{"nominalConcurrencyShares":5,"limitResponse":{"type":"Reject"},"lendablePercent":0}}"#;

const LEVEL: [Field; 3] = [
    ("type", "Type", TEXT),
    ("limited", "Limited", Go::Pointer(&LIMITED)),
    ("exempt", "Exempt", Go::Pointer(&EXEMPT)),
];
const LIMITED: [Field; 4] = [
    ("nominalConcurrencyShares", "NominalConcurrencyShares", Go::Leaf("0")),
    ("limitResponse", "LimitResponse", Go::Struct(&RESPONSE)),
    ("lendablePercent", "LendablePercent", NULL),
    ("borrowingLimitPercent", "BorrowingLimitPercent", NULL),
];
const RESPONSE: [Field; 2] = [("type", "Type", TEXT), ("queuing", "Queuing", Go::Pointer(&QUEUING))];
const QUEUING: [Field; 3] = [
    ("queues", "Queues", Go::Leaf("0")),
    ("handSize", "HandSize", Go::Leaf("0")),
    ("queueLengthLimit", "QueueLengthLimit", Go::Leaf("0")),
];
const EXEMPT: [Field; 2] = [
    ("nominalConcurrencyShares", "NominalConcurrencyShares", NULL),
    ("lendablePercent", "LendablePercent", NULL),
];

fn check(write: &Write<'_>, errors: &mut Errors) {
    if !write.is_status() {
        write.check_whole_metadata(errors);
        if write.new.at(&["metadata", "annotations", ZERO_SHARES]).is_some() {
            let detail = format!("annotation '{ZERO_SHARES}' is forbidden");
            errors.forbidden(&Path::Root("metadata.annotations"), detail);
        }
        let name = write.new.str_at(&["metadata", "name"]).unwrap_or_default();
        check_spec(name, write.spec(), errors);
        check_fixed(name, write.spec(), errors);
    }
    check_conditions(write.status(), errors);
}

fn check_fixed(name: &str, spec: &Value, errors: &mut Errors) {
    let detail = match name {
        "exempt" if text(spec, "type") != "Exempt" || !same_but(spec, &Value::map(), &["type", "exempt"]) => {
            "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
        }
        "catch-all" if !is(spec, CATCH_ALL) => "spec of 'catch-all' must equal the fixed value",
        _ => return,
    };
    errors.invalid(&SPEC, Raw(&internal(Some(spec), &LEVEL)), detail);
}

fn check_spec(name: &str, spec: &Value, errors: &mut Errors) {
    let kind = text(spec, "type");
    let (limited, exempt) = (member(spec, "limited"), member(spec, "exempt"));
    let (limited_at, exempt_at) = (SPEC.child("limited"), SPEC.child("exempt"));
    if (name == "exempt") != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.invalid(&SPEC.child("type"), kind, detail);
    }
    match kind {
        "Exempt" => {
            if limited.is_some() {
                errors.forbidden(&limited_at, "must be nil if the type is not Limited");
            }
            if let Some(exempt) = exempt {
                check_shares(exempt, &exempt_at, errors);
                check_lendable(exempt, &exempt_at, errors);
            }
        }
        "Limited" => {
            if exempt.is_some() {
                errors.forbidden(&exempt_at, "must be nil if the type is Limited");
            }
            match limited {
                None => errors.required(&limited_at, "must not be empty when type is Limited"),
                Some(limited) => check_limited(limited, &limited_at, errors),
            }
        }
        _ => errors.choice(&SPEC.child("type"), kind, &["Exempt", "Limited"]),
    }
}

fn check_limited(limited: &Value, at: &Path<'_>, errors: &mut Errors) {
    check_shares(limited, at, errors);
    let none = Value::Null;
    let response = limited.get("limitResponse").unwrap_or(&none);
    let response_at = at.child("limitResponse");
    let queuing_at = response_at.child("queuing");
    match (text(response, "type"), member(response, "queuing")) {
        ("Reject", Some(_)) => {
            errors.forbidden(&queuing_at, "must be nil if limited.limitResponse.type is not Limited");
        }
        ("Reject", None) => {}
        ("Queue", None) => {
            errors.required(&queuing_at, "must not be empty if limited.limitResponse.type is Limited");
        }
        ("Queue", Some(queuing)) => check_queuing(queuing, &queuing_at, errors),
        (other, _) => errors.choice(&response_at.child("type"), other, &["Queue", "Reject"]),
    }
    check_lendable(limited, at, errors);
    if let Some(percent) = int(limited, "borrowingLimitPercent").filter(|p| *p < 0) {
        let detail = "if specified, must be a non-negative integer";
        errors.invalid(&at.child("borrowingLimitPercent"), percent, detail);
    }
}

fn check_shares(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(shares) = int(of, "nominalConcurrencyShares").filter(|shares| *shares < 0) {
        errors.invalid(&at.child("nominalConcurrencyShares"), shares, "must be a non-negative integer");
    }
}

fn check_lendable(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(percent) = int(of, "lendablePercent").filter(|p| !(0..=100).contains(p)) {
        errors.invalid(&at.child("lendablePercent"), percent, "must be between 0 and 100, inclusive");
    }
}

fn check_queuing(queuing: &Value, at: &Path<'_>, errors: &mut Errors) {
    let of = |name: &str| int(queuing, name).unwrap_or(0);
    let (length, queues, hand) = (of("queueLengthLimit"), of("queues"), of("handSize"));
    if length <= 0 {
        errors.invalid(&at.child("queueLengthLimit"), length, "must be positive");
    }
    if queues <= 0 {
        errors.invalid(&at.child("queues"), queues, "must be positive");
    } else if queues > QUEUES_MAX {
        errors.invalid(&at.child("queues"), queues, format!("must not be greater than {QUEUES_MAX}"));
    }
    let at = at.child("handSize");
    if hand <= 0 {
        errors.invalid(&at, hand, "must be positive");
    } else if hand > queues {
        errors.invalid(&at, hand, format!("should not be greater than queues ({queues})"));
    } else if ((queues as f64).log2() * hand as f64).ceil() as i64 > HASH_BITS_MAX {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS_MAX}"
        );
        errors.invalid(&at, hand, detail);
    }
}
