//! `pods/binding`: a pod gets its node, once.

use kinds::pod::binding;
use object::{About, FieldValidation, Status, Value};

use crate::write::{ChangeRules, Creates, Extended};
use crate::{Registry, RequestContext, decode};

const ABOUT: About<'_> = About { group: "", resource: "pods/binding" };

impl Registry {
    /// Binds the pod the request names; `body` is a raw Binding. Answers with warnings.
    pub async fn bind(&self, request: &RequestContext<'_>, body: Value) -> Result<Vec<String>, Status> {
        self.bind_as(request, None, body).await
    }

    /// The same for the old resource `bindings`, which `asked` is about: so it is shown to policies and webhooks. It is no subresource,
    /// so the uid in the body is ignored.
    pub async fn bind_by_body(
        &self,
        request: &RequestContext<'_>,
        asked: &RequestContext<'_>,
        body: Value,
    ) -> Result<Vec<String>, Status> {
        self.bind_as(request, Some(asked), body).await
    }

    async fn bind_as(
        &self,
        request: &RequestContext<'_>,
        asked: Option<&RequestContext<'_>>,
        body: Value,
    ) -> Result<Vec<String>, Status> {
        let mut warnings = Vec::new();
        match self.try_bind(request, asked, body, &mut warnings).await {
            Ok(()) => Ok(warnings),
            Err(status) => Err(status.after_warnings(warnings)),
        }
    }

    async fn try_bind(
        &self,
        request: &RequestContext<'_>,
        asked: Option<&RequestContext<'_>>,
        mut body: Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let storage = request.storage()?;
        decode::check_type(request.catalog, "Binding", "v1", &body)?;
        warnings.extend(canonical(request, &mut body, "core.v1.Binding", request.options.field_validation)?);
        decode::check_namespace(request, &mut body)?;
        if asked.is_some() {
            body.map_at(&["metadata"]).remove("uid");
        }
        match asked {
            // On the heap, as it is rare.
            Some(asked) => Box::pin(self.mutate_binding(request, asked, &mut body, warnings)).await?,
            None => self.mutate_answered(request, &mut body, warnings).await?,
        }
        let named = body.str_at(&["metadata", "name"]).unwrap_or("");
        if named != request.name {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        let errors = binding::check(&body);
        if !errors.is_empty() {
            let texts: Vec<String> = errors.iter().map(|e| e.to_string()).collect();
            // Upstream's errors here are no API errors.
            return Err(Status::unknown(match texts.as_slice() {
                [one] => one.clone(),
                many => format!("[{}]", many.join(", ")),
            }));
        }
        match asked {
            Some(asked) => Box::pin(self.validate_binding(request, asked, &body, warnings)).await?,
            None => self.validate_answered(request, &body, warnings).await?,
        }
        Status::check_key_name(request.name)?;

        let text = |member| body.str_at(&["metadata", member]).filter(|t| !t.is_empty()).map(str::to_owned);
        let (uid, version) = (text("uid"), text("resourceVersion"));
        let now = self.env().now_seconds() as i64;
        let rules = ChangeRules {
            needs_version: false,
            names_uid: false,
            creates: Creates::Never,
            tracked: false,
            extended: Extended::Not,
        };
        self.change(request, rules, &mut |old| {
            let meets = |member: &str| old.str_at(&["metadata", member]).unwrap_or("").to_owned();
            let key = storage.key(request.namespace, request.name);
            let key = crate::write::key_in_message(&key, request.options.dry_run);
            for (member, label, wanted) in [("uid", "UID", &uid), ("resourceVersion", "ResourceVersion", &version)] {
                if let Some(wanted) = wanted
                    && *wanted != meets(member)
                {
                    let why = format!(
                        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
                         Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {}",
                        meets(member)
                    );
                    return Err(Status::conflict(request.about(), request.name, why));
                }
            }
            let mut pod = old.clone();
            binding::apply(&mut pod, &body, now).map_err(|why| Status::conflict(ABOUT, request.name, why))?;
            Ok((pod, Vec::new()))
        })
        .await
        .map(|_| ())
    }
}

/// Normalises the body of a subresource whose type is not its parent's.
pub(crate) fn canonical(
    request: &RequestContext<'_>,
    body: &mut Value,
    ty: &str,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    let schema = request.catalog.schema();
    let id = schema.find(ty).ok_or_else(Status::no_such_resource)?;
    let mut parts = ty.rsplit('.');
    let (kind, version) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    decode::canonical(schema, id, kind, version, body, validation)
}
