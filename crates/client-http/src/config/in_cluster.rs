//! The configuration of a pod: two variables, and the files of its service account.

use std::path::Path;

use super::{Config, ConfigError};
use crate::credentials::Credentials;

pub const FILES: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

pub fn read(variable: &dyn Fn(&str) -> Option<String>, files: &Path) -> Result<Config, ConfigError> {
    let wanted = |name: &str| {
        let value = variable(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| ConfigError::NotInCluster(format!("{name} is not set")))
    };
    let (host, port) = (wanted("KUBERNETES_SERVICE_HOST")?, wanted("KUBERNETES_SERVICE_PORT")?);
    // An address of IPv6 needs its brackets.
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let file = |name: &str| {
        let path = files.join(name);
        std::fs::read(&path).map_err(|source| ConfigError::Read { path, source })
    };
    // Read once now, so that a missing volume is an error here and not with the first request.
    file("token")?;
    let namespace = file("namespace").ok().and_then(|text| String::from_utf8(text).ok());
    Ok(Config {
        server: format!("https://{host}:{port}"),
        authority_pem: Some(file("ca.crt")?),
        // A pod's token lives for an hour and is written anew before.
        credentials: Credentials::TokenFile(files.join("token")),
        namespace: namespace.map_or_else(|| "default".to_owned(), |name| name.trim().to_owned()),
        ..Config::default()
    })
}
