//! The result of a search as a claim's allocation: its devices, their configuration, and the nodes they can be used on.

use std::sync::Arc;

use object::{Map, Value};

use super::ground::Ground;
use super::requests::{ClaimState, Given};
use crate::allocation::{Allocation, DeviceResult, texts};
use crate::class::DeviceClass;
use crate::node::{NodeScope, Requirement, Term};

pub(super) fn allocation(
    ground: &Ground<'_, '_>,
    claim: &ClaimState<'_, '_>,
    share_id: &dyn Fn() -> String,
) -> Result<Allocation, String> {
    let results = claim.given.iter().map(|given| result(ground, claim, given, share_id));
    let node_selector = node_selector(ground, claim);
    Ok(Allocation {
        results: results.collect(),
        config: config(claim),
        node_selector: node_selector
            .map_err(|error| format!("create NodeSelector for claim {}: {error}", claim.claim.name))?,
    })
}

fn result(
    ground: &Ground<'_, '_>,
    claim: &ClaimState<'_, '_>,
    given: &Given,
    share_id: &dyn Fn() -> String,
) -> DeviceResult {
    let device = ground.device(given.device);
    let request = &claim.requests[given.request];
    let wanted = request.choices[given.choice].wanted;
    DeviceResult {
        request: request.name(given.choice),
        device: ground.id(given.device),
        admin_access: wanted.is_admin().then_some(true),
        tolerations: wanted.tolerations.clone(),
        binding_conditions: device.binding_conditions.clone(),
        binding_failure_conditions: device.binding_failure_conditions.clone(),
        share_id: given.consumed.is_some().then(|| share_id().into()),
        consumed_capacity: given.consumed.clone().filter(|consumed| !consumed.is_empty()),
    }
}

/// Configuration of the classes first, each once for all its requests, then that of the claim.
fn config(claim: &ClaimState<'_, '_>) -> Vec<Value> {
    // With the requests of each.
    let mut classes: Vec<(&DeviceClass, Vec<Arc<str>>)> = Vec::new();
    for request in &claim.requests {
        let class = request.choices[request.chosen].class;
        let name: Arc<str> = request.name(request.chosen).into();
        match classes.iter_mut().find(|(known, _)| known.name == class.name) {
            Some((_, requests)) => requests.push(name),
            None => classes.push((class, vec![name])),
        }
    }
    let mut config = Vec::new();
    for (class, requests) in &classes {
        config.extend(class.config.iter().map(|own| entry("FromClass", requests, own)));
    }
    for own in &claim.claim.config {
        let concerns = |name: &str| own.requests.iter().any(|request| **request == *name);
        // Once for each request it names, as upstream does.
        let times = if own.requests.is_empty() {
            1
        } else {
            let named = claim
                .requests
                .iter()
                .filter(|request| concerns(&request.request.name) || concerns(&request.name(request.chosen)));
            named.count()
        };
        config.extend((0..times).map(|_| entry("FromClaim", &own.requests, &own.configuration)));
    }
    config
}

fn entry(source: &'static str, requests: &[Arc<str>], configuration: &Value) -> Value {
    let mut entry = Map::default();
    entry.set("source", source);
    if !requests.is_empty() {
        entry.set("requests", texts(requests));
    }
    for (name, value) in configuration.as_map().into_iter().flat_map(Map::iter) {
        entry.set(name.clone(), value.clone());
    }
    Value::Map(entry)
}

/// Where all devices can be used: on the node itself if one of them is of it or binds to it.
fn node_selector(ground: &Ground<'_, '_>, claim: &ClaimState<'_, '_>) -> Result<Option<Value>, String> {
    let mut term = Term::default();
    for given in &claim.given {
        let (slice, place) = ground.slice(given.device);
        let device = &slice.devices[place];
        let scope = if slice.per_device { &device.node } else { &slice.node };
        if device.binds_to_node || matches!(scope, NodeScope::Named(_)) {
            let fields = vec![Requirement::is_node(ground.node.name)];
            return Ok(Some(selector(&Term { fields, ..Term::default() })));
        }
        let NodeScope::Selected(selector) = scope else { continue };
        match selector.terms.as_slice() {
            [] => {}
            [own] => {
                extend(&mut term.fields, &own.fields);
                extend(&mut term.expressions, &own.expressions);
            }
            many => return Err(format!("unsupported ResourceSlice.NodeSelector with {} terms", many.len())),
        }
    }
    Ok((term != Term::default()).then(|| selector(&term)))
}

fn extend(requirements: &mut Vec<Requirement>, more: &[Requirement]) {
    for requirement in more {
        if !requirements.iter().any(|own| own.is_same(requirement)) {
            requirements.push(requirement.clone());
        }
    }
}

fn selector(term: &Term) -> Value {
    let mut selector = Map::default();
    selector.set("nodeSelectorTerms", vec![term.to_value()]);
    Value::Map(selector)
}
