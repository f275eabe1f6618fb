//! Owner references: who owns an object, which owner answers for it, and how an owner takes and lets go.

mod claim;
#[cfg(test)]
mod tests;

use codec::json;
use object::{Obj, Value};

pub use claim::{Claimant, Verdict, apply, claim, decide, verdict};

/// One entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
    pub block_owner_deletion: bool,
}

impl Owner {
    fn read(value: &Value) -> Owner {
        let text = |name: &str| value.str_at(&[name]).unwrap_or("").to_owned();
        let flag = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
        Owner {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            controller: flag("controller"),
            block_owner_deletion: flag("blockOwnerDeletion"),
        }
    }

    /// "" for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// Everybody who owns an object.
pub fn owners_of(obj: &Obj) -> Vec<Owner> {
    if obj.owners().is_empty() {
        return Vec::new();
    }
    let Ok(Value::List(list)) = json::parse(obj.owners(), None) else { return Vec::new() };
    list.iter().map(Owner::read).collect()
}

/// The one owner that controls it.
pub fn controller_of(obj: &Obj) -> Option<Owner> {
    owners_of(obj).into_iter().find(|owner| owner.controller)
}

/// A reference that makes `owner` the controller of what carries it.
pub fn controller_ref(api_version: &str, kind: &str, owner: &Obj) -> Value {
    let mut reference = object::Map::default();
    reference.set("apiVersion", api_version.to_owned());
    reference.set("kind", kind.to_owned());
    reference.set("name", owner.name().to_owned());
    reference.set("uid", owner.uid().to_owned());
    reference.set("controller", true);
    reference.set("blockOwnerDeletion", true);
    Value::Map(reference)
}
