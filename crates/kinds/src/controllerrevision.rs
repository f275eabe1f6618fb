//! Controller revisions: a template kept as it was, under a number.

use object::Value;

use crate::check::{Errors, NEGATIVE, Path, int, member};
use crate::checked::{Checked, Write};
use crate::rules::Rules;

pub(crate) static KIND: Checked = Checked::new(Rules::PLAIN, check);

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
        (Some(old), data) => errors.immutable(&at, data, old.get("data")),
        (None, None) => errors.required(&at, "data is mandatory"),
        (None, Some(Value::Map(_))) => {}
        (None, Some(_)) => errors.required(&at, "data must be a valid JSON object"),
    }
}
