//! How a machine becomes a node: it learns whom to trust, and gets a certificate for its token. A node that has joined needs neither.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use auth::pki::{Identity, certificates_from_pem, public_key_hash};
use catalog::Catalog;
use client::Client;
use client::resources::NODES;
use client_http::{CertificateRotation, Config, ConfigError, Credentials, HttpClient};
use env::Env;
use object::Value;

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
    #[error(
        "{dir} belongs to a node of another cluster, or of one that was made anew: its CA is not the one that was given. Delete what is \
         left of that node first, with `setpoint node reset --data-dir {dir}`, or choose another directory with --data-dir"
    )]
    OtherCluster { dir: String },
    #[error(
        "this machine has joined the cluster of {known}, and {server} cannot be shown to be the same one: {why}. Leave --server out to go on \
         with {known}. To join another cluster, delete what is left of that node first, with `setpoint node reset --data-dir {dir}`"
    )]
    JoinedElsewhere { known: String, server: String, why: String, dir: String },
    #[error(
        "a Node with name {0:?} and status \"Ready\" already exists in the cluster: another machine runs it. Choose another name with \
         --name, or delete that Node first with `kubectl delete node {0}`"
    )]
    NameTaken(String),
    #[error("cannot get Node {node:?}: {why}")]
    Node { node: String, why: String },
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
    let join = Join { server: normal(&join.server), ..join };
    let store = Store::new(&join.directory);
    let known = Config::from_kubeconfig(&store.kubeconfig()).ok();
    let user = format!("system:node:{}", join.node);
    let identity =
        store.read(CLIENT_FILE, env.now_seconds()).filter(|identity| identity.common_name() == user);
    if known.is_some() && identity.is_none() && join.token.is_empty() {
        let file = store.path(CLIENT_FILE).display().to_string();
        return Err(JoinError::NoCertificate { user, file });
    }
    if let Some(known) = &known
        && !join.trust.may_be(known.authority_pem.as_deref().unwrap_or_default())
    {
        return Err(JoinError::OtherCluster { dir: join.directory.display().to_string() });
    }
    let (config, identity) = match (known, identity) {
        (Some(known), Some(identity)) if join.server.is_empty() || join.server == normal(&known.server) => {
            (known, identity)
        }
        (Some(known), Some(identity)) if join.token.is_empty() => {
            (follow(env, &join, &store, known, &identity).await?, identity)
        }
        (known, _) => bootstrap(env, &join, &store, known).await?,
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

/// The same server is written in several ways.
fn normal(server: &str) -> String {
    let server = server.trim().trim_end_matches('/');
    match server.split_once("://") {
        Some((scheme, rest)) if !rest.contains('/') => {
            let (scheme, host) = (scheme.to_ascii_lowercase(), rest.to_ascii_lowercase());
            let host = if scheme == "https" { host.strip_suffix(":443").unwrap_or(&host) } else { &host };
            format!("{scheme}://{host}")
        }
        _ => server.to_owned(),
    }
}

/// The cluster is at another address: whoever has a certificate of its CA, and answers the node there.
async fn follow(
    env: &Env,
    join: &Join,
    store: &Store,
    known: Config,
    identity: &Identity,
) -> Result<Config, JoinError> {
    let pair = (identity.certificate_pem().into_bytes(), identity.key_pem().into_bytes());
    let before = known.server.clone();
    let config = Config { server: join.server.clone(), certificate_pem: Some(pair), ..known };
    let client = HttpClient::new(env.clone(), Arc::new(Catalog::builtin()), &config)?;
    match client.get(NODES.at("", &join.node)).await {
        Ok(_) => {}
        // It knows the node, which may have been deleted.
        Err(status) if status.code == 403 || status.code == 404 => {}
        Err(status) => {
            return Err(JoinError::JoinedElsewhere {
                known: before,
                server: config.server,
                why: status.message,
                dir: join.directory.display().to_string(),
            });
        }
    }
    let ca = config.authority_pem.as_deref().unwrap_or_default();
    store.write_kubeconfig(&config.server, &String::from_utf8_lossy(ca))?;
    tracing::info!(before, server = config.server, "the API server is at another address");
    Ok(config)
}

async fn bootstrap(
    env: &Env,
    join: &Join,
    store: &Store,
    known: Option<Config>,
) -> Result<(Config, Identity), JoinError> {
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
    let is_known = known.is_some_and(|known| known.authority_pem.as_deref() == Some(ca.as_bytes()));
    if !(is_known
        && store.common_name(CLIENT_FILE).is_some_and(|name| name == format!("system:node:{}", join.node)))
    {
        check_name(&client, &join.node).await?;
    }
    let wanted = Wanted { purpose: Purpose::Client, node: join.node.clone(), names: Vec::new() };
    let identity = obtain(env, &client, &wanted).await?;
    // The kubeconfig last: with it the node has joined.
    store.write(CLIENT_FILE, &identity)?;
    store.write_kubeconfig(&join.server, &ca)?;
    tracing::info!(node = join.node, server = join.server, "joined the cluster");
    Ok((config, identity))
}

impl Trust {
    /// Whether one of these authorities is among those that were given.
    fn may_be(&self, authority_pem: &[u8]) -> bool {
        let known = certificates_from_pem(authority_pem).unwrap_or_default();
        match self {
            Trust::Token { hashes } if hashes.is_empty() => true,
            Trust::Token { hashes } => {
                known.iter().filter_map(|der| public_key_hash(der)).any(|hash| hashes.contains(&hash))
            }
            Trust::Authority(pem) => {
                let given = certificates_from_pem(pem.as_bytes()).unwrap_or_default();
                known.iter().any(|der| given.contains(der))
            }
        }
    }
}

/// Two machines of one name would take the Node from each other.
async fn check_name(client: &Arc<dyn Client>, node: &str) -> Result<(), JoinError> {
    match client.get(NODES.at("", node)).await {
        Ok(found) if is_ready(&::runtime::tree(&found)) => Err(JoinError::NameTaken(node.to_owned())),
        Ok(_) => Ok(()),
        Err(status) if status.code == 404 => Ok(()),
        // Not every cluster lets those who join look.
        Err(status) if status.code == 403 => {
            tracing::warn!(
                node,
                error = status.message,
                "cannot find out whether another machine has this name"
            );
            Ok(())
        }
        Err(status) => Err(JoinError::Node { node: node.to_owned(), why: status.message }),
    }
}

fn is_ready(node: &Value) -> bool {
    let conditions = node.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let is = |condition: &Value, name: &str, value: &str| condition.str_at(&[name]) == Some(value);
    conditions.iter().any(|condition| is(condition, "type", "Ready") && is(condition, "status", "True"))
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

#[cfg(test)]
mod tests {
    use auth::Pki;

    use super::*;
    use crate::server::tests::fixture::Fixture;

    #[test]
    fn another_clusters_authority_is_known_by_its_hash_or_itself() {
        let folder = tempfile::tempdir().unwrap();
        let [ours, other] = ["ours", "other"]
            .map(|name| Pki::open_or_create(&folder.path().join(name), 1_800_000_000, &[]).unwrap());
        let hash =
            |pki: &Pki| public_key_hash(&certificates_from_pem(pki.ca_pem().as_bytes()).unwrap()[0]).unwrap();
        let may_be = |trust: &Trust| trust.may_be(ours.ca_pem().as_bytes());
        assert!(may_be(&Trust::Token { hashes: Vec::new() }));
        assert!(may_be(&Trust::Token { hashes: vec![hash(&other), hash(&ours)] }));
        assert!(!may_be(&Trust::Token { hashes: vec![hash(&other)] }));
        assert!(may_be(&Trust::Authority(ours.ca_pem().to_owned())));
        assert!(!may_be(&Trust::Authority(other.ca_pem().to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_of_the_cluster_that_was_made_anew_is_told_to_reset() {
        let folder = tempfile::tempdir().unwrap();
        let (env, store) = (Env::simulated(1), Store::new(folder.path()));
        let [old, new] = ["old", "new"]
            .map(|name| Pki::open_or_create(&folder.path().join(name), env.now_seconds(), &[]).unwrap());
        let identity =
            old.issue_client("system:node:n", &["system:nodes".to_owned()], 3600, env.now_seconds()).unwrap();
        store.write(CLIENT_FILE, &identity).unwrap();
        store.write_kubeconfig("https://127.0.0.1:1", old.ca_pem()).unwrap();
        let with = |trust| Join {
            node: "n".to_owned(),
            directory: folder.path().to_owned(),
            server: "https://127.0.0.1:1".to_owned(),
            token: "abcdef.0123456789abcdef".to_owned(),
            trust,
        };
        let refused =
            join(&env, with(Trust::Authority(new.ca_pem().to_owned()))).await.err().unwrap().to_string();
        let reset = format!("`setpoint node reset --data-dir {}`", folder.path().display());
        assert!(refused.contains(&reset), "{refused}");
        assert!(join(&env, with(Trust::Authority(old.ca_pem().to_owned()))).await.is_ok());
    }

    #[tokio::test]
    async fn a_node_follows_its_server_to_another_address() {
        let fixture = Fixture::start().await;
        let folder = tempfile::tempdir().unwrap();
        let (env, store) = (&fixture.env, Store::new(folder.path()));
        let of = |pki: &Pki, server: &str| {
            let groups = ["system:nodes".to_owned()];
            let identity = pki.issue_client("system:node:n", &groups, 3600, env.now_seconds()).unwrap();
            store.write(CLIENT_FILE, &identity).unwrap();
            store.write_kubeconfig(server, pki.ca_pem()).unwrap();
        };
        let joined = async |server: &str| {
            let (server, token) = (server.to_owned(), String::new());
            let trust = Trust::Token { hashes: Vec::new() };
            let with =
                Join { node: "n".to_owned(), directory: folder.path().to_owned(), server, token, trust };
            join(env, with).await.map(|joined| joined.server).map_err(|error| error.to_string())
        };
        let known = || Config::from_kubeconfig(&store.kubeconfig()).unwrap();
        let url = format!("https://127.0.0.1:{}", fixture.server.port());

        of(&fixture.pki, "https://127.0.0.1:1");
        assert_eq!(joined("https://127.0.0.1:1/").await.unwrap(), "https://127.0.0.1:1", "nobody is asked");
        assert_eq!(joined(&format!("{url}/")).await.unwrap(), url);
        assert_eq!(known().server, url);
        assert_eq!(known().authority_pem.unwrap(), fixture.pki.ca_pem().as_bytes());
        assert_eq!(joined("").await.unwrap(), url);

        let refused = joined("https://127.0.0.1:1").await.unwrap_err();
        assert!(refused.contains(&format!("has joined the cluster of {url}, and")), "{refused}");
        let other = Pki::open_or_create(&folder.path().join("other"), env.now_seconds(), &[]).unwrap();
        of(&other, "https://127.0.0.1:1");
        let refused = joined(&url).await.unwrap_err();
        assert!(refused.contains("cannot be shown to be the same one"), "{refused}");
        assert_eq!(known().server, "https://127.0.0.1:1");
    }

    #[test]
    fn a_server_is_the_same_however_it_is_written() {
        for written in ["https://Api.Example/", "https://api.example:443", " HTTPS://api.example:443// "] {
            assert_eq!(normal(written), "https://api.example");
        }
        assert_eq!(normal("https://api.example:6443/Prefix/"), "https://api.example:6443/Prefix");
        assert_eq!(normal(""), "");
    }

    #[test]
    fn only_a_node_that_is_ready_has_its_name() {
        let node = |status: &str| {
            let text = format!(r#"{{"status":{{"conditions":[{{"type":"Ready","status":"{status}"}}]}}}}"#);
            codec::json::parse(text.as_bytes(), None).unwrap()
        };
        assert!(is_ready(&node("True")) && !is_ready(&node("Unknown")) && !is_ready(&Value::map()));
    }
}
