//! What only one kind does: defaults, validation, strategy, conversion, warnings, columns. The generic rules are here once.
//!
//! ```text
//!        list.rs: storage ─ kind_of ─> &dyn Kind: Rules (data) and what the kind's folder adds to them
//!                                           │
//! body ─ defaults ─ to_storage ─ prepare_create/update ─ (normalise) ─ validate_create/update ─ canonicalise ─ (encode)
//!                     strategy.rs                          metadata.rs
//! DELETE ─ DeleteOptions ─ deletion::decide ─> remove | mark and keep | nothing to do
//! ```
//!
//! Everything here is synchronous and pure: trees and a [`Context`] in, trees, [`FieldError`]s and decisions out.
//! `prepare_*` may add members at the end of a map and leaves a wiped status empty, so the caller normalises
//! the tree (`object::normalise`) between preparing and encoding.
//!
//! A kind is one row in [`list`](kind_of) and one file with its folder, `<kind>.rs` and `<kind>/`: a `GenericKind` made of
//! data and functions, or an implementation of [`Kind`] of its own. Nothing here asks that a kind is known to the compiler:
//! one that is made at run time has the same interface.

mod admissionpolicy;
mod admissionrule;
mod apiservice;
mod certificatesigningrequest;
mod check;
pub mod columns;
mod componentstatus;
pub mod conditions;
mod configmap;
mod controllerrevision;
mod cronjob;
mod csidriver;
mod csinode;
mod csistoragecapacity;
mod customresourcedefinition;
mod daemonset;
pub mod defaults;
mod deletion;
mod deployment;
mod deviceclass;
mod devicerule;
mod endpoints;
mod endpointslice;
mod equal;
mod event;
mod flowschema;
mod gates;
mod generic;
mod horizontalpodautoscaler;
mod ingress;
mod ingressclass;
pub mod ipaddress;
mod job;
mod kind;
mod lease;
mod limitrange;
mod list;
mod metadata;
mod namespace;
mod networkpolicy;
mod node;
mod options;
pub mod persistentvolume;
pub mod persistentvolumeclaim;
pub mod pod;
mod poddisruptionbudget;
mod podtemplate;
mod priorityclass;
mod prioritylevelconfiguration;
mod rbac;
mod replicaset;
mod replicationcontroller;
mod reset_fields;
pub mod resource_metrics;
mod resourceclaim;
pub mod resourcequota;
mod resourceslice;
mod rules;
mod runtimeclass;
mod scale;
mod secret;
mod service;
mod serviceaccount;
pub mod servicecidr;
mod statefulset;
mod storageclass;
mod strategy;
mod tokenrequest;
mod validation;
mod volumeattachment;
mod volumeattributesclass;
pub mod warnings;
mod webhookconfiguration;
mod workload;
mod write;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use check::ca_bundle_problem;
pub use cronjob::{Schedule, When};
pub use customresourcedefinition::{CUSTOM_RESOURCE_CLEANUP, approval as api_approval};
pub use deletion::{Decision, check_preconditions, decide, should_remove_after_update};
pub use equal::same;
pub use gates::drop_disabled;
pub use kind::{
    Context, Defaults, Kind, Labels, NoLabels, Permission, Permissions, Requester, Unrestricted, Warn,
};
pub use list::{kind_of, kind_of_resource, strategy, unstored_kind};
pub use metadata::{check_embedded, check_metadata, dedup_owner_references, finalizer_warnings};
pub use namespace::is_immortal_namespace;
pub use object::FieldError;
pub use options::{WriteQuery, delete_options, unchecked_delete_options};
pub use rules::{Finalizers, Generation, NameRule, Rules, StatusMeta};
pub use scale::{
    FieldPath, ScalePaths, ScaleSelector, apply_scale, check_scale, to_scale, without_missing_replicas,
};
pub use service::service_address_errors;
pub use strategy::{prepare_create, prepare_update};
pub use validation::{invalid, validate_create, validate_update};
