//! Nodes without machines: the agent core over a runtime that only pretends. `setpoint up --simulated-nodes N`.
//!
//! Each is a full member of the cluster: registered, with a lease, heartbeats and a status; it takes pods, refuses what does not
//! fit, gives them addresses (10.0.0.0/8), runs their init containers in order, restarts and backs off, stops them gracefully.
//! How long a container runs and how it ends is read from its command ([`command`]) or from annotations
//! ([`behaviour`] lists them), which also delay, fail and silence whole nodes.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # async fn f(env: env::Env, clients: Arc<dyn client::Clients>, informers: Arc<runtime::Informers>,
//! #     board: Arc<runtime::ControllerRegistry>, stop: runtime::Stop) -> Result<(), String> {
//! let settings = node::simulated::Settings { count: 100, ..Default::default() };
//! let tasks = node::simulated::start(&env, &*clients, &informers, &board, &settings, stop)?;
//! # Ok(()) }
//! ```

mod addresses;
pub mod behaviour;
pub mod command;
mod containers;
pub mod devices;
pub mod usage;

use std::collections::BTreeMap;
use std::sync::Arc;

use client::Clients;
use client::resources::{NODES, PODS};
use env::Env;
use runtime::{ControllerRegistry, Informers, Stop};
use tokio::task::JoinHandle;

use crate::agent::{Agent, HeartbeatPeriods, HostIps, Parts};
use crate::events::{EventSink, Events};
use crate::fleet;
use crate::machine::{Machine, SimulatedMachine};
use addresses::Addresses;
use containers::Containers;

/// Which nodes to pretend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub count: usize,
    /// Nodes are called this and their number, from 0.
    pub name_prefix: String,
    /// What each has, as quantities.
    pub cpu: String,
    pub memory: String,
    pub ephemeral_storage: String,
    pub pods: i64,
    /// Nodes are dealt out to so many zones (`zone-0`, ...); 0: they have none.
    pub zones: usize,
    /// Tell people what happens to pods; the number is bounded, see [`Events`].
    pub events: bool,
    /// The devices of nodes whose annotations say nothing of them; see [`devices`].
    pub devices: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            count: 1,
            name_prefix: "sim-".to_owned(),
            cpu: "32".to_owned(),
            memory: "256Gi".to_owned(),
            ephemeral_storage: "500Gi".to_owned(),
            pods: 110,
            zones: 0,
            events: true,
            devices: String::new(),
        }
    }
}

/// Registers the nodes and keeps them going until stopped. `Err`: a setting makes no sense.
pub fn start(
    env: &Env,
    clients: &dyn Clients,
    informers: &Informers,
    controllers: &Arc<ControllerRegistry>,
    settings: &Settings,
    stop: Stop,
) -> Result<Vec<JoinHandle<()>>, String> {
    let machine = Arc::new(Machine::new(SimulatedMachine {
        cpu: settings.cpu.clone(),
        memory: settings.memory.clone(),
        ephemeral_storage: settings.ephemeral_storage.clone(),
        pods: settings.pods,
        runtime_version: format!("simulated://{}", env!("CARGO_PKG_VERSION")),
        os_image: "Setpoint simulated node".to_owned(),
    }));
    let capacity = machine.capacity()?;
    let mut tasks = Vec::new();
    let events = settings.events.then(|| {
        let (events, task) = Events::start(env, stop.clone());
        tasks.push(task);
        Arc::new(events)
    });
    let mut agents = Vec::with_capacity(settings.count);
    let mut catalog = None;
    let mut drivers = BTreeMap::new();
    devices::plan::check(&settings.devices)?;
    for index in 0..settings.count {
        let name = format!("{}{index}", settings.name_prefix);
        let client = clients.user(&format!("system:node:{name}"), &["system:nodes"]);
        catalog.get_or_insert_with(|| client.catalog());
        drivers.insert(name.clone(), client.clone());
        let zone =
            if settings.zones == 0 { String::new() } else { format!("zone-{}", index % settings.zones) };
        let addresses = Addresses::of_node(index, settings.pods);
        let parts = Parts {
            name,
            ips: HostIps::Fixed([addresses::of_machine(index).to_string()].into()),
            zone,
            machine: machine.clone(),
            capacity,
            client,
            events: events.clone().map(|events| events as Arc<dyn EventSink>),
            runtime: Box::new(Containers::new(env.clone(), addresses)),
            admit: None,
            static_pods: None,
            longest_back_off: crate::worker::LONGEST_MILLIS,
            observer: None,
            heartbeat: HeartbeatPeriods::default(),
        };
        agents.push(Agent::new(env, parts));
    }
    if let Some(catalog) = catalog {
        let (pods, nodes) = (informers.of(&PODS), informers.of(&NODES));
        let parts = devices::Parts {
            clients,
            informers,
            node_objects: nodes.clone(),
            nodes: drivers,
            default: settings.devices.clone(),
        };
        tasks.extend(devices::start(env, parts, controllers, stop.clone()));
        tasks.extend(fleet::start(env, agents, &pods, &nodes, &catalog, controllers, stop));
    }
    Ok(tasks)
}
