//! `--cluster-cidr`, `--node-cidr-mask-size` and what they must hold to.

use std::fmt;

use super::cidr::{Cidr, bits};

/// Of IPv6 upstream allows this many bits between the cluster's CIDR and a block; of IPv4, all of them.
const MOST_V6: u8 = 16;
const DEFAULT_V4: u8 = 24;
const DEFAULT_V6: u8 = 64;

/// What to allocate from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIpam {
    /// Each with the prefix length of its blocks; one, or one of each family.
    pub(super) clusters: Vec<(Cidr, u8)>,
    /// Never given to nodes: the services', and those of nodes that choose for themselves.
    pub(super) reserved: Vec<Cidr>,
    /// Only nodes that a kubelet has registered get any, and no simulated ones.
    pub(super) kubelets_only: bool,
    /// The node that writes its ranges into its object itself.
    pub(super) left_alone: Option<String>,
}

/// Why nothing can be allocated; the words are upstream's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeIpamError {
    Cluster(String),
    Sizes(&'static str),
    /// A cluster CIDR is smaller than one block of it.
    Smaller,
}

impl fmt::Display for NodeIpamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeIpamError::Cluster(why) => why,
            NodeIpamError::Sizes(why) => why,
            NodeIpamError::Smaller => {
                "Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to --node-cidr-mask-size configured for CIDR family"
            }
        })
    }
}

/// `--node-cidr-mask-size`, and the same by family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaskSizes {
    pub any: Option<u8>,
    pub v4: Option<u8>,
    pub v6: Option<u8>,
}

impl NodeIpam {
    pub fn new(cluster_cidr: &str, sizes: MaskSizes, services: Vec<Cidr>) -> Result<NodeIpam, NodeIpamError> {
        let refused = |why: &str| Err(NodeIpamError::Cluster(why.to_owned()));
        if cluster_cidr.trim().is_empty() {
            return refused("Must specify --cluster-cidr if --allocate-node-cidrs is set");
        }
        let mut clusters = Vec::new();
        for text in cluster_cidr.trim().split(',') {
            let invalid = || NodeIpamError::Cluster(format!("invalid CIDR[{}]: {text}", clusters.len()));
            clusters.push(Cidr::parse(text).ok_or_else(invalid)?);
        }
        let v6 = clusters.iter().filter(|cidr| cidr.is_v6).count();
        if clusters.len() > 1 && (v6 == 0 || v6 == clusters.len()) {
            return refused(&format!(
                "len of ClusterCIDRs=={} and they are not configured as dual stack (at least one from each IPFamily",
                clusters.len()
            ));
        }
        if clusters.len() > 2 {
            return refused(&format!(
                "length of clusterCIDRs is:{} more than max allowed of 2",
                clusters.len()
            ));
        }
        let (size_v4, size_v6) = sizes.of(clusters.len() > 1, v6 > 0)?;
        let sized = |cidr: Cidr| (cidr, if cidr.is_v6 { size_v6 } else { size_v4 });
        let clusters: Vec<(Cidr, u8)> = clusters.into_iter().map(sized).collect();
        for (cidr, size) in &clusters {
            if cidr.size > *size || *size > bits(cidr.is_v6) {
                return Err(NodeIpamError::Smaller);
            }
            if cidr.is_v6 && size - cidr.size > MOST_V6 {
                return refused("New CIDR set failed; the node CIDR size is too big");
            }
        }
        Ok(NodeIpam { clusters, reserved: services, kubelets_only: false, left_alone: None })
    }

    /// Leaves alone nodes that have no use for addresses: simulated ones, and objects that no kubelet has registered.
    pub fn kubelets_only(self) -> NodeIpam {
        NodeIpam { kubelets_only: true, ..self }
    }

    /// Never gives these to a node: this one has them, and says so itself.
    pub fn reserve(&mut self, node: &str, cidrs: impl IntoIterator<Item = Cidr>) {
        let before = self.reserved.len();
        self.reserved.extend(cidrs);
        if self.reserved.len() > before {
            self.left_alone = Some(node.to_owned());
        }
    }
}

impl MaskSizes {
    /// The sizes of both families.
    fn of(self, dual_stack: bool, single_v6: bool) -> Result<(u8, u8), NodeIpamError> {
        let by_family = (self.v4.unwrap_or(DEFAULT_V4), self.v6.unwrap_or(DEFAULT_V6));
        let refused = match self {
            MaskSizes { any: Some(_), .. } if dual_stack => {
                "usage of --node-cidr-mask-size is not allowed with dual-stack clusters"
            }
            _ if dual_stack => return Ok(by_family),
            MaskSizes { any: Some(size), v4: None, v6: None } => return Ok((size, size)),
            MaskSizes { any: Some(_), .. } => {
                "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if --node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags"
            }
            MaskSizes { v4: Some(_), .. } if single_v6 => {
                "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster"
            }
            MaskSizes { v6: Some(_), .. } if !single_v6 => {
                "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster"
            }
            _ => return Ok(by_family),
        };
        Err(NodeIpamError::Sizes(refused))
    }
}
