//! PersistentVolumeClaimResize: claims grow only where their storage class allows it.

use object::Value;
use object::quantity::Quantity;

use crate::default_class::OLD_STORAGE_CLASS;
use crate::tree::{annotation, flag};
use crate::{Attempt, Effects, Operation, Plugin, Refusal};

pub struct PersistentVolumeClaimResize;

impl Plugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        if attempt.operation != Operation::Update || !attempt.is("", "persistentvolumeclaims") {
            return Ok(());
        }
        let (Some(new), Some(old)) = (new, attempt.old) else { return Ok(()) };
        if size(new) <= size(old) {
            return Ok(());
        }
        if old.str_at(&["status", "phase"]) != Some("Bound") {
            return Err(attempt.forbidden("Only bound persistent volume claims can be expanded").into());
        }
        let class = class(new);
        let allowed = !class.is_empty()
            && class == self::class(old)
            && attempt
                .find("storage.k8s.io", "storageclasses", "", class)
                .is_some_and(|class| flag(&attempt.tree(&class), "allowVolumeExpansion") == Some(true));
        if allowed {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc \
                   must support resize";
        Err(attempt.forbidden(why).into())
    }
}

fn size(claim: &Value) -> Quantity {
    let text = claim.str_at(&["spec", "resources", "requests", "storage"]);
    text.and_then(|text| Quantity::parse(text).ok()).unwrap_or(Quantity::ZERO)
}

fn class(claim: &Value) -> &str {
    let field = || claim.str_at(&["spec", "storageClassName"]);
    annotation(claim, OLD_STORAGE_CLASS).or_else(field).unwrap_or_default()
}
