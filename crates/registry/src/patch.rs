//! Patches: what one makes of the object that stands there, decoded and judged as strictly as the client wants.

use catalog::{Catalog, Schema, Storage, TypeId};
use codec::json;
use object::normalise::{Strict, normalise_decoded, restore_error, restore_numbers};
use object::patch;
use object::{FieldError, FieldValidation, Patch, Status, Value, quote};

use crate::write::{ChangeRules, Written};
use crate::{Registry, RequestContext, decode};

/// What a patch is applied to.
#[derive(Clone, Copy)]
pub(crate) struct PatchedType<'a> {
    pub ty: TypeId,
    /// Where `ty` is looked up.
    pub schema: &'a Schema,
    /// For the words about a body of another type.
    pub catalog: &'a Catalog,
    pub kind: &'a str,
    pub api_version: &'a str,
    /// What the URL calls the object.
    pub name: &'a str,
    /// `None` for what is not stored.
    pub storage: Option<&'a Storage>,
}

impl Registry {
    pub async fn patch(&self, request: &RequestContext<'_>, mut patch: Patch) -> Result<Written, Status> {
        let duplicates = patch.without_duplicates();
        let rules = ChangeRules { needs_version: true, names_uid: false, may_create: false };
        let resource = request.resource;
        let kind = kinds::kind_of_resource(resource);
        let api_version = resource.api_version();
        let of = PatchedType {
            ty: resource.ty,
            kind: &resource.kind,
            api_version: &api_version,
            name: request.name,
            storage: resource.storage.as_deref(),
            schema: resource.schema(),
            catalog: request.catalog,
        };
        self.change(request, rules, &mut |old| {
            let (mut new, mut messages) =
                self.patched(of, &patch, &duplicates, old, request.options.field_validation)?;
            kinds::defaults::apply(kind, &resource.version, &mut new);
            decode::check_place(request, &mut new)
                .map_err(|status| status.after_warnings(messages.clone()))?;
            // Upstream says so as if an admission plugin had done it.
            messages.extend(kinds::dedup_owner_references(&mut new, true));
            Ok((new, messages))
        })
        .await
    }

    /// Applies a patch to an object of that type.
    pub(crate) fn patched(
        &self,
        of: PatchedType<'_>,
        patch: &Patch,
        duplicates: &[String],
        old: &Value,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Status> {
        let mut new = old.clone();
        patch.apply(of.schema, of.ty, &mut new)?;
        if matches!(patch, Patch::Strategic(_)) {
            // It changes the object itself, whose type is no field of it. What is no text is refused below.
            for name in ["kind", "apiVersion"] {
                let kept = old
                    .get(name)
                    .filter(|_| new.get(name).is_none_or(|v| v.is_null() || v.as_str().is_some()));
                if let Some(kept) = kept {
                    new.make_map().set(name, kept.clone());
                }
            }
        }
        // A document is shown as it would have been decoded; a strategic patch is applied to the object itself.
        let refused = |why: String| {
            let mut shown = old.clone();
            patch.apply(of.schema, of.ty, &mut shown)?;
            let text = String::from_utf8_lossy(&json::to_vec(&shown)).into_owned();
            Err(Status::invalid("", "", "", vec![FieldError::invalid("patch", quote(&text), why)]))
        };
        // A strategic patch is shown itself, not the object it led to.
        let strategic_refusal = |asked: &Value, why: String| {
            let rest = patch::strategic::rest(of.schema, of.ty, old, asked);
            let shown = quote(&patch::go_text(&rest));
            Status::invalid("", "", "", vec![FieldError::invalid("patch", shown, why)])
        };
        if let (Patch::Json(_), Some(bracket)) = (patch, patch::too_deep(&new)) {
            let why = "couldn't get version/kind; json parse error: invalid character";
            return refused(format!("{why} '{bracket}' exceeded max depth"));
        }
        if !matches!(patch, Patch::Strategic(_))
            && let Some(why) = decode::unreadable_type(&new)
        {
            return refused(why);
        }
        // Upstream reads what a patch leads to in the version it names, and has it back in its own. Those it can still read have
        // the fields of ours, or lost some.
        if decode::is_in_another_version(of.kind, of.api_version, &new) {
            new.make_map().set("apiVersion", of.api_version);
        }
        if let Err(status) = decode::check_type(of.catalog, of.kind, of.api_version, &new) {
            let why = status
                .message
                .split_once("cannot be handled as a ")
                .and_then(|(_, why)| why.split_once(": "));
            return match (patch, why) {
                (Patch::Json(_) | Patch::Merge(_), Some((_, why))) => refused(why.to_owned()),
                _ => Err(status),
            };
        }
        // A document without a version is decoded by upstream into a type whose fields have no names in JSON: none of its
        // members is known, and so the object has no name.
        if !matches!(patch, Patch::Strategic(_)) && new.str_at(&["apiVersion"]).unwrap_or("").is_empty() {
            let members = new.as_map().into_iter().flat_map(|m| m.iter().map(|(name, _)| &**name));
            let mut unknown: Vec<String> = members
                .filter(|name| !matches!(*name, "apiVersion" | "kind"))
                .map(|name| format!("unknown field {}", quote(name)))
                .collect();
            unknown.sort();
            if validation == FieldValidation::Strict {
                return refused(format!("strict decoding error: {}", unknown.join(", ")));
            }
            let name = of.name;
            let why = format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be provided"
            );
            let told = if validation == FieldValidation::Ignore { Vec::new() } else { unknown };
            return Err(Status::bad_request(why).after_warnings(told));
        }
        let mut strict = if validation == FieldValidation::Ignore { Strict::off() } else { Strict::on() };
        if matches!(patch, Patch::Strategic(_)) {
            restore_numbers(of.schema, of.ty, &mut new);
        }
        if let Err(error) = normalise_decoded(of.schema, of.ty, &mut new, &mut strict) {
            // The pass left half a tree; the refusal shows the whole patched object.
            return match patch {
                Patch::Json(_) | Patch::Merge(_) => refused(error.to_string()),
                Patch::Strategic(asked) => {
                    let mut tree = old.clone();
                    patch.apply(of.schema, of.ty, &mut tree)?;
                    let why = restore_error(of.schema, of.ty, &tree);
                    Err(strategic_refusal(asked, why.unwrap_or_else(|| error.to_string())))
                }
            };
        }
        let unconvertible = decode::unconvertible(of.storage, &new);
        if let (Patch::Json(_) | Patch::Merge(_), Some(why)) = (patch, &unconvertible) {
            return refused(why.clone());
        }
        let mut messages = strict.into_messages();
        if matches!(patch, Patch::Strategic(_)) {
            messages.sort();
        }
        if validation != FieldValidation::Ignore {
            messages.splice(0..0, duplicates.iter().cloned());
        }
        if validation == FieldValidation::Strict && !messages.is_empty() {
            let why = format!("strict decoding error: {}", messages.join(", "));
            return match patch {
                Patch::Json(_) | Patch::Merge(_) => refused(why),
                Patch::Strategic(asked) => Err(strategic_refusal(asked, why)),
            };
        }
        match unconvertible {
            Some(why) => Err(Status::unknown(why).after_warnings(messages)),
            None => Ok((new, messages)),
        }
    }
}
