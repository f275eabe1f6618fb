//! Where a node keeps its certificates and its way to the cluster.
//!
//! ```text
//! DIR/kubelet.kubeconfig                 the server, its authority, and where the client certificate is
//! DIR/pki/kubelet-client-current.pem     certificate and key in one file, as kubelet has it
//! DIR/pki/kubelet-server-current.pem
//! ```

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use auth::pki::Identity;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::request::CertificateError;

pub const KUBECONFIG: &str = "kubelet.kubeconfig";
pub const CLIENT_FILE: &str = "kubelet-client-current.pem";
pub const SERVER_FILE: &str = "kubelet-server-current.pem";

#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
}

impl Store {
    pub fn new(directory: &Path) -> Store {
        Store { directory: directory.to_owned() }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join(KUBECONFIG)
    }
    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.join("pki").join(file)
    }

    /// A certificate that an earlier run got; `None`: there is none that is good.
    pub fn read(&self, file: &str, now_seconds: u64) -> Option<Identity> {
        let pem = std::fs::read(self.path(file)).ok()?;
        match Identity::from_pem(&pem, &pem) {
            Ok(identity) => Some(identity).filter(|identity| now_seconds < identity.validity().1),
            Err(error) => {
                tracing::warn!(file = %self.path(file).display(), error, "ignoring a certificate that cannot be read");
                None
            }
        }
    }

    /// Whose a certificate was, also one that has ended.
    pub fn common_name(&self, file: &str) -> Option<String> {
        let pem = std::fs::read(self.path(file)).ok()?;
        Identity::from_pem(&pem, &pem).ok().map(|identity| identity.common_name())
    }

    pub fn write(&self, file: &str, identity: &Identity) -> Result<(), CertificateError> {
        let both = format!("{}{}", identity.certificate_pem(), identity.key_pem());
        self.write_file(&self.path(file), both.as_bytes())
    }

    /// The way to the cluster, for this program and for kubectl.
    pub fn write_kubeconfig(&self, server: &str, ca_pem: &str) -> Result<(), CertificateError> {
        let file = self.path(CLIENT_FILE);
        let quoted = |text: &str| format!("{text:?}");
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: default-cluster\n  cluster:\n    certificate-authority-data: {}\n    \
             server: {}\ncontexts:\n- name: default-context\n  context:\n    cluster: default-cluster\n    namespace: default\n    \
             user: default-auth\ncurrent-context: default-context\nusers:\n- name: default-auth\n  user:\n    client-certificate: {file}\n    \
             client-key: {file}\n",
            STANDARD.encode(ca_pem),
            quoted(server),
            file = quoted(&file.to_string_lossy()),
        );
        self.write_file(&self.kubeconfig(), text.as_bytes())
    }

    fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<(), CertificateError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        let written = made.and_then(|()| env::file::replace(path, bytes, 0o600));
        written.map_err(|source| CertificateError::Write { path: path.display().to_string(), source })
    }
}
