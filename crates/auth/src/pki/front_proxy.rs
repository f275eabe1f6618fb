//! The front proxy: a CA of its own, and the certificate by which other API servers know this one.
//!
//! They believe whatever user a holder of that certificate names, so it is no certificate of the cluster's CA.

use std::path::{Path, PathBuf};

use ring::rand::SystemRandom;

use super::certificate::Usage;
use super::{Authority, Identity, Leaf, PkiError, Root, leaf};

/// kubeadm's names.
const ROOT: Root = Root {
    file: "front-proxy-ca",
    common_name: "front-proxy-ca",
    hint: "restore the key from a backup, or move front-proxy-ca.crt and front-proxy-client.crt away to start over with a new CA",
};
const CLIENT: Leaf = Leaf {
    file: "front-proxy-client",
    usage: Usage::Client,
    common_name: FrontProxy::CLIENT_NAME,
    organizations: &[],
};

pub struct FrontProxy {
    dir: PathBuf,
    random: SystemRandom,
    ca: Authority,
    client: Identity,
}

impl FrontProxy {
    /// The common name of the client certificate.
    pub const CLIENT_NAME: &'static str = "front-proxy-client";

    /// Loads the files in `dir`, which exists, generates missing ones, renews what is due.
    pub fn open_or_create(dir: &Path, now_unix: u64) -> Result<FrontProxy, PkiError> {
        let random = crate::random();
        let ca = Authority::open_or_create(dir, &ROOT, now_unix, &random)?;
        let (client, _) = leaf(dir, &ca, &CLIENT, &[], now_unix, &random)?;
        Ok(FrontProxy { dir: dir.into(), random, ca, client })
    }

    /// Whether the certificate was renewed.
    pub fn renew_if_due(&mut self, now_unix: u64) -> Result<bool, PkiError> {
        let (client, renewed) = leaf(&self.dir, &self.ca, &CLIENT, &[], now_unix, &self.random)?;
        let renewed = renewed || client.certificate != self.client.certificate;
        self.client = client;
        Ok(renewed)
    }

    pub fn client(&self) -> &Identity {
        &self.client
    }

    /// For those who verify the client.
    pub fn ca_pem(&self) -> &str {
        &self.ca.pem
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::certificates_from_pem;
    use crate::x509::{self, ClientCa};

    #[test]
    fn the_client_is_the_front_proxys_own_and_is_renewed() {
        let dir = tempfile::tempdir().expect("a directory");
        let now = 1_767_225_600;
        let mut proxy = FrontProxy::open_or_create(dir.path(), now).expect("made");
        let ca = certificates_from_pem(proxy.ca_pem().as_bytes()).expect("a certificate");
        let who = x509::authenticate(&proxy.client().chain(), &ClientCa::new(&ca), now).expect("valid");
        assert_eq!(who.user.name, "front-proxy-client");
        let again = FrontProxy::open_or_create(dir.path(), now).expect("there");
        assert_eq!(again.ca_pem(), proxy.ca_pem());
        assert!(!proxy.renew_if_due(now).expect("fine"));
        assert!(proxy.renew_if_due(now + 300 * 86_400).expect("fine"));
    }
}
