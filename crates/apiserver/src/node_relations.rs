//! Which objects are related to a node, looked up in the table when the node authorizer asks.
//!
//! Pods are found by the index on `spec.nodeName`, so a look-up reads the pods of one node: a few hundred at most, and only those whose
//! text contains the name are parsed. Unlike upstream there is no graph to maintain.

use std::sync::Arc;

use admission::list_newest;
use auth::node::{Related, Relations, claims_of, is_mirror, refers, volume_secrets};
use codec::json;
use object::Obj;
use object::Value;
use object::selector::FieldSelector;
use table::{Scope, Selection, Table};

pub struct NodeRelations {
    table: Arc<Table>,
}

impl NodeRelations {
    pub fn new(table: Arc<Table>) -> NodeRelations {
        NodeRelations { table }
    }

    fn read(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let catalog = self.table.catalog();
        let storage = catalog.find_storage(group, plural)?;
        let obj = self.table.get(storage.id, &storage.key(namespace, name))?;
        json::parse(obj.body(), None).ok()
    }

    /// The pods bound to the node, of one namespace or of all.
    fn pods(&self, node: &str, scope: Scope) -> Vec<Arc<Obj>> {
        let found = || {
            let catalog = self.table.catalog();
            let resource = catalog.find("", "v1", "pods")?;
            let bound = FieldSelector::of("spec.nodeName", node);
            let selection = Selection::new(resource, scope, None, Some(&bound)).ok()?;
            // A failed read allows nothing.
            list_newest(&self.table, resource.storage.as_ref()?.id, &selection).ok()
        };
        found().map(|page| page.items).unwrap_or_default()
    }

    fn a_pod_refers(&self, node: &str, what: Related, namespace: &str, name: &str) -> bool {
        let quoted = format!("\"{name}\"");
        self.pods(node, Scope::Namespace(namespace.to_owned())).iter().any(|pod| {
            // The name of an ephemeral volume's claim is derived, and not in the text.
            let may = mentions(pod, &quoted)
                || (what == Related::PersistentVolumeClaim && mentions(pod, "\"ephemeral\""));
            may && json::parse(pod.body(), None).is_ok_and(|pod| refers(&pod, what, name))
        })
    }

    /// A secret of a volume whose claim a pod of the node uses.
    fn a_volume_needs(&self, node: &str, namespace: &str, name: &str) -> bool {
        self.pods(node, Scope::All).iter().any(|pod| {
            if !mentions(pod, "\"persistentVolumeClaim\"") && !mentions(pod, "\"ephemeral\"") {
                return false;
            }
            let Ok(tree) = json::parse(pod.body(), None) else { return false };
            !is_mirror(&tree)
                && claims_of(&tree).iter().any(|claim| {
                    let Some(volume) = self.volume_of(pod.namespace(), claim) else { return false };
                    volume_secrets(&volume).iter().any(|(ns, secret)| ns == namespace && secret == name)
                })
        })
    }

    /// The volume a claim is bound to. Both sides must say so: a volume alone could name anybody's claim.
    fn volume_of(&self, namespace: &str, claim: &str) -> Option<Value> {
        let found = self.read("", "persistentvolumeclaims", namespace, claim)?;
        let volume = self.read("", "persistentvolumes", "", found.str_at(&["spec", "volumeName"])?)?;
        (claim_of(&volume) == Some((namespace, claim))).then_some(volume)
    }
}

impl Relations for NodeRelations {
    fn relates(&self, node: &str, what: Related, namespace: &str, name: &str) -> bool {
        let on_node = |object: Option<Value>| {
            object.is_some_and(|o| o.str_at(&["spec", "nodeName"]).is_some_and(|n| n == node))
        };
        match what {
            Related::Pod => on_node(self.read("", "pods", namespace, name)),
            Related::VolumeAttachment => on_node(self.read("storage.k8s.io", "volumeattachments", "", name)),
            Related::ResourceSlice => on_node(self.read("resource.k8s.io", "resourceslices", "", name)),
            Related::PersistentVolume => {
                // Differs from kube-apiserver: that a provisioned volume is gone is no secret, and whoever made its directory
                // may learn that it can remove it.
                let Some(volume) = self.read("", "persistentvolumes", "", name) else {
                    return name.starts_with("pvc-");
                };
                let claim = claim_of(&volume);
                claim.is_some_and(|(namespace, claim)| {
                    self.a_pod_refers(node, Related::PersistentVolumeClaim, namespace, claim)
                })
            }
            Related::Secret => {
                self.a_pod_refers(node, what, namespace, name) || self.a_volume_needs(node, namespace, name)
            }
            Related::ConfigMap
            | Related::ServiceAccount
            | Related::PersistentVolumeClaim
            | Related::ResourceClaim => self.a_pod_refers(node, what, namespace, name),
        }
    }
}

fn claim_of(volume: &Value) -> Option<(&str, &str)> {
    let text = |field| volume.str_at(&["spec", "claimRef", field]);
    Some((text("namespace")?, text("name")?))
}

/// Names have no characters that JSON escapes, so the text of the body contains them as they are.
fn mentions(pod: &Obj, quoted: &str) -> bool {
    memchr::memmem::find(pod.body(), quoted.as_bytes()).is_some()
}
