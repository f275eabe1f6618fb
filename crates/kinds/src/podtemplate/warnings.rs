//! Warnings about pod templates.

use super::{Accepted, Said, pod};
use crate::check::Path;

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    if let Some(template) = write.new.get("template").filter(|_| write.is_new_generation()) {
        pod::template(template, Some(&Path::Root("template")), said);
    }
}
