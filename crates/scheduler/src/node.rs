//! What the scheduler keeps of a Node.

use std::sync::Arc;

use object::Value;

use crate::features::Features;
use crate::read::{Labels, amounts, int, labels, list, text};
use crate::taint::Taint;

pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub name: Arc<str>,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    /// By name, cpu in thousandths.
    pub allocatable: Vec<(Arc<str>, i64)>,
    /// Every name of an image, and its size.
    pub images: Vec<(Arc<str>, i64)>,
    /// Those of the declared features that pods can need.
    pub features: Features,
}

impl Node {
    pub fn parse(tree: &Value) -> Node {
        let (spec, status) = (tree.get("spec"), tree.get("status"));
        let mut images = Vec::new();
        for image in list(status, "images") {
            let size = int(image, "sizeBytes").unwrap_or(0);
            let names = list(Some(image), "names").iter().filter_map(Value::as_str);
            images.extend(names.map(|name| (Arc::from(name), size)));
        }
        let declared = list(status, "declaredFeatures").iter().filter_map(Value::as_str);
        let allocatable = amounts(status.and_then(|s| s.get("allocatable")));
        Node {
            name: tree.str_at(&["metadata", "name"]).unwrap_or("").into(),
            labels: labels(tree.at(&["metadata", "labels"])),
            taints: Taint::parse_all(spec),
            unschedulable: spec
                .and_then(|s| s.get("unschedulable"))
                .and_then(Value::as_bool)
                .unwrap_or(false),
            allocatable: allocatable.into_iter().map(|(name, amount)| (name.into(), amount)).collect(),
            images,
            features: Features::declared(declared),
        }
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        crate::read::label(&self.labels, key)
    }

    pub fn allocatable(&self, resource: &str) -> i64 {
        self.allocatable.iter().find(|(name, _)| name.as_ref() == resource).map_or(0, |(_, amount)| *amount)
    }

    /// Region and zone as one word, for taking nodes of different zones in turn.
    pub fn zone_key(&self) -> String {
        let old = |new: &str, old: &str| self.label(new).or_else(|| self.label(old)).unwrap_or("").to_owned();
        let region = old(REGION, "failure-domain.beta.kubernetes.io/region");
        let zone = old(ZONE, "failure-domain.beta.kubernetes.io/zone");
        format!("{region}\0{zone}")
    }
}

/// The name a node reports an image by: with a tag.
pub fn image_name(name: &str) -> String {
    let tagged = match (name.rfind(':'), name.rfind('/')) {
        (Some(colon), Some(slash)) => colon > slash,
        (Some(_), None) => true,
        (None, _) => false,
    };
    if tagged { name.to_owned() } else { format!("{name}:latest") }
}

/// The text of a member; used where a value may be absent.
pub(crate) fn text_of<'a>(value: Option<&'a Value>, name: &str) -> &'a str {
    value.map_or("", |v| text(v, name))
}
