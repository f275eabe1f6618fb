//! CertificateApproval, CertificateSigning and CertificateSubjectRestriction: who may decide about certificates, and
//! what none of them may say.

use auth::Attributes;
use auth::pki::request_of;
use object::{Value, quote};

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
