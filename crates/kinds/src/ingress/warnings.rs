//! Warnings about ingresses.

use super::{Accepted, Said, service};
use crate::check::member;

const CLASS: &str = "kubernetes.io/ingress.class";

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    if write.is_create()
        && write.annotation(CLASS).is_some()
        && member(write.spec(), "ingressClassName").is_none()
    {
        said.say(format!("annotation \"{CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"));
    }
}

pub(super) fn warn_status(write: &Accepted<'_>, said: &mut Said) {
    service::warn_status(write, said);
}
