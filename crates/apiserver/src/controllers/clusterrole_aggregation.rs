//! Keeps aggregated ClusterRoles in step: their rules are those of the roles their selectors choose.

use std::sync::Arc;
use std::time::Duration;

use auth::rbac::{RoleForAggregation, aggregated_rules, selectors_of};
use codec::json;
use object::{Map, Status, Value};

use crate::api::Api;
use crate::loopback::{GroupResource, LoopbackClient};
use crate::table_watcher::TableWatcher;

const IDENTITY: &str = "clusterrole-aggregation-controller";
const CLUSTER_ROLES: GroupResource = ("rbac.authorization.k8s.io", "clusterroles");
/// A write or a read that failed is made again after this.
const RETRY: Duration = Duration::from_secs(5);
/// Nothing but changes should be needed; as every loop, this one does not stand on it.
const RESYNC: Duration = Duration::from_secs(600);

/// Runs until shutdown: looks at all ClusterRoles whenever one of them changed, and now and then.
pub async fn run(api: Arc<Api>) {
    let client = LoopbackClient::for_controller(&api, IDENTITY);
    let mut watcher = TableWatcher::new(&api, &[CLUSTER_ROLES]);
    let mut wait = RESYNC;
    while watcher.next_events(Some(wait)).await.is_some() {
        // Every round looks at all of them, also at those that failed in the last one.
        wait = match sync_all(&client).await {
            Ok(()) => RESYNC,
            Err(Failed) => RETRY,
        };
    }
}

/// Something is left to do; it was logged.
struct Failed;

async fn sync_all(client: &LoopbackClient<'_>) -> Result<(), Failed> {
    let failed = |name: &str, status: Status| {
        tracing::warn!(role = name, error = status.message, "could not aggregate a cluster role");
        Failed
    };
    let objects = client.objects(CLUSTER_ROLES).map_err(|status| failed("", status))?;
    let roles: Vec<(String, Value)> = objects
        .iter()
        .filter_map(|o| Some((o.name().to_owned(), json::parse(o.body(), None).ok()?)))
        .collect();
    let mut done = Ok(());
    for (name, role) in &roles {
        if let Err(status) = sync(client, name, role, &roles).await {
            done = Err(failed(name, status));
        }
    }
    done
}

async fn sync(
    client: &LoopbackClient<'_>,
    name: &str,
    role: &Value,
    roles: &[(String, Value)],
) -> Result<(), Status> {
    let selectors = match selectors_of(role) {
        Ok(Some(selectors)) => selectors,
        Ok(None) => return Ok(()),
        Err(why) => {
            // Only a change of the role mends that, and wakes us.
            tracing::warn!(role = name, error = why, "a cluster role selects nothing: its selector is wrong");
            return Ok(());
        }
    };
    let all = roles.iter().map(|(name, object)| RoleForAggregation { name, object });
    let rules: Vec<Value> = aggregated_rules(name, all, &selectors).iter().map(|r| r.to_value()).collect();
    let rules = Value::List(rules);
    if role.get("rules") == Some(&rules) || (role.get("rules").is_none() && rules == Value::List(Vec::new()))
    {
        return Ok(());
    }
    let mut patch = Map::default();
    patch.set("rules", rules);
    match client.merge(CLUSTER_ROLES, name, Value::Map(patch)).await {
        // It went meanwhile.
        Err(status) if status.code == 404 => Ok(()),
        other => other,
    }
}
