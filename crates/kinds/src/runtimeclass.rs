//! Runtime classes: an immutable handler, its overhead, and node selection.

mod columns;
mod warnings;

use object::Value;

use crate::check::internal::internal;
use crate::check::internal::pod::TOLERATION;
use crate::check::{Errors, Path, Raw, Seen, items, member, text};
use crate::generic::GenericKind;
use crate::pod::validation::{Options, overhead, tolerations};
use crate::rules::{Finalizers, Rules};
use crate::write::Write;

pub(crate) static KIND: GenericKind =
    GenericKind::new(Rules::PLAIN.with_finalizers(Finalizers::Qualified), check)
        .with_warnings(warnings::warn)
        .with_printer(&columns::PRINTER);

const HANDLER: Path<'static> = Path::Root("handler");

fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    let class = write.new;
    errors.need_label(&HANDLER, text(class, "handler"));
    if let Some(cost) = member(class, "overhead") {
        let fixed = cost.get("podFixed").unwrap_or(&Value::Null);
        overhead(fixed, &Path::Root("overhead"), &Options::for_template(None), errors);
    }
    if let Some(scheduling) = member(class, "scheduling") {
        check_scheduling(scheduling, errors);
    }
    if let Some(old) = write.old {
        write.check_metadata(errors);
        errors.immutable_text(&HANDLER, text(class, "handler"), text(old, "handler"));
    }
}

fn check_scheduling(scheduling: &Value, errors: &mut Errors) {
    errors.labels(&Path::Root("scheduling.nodeSelector"), scheduling.get("nodeSelector"));
    let at = Path::Root("scheduling.tolerations");
    let all = items(scheduling, "tolerations");
    tolerations(all, &at, false, errors);
    let key = |t: &Value| ["key", "operator", "value", "effect"].map(|name| text(t, name).to_owned());
    let mut seen = Seen::default();
    for (i, one) in all.iter().enumerate() {
        if seen.again(key(one)) {
            errors.duplicate(&at.index(i), Raw(&internal(Some(one), TOLERATION)));
        }
    }
}
