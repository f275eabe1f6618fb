//! CSI storage capacities: the capacity of a class in a part of the cluster; both part and class are immutable.

mod warnings;

use crate::check::{Errors, IMMUTABLE, NEGATIVE, Path, member, quantity, quantity_text, text};
use crate::generic::GenericKind;
use crate::rules::Rules;
use crate::write::Write;

pub(crate) static KIND: GenericKind = GenericKind::new(Rules::PLAIN, check).with_warnings(warnings::warn);

const TOPOLOGY: Path<'static> = Path::Root("nodeTopology");
const CLASS: Path<'static> = Path::Root("storageClassName");

fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    let (new, class) = (write.new, text(write.new, "storageClassName"));
    let bad_values = write.old.is_some_and(|old| {
        let mut found = Errors::default();
        found.label_selector(&TOPOLOGY, old.get("nodeTopology"));
        !found.is_empty()
    });
    errors.label_selector_with(&TOPOLOGY, new.get("nodeTopology"), bad_values);
    errors.subdomain(&CLASS, class);
    if let Some(amount) = member(new, "capacity").filter(|c| quantity(c).sign() < 0) {
        errors.invalid(&Path::Root("capacity"), quantity_text(amount).as_str(), NEGATIVE);
    }
    if let Some(old) = write.old {
        write.check_metadata(errors);
        if !write.same(&["nodeTopology"], new.get("nodeTopology"), old.get("nodeTopology")) {
            errors.invalid(&TOPOLOGY, new.get("nodeTopology"), IMMUTABLE);
        }
        if class != text(old, "storageClassName") {
            errors.invalid(&CLASS, class, IMMUTABLE);
        }
    }
}
