//! Patches: the four patch types, and the errors of invalid ones.

use codec::{json, yaml};
use http::header::CONTENT_TYPE;
use object::patch::json::JsonPatch;
use object::{FieldError, FieldValidation, Patch, PatchType, Status, Value, quote};
use registry::RequestContext;

use super::Call;
use crate::body::RequestBody;
use crate::negotiate::Offer;
use crate::respond::Answer;

/// A patch as it was sent.
pub(super) struct ReadPatch {
    pub patch: Patch,
    /// Names that an apply has twice, as the YAML parser puts it.
    pub repeated: Option<String>,
}

impl Call<'_> {
    pub(super) async fn patch(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let (ReadPatch { patch, repeated }, request) = self.read_patch(body).await?;
        let registry = &self.api.registry;
        let written = match patch {
            Patch::Apply(config) => registry.apply(&request, config, repeated.as_deref()).await?,
            patch => registry.patch(&request, patch).await?,
        };
        self.effect(&request, &written).await;
        Ok(self.written(written, wanted))
    }

    /// The patch of a request, and the request with its options. An invalid patch of a missing object is a 404: upstream parses it
    /// after it has read the object.
    pub(super) async fn read_patch(
        &self,
        body: RequestBody,
    ) -> Result<(ReadPatch, RequestContext<'_>), Status> {
        let kind = self.patch_kind()?;
        let (bytes, _permit) = self.read(body).await?;
        let request = self.writing(Some(kind))?;
        match read_as(kind, &bytes, request.options.field_validation) {
            Ok(patch) => Ok((patch, request)),
            // An apply would create the object.
            Err(status) if kind == PatchType::Apply => Err(status),
            Err(status) => {
                self.api.registry.get(&self.request, "").await?;
                Err(status)
            }
        }
    }

    fn patch_kind(&self) -> Result<PatchType, Status> {
        let content_type = self.parts.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
        let form = content_type.split(';').next().unwrap_or("").trim();
        let kind = PatchType::of_content_type(form);
        if self.request.resource.custom && matches!(kind, None | Some(PatchType::Strategic)) {
            return Err(Status::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            ));
        }
        kind.ok_or_else(|| Status::unsupported_media_type("415: Unsupported Media Type").with_empty_details())
    }
}

fn read_as(form: PatchType, bytes: &[u8], validation: FieldValidation) -> Result<ReadPatch, Status> {
    if form == PatchType::Apply {
        return read_apply(bytes);
    }
    // With `fieldValidation=Ignore` upstream parses the patch only when it applies it, which changes the errors.
    let unchecked = validation == FieldValidation::Ignore;
    let value = json::parse(bytes, None).map_err(|e| match form {
        PatchType::Merge if unchecked => Status::bad_request(NO_MERGE_PATCH),
        PatchType::Json | PatchType::Merge if !unchecked => {
            Status::bad_request(format!("error decoding patch: {e}"))
        }
        _ => Status::bad_request(e.to_string()),
    })?;
    let patch = match form {
        PatchType::Json if unchecked => Patch::Json(JsonPatch::parse_unchecked(value)?),
        PatchType::Json => Patch::Json(JsonPatch::parse(value)?),
        PatchType::Merge if unchecked => Patch::Merge(merge_patch(value)?),
        PatchType::Merge => Patch::Merge(value),
        PatchType::Strategic | PatchType::Apply => Patch::Strategic(value),
    };
    Ok(ReadPatch { patch, repeated: None })
}

fn read_apply(bytes: &[u8]) -> Result<ReadPatch, Status> {
    let refused = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let document = yaml::parse_document(bytes)
        .map_err(|error| refused(format!("error converting YAML to JSON: {error}")))?;
    let found = match document.value {
        Value::Map(_) | Value::Null => {
            return Ok(ReadPatch { patch: Patch::Apply(document.value), repeated: document.duplicates });
        }
        Value::List(_) => "array",
        Value::Str(_) => "string",
        Value::Bool(_) => "bool",
        _ => "number",
    };
    Err(refused(format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    )))
}

const NO_MERGE_PATCH: &str = "Invalid JSON Patch";

/// A merge patch that is not validated: a list would replace the object.
fn merge_patch(patch: Value) -> Result<Value, Status> {
    match patch {
        Value::Map(_) | Value::Null => Ok(patch),
        Value::List(mut list) => {
            list.retain(|item| !item.is_null());
            let shown = json::to_vec(&Value::List(list));
            let why = "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { \
                       APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
            let error = FieldError::invalid("patch", quote(&String::from_utf8_lossy(&shown)), why);
            Err(Status::invalid("", "", "", vec![error]))
        }
        _ => Err(Status::bad_request(NO_MERGE_PATCH)),
    }
}
