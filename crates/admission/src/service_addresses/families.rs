//! Which address families a service has: what it asks for, what the cluster has, and what may change.

use codec::json;
use object::{FieldError, Value, quote};

use super::Family;
use super::ServiceRanges;
use super::spec::{NONE, Spec, family_of};

const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";
const POLICY: &str = "spec.ipFamilyPolicy";

/// Services stored before there were families are read as if they had them.
pub(super) fn default_on_read(spec: &mut Spec, primary: Family) {
    if !spec.cluster_ip.is_empty() && spec.cluster_ips.is_empty() {
        spec.cluster_ips = vec![spec.cluster_ip.clone()];
    }
    if !spec.needs_address() || !spec.families.is_empty() {
        return;
    }
    let (policy, families) = if spec.cluster_ip == NONE {
        match spec.has_selector {
            true => (SINGLE, vec![primary]),
            false => (REQUIRE, vec![primary, primary.other()]),
        }
    } else {
        let families: Vec<Family> =
            spec.cluster_ips.iter().map(|ip| family_of(ip).unwrap_or(Family::V4)).collect();
        (if families.len() == 2 { REQUIRE } else { SINGLE }, families)
    };
    spec.policy = Some(policy.to_owned());
    spec.families = families.iter().map(|f| f.name().to_owned()).collect();
}

/// A service that prefers two families and is left as it is stays so, whatever the cluster has become.
pub(super) fn is_left_alone(spec: &Spec, old: Option<&Spec>) -> bool {
    let Some(old) = old else { return false };
    spec.policy.as_deref() == Some(PREFER)
        && old.policy.as_deref().is_none_or(|policy| policy == PREFER)
        && spec.kind == old.kind
        && matches!(spec.kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer")
        && spec.cluster_ips == old.cluster_ips
        && spec.families == old.families
}

/// Completes policy and families, or says why they cannot be. `check` is the validation of the fields as sent.
pub(super) fn complete(
    spec: &mut Spec,
    old: Option<&Spec>,
    cluster: &ServiceRanges,
    check: impl FnOnce(&Spec) -> Vec<FieldError>,
) -> Result<(), Vec<FieldError>> {
    if !spec.needs_address() || is_left_alone(spec, old) {
        return Ok(());
    }
    // Headless and without a selector: whoever writes the endpoints decides, so nothing is ruled out.
    let free = spec.cluster_ip == NONE && !spec.has_selector;
    let policy = match (&spec.policy, old.and_then(|old| old.policy.clone())) {
        (Some(policy), _) => policy.clone(),
        // Going from two families to one, or back, needs a word from the client.
        (None, Some(before)) => before,
        (None, None) if free => REQUIRE.to_owned(),
        (None, None) => SINGLE.to_owned(),
    };
    spec.policy = Some(policy.clone());
    refuse(check(spec))?;
    let single = policy == SINGLE;
    let wrong_policy = |detail: &str| FieldError::invalid(POLICY, quote(&policy), detail);

    let mut errors = Vec::new();
    if let Some(old) = old {
        if single {
            // As long as addresses and families were not touched, the policy says it all.
            if spec.cluster_ips == old.cluster_ips {
                spec.cluster_ips.truncate(1);
            }
            if spec.families == old.families {
                spec.families.truncate(1);
            }
        } else {
            let reduced = |now: &[String], before: &[String]| !now.is_empty() && now.len() < before.len();
            if reduced(&spec.cluster_ips, &old.cluster_ips) {
                errors.push(wrong_policy("must be 'SingleStack' to release the secondary cluster IP"));
            }
            if reduced(&spec.families, &old.families) {
                errors.push(wrong_policy("must be 'SingleStack' to release the secondary IP family"));
            }
        }
    }
    if single {
        let both = "must be 'RequireDualStack' or 'PreferDualStack' when multiple";
        if spec.cluster_ips.len() == 2 {
            errors.push(wrong_policy(&format!("{both} cluster IPs are specified")));
        }
        if spec.families.len() == 2 {
            errors.push(wrong_policy(&format!("{both} IP families are specified")));
        }
    }
    for (i, ip) in spec.cluster_ips.clone().iter().enumerate().take_while(|(_, ip)| *ip != NONE) {
        let Some(family) = family_of(ip).filter(|_| i >= spec.families.len()) else { continue };
        if cluster.has(family) {
            spec.families.push(family.name().to_owned());
        } else {
            let detail = format!("{} is not configured on this cluster", family.name());
            errors.push(FieldError::invalid(
                format!("spec.clusterIPs[{i}]"),
                shown_list(&spec.cluster_ips),
                detail,
            ));
        }
    }
    refuse(std::mem::take(&mut errors))?;

    if free {
        if spec.families.is_empty() {
            spec.families.push(cluster.default_family().name().to_owned());
        }
        if !single {
            add_other(spec);
        }
        return Ok(());
    }
    let dual = cluster.cluster().len() == 2;
    if policy == REQUIRE && !dual {
        errors.push(wrong_policy("this cluster is not configured for dual-stack services"));
    }
    for (i, family) in spec.families.iter().enumerate() {
        if Family::parse(family).is_none_or(|f| !cluster.has(f)) {
            let field = format!("spec.ipFamilies[{i}]");
            errors.push(FieldError::invalid(field, quote(family), "not configured on this cluster"));
        }
    }
    refuse(errors)?;
    if spec.families.is_empty() {
        spec.families.push(cluster.default_family().name().to_owned());
    }
    if !single && dual {
        add_other(spec);
    }
    Ok(())
}

/// A list as upstream shows it in a refusal.
pub(super) fn shown_list(texts: &[String]) -> String {
    let list = Value::List(texts.iter().map(|t| Value::from(t.as_str())).collect());
    String::from_utf8(json::to_vec(&list)).unwrap_or_default()
}

fn add_other(spec: &mut Spec) {
    if let [only] = &spec.families[..]
        && let Some(family) = Family::parse(only)
    {
        spec.families.push(family.other().name().to_owned());
    }
}

fn refuse(errors: Vec<FieldError>) -> Result<(), Vec<FieldError>> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
