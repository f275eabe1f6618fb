//! The subresource `scale`: an object of its own type, made from the one it belongs to.

use object::{Patch, Status};

use super::Call;
use super::patch::ReadPatch;
use crate::body::RequestBody;
use crate::negotiate::Offer;
use crate::respond::{self, Answer};

impl Call<'_> {
    pub(super) async fn get_scale(&self) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let scale = self.api.registry.get_scale(&self.request, self.query.get("resourceVersion")).await?;
        Ok(self.scale(&scale, wanted))
    }

    pub(super) async fn update_scale(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let request = self.writing(None)?;
        let value = self.subresource_body(body, "Scale", "autoscaling.v1.Scale").await?;
        let (scale, warnings) = self.api.registry.update_scale(&request, value).await?;
        let mut answer = self.scale(&scale, wanted);
        respond::warn(&mut answer, &warnings);
        Ok(answer)
    }

    pub(super) async fn patch_scale(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let (ReadPatch { patch, repeated }, request) = self.read_patch(body).await?;
        let registry = &self.api.registry;
        let (scale, warnings) = match patch {
            Patch::Apply(config) => registry.apply_scale(&request, config, repeated.as_deref()).await?,
            patch => registry.patch_scale(&request, patch).await?,
        };
        let mut answer = self.scale(&scale, wanted);
        respond::warn(&mut answer, &warnings);
        Ok(answer)
    }
}
