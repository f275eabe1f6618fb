//! Patches: applied to the current object, then decoded and validated as strictly as the client wants.

use std::borrow::Cow;

use catalog::{Catalog, Schema, Storage, TypeId};
use codec::json;
use object::normalise::{Strict, normalise_decoded, restore_error, restore_numbers};
use object::patch;
use object::{FieldError, FieldValidation, Patch, Status, Value, deep, quote};

use crate::write::{ChangeRules, Creates, Extended, Written};
use crate::{Registry, RequestContext, decode, managed_fields};

/// What a patch is applied to.
#[derive(Clone, Copy)]
pub(crate) struct PatchedType<'a> {
    pub ty: TypeId,
    /// Where `ty` is looked up.
    pub schema: &'a Schema,
    /// For the error about a body of another type.
    pub catalog: &'a Catalog,
    pub kind: &'a str,
    pub api_version: &'a str,
    /// What the URL calls the object.
    pub name: &'a str,
    /// `None` for what is not stored.
    pub storage: Option<&'a Storage>,
    pub custom: bool,
}

impl Registry {
    pub async fn patch(&self, request: &RequestContext<'_>, mut patch: Patch) -> Result<Written, Status> {
        if let Patch::Apply(config) = patch {
            return self.apply(request, config, None).await;
        }
        let duplicates = patch.without_duplicates();
        let rules = ChangeRules {
            needs_version: true,
            names_uid: false,
            creates: Creates::Never,
            tracked: true,
            extended: Extended::Whole,
        };
        let resource = request.resource;
        let kind = kinds::kind_of_resource(resource);
        let api_version = resource.api_version();
        let of = PatchedType {
            ty: resource.ty,
            kind: &resource.kind,
            api_version: &api_version,
            name: request.name,
            storage: resource.storage.as_deref(),
            custom: resource.custom,
            schema: resource.schema(),
            catalog: request.catalog,
        };
        let validation = request.options.field_validation;
        self.change(request, rules, &mut |old| {
            let (mut new, mut messages) =
                Patching { of, patch: &patch, duplicates: &duplicates, old, validation }.apply()?;
            kinds::defaults::apply(kind, &resource.version, &mut new);
            decode::check_place(request, &mut new)
                .map_err(|status| status.after_warnings(messages.clone()))?;
            // Upstream says so as if an admission plugin had done it.
            messages.extend(kinds::dedup_owner_references(&mut new, true));
            Ok((new, messages))
        })
        .await
    }
}

/// A patch of one object, and how strictly its sender wants it read.
#[derive(Clone, Copy)]
pub(crate) struct Patching<'a> {
    pub of: PatchedType<'a>,
    pub patch: &'a Patch,
    /// Duplicate members, for strict field validation.
    pub duplicates: &'a [String],
    pub old: &'a Value,
    pub validation: FieldValidation,
}

impl Patching<'_> {
    /// The patched object, decoded, and the warnings about it.
    pub(crate) fn apply(self) -> Result<(Value, Vec<String>), Status> {
        let mut new = self.patched()?;
        self.check_type(&mut new)?;
        self.check_version_named(&new)?;
        self.decode(new)
    }

    fn is_strategic(&self) -> bool {
        matches!(self.patch, Patch::Strategic(_))
    }

    fn patched(&self) -> Result<Value, Status> {
        let (of, old) = (&self.of, self.old);
        let mut new = old.clone();
        if matches!(self.patch, Patch::Json(_)) {
            // Its paths may lead anywhere.
            managed_fields::expand(&mut new);
        }
        self.patch.apply(of.schema, of.ty, &mut new)?;
        if self.is_strategic() {
            // It changes the object itself, whose type is not one of its fields. What is not text is refused later.
            for name in ["kind", "apiVersion"] {
                let replaceable = |v: &Value| v.is_null() || v.as_str().is_some();
                if let Some(kept) = old.get(name).filter(|_| new.get(name).is_none_or(replaceable)) {
                    new.make_map().set(name, kept.clone());
                }
            }
        }
        Ok(new)
    }

    /// The patched document must be of the kind it was.
    fn check_type(&self, new: &mut Value) -> Result<(), Status> {
        let of = &self.of;
        if of.custom {
            return self.check_custom_type(new);
        }
        if let (Patch::Json(_), Some(bracket)) = (self.patch, patch::too_deep(new)) {
            let why = "couldn't get version/kind; json parse error: invalid character";
            return Err(self.refused(format!("{why} '{bracket}' exceeded max depth")));
        }
        if !self.is_strategic()
            && let Some(why) = decode::unreadable_type(new)
        {
            return Err(self.refused(why));
        }
        // Upstream decodes the result of a patch in the version it names, and converts it back to its own. The versions it can still
        // decode have the fields of ours, or lost some.
        if decode::is_in_another_version(of.kind, of.api_version, new) {
            new.make_map().set("apiVersion", of.api_version);
        }
        decode::check_type(of.catalog, of.kind, of.api_version, new).map_err(|status| {
            let why = status.message.split_once("cannot be handled as a ");
            match why.and_then(|(_, why)| why.split_once(": ")) {
                Some((_, why)) if !self.is_strategic() => self.refused(why.to_owned()),
                _ => status,
            }
        })
    }

    /// Validation names what is wrong with a type, if there is one.
    fn check_custom_type(&self, new: &Value) -> Result<(), Status> {
        let says = |name: &str| new.str_at(&[name]).is_some_and(|text| !text.is_empty());
        if !says("kind") {
            let shown = self.shown(new);
            return Err(self.refused(format!("Object 'Kind' is missing in '{shown}'")));
        }
        if !says("apiVersion") {
            let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
            return Err(Status::internal(why));
        }
        Ok(())
    }

    /// A document without a version is decoded by upstream into a type whose fields have no names in JSON: none of its members
    /// is known, and so the object has no name.
    fn check_version_named(&self, new: &Value) -> Result<(), Status> {
        if self.is_strategic() || !new.str_at(&["apiVersion"]).unwrap_or("").is_empty() {
            return Ok(());
        }
        let members = new.as_map().into_iter().flat_map(|m| m.iter().map(|(name, _)| &**name));
        let mut unknown: Vec<String> = members
            .filter(|name| !matches!(*name, "apiVersion" | "kind"))
            .map(|name| format!("unknown field {}", quote(name)))
            .collect();
        unknown.sort();
        if self.validation == FieldValidation::Strict {
            return Err(self.refused(format!("strict decoding error: {}", unknown.join(", "))));
        }
        let name = self.of.name;
        let why =
            format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
        let warnings = if self.validation == FieldValidation::Ignore { Vec::new() } else { unknown };
        Err(Status::bad_request(why).after_warnings(warnings))
    }

    /// The canonical form, with unknown and duplicate fields refused or warned about.
    fn decode(&self, mut new: Value) -> Result<(Value, Vec<String>), Status> {
        let of = &self.of;
        let ignores = self.validation == FieldValidation::Ignore;
        let mut strict = if ignores { Strict::off() } else { Strict::on() };
        if self.is_strategic() {
            restore_numbers(of.schema, of.ty, &mut new);
        }
        if let Err(error) = normalise_decoded(of.schema, of.ty, &mut new, &mut strict) {
            // The pass left half a tree; the refusal shows the whole patched object.
            return Err(match self.patch {
                Patch::Json(_) | Patch::Merge(_) | Patch::Apply(_) => self.refused(error.to_string()),
                Patch::Strategic(asked) => {
                    let mut tree = self.old.clone();
                    self.patch.apply(of.schema, of.ty, &mut tree)?;
                    let why = restore_error(of.schema, of.ty, &tree);
                    self.strategic_refusal(asked, why.unwrap_or_else(|| error.to_string()))
                }
            });
        }
        let unconvertible = decode::unconvertible(of.storage, &new);
        if let (false, Some(why)) = (self.is_strategic(), &unconvertible) {
            return Err(self.refused(why.clone()));
        }
        let mut messages = strict.into_messages();
        if let Some(storage) = of.storage {
            let (kind, version) = (kinds::kind_of(storage), of.api_version.rsplit('/').next().unwrap_or(""));
            let unknown = decode::pruned(kind, version, &mut new, self.validation);
            messages.extend(unknown.map_err(|why| self.refused(why))?);
        }
        if self.is_strategic() {
            messages.sort();
        }
        if !ignores {
            messages.splice(0..0, self.duplicates.iter().cloned());
        }
        if self.validation == FieldValidation::Strict && !messages.is_empty() {
            let why = format!("strict decoding error: {}", messages.join(", "));
            return Err(match self.patch {
                Patch::Json(_) | Patch::Merge(_) | Patch::Apply(_) => self.refused(why),
                Patch::Strategic(asked) => self.strategic_refusal(asked, why),
            });
        }
        match unconvertible {
            Some(why) => Err(Status::unknown(why).after_warnings(messages)),
            None => Ok((new, messages)),
        }
    }

    /// A document is shown as it would have been decoded.
    fn refused(&self, why: String) -> Status {
        let mut shown = self.old.clone();
        if let Err(status) = self.patch.apply(self.of.schema, self.of.ty, &mut shown) {
            return status;
        }
        let text = self.shown(&shown);
        Status::invalid("", "", "", vec![FieldError::invalid("patch", quote(&text), why)])
    }

    /// A document as upstream has it at hand: a custom resource is a map, with its members in order.
    fn shown(&self, document: &Value) -> String {
        let mut document = Cow::Borrowed(document);
        if self.of.custom {
            sort(document.to_mut());
        }
        String::from_utf8_lossy(&json::to_vec(&document)).into_owned()
    }

    /// A strategic patch is shown itself, not the object it led to.
    fn strategic_refusal(&self, asked: &Value, why: String) -> Status {
        let rest = patch::strategic::rest(self.of.schema, self.of.ty, self.old, asked);
        let shown = quote(&patch::go_text(&rest));
        Status::invalid("", "", "", vec![FieldError::invalid("patch", shown, why)])
    }
}

fn sort(value: &mut Value) {
    match value {
        Value::Map(map) => deep(|| {
            map.entries_mut().sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
            map.entries_mut().iter_mut().for_each(|(_, value)| sort(value));
        }),
        Value::List(list) => deep(|| list.iter_mut().for_each(sort)),
        Value::Raw(text) => {
            *value = json::expanded(text);
            sort(value);
        }
        _ => {}
    }
}
