//! Whom a new node trusts: the cluster's authority, found out with a bootstrap token as `kubeadm join` does.
//!
//! ```text
//! cluster-info, from whoever answers ── signed with the token's secret? ── the CA pinned by its hash? ── asked again over a
//!                                                                                    connection this CA proves: the same?
//! ```

use auth::bootstrap_token;
use auth::pki::{certificates_from_pem, public_key_hash};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catalog::Catalog;
use client::Client;
use client::resources::CONFIG_MAPS;
use client_http::{Config, HttpClient};
use env::Env;
use object::Value;
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    #[error(
        "{0:?} is not a token: use one that `setpoint token create` printed, such as abcdef.0123456789abcdef"
    )]
    NotToken(String),
    #[error("cannot read cluster-info from {server}: {why}")]
    Unreachable { server: String, why: String },
    #[error(
        "token id {0:?} is invalid for this cluster or it has expired. Use \"setpoint token create\" on the control plane to create a new valid token"
    )]
    UnknownToken(String),
    #[error("failed to verify JWS signature of received cluster info object, can't trust this API Server")]
    WrongSignature,
    #[error("cluster-info of {0} is damaged: {1}")]
    Damaged(String, &'static str),
    #[error(
        "cluster CA found in cluster-info ConfigMap is invalid: none of the public keys {found:?} are pinned"
    )]
    NotPinned { found: Vec<String> },
    #[error("the second answer of {0} is another one: somebody is between us and the cluster")]
    Changed(String),
}

/// The cluster's authority, in PEM. `hashes`: `sha256:HEX` of the keys it may have; none: the token alone proves it.
pub async fn discover(
    env: &Env,
    server: &str,
    token: &str,
    hashes: &[String],
) -> Result<String, DiscoveryError> {
    let insecure = Config { server: server.to_owned(), skip_verify: true, ..Config::default() };
    let first = cluster_info(env, &insecure).await?;
    let (kubeconfig, ca) = verify(server, &first, token, hashes)?;
    let secure = Config {
        server: server.to_owned(),
        authority_pem: Some(ca.clone().into_bytes()),
        ..Config::default()
    };
    let second = cluster_info(env, &secure).await?;
    if second.str_at(&["data", "kubeconfig"]) != Some(&*kubeconfig) {
        return Err(DiscoveryError::Changed(server.to_owned()));
    }
    Ok(ca)
}

async fn cluster_info(env: &Env, config: &Config) -> Result<Value, DiscoveryError> {
    let unreachable = |why: String| DiscoveryError::Unreachable { server: config.server.clone(), why };
    let catalog = Arc::new(Catalog::builtin());
    let client =
        HttpClient::new(env.clone(), catalog, config).map_err(|error| unreachable(error.to_string()))?;
    let found = client.get(CONFIG_MAPS.at("kube-public", "cluster-info")).await;
    Ok(::runtime::tree(&*found.map_err(|status| unreachable(status.message))?))
}

/// The kubeconfig that was signed, and the authority in it.
pub fn verify(
    server: &str,
    info: &Value,
    token: &str,
    hashes: &[String],
) -> Result<(String, String), DiscoveryError> {
    let (id, _) = bootstrap_token::split(token).ok_or_else(|| DiscoveryError::NotToken(token.to_owned()))?;
    let damaged = |what| DiscoveryError::Damaged(server.to_owned(), what);
    let kubeconfig = info.str_at(&["data", "kubeconfig"]).ok_or_else(|| damaged("it has no kubeconfig"))?;
    let signature = info.at(&["data"]).and_then(|data| data.str_at(&[&format!("jws-kubeconfig-{id}")]));
    let signature = signature.ok_or_else(|| DiscoveryError::UnknownToken(id.to_owned()))?;
    if !bootstrap_token::is_signed(kubeconfig, signature, token) {
        return Err(DiscoveryError::WrongSignature);
    }
    let tree =
        codec::yaml::parse(kubeconfig.as_bytes()).map_err(|_| damaged("its kubeconfig is not YAML"))?;
    let clusters = tree.get("clusters").and_then(Value::as_list).unwrap_or_default();
    let ca = clusters.first().and_then(|entry| entry.str_at(&["cluster", "certificate-authority-data"]));
    let ca = ca.and_then(|text| STANDARD.decode(text).ok()).and_then(|pem| String::from_utf8(pem).ok());
    let ca = ca.ok_or_else(|| damaged("its kubeconfig names no authority"))?;
    let certificates =
        certificates_from_pem(ca.as_bytes()).map_err(|_| damaged("its authority is no certificate"))?;
    let found: Vec<String> = certificates.iter().filter_map(|der| public_key_hash(der)).collect();
    if !hashes.is_empty() && !found.iter().any(|hash| hashes.contains(hash)) {
        return Err(DiscoveryError::NotPinned { found });
    }
    Ok((kubeconfig.to_owned(), ca))
}
