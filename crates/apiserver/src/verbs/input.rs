//! What handlers read of a request: the negotiated form of its answer, its options, and its decoded body.

use bytes::Bytes;
use object::normalise::{Strict, normalise};
use object::{FieldValidation, PatchType, Status, Value};
use registry::{BodyType, RequestContext};

use super::Call;
use crate::body::RequestBody;
use crate::decode::decode;
use crate::flow_control::is_critical_level;
use crate::negotiate::{Negotiated, Offer, negotiate_for};
use crate::run_queue::{LARGE_BYTES, RunPermit};

impl Call<'_> {
    /// Reads the body, then takes the seats; with a permit to decode it, if it is large.
    pub(super) async fn read(&self, body: RequestBody) -> Result<(Bytes, Option<RunPermit>), Status> {
        let bytes = body.read().await?;
        self.authorized.take_seats(bytes.len()).await?;
        // Ordinary requests have a permit already.
        let alone = bytes.len() > LARGE_BYTES && is_critical_level(self.authorized.level());
        let permit = if alone { self.api.run_queue.acquire().await } else { None };
        Ok((bytes, permit))
    }

    pub(super) fn wanted(&self, offer: Offer) -> Result<Negotiated, Status> {
        let has_table = match self.request.subresource {
            None | Some("scale") => true,
            Some("status") => kinds::kind_of_resource(self.request.resource).status_has_table(),
            Some(_) => false,
        };
        let offer = if has_table || offer != Offer::Object { offer } else { Offer::Part };
        negotiate_for(&self.parts.headers, self.query, offer, self.serves_custom())
    }

    /// Is the answer an object of a CustomResourceDefinition? Its scale is a built-in type.
    fn serves_custom(&self) -> bool {
        self.request.resource.custom && self.request.subresource != Some("scale")
    }

    /// The request with the options of a write; `patch` is the type of a patch.
    pub(super) fn writing(&self, patch: Option<PatchType>) -> Result<RequestContext<'_>, Status> {
        let query = kinds::WriteQuery {
            dry_run: self.query.all("dryRun").collect(),
            field_manager: self.query.get("fieldManager"),
            field_validation: self.query.get("fieldValidation"),
            force: self.query.find("force").map(|_| self.query.flag("force")),
        };
        Ok(RequestContext { options: query.parse(self.request.verb, patch)?, ..self.request })
    }

    /// A body whose type is not the resource's own.
    pub(super) async fn subresource_body(
        &self,
        body: RequestBody,
        kind: &str,
        ty: &str,
    ) -> Result<Value, Status> {
        let catalog = self.request.catalog;
        let ty = catalog.schema().find(ty).map(|ty| (catalog.schema(), ty));
        Ok(decode(catalog, &self.parts.headers, &self.read(body).await?.0, kind, ty)?.value)
    }

    pub(super) async fn decoded(
        &self,
        body: RequestBody,
        of: BodyType<'_>,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Status> {
        let (bytes, _permit) = self.read(body).await?;
        self.decode(&bytes, of, validation)
    }

    pub(super) fn decode(
        &self,
        bytes: &[u8],
        of: BodyType<'_>,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Status> {
        let (catalog, form) = (self.request.catalog, (of.schema, of.ty));
        let decoded = decode(catalog, &self.parts.headers, bytes, of.kind, Some(form))?;
        if of.custom && decoded.value.str_at(&["kind"]).unwrap_or("").is_empty() {
            return Err(without_kind(of.kind, bytes));
        }
        match (decoded.duplicates, validation) {
            (Some(duplicates), FieldValidation::Strict) => {
                let mut strict = Strict::on();
                let mut tree = decoded.value.clone();
                if normalise(of.schema, of.ty, &mut tree, &mut strict).is_err() {
                    // A type mismatch is reported first, by the registry.
                    return Ok((decoded.value, Vec::new()));
                }
                let mut all = vec![duplicates];
                all.extend(strict.into_messages());
                if of.custom {
                    let kind = kinds::kind_of_resource(self.request.resource);
                    let unknown = kind.prune(of.version, &mut tree, true).unwrap_or_default();
                    all.extend(unknown.iter().map(|path| format!("unknown field {}", object::quote(path))));
                }
                Err(Status::bad_request(format!(
                    "{kind} in version \"{}\" cannot be handled as a {kind}: strict decoding error: {}",
                    of.version,
                    all.join(", "),
                    kind = of.kind,
                )))
            }
            (Some(duplicates), FieldValidation::Warn) => {
                // A warning each, without the line above them.
                let lines = duplicates.lines().filter(|line| *line != "yaml: unmarshal errors:");
                Ok((decoded.value, lines.map(|line| line.trim().to_owned()).collect()))
            }
            _ => Ok((decoded.value, Vec::new())),
        }
    }

    /// The body of a request that is answered and not stored, and its warnings.
    pub(super) async fn asked(
        &self,
        body: RequestBody,
        of: BodyType<'_>,
    ) -> Result<(Value, Vec<String>), Status> {
        let validation = self.writing(None)?.options.field_validation;
        let (body, mut warnings) = self.decoded(body, of, validation).await?;
        let read = self.api.registry.read_answered(&self.request, of, body, validation);
        let (asked, unknown) = read.map_err(|status| status.after_warnings(warnings.clone()))?;
        warnings.extend(unknown);
        Ok((asked, warnings))
    }
}

/// Upstream decodes a custom resource by what it says it is.
fn without_kind(kind: &str, bytes: &[u8]) -> Status {
    /// So much of a body is shown a second time.
    const SHOWN: usize = 30;
    let short = &bytes[..bytes.len().min(SHOWN)];
    let mut shown = match bytes.first() {
        Some(b'{') => String::from_utf8_lossy(short).into_owned(),
        _ => short.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if bytes.len() > SHOWN {
        shown.push_str(" ...");
    }
    let body = String::from_utf8_lossy(bytes);
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in '{body}' ({shown})"
    ))
}
