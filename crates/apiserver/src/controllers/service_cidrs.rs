//! ServiceCIDRs: ready once they have their finalizer, and gone only when no address would be left without one.

use std::sync::Arc;
use std::time::Duration;

use admission::service_addresses::{Cidr, MANAGED_BY, MANAGED_BY_LABEL, ranges_of};
use object::{Status, Value, time};

use crate::api::Api;
use crate::controllers::cluster_authentication_trust::typed;
use crate::loopback::{GroupResource, LoopbackClient, lost_race};
use crate::table_watcher::TableWatcher;

/// Upstream runs this loop in kube-controller-manager; only the default range is the server's own ([`ensure_default`]).
const IDENTITY: &str = "service-cidrs-controller";
const SERVICE_CIDRS: GroupResource = ("networking.k8s.io", "servicecidrs");
const ADDRESSES: GroupResource = ("networking.k8s.io", "ipaddresses");
/// The one that the flags describe.
const DEFAULT: &str = "kubernetes";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const READY: &str = "Kubernetes Service CIDR is ready";
/// What the server itself says of its own, as long as the loop has not looked at it.
const DEFAULT_READY: &str = "Kubernetes default Service CIDR is ready";
const BLOCKED: &str =
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";
/// Other servers may not have seen the deletion yet and still take addresses from the range.
const GRACE_SECONDS: i64 = 10;
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Nothing but changes should be needed; as every loop, this one does not stand on it.
const RESYNC: Duration = Duration::from_secs(600);

/// Runs until shutdown.
pub async fn run(api: Arc<Api>) {
    let client = LoopbackClient::for_controller(&api, IDENTITY);
    let mut watcher = TableWatcher::new(&api, &[SERVICE_CIDRS, ADDRESSES]);
    let mut wait = RESYNC;
    while watcher.next_events(Some(wait)).await.is_some() {
        wait = RESYNC;
        let all = match client.list(SERVICE_CIDRS) {
            Ok(all) => all,
            Err(status) => {
                tracing::warn!(error = status.message, "could not look at the ServiceCIDRs");
                wait = LOOK_AGAIN;
                continue;
            }
        };
        for cidr in &all {
            match sync(&client, cidr, &all).await {
                Ok(done) if done => {}
                Ok(_) => wait = LOOK_AGAIN,
                Err(status) if lost_race(&status) => wait = LOOK_AGAIN,
                Err(status) => {
                    wait = LOOK_AGAIN;
                    let name = cidr.str_at(&["metadata", "name"]).unwrap_or("");
                    tracing::warn!(name, error = status.message, "could not reconcile a ServiceCIDR");
                }
            }
        }
    }
}

/// The default range, ready, as the flags say.
pub(crate) async fn ensure_default(client: &LoopbackClient<'_>) -> Result<(), Status> {
    let wanted: Vec<String> = client.api().cluster().services.cluster().iter().map(Cidr::to_string).collect();
    let as_value = || Value::List(wanted.iter().map(|c| Value::from(c.as_str())).collect());
    if client.get(SERVICE_CIDRS, "", DEFAULT).is_none() {
        let mut new = Value::map();
        let metadata = new.map_at(&["metadata"]);
        metadata.set("name", DEFAULT);
        new.map_at(&["spec"]).set("cidrs", as_value());
        match client.create(SERVICE_CIDRS, "", typed(new, "networking.k8s.io/v1", "ServiceCIDR")).await {
            Err(status) if !lost_race(&status) => return Err(status),
            _ => {}
        }
    }
    let Some(mut existing) = client.get(SERVICE_CIDRS, "", DEFAULT) else { return Ok(()) };
    let has: Vec<&str> = texts(&existing, &["spec", "cidrs"]);
    let written = if has == wanted {
        say_ready(client, existing).await
    } else if wanted.len() == 2 && has == wanted[..1] {
        existing.map_at(&["spec"]).set("cidrs", as_value());
        client.update(SERVICE_CIDRS, existing).await
    } else {
        tracing::warn!(
            stored = has.join(","),
            flag = wanted.join(","),
            "the default ServiceCIDR does not match --service-cluster-ip-range; the stored one counts"
        );
        Ok(())
    };
    match written {
        Err(status) if lost_race(&status) => Ok(()),
        other => other,
    }
}

/// Judges the default range if nobody did before. The finalizer is the loop's to set.
async fn say_ready(client: &LoopbackClient<'_>, cidr: Value) -> Result<(), Status> {
    let judged = list(&cidr, &["status", "conditions"])
        .iter()
        .any(|c| c.str_at(&["type"]) == Some("Ready") && c.str_at(&["status"]) != Some("Unknown"));
    if judged || cidr.at(&["metadata", "deletionTimestamp"]).is_some() {
        return Ok(());
    }
    let now = client.api().registry().env().now_seconds() as i64;
    set_ready(client, cidr, "True", "", DEFAULT_READY, now).await
}

/// Brings one ServiceCIDR in step; false when only time is missing.
async fn sync(client: &LoopbackClient<'_>, cidr: &Value, all: &[Value]) -> Result<bool, Status> {
    let finalizers = texts(cidr, &["metadata", "finalizers"]);
    let protected = finalizers.contains(&FINALIZER);
    let now = client.api().registry().env().now_seconds() as i64;
    let Some(deleted) = cidr.str_at(&["metadata", "deletionTimestamp"]) else {
        let mut cidr = cidr.clone();
        if !protected {
            let mut with: Vec<Value> =
                texts(&cidr, &["metadata", "finalizers"]).into_iter().map(Value::from).collect();
            with.push(FINALIZER.into());
            cidr.map_at(&["metadata"]).set("finalizers", with);
            // Its new version wakes us again for the condition.
            return client.update(SERVICE_CIDRS, cidr).await.map(|()| true);
        }
        return set_ready(client, cidr, "True", "", READY, now).await.map(|()| true);
    };
    if !protected {
        return Ok(true);
    }
    if would_orphan(client, cidr, all)? {
        return set_ready(client, cidr.clone(), "False", "Terminating", BLOCKED, now).await.map(|()| true);
    }
    let since = time::parse(deleted).map_or(now, |(seconds, _)| seconds);
    if now < since + GRACE_SECONDS {
        return Ok(false);
    }
    let rest: Vec<Value> = finalizers.into_iter().filter(|f| *f != FINALIZER).map(Value::from).collect();
    let mut cidr = cidr.clone();
    cidr.map_at(&["metadata"]).set("finalizers", rest);
    client.update(SERVICE_CIDRS, cidr).await.map(|()| true)
}

/// Would an address that services hold belong to no range any more?
fn would_orphan(client: &LoopbackClient<'_>, cidr: &Value, all: &[Value]) -> Result<bool, Status> {
    let name = |c: &Value| c.str_at(&["metadata", "name"]).unwrap_or("").to_owned();
    let own_name = name(cidr);
    // A range that goes away itself covers for nobody: two of them could let each other go.
    let stays = |c: &&Value| name(c) != own_name && c.at(&["metadata", "deletionTimestamp"]).is_none();
    let others: Vec<Cidr> = all.iter().filter(stays).flat_map(ranges_of).collect();
    let mine = ranges_of(cidr);
    if mine.iter().all(|range| others.iter().any(|other| other.covers(range))) {
        return Ok(false);
    }
    let addresses = client.list(ADDRESSES)?;
    let orphaned = addresses
        .iter()
        .filter(|a| a.str_at(&["metadata", "labels", MANAGED_BY_LABEL]) == Some(MANAGED_BY))
        .filter_map(|a| a.str_at(&["metadata", "name"])?.parse().ok())
        .any(|ip| mine.iter().any(|r| r.contains(&ip)) && !others.iter().any(|r| r.contains(&ip)));
    Ok(orphaned)
}

async fn set_ready(
    client: &LoopbackClient<'_>,
    mut cidr: Value,
    status: &str,
    reason: &str,
    message: &str,
    now: i64,
) -> Result<(), Status> {
    let mut conditions = list(&cidr, &["status", "conditions"]).to_vec();
    let at = conditions.iter().position(|c| c.str_at(&["type"]) == Some("Ready"));
    let old = at.map(|i| conditions.remove(i)).unwrap_or_else(Value::map);
    let is = |name: &str, wanted: &str| old.str_at(&[name]).unwrap_or("") == wanted;
    if is("status", status) && is("reason", reason) && is("message", message) {
        return Ok(());
    }
    let mut new = Value::map();
    let condition = new.make_map();
    condition.set("type", "Ready");
    condition.set("status", status);
    condition.set("lastTransitionTime", time::format_seconds(now));
    condition.set("reason", reason);
    condition.set("message", message);
    conditions.insert(at.unwrap_or(conditions.len()), new);
    cidr.map_at(&["status"]).set("conditions", conditions);
    client.update_status(SERVICE_CIDRS, cidr).await
}

fn list<'v>(object: &'v Value, path: &[&str]) -> &'v [Value] {
    object.at(path).and_then(Value::as_list).unwrap_or_default()
}

fn texts<'v>(object: &'v Value, path: &[&str]) -> Vec<&'v str> {
    list(object, path).iter().filter_map(Value::as_str).collect()
}
