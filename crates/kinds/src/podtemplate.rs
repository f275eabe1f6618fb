//! Pod templates.

mod columns;
mod defaults;
mod warnings;

use object::Value;

use crate::check::{Errors, Path};
use crate::generic::GenericKind;
use crate::pod::validation::{self, Options};
use crate::rules::{Generation, Rules};
use crate::write::Write;

pub(crate) static KIND: GenericKind =
    GenericKind::new(Rules::PLAIN.with_generation(Generation::Of("template")), check)
        .with_defaults(defaults::apply)
        .with_warnings(warnings::warn)
        .with_printer(&columns::PRINTER)
        .with_pod_spec_path(&["template", "spec"]);

fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    let options = Options::for_template(write.old.and_then(|old| old.get("template")));
    let none = Value::Null;
    let template = write.new.get("template").unwrap_or(&none);
    validation::template(template, &Path::Root("template"), &options, errors);
}
