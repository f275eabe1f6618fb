//! How a machine becomes a node: it learns whom to trust, and gets a certificate for its token. A node that has joined needs neither.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use auth::pki::Identity;
use catalog::Catalog;
use client::Client;
use client_http::{CertificateRotation, Config, ConfigError, Credentials, HttpClient};
use env::Env;

use super::discovery::{DiscoveryError, discover};
use super::request::{CertificateError, Purpose, Wanted, obtain};
use super::store::{CLIENT_FILE, Store};

/// A token that was made a moment ago may not have signed yet, and a server may still be starting.
const DISCOVERY_TRIES: u32 = 30;
const DISCOVERY_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(
        "this machine has not joined a cluster yet: give --server and --token, as `setpoint token create` prints them on the control plane"
    )]
    NothingToJoin,
    #[error(
        "the certificate of {user} in {file} has ended, or is another node's: join again with --server and --token, as `setpoint token \
         create` prints them on the control plane"
    )]
    NoCertificate { user: String, file: String },
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Whom the node trusts to be the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Who knows the token, and, if hashes are given, has one of these keys.
    Token { hashes: Vec<String> },
    /// This authority, in PEM.
    Authority(String),
}

pub struct Join {
    pub node: String,
    pub directory: PathBuf,
    /// `https://host:port`; empty: where it joined before.
    pub server: String,
    /// Empty: it has joined before.
    pub token: String,
    pub trust: Trust,
}

/// A node that the cluster knows.
pub struct Joined {
    pub node: String,
    pub server: String,
    pub ca_pem: String,
    pub identity: Identity,
    /// As `system:node:NAME`.
    pub client: HttpClient,
    pub rotation: CertificateRotation,
    pub store: Store,
}

/// With the certificate of an earlier run, as long as it is good and the node's; else with the token.
pub async fn join(env: &Env, join: Join) -> Result<Joined, JoinError> {
    let store = Store::new(&join.directory);
    let known = Config::from_kubeconfig(&store.kubeconfig()).ok();
    let user = format!("system:node:{}", join.node);
    let identity =
        store.read(CLIENT_FILE, env.now_seconds()).filter(|identity| identity.common_name() == user);
    if known.is_some() && identity.is_none() && join.token.is_empty() {
        let file = store.path(CLIENT_FILE).display().to_string();
        return Err(JoinError::NoCertificate { user, file });
    }
    let (config, identity) = match (known, identity) {
        (Some(known), Some(identity)) if join.server.is_empty() || join.server == known.server => {
            (known, identity)
        }
        _ => bootstrap(env, &join, &store).await?,
    };
    let ca_pem = config.authority_pem.clone().unwrap_or_default();
    let pair = (identity.certificate_pem().into_bytes(), identity.key_pem().into_bytes());
    let config = Config { certificate_pem: Some(pair), credentials: Credentials::None, ..config };
    let (client, rotation) = HttpClient::with_rotation(env.clone(), Arc::new(Catalog::builtin()), &config)?;
    Ok(Joined {
        node: join.node,
        server: config.server,
        ca_pem: String::from_utf8_lossy(&ca_pem).into_owned(),
        identity,
        client: client.with_field_manager("kubelet"),
        rotation,
        store,
    })
}

async fn bootstrap(env: &Env, join: &Join, store: &Store) -> Result<(Config, Identity), JoinError> {
    if join.server.is_empty() || join.token.is_empty() {
        return Err(JoinError::NothingToJoin);
    }
    let ca = match &join.trust {
        Trust::Authority(pem) => pem.clone(),
        Trust::Token { hashes } => patiently(env, join, hashes).await?,
    };
    let config = Config {
        server: join.server.clone(),
        authority_pem: Some(ca.clone().into_bytes()),
        ..Config::default()
    };
    let by_token = Config { credentials: Credentials::Token(join.token.clone()), ..config.clone() };
    let client: Arc<dyn Client> =
        Arc::new(HttpClient::new(env.clone(), Arc::new(Catalog::builtin()), &by_token)?);
    let wanted = Wanted { purpose: Purpose::Client, node: join.node.clone(), names: Vec::new() };
    let identity = obtain(env, &client, &wanted).await?;
    // The kubeconfig last: with it the node has joined.
    store.write(CLIENT_FILE, &identity)?;
    store.write_kubeconfig(&join.server, &ca)?;
    tracing::info!(node = join.node, server = join.server, "joined the cluster");
    Ok((config, identity))
}

async fn patiently(env: &Env, join: &Join, hashes: &[String]) -> Result<String, DiscoveryError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match discover(env, &join.server, &join.token, hashes).await {
            Err(error @ (DiscoveryError::Unreachable { .. } | DiscoveryError::UnknownToken(_)))
                if tries < DISCOVERY_TRIES =>
            {
                tracing::info!(%error, "cannot join yet, retrying");
                env.sleep(DISCOVERY_PAUSE).await;
            }
            answer => return answer,
        }
    }
}
