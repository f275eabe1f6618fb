//! Service accounts: references to secrets are names only.

mod warnings;

use object::Value;

use crate::check::Errors;
use crate::columns::{NAME_AND_AGE, Printer};
use crate::kind::{Context, Kind};
use crate::rules::Rules;
use crate::strategy::map_mut;
use crate::warnings::{Accepted, Warnings};
use crate::write::Write;

pub(crate) struct ServiceAccount;
pub(crate) static KIND: ServiceAccount = ServiceAccount;

impl Kind for ServiceAccount {
    fn rules(&self) -> &Rules {
        &Rules::PLAIN
    }

    fn warn(&self, write: &Accepted<'_>, warnings: &mut Warnings) {
        warnings::warn(write, warnings);
    }

    fn printer(&self, _version: &str) -> &dyn Printer {
        &NAME_AND_AGE
    }
    /// There is nothing but metadata to validate; an update is validated as a whole account too.
    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        if write.old.is_some() {
            write.check_metadata(errors);
        }
        write.check_whole_metadata(errors);
    }
    fn prepare_create(&self, new: &mut Value, _ctx: &Context<'_>) {
        keep_names(new);
    }
    fn prepare_update(&self, new: &mut Value, _old: &Value, _ctx: &Context<'_>) {
        keep_names(new);
    }
}

fn keep_names(account: &mut Value) {
    let Some(Value::List(secrets)) = map_mut(account, &[]).and_then(|m| m.get_mut("secrets")) else { return };
    for secret in secrets.iter_mut().filter_map(Value::as_map_mut) {
        secret.retain(|member, _| member == "name");
    }
}
