//! Warnings about secrets: a certificate and a key that do not belong together.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Accepted, Said, secret_pair};

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    if write.new.str_at(&["type"]) != Some("kubernetes.io/tls") {
        return;
    }
    let data =
        |key: &str| STANDARD.decode(write.new.str_at(&["data", key]).unwrap_or_default()).unwrap_or_default();
    if let Err(why) = secret_pair::check(&data("tls.crt"), &data("tls.key")) {
        said.say(why);
    }
}
