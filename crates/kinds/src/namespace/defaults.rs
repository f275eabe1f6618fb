//! Namespaces: active, and labelled with their own name so that selectors can name one.

use object::Map;

use crate::defaults::fill::Literal::Text;
use crate::defaults::fill::{Default, at, fill, inside, plain, text};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const STATUS: &[Default] = &[plain("phase", Text("Active"))];

pub(crate) fn apply(namespace: &mut Map) {
    if let Some(metadata) = at(namespace, "metadata") {
        label(metadata);
    }
    if let Some(status) = inside(namespace, "status") {
        fill(status, STATUS);
    }
}

/// The label is always the name.
fn label(metadata: &mut Map) {
    let name = text(metadata, "name");
    let labelled = metadata.get("labels").and_then(|labels| labels.get(NAME_LABEL)).and_then(|l| l.as_str());
    if name.is_empty() || labelled == Some(name) {
        return;
    }
    let name = name.to_owned();
    if let Some(labels) = inside(metadata, "labels") {
        labels.set(NAME_LABEL, name);
    }
}
