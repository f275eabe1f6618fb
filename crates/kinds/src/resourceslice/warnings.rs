//! Warnings about resource slices.

use object::quote;

use super::{Accepted, Said};
use crate::check::text;

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    let driver = text(write.spec(), "driver");
    if driver != driver.to_lowercase() {
        said.say(format!(
            "spec.driver: driver names should be lowercase; {} contains uppercase characters",
            quote(driver)
        ));
    }
}
