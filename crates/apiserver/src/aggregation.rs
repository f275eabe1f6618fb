//! Keeps aggregated ClusterRoles in step: their rules are those of the roles their selectors choose.

use std::sync::Arc;

use auth::rbac::{RoleForAggregation, aggregated_rules, selectors_of};
use auth::{UserInfo, groups};
use codec::json;
use object::{Map, Status, Value};
use registry::{Patch, Request, WriteOptions};
use table::{Scope, Selection};

use crate::chain::Api;
use crate::follow::Follow;

const IDENTITY: &str = "system:serviceaccount:kube-system:clusterrole-aggregation-controller";

/// Runs until shutdown: looks at all ClusterRoles whenever one of them changed.
pub async fn run(api: Arc<Api>) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let Some(resource) = api.registry().catalog().find(GROUP, "v1", "clusterroles") else { return };
    let Some(storage) = resource.storage else { return };
    let mut follow = Follow::new(&api, &[(GROUP, "clusterroles")]);
    while follow.changes(None).await.is_some() {
        let everything = Selection::everything(Scope::All);
        let Ok(page) = api.registry().table().list(storage, &everything, None, None, 0) else { continue };
        let roles: Vec<(String, Value)> = page
            .items
            .iter()
            .filter_map(|o| Some((o.name().to_owned(), json::parse(o.body(), None).ok()?)))
            .collect();
        for (name, role) in &roles {
            if let Err(status) = reconcile(&api, resource, name, role, &roles).await {
                tracing::warn!(role = name, error = status.message, "could not aggregate a cluster role");
            }
        }
    }
}

async fn reconcile(
    api: &Arc<Api>,
    resource: &catalog::Resource,
    name: &str,
    role: &Value,
    roles: &[(String, Value)],
) -> Result<(), Status> {
    let Some(selectors) = selectors_of(role).map_err(Status::bad_request)? else { return Ok(()) };
    let all = roles.iter().map(|(name, object)| RoleForAggregation { name, object });
    let rules: Vec<Value> = aggregated_rules(name, all, &selectors).iter().map(|r| r.to_value()).collect();
    let rules = Value::List(rules);
    if role.get("rules") == Some(&rules) || (role.get("rules").is_none() && rules == Value::List(Vec::new()))
    {
        return Ok(());
    }
    let user = UserInfo::new(IDENTITY, &[groups::MASTERS]);
    let mut patch = Map::default();
    patch.set("rules", rules);
    let request = Request { user: &user, resource, subresource: None, namespace: "", name, term: None };
    api.registry().patch(&request, Patch::Merge(Value::Map(patch)), WriteOptions::default()).await.map(|_| ())
}
