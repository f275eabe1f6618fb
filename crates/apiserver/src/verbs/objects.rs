//! Reading and writing one object: itself, or the part of it that a subresource like `status` stands for.

use object::{FieldValidation, Status};
use registry::BodyType;

use super::Call;
use crate::body::RequestBody;
use crate::negotiate::Offer;
use crate::respond::Answer;

impl Call<'_> {
    pub(super) async fn get(&self) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let obj = self.api.registry.get(&self.request, self.query.get("resourceVersion")).await?;
        Ok(self.object(200, &obj, wanted, true))
    }

    pub(super) async fn create(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let request = self.writing(None)?;
        let of = BodyType::of(request.resource);
        let (bytes, permit) = self.read(body).await?;
        let (value, warnings) = self.decode(&bytes, of, request.options.field_validation)?;
        // A webhook may take its time: nobody waits for the permit meanwhile.
        drop(permit);
        // The body itself is all that another try needs.
        let again = || self.decode(&bytes, of, FieldValidation::Ignore).map(|(value, _)| value);
        let mut written = self.api.registry.create(&request, value, &again).await?;
        self.effect(&request, &written).await;
        written.warnings.splice(0..0, warnings);
        Ok(self.written(written, wanted))
    }

    pub(super) async fn update(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let request = self.writing(None)?;
        let of = BodyType::of(request.resource);
        let (value, warnings) = self.decoded(body, of, request.options.field_validation).await?;
        let mut written = self.api.registry.update(&request, value).await?;
        self.effect(&request, &written).await;
        written.warnings.splice(0..0, warnings);
        Ok(self.written(written, wanted))
    }
}
