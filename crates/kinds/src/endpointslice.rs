//! Endpoint slices.

mod columns;
mod defaults;
mod validation;
mod warnings;

use object::{Value, validate_text};

use crate::check::{items, member, text};
use crate::generic::GenericKind;
use crate::rules::{Generation, Rules};
use crate::same;

pub(crate) static KIND: GenericKind =
    GenericKind::new(Rules::PLAIN.with_generation(Generation::Content), validation::check)
        .with_create(|new| drop_topology(new, &[]))
        .with_update(|new, old| {
            if !same(new.get("endpoints"), old.get("endpoints")) {
                drop_topology(new, &node_names(old));
            }
        })
        .with_defaults(defaults::apply)
        .with_warnings(warnings::warn)
        .with_printer(&columns::PRINTER);

const TOPOLOGY: &str = "deprecatedTopology";
const HOST: &str = "kubernetes.io/hostname";

/// v1 does not accept the field. The node a stored endpoint has in it becomes its `nodeName`.
fn drop_topology(new: &mut Value, known: &[String]) {
    let Some(Value::List(endpoints)) = new.make_map().get_mut("endpoints") else { return };
    for endpoint in endpoints {
        let node = endpoint.str_at(&[TOPOLOGY, HOST]).map(str::to_owned);
        let fits = |node: &String| known.contains(node) && validate_text::dns1123_subdomain(node).is_empty();
        let named = member(endpoint, "nodeName").is_some();
        let Some(map) = endpoint.as_map_mut() else { continue };
        map.remove(TOPOLOGY);
        if let Some(node) = node.filter(|node| !named && fits(node)) {
            map.set("nodeName", node);
        }
    }
}

fn node_names(slice: &Value) -> Vec<String> {
    let none = Value::Null;
    let topologies = items(slice, "endpoints").iter().map(|e| e.get(TOPOLOGY).unwrap_or(&none));
    topologies.map(|t| text(t, HOST).to_owned()).filter(|node| !node.is_empty()).collect()
}
