//! StorageObjectInUseProtection: volumes and claims stay while something uses them.

use object::Value;

use crate::tree::list_mut;
use crate::{Attempt, Effects, Operation, Plugin, Refusal};

pub struct StorageObjectInUseProtection;

/// Group, plural and the finalizer a new object gets; the controllers that look after use take it away again.
const PROTECTED: [(&str, &str, &str); 3] = [
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
];

impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn mutate(&self, attempt: &Attempt<'_>, new: &mut Value, _: &mut Effects) -> Result<(), Refusal> {
        if attempt.operation != Operation::Create {
            return Ok(());
        }
        let row = PROTECTED.iter().find(|(group, plural, _)| attempt.is(group, plural));
        let Some((_, _, finalizer)) = row else { return Ok(()) };
        let finalizers = list_mut(new.map_at(&["metadata"]), "finalizers");
        if !finalizers.iter().any(|there| there.as_str() == Some(finalizer)) {
            finalizers.push((*finalizer).into());
        }
        Ok(())
    }
}
