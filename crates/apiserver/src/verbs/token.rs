//! `serviceaccounts/token`: the one subresource whose answer is a credential.

use auth::service_account::{DEFAULT_SECONDS, Issued};
use object::{Status, Value};
use registry::{BodyType, RequestContext};

use super::Call;
use crate::api::Api;
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
        let (mut asked, mut warnings) = self.asked(body, of).await?;
        self.track_token(of, &mut asked)?;
        match self.issue(asked).await {
            Ok(issued) => {
                warnings.extend(issued.warnings);
                Ok(self.answered(of, issued.answer, wanted, &warnings))
            }
            Err(status) => Err(status.after_warnings(warnings)),
        }
    }

    /// The lifetime that is filled in belongs to who asked, too; plugins see the request without it.
    fn track_token(&self, of: BodyType<'_>, asked: &mut Value) -> Result<(), Status> {
        let mut complete = asked.clone();
        let spec = complete.map_at(&["spec"]);
        if spec.get("expirationSeconds").is_none_or(Value::is_null) {
            spec.set("expirationSeconds", DEFAULT_SECONDS);
        }
        self.api.registry.track_answered(&self.writing(None)?, of, &mut complete);
        let managers = complete.map_at(&["metadata"]).remove("managedFields");
        let metadata = asked.map_at(&["metadata"]);
        match managers {
            Some(managers) => metadata.set("managedFields", managers),
            None => drop(metadata.remove("managedFields")),
        }
        Ok(())
    }

    async fn issue(&self, asked: Value) -> Result<Issued, Status> {
        issue_token(self.api, &self.request, asked).await
    }
}

/// Answers a TokenRequest that is authorized.
pub(crate) async fn issue_token(
    api: &Api,
    request: &RequestContext<'_>,
    asked: Value,
) -> Result<Issued, Status> {
    let mut warnings = Vec::new();
    match admit_and_issue(api, request, asked, &mut warnings).await {
        Ok(mut issued) => {
            issued.warnings.splice(0..0, warnings);
            Ok(issued)
        }
        Err(status) => Err(status.after_warnings(warnings)),
    }
}

async fn admit_and_issue(
    api: &Api,
    request: &RequestContext<'_>,
    mut asked: Value,
    warnings: &mut Vec<String>,
) -> Result<Issued, Status> {
    // A linearizable read of the account and of what the token is bound to.
    api.registry.linearizable_read().await?;
    // Before defaults are set: plugins see the request as it was sent.
    api.registry.mutate_answered(request, &mut asked, warnings).await?;
    let of = (request.namespace, request.name);
    let now = api.registry.env().now_nanos();
    let complete = {
        let tokens = &api.token_authenticator;
        tokens.service_accounts().complete(of, asked, now, tokens.objects())?
    };
    api.registry.validate_answered(request, &complete, warnings).await?;
    let mut issued = {
        let (tokens, id) = (&api.token_authenticator, api.registry.env().uuid());
        tokens.service_accounts().issue(of, complete, now, id, tokens.objects())?
    };
    issued.answer.make_map().set("kind", KIND);
    issued.answer.make_map().set("apiVersion", API_VERSION);
    Ok(issued)
}
