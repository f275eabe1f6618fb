//! `setpoint token`: bootstrap tokens, with which machines join the cluster.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use auth::bootstrap_token;
use auth::pki::{certificates_from_pem, public_key_hash};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catalog::Catalog;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use client::resources::{CONFIG_MAPS, ENDPOINT_SLICES, SECRETS};
use client::{Client, DeleteOptions, Gvr, ListOptions, WriteOptions};
use client_http::{Config, HttpClient};
use env::Env;
use object::{Value, time};

use crate::identity::seconds;
use crate::{cli, join_objects, kubeconfig};

const NAMESPACE: &str = bootstrap_token::NAMESPACE;
const PREFIX: &str = "bootstrap-token-";

pub fn command(data_dir: fn() -> Arg) -> Command {
    let with = |command: Command| {
        command.arg(data_dir()).arg(
            Arg::new("kubeconfig")
                .long("kubeconfig")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("The cluster's kubeconfig, if it is not the one of --data-dir"),
        )
    };
    Command::new("token")
        .about("Manage the bootstrap tokens machines join the cluster with")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(with(
            Command::new("create")
                .about("Create a token and print the command that joins a machine with it")
                .arg(Arg::new("token").value_name("TOKEN").help("The token, such as abcdef.0123456789abcdef [default: a random one]"))
                .arg(
                    Arg::new("ttl")
                        .long("ttl")
                        .value_name("DURATION")
                        .default_value("24h")
                        .help("How long the token is valid, such as 2h; 0 never expires"),
                )
                .arg(
                    Arg::new("usages")
                        .long("usages")
                        .value_name("NAMES")
                        .value_delimiter(',')
                        .action(ArgAction::Append)
                        .default_values(["signing", "authentication"])
                        .help("What the token is for: signing, authentication"),
                )
                .arg(
                    Arg::new("groups")
                        .long("groups")
                        .value_name("NAMES")
                        .value_delimiter(',')
                        .action(ArgAction::Append)
                        .default_values([join_objects::NODE_GROUP])
                        .help("Extra groups that clients authenticating with the token belong to"),
                )
                .arg(Arg::new("description").long("description").value_name("TEXT").default_value("").help("What it is for, in words"))
                .arg(
                    Arg::new("server")
                        .long("server")
                        .value_name("URL")
                        .help("The address nodes reach the API server at [default: the advertised address, if it answers]"),
                ),
        ))
        .subcommand(with(Command::new("list").about("List the tokens")))
        .subcommand(with(
            Command::new("delete")
                .about("Delete tokens")
                .arg(Arg::new("tokens").value_name("TOKEN").required(true).num_args(1..).help("Tokens, or their ids")),
        ))
}

pub fn run(matches: &ArgMatches) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start tokio")?;
    let env = Env::machine();
    runtime.block_on(async {
        match matches.subcommand() {
            Some(("create", matches)) => create(&env, matches).await,
            Some(("list", matches)) => list(&env, matches).await,
            Some(("delete", matches)) => delete(&env, matches).await,
            _ => unreachable!("clap requires one of the subcommands"),
        }
    })
}

/// The administrator of the cluster.
fn admin(env: &Env, matches: &ArgMatches) -> Result<(HttpClient, Config)> {
    let path = match matches.get_one::<PathBuf>("kubeconfig") {
        Some(path) => path.clone(),
        None => kubeconfig::copy_path(&cli::data_dir_of(matches)),
    };
    // The error names its source itself.
    let config = Config::from_kubeconfig(&path).map_err(|error| {
        anyhow!(
            "no cluster: start one with `setpoint up`, or name it with --data-dir or --kubeconfig: {error}"
        )
    })?;
    let client = HttpClient::new(env.clone(), Arc::new(Catalog::builtin()), &config)?;
    Ok((client, config))
}

async fn create(env: &Env, matches: &ArgMatches) -> Result<()> {
    let texts =
        |name: &str| matches.get_many::<String>(name).into_iter().flatten().cloned().collect::<Vec<String>>();
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let token = match matches.get_one::<String>("token") {
        Some(token) => token.clone(),
        None => random_token(env),
    };
    let ttl = seconds(&text("ttl"))
        .with_context(|| format!("--ttl {} is not a duration: use 24h, 90m or 0", text("ttl")))?;
    let expires = (ttl > 0).then(|| time::format_seconds(env.now_seconds() as i64 + ttl));
    let secret =
        secret(&token, expires.as_deref(), &texts("usages"), &texts("groups"), &text("description"))?;
    let (client, config) = admin(env, matches)?;
    let server = match matches.get_one::<String>("server") {
        Some(server) => server.clone(),
        None => reachable(env, &client, &config).await,
    };
    let ca = config.authority_pem.clone().context("the kubeconfig names no certificate authority")?;
    let ca = String::from_utf8(ca).context("the certificate authority is not PEM")?;
    prepare(&client, &server, &ca).await?;
    let created = client.create(SECRETS.within(NAMESPACE), secret, WriteOptions::default()).await;
    created.map_err(|status| anyhow!("cannot create the token: {}", status.message))?;
    if is_loopback(&server) {
        eprintln!(
            "warning: {server} is this machine's loopback, which other machines cannot reach; restart the control plane with --listen \
             0.0.0.0:6443, or pass an address they can reach with --server"
        );
    }
    println!("{}", join_line(&server, &token, &ca)?);
    Ok(())
}

fn is_loopback(server: &str) -> bool {
    let authority = server.trim_start_matches("https://").split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// What a machine is joined with.
fn join_line(server: &str, token: &str, ca_pem: &str) -> Result<String> {
    let certificates = certificates_from_pem(ca_pem.as_bytes()).map_err(|error| anyhow!("{error}"))?;
    let hash = certificates.first().and_then(|der| public_key_hash(der));
    let hash = hash.context("the certificate authority is not a certificate")?;
    Ok(format!("setpoint node --server {server} --token {token} --ca-hash {hash}"))
}

/// The roles and the ConfigMap that joining needs: a cluster that was made before, or by others, may lack them.
async fn prepare(client: &HttpClient, server: &str, ca_pem: &str) -> Result<()> {
    for object in join_objects::roles() {
        let Some(resource) = resource_of(&object) else { continue };
        let namespace = object.str_at(&["metadata", "namespace"]).unwrap_or("").to_owned();
        match client.create(resource.within(&namespace), object, WriteOptions::default()).await {
            Err(status) if status.reason != "AlreadyExists" => {
                bail!("cannot let nodes join: {}", status.message)
            }
            _ => {}
        }
    }
    let wanted = join_objects::cluster_info(server, ca_pem);
    let target = CONFIG_MAPS.at("kube-public", "cluster-info");
    let result = match client.get(target).await {
        Err(status) if status.code == 404 => {
            client.create(CONFIG_MAPS.within("kube-public"), wanted, WriteOptions::default()).await.map(drop)
        }
        Err(status) => Err(status),
        Ok(found) => {
            let mut tree = runtime::tree(&found);
            let same = tree.at(&["data", "kubeconfig"]) == wanted.at(&["data", "kubeconfig"]);
            if let Some(kubeconfig) = wanted.at(&["data", "kubeconfig"]).filter(|_| !same) {
                tree.map_at(&["data"]).set("kubeconfig", kubeconfig.clone());
                client.update(target, tree, WriteOptions::default()).await.map(drop)
            } else {
                Ok(())
            }
        }
    };
    result.map_err(|status| anyhow!("cannot write cluster-info: {}", status.message))
}

fn resource_of(object: &Value) -> Option<Gvr> {
    const RBAC: &str = "rbac.authorization.k8s.io";
    Some(match object.str_at(&["kind"])? {
        "ClusterRole" => Gvr::new(RBAC, "v1", "clusterroles"),
        "ClusterRoleBinding" => Gvr::new(RBAC, "v1", "clusterrolebindings"),
        "Role" => Gvr::new(RBAC, "v1", "roles"),
        "RoleBinding" => Gvr::new(RBAC, "v1", "rolebindings"),
        // It is there as long as there is a cluster.
        _ => return None,
    })
}

/// Where other machines reach the server: what it advertises, if it listens there; else what the kubeconfig says.
async fn reachable(env: &Env, client: &HttpClient, config: &Config) -> String {
    let Ok(slice) = client.get(ENDPOINT_SLICES.at("default", "kubernetes")).await else {
        return config.server.clone();
    };
    let tree = runtime::tree(&slice);
    let first = |list: &str| tree.get(list).and_then(Value::as_list).and_then(<[Value]>::first).cloned();
    let address = first("endpoints").and_then(|endpoint| {
        endpoint.get("addresses").and_then(Value::as_list)?.first()?.as_str().map(str::to_owned)
    });
    let port = first("ports").and_then(|port| port.get("port").and_then(Value::as_int));
    let (Some(address), Some(port)) = (address, port) else { return config.server.clone() };
    let host = if address.contains(':') { format!("[{address}]") } else { address };
    let Some(socket) = format!("{host}:{port}").to_socket_addrs().ok().and_then(|mut all| all.next()) else {
        return config.server.clone();
    };
    match env.timeout(Duration::from_secs(2), tokio::net::TcpStream::connect(socket)).await {
        Ok(Ok(_)) => format!("https://{host}:{port}"),
        _ => config.server.clone(),
    }
}

fn random_token(env: &Env) -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let letter = |_| char::from(LETTERS[env.random_below(LETTERS.len() as u64) as usize]);
    let id: String = (0..6).map(letter).collect();
    let secret: String = (0..16).map(letter).collect();
    format!("{id}.{secret}")
}

fn secret(
    token: &str,
    expires: Option<&str>,
    usages: &[String],
    groups: &[String],
    description: &str,
) -> Result<Value> {
    let Some((id, text)) = bootstrap_token::split(token) else {
        bail!(
            "the bootstrap token {token:?} was not of the form \"\\A([a-z0-9]{{6}})\\.([a-z0-9]{{16}})\\z\""
        );
    };
    let mut object = Value::map();
    let metadata = object.map_at(&["metadata"]);
    metadata.set("name", format!("{PREFIX}{id}"));
    metadata.set("namespace", NAMESPACE);
    object.make_map().set("type", bootstrap_token::SECRET_TYPE);
    let mut data: Vec<(String, String)> =
        vec![("token-id".to_owned(), id.to_owned()), ("token-secret".to_owned(), text.to_owned())];
    data.extend(expires.map(|when| ("expiration".to_owned(), when.to_owned())));
    if !description.is_empty() {
        data.push(("description".to_owned(), description.to_owned()));
    }
    for usage in usages {
        if !["signing", "authentication"].contains(&&**usage) {
            bail!("invalid usages: {usage:?}; use signing, authentication");
        }
        data.push((format!("usage-bootstrap-{usage}"), "true".to_owned()));
    }
    if let Some(group) = groups.iter().find(|group| !bootstrap_token::is_group(group)) {
        bail!("bootstrap group {group:?} is invalid: it must begin with system:bootstrappers:");
    }
    if !groups.is_empty() && usages.iter().any(|usage| usage == "authentication") {
        data.push(("auth-extra-groups".to_owned(), groups.join(",")));
    }
    let map = object.map_at(&["data"]);
    for (name, value) in data {
        map.set(name, STANDARD.encode(value));
    }
    Ok(object)
}

async fn list(env: &Env, matches: &ArgMatches) -> Result<()> {
    let (client, _) = admin(env, matches)?;
    let options = ListOptions {
        field_selector: format!("type={}", bootstrap_token::SECRET_TYPE),
        ..ListOptions::default()
    };
    let found = client.list(SECRETS.within(NAMESPACE), options).await;
    let found = found.map_err(|status| anyhow!("cannot list the tokens: {}", status.message))?;
    println!(
        "{:<24} {:<6} {:<21} {:<23} {:<44} DESCRIPTION",
        "TOKEN", "TTL", "EXPIRES", "USAGES", "EXTRA GROUPS"
    );
    for obj in &found.items {
        println!("{}", row(&runtime::tree(obj), env.now_seconds() as i64));
    }
    Ok(())
}

fn row(secret: &Value, now: i64) -> String {
    let value = |key: &str| {
        let bytes = STANDARD.decode(secret.str_at(&["data", key]).unwrap_or("")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let expires = value("expiration");
    let ttl = match time::parse(&expires) {
        None => "<forever>".to_owned(),
        Some((at, _)) if at <= now => "<invalid>".to_owned(),
        Some((at, _)) if at - now >= 3600 => format!("{}h", (at - now) / 3600),
        Some((at, _)) if at - now >= 60 => format!("{}m", (at - now) / 60),
        Some((at, _)) => format!("{}s", at - now),
    };
    let or = |text: String, instead: &str| if text.is_empty() { instead.to_owned() } else { text };
    let usages: Vec<&str> = ["authentication", "signing"]
        .into_iter()
        .filter(|usage| value(&format!("usage-bootstrap-{usage}")) == "true")
        .collect();
    format!(
        "{:<24} {ttl:<6} {:<21} {:<23} {:<44} {}",
        format!("{}.{}", value("token-id"), value("token-secret")),
        or(expires, "<never>"),
        or(usages.join(","), "<none>"),
        or(value("auth-extra-groups"), "<none>"),
        or(value("description"), "<none>"),
    )
}

async fn delete(env: &Env, matches: &ArgMatches) -> Result<()> {
    let (client, _) = admin(env, matches)?;
    for given in matches.get_many::<String>("tokens").into_iter().flatten() {
        let id = bootstrap_token::split(given).map_or(&**given, |(id, _)| id);
        if id.len() != 6 || !id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
            bail!("given token {given:?} is neither a token nor the id of one");
        }
        let name = format!("{PREFIX}{id}");
        let deleted = client.delete(SECRETS.at(NAMESPACE, &name), DeleteOptions::default()).await;
        deleted.map_err(|status| anyhow!("failed to delete bootstrap token {id:?}: {}", status.message))?;
        println!("bootstrap token {id:?} deleted");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_at_the_loopback_is_told_from_others() {
        for near in
            ["https://127.0.0.1:6443", "https://[::1]:6443", "https://localhost:6443", "https://127.9.9.9"]
        {
            assert!(is_loopback(near), "{near}");
        }
        for far in ["https://10.0.0.1:6443", "https://[fd00::1]:6443", "https://api.example.com/x", ""] {
            assert!(!is_loopback(far), "{far}");
        }
    }

    fn made(usages: &[&str], groups: &[&str]) -> Result<Value> {
        let own = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
        secret("abcdef.0123456789abcdef", Some("2030-01-01T00:00:00Z"), &own(usages), &own(groups), "")
    }

    #[test]
    fn a_token_is_a_secret_that_authenticates() {
        let secret = made(&["signing", "authentication"], &[join_objects::NODE_GROUP]).unwrap();
        let user = bootstrap_token::authenticate("abcdef.0123456789abcdef", &secret, 0).unwrap();
        assert_eq!(user.name, "system:bootstrap:abcdef");
        assert!(user.groups.contains(&join_objects::NODE_GROUP.to_owned()));
        let row = row(&secret, 1_893_456_000 - 7200);
        assert!(
            row.starts_with("abcdef.0123456789abcdef  2h     2030-01-01T00:00:00Z  authentication,signing"),
            "{row}"
        );
        assert!(row.ends_with("<none>"), "{row}");
    }

    #[test]
    fn what_is_no_token_usage_or_group_is_refused() {
        assert!(secret("abc", None, &[], &[], "").is_err());
        assert!(made(&["dancing"], &[]).is_err());
        assert!(made(&["authentication"], &["system:masters"]).is_err());
    }

    #[tokio::test]
    async fn random_tokens_are_tokens() {
        let env = Env::simulated(1);
        let (one, two) = (random_token(&env), random_token(&env));
        assert!(bootstrap_token::split(&one).is_some() && one != two);
    }
}
