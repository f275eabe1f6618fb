//! `setpoint node`: this machine as a node of a cluster that runs elsewhere.
//!
//! ```text
//! flags, KubeletConfiguration ── Config ── join: certificate for the token ── run: Node, pods, certificates ── SIGTERM: pods go on
//! ```

mod api_address;
mod run;

pub use run::SIGPWR;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use auth::bootstrap_token;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use env::Env;
use kubelet::certificates::{self, Join, Trust, join};
use kubelet::config::Config;
use network::addresses::Cidr;

use crate::bridge_owner::{Command as Of, Owner};
use crate::pid_file::{PidFile, Running};
use crate::{flag_values, local_node, memory, node_flags, reset};

/// Not that of a control plane: a machine may be both.
pub const DATA_DIR: &str = "/var/lib/setpoint-node";

pub fn command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let file = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
    };
    Command::new("node")
        .about("Join a cluster and run this machine as a node")
        .long_about(
            "Run this machine as a node of a cluster. The first time it joins: --server and --token are in the line that `setpoint token \
             create` prints on the control plane. Afterwards the node has a certificate of its own and needs neither.\n\nIt stays in the \
             foreground until Ctrl-C or SIGTERM; its pods go on running. SIGPWR ends them in the order of their priority first \
             (shutdownGracePeriod or shutdownGracePeriodByPodPriority in the configuration file).",
        )
        .subcommand(
            Command::new("reset")
                .about("End the node's pods and delete all it has on this machine: certificates, volumes, logs, images")
                .arg(data_dir())
                .arg(Arg::new("yes").long("yes").action(ArgAction::SetTrue).help("Do not ask for confirmation")),
        )
        .args_conflicts_with_subcommands(true)
        .arg(data_dir())
        .arg(text("server", "URL", "The API server, such as https://10.0.0.1:6443"))
        .arg(text("token", "TOKEN", "The bootstrap token to join with"))
        .arg(
            text("ca-hash", "HASH", "Hash of the cluster CA's public key, sha256:HEX; may be repeated [default: any CA that is signed with the token]")
                .action(ArgAction::Append),
        )
        .arg(file("ca-file", "The cluster's CA (PEM), instead of finding it out with the token").conflicts_with("ca-hash"))
        .arg(text("name", "NAME", "The name of the node [default: this machine's host name]"))
        .arg(file("config", "A KubeletConfiguration file; flags take precedence"))
        .arg(
            file("config-dir", "Directory of KubeletConfiguration files (*.conf) that are merged into that of --config, in the order of their names")
                .value_name("DIR"),
        )
        .arg(text("container-runtime-endpoint", "URL", "Socket of a CRI runtime, such as unix:///run/containerd/containerd.sock [default: the embedded runtime]"))
        .args(node_flags::flags())
        .arg(
            Arg::new("register-node")
                .long("register-node")
                .value_name("BOOL")
                .value_parser(value_parser!(bool))
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .help("Create the Node object [default: true]"),
        )
        .arg(Arg::new("port").long("port").value_name("PORT").value_parser(value_parser!(u16).range(1..)).help("Port of the node's own server [default: 10250]"))
        .arg(text("bridge", "NAME", "Name of the bridge pods are connected to; one for each node of a machine").default_value("setpoint0"))
        .arg(text("pod-cidr", "CIDR", "Addresses of pods [default: spec.podCIDR of the Node]"))
        .arg(text("cluster-cidr", "CIDR[,CIDR]", "Addresses of the pods of all nodes: these see the pods of this one under their own addresses [default: the control plane's --cluster-cidr]"))
        .arg(
            Arg::new("log")
                .long("log")
                .value_name("FILTER")
                .default_value("info")
                .help("Log level (error, warn, info, debug, trace) or filter"),
        )
}

fn data_dir() -> Arg {
    Arg::new("data-dir").long("data-dir").value_name("DIR").value_parser(value_parser!(PathBuf)).help(
        "Directory of the node: certificates, pods, images; one for each node of a machine [default: /var/lib/setpoint-node]",
    )
}

fn directory(matches: &ArgMatches) -> PathBuf {
    let given = matches.get_one::<PathBuf>("data-dir").cloned();
    given.unwrap_or_else(|| PathBuf::from(DATA_DIR))
}

/// What the run of a node is made of.
pub struct Settings {
    pub config: Config,
    pub join: Join,
    pub node_ip: String,
    pub bridge: String,
    /// Of the pods of all nodes; `None`: what the control plane says.
    pub cluster_ranges: Option<Vec<Cidr>>,
    pub flags: BTreeMap<String, String>,
}

impl Settings {
    pub fn from_matches(matches: &ArgMatches, hostname: &str) -> Result<Settings> {
        let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
        let name =
            matches.get_one::<String>("name").cloned().unwrap_or_else(|| hostname.to_ascii_lowercase());
        node_flags::check_name("name", &name)?;
        let directory = node_flags::canonical(&directory(matches));
        let mut config = Config::new(&name, local_node::directory(&directory));
        config = node_flags::configured(config, matches, "config", "config-dir")?;
        node_flags::apply(matches, &mut config)?;
        config.register_node =
            matches.get_one::<bool>("register-node").copied().unwrap_or(config.register_node);
        config.port = matches.get_one::<u16>("port").copied().unwrap_or(config.port);
        if let Some(endpoint) = crate::local_node::endpoint(matches)? {
            config.container_runtime_endpoint = Some(endpoint);
        }
        if let Some(cidr) = matches.get_one::<String>("pod-cidr") {
            config.pod_cidr = cidr.clone();
        }
        let trust = match matches.get_one::<PathBuf>("ca-file") {
            Some(file) => Trust::Authority(
                std::fs::read_to_string(file)
                    .with_context(|| format!("--ca-file: cannot read {}", file.display()))?,
            ),
            None => Trust::Token { hashes: hashes(node_flags::texts(matches, "ca-hash"))? },
        };
        let token = text("token");
        if !token.is_empty() && bootstrap_token::split(&token).is_none() {
            // Secret, if only a part of it is missing.
            bail!(
                "--token is not a token: use one that `setpoint token create` printed, such as abcdef.0123456789abcdef"
            );
        }
        let join = Join { node: name, directory, server: text("server"), token, trust };
        let bridge = node_flags::bridge(matches)?;
        // Nodes of one machine must not share it.
        if config.cgroup_root == "/" {
            config.cgroup_root = format!("/{bridge}");
        }
        let cluster_cidr = matches.get_one::<String>("cluster-cidr");
        let cluster_ranges =
            cluster_cidr.map(|given| local_node::ranges("cluster-cidr", given)).transpose()?;
        let flags = flag_values::of(matches);
        Ok(Settings { config, join, node_ip: text("node-ip"), bridge, cluster_ranges, flags })
    }
}

fn hashes(given: Vec<String>) -> Result<Vec<String>> {
    for hash in &given {
        let hex = hash.strip_prefix("sha256:").unwrap_or("");
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            bail!(
                "--ca-hash {hash} is not a hash: use sha256: and 64 hexadecimal digits, as `setpoint token create` prints it"
            );
        }
    }
    Ok(given.iter().map(|hash| hash.to_ascii_lowercase()).collect())
}

pub fn run(matches: &ArgMatches) -> Result<()> {
    if let Some(("reset", matches)) = matches.subcommand() {
        return reset(matches);
    }
    let env = Env::machine();
    let settings = Settings::from_matches(matches, env.hostname())?;
    // Before it joins: a certificate would be signed for nothing.
    if !rustix::process::geteuid().is_root() {
        bail!("a node with containers needs root: run `setpoint node` as root");
    }
    let log = matches.get_one::<String>("log").map_or("info", String::as_str);
    crate::run::start_log(log)?;
    let runtime = crate::run::threads("setpoint-node", memory::collect_all)?;
    runtime.block_on(async {
        tokio::select! {
            ended = serve(&env, settings) => ended,
            never = memory::collect_regularly(&env, runtime.handle()) => match never {},
        }
    })
}

async fn serve(env: &Env, settings: Settings) -> Result<()> {
    // Signals first: one that arrives while it joins must stop it, too.
    let mut signals = run::Signals::listen()?;
    // Before files are opened and connections accepted.
    crate::descriptors::raise();
    let directory = settings.join.directory.clone();
    crate::run::make_data_dir(&directory)?;
    let _pid_file = PidFile::acquire(&directory)?.ok_or_else(|| {
        anyhow!("another node runs on {}; choose another with --data-dir", directory.display())
    })?;
    let owner =
        Owner { command: Of::Node, data_dir: directory, directory: settings.config.root_directory.clone() };
    // Before a certificate is asked for.
    let reserved = local_node::reserve(&settings.config, &settings.bridge, &owner)?;
    let joining = join(env, settings.join);
    let Some(joined) = signals.interrupts(joining).await else { return Ok(()) };
    let Settings { config, node_ip, bridge, cluster_ranges, flags, .. } = settings;
    node_flags::warn_about_shutdown(&config);
    let settings = run::Run { config, node_ip, bridge, reserved, cluster_ranges, flags };
    run::run(env, joined?, settings, signals).await
}

/// Deletes what is the node's and nothing else.
fn reset(matches: &ArgMatches) -> Result<()> {
    let dir = node_flags::canonical(&directory(matches));
    let folder = local_node::directory(&dir);
    let store = certificates::Store::new(&dir);
    let ours = [
        store.kubeconfig(),
        store.path(certificates::CLIENT_FILE),
        store.path(certificates::SERVER_FILE),
        dir.join(local_node::FOLDER),
    ];
    let found = ours.into_iter().filter(|path| path.symlink_metadata().is_ok()).collect::<Vec<_>>();
    if found.is_empty() {
        println!("{} holds no node; nothing to delete.", dir.display());
        return Ok(());
    }
    if let Some(running) = Running::find(&dir)? {
        bail!(
            "the node of {} runs as pid {}; stop that process first",
            dir.display(),
            running.pid.as_raw_nonzero()
        );
    }
    reset::check_mounts(&found, &folder)?;
    let mut what = format!("the node's certificates, pods and images in {}", dir.display());
    if let Some(more) = local_node::deleted_elsewhere(&folder) {
        what.push_str(&format!(", and {more}"));
    }
    reset::confirm(matches, &what)?;
    local_node::reset_directory(&folder)?;
    for path in found {
        reset::delete(&path)?;
    }
    // Both fail, as they should, unless they are empty now.
    let _ = std::fs::remove_dir(dir.join("pki"));
    let _ = std::fs::remove_dir(&dir);
    println!("Deleted. To remove the Node object as well: kubectl delete node NAME");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &[&str]) -> Result<Settings> {
        let args = ["setpoint", "node"].iter().chain(flags);
        let matches = crate::cli::command().try_get_matches_from(args).unwrap();
        Settings::from_matches(matches.subcommand().unwrap().1, "Some-Host")
    }

    #[test]
    fn flags_say_what_the_node_is() {
        let made = settings(&[
            "--node-labels",
            "a=b,c=d",
            "--register-with-taints",
            "x:NoSchedule",
            "--port",
            "10300",
        ]);
        let made = made.unwrap();
        assert_eq!(made.join.node, "some-host");
        assert_eq!(made.config.node_labels.len(), 2);
        assert_eq!(
            (made.config.port, made.config.register_with_taints),
            (10300, vec!["x:NoSchedule".to_owned()])
        );
        assert_eq!(made.join.trust, Trust::Token { hashes: Vec::new() });
        assert!(made.cluster_ranges.is_none(), "the control plane knows them");
        let given = settings(&["--cluster-cidr", "10.8.0.0/14"]).unwrap().cluster_ranges.unwrap();
        assert_eq!(given.iter().map(Cidr::to_string).collect::<Vec<_>>(), ["10.8.0.0/14"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_flag() {
        for (flags, told) in [
            (&["--name", "No_Name"][..], "--name No_Name is not a name"),
            (&["--node-labels", "a b=c"], "--node-labels a b=c is not a label"),
            (&["--node-labels", "node-role.kubernetes.io/x="], "unknown 'kubernetes.io' or 'k8s.io' labels"),
            (&["--register-with-taints", "x"], "--register-with-taints x is not a taint"),
            (&["--bridge", "a-bridge"], "--bridge a-bridge is not a name for a bridge"),
            (&["--ca-hash", "md5:1"], "--ca-hash md5:1 is not a hash"),
            (&["--token", "abcdef"], "--token is not a token"),
            (&["--ca-file", "/no/such/file"], "--ca-file: cannot read /no/such/file"),
            (&["--config", "/no/such/file"], "--config: cannot read /no/such/file"),
            (
                &["--container-runtime-endpoint", "tcp://x"],
                "--container-runtime-endpoint tcp://x is not a socket",
            ),
        ] {
            let error = settings(flags).err().map(|error| format!("{error:#}")).unwrap_or_default();
            assert!(error.contains(told), "{flags:?}: {error}");
        }
    }
}
