//! The interface of a kind. Default methods are what most kinds do.

use std::cell::RefCell;
use std::collections::BTreeMap;

use catalog::{Resource, Storage};
use object::{About, DeleteOptions, FieldError, Map, Status, Value};

use crate::check::Errors;
use crate::columns::{self, Printer};
use crate::gates::DisabledFeature;
use crate::rules::Rules;
use crate::scale::ScalePaths;
use crate::warnings::{Accepted, Warnings};
use crate::write::Write;

/// What surrounds a write.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Where objects of the kind are stored, and their types.
    pub storage: &'a Storage,
    /// `None` for the object itself; else `status`, `finalize`, `approval` and so on.
    pub subresource: Option<&'a str>,
    /// Unix seconds.
    pub now: i64,
    /// Group and version the client speaks: events are validated more strictly through events.k8s.io.
    pub group: &'a str,
    pub version: &'a str,
    pub requester: Requester<'a>,
    /// Of the object's namespace, as far as there is one.
    pub namespace: &'a dyn Labels,
    /// For the kinds that ask for more than the permission to make the request.
    pub permissions: &'a dyn Permissions,
    /// Takes what validation lets pass and the client should know.
    pub warnings: &'a dyn Warn,
    /// Measures rules of schemas, if anybody wants to know.
    pub meter: Option<&'a cel_schema::Meter>,
}

/// Takes warnings.
pub trait Warn: std::fmt::Debug {
    fn warn(&self, text: String);
}

impl Warn for RefCell<Vec<String>> {
    fn warn(&self, text: String) {
        self.borrow_mut().push(text);
    }
}

/// Drops them.
impl Warn for () {
    fn warn(&self, _: String) {}
}

/// Labels that are looked up on demand.
pub trait Labels: std::fmt::Debug {
    fn label(&self, name: &str) -> Option<String>;
}

/// No labels.
#[derive(Debug)]
pub struct NoLabels;

impl Labels for NoLabels {
    fn label(&self, _: &str) -> Option<String> {
        None
    }
}

/// A permission on the resource that is written or on another, or on a subresource that exists for permissions only.
#[derive(Clone, Copy, Debug)]
pub struct Permission<'a> {
    pub verb: &'a str,
    /// `None`: the one that is written.
    pub resource: Option<About<'a>>,
    pub subresource: &'a str,
    /// Empty: in all of them.
    pub namespace: &'a str,
    /// Empty: all of them.
    pub name: &'a str,
}

/// What the requester may do, and what tells which permission it needs.
pub trait Permissions: std::fmt::Debug {
    /// The verb of the request.
    fn verb(&self) -> &str;
    /// The message of the 403 where it is not allowed.
    fn check(&self, wanted: &Permission<'_>) -> Result<(), String>;
    /// The resource whose objects are of a kind, if it is served.
    fn plural(&self, group: &str, version: &str, kind: &str) -> Option<String>;
    /// A stored object of the cluster scope, of the group that is written.
    fn find(&self, plural: &str, name: &str) -> Option<Value>;
}

/// Everything is allowed.
#[derive(Debug)]
pub struct Unrestricted;

impl Permissions for Unrestricted {
    fn verb(&self) -> &str {
        "update"
    }
    fn check(&self, _: &Permission<'_>) -> Result<(), String> {
        Ok(())
    }
    fn plural(&self, _: &str, _: &str, _: &str) -> Option<String> {
        None
    }
    fn find(&self, _: &str, _: &str) -> Option<Value> {
        None
    }
}

impl<'a> Context<'a> {
    /// A write to the object itself in its storage version, without a user.
    pub fn plain(storage: &'a Storage, now: i64) -> Context<'a> {
        Context {
            storage,
            subresource: None,
            now,
            group: &storage.group,
            version: &storage.version,
            requester: Requester::default(),
            namespace: &NoLabels,
            permissions: &Unrestricted,
            warnings: &(),
            meter: None,
        }
    }

    /// The object itself, or a view of it (`scale`) that is written through the object's own strategy.
    pub fn is_object(&self) -> bool {
        matches!(self.subresource, None | Some("scale"))
    }
    pub fn is_status(&self) -> bool {
        self.subresource == Some("status")
    }
    pub fn timestamp(&self) -> Value {
        Value::from(object::time::format_seconds(self.now))
    }
}

/// Who writes: a certificate signing request records it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requester<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    pub groups: &'a [String],
    pub extra: Option<&'a BTreeMap<String, Vec<String>>>,
}

/// Fills in what the writer of an object left out.
pub type Defaults = dyn Fn(&mut Map) + Send + Sync;

/// What only one kind does.
pub trait Kind: Send + Sync {
    fn rules(&self) -> &Rules;

    /// Of objects in that served version; `None` where upstream has none.
    fn defaults(&self, _version: &str) -> Option<&Defaults> {
        None
    }

    /// What a client should know about an accepted create or update of the object itself.
    fn warn(&self, _write: &Accepted<'_>, _warnings: &mut Warnings) {}

    /// The same for an update of its status.
    fn warn_status(&self, _write: &Accepted<'_>, _warnings: &mut Warnings) {}

    /// Warnings about a new object as it was sent: preparing it hides what they are about.
    fn warn_before_create(&self, _new: &Value) -> Vec<String> {
        Vec::new()
    }

    /// The warning about a DELETE with these options.
    fn warn_delete(&self, _options: &DeleteOptions) -> Option<&'static str> {
        None
    }

    /// How objects served in that version are shown as a Table.
    fn printer(&self, _version: &str) -> &dyn Printer {
        &columns::GENERIC
    }

    /// How its scale is shown.
    fn scale_printer(&self) -> &dyn Printer {
        columns::scale_printer()
    }

    /// Can the status be shown as a Table? Upstream's storage of a few kinds cannot.
    fn status_has_table(&self) -> bool {
        true
    }

    /// An annotation that stands for a field of upstream's internal type: the object shows it, a view of the metadata alone does not.
    fn field_annotation(&self) -> Option<&'static str> {
        None
    }

    /// Where the kind holds a pod's spec, if it does.
    fn pod_spec_path(&self) -> Option<&[&str]> {
        None
    }

    /// Features that are off and brought fields to the kind, beside those of pod specs.
    fn disabled_features(&self) -> &[DisabledFeature] {
        &[]
    }

    /// Changes the object of an update as it was sent, before anything of the stored one is put back.
    fn sent_update(&self, _new: &mut Value) {}

    /// Fills in what the server owns, after status and generation were set by the rules. The metadata is
    /// complete: name, uid and creationTimestamp are there.
    fn prepare_create(&self, _new: &mut Value, _ctx: &Context<'_>) {}

    /// After status or spec were put back by the rules, before the generation moves.
    fn prepare_update(&self, _new: &mut Value, _old: &Value, _ctx: &Context<'_>) {}

    /// The rules of the kind's content, with those of the metadata in the place upstream's strategy checks them.
    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        write.check_metadata(errors);
    }

    /// All broken rules.
    fn validate(
        &self,
        storage: &Storage,
        new: &Value,
        old: Option<&Value>,
        ctx: &Context<'_>,
    ) -> Vec<FieldError> {
        let mut errors = Errors::default();
        self.check(&Write { rules: self.rules(), storage, new, old, ctx }, &mut errors);
        errors.list
    }

    /// Whether defaults of this object are made of what admission plugins may have filled in after they were.
    fn depends_on_admission(&self, _new: &Value) -> bool {
        false
    }

    /// After validation: it is encoded next. The tree was canonical; whether it has to be made so again.
    fn canonicalise(&self, _new: &mut Value) -> bool {
        false
    }

    /// The grace period of a first DELETE in seconds; `None` for kinds without graceful deletion.
    fn grace_seconds(&self, _object: &Value, _options: &DeleteOptions) -> Option<i64> {
        None
    }

    /// What a kind with a life cycle of its own (namespaces) does on DELETE; `None` is the general way.
    fn delete(
        &self,
        _storage: &Storage,
        _old: &Value,
        _version: &str,
        _options: &DeleteOptions,
        _now: i64,
    ) -> Option<Result<crate::Decision, Status>> {
        None
    }

    /// Why an object of that name must not be deleted by name (deleting its collection is allowed).
    fn undeletable(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Whether something beside `metadata.finalizers` keeps a deleted object.
    fn holds_deletion(&self, _object: &Value) -> bool {
        false
    }

    /// Why upstream could not convert a well-formed object of this kind to its internal type.
    fn unconvertible(&self, _sent: &Value) -> Option<String> {
        None
    }

    /// Strategy, admission and validation see the object in the version the client speaks, and it is converted when it is stored:
    /// custom resources, each version of which has a schema of its own.
    fn converts_last(&self) -> bool {
        false
    }

    /// A webhook converts between the versions. Of such a kind [`to_storage`](Kind::to_storage) and
    /// [`from_storage`](Kind::from_storage) are asked for what surrounds the call only.
    fn converts_by_webhook(&self) -> bool {
        false
    }

    /// What decoding does to a stored object of a kind that converts last, in the version it is stored in.
    fn decode_stored(&self, _value: &mut Value) {}

    /// Drops what the schema of the version it names does not have. Returns the paths of what was dropped if `report` is set, or
    /// why the value cannot be an object of the kind.
    fn prune(&self, _version: &str, _value: &mut Value, _report: bool) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    /// From the served version to the stored one. Runs for the storage version too.
    fn to_storage(&self, _value: &mut Value, _from: &Resource) -> Result<(), Status> {
        Ok(())
    }

    /// From the stored version to a different served one. Of a kind that converts last: from whatever version and form the
    /// object is stored in.
    #[allow(clippy::wrong_self_convention)] // The pair of `to_storage`; `self` is the kind, not the value.
    fn from_storage(&self, _value: &mut Value, _to: &Resource) {}

    /// What upstream's internal form makes of an object of the served version that is decoded and encoded again, if that is
    /// another one: managers own fields of that.
    fn reencoded(&self, _value: &Value, _resource: &Resource) -> Option<Value> {
        None
    }

    /// The fields a write to the object, or to a subresource, resets: their values come from elsewhere, so nobody owns them by it.
    fn reset_fields(&self, _version: &str, subresource: Option<&str>) -> &[&[&str]] {
        crate::reset_fields::by_rules(self.rules(), subresource)
    }

    /// The versions of a custom resource, served or not.
    fn versions(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The schema of a version of a custom resource; built-in kinds have their type.
    fn structural(&self, _version: &str) -> Option<&std::sync::Arc<structural::Structural>> {
        None
    }

    /// What upstream's conversion adds to an object of this kind that has no content, such as a bookmark's.
    fn fill_blank(&self, _blank: &mut Value) {}

    /// Where `/scale` finds its numbers in objects of that served version.
    fn scale_paths(&self, _version: &str) -> Option<&ScalePaths> {
        None
    }

    /// UID and generation of the CustomResourceDefinition it comes from.
    fn defined_by(&self) -> Option<(&str, i64)> {
        None
    }
}
