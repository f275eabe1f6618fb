//! DenyServiceExternalIPs: services get no external addresses beyond those they have.

use object::Value;

use crate::tree::items;
use crate::{Attempt, Effects, Plugin, Refusal};

pub struct DenyServiceExternalIPs;

impl Plugin for DenyServiceExternalIPs {
    fn name(&self) -> &'static str {
        "DenyServiceExternalIPs"
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        let Some(new) = new.filter(|_| attempt.is("", "services")) else { return Ok(()) };
        let of = |service: &'_ Value| -> Vec<Value> {
            service.get("spec").map(|spec| items(spec, "externalIPs").to_vec()).unwrap_or_default()
        };
        let there = attempt.old.map(of).unwrap_or_default();
        if of(new).iter().all(|address| there.contains(address)) {
            return Ok(());
        }
        Err(attempt.forbidden("Use of external IPs is denied by admission control").into())
    }
}
