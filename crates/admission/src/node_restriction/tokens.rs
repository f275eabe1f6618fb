//! Tokens a kubelet asks for: bound to a pod on its node, for an audience that pod has a use for.

use auth::Attributes;
use object::{About, Status, Value, quote};

use crate::{Attempt, Authorize, Operation};

pub fn check(
    authorize: &Authorize,
    attempt: &Attempt<'_>,
    node: &str,
    new: Option<&Value>,
) -> Result<(), Status> {
    let create = attempt.operation == Operation::Create && attempt.subresource == Some("token");
    let Some(request) = new.filter(|_| create) else { return Ok(()) };
    let no = |told: &str| Err(attempt.forbidden(told));
    let bound = |member: &str| request.str_at(&["spec", "boundObjectRef", member]).unwrap_or("");
    if bound("apiVersion") != "v1" || bound("kind") != "Pod" || bound("name").is_empty() {
        return no("node requested token not bound to a pod");
    }
    if bound("uid").is_empty() {
        return no("node requested token with a pod binding without a uid");
    }
    // Upstream's plugin asks a lister, and those have names of their own for what they do not find.
    let Some(obj) = attempt.find("", "pods", attempt.namespace, bound("name")) else {
        return Err(Status::not_found(About { group: "", resource: "pod" }, bound("name")));
    };
    if obj.uid() != bound("uid") {
        return Err(attempt.forbidden(format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have \
             been deleted and then recreated",
            bound("uid")
        )));
    }
    let pod = attempt.tree(&obj);
    if pod.str_at(&["spec", "nodeName"]).unwrap_or("") != node {
        return no("node requested token bound to a pod scheduled on a different node");
    }
    let audiences = request.at(&["spec", "audiences"]).and_then(Value::as_list).unwrap_or_default();
    let audience = match audiences {
        [] => "",
        [one] => one.as_str().unwrap_or(""),
        _ => return no("node may only request 0 or 1 audiences"),
    };
    let referred = refers(attempt, &pod, audience);
    if referred == Ok(true) {
        return Ok(());
    }
    let shown = quote(audience);
    if let Err(why) = referred {
        return Err(attempt.forbidden(format!("error validating audience {shown}: {why}")));
    }
    let wanted = Attributes {
        verb: "request-serviceaccounts-token-audience",
        resource: audience,
        name: attempt.name,
        namespace: attempt.namespace,
        ..Attributes::default()
    };
    if authorize(attempt.user, &wanted).allowed {
        return Ok(());
    }
    Err(attempt.forbidden(format!(
        "audience {shown} not found in pod spec volume, {} is not authorized to request tokens for this audience",
        attempt.user.name
    )))
}

/// Does a volume of the pod need tokens of this audience?
fn refers(attempt: &Attempt<'_>, pod: &Value, audience: &str) -> Result<bool, String> {
    let mut missing: Vec<String> = Vec::new();
    for volume in pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default() {
        let sources = volume.at(&["projected", "sources"]).and_then(Value::as_list).unwrap_or_default();
        let projected = |source: &Value| {
            let token = source.get("serviceAccountToken").filter(|t| !t.is_null());
            token.is_some_and(|token| token.str_at(&["audience"]).unwrap_or("") == audience)
        };
        if sources.iter().any(projected) {
            return Ok(true);
        }
        match driver(attempt, pod, volume).and_then(|driver| has_audience(attempt, &driver, audience)) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(why) => missing.push(why),
        }
    }
    match missing.as_slice() {
        [] => Ok(false),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// The CSI driver of a volume, empty where there is none.
/// Differs from kube-apiserver: volumes of the drivers once built in are not followed to their CSI successors.
fn driver(attempt: &Attempt<'_>, pod: &Value, volume: &Value) -> Result<String, String> {
    let text = |path: &[&str]| volume.str_at(path).unwrap_or("").to_owned();
    let claim = if volume.at(&["ephemeral", "volumeClaimTemplate"]).is_some() {
        format!("{}-{}", pod.str_at(&["metadata", "name"]).unwrap_or(""), text(&["name"]))
    } else {
        text(&["persistentVolumeClaim", "claimName"])
    };
    if claim.is_empty() {
        return Ok(text(&["csi", "driver"]));
    }
    let absent = |plural: &str, name: &str| format!("{plural} {} not found", quote(name));
    let found = attempt.find("", "persistentvolumeclaims", attempt.namespace, &claim);
    let found = found.ok_or_else(|| absent("persistentvolumeclaim", &claim))?;
    let found = attempt.tree(&found);
    let volume = found.str_at(&["spec", "volumeName"]).unwrap_or("");
    let found = attempt.find("", "persistentvolumes", "", volume);
    let found = attempt.tree(&*found.ok_or_else(|| absent("persistentvolume", volume))?);
    Ok(found.str_at(&["spec", "csi", "driver"]).unwrap_or("").to_owned())
}

fn has_audience(attempt: &Attempt<'_>, driver: &str, audience: &str) -> Result<bool, String> {
    if driver.is_empty() {
        return Ok(false);
    }
    let found = attempt.find("storage.k8s.io", "csidrivers", "", driver);
    let found = found.ok_or_else(|| format!("csidriver.storage.k8s.io {} not found", quote(driver)))?;
    let found = attempt.tree(&found);
    let requests = found.at(&["spec", "tokenRequests"]).and_then(Value::as_list).unwrap_or_default();
    Ok(requests.iter().any(|request| request.str_at(&["audience"]).unwrap_or("") == audience))
}
