//! `pods/eviction`: a deletion that asks the pod's disruption budget first.

use auth::{UserInfo, groups, names};
use catalog::Verbs;
use kinds::pod::eviction;
use object::normalise::{Strict, normalise};
use object::selector::LabelSelector;
use object::{DeleteOptions, FieldError, ListOptions, Status, Value, WriteOptions};

use crate::bind::canonical;
use crate::write::{ChangeRules, Creates, Extended};
use crate::{Registry, RequestContext, convert, decode};

/// How often an eviction that loses to other writers starts again.
const TRIES: usize = 20;
/// Of a budget's status. Policies and webhooks that are about those are asked, as upstream, which writes it as a client.
const RULES: ChangeRules<'static> = ChangeRules {
    needs_version: false,
    names_uid: false,
    creates: Creates::Never,
    tracked: false,
    extended: Extended::Whole,
};
/// Of the pod's condition: they were asked about the eviction.
const MARK: ChangeRules<'static> = ChangeRules { extended: Extended::Not, ..RULES };

const TOO_MANY_BUDGETS: &str =
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";

impl Registry {
    /// Evicts the pod the request names; `body` is a raw Eviction. Answers with warnings.
    pub async fn evict(&self, request: &RequestContext<'_>, body: Value) -> Result<Vec<String>, Status> {
        let mut warnings = Vec::new();
        match self.try_evict(request, body, &mut warnings).await {
            Ok(()) => Ok(warnings),
            Err(status) => Err(status.after_warnings(warnings)),
        }
    }

    async fn try_evict(
        &self,
        request: &RequestContext<'_>,
        mut body: Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let storage = request.storage()?;
        // Both versions have the same fields.
        if body.str_at(&["apiVersion"]) == Some("policy/v1beta1") {
            body.make_map().set("apiVersion", "policy/v1");
        }
        decode::check_type(request.catalog, "Eviction", "policy/v1", &body)?;
        warnings.extend(canonical(
            request,
            &mut body,
            "policy.v1.Eviction",
            request.options.field_validation,
        )?);
        decode::check_namespace(request, &mut body)?;
        // Admission first: a client it refuses does not learn what is wrong with the body.
        self.mutate_answered(request, &mut body, warnings).await?;
        if body.str_at(&["metadata", "name"]).unwrap_or("") != request.name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let (wanted, checked) = self.delete_options(request, &body)?;
        if wanted.dry_run
            && let Some(trace) = request.trace
        {
            trace.set_dry_run();
        }
        self.validate_answered(request, &body, warnings).await?;

        let mut tries = 0;
        loop {
            tries += 1;
            let pod = self.get(request, "").await?;
            let (version, pod) = (pod.revision().to_string(), convert::tree(storage, &pod));
            let named_version = wanted.preconditions.resource_version.is_some();
            let mut exact = wanted.clone();
            exact.preconditions.resource_version.get_or_insert_with(|| version.clone());
            if eviction::needs_no_budget(&pod) {
                // A pod that may still become healthy must be the one that was looked at.
                let options = if eviction::is_over(&pod) { &wanted } else { &exact };
                match self.mark_and_delete(request, options, &checked).await {
                    Err(status) if status.code == 409 && !named_version && tries < TRIES => continue,
                    done => return done,
                }
            }
            let budgets = self.budgets_of(request, &pod).await?;
            let Some(budget) = budgets.first() else {
                return self.mark_and_delete(request, &wanted, &checked).await;
            };
            if budgets.len() > 1 {
                return Err(Status::unknown(TOO_MANY_BUDGETS));
            }
            let name = budget.str_at(&["metadata", "name"]).unwrap_or("");
            if eviction::may_go_unhealthy(&pod, budget) {
                // As upstream: the version that was found unhealthy takes the place of the one the client named.
                exact.preconditions.resource_version = Some(version);
                return match self.mark_and_delete(request, &exact, &checked).await {
                    Err(status) if status.code == 409 && !named_version => {
                        Err(eviction::still_processed(name))
                    }
                    done => done,
                };
            }
            // The budget is checked first, but nothing is taken from it if the deletion is refused then.
            if wanted.dry_run || checked.is_err() {
                // On a copy: nobody is asked about a status that is not written.
                eviction::take(&mut budget.clone(), request.name, self.env().now_seconds() as i64)?;
            } else {
                self.take_disruption(request, name).await?;
            }
            return self.mark_and_delete(request, &wanted, &checked).await;
        }
    }

    /// The delete options, and whether they are valid: checked only when the pod would go.
    fn delete_options(
        &self,
        request: &RequestContext<'_>,
        body: &Value,
    ) -> Result<(DeleteOptions, Result<(), Status>), Status> {
        let mut value = body.get("deleteOptions").cloned().unwrap_or_else(Value::map);
        if let Some(ty) = request.catalog.schema().find("meta.v1.DeleteOptions") {
            normalise(request.catalog.schema(), ty, &mut value, &mut Strict::off())
                .map_err(|e| Status::bad_request(e.to_string()))?;
        }
        let unsafe_read = "ignoreStoreReadErrorWithClusterBreakingPotential";
        if value.get(unsafe_read).and_then(Value::as_bool) == Some(true) {
            let broken = FieldError::invalid(
                format!("deleteOptions.{unsafe_read}"),
                "true",
                "can not be set for pod eviction, try after removing the option",
            );
            return Err(Status::invalid("policy", "Eviction", request.name, vec![broken]));
        }
        let (mut wanted, checked) = kinds::unchecked_delete_options(&value);
        if request.options.dry_run {
            wanted.dry_run = true;
            let said = value.get("dryRun").and_then(Value::as_list).unwrap_or_default();
            let said: Vec<&str> = said.iter().filter_map(Value::as_str).collect();
            if !matches!(said[..], [] | ["All"]) {
                return Err(Status::unknown(format!(
                    "Non-matching dry-run options in request and content: [All] and [{}]",
                    said.join(" ")
                )));
            }
        }
        Ok((wanted, checked))
    }

    /// The budgets that select a pod.
    async fn budgets_of(&self, request: &RequestContext<'_>, pod: &Value) -> Result<Vec<Value>, Status> {
        let Some(resource) = request.catalog.find("policy", "v1", "poddisruptionbudgets") else {
            return Ok(Vec::new());
        };
        let of_all = RequestContext { verb: Verbs::LIST, resource, subresource: None, name: "", ..*request };
        let storage = of_all.storage()?;
        let list = self.list(&of_all, &ListOptions::default()).await?;
        let labels = pod.at(&["metadata", "labels"]);
        let trees = list.items.iter().map(|obj| convert::tree(storage, obj));
        let matching = trees.filter(|budget| {
            let selector = budget.at(&["spec", "selector"]).map(LabelSelector::from_label_selector);
            // Without a selector a budget selects nothing; nor does one that cannot be read.
            selector.is_some_and(|s| s.is_ok_and(|s| s.matches_map(labels)))
        });
        Ok(matching.collect())
    }

    /// Counts the eviction in the budget, as the server itself: the client may evict, not write budgets.
    async fn take_disruption(&self, request: &RequestContext<'_>, budget: &str) -> Result<(), Status> {
        let resource = request.catalog.find("policy", "v1", "poddisruptionbudgets");
        let resource = resource.ok_or_else(Status::no_such_resource)?;
        let user = UserInfo::new(names::API_SERVER, &[groups::MASTERS, groups::AUTHENTICATED]);
        let status = RequestContext {
            user: &user,
            user_agent: "",
            verb: Verbs::UPDATE,
            resource,
            subresource: Some("status"),
            name: budget,
            options: WriteOptions::default(),
            ..*request
        };
        let now = self.env().now_seconds() as i64;
        // Retried after each conflict on the budget: no eviction is counted twice or not at all.
        self.change(&status, RULES, &mut |old| {
            let mut budget = old.clone();
            eviction::take(&mut budget, request.name, now)?;
            Ok((budget, Vec::new()))
        })
        .await
        .map(|_| ())
    }

    /// Sets the condition that says why the pod is disrupted, and deletes it.
    async fn mark_and_delete(
        &self,
        request: &RequestContext<'_>,
        options: &DeleteOptions,
        checked: &Result<(), Status>,
    ) -> Result<(), Status> {
        checked.clone()?;
        let mut options = options.clone();
        let storage = request.storage()?;
        let pod = RequestContext { verb: Verbs::DELETE, subresource: None, ..*request };
        if !options.dry_run {
            let (subresource, stored) = (Some("status"), WriteOptions::default());
            let status = RequestContext { verb: Verbs::UPDATE, subresource, options: stored, ..*request };
            let now = self.env().now_seconds() as i64;
            let written = self
                .change(&status, MARK, &mut |old| {
                    let version = old.str_at(&["metadata", "resourceVersion"]).unwrap_or("");
                    kinds::check_preconditions(storage, old, version, &options)?;
                    let mut pod = old.clone();
                    eviction::mark(&mut pod, now);
                    Ok((pod, Vec::new()))
                })
                .await?;
            // Our own status write must not fail the client's precondition on the version.
            let named = &mut options.preconditions.resource_version;
            *named = named.take().map(|_| written.obj.revision().to_string());
        }
        self.remove(&pod, storage, &options, Extended::Not).await.map(|_| ())
    }
}
