//! `serviceaccounts/token`: the one subresource whose answer is a credential.

use object::normalise::{Strict, normalise};
use object::{Status, Value};

use super::Call;
use crate::body::{RequestBody, decode};
use crate::negotiate::{Offer, negotiate};
use crate::respond::{self, Answer};

const KIND: &str = "TokenRequest";
const API_VERSION: &str = "authentication.k8s.io/v1";

impl Call<'_> {
    pub(super) async fn create_token(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = negotiate(&self.parts.headers, self.query, Offer::Document)?;
        self.write_options(kinds::Operation::Create)?;
        let (api, request) = (self.api, &self.request);
        let catalog = api.registry.catalog();
        let ty =
            catalog.schema().find("authentication.v1.TokenRequest").ok_or_else(Status::no_such_resource)?;
        let bytes = body.read().await?;
        let mut asked = decode(catalog, &self.parts.headers, &bytes, KIND, Some(ty))?.value;
        check_type(&asked)?;
        normalise(catalog.schema(), ty, &mut asked, &mut Strict::off()).map_err(|e| {
            Status::bad_request(format!("{KIND} in version \"v1\" cannot be handled as a {KIND}: {e}"))
        })?;
        registry::check_namespace(request, &mut asked)?;
        // The account and what the token is bound to are read as they stand, not as they stood.
        api.registry.freshen().await?;
        // Before anything is filled in: plugins judge what was asked for.
        api.registry.mutate_answered(request, &mut asked, false)?;
        let env = api.registry.env();
        let admit = |complete: &Value| api.registry.validate_answered(request, complete, false);
        let issued = api.identity.service_accounts().request(
            (request.namespace, request.name),
            asked,
            env.now_nanos(),
            env.uuid(),
            api.identity.objects(),
            &admit,
        )?;
        let mut answer = issued.answer;
        answer.make_map().set("kind", KIND);
        answer.make_map().set("apiVersion", API_VERSION);
        // The answer in canonical order; ours always fits its type.
        let _ = normalise(catalog.schema(), ty, &mut answer, &mut Strict::off());
        let mut out = respond::value(catalog, 201, &answer, wanted);
        respond::warn(&mut out, &issued.warnings);
        Ok(out)
    }
}

/// A body may leave out its type; if it names one, it must be this one.
fn check_type(body: &Value) -> Result<(), Status> {
    let text = |name: &str, usual| body.str_at(&[name]).filter(|t: &&str| !t.is_empty()).unwrap_or(usual);
    let (kind, api_version) = (text("kind", KIND), text("apiVersion", API_VERSION));
    if kind == KIND && api_version == API_VERSION {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "{kind} in version \"{api_version}\" cannot be handled as a {KIND}: send a {KIND} of {API_VERSION}"
    )))
}
