//! Warnings about ingresses.

use crate::check::member;
use crate::service;
use crate::warnings::{Accepted, Warnings};

const CLASS: &str = "kubernetes.io/ingress.class";

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    if write.is_create()
        && write.annotation(CLASS).is_some()
        && member(write.spec(), "ingressClassName").is_none()
    {
        warnings.push(format!(
            "annotation \"{CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"
        ));
    }
}

pub(crate) fn warn_status(write: &Accepted<'_>, warnings: &mut Warnings) {
    service::warnings::warn_status(write, warnings);
}
