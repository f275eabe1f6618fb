//! CertificateApproval, CertificateSigning and CertificateSubjectRestriction: who may decide about certificates, and
//! what none of them may say. And what cannot be switched off: a request is a request.

use auth::Attributes;
use auth::pki::{RequestError, SigningRequest, not_after};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object::{FieldError, Status, Value, quote};

use crate::{Attempt, Authorize, Effects, Operation, Plugin, Refusal};

const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "certificatesigningrequests";
const API_SERVER_CLIENT: &str = "kubernetes.io/kube-apiserver-client";

/// Approving or denying needs the right to approve for that signer.
pub struct CertificateApproval(pub Authorize);

/// Writing the certificate, or that it failed, needs the right to sign for that signer.
pub struct CertificateSigning(pub Authorize);

/// No certificate for `system:masters`: it could not be taken back.
pub struct CertificateSubjectRestriction;

/// What is asked for must be readable, and signed by who asks.
pub struct CertificateRequests;

/// The request inside a CertificateSigningRequest.
pub fn request_of(csr: &Value) -> Result<SigningRequest, RequestError> {
    let text = csr.str_at(&["spec", "request"]).unwrap_or("");
    let pem = STANDARD.decode(text).map_err(|_| RequestError::NotPem)?;
    SigningRequest::from_pem(&pem)
}

impl Plugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        if new.is_none() || !attempt.is_or_below(GROUP, PLURAL) || attempt.subresource != Some("approval") {
            return Ok(());
        }
        may(&self.0, attempt, "approve", signer(attempt.old))
    }
}

impl Plugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        let (Some(new), Some(old)) = (new, attempt.old) else { return Ok(()) };
        if !attempt.is_or_below(GROUP, PLURAL) || attempt.subresource != Some("status") {
            return Ok(());
        }
        let same = |member| filled(old.at(&["status", member])) == filled(new.at(&["status", member]));
        if same("certificate") && same("conditions") {
            return Ok(());
        }
        may(&self.0, attempt, "sign", signer(attempt.old))
    }
}

impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        let Some(new) = new.filter(|_| attempt.operation == Operation::Create && attempt.is(GROUP, PLURAL))
        else {
            return Ok(());
        };
        if signer(Some(new)) != API_SERVER_CLIENT {
            return Ok(());
        }
        let request =
            request_of(new).map_err(|error| attempt.forbidden(format!("failed to parse CSR: {error}")))?;
        if request.organizations().contains(&auth::groups::MASTERS) {
            let told = format!("use of {API_SERVER_CLIENT} signer with system:masters group is not allowed");
            return Err(attempt.forbidden(told).into());
        }
        Ok(())
    }
}

impl Plugin for CertificateRequests {
    fn name(&self) -> &'static str {
        "CertificateRequests"
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        let Some(new) = new.filter(|_| attempt.is_or_below(GROUP, PLURAL)) else { return Ok(()) };
        let broken = if attempt.operation == Operation::Create {
            let shown = || quote(&shortened(new.str_at(&["spec", "request"]).unwrap_or("")));
            let checked = request_of(new).and_then(|request| request.verify());
            checked.map_err(|error| FieldError::invalid("spec.request", shown(), error.to_string()))
        } else {
            certificate(new, attempt.old)
        };
        let invalid =
            |broken| Status::invalid(GROUP, "CertificateSigningRequest", attempt.name, vec![broken]).into();
        broken.map_err(invalid)
    }
}

/// What a signer writes is a certificate.
fn certificate(new: &Value, old: Option<&Value>) -> Result<(), FieldError> {
    let path = ["status", "certificate"];
    let text = new.str_at(&path).unwrap_or("");
    if text.is_empty() || old.and_then(|old| old.str_at(&path)) == Some(text) {
        return Ok(());
    }
    let invalid = |why: String| FieldError::invalid("status.certificate", "<certificate data>", why);
    let Ok(pem) = STANDARD.decode(text) else { return Err(invalid("it is not base64".into())) };
    if not_after(&pem).is_none() {
        return Err(invalid("must contain at least one CERTIFICATE PEM block".into()));
    }
    Ok(())
}

/// A refusal must not repeat a megabyte.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 200;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn signer(csr: Option<&Value>) -> &str {
    csr.and_then(|csr| csr.str_at(&["spec", "signerName"])).unwrap_or("")
}

/// Empty is as good as absent.
fn filled(value: Option<&Value>) -> Option<&Value> {
    value.filter(|v| match v {
        Value::Null => false,
        Value::Str(text) => !text.is_empty(),
        Value::List(list) => !list.is_empty(),
        _ => true,
    })
}

/// For the signer itself, or for all of its domain.
fn may(authorize: &Authorize, attempt: &Attempt<'_>, verb: &str, signer: &str) -> Result<(), Refusal> {
    let domain = signer.split_once('/').map_or(signer, |(domain, _)| domain);
    let wildcard = format!("{domain}/*");
    let allowed = [signer, &wildcard].into_iter().any(|name| {
        let wanted = Attributes { verb, group: GROUP, resource: "signers", name, ..Attributes::default() };
        authorize(attempt.user, &wanted).allowed
    });
    if allowed {
        return Ok(());
    }
    let told = format!("user not permitted to {verb} requests with signerName {}", quote(signer));
    Err(attempt.forbidden(told).into())
}
