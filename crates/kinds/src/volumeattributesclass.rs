//! Volume attributes classes: a driver and its parameters, and that both stay.

mod columns;

use crate::check::{Errors, Path, entries, text};
use crate::equal::FieldType;
use crate::generic::GenericKind;
use crate::rules::Rules;
use crate::storageclass::{check_parameters, check_provisioner};
use crate::write::Write;

pub(crate) static KIND: GenericKind = GenericKind::new(Rules::PLAIN, check).with_printer(&columns::PRINTER);

const DRIVER: Path<'static> = Path::Root("driverName");
const PARAMETERS: Path<'static> = Path::Root("parameters");

fn check(write: &Write<'_>, errors: &mut Errors) {
    let class = write.new;
    if let Some(old) = write.old {
        write.check_metadata(errors);
        if text(class, "driverName") != text(old, "driverName") {
            errors.forbidden(&DRIVER, "updates to driverName are forbidden.");
        }
        if !FieldType::of(write.storage, &["parameters"])
            .identical(class.get("parameters"), old.get("parameters"))
        {
            errors.forbidden(&PARAMETERS, "updates to parameters are forbidden.");
        }
    }
    write.check_whole_metadata(errors);
    check_provisioner(text(class, "driverName"), &DRIVER, errors);
    check_parameters(class, errors);
    if entries(class, "parameters").next().is_none() {
        errors.required(&PARAMETERS, "must contain at least one key/value pair");
    }
}
