//! Controllers, scheduler and simulated nodes: their flags, and how they are started with the API server.

use std::path::PathBuf;
use std::sync::Arc;

use crate::controller_flags;
use anyhow::{Context, Result, anyhow};
use apiserver::{Api, ControllerStatus, LocalClients};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use codec::yaml;
use env::Env;
use object::Value;
use plane::{Candidate, Cidr, ControllerSelection, Plane, ServingNames, Settings, Trust};

pub fn flags() -> [Arg; 4] {
    [
        Arg::new("controllers")
            .long("controllers")
            .value_name("NAMES")
            .value_delimiter(',')
            .action(ArgAction::Append)
            // As kubeadm has it: nodes join with tokens.
            .default_values(["*", "bootstrap-signer-controller", "token-cleaner-controller"])
            .help("Controllers to run: '*' enables all but bootstrap-signer-controller and token-cleaner-controller, 'NAME' enables one, '-NAME' disables one; '*,-NAME' runs all but one, '-*' none. The scheduler is named 'scheduler'")
            .allow_hyphen_values(true),
        Arg::new("simulated-nodes")
            .long("simulated-nodes")
            .value_name("N")
            .default_value("0")
            .allow_negative_numbers(true)
            .value_parser(value_parser!(u32).range(0..=50_000))
            .help("Number of simulated nodes: they run no containers, but their pods become Running and Ready, and follow their command or annotations"),
        Arg::new("simulated-devices")
            .long("simulated-devices")
            .value_name("DEVICES")
            .default_value("")
            .hide_default_value(true)
            .value_parser(|text: &str| node::simulated::devices::plan::check(text).map(|()| text.to_owned()))
            .help("Devices of each simulated node, for resource claims: a number, or JSON as in the annotation sim.setpoint.dev/devices"),
        Arg::new("scheduler-config")
            .long("scheduler-config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("A KubeSchedulerConfiguration: profiles, plugins and their weights"),
    ]
}

/// Settings from the flags.
pub fn settings(matches: &ArgMatches) -> Result<Settings> {
    let names: Vec<String> =
        matches.get_many::<String>("controllers").into_iter().flatten().cloned().collect();
    let choice = ControllerSelection::new(names).map_err(|error| anyhow!("--controllers: {error}"))?;
    for (controller, why) in choice.without_effect() {
        tracing::warn!(controller, why, "controller is not available and has no effect");
    }
    let scheduler = match matches.get_one::<PathBuf>("scheduler-config") {
        None => scheduler::Config::default(),
        Some(file) => {
            let bytes =
                std::fs::read(file).with_context(|| format!("--scheduler-config {}", file.display()))?;
            let tree = yaml::parse(&bytes)
                .map_err(|error| anyhow!("--scheduler-config {}: {error}", file.display()))?;
            scheduler::Config::parse(&tree)
                .map_err(|error| anyhow!("--scheduler-config {}: {error}", file.display()))?
        }
    };
    let count = matches.get_one::<u32>("simulated-nodes").copied().unwrap_or(0) as usize;
    let devices = matches.get_one::<String>("simulated-devices").cloned().unwrap_or_default();
    let nodes = (count > 0).then(|| node::simulated::Settings { count, devices, ..Default::default() });
    let controllers = Arc::new(controller_flags::settings(matches)?);
    Ok(Settings { choice, scheduler, nodes, controllers, ..Settings::default() })
}

/// Ranges of pods that the cluster gives to no node but this one, which takes them itself.
pub fn reserve_cidrs(settings: &mut Settings, node: &str, cidrs: impl Iterator<Item = String>) {
    if let Some(ipam) = &mut Arc::make_mut(&mut settings.controllers).node_ipam {
        ipam.reserve(node, cidrs.filter_map(|cidr| Cidr::parse(&cidr)));
    }
}

/// What a cluster with nodes begins with: a default class, whose volumes are directories on them, and the role to read what their
/// pods use.
pub fn initial_objects(settings: &Settings, has_nodes: bool) -> Vec<Value> {
    let mut objects = Vec::new();
    if has_nodes {
        objects.push(metrics_reader());
        if settings.choice.runs(plane::LOCAL_PROVISIONER) {
            objects.push(plane::local_storage_class());
        }
    }
    objects
}

/// As metrics-server brings it: who may view a namespace may view its metrics.
fn metrics_reader() -> Value {
    let text = br#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"system:aggregated-metrics-reader","labels":{"rbac.authorization.k8s.io/aggregate-to-admin":"true","rbac.authorization.k8s.io/aggregate-to-edit":"true","rbac.authorization.k8s.io/aggregate-to-view":"true"}},"rules":[{"apiGroups":["metrics.k8s.io"],"resources":["pods","nodes"],"verbs":["get","list","watch"]}]}"#;
    codec::json::parse(text, None).unwrap_or_else(|_| Value::map())
}

/// Starts them, and exposes them under `/debug/controllers` and in `/metrics`. `shared`: other servers may use the same
/// store, so leader election is on. `names`: the server's own.
pub fn start(
    env: &Env,
    api: &Arc<Api>,
    settings: &Settings,
    names: ServingNames,
    shared: bool,
) -> Arc<Plane> {
    let mut settings = settings.clone();
    let signer = api.clone();
    settings.trust = Trust {
        root_ca: api.root_ca(),
        sign: Some(Arc::new(move |account, secret| signer.sign_secret_token(account, secret))),
        issuer: api.issuer(),
        serving_names: Some(names),
    };
    settings.registry = Some(api.controller_registry());
    if shared {
        settings.candidate = Some(Candidate { identity: format!("{}_{}", env.hostname(), env.uuid()) });
    }
    let plane = Arc::new(Plane::start(env, Arc::new(LocalClients::new(api.clone())), &settings));
    api.set_controller_status(Arc::new(PlaneStatus(plane.clone())));
    plane
}

struct PlaneStatus(Arc<Plane>);

impl ControllerStatus for PlaneStatus {
    fn controllers(&self) -> Value {
        self.0.controllers()
    }
    fn metrics(&self, out: &mut String) {
        self.0.metrics(out);
    }
    fn leads(&self, lease: &str) -> Option<Result<(), String>> {
        self.0.leads(lease)
    }
}
