//! Where a cluster is, what proves that it is the right one, and who we are there.

mod in_cluster;
mod kubeconfig;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub(crate) use kubeconfig::impersonate;

use crate::credentials::{Credentials, Impersonate};
use crate::proxy::Proxy;

/// How to reach one cluster as one user. Holds secrets, so it does not print itself.
#[derive(Clone, Default)]
pub struct Config {
    /// `https://host:port/prefix`, or `http://` where there is no TLS.
    pub server: String,
    /// What the server's certificate must name, if not the server's host.
    pub tls_server_name: Option<String>,
    /// The authorities to trust, in PEM; `None`: the machine's.
    pub authority_pem: Option<Vec<u8>>,
    /// Any certificate will do. For tests on one's own machine only.
    pub skip_verify: bool,
    /// Certificate chain and key, in PEM.
    pub certificate_pem: Option<(Vec<u8>, Vec<u8>)>,
    pub credentials: Credentials,
    /// The proxy to go through.
    pub proxy: Option<Proxy>,
    pub impersonate: Option<Impersonate>,
    /// The namespace of the context (or of the pod); `default` where none is said.
    pub namespace: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the kubeconfig {} cannot be used: {problem}", path.display())]
    Kubeconfig { path: PathBuf, problem: String },
    #[error("this process does not run in a cluster: {0}")]
    NotInCluster(String),
    #[error(
        "no cluster is configured: set KUBECONFIG, write {}, or run in a pod ({not_in_cluster})", path.display()
    )]
    Nothing { path: PathBuf, not_in_cluster: String },
    #[error("the server {0:?} is no address: write it as https://host:port")]
    Server(String),
    #[error("the {field} cannot be used: {problem}")]
    Certificate { field: &'static str, problem: String },
}

impl Config {
    /// The current context of a kubeconfig; files it names are looked for beside it.
    pub fn from_kubeconfig(path: &Path) -> Result<Config, ConfigError> {
        kubeconfig::load(path)
    }

    /// The same from text, such as a test's; files it names are looked for in the working directory.
    pub fn from_kubeconfig_text(text: &str) -> Result<Config, ConfigError> {
        let path = PathBuf::from("(text)");
        kubeconfig::read(text.as_bytes(), Path::new(""))
            .map_err(|problem| ConfigError::Kubeconfig { path, problem })
    }

    /// What a pod finds in its environment and its service account's volume.
    pub fn in_cluster() -> Result<Config, ConfigError> {
        in_cluster::read(&|name| std::env::var(name).ok(), Path::new(in_cluster::FILES))
    }

    /// As kubectl looks for it: the files of `KUBECONFIG` (with colons between them, merged), else `~/.kube/config`; where none of
    /// them is there, the pod's own files.
    pub fn infer() -> Result<Config, ConfigError> {
        let list = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty());
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let list = list.unwrap_or_else(|| home.join(".kube/config").into_os_string());
        infer_from(&list, Config::in_cluster)
    }
}

/// `list` as in `KUBECONFIG`.
fn infer_from(
    list: &OsStr,
    in_cluster: impl Fn() -> Result<Config, ConfigError>,
) -> Result<Config, ConfigError> {
    if let Some(config) = kubeconfig::load_list(list)? {
        return Ok(config);
    }
    in_cluster().map_err(|error| match error {
        ConfigError::NotInCluster(not_in_cluster) => {
            let path = std::env::split_paths(list).find(|path| !path.as_os_str().is_empty());
            ConfigError::Nothing { path: path.unwrap_or_default(), not_in_cluster }
        }
        other => other,
    })
}

#[cfg(test)]
mod tests;
