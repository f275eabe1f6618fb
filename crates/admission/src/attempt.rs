//! One write, as plugins see it, and what they may read of the cluster around it.

use std::sync::Arc;

use catalog::{Storage, TypeId};
use codec::json;
use env::Env;
use object::{DeleteOptions, Obj, Status, Value};
use table::{Scope, Selection, Table};

use crate::{RequestContext, Versions, list_newest};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Create,
    Update,
    Delete,
    /// A request into a node, a pod or a Service: exec, attach, portforward, proxy.
    Connect,
}

impl Operation {
    /// Upstream's word.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// What the object of an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// One of the resource's own.
    Resource,
    /// Of a type of its own, such as a Binding, a Scale or the options of an exec. It has one version.
    Other { group: &'a str, version: &'a str, kind: &'a str, ty: Option<TypeId> },
}

/// One write, about to be committed. What it has of its request is read through it: user, resource, namespace.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    pub request: &'a RequestContext<'a>,
    pub operation: Operation,
    pub storage: &'a Storage,
    /// Empty while a new object is being completed whose name is yet to be generated: nobody may be let through by a name
    /// it will not have.
    pub name: &'a str,
    /// What the name will begin with. For messages only.
    pub generate_name: &'a str,
    /// In the storage version; absent for creations.
    pub old: Option<&'a Value>,
    pub body: Body<'a>,
    /// Of a deletion.
    pub delete_options: Option<&'a DeleteOptions>,
    pub dry_run: bool,
    pub versions: &'a dyn Versions,
    pub table: &'a Table,
    pub env: &'a Env,
}

impl<'a> std::ops::Deref for Attempt<'a> {
    type Target = RequestContext<'a>;
    fn deref(&self) -> &RequestContext<'a> {
        self.request
    }
}

impl<'a> Attempt<'a> {
    /// Is it about this stored resource, and about the object itself?
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_none() && self.is_or_below(group, plural)
    }

    /// Is it about this stored resource or one of its subresources?
    pub fn is_or_below(&self, group: &str, plural: &str) -> bool {
        self.storage.plural == plural && self.storage.group == group
    }

    /// Group, version and kind of the object, as the request has it.
    pub fn kind(&self) -> (&'a str, &'a str, &'a str) {
        match self.body {
            Body::Resource => (&self.resource.group, &self.resource.version, &self.resource.kind),
            Body::Other { group, version, kind, .. } => (group, version, kind),
        }
    }

    /// The 403 of a plugin.
    pub fn forbidden(&self, reason: impl AsRef<str>) -> Status {
        let names = [self.name, self.generate_name];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        Status::forbidden(self.about(), name, reason)
    }

    /// Another object of the cluster; `namespace` is empty for cluster-scoped ones.
    pub fn find(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Arc<Obj>> {
        let storage = self.stored(group, plural)?;
        self.table.get(storage.id, &storage.key(namespace, name))
    }

    /// All objects of a resource, in one namespace or (empty) in all; an error where they cannot be read now.
    pub fn all(&self, group: &str, plural: &str, namespace: &str) -> Result<Vec<Arc<Obj>>, Status> {
        let Some(storage) = self.stored(group, plural) else { return Ok(Vec::new()) };
        // Many clusters have none at all of what plugins ask for on every write.
        if self.table.count(storage.id) == 0 {
            return Ok(Vec::new());
        }
        let scope = if namespace.is_empty() { Scope::All } else { Scope::Namespace(namespace.into()) };
        Ok(list_newest(self.table, storage.id, &Selection::everything(scope))?.items)
    }

    /// An object of the table as a tree of its storage version.
    pub fn tree(&self, obj: &Obj) -> Value {
        // The table only holds bodies its scanner accepted; what still fails to parse is an empty object.
        json::parse(obj.body(), None).unwrap_or_else(|_| Value::map())
    }

    pub fn stored(&self, group: &str, plural: &str) -> Option<&'a Storage> {
        self.catalog.find_storage(group, plural).map(|storage| &**storage)
    }
}
