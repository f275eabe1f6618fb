//! Creates that leave no object behind: a pod is bound to a node, or evicted.

use object::Status;
use registry::RequestContext;

use super::Call;
use crate::body::RequestBody;
use crate::negotiate::Offer;
use crate::respond::Answer;

impl Call<'_> {
    pub(super) async fn bind(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let request = self.writing(None)?;
        let value = self.subresource_body(body, "Binding", "core.v1.Binding").await?;
        let warnings = self.api.registry.bind(&request, value).await?;
        Ok(self.carried_out(wanted, &warnings))
    }

    /// The old resource `bindings`: the name of the pod stands in the body.
    pub(super) async fn bind_by_body(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let request = self.writing(None)?;
        let value = self.subresource_body(body, "Binding", "core.v1.Binding").await?;
        let catalog = self.request.catalog;
        let pods = catalog.find("", "v1", "pods").ok_or_else(Status::no_such_resource)?;
        let name = value.str_at(&["metadata", "name"]).unwrap_or("").to_owned();
        let asked = RequestContext { name: &name, ..request };
        let request = RequestContext { resource: pods, subresource: Some("binding"), ..asked };
        let warnings = self.api.registry.bind_by_body(&request, &asked, value).await?;
        Ok(self.carried_out(wanted, &warnings))
    }

    pub(super) async fn evict(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let request = self.writing(None)?;
        let value = self.subresource_body(body, "Eviction", "policy.v1.Eviction").await?;
        let warnings = self.api.registry.evict(&request, value).await?;
        Ok(self.carried_out(wanted, &warnings))
    }
}
