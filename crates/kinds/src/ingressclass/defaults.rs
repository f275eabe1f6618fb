//! Ingress classes: parameters are an object of the cluster.

use object::Map;

use crate::defaults::fill::Literal::Text;
use crate::defaults::fill::{Default, at, fill, pointer};

const PARAMETERS: &[Default] = &[pointer("scope", Text("Cluster"))];

pub(crate) fn apply(class: &mut Map) {
    if let Some(parameters) = at(class, "spec").and_then(|spec| at(spec, "parameters")) {
        fill(parameters, PARAMETERS);
    }
}
