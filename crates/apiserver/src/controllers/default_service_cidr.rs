//! The ServiceCIDR of `--service-cluster-ip-range`: made at the start, and ready at once. Everything else about ServiceCIDRs is done by
//! `controllers::servicecidrs`.

use admission::service_addresses::Cidr;
use object::{Status, Value, time};

use crate::controllers::cluster_authentication_trust::typed;
use crate::loopback::{GroupResource, LoopbackClient, lost_race};

const SERVICE_CIDRS: GroupResource = ("networking.k8s.io", "servicecidrs");
const NAME: &str = "kubernetes";
/// The message until the controller has synced it.
const READY: &str = "Kubernetes default Service CIDR is ready";

/// Creates the default range of the flags, and marks it ready.
pub(crate) async fn ensure(client: &LoopbackClient<'_>) -> Result<(), Status> {
    let wanted: Vec<String> = client.api().cluster().services.cluster().iter().map(Cidr::to_string).collect();
    let as_value = || Value::List(wanted.iter().map(|c| Value::from(c.as_str())).collect());
    if client.get(SERVICE_CIDRS, "", NAME).is_none() {
        let mut new = Value::map();
        let metadata = new.map_at(&["metadata"]);
        metadata.set("name", NAME);
        new.map_at(&["spec"]).set("cidrs", as_value());
        match client.create(SERVICE_CIDRS, "", typed(new, "networking.k8s.io/v1", "ServiceCIDR")).await {
            Err(status) if !lost_race(&status) => return Err(status),
            _ => {}
        }
    }
    let Some(mut existing) = client.get(SERVICE_CIDRS, "", NAME) else { return Ok(()) };
    let has = existing.at(&["spec", "cidrs"]).and_then(Value::as_list).unwrap_or_default();
    let has: Vec<&str> = has.iter().filter_map(Value::as_str).collect();
    let written = if has == wanted {
        mark_ready(client, existing).await
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

/// Marks it ready if it has no condition yet. The finalizer is set by the controller.
async fn mark_ready(client: &LoopbackClient<'_>, mut cidr: Value) -> Result<(), Status> {
    let mut conditions =
        cidr.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default().to_vec();
    let is_ready = |condition: &Value| condition.str_at(&["type"]) == Some("Ready");
    let judged = conditions.iter().any(|c| is_ready(c) && c.str_at(&["status"]) != Some("Unknown"));
    if judged || cidr.at(&["metadata", "deletionTimestamp"]).is_some() {
        return Ok(());
    }
    let now = client.api().registry().env().now_seconds() as i64;
    let mut condition = Value::map();
    let members = condition.make_map();
    members.set("type", "Ready");
    members.set("status", "True");
    members.set("lastTransitionTime", time::format_seconds(now));
    members.set("reason", "");
    members.set("message", READY);
    conditions.retain(|condition| !is_ready(condition));
    conditions.push(condition);
    cidr.map_at(&["status"]).set("conditions", conditions);
    client.update_status(SERVICE_CIDRS, cidr).await
}
