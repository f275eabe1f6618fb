//! Service accounts: references to secrets are names only.

use catalog::Storage;
use object::{FieldError, Value};

use crate::kind::{Context, Kind};
use crate::metadata;
use crate::rules::Rules;
use crate::strategy::map_mut;

pub(crate) struct ServiceAccount;
pub(crate) static KIND: ServiceAccount = ServiceAccount;

impl Kind for ServiceAccount {
    fn rules(&self) -> &Rules {
        &Rules::PLAIN
    }
    /// There is nothing but metadata to judge; an update is judged as a whole account too.
    fn validate(
        &self,
        storage: &Storage,
        new: &Value,
        old: Option<&Value>,
        _ctx: &Context<'_>,
    ) -> Vec<FieldError> {
        let mut errors = old.map(|old| metadata::check_update(&Rules::PLAIN, new, old)).unwrap_or_default();
        errors.extend(metadata::check(&Rules::PLAIN, storage, new));
        errors
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
