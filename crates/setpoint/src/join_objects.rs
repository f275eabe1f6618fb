//! What lets nodes join with a bootstrap token: the roles kubeadm makes, and the ConfigMap that says whom to trust.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codec::json;
use object::Value;

/// The group of tokens that nodes join with.
pub const NODE_GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";

/// By kubeadm's names, so that its tools find them.
const ROLES: [&str; 10] = [
    // The others need it, and it comes later.
    r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-public"}}"#,
    r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"kubeadm:kubelet-bootstrap"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:bootstrappers:kubeadm:default-node-token"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"system:node-bootstrapper"}}"#,
    r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"kubeadm:node-autoapprove-bootstrap"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:bootstrappers:kubeadm:default-node-token"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"system:certificates.k8s.io:certificatesigningrequests:nodeclient"}}"#,
    r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"kubeadm:node-autoapprove-certificate-rotation"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:nodes"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"}}"#,
    r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"kubeadm:get-nodes"},"rules":[{"apiGroups":[""],"resources":["nodes"],"verbs":["get"]}]}"#,
    r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"kubeadm:get-nodes"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:bootstrappers:kubeadm:default-node-token"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"kubeadm:get-nodes"}}"#,
    r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"kubeadm:bootstrap-signer-clusterinfo","namespace":"kube-public"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"resourceNames":["cluster-info"],"verbs":["get"]}]}"#,
    r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"kubeadm:bootstrap-signer-clusterinfo","namespace":"kube-public"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"system:anonymous"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"kubeadm:bootstrap-signer-clusterinfo"}}"#,
    // Not kubeadm's: see `cluster_network`.
    r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"setpoint:cluster-network","namespace":"kube-public"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"resourceNames":["cluster-network"],"verbs":["get"]}]}"#,
    r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"setpoint:cluster-network","namespace":"kube-public"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:nodes"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"setpoint:cluster-network"}}"#,
];

pub fn roles() -> Vec<Value> {
    ROLES.iter().filter_map(|text| json::parse(text.as_bytes(), None).ok()).collect()
}

/// The ConfigMap `cluster-info`; tokens sign its kubeconfig.
pub fn cluster_info(server: &str, ca_pem: &str) -> Value {
    let kubeconfig = format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {}\n    server: {server}\n  name: \"\"\n\
         contexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {{}}\nusers: null\n",
        STANDARD.encode(ca_pem)
    );
    let mut map = Value::map();
    let metadata = map.map_at(&["metadata"]);
    metadata.set("name", "cluster-info");
    metadata.set("namespace", "kube-public");
    map.map_at(&["data"]).set("kubeconfig", kubeconfig);
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_objects_and_the_group_is_the_tokens() {
        assert_eq!(roles().len(), ROLES.len());
        let bound = ROLES.iter().filter(|text| text.contains(&format!("\"name\":\"{NODE_GROUP}\""))).count();
        assert_eq!(bound, 3);
    }

    #[test]
    fn cluster_info_is_a_kubeconfig() {
        let map = cluster_info("https://10.0.0.1:6443", "PEM");
        let text = map.str_at(&["data", "kubeconfig"]).expect("text");
        let tree = codec::yaml::parse(text.as_bytes()).expect("YAML");
        let clusters = tree.get("clusters").and_then(Value::as_list).expect("a list");
        assert_eq!(clusters[0].str_at(&["cluster", "server"]), Some("https://10.0.0.1:6443"));
    }
}
