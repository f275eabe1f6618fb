//! Persistent volume claims: born pending.

use object::Value;

use crate::kind::{Context, Kind};
use crate::rules::{Rules, StatusMeta};

pub(crate) struct PersistentVolumeClaim;
pub(crate) static KIND: PersistentVolumeClaim = PersistentVolumeClaim;

const RULES: Rules = Rules::PLAIN.with_status(StatusMeta::Free);

impl Kind for PersistentVolumeClaim {
    fn rules(&self) -> &Rules {
        &RULES
    }

    /// Upstream stores no phase and fills it in on every read; what is stored here is what is read.
    fn prepare_create(&self, new: &mut Value, _ctx: &Context<'_>) {
        new.map_at(&["status"]).set("phase", "Pending");
    }
}
