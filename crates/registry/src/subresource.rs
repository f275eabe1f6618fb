//! `scale`: a small object that stands for one number of a larger one.

use catalog::Storage;
use kinds::ScalePaths;
use object::{FieldValidation, Obj, Patch, Status, Value};
use parking_lot::Mutex;

use crate::managed_fields::{self, ScaleFields};
use crate::patch::{PatchedType, Patching};
use crate::write::{ChangeRules, Creates, Extended, Verb};
use crate::{Registry, RequestContext, apply, convert, decode};

pub(crate) const KIND: &str = "Scale";
pub(crate) const API_VERSION: &str = "autoscaling/v1";
/// The write of a scale: what it asks for waits here until policies and webhooks have seen it, if there are any.
pub(crate) struct ScaleChange<'a> {
    pub paths: &'a ScalePaths,
    /// The uid it names is a precondition of the parent's, so the scale itself is not compared with it.
    names_uid: bool,
    /// Guards what belongs to the try at hand; held to put it in or take it out.
    current: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    /// Mutating admission comes first; otherwise the scale is judged and written at once.
    waits: bool,
    /// The scale of the stored object, and the one that is wanted.
    scales: Option<(Value, Value)>,
}

impl<'a> ScaleChange<'a> {
    fn new(paths: &'a ScalePaths, names_uid: bool) -> ScaleChange<'a> {
        ScaleChange { paths, names_uid, current: Mutex::default() }
    }

    /// A try begins.
    pub fn begin(&self, waits: bool) {
        *self.current.lock() = Pending { waits, scales: None };
    }

    /// What the verb wants: moved into the object, or kept for mutating admission.
    fn put(
        &self,
        storage: &Storage,
        object: &mut Value,
        old: Value,
        mut wanted: Value,
    ) -> Result<(), Status> {
        let mut current = self.current.lock();
        if !current.waits {
            return self.apply(storage, object, &mut wanted);
        }
        // As upstream shows it: with the number that stands for none.
        current.scales = Some((old, wanted));
        Ok(())
    }

    pub fn take(&self) -> Result<(Value, Value), Status> {
        let scales = self.current.lock().scales.take();
        scales.ok_or_else(|| Status::internal("the scale to be written is gone"))
    }

    /// Moves a scale into its object, if it is valid.
    pub fn apply(&self, storage: &Storage, object: &mut Value, wanted: &mut Value) -> Result<(), Status> {
        if self.names_uid {
            wanted.map_at(&["metadata"]).remove("uid");
        }
        kinds::apply_scale(self.paths, storage, object, wanted)
    }
}

const NO_SCALE_IN_SCHEME: &str = "no kind is registered for the type v1.Scale in scheme \
                                  \"k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go:781\"";

impl Registry {
    pub async fn get_scale(
        &self,
        request: &RequestContext<'_>,
        resource_version: &str,
    ) -> Result<Value, Status> {
        let storage = request.storage()?;
        let obj = self.get(request, resource_version).await?;
        let paths = kinds::kind_of(storage).scale_paths(&request.resource.version);
        let paths = paths.ok_or_else(Status::no_such_resource)?;
        let tree = tree_of(request, storage, &obj);
        kinds::check_scale(paths, &tree)?;
        kinds::to_scale(paths, &tree)
    }

    pub async fn update_scale(
        &self,
        request: &RequestContext<'_>,
        mut body: Value,
    ) -> Result<(Value, Vec<String>), Status> {
        let undecodable = |status: Status| match request.resource.custom {
            // Upstream means to say more, and fails to find out what a Scale is.
            true => Status::bad_request(NO_SCALE_IN_SCHEME),
            false => status,
        };
        decode::check_type(request.catalog, KIND, API_VERSION, &body).map_err(undecodable)?;
        let ty = scale_type(request)?;
        let warnings = decode::canonical(
            request.catalog.schema(),
            ty,
            KIND,
            "v1",
            &mut body,
            request.options.field_validation,
        )
        .map_err(undecodable)?;
        decode::check_place(request, &mut body).map_err(|status| status.after_warnings(warnings.clone()))?;
        let changed = self.change_scale(request, true, true, &mut |_| Ok((body.clone(), Vec::new()))).await;
        match changed {
            Ok((scale, mut more)) => {
                more.splice(0..0, warnings);
                Ok((scale, more))
            }
            Err(status) => Err(status.after_warnings(warnings)),
        }
    }

    pub async fn patch_scale(
        &self,
        request: &RequestContext<'_>,
        mut patch: Patch,
    ) -> Result<(Value, Vec<String>), Status> {
        let of = PatchedType {
            ty: scale_type(request)?,
            schema: request.catalog.schema(),
            catalog: request.catalog,
            kind: KIND,
            api_version: API_VERSION,
            name: request.name,
            storage: None,
            custom: false,
        };
        // Differs from kube-apiserver: an apply that changes the scale of a custom resource is refused there with an internal
        // error, because it looks for a version of the custom resource where it has a Scale.
        if let Patch::Apply(config) = patch {
            return self.apply_scale(request, config, None).await;
        }
        let duplicates = patch.without_duplicates();
        let validation = request.options.field_validation;
        self.change_scale(request, false, true, &mut |old| {
            let (mut scale, warnings) =
                Patching { of, patch: &patch, duplicates: &duplicates, old, validation }.apply()?;
            decode::check_place(request, &mut scale)?;
            Ok((scale, warnings))
        })
        .await
    }

    /// As [`Registry::apply`].
    pub async fn apply_scale(
        &self,
        request: &RequestContext<'_>,
        config: Value,
        repeated: Option<&str>,
    ) -> Result<(Value, Vec<String>), Status> {
        let (schema, ty) = (request.catalog.schema(), scale_type(request)?);
        let mut wanted = |old: &Value| {
            let now = self.env().now_seconds() as i64;
            let mut scale = managed_fields::apply_scale(request, old, &config, now)?;
            let mut messages = apply::check_repeated(repeated, request.options.field_validation)?;
            messages.extend(decode::canonical(schema, ty, KIND, "v1", &mut scale, FieldValidation::Ignore)?);
            decode::check_place(request, &mut scale)?;
            Ok((scale, messages))
        };
        self.change_scale(request, false, false, &mut wanted).await
    }

    /// `make` turns the present scale into the wanted one. Its uid is a precondition of the parent's (`names_uid`), or
    /// compared with the parent's when the scale is looked at.
    async fn change_scale(
        &self,
        request: &RequestContext<'_>,
        names_uid: bool,
        tracked: bool,
        make: &mut Verb<'_>,
    ) -> Result<(Value, Vec<String>), Status> {
        let storage = request.storage()?;
        let paths = kinds::kind_of(storage).scale_paths(&request.resource.version);
        let paths = paths.ok_or_else(Status::no_such_resource)?;
        // The parent is written as itself: a scale has no rules of its own beyond its number.
        let parent = RequestContext { subresource: None, ..*request };
        let change = ScaleChange::new(paths, names_uid);
        let rules = ChangeRules {
            needs_version: false,
            names_uid,
            creates: Creates::Never,
            tracked: false,
            extended: Extended::Scale(&change),
        };
        let written = self
            .change(&parent, rules, &mut |old| {
                let managers = ScaleFields::of(request, storage, old)?;
                let before = managers.shown_in(kinds::to_scale(paths, old)?);
                let (mut wanted, warnings) = make(&before)?;
                let mut new = old.clone();
                managers.track(
                    request,
                    &before,
                    &mut wanted,
                    tracked,
                    &mut new,
                    self.env().now_seconds() as i64,
                );
                if names_uid && let Some(uid) = wanted.at(&["metadata", "uid"]) {
                    new.map_at(&["metadata"]).set("uid", uid.clone());
                }
                let version = wanted.str_at(&["metadata", "resourceVersion"]).unwrap_or("").to_owned();
                if version.is_empty() {
                    new.map_at(&["metadata"]).remove("resourceVersion");
                } else {
                    new.map_at(&["metadata"]).set("resourceVersion", version);
                }
                change.put(storage, &mut new, before, wanted)?;
                Ok((new, warnings))
            })
            .await?;
        let tree = tree_of(request, storage, &written.obj);
        Ok((kinds::to_scale(paths, &tree)?, written.warnings))
    }
}

/// As the paths of the scale mean it.
fn tree_of(request: &RequestContext<'_>, storage: &Storage, obj: &Obj) -> Value {
    match kinds::kind_of(storage).converts_last() {
        true => convert::body_in(request.resource, storage, obj),
        false => convert::tree(storage, obj),
    }
}

pub(crate) fn scale_type(request: &RequestContext<'_>) -> Result<catalog::TypeId, Status> {
    request.catalog.schema().find("autoscaling.v1.Scale").ok_or_else(Status::no_such_resource)
}
