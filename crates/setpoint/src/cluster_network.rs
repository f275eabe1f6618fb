//! The addresses of all pods, as every node needs to know them: the control plane publishes them in a ConfigMap, and nodes read it.
//!
//! ```text
//! --cluster-cidr of the control plane ── kube-public/cluster-network ── node: these see its pods under their own addresses
//! ```

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use client::resources::CONFIG_MAPS;
use client::{Client, WriteOptions};
use env::Env;
use network::addresses::Cidr;
use object::{Status, Value};

use crate::local_node;

const NAMESPACE: &str = "kube-public";
const NAME: &str = "cluster-network";
const CLUSTER_CIDR: &str = "cluster-cidr";

/// A server that takes longer to answer counts as away.
const ASK: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_secs(10);

/// Tells nodes, as soon as that can be written.
pub async fn publish(env: Env, client: Arc<dyn Client>, cluster_cidr: String) {
    let mut said = String::new();
    while let Err(status) = write(&*client, &cluster_cidr).await {
        if status.message != said {
            said = status.message;
            tracing::warn!(error = said, "failed to tell nodes the cluster CIDR, retrying");
        }
        env.sleep(RETRY).await;
    }
}

async fn write(client: &dyn Client, cluster_cidr: &str) -> Result<(), Status> {
    let target = CONFIG_MAPS.at(NAMESPACE, NAME);
    let mut map = match client.get(target).await {
        Ok(found) => runtime::tree(&found),
        Err(status) if status.code == 404 => {
            let mut map = Value::map();
            let metadata = map.map_at(&["metadata"]);
            metadata.set("name", NAME);
            metadata.set("namespace", NAMESPACE);
            map.map_at(&["data"]).set(CLUSTER_CIDR, cluster_cidr);
            let options = WriteOptions::default();
            return client.create(CONFIG_MAPS.within(NAMESPACE), map, options).await.map(drop);
        }
        Err(status) => return Err(status),
    };
    if map.str_at(&["data", CLUSTER_CIDR]) == Some(cluster_cidr) {
        return Ok(());
    }
    map.map_at(&["data"]).set(CLUSTER_CIDR, cluster_cidr);
    client.update(target, map, WriteOptions::default()).await.map(drop)
}

/// What was published; what was read last while the server is away. `directory`: the node's own.
pub async fn read(env: &Env, client: &dyn Client, directory: &Path) -> Vec<Cidr> {
    let asked = env.timeout(ASK, client.get(CONFIG_MAPS.at(NAMESPACE, NAME))).await;
    let asked = asked.unwrap_or_else(|_| Err(Status::unavailable("no answer")));
    known(asked.map(|map| runtime::tree(&map)), &directory.join(CLUSTER_CIDR))
}

fn known(asked: Result<Value, Status>, file: &Path) -> Vec<Cidr> {
    let text = match asked {
        Ok(map) => {
            let text = map.str_at(&["data", CLUSTER_CIDR]).unwrap_or_default().to_owned();
            let folder = file.parent().unwrap_or(Path::new("."));
            let written = kubelet::directories::make(folder).and_then(|()| std::fs::write(file, &text));
            if let Err(error) = written {
                tracing::warn!(file = %file.display(), %error, "failed to write");
            }
            text
        }
        Err(status) => {
            // Another control plane publishes none.
            tracing::debug!(error = status.message, "the cluster CIDR cannot be read");
            std::fs::read_to_string(file).unwrap_or_default()
        }
    };
    local_node::ranges(CLUSTER_CIDR, text.trim()).unwrap_or_else(|error| {
        tracing::warn!(%error, "the ConfigMap {NAMESPACE}/{NAME} cannot be used");
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_published_ranges_also_while_the_server_is_away() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("node/cluster-cidr");
        let texts = |asked| known(asked, &file).iter().map(Cidr::to_string).collect::<Vec<_>>();
        let away = || Err(Status::unavailable("away"));
        let map = |cidr: &str| {
            let mut map = Value::map();
            map.map_at(&["data"]).set(CLUSTER_CIDR, cidr);
            Ok(map)
        };
        assert!(texts(away()).is_empty());
        assert_eq!(texts(map("10.244.0.0/16,fd00::/48")), ["10.244.0.0/16", "fd00::/48"]);
        assert_eq!(texts(away()), ["10.244.0.0/16", "fd00::/48"]);
        assert!(texts(map("everything")).is_empty());
    }
}
