//! Warnings about pod templates.

use crate::check::Path;
use crate::pod;
use crate::warnings::{Accepted, Warnings};

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    if let Some(template) = write.new.get("template").filter(|_| write.is_new_generation()) {
        pod::warnings::template(template, Some(&Path::Root("template")), warnings);
    }
}
