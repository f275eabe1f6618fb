//! Controller revisions: a template stored as it was, under a number.

mod columns;

use object::Value;

use crate::check::{Errors, IMMUTABLE, NEGATIVE, Path, int, member};
use crate::generic::GenericKind;
use crate::rules::Rules;
use crate::write::Write;

pub(crate) static KIND: GenericKind = GenericKind::new(Rules::PLAIN, check).with_printer(&columns::PRINTER);

fn check(write: &Write<'_>, errors: &mut Errors) {
    if write.old.is_some() {
        write.check_metadata(errors);
    }
    write.check_whole_metadata(errors);
    let revision = write.new;
    if let Some(number) = int(revision, "revision").filter(|n| *n < 0) {
        errors.invalid(&Path::Root("revision"), number, NEGATIVE);
    }
    let at = Path::Root("data");
    match (write.old, member(revision, "data")) {
        // Upstream compares the text, so the order of members counts too.
        (Some(old), data) if data != old.get("data").filter(|data| !data.is_null()) => {
            errors.invalid(&at, data, IMMUTABLE);
        }
        (Some(_), _) => {}
        (None, None) => errors.required(&at, "data is mandatory"),
        (None, Some(Value::Map(_))) => {}
        (None, Some(_)) => errors.required(&at, "data must be a valid JSON object"),
    }
}
