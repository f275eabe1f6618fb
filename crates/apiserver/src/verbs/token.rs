//! `serviceaccounts/token`: the one subresource whose answer is a credential.

use auth::service_account::Issued;
use object::{Status, Value};
use registry::BodyType;

use super::Call;
use crate::body::RequestBody;
use crate::negotiate::{Offer, negotiate};
use crate::respond::Answer;

const KIND: &str = "TokenRequest";
const API_VERSION: &str = "authentication.k8s.io/v1";

impl Call<'_> {
    pub(super) async fn create_token(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = negotiate(&self.parts.headers, self.query, Offer::Part)?;
        let resource = self.request.resource;
        let of = resource.subresource("token").and_then(|sub| BodyType::of_subresource(resource, sub));
        let of = of.ok_or_else(Status::no_such_resource)?;
        let (asked, mut warnings) = self.asked(body, of).await?;
        match self.issue(asked).await {
            Ok(issued) => {
                warnings.extend(issued.warnings);
                Ok(self.answered(of, issued.answer, wanted, &warnings))
            }
            Err(status) => Err(status.after_warnings(warnings)),
        }
    }

    async fn issue(&self, mut asked: Value) -> Result<Issued, Status> {
        let (api, request) = (self.api, &self.request);
        // A linearizable read of the account and of what the token is bound to.
        api.registry.linearizable_read().await?;
        // Before defaults are set: plugins see the request as it was sent.
        api.registry.mutate_answered(request, &mut asked)?;
        let env = api.registry.env();
        let admit = |complete: &Value| api.registry.validate_answered(request, complete);
        let mut issued = api.token_authenticator.service_accounts().request(
            (request.namespace, request.name),
            asked,
            env.now_nanos(),
            env.uuid(),
            api.token_authenticator.objects(),
            &admit,
        )?;
        issued.answer.make_map().set("kind", KIND);
        issued.answer.make_map().set("apiVersion", API_VERSION);
        Ok(issued)
    }
}
