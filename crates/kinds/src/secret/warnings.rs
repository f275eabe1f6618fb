//! Warnings about secrets: a certificate and a key that do not belong together.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::pair;
use crate::warnings::{Accepted, Warnings};

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    if write.new.str_at(&["type"]) != Some("kubernetes.io/tls") {
        return;
    }
    let data =
        |key: &str| STANDARD.decode(write.new.str_at(&["data", key]).unwrap_or_default()).unwrap_or_default();
    if let Err(why) = pair::check(&data("tls.crt"), &data("tls.key")) {
        warnings.push(why);
    }
}
