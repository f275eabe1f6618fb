//! One call: the review that is sent, and its answer.

use std::fmt::Display;

use admission::Attempt;
use codec::json;
use object::{Status, Value, quote};
use webhook::review::Expected;
use webhook::{CredentialsError, Kubeconfig, WebhookClient};

use super::hook::Webhook;
use super::response::{Unusable, Verdict, cut};
use crate::criteria::Invocation;
use crate::request::admission_request;

pub struct Call<'a> {
    pub attempt: &'a Attempt<'a>,
    pub hook: &'a Webhook,
    pub invocation: &'a Invocation,
    /// In the version of the invocation.
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
    pub mutating: bool,
}

/// Why a webhook's yes was not had.
#[derive(Debug)]
pub enum Failure {
    /// It could not be asked, or did not answer as it should: the failure policy decides.
    Calling { message: String, code: u16, canceled: bool },
    /// Its no.
    Rejected(Status),
    /// It cannot be asked about a dry run, or what came of its answer is of no use: the failure policy has no say.
    Internal(Status),
}

impl Call<'_> {
    /// The answer, once it is found to be one.
    pub async fn send(
        &self,
        client: &WebhookClient,
        kubeconfig: Option<&Kubeconfig>,
    ) -> Result<Verdict, Failure> {
        let (hook, attempt) = (self.hook, self.attempt);
        if attempt.dry_run {
            match hook.side_effects.as_deref() {
                None => return Err(self.calling("Webhook SideEffects is nil", 400)),
                Some("None" | "NoneOnDryRun") => {}
                Some(_) => {
                    let why = format!("admission webhook {} does not support dry run", quote(&hook.name));
                    return Err(Failure::Internal(Status::bad_request(why)));
                }
            }
        }
        let Some(version) = hook.review_version else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Err(self.calling(why, 400));
        };
        let no_client =
            |error: &dyn Display| self.calling(&format!("could not get REST client: {error}"), 500);
        let config = hook.client.as_ref().map_err(|error| no_client(error))?;
        let failed = |error: webhook::CallError| Failure::Calling {
            message: cut(error.of_admission(&hook.name)),
            code: error.code(),
            canceled: error.cause() == webhook::Cause::Canceled,
        };
        // However long it takes, others are served meanwhile.
        let waiting = hook.waiting.begin(&attempt.request.user.name);
        match (&waiting, attempt.request.seats) {
            (Some(_), Some(seats)) => seats.give_back(),
            (None, Some(seats)) => seats.keep().await.map_err(Failure::Internal)?,
            (_, None) => {}
        }
        // Within the request's own time.
        let left = attempt.deadline.saturating_duration_since(attempt.env.monotonic());
        let end = attempt.env.monotonic() + hook.timeout.min(left);
        let known = match kubeconfig {
            None => None,
            Some(kubeconfig) => {
                let call = webhook::Call::new(config, Vec::new(), hook.timeout.min(left));
                // A plugin may take its time; the call has no more for that.
                let known =
                    attempt.env.timeout(call.timeout, kubeconfig.authenticate(attempt.env, config)).await;
                Some(match known {
                    Ok(Ok(known)) => known,
                    Ok(Err(error @ CredentialsError::Unreadable(_))) => return Err(no_client(&error)),
                    Ok(Err(error)) => {
                        return Err(failed(call.not_sent(error.to_string(), webhook::Cause::Failed)));
                    }
                    Err(_) => {
                        let over = "context deadline exceeded".to_owned();
                        return Err(failed(call.not_sent(over, webhook::Cause::Deadline)));
                    }
                })
            }
        };
        let uid = attempt.env.uuid();
        let expected = Expected { group: "admission.k8s.io", version, kind: "AdmissionReview" };
        let body = self.review(&expected, &uid);
        let left = end.saturating_duration_since(attempt.env.monotonic());
        let call = webhook::Call::new(known.as_ref().map_or(config, |known| &known.config), body, left);
        let answer = client.post(call).await.and_then(|answer| answer.review(&expected));
        if let (Err(webhook::CallError::Refused { code: 401, .. }), Some(known)) = (&answer, &known) {
            known.refused();
        }
        let review = answer.map_err(failed)?;
        let catalog = self.attempt.catalog;
        Verdict::read(&review, &expected, &uid, self.mutating, catalog).map_err(|why| match why {
            Unusable::Undecodable(why) => self.calling(&format!("failed to call webhook: {why}"), 503),
            Unusable::Invalid(why) => self.calling(&format!("received invalid webhook response: {why}"), 503),
        })
    }

    fn calling(&self, why: &str, code: u16) -> Failure {
        let message = cut(format!("failed calling webhook {}: {why}", quote(&self.hook.name)));
        Failure::Calling { message, code, canceled: false }
    }

    /// The objects are written where they stand: no copy is made of them.
    fn review(&self, expected: &Expected, uid: &str) -> Vec<u8> {
        let mut request = admission_request(self.attempt, self.invocation);
        request.make_map().set("uid", uid);
        let mut out = Vec::with_capacity(2048);
        let (kind, api_version) = (expected.kind, expected.api_version());
        out.extend_from_slice(
            format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","request":"#).as_bytes(),
        );
        json::write(&request, &mut out);
        // The brace that ends the request.
        out.pop();
        for (name, object) in [("object", self.object), ("oldObject", self.old)] {
            out.extend_from_slice(format!(r#","{name}":"#).as_bytes());
            match object {
                Some(object) => json::write(object, &mut out),
                None => out.extend_from_slice(b"null"),
            }
        }
        out.extend_from_slice(b"}}");
        out
    }
}
