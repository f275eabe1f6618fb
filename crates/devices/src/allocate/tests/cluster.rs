//! A small cluster to allocate in.

use std::sync::Arc;

use object::Value;

use crate::allocate::{AllocateError, Allocator};
use crate::read::{list, text};
use crate::testing::json;
use crate::{Allocated, Allocation, Claim, Classes, DeviceClass, NodeView, Selectors, Slice, Slices};

#[derive(Default)]
pub(super) struct Cluster {
    pub node: String,
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    pub slices: Slices,
    pub classes: Classes,
    pub claims: Vec<Claim>,
    pub allocated: Allocated,
    pub selectors: Selectors,
}

impl Cluster {
    pub(super) fn parse(input: &Value) -> Cluster {
        let mut cluster = Cluster { node: text(input, "node").to_owned(), ..Cluster::default() };
        cluster.labels =
            crate::read::members(input.get("labels"), |value| Arc::from(value.as_str().unwrap_or("")));
        for slice in list(input, "slices") {
            cluster.add_slice(slice);
        }
        for class in list(input, "classes") {
            let class = DeviceClass::parse(class);
            cluster.classes.set(&class.name.clone(), Some(class));
        }
        for (i, held) in list(input, "held").iter().enumerate() {
            cluster.allocated.set(&i.to_string(), Some(&Allocation::parse(held)));
        }
        cluster.claims = list(input, "claims").iter().map(Claim::parse).collect();
        cluster
    }

    pub(super) fn add_slice(&mut self, tree: &Value) {
        let slice = Slice::parse(tree);
        self.slices.set(&slice.name.clone(), Some(slice));
    }

    pub(super) fn allocate(&self) -> Result<Option<Vec<Allocation>>, AllocateError> {
        self.allocate_until(&|| false)
    }

    pub(super) fn allocate_until(
        &self,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<Allocation>>, AllocateError> {
        let claims: Vec<&Claim> = self.claims.iter().collect();
        let node = NodeView { name: &self.node, labels: &self.labels };
        let allocator = Allocator::new(&self.slices, &self.classes, &self.allocated, &self.selectors);
        allocator.allocate(&node, &claims, interrupted, &|| "share".to_owned())
    }
}

/// Building one of pieces of JSON, the rest filled in.
impl Cluster {
    /// Node `n` and class `c`, which has no selectors.
    pub(super) fn new() -> Cluster {
        Cluster { node: "n".to_owned(), ..Cluster::default() }.class("c", "")
    }

    /// Members of a slice's spec; of driver `d`, on node `n` and alone in pool `p` where they do not say.
    pub(super) fn slice(mut self, name: &str, spec: &str) -> Cluster {
        let mut tree = json(&format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{{spec}}}}}"#));
        let spec = tree.map_at(&["spec"]);
        for (member, default) in [
            ("driver", Value::from("d")),
            ("pool", json(r#"{"name":"p","generation":1,"resourceSliceCount":1}"#)),
        ] {
            if !spec.contains(member) {
                spec.set(member, default);
            }
        }
        let scopes = ["nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"];
        if !scopes.iter().any(|scope| spec.contains(scope)) {
            spec.set("nodeName", "n");
        }
        self.add_slice(&tree);
        self
    }

    /// Members of a class's spec.
    pub(super) fn class(mut self, name: &str, spec: &str) -> Cluster {
        let tree = json(&format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{{spec}}}}}"#));
        self.classes.set(name, Some(DeviceClass::parse(&tree)));
        self
    }

    /// Requests of one more claim, of class `c` and for one device where they do not say.
    pub(super) fn claim(self, requests: &str) -> Cluster {
        self.claim_with(requests, "")
    }

    /// As [`Cluster::claim`], with more members of `devices`.
    pub(super) fn claim_with(mut self, requests: &str, more: &str) -> Cluster {
        let name = format!("claim-{}", self.claims.len());
        let more = if more.is_empty() { String::new() } else { format!(",{more}") };
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"ns"}},"spec":{{"devices":{{"requests":[{requests}]{more}}}}}}}"#
        );
        let mut tree = json(&text);
        let requests = tree.map_at(&["spec", "devices"]).get_mut("requests");
        let Some(Value::List(requests)) = requests else { panic!("no requests") };
        for request in requests.iter_mut().filter_map(Value::as_map_mut) {
            if let Some(Value::List(choices)) = request.get_mut("firstAvailable") {
                choices.iter_mut().filter_map(Value::as_map_mut).for_each(fill);
            } else {
                fill(request.entry("exactly".into()).make_map());
            }
        }
        self.claims.push(Claim::parse(&tree));
        self
    }

    /// A device someone has, with more members of the result.
    pub(super) fn held(mut self, pool: &str, device: &str, more: &str) -> Cluster {
        let more = if more.is_empty() { String::new() } else { format!(",{more}") };
        let text = format!(
            r#"{{"devices":{{"results":[{{"request":"r","driver":"d","pool":"{pool}","device":"{device}"{more}}}]}}}}"#
        );
        let holder = format!("{pool}/{device}{more}");
        self.allocated.set(&holder, Some(&Allocation::parse(&json(&text))));
        self
    }

    pub(super) fn label(mut self, key: &str, value: &str) -> Cluster {
        self.labels.push((key.into(), value.into()));
        self.labels.sort();
        self
    }

    /// The devices by claim as `request=pool/device`, or the reason there are none.
    pub(super) fn devices(&self) -> String {
        let of = |a: &Allocation| -> String {
            let devices =
                a.results.iter().map(|r| format!("{}={}/{}", r.request, r.device.pool, r.device.device));
            devices.collect::<Vec<_>>().join(" ")
        };
        match self.allocate() {
            Ok(Some(found)) => found.iter().map(of).collect::<Vec<_>>().join("; "),
            Ok(None) => "none".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// The allocation of the only claim, in JSON.
    pub(super) fn only(&self) -> String {
        let found = self.allocate().unwrap().unwrap();
        assert_eq!(found.len(), 1);
        String::from_utf8(codec::json::to_vec(&found[0].to_value())).unwrap()
    }
}

fn fill(wanted: &mut object::Map) {
    for (name, default) in [
        ("deviceClassName", Value::from("c")),
        ("allocationMode", Value::from("ExactCount")),
        ("count", Value::from(1)),
    ] {
        if !wanted.contains(name) {
            wanted.set(name, default);
        }
    }
}
