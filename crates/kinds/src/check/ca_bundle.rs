//! The certificates that a webhook's server is verified with.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::certificatesigningrequest::der::{block, certificate_problem};

/// What is wrong with a `caBundle` (base64 of PEM blocks), in upstream's words. One certificate among them is enough, and
/// a bundle may be empty.
pub fn ca_bundle_problem(bundle: &str) -> Option<String> {
    let bytes = STANDARD.decode(bundle).unwrap_or_default();
    if bytes.is_empty() {
        return None;
    }
    let pem = String::from_utf8_lossy(&bytes);
    let (mut rest, mut problem) = (&*pem, None);
    while !rest.is_empty() {
        let Some((block, after)) = block(rest) else {
            problem.get_or_insert_with(|| "unable to parse bytes as PEM block".to_owned());
            break;
        };
        rest = after;
        if block.label != "CERTIFICATE" || block.has_headers {
            continue;
        }
        match certificate_problem(&block.bytes) {
            None => return None,
            Some(why) => problem = problem.or_else(|| Some(format!("failed to parse certificate: {why}"))),
        }
    }
    let problem = problem.unwrap_or_else(|| "no valid certificate authority data seen".to_owned());
    Some(format!("unable to load root certificates: {problem}"))
}
