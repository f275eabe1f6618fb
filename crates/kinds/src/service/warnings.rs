//! Warnings about services.

use crate::check::{Path, items, member, text, texts};
use crate::warnings::{Accepted, Warnings};
use crate::workload::SPEC;

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    let spec = write.spec();
    let kind = text(spec, "type");
    let headless = kind == "ClusterIP" && text(spec, "clusterIP") == "None";
    let external = !items(spec, "externalIPs").is_empty();
    if write.annotation(HINTS).is_some() {
        warnings.push(format!("annotation {HINTS} is deprecated, please use {MODE} instead"));
    }
    if !matches!(text(spec, "clusterIP"), "" | "None") {
        for (i, ip) in texts(spec, "clusterIPs").enumerate() {
            warnings.ip(&SPEC.child("clusterIPs").index(i), ip);
        }
    }
    if headless {
        if !text(spec, "loadBalancerIP").is_empty() {
            warnings.push("spec.loadBalancerIP is ignored for headless services");
        }
        if external {
            warnings.push("spec.externalIPs is ignored for headless services");
        }
        if text(spec, "sessionAffinity") != "None" {
            warnings.push("spec.SessionAffinity is ignored for headless services");
        }
    }
    for (i, ip) in texts(spec, "externalIPs").enumerate() {
        warnings.ip(&SPEC.child("externalIPs").index(i), ip);
    }
    if external && !headless && kind != "ExternalName" {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters");
    }
    if !text(spec, "loadBalancerIP").is_empty() {
        warnings.ip(&SPEC.child("loadBalancerIP"), text(spec, "loadBalancerIP"));
    }
    for (i, block) in texts(spec, "loadBalancerSourceRanges").enumerate() {
        warnings.cidr(&SPEC.child("loadBalancerSourceRanges").index(i), block);
    }
    if kind == "ExternalName" && external {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    }
    if kind != "ExternalName" && !text(spec, "externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"");
    }
    if member(spec, "trafficDistribution").and_then(|v| v.as_str()) == Some("PreferClose") {
        warnings.push_at(
            &SPEC.child("trafficDistribution"),
            "\"PreferClose\" is deprecated; use \"PreferSameZone\"",
        );
    }
}

/// Addresses of load balancers, which ingresses have too.
pub(crate) fn warn_status(write: &Accepted<'_>, warnings: &mut Warnings) {
    let Some(balancer) = write.new.at(&["status", "loadBalancer"]) else { return };
    let status = Path::Root("status");
    for (i, ingress) in items(balancer, "ingress").iter().enumerate() {
        if !text(ingress, "ip").is_empty() {
            warnings.ip(&status.child("loadBalancer").child("ingress").index(i), text(ingress, "ip"));
        }
    }
}
