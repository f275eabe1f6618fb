//! LimitRanges: one without a name gets one.

mod defaults;
mod validation;

use object::Value;

use crate::check::Errors;
use crate::kind::{Context, Defaults, Kind};
use crate::metadata::meta;
use crate::rules::Rules;
use crate::write::Write;

pub(crate) struct LimitRange;
pub(crate) static KIND: LimitRange = LimitRange;

impl Kind for LimitRange {
    fn rules(&self) -> &Rules {
        &Rules::PLAIN
    }

    fn defaults(&self, _version: &str) -> Option<&Defaults> {
        Some(&defaults::apply)
    }

    /// Any unique name does; upstream draws another random id for it.
    fn prepare_create(&self, new: &mut Value, _ctx: &Context<'_>) {
        if meta(new, "name").is_none()
            && let Some(uid) = meta(new, "uid").cloned()
        {
            new.map_at(&["metadata"]).set("name", uid);
        }
    }

    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        validation::check(write, errors);
    }
}
