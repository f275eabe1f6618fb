//! Warnings about resource slices.

use object::quote;

use crate::check::text;
use crate::warnings::{Accepted, Warnings};

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    let driver = text(write.spec(), "driver");
    if driver != driver.to_lowercase() {
        warnings.push(format!(
            "spec.driver: driver names should be lowercase; {} contains uppercase characters",
            quote(driver)
        ));
    }
}
