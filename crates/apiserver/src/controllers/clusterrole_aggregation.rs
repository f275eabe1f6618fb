//! Aggregated ClusterRoles: their rules are the union of the roles their selectors match.

use std::sync::Arc;
use std::time::Duration;

use auth::rbac::{RoleForAggregation, aggregated_rules, selectors_of};
use codec::json;
use object::{Status, Value};

use crate::api::Api;
use crate::loopback::{GroupResource, LoopbackClient, lost_race};
use crate::table_watcher::TableWatcher;

const IDENTITY: &str = "clusterrole-aggregation-controller";
const CLUSTER_ROLES: GroupResource = ("rbac.authorization.k8s.io", "clusterroles");
/// A failed read or write is retried after this.
const RETRY: Duration = Duration::from_secs(5);
/// Events should be enough; like every controller, this one does not rely on it.
const RESYNC: Duration = Duration::from_secs(600);

/// Runs until shutdown: syncs all ClusterRoles whenever one of them changes.
pub async fn run(api: Arc<Api>) {
    let client = LoopbackClient::for_controller(&api, IDENTITY);
    let mut watcher = TableWatcher::new(&api, &[CLUSTER_ROLES]);
    let mut wait = RESYNC;
    while watcher.next_events(Some(wait)).await.is_some() {
        // Every round syncs all of them, those that failed in the last one included.
        wait = match sync_all(&client).await {
            Ok(()) => RESYNC,
            Err(Failed) => RETRY,
        };
    }
}

/// Logged already.
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
            // Only a change of the role fixes that, and wakes us.
            tracing::warn!(role = name, error = why, "invalid selector of an aggregated cluster role");
            return Ok(());
        }
    };
    let all = roles.iter().map(|(name, object)| RoleForAggregation { name, object });
    let rules: Vec<Value> = aggregated_rules(name, all, &selectors).iter().map(|r| r.to_value()).collect();
    let rules = Value::List(rules);
    let none = Value::List(Vec::new());
    // What is empty may be null: to write it again would change nothing but who manages it.
    let present = role.get("rules").filter(|rules| !rules.is_null()).unwrap_or(&none);
    if *present == rules {
        return Ok(());
    }
    let mut config = Value::map();
    // What was deleted meanwhile is not made again.
    config.map_at(&["metadata"]).set("uid", role.str_at(&["metadata", "uid"]).unwrap_or_default());
    if rules != none {
        config.make_map().set("rules", rules);
    }
    match client.apply(CLUSTER_ROLES, name, IDENTITY, config).await {
        Err(status) if lost_race(&status) => Ok(()),
        other => other,
    }
}
