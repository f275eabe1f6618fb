//! The `kubernetes` service: its endpoints are the live API servers.
//!
//! ```text
//! each server ── renews its Lease every 10 s ──┐
//!                                              ├── addresses of live leases ── Endpoints, EndpointSlice `kubernetes`
//! other servers' leases, renewed since 15 s ───┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use client::resources::SERVICE_NAME_LABEL;
use object::{Map, Status, Value, time};
use tokio::time::Instant;

use crate::api::Api;
use crate::controllers::cluster_authentication_trust::typed;
use crate::loopback::{GroupResource, LoopbackClient, lost_race};

const SERVICES: GroupResource = ("", "services");
const ENDPOINTS: GroupResource = ("", "endpoints");
const SLICES: GroupResource = ("discovery.k8s.io", "endpointslices");
const LEASES: GroupResource = ("coordination.k8s.io", "leases");
const NAME: &str = "kubernetes";
const NAMESPACE: &str = "default";
const LEASE_NAMESPACE: &str = "kube-system";
const IDENTITY_LABEL: &str = "apiserver.kubernetes.io/identity";
const HOST_LABEL: &str = "kubernetes.io/hostname";
/// The annotation of a server's lease with its address.
const ADDRESS: &str = "setpoint.dev/advertise-address";
const SERVICE_PORT: i64 = 443;
const DEFAULT_PORT: u16 = 6443;
const EVERY: Duration = Duration::from_secs(10);
/// A server whose lease is not renewed for this long is gone.
const DEAD_AFTER: Duration = Duration::from_secs(15);
const LEASE_SECONDS: i64 = 3600;

/// The advertised address of this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    pub address: SocketAddr,
    /// The host name, shown in the lease.
    pub host: String,
}

/// Creates the service if it is missing, with the first address of the first range.
pub(crate) async fn ensure_service(client: &LoopbackClient<'_>) -> Result<(), Status> {
    if client.get(SERVICES, NAMESPACE, NAME).is_some() {
        return Ok(());
    }
    let target = client.api().advertised().map_or(DEFAULT_PORT, |a| a.address.port());
    let mut new = Value::map();
    let metadata = new.map_at(&["metadata"]);
    metadata.set("name", NAME);
    let mut labels = Map::default();
    labels.set("component", "apiserver");
    labels.set("provider", "kubernetes");
    metadata.set("labels", labels);
    let spec = new.map_at(&["spec"]);
    spec.set("clusterIP", client.api().cluster().services.first_address().to_string());
    spec.set("ipFamilyPolicy", "SingleStack");
    spec.set("sessionAffinity", "None");
    spec.set("type", "ClusterIP");
    let mut port = port_object(SERVICE_PORT);
    port.make_map().set("targetPort", i64::from(target));
    spec.set("ports", vec![port]);
    match client.create(SERVICES, NAMESPACE, typed(new, "v1", "Service")).await {
        Err(status) if lost_race(&status) => Ok(()),
        other => other,
    }
}

/// Runs until shutdown; then removes this server's address.
pub async fn run(api: Arc<Api>) {
    let Some(me) = api.advertised() else { return };
    let env = api.registry().env().clone();
    let client = LoopbackClient::new(&api);
    let lease = ServerLease::new(&me, &env.uuid());
    let mut watch = LeaseWatch::default();
    let mut shutdown = api.shutdown();
    loop {
        let sync = async {
            lease.renew(&client, &me).await?;
            ensure_service(&client).await?;
            let alive = watch.alive(&client, env.monotonic(), None).await?;
            reconcile(&client, &alive).await
        };
        tokio::select! {
            biased;
            () = shutdown.begun() => break,
            done = sync => if let Err(status) = done && !lost_race(&status) {
                tracing::warn!(error = status.message, "could not reconcile the kubernetes service");
            },
        }
        tokio::select! {
            biased;
            () = shutdown.begun() => break,
            () = env.sleep(EVERY) => {}
        }
    }
    let leave = async {
        lease.release(&client).await?;
        let alive = watch.alive(&client, env.monotonic(), Some(&lease.name)).await?;
        reconcile(&client, &alive).await
    };
    if let Err(status) = leave.await {
        tracing::warn!(error = status.message, "could not remove this server's endpoint");
    }
}

/// The lease of this server.
struct ServerLease {
    name: String,
    holder: String,
}

impl ServerLease {
    /// Derived from the address, so that a restarted server finds its own lease.
    fn new(me: &Advertised, run: &str) -> ServerLease {
        let text = format!("{} {}", me.host, me.address);
        let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        let name = format!("apiserver-{}", base32(&digest.as_ref()[..16]));
        ServerLease { holder: format!("{name}_{run}"), name }
    }

    async fn renew(&self, client: &LoopbackClient<'_>, me: &Advertised) -> Result<(), Status> {
        let nanos = client.api().registry().env().now_nanos();
        let now = time::format_micros((nanos / 1_000_000_000) as i64, (nanos % 1_000_000_000) as u32);
        let existing = client.get(LEASES, LEASE_NAMESPACE, &self.name);
        let fresh = existing.is_none();
        let mut lease = existing.unwrap_or_else(|| typed(Value::map(), "coordination.k8s.io/v1", "Lease"));
        lease.map_at(&["metadata"]).set("name", self.name.as_str());
        lease.map_at(&["metadata", "annotations"]).set(ADDRESS, me.address.to_string());
        let labels = lease.map_at(&["metadata", "labels"]);
        labels.set(IDENTITY_LABEL, "kube-apiserver");
        if is_label_value(&me.host) {
            labels.set(HOST_LABEL, me.host.as_str());
        }
        let spec = lease.map_at(&["spec"]);
        spec.set("holderIdentity", self.holder.as_str());
        spec.set("leaseDurationSeconds", LEASE_SECONDS);
        spec.set("renewTime", now);
        if fresh {
            return client.create(LEASES, LEASE_NAMESPACE, lease).await;
        }
        client.update(LEASES, lease).await
    }

    async fn release(&self, client: &LoopbackClient<'_>) -> Result<(), Status> {
        match client.get(LEASES, LEASE_NAMESPACE, &self.name) {
            Some(lease) => client.delete(LEASES, &lease).await,
            None => Ok(()),
        }
    }
}

/// Which leases are renewed. Clocks of machines differ, so what counts is when *we* saw a lease change.
#[derive(Default)]
struct LeaseWatch {
    seen: BTreeMap<String, (String, Instant)>,
}

impl LeaseWatch {
    /// The addresses of live servers; expired leases are deleted.
    async fn alive(
        &mut self,
        client: &LoopbackClient<'_>,
        now: Instant,
        without: Option<&str>,
    ) -> Result<BTreeSet<SocketAddr>, Status> {
        let unix = client.api().registry().env().now_seconds() as i64;
        let mut alive = BTreeSet::new();
        let mut present = BTreeSet::new();
        for lease in client.list(LEASES)? {
            let text = |path: &[&str]| lease.str_at(path).unwrap_or("");
            let name = text(&["metadata", "name"]).to_owned();
            let ours = text(&["metadata", "namespace"]) == LEASE_NAMESPACE
                && text(&["metadata", "labels", IDENTITY_LABEL]) == "kube-apiserver";
            if !ours || without == Some(&name) {
                continue;
            }
            present.insert(name.clone());
            let renewed = text(&["spec", "renewTime"]).to_owned();
            let ended = time::parse(&renewed).is_some_and(|(renewed, _)| renewed + LEASE_SECONDS < unix);
            if ended {
                if let Err(status) = client.delete(LEASES, &lease).await {
                    tracing::warn!(name, error = status.message, "could not delete an expired lease");
                }
                continue;
            }
            let seen = self.seen.entry(name).or_insert_with(|| (renewed.clone(), now));
            if seen.0 != renewed {
                *seen = (renewed, now);
            }
            if now.duration_since(seen.1) < DEAD_AFTER
                && let Ok(address) = text(&["metadata", "annotations", ADDRESS]).parse::<SocketAddr>()
            {
                alive.insert(address);
            }
        }
        self.seen.retain(|name, _| present.contains(name));
        // Another machine's loopback address is of no use, and validation would refuse it.
        alive.retain(|address| !address.ip().is_loopback() && !address.ip().is_unspecified());
        Ok(alive)
    }
}

/// Writes Endpoints and EndpointSlice if they differ.
async fn reconcile(client: &LoopbackClient<'_>, alive: &BTreeSet<SocketAddr>) -> Result<(), Status> {
    let existing = client.get(ENDPOINTS, NAMESPACE, NAME);
    if alive.is_empty() && existing.is_none() {
        return Ok(());
    }
    let mut by_port: BTreeMap<u16, BTreeSet<IpAddr>> = BTreeMap::new();
    for address in alive {
        by_port.entry(address.port()).or_default().insert(address.ip());
    }
    let subsets: Vec<Value> = by_port.iter().map(|(port, ips)| subset(*port, ips)).collect();
    let subsets = Value::List(subsets);
    const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
    match existing {
        None => {
            let mut new = Value::map();
            new.map_at(&["metadata"]).set("name", NAME);
            new.map_at(&["metadata", "labels"]).set(SKIP_MIRROR, "true");
            new.make_map().set("subsets", subsets);
            client.create(ENDPOINTS, NAMESPACE, typed(new, "v1", "Endpoints")).await?;
        }
        Some(mut old) => {
            let labelled = old.str_at(&["metadata", "labels", SKIP_MIRROR]) == Some("true");
            if !labelled || !kinds::same(old.get("subsets"), Some(&subsets)) {
                old.map_at(&["metadata", "labels"]).set(SKIP_MIRROR, "true");
                old.make_map().set("subsets", subsets);
                client.update(ENDPOINTS, old).await?;
            }
        }
    }
    reconcile_slice(client, by_port.first_key_value()).await
}

/// As upstream: of the first subset, and of one address family.
async fn reconcile_slice(
    client: &LoopbackClient<'_>,
    first: Option<(&u16, &BTreeSet<IpAddr>)>,
) -> Result<(), Status> {
    let none = BTreeSet::new();
    let ips = first.map_or(&none, |(_, ips)| ips);
    let v6 = !ips.is_empty() && ips.iter().all(IpAddr::is_ipv6);
    let endpoints: Vec<Value> = ips.iter().filter(|ip| ip.is_ipv6() == v6).map(endpoint).collect();
    let endpoints = Value::List(endpoints);
    let ports = Value::List(first.iter().map(|(port, _)| port_object(i64::from(**port))).collect());
    let family = if v6 { "IPv6" } else { "IPv4" };
    let existing = client.get(SLICES, NAMESPACE, NAME);
    if let Some(mut old) = existing {
        if old.str_at(&["addressType"]) == Some(family) {
            let labelled = old.str_at(&["metadata", "labels", SERVICE_NAME_LABEL]) == Some(NAME);
            let same = kinds::same(old.get("endpoints"), Some(&endpoints))
                && kinds::same(old.get("ports"), Some(&ports));
            if labelled && same {
                return Ok(());
            }
            old.map_at(&["metadata", "labels"]).set(SERVICE_NAME_LABEL, NAME);
            old.make_map().set("endpoints", endpoints);
            old.make_map().set("ports", ports);
            return client.update(SLICES, old).await;
        }
        // The address family is immutable.
        client.delete(SLICES, &old).await?;
    }
    let mut new = Value::map();
    new.map_at(&["metadata"]).set("name", NAME);
    new.map_at(&["metadata", "labels"]).set(SERVICE_NAME_LABEL, NAME);
    let top = new.make_map();
    top.set("addressType", family);
    top.set("endpoints", endpoints);
    top.set("ports", ports);
    client.create(SLICES, NAMESPACE, typed(new, "discovery.k8s.io/v1", "EndpointSlice")).await
}

fn subset(port: u16, ips: &BTreeSet<IpAddr>) -> Value {
    let mut subset = Value::map();
    let address = |ip: &IpAddr| {
        let mut address = Value::map();
        address.make_map().set("ip", ip.to_string());
        address
    };
    subset.make_map().set("addresses", ips.iter().map(address).collect::<Vec<_>>());
    subset.make_map().set("ports", vec![port_object(i64::from(port))]);
    subset
}

fn endpoint(ip: &IpAddr) -> Value {
    let mut endpoint = Value::map();
    endpoint.make_map().set("addresses", vec![Value::from(ip.to_string())]);
    endpoint.map_at(&["conditions"]).set("ready", true);
    endpoint
}

fn port_object(number: i64) -> Value {
    let mut port = Value::map();
    let members = port.make_map();
    members.set("name", "https");
    members.set("protocol", "TCP");
    members.set("port", number);
    port
}

fn is_label_value(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric();
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_some_and(|b| plain(*b))
        && bytes.last().is_some_and(|b| plain(*b))
        && bytes.iter().all(|b| plain(*b) || b"-_.".contains(b))
}

/// Lower case, without padding, as upstream names its servers.
fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bit = |i: usize| bytes.get(i / 8).is_some_and(|byte| byte & (0x80 >> (i % 8)) != 0);
    let letter = |at: usize| (at..at + 5).fold(0, |n, i| n * 2 + usize::from(bit(i)));
    (0..bytes.len() * 8).step_by(5).map(|at| ALPHABET[letter(at)] as char).collect()
}
