//! Deletes: options from the body or the query, and the answer.

use object::{
    DeleteOptions,
    normalise::{Strict, normalise},
};
use object::{Details, Map, Status, Value};

use super::Call;
use super::options::{list_options, parse_int};
use super::output::status_document;
use crate::body::RequestBody;
use crate::decode::decode;
use crate::negotiate::Offer;
use crate::request_info::Query;
use crate::respond::{self, Answer};

impl Call<'_> {
    pub(super) async fn delete(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::Object)?;
        let options = self.delete_options(body).await?;
        let deleted = self.api.registry.delete_shown(&self.request, &options).await;
        let deleted = deleted.map_err(|status| status.after_warnings(self.delete_warnings(&options)))?;
        let resource = self.request.resource;
        if !deleted.removed || self.returns_deleted() {
            let code = if !deleted.removed && options.orphan_dependents == Some(false) { 202 } else { 200 };
            let answer = self.object(code, &deleted.obj, wanted, false);
            return Ok(self.deleting(answer, &options, &deleted.warnings));
        }
        let details = Details {
            name: deleted.obj.name().into(),
            group: resource.group.to_string(),
            kind: resource.plural.to_string(),
            uid: deleted.obj.uid().into(),
            ..Details::default()
        };
        let mut success = status_document("Success");
        success.set("details", details.to_value());
        let answer = respond::value(self.request.catalog, 200, &Value::Map(success), wanted);
        Ok(self.deleting(answer, &options, &deleted.warnings))
    }

    /// The answer to a DELETE, with the warnings of its kind and of those who were asked.
    fn deleting(&self, mut answer: Answer, options: &DeleteOptions, warnings: &[String]) -> Answer {
        respond::warn(&mut answer, &[self.delete_warnings(options), warnings.to_vec()].concat());
        answer
    }

    /// They come first, and so with errors too.
    fn delete_warnings(&self, options: &DeleteOptions) -> Vec<String> {
        let warning = kinds::kind_of_resource(self.request.resource).warn_delete(options);
        warning.map(str::to_owned).into_iter().collect()
    }

    /// Some kinds answer a DELETE with the deleted object instead of a Status.
    fn returns_deleted(&self) -> bool {
        self.request.resource.storage.as_ref().is_some_and(|storage| storage.returns_deleted)
    }

    pub(super) async fn delete_collection(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = self.wanted(Offer::List)?;
        let list = list_options(self.query, self.info)?;
        let options = self.delete_options(body).await?;
        let deleted = self.api.registry.delete_collection(&self.request, &options, &list).await;
        let (deleted, warnings) =
            deleted.map_err(|status| status.after_warnings(self.delete_warnings(&options)))?;
        Ok(self.deleting(self.list_answer(deleted, wanted).await, &options, &warnings))
    }

    pub(super) async fn delete_options(&self, body: RequestBody) -> Result<DeleteOptions, Status> {
        let (bytes, _permit) = self.read(body).await?;
        let catalog = self.request.catalog;
        let ty = catalog.schema().find("meta.v1.DeleteOptions");
        let form = ty.map(|ty| (catalog.schema(), ty));
        let mut value = if bytes.is_empty() {
            delete_query(self.query)?
        } else {
            let value =
                decode(catalog, &self.parts.headers, &bytes, "DeleteOptions", form).map_err(|mut status| {
                    // Upstream reports options without the prefix it has for objects.
                    let prefix = "the object provided is unrecognized (must be of type DeleteOptions): ";
                    let named = "cannot be handled as a DeleteOptions: ";
                    if let Some(why) = status.message.strip_prefix(prefix) {
                        status.message = why.rsplit_once(" (").map_or(why, |(why, _)| why).to_owned();
                    } else if let Some((_, why)) = status.message.split_once(named) {
                        status.message = why.to_owned();
                    }
                    status
                });
            let value = value?.value;
            check_options_type(&value)?;
            value
        };
        if let Some(ty) = ty {
            normalise(catalog.schema(), ty, &mut value, &mut Strict::off())
                .map_err(|e| Status::bad_request(e.to_string()))?;
        }
        let options = kinds::delete_options(&value)?;
        if options.dry_run
            && let Some(trace) = self.request.trace
        {
            trace.set_dry_run();
        }
        Ok(options)
    }
}

/// Options may have no type, or the version of any group.
fn check_options_type(value: &Value) -> Result<(), Status> {
    let kind = value.str_at(&["kind"]).filter(|kind| !kind.is_empty()).unwrap_or("DeleteOptions");
    if kind == "DeleteOptions" {
        return Ok(());
    }
    let version = value.str_at(&["apiVersion"]).filter(|version| !version.is_empty()).unwrap_or("v1");
    Err(Status::bad_request(format!(
        "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/apis/meta/internalversion/scheme/register.go:27\""
    )))
}

/// DeleteOptions from the query, in the form of a body.
fn delete_query(query: &Query<'_>) -> Result<Value, Status> {
    let mut map = Map::default();
    if let Some(seconds) = query.find("gracePeriodSeconds") {
        map.set("gracePeriodSeconds", parse_int(seconds)?);
    }
    if let Some(policy) = query.find("propagationPolicy") {
        map.set("propagationPolicy", policy);
    }
    if query.find("orphanDependents").is_some() {
        map.set("orphanDependents", query.flag("orphanDependents"));
    }
    let dry_run: Vec<Value> = query.all("dryRun").map(Value::from).collect();
    if !dry_run.is_empty() {
        map.set("dryRun", dry_run);
    }
    Ok(Value::Map(map))
}
